"""Tables of a bundle that all configurations share: cables, ranks, ports and prices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from ocs_codesign.bundle.write.text import csv_bytes, decimal_text
from ocs_codesign.fabric.port_use import host_strands, port_use
from ocs_codesign.fabric.prices import fabric_price
from ocs_codesign.fabric.wiring import cable_name, port_name, strand_numbers
from ocs_codesign.quantities import exact

if TYPE_CHECKING:
    from collections.abc import Collection

    import numpy as np
    from numpy.typing import NDArray

    from ocs_codesign.fabric.description import Fabric
    from ocs_codesign.fabric.prices import PriceItem
    from ocs_codesign.fabric.wiring import Cabling

LIST_ESTIMATE = "list estimate"
NO_PRICE = "no public price"
TRUNK = "trunk"
PRICE_COLUMNS = ("item", "count", "unit_usd", "total_usd", "source")

_POLARITY = {"tx": "host-to-switch", "rx": "switch-to-host", "a": "both", "b": "both", "x": "both"}


@final
@dataclass(frozen=True, slots=True)
class CableEnd:
    """A device, its port and the strand of it."""

    device: str
    port: str
    strand: str


@final
@dataclass(frozen=True, slots=True)
class Cable:
    """A cable from the host, or from the upstream switch, to the switch; planes count from 1."""

    name: str
    a: CableEnd
    b: CableEnd
    plane: int
    polarity: str

    @property
    def is_trunk(self) -> bool:
        """Whether it joins two switches."""
        return self.polarity == TRUNK


def cables(cabling: Cabling) -> list[Cable]:
    """All cables by plane: those of hosts in order of host and strand, then trunks."""
    fabric, numbers = cabling.fabric, strand_numbers(cabling.fabric)
    found: list[Cable] = []
    for plane, host, side, switch, port in host_strands(cabling).tolist():
        model = fabric.switches[switch].profile.port_model
        strand = model.strands[side]
        near = CableEnd(fabric.hosts[host], f"p{plane}", strand)
        at = port_name(port, side, has_b_side=model.has_b_side)
        far = CableEnd(fabric.switches[switch].name, at, strand)
        name = cable_name(numbers[host, plane, side])
        found.append(Cable(name, near, far, plane, _POLARITY[strand]))
    trunks = zip(cabling.trunk_number.tolist(), cabling.trunks.tolist(), strict=True)
    for number, (from_switch, from_port, to_switch, to_port) in trunks:
        upstream, downstream = fabric.switches[from_switch], fabric.switches[to_switch]
        out = CableEnd(upstream.name, port_name(from_port, 1), "out")
        into = CableEnd(downstream.name, port_name(to_port, 0), "in")
        name = cable_name(number, is_trunk=True)
        found.append(Cable(name, out, into, upstream.plane, TRUNK))
    return sorted(found, key=lambda cable: cable.plane)


def cabling_table(listed: list[Cable]) -> bytes:
    """``cabling.csv``."""
    columns = ("cable", "a_device", "a_port", "a_strand", "b_device", "b_port", "b_strand")
    rows = [
        (
            *(one.name, one.a.device, one.a.port, one.a.strand),
            *(one.b.device, one.b.port, one.b.strand, one.plane, one.polarity),
        )
        for one in listed
    ]
    return csv_bytes((*columns, "plane", "polarity"), rows)


def host_cables(fabric: Fabric, listed: list[Cable]) -> list[tuple[int, Cable]]:
    """The cables of hosts with the host's number, in order of host, plane and strand."""
    number = {host: at for at, host in enumerate(fabric.hosts)}
    at_hosts = [(number[cable.a.device], cable) for cable in listed if not cable.is_trunk]
    return sorted(at_hosts, key=lambda pair: (pair[0], pair[1].plane))


def ranks_table(fabric: Fabric, listed: list[Cable], host_of: NDArray[np.int32]) -> bytes:
    """``ranks.csv``: where every strand of every host is plugged, in order of host."""
    rank = {int(host): node for node, host in enumerate(host_of)}
    rows = [
        (
            *(rank.get(host, ""), cable.a.device, cable.plane),
            *(cable.a.strand, cable.b.device, cable.b.port),
        )
        for host, cable in host_cables(fabric, listed)
    ]
    return csv_bytes(("rank", "host", "plane", "strand", "switch", "port"), rows)


def ports_table(cabling: Cabling, failed: Collection[tuple[int, int, int]]) -> bytes:
    """``ports.csv``: the use of every side of every switch."""
    switches = cabling.fabric.switches
    rows = [
        (
            *(switches[use.switch].name, use.side),
            *(use.num_ports, use.num_used, use.num_spares, use.num_failed, use.num_free),
        )
        for use in port_use(cabling, failed)
    ]
    return csv_bytes(("switch", "side", "ports", "used", "spare", "failed", "free"), rows)


def price_rows(fabric: Fabric) -> list[tuple[str, int, str, str, str]]:
    """PRICE_COLUMNS of every item of the fabric, then two sums: of all, and with whole switches.

    Prices are text, empty where none is public.
    """
    prices = fabric_price(fabric)
    rows = [
        (item.name, item.count, _usd(item.price_usd), _usd(item.total_usd), _source(fabric, item))
        for item in prices.items
    ]
    total, whole = _usd(prices.total_usd), _usd(prices.whole_switches_usd)
    other = "the same with the ports of the switches that the fabric does not have"
    return [
        *rows,
        ("total", 1, total, total, "sum of the above"),
        ("total with whole switches", 1, whole, whole, other),
    ]


def _usd(price: float | None) -> str:
    return "" if price is None else decimal_text(exact(price), 2)


def _source(fabric: Fabric, item: PriceItem) -> str:
    if item.price_usd is None:
        return NO_PRICE
    for switch in fabric.switches:
        if item.name == f"{switch.profile.name} port":
            sources = [
                source.text
                for source in switch.profile.sources
                if source.field == "price_usd_per_port"
            ]
            return "; ".join(sources) or "fabric description"
    return LIST_ESTIMATE
