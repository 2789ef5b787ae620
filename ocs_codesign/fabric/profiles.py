"""Profiles of real switch technologies; every number with where it comes from.

"Class value" marks a number that is usual for the technology, where no figure of one product is
public; then it is from the pessimistic end of its range. "Product data" marks what a vendor states,
as the literature quotes it and not from a dated data sheet; ask the vendor before you buy. Prices
are estimates. Two numbers call for care: "N x N" counts the ports of a side, and dead times are
those of the light, without what control software adds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ocs_codesign.fabric.description import PortModel, Source, SwitchProfile
from ocs_codesign.reconfigure.change import ReconfigurationCost

if TYPE_CHECKING:
    from collections.abc import Mapping

_APOLLO = "R. Urata et al., Mission Apollo, arXiv:2208.10041 (2022)"
_LIGHTWAVE = "H. Liu et al., Lightwave Fabrics, SIGCOMM 2023"
_CALIENT = "Calient S320 OCS Hardware User Guide, appendix A"
_POLATIS = "Huber+Suhner Polatis 7000 series, product data"
_HAN = "S. Han, Highly Scalable Silicon Photonic Switches, UCB/EECS-2016-190 (2016)"
_ROTORNET = "W. M. Mellette et al., RotorNet, SIGCOMM 2017"
_ROTOR_BUILT = "W. M. Mellette et al., Realizing RotorNet, SIGCOMM 2024, 10.1145/3651890.3672273"
_SIRIUS = "H. Ballani et al., Sirius, SIGCOMM 2020"
_TELESCENT = "Telescent network topology manager G4, product data"

_ESTIMATE = "an estimate, as no public price was found"
_OCS_PRICE = Source("price_usd_per_port", f"class value: about $520 a port, {_ESTIMATE}")


def _profile(
    name: str,
    technology: str,
    port_model: PortModel,
    num_ports: int,
    insertion_loss_db: float,
    change: ReconfigurationCost,
    *sources: Source,
    price_usd_per_port: float | None = None,
    power_w: float | None = None,
) -> SwitchProfile:
    return SwitchProfile(
        name,
        technology,
        port_model,
        num_ports,
        insertion_loss_db,
        change,
        price_usd_per_port,
        power_w,
        sources,
    )


PROFILES: Mapping[str, SwitchProfile] = {
    profile.name: profile
    for profile in (
        _profile(
            "palomar-136",
            "3D MEMS",
            PortModel.TWO_SIDED,
            136,
            2.0,
            ReconfigurationCost(10e-3),
            Source("num_ports", f"{_APOLLO}: 136 x 136, of which 128 are used and 8 are spare"),
            Source("insertion_loss_db", f"{_APOLLO}: under 2 dB"),
            Source("change", f"class value: milliseconds ({_APOLLO}); 10 ms is taken"),
            _OCS_PRICE,
            Source("power_w", f"{_LIGHTWAVE}: about 108 W"),
            price_usd_per_port=520,
            power_w=108,
        ),
        _profile(
            "calient-s320",
            "3D MEMS",
            PortModel.SIMPLEX,
            320,
            3.0,
            ReconfigurationCost(0.2),
            Source("num_ports", f"{_CALIENT}: 320 x 320"),
            Source("insertion_loss_db", "class value: upper end of 3D MEMS switches, 2 to 3 dB"),
            Source(
                "change",
                f"{_CALIENT}: up to 200 ms for a bulk change prepared by a controller, up to "
                "500 ms by the switch's own software; milliseconds for a single circuit",
            ),
            _OCS_PRICE,
            price_usd_per_port=520,
        ),
        _profile(
            "polatis-384",
            "piezo beam steering",
            PortModel.SIMPLEX,
            384,
            1.0,
            ReconfigurationCost(25e-3),
            Source("num_ports", f"{_POLATIS}: 384 x 384"),
            Source("insertion_loss_db", f"{_POLATIS}: about 1 dB, typical"),
            Source("change", f"{_POLATIS}: 25 ms"),
            _OCS_PRICE,
            price_usd_per_port=520,
        ),
        _profile(
            "liquid-crystal-300",
            "liquid crystal",
            PortModel.TWO_SIDED,
            300,
            3.0,
            ReconfigurationCost(0.1),
            Source("num_ports", "class value: products of 300 to 512 ports"),
            Source("insertion_loss_db", "class value: upper end of 2 to 3 dB"),
            Source("change", "class value: of the order of 100 ms"),
            _OCS_PRICE,
            price_usd_per_port=520,
        ),
        _profile(
            "liquid-crystal-512",
            "liquid crystal",
            PortModel.TWO_SIDED,
            512,
            3.0,
            ReconfigurationCost(0.1),
            Source("num_ports", "class value: products of 300 to 512 ports"),
            Source("insertion_loss_db", "class value: upper end of 2 to 3 dB"),
            Source("change", "class value: of the order of 100 ms"),
            _OCS_PRICE,
            price_usd_per_port=520,
        ),
        _profile(
            "silicon-mems-50",
            "silicon photonics, MEMS couplers",
            PortModel.SIMPLEX,
            50,
            8.5,
            ReconfigurationCost(0.85e-6),
            Source("num_ports", f"{_HAN}: 50 x 50"),
            Source("insertion_loss_db", f"{_HAN}: 8.5 dB on the chip, without fibre coupling"),
            Source("change", f"{_HAN}: 0.85 us"),
        ),
        _profile(
            "silicon-photonics-32",
            "silicon photonics",
            PortModel.SIMPLEX,
            32,
            6.0,
            ReconfigurationCost(100e-6),
            Source("num_ports", "class value: 32 to 64 ports; some designs block"),
            Source("insertion_loss_db", "class value: about 6 dB before gain"),
            Source("change", "class value: microseconds to under a millisecond; 100 us is taken"),
        ),
        _profile(
            "silicon-photonics-64",
            "silicon photonics",
            PortModel.SIMPLEX,
            64,
            6.0,
            ReconfigurationCost(100e-6),
            Source("num_ports", "class value: 32 to 64 ports; some designs block"),
            Source("insertion_loss_db", "class value: about 6 dB before gain"),
            Source("change", "class value: microseconds to under a millisecond; 100 us is taken"),
        ),
        _profile(
            "rotor-128",
            "rotor of fixed matchings",
            PortModel.RESTRICTED,
            128,
            2.0,
            ReconfigurationCost(20e-6),
            Source("num_ports", f"{_ROTOR_BUILT}: 128 ports"),
            Source("insertion_loss_db", "class value: about 2 dB"),
            Source("change", f"{_ROTORNET}: upper end of 10 to 20 us"),
        ),
        _profile(
            "awgr-100",
            "AWGR with tunable lasers",
            PortModel.RESTRICTED,
            100,
            13.0,
            ReconfigurationCost(3.84e-9),
            Source("num_ports", "class value: passive gratings of about 100 ports"),
            Source("insertion_loss_db", "class value: upper end of 7 to 13 dB"),
            Source("change", f"{_SIRIUS}: 3.84 ns end to end, in a small prototype"),
        ),
        _profile(
            "robotic-panel-1008",
            "robotic patch panel",
            PortModel.SIMPLEX,
            1008,
            0.5,
            ReconfigurationCost(0, 60),
            Source("num_ports", f"{_TELESCENT}: 1008 ports, read as ports of a side"),
            Source("insertion_loss_db", "class value: upper end of 0.3 to 0.5 dB"),
            Source(
                "change", "class value: seconds to minutes a move, one at a time; 60 s is taken"
            ),
            Source("price_usd_per_port", f"class value: about $100 a port, {_ESTIMATE}"),
            Source("power_w", "class value: latched, no power to hold circuits"),
            price_usd_per_port=100,
            power_w=0,
        ),
    )
}
"""Every switch profile by its name."""


def profile_named(name: str) -> SwitchProfile:
    """The profile of that name; ValueError with the nearest names if there is none.

    >>> profile_named("polatis-384").num_ports
    384
    >>> profile_named("polatis")
    Traceback (most recent call last):
    ValueError: no switch profile is named 'polatis': did you mean polatis-384?
    """
    if name not in PROFILES:
        from difflib import get_close_matches

        near = get_close_matches(name[:80].lower(), PROFILES, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(PROFILES)}"
        shown = repr(name if len(name) <= 60 else name[:57] + "...")
        raise ValueError(f"no switch profile is named {shown}: {hint}")
    return PROFILES[name]
