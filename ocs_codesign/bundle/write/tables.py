"""Tables of a bundle that all configurations share: cables, ranks, ports and prices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.bundle.write.names import host_port, port_name
from ocs_codesign.bundle.write.text import csv_bytes, decimal_text
from ocs_codesign.fabric.port_use import STRANDS, host_strands, port_use
from ocs_codesign.fabric.prices import fabric_price
from ocs_codesign.quantities import exact

if TYPE_CHECKING:
    from ocs_codesign.fabric.description import Fabric
    from ocs_codesign.fabric.prices import PriceItem
    from ocs_codesign.fabric.wiring import Cabling

LIST_ESTIMATE = "list estimate"
NO_PRICE = "no public price"

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


def cables(cabling: Cabling) -> list[Cable]:
    """All cables by plane: those of hosts in order of host and strand, then trunks."""
    fabric = cabling.fabric
    strands = host_strands(cabling)
    rows = zip(
        strands.plane.tolist(),
        strands.host.tolist(),
        strands.side.tolist(),
        strands.switch.tolist(),
        strands.port.tolist(),
        strict=True,
    )
    found: list[tuple[int, CableEnd, CableEnd, str]] = []
    for plane, host, side, switch, port in rows:
        model = fabric.switches[switch].profile.port_model
        strand = STRANDS[model][side]
        near = CableEnd(fabric.hosts[host], host_port(plane), strand)
        name = port_name(port, side, has_b_side=model.has_b_side)
        far = CableEnd(fabric.switches[switch].name, name, strand)
        found.append((plane, near, far, _POLARITY[strand]))
    for from_switch, from_port, to_switch, to_port in cabling.trunks.tolist():
        upstream, downstream = fabric.switches[from_switch], fabric.switches[to_switch]
        out = CableEnd(upstream.name, port_name(from_port, 1), "out")
        into = CableEnd(downstream.name, port_name(to_port, 0), "in")
        found.append((upstream.plane, out, into, "trunk"))
    found.sort(key=lambda one: one[0])
    return [
        Cable(f"C{number:05d}", a, b, plane, polarity)
        for number, (plane, a, b, polarity) in enumerate(found, 1)
    ]


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


def ranks_table(cabling: Cabling, num_nodes: int) -> bytes:
    """``ranks.csv``: where every strand of every host is plugged, in order of host."""
    fabric = cabling.fabric
    strands = host_strands(cabling)
    rows = []
    for at in np.lexsort((strands.side, strands.plane, strands.host)).tolist():
        host, plane, side = (
            int(column[at]) for column in (strands.host, strands.plane, strands.side)
        )
        switch = fabric.switches[int(strands.switch[at])]
        model = switch.profile.port_model
        port = port_name(int(strands.port[at]), side, has_b_side=model.has_b_side)
        rank = host if host < num_nodes else ""
        strand = STRANDS[model][side]
        rows.append((rank, fabric.hosts[host], plane, strand, switch.name, port))
    return csv_bytes(("rank", "host", "plane", "strand", "switch", "port"), rows)


def ports_table(cabling: Cabling) -> bytes:
    """``ports.csv``: the use of every side of every switch."""
    switches = cabling.fabric.switches
    rows = [
        (
            *(switches[use.switch].name, use.side),
            *(use.num_ports, use.num_used, use.num_spares, use.num_free),
        )
        for use in port_use(cabling)
    ]
    return csv_bytes(("switch", "side", "ports", "used", "spare", "free"), rows)


@final
@dataclass(frozen=True, slots=True)
class PriceRow:
    """An item with its prices as text, empty where no price is public, and their source."""

    item: str
    count: int
    unit_usd: str
    total_usd: str
    source: str


def price_rows(fabric: Fabric) -> list[PriceRow]:
    """Every item of the fabric, then the sum of those with a price."""
    prices = fabric_price(fabric)
    rows = [
        PriceRow(
            item.name,
            item.count,
            _usd(item.price_usd),
            _usd(item.total_usd),
            _source(fabric, item),
        )
        for item in prices.items
    ]
    total = PriceRow("total", 1, _usd(prices.total_usd), _usd(prices.total_usd), "sum of the above")
    return [*rows, total]


def prices_table(fabric: Fabric) -> bytes:
    """``prices.csv``."""
    rows = [
        (row.item, row.count, row.unit_usd, row.total_usd, row.source) for row in price_rows(fabric)
    ]
    return csv_bytes(("item", "count", "unit_usd", "total_usd", "source"), rows)


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
