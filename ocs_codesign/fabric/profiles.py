"""Profiles of real switch technologies; every number with where it comes from.

"Class value" marks a number that is usual for the technology, where no figure of one product is
public; then it is from the pessimistic end of its range. "Product data" marks what a vendor states,
as the literature quotes it and not from a dated data sheet; ask the vendor before you buy. Prices
are estimates. Two numbers call for care: "N x N" counts the ports of a side, and dead times are
those of the light, without what control software adds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

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
_OCS_PRICE = (520, f"class value: about $520 a port, {_ESTIMATE}")

_Sourced: TypeAlias = tuple[float, str]
"""A number and where it comes from."""


def _profile(
    name: str,
    technology: str,
    port_model: PortModel,
    *,
    ports: _Sourced,
    loss_db: _Sourced,
    dead_time_s: _Sourced,
    per_circuit: bool = False,
    price_usd: _Sourced | None = None,
    power_w: _Sourced | None = None,
) -> SwitchProfile:
    fields = {"num_ports": ports, "insertion_loss_db": loss_db, "change": dead_time_s}
    optional = {"price_usd_per_port": price_usd, "power_w": power_w}
    fields |= {field: pair for field, pair in optional.items() if pair is not None}
    time_s = dead_time_s[0]
    return SwitchProfile(
        name,
        technology,
        port_model,
        int(ports[0]),
        loss_db[0],
        ReconfigurationCost(0, time_s) if per_circuit else ReconfigurationCost(time_s),
        price_usd[0] if price_usd else None,
        power_w[0] if power_w else None,
        tuple(Source(field, source) for field, (_, source) in fields.items()),
    )


PROFILES: Mapping[str, SwitchProfile] = {
    profile.name: profile
    for profile in (
        _profile(
            "palomar-136",
            "3D MEMS",
            PortModel.TWO_SIDED,
            ports=(136, f"{_APOLLO}: 136 x 136, of which 128 are used and 8 are spare"),
            loss_db=(2.0, f"{_APOLLO}: under 2 dB"),
            dead_time_s=(10e-3, f"class value: milliseconds ({_APOLLO}); 10 ms is taken"),
            price_usd=_OCS_PRICE,
            power_w=(108, f"{_LIGHTWAVE}: about 108 W"),
        ),
        _profile(
            "calient-s320",
            "3D MEMS",
            PortModel.SIMPLEX,
            ports=(320, f"{_CALIENT}: 320 x 320"),
            loss_db=(3.0, "class value: upper end of 3D MEMS switches, 2 to 3 dB"),
            dead_time_s=(
                0.2,
                f"{_CALIENT}: up to 200 ms for a bulk change prepared by a controller, up to "
                "500 ms by the switch's own software; milliseconds for a single circuit",
            ),
            price_usd=_OCS_PRICE,
        ),
        _profile(
            "polatis-384",
            "piezo beam steering",
            PortModel.SIMPLEX,
            ports=(384, f"{_POLATIS}: 384 x 384"),
            loss_db=(1.0, f"{_POLATIS}: about 1 dB, typical"),
            dead_time_s=(25e-3, f"{_POLATIS}: 25 ms"),
            price_usd=_OCS_PRICE,
        ),
        *(
            _profile(
                f"liquid-crystal-{num_ports}",
                "liquid crystal",
                PortModel.TWO_SIDED,
                ports=(num_ports, "class value: products of 300 to 512 ports"),
                loss_db=(3.0, "class value: upper end of 2 to 3 dB"),
                dead_time_s=(0.1, "class value: of the order of 100 ms"),
                price_usd=_OCS_PRICE,
            )
            for num_ports in (300, 512)
        ),
        _profile(
            "silicon-mems-50",
            "silicon photonics, MEMS couplers",
            PortModel.SIMPLEX,
            ports=(50, f"{_HAN}: 50 x 50"),
            loss_db=(8.5, f"{_HAN}: 8.5 dB on the chip, without fibre coupling"),
            dead_time_s=(0.85e-6, f"{_HAN}: 0.85 us"),
        ),
        *(
            _profile(
                f"silicon-photonics-{num_ports}",
                "silicon photonics",
                PortModel.SIMPLEX,
                ports=(num_ports, "class value: 32 to 64 ports; some designs block"),
                loss_db=(6.0, "class value: about 6 dB before gain"),
                dead_time_s=(
                    100e-6,
                    "class value: microseconds to under a millisecond; 100 us is taken",
                ),
            )
            for num_ports in (32, 64)
        ),
        _profile(
            "rotor-128",
            "rotor of fixed matchings",
            PortModel.RESTRICTED,
            ports=(128, f"{_ROTOR_BUILT}: 128 ports"),
            loss_db=(2.0, "class value: about 2 dB"),
            dead_time_s=(20e-6, f"{_ROTORNET}: upper end of 10 to 20 us"),
        ),
        _profile(
            "awgr-100",
            "AWGR with tunable lasers",
            PortModel.RESTRICTED,
            ports=(100, "class value: passive gratings of about 100 ports"),
            loss_db=(13.0, "class value: upper end of 7 to 13 dB"),
            dead_time_s=(3.84e-9, f"{_SIRIUS}: 3.84 ns end to end, in a small prototype"),
        ),
        _profile(
            "robotic-panel-1008",
            "robotic patch panel",
            PortModel.SIMPLEX,
            ports=(1008, f"{_TELESCENT}: 1008 ports, read as ports of a side"),
            loss_db=(0.5, "class value: upper end of 0.3 to 0.5 dB"),
            per_circuit=True,
            dead_time_s=(
                60,
                "class value: seconds to minutes a move, one at a time; 60 s is taken",
            ),
            price_usd=(100, f"class value: about $100 a port, {_ESTIMATE}"),
            power_w=(0, "class value: latched, no power to hold circuits"),
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
