"""Profiles of real switch technologies; every number with where it comes from.

"Class value" marks a number that is usual for the technology, where no figure of one product is
public; then it is from the pessimistic end of its range. "Product data" marks what a vendor states,
as the literature quotes it and not from a dated data sheet; ask the vendor before you buy. Prices
are estimates. Two numbers call for care: "N x N" counts the ports of a side, and dead times are
those of the light, without what control software adds.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.circuits.change import Change
from ocs_codesign.core.networks.servers import ACROSS, GPU, RAILS
from ocs_codesign.core.quantities import exact
from ocs_codesign.fabric.clusters import Card, Cluster
from ocs_codesign.fabric.description import PortModel, Source, SwitchProfile

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

    from ocs_codesign.fabric.clusters import Inner
    from ocs_codesign.fabric.description import Fabric


def _profile(name: str, technology: str, port_model: str, **sourced: Any) -> SwitchProfile:
    """``sourced`` are numbers, each with where it comes from."""
    value = {field: number for field, (number, _) in sourced.items()}
    return SwitchProfile(
        name,
        technology,
        PortModel(port_model),
        value["num_ports"],
        value["insertion_loss_db"],
        Change(value.get("delta_s", 0), value.get("delta_per_circuit_s", 0)),
        value.get("price_usd_per_port"),
        value.get("power_w"),
        tuple(
            Source("change" if field.startswith("delta") else field, text)
            for field, (_, text) in sourced.items()
        ),
    )


PROFILES: Mapping[str, SwitchProfile] = {
    name: _profile(name, **fields)
    for name, fields in tomllib.loads(
        Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    ).items()
}
"""Every switch profile by its name, in the order of ``profiles.toml``."""


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


# Prices of a fabric from list estimates: what its ports, transceivers and NICs cost about.
#
# The estimates serve to compare fabrics with each other; they are no quotes and leave out fibres,
# racks, power, installation and whatever has no public price, which is listed without one.


TRANSCEIVERS_USD = {100: 99, 200: 239, 400: 659, 800: 1399}
"""List estimates of a transceiver by its Gbps."""

NICS_USD = {100: 659, 200: 1079, 400: 1499, 800: 2248}
"""List estimates of a network card, one a port, by its Gbps."""


@final
@dataclass(frozen=True, slots=True)
class PriceItem:
    """So many of an item at a price each; ``price_usd`` is None where no price is public."""

    name: str
    count: int
    price_usd: float | None

    @property
    def total_usd(self) -> float | None:
        """What all of them cost, or None."""
        return None if self.price_usd is None else self.count * self.price_usd


@final
@dataclass(frozen=True, slots=True)
class PriceList:
    """List estimates of everything that a fabric is made of.

    Ports of switches count as the fabric has them. A switch is bought as a whole: all its other
    ports cost ``other_ports_usd``.
    """

    items: tuple[PriceItem, ...]
    other_ports_usd: float

    @property
    def total_usd(self) -> float:
        """The sum of the items that have a price."""
        return sum((item.total_usd or 0.0 for item in self.items), 0.0)

    @property
    def whole_switches_usd(self) -> float:
        """The same with the ports of the switches that the fabric does not have."""
        return self.total_usd + self.other_ports_usd

    @property
    def unpriced(self) -> tuple[str, ...]:
        """Names of the items that have none, so that the total is less than all costs."""
        return tuple(item.name for item in self.items if item.price_usd is None)


def fabric_price(fabric: Fabric) -> PriceList:
    """List estimates of a fabric: switch ports, and per port of a host a transceiver and a NIC.

    Spare ports and spare hosts are bought too. A port takes the slowest transceiver that is fast
    enough for its part of the host's bandwidth, or several of the fastest. Prices of the fabric's
    own take the place of estimates; fibres, one a strand of a host, are counted only with one.
    """
    ports: Counter[tuple[str, float | None]] = Counter()
    other_ports_usd = 0.0
    for switch in fabric.switches:
        profile = switch.profile
        ports[profile.name, profile.price_usd_per_port] += switch.num_ports
        others = profile.num_ports - switch.num_ports
        other_ports_usd += others * (profile.price_usd_per_port or 0.0)
    items = [PriceItem(f"{name} port", count, usd) for (name, usd), count in ports.items()]
    num_ends = int(fabric.planes_of_hosts().sum())
    num_ports = num_ends * fabric.port_model.ports_per_host
    bits_per_s = exact(fabric.cost_model.node_bandwidth_Bps) * 8 / fabric.num_ports_per_host
    rate, each = _rate(bits_per_s / 10**9)
    own = dict(fabric.prices)
    for name, usd in (("transceiver", TRANSCEIVERS_USD[rate]), ("NIC", NICS_USD[rate])):
        items.append(PriceItem(f"{rate}G {name}", num_ports * each, own.get(name.lower(), usd)))
    if fabric.port_model.is_bidirectional:
        items.append(PriceItem("circulator", num_ports * each, own.get("circulator")))
    if "fibre" in own:
        strands = num_ends * len(set(fabric.port_model.strands))
        items.append(PriceItem("fibre", strands, own["fibre"]))
    return PriceList(tuple(items), other_ports_usd)


def _rate(gbps: Fraction) -> tuple[int, int]:
    enough = [rate for rate in TRANSCEIVERS_USD if rate >= gbps]
    fastest = max(TRANSCEIVERS_USD)
    return (min(enough), 1) if enough else (fastest, -(-gbps // fastest))


# What the hosts of a fabric are inside: servers of GPUs, whose NICs have the ports of planes.


ARE_SERVERS, ARE_NICS = "servers", "nics"


@final
@dataclass(frozen=True, slots=True)
class HostNic:
    """A NIC on these GPUs of its server, or on its switch if there are none.

    Where hosts are servers it has their ports in these ``planes``; where hosts are NICs, in all,
    and none are listed. ``host_Bps`` is the bandwidth of the link to each GPU, None if it is never
    the narrowest.
    """

    planes: tuple[int, ...]
    gpus: tuple[int, ...]
    host_Bps: Fraction | None = None  # noqa: N815 - the unit keeps its case


@final
@dataclass(frozen=True, slots=True)
class HostServers:
    """Servers of a fabric: its hosts, or each as many hosts in a row as it has ``nics``.

    ``wiring`` and ``relay`` are those of ``networks.servers``.
    """

    inner: Inner
    nics: tuple[HostNic, ...]
    hosts_are: str = ARE_SERVERS
    wiring: str = RAILS
    relay: str = GPU

    def check(self, num_planes: int, num_hosts: int) -> None:
        """ValueError unless the NICs have every port of so many working hosts once."""
        if self.hosts_are == ARE_NICS:
            if num_hosts % len(self.nics):
                raise ValueError(
                    f"hosts are NICs, {len(self.nics)} a server, but {num_hosts} hosts work: they "
                    "make no whole number of servers"
                )
            if any(nic.planes for nic in self.nics):
                raise ValueError("hosts are NICs, which have ports in all planes: list no planes")
            return
        if self.wiring == ACROSS:
            raise ValueError(
                "hosts are servers, so that a plane is of one NIC of each: no recipe "
                "goes across rails"
            )
        listed = sorted(plane for nic in self.nics for plane in nic.planes)
        if listed != list(range(num_planes)):
            raise ValueError(
                f"NICs have ports in planes {', '.join(map(str, listed)) or 'none'}: planes 0 to "
                f"{num_planes - 1} are each of one NIC"
            )


def cluster_of(fabric: Fabric) -> Cluster:
    """The servers of a fabric's working hosts; ValueError if it says nothing of servers."""
    inside = fabric.servers
    if inside is None:
        raise ValueError("nothing is said of servers: describe what the hosts are inside")
    model = fabric.port_model
    port_Bps = exact(fabric.cost_model.node_bandwidth_Bps) / fabric.num_ports_per_host  # noqa: N806
    cards = [
        Card(
            (len(nic.planes) or fabric.num_planes) * model.ports_per_host,
            *(port_Bps, nic.gpus, nic.host_Bps),
        )
        for nic in inside.nics
    ]
    hosts = fabric.hosts[: fabric.num_working_hosts]
    if inside.hosts_are == ARE_NICS:
        hosts = tuple(f"server{at}" for at in range(len(hosts) // len(cards)))
    return Cluster(
        fabric.name,
        hosts,
        inside.inner,
        tuple(cards),
        inside.wiring,
        inside.relay,
        model.is_bidirectional,
        alpha_s=exact(fabric.cost_model.alpha_s),
    )
