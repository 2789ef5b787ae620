"""Tables of a bundle that all configurations share: cables, ranks, ports, prices and NetBox.

Columns of the NetBox tables are those of its import forms (dcim). A cable of NetBox ends at two
interfaces and an interface has one cable, so every strand of a host is an interface, as in
``p1-tx``. The site, the roles, the manufacturer and the device types must exist in NetBox before
the import; they are the fabric's name, ``Host`` and ``Optical circuit switch``, ``Generic``, and
``host`` and the switch profiles. Import devices first, then interfaces, then cables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from ocs_codesign.bundle.write.names import port_name
from ocs_codesign.bundle.write.text import csv_bytes, decimal_text
from ocs_codesign.fabric.port_use import host_strands, port_use
from ocs_codesign.fabric.prices import fabric_price
from ocs_codesign.quantities import exact

if TYPE_CHECKING:
    from ocs_codesign.fabric.description import Fabric
    from ocs_codesign.fabric.prices import PriceItem
    from ocs_codesign.fabric.wiring import Cabling

LIST_ESTIMATE = "list estimate"
NO_PRICE = "no public price"
TRUNK = "trunk"
PRICE_COLUMNS = ("item", "count", "unit_usd", "total_usd", "source")

HOST, SWITCH = "Host", "Optical circuit switch"
MANUFACTURER, HOST_TYPE = "Generic", "host"
PLANNED, INTERFACE_TYPE, CABLE_TYPE = "planned", "other", "smf"
INTERFACE = "dcim.interface"

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
    fabric = cabling.fabric
    found: list[tuple[int, CableEnd, CableEnd, str]] = []
    for plane, host, side, switch, port in host_strands(cabling).tolist():
        model = fabric.switches[switch].profile.port_model
        strand = model.strands[side]
        name = port_name(port, side, has_b_side=model.has_b_side)
        near = CableEnd(fabric.hosts[host], f"p{plane}", strand)
        far = CableEnd(fabric.switches[switch].name, name, strand)
        found.append((plane, near, far, _POLARITY[strand]))
    for from_switch, from_port, to_switch, to_port in cabling.trunks.tolist():
        upstream, downstream = fabric.switches[from_switch], fabric.switches[to_switch]
        out = CableEnd(upstream.name, port_name(from_port, 1), "out")
        into = CableEnd(downstream.name, port_name(to_port, 0), "in")
        found.append((upstream.plane, out, into, TRUNK))
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


def host_cables(fabric: Fabric, listed: list[Cable]) -> list[tuple[int, Cable]]:
    """The cables of hosts with the host's number, in order of host, plane and strand."""
    number = {host: at for at, host in enumerate(fabric.hosts)}
    at_hosts = [(number[cable.a.device], cable) for cable in listed if not cable.is_trunk]
    return sorted(at_hosts, key=lambda pair: (pair[0], pair[1].plane))


def ranks_table(fabric: Fabric, listed: list[Cable], num_nodes: int) -> bytes:
    """``ranks.csv``: where every strand of every host is plugged, in order of host."""
    rows = [
        (
            *(host if host < num_nodes else "", cable.a.device, cable.plane),
            *(cable.a.strand, cable.b.device, cable.b.port),
        )
        for host, cable in host_cables(fabric, listed)
    ]
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


def price_rows(fabric: Fabric) -> list[tuple[str, int, str, str, str]]:
    """PRICE_COLUMNS of every item of the fabric, then the sum of those with a price.

    Prices are text, empty where none is public.
    """
    prices = fabric_price(fabric)
    rows = [
        (item.name, item.count, _usd(item.price_usd), _usd(item.total_usd), _source(fabric, item))
        for item in prices.items
    ]
    total = _usd(prices.total_usd)
    return [*rows, ("total", 1, total, total, "sum of the above")]


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


def netbox_tables(fabric: Fabric, listed: list[Cable]) -> dict[str, bytes]:
    """Files by name."""
    return {
        "dcim.device.csv": _devices(fabric),
        "dcim.interface.csv": _interfaces(fabric, listed),
        "dcim.cable.csv": _netbox_cables(fabric, listed),
    }


def _devices(fabric: Fabric) -> bytes:
    site = (fabric.name, PLANNED)
    rows = [(host, HOST, MANUFACTURER, HOST_TYPE, *site) for host in fabric.hosts]
    rows += [
        (switch.name, SWITCH, MANUFACTURER, switch.profile.name, *site)
        for switch in fabric.switches
    ]
    return csv_bytes(("name", "role", "manufacturer", "device_type", "site", "status"), rows)


def _interfaces(fabric: Fabric, listed: list[Cable]) -> bytes:
    at_hosts = [
        (cable.a.device, _interface(cable.a, is_host=True), f"plane {cable.plane} {cable.a.strand}")
        for _, cable in host_cables(fabric, listed)
    ]
    at_switches = [
        (switch.name, f"{port}{side}", "spare" if port > switch.num_usable else "")
        for switch in fabric.switches
        for side in ("AB" if switch.profile.port_model.has_b_side else "A")
        for port in range(1, switch.num_ports + 1)
    ]
    rows = [(device, name, INTERFACE_TYPE, text) for device, name, text in at_hosts + at_switches]
    return csv_bytes(("device", "name", "type", "description"), rows)


def _netbox_cables(fabric: Fabric, listed: list[Cable]) -> bytes:
    hosts = set(fabric.hosts)
    sides = [f"side_{side}_{field}" for side in "ab" for field in ("device", "type", "name")]
    rows = []
    for cable in listed:
        names = [_interface(end, is_host=end.device in hosts) for end in (cable.a, cable.b)]
        ends = (cable.a.device, INTERFACE, names[0], cable.b.device, INTERFACE, names[1])
        rows.append((*ends, CABLE_TYPE, PLANNED, cable.name))
    return csv_bytes((*sides, "type", "status", "label"), rows)


def _interface(end: CableEnd, *, is_host: bool) -> str:
    return f"{end.port}-{end.strand}" if is_host else end.port
