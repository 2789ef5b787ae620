"""Tables of what there is: port use, NetBox imports and prices, compared with the cabling."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING

from ocs_codesign.bundle.check.claims import is_decimal
from ocs_codesign.bundle.check.wiring import ports_of
from ocs_codesign.files.naming import shown
from ocs_codesign.quantities import exact

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.bundle.check.files import BundleFiles, Row
    from ocs_codesign.bundle.check.wiring import Plant

PRICES = "prices.csv"
TRANSCEIVERS_USD = {100: 99, 200: 239, 400: 659, 800: 1399}
NICS_USD = {100: 659, 200: 1079, 400: 1499, 800: 2248}
"""List estimates by Gbps, as the format of bundles has them."""

_CENT = Fraction(1, 200)
_ENDS = tuple(f"side_{side}_{field}" for side in "ab" for field in ("device", "type", "name"))


def _ports(plant: Plant) -> Iterator[tuple[object, ...]]:
    for switch in plant.fabric.switches:
        kinds: dict[str, Counter[str]] = {}
        for number, port in ports_of(switch):
            lost, cable = plant.has_failed(port), plant.cable_at(port)
            kind = "failed" if lost else "used" if cable else "free"
            if kind == "free" and number > switch.num_usable:
                kind = "spare"
            kinds.setdefault(port.name.lstrip("0123456789"), Counter())[kind] += 1
        for side, count in kinds.items():
            each = (count[kind] for kind in ("used", "spare", "failed", "free"))
            yield switch.name, side, switch.num_ports, *each


def _devices(plant: Plant) -> Iterator[tuple[object, ...]]:
    kinds = dict.fromkeys(plant.fabric.hosts, ("Host", "host"))
    for switch in plant.fabric.switches:
        kinds[switch.name] = ("Optical circuit switch", switch.profile.name)
    lost = {*plant.failed.hosts, *plant.failed.switches}
    for name, (role, kind) in kinds.items():
        yield (
            name,
            role,
            "Generic",
            kind,
            plant.fabric.name,
            "failed" if name in lost else "planned",
        )


def _interfaces(plant: Plant) -> Iterator[tuple[object, ...]]:
    for cable in plant.host_at.values():
        yield cable.near.device, cable.near.name, "other", f"plane {cable.plane} {cable.strand}"
    for switch in plant.fabric.switches:
        for number, port in ports_of(switch):
            yield switch.name, port.name, "other", "spare" if number > switch.num_usable else ""


def _cables(plant: Plant) -> Iterator[tuple[object, ...]]:
    for cable in plant.cables:
        ends = ((end.device, "dcim.interface", end.name) for end in (cable.near, cable.far))
        yield (*next(ends), *next(ends), "smf", "planned", cable.name)


def _sites(plant: Plant) -> Iterator[tuple[object, ...]]:
    yield plant.fabric.name, _slug(plant.fabric.name), "planned"


def _manufacturers(plant: Plant) -> Iterator[tuple[object, ...]]:
    del plant
    yield "Generic", "generic"


def _roles(plant: Plant) -> Iterator[tuple[object, ...]]:
    del plant
    yield "Host", "host", "0b5fa5"
    yield "Optical circuit switch", "optical-circuit-switch", "e0a030"


def _types(plant: Plant) -> Iterator[tuple[object, ...]]:
    for name in dict.fromkeys(["host", *(each.profile.name for each in plant.fabric.switches)]):
        yield "Generic", name, _slug(name)


def _slug(name: str) -> str:
    """Lower-case letters, digits and underscores; hyphens for everything between them."""
    plain = "".join(c if c in _SLUG else " " for c in name.lower())
    return "-".join(plain.split())[:100] or "unnamed"


_SLUG = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_")
_DEVICE = ("name", "role", "manufacturer", "device_type", "site", "status")
_TABLES = {
    "ports.csv": (
        _ports,
        ("switch", "side", "ports", "used", "spare", "failed", "free"),
        ("switch", "side"),
    ),
    "netbox/dcim.site.csv": (_sites, ("name", "slug", "status"), ("name",)),
    "netbox/dcim.manufacturer.csv": (_manufacturers, ("name", "slug"), ("name",)),
    "netbox/dcim.devicerole.csv": (_roles, ("name", "slug", "color"), ("name",)),
    "netbox/dcim.devicetype.csv": (_types, ("manufacturer", "model", "slug"), ("model",)),
    "netbox/dcim.device.csv": (_devices, _DEVICE, ("name",)),
    "netbox/dcim.interface.csv": (
        _interfaces,
        ("device", "name", "type", "description"),
        ("device", "name"),
    ),
    "netbox/dcim.cable.csv": (_cables, (*_ENDS, "type", "status", "label"), ("label",)),
}
"""The rows that the cabling or the fabric makes, the columns, and those that are the key."""
README = "netbox/README.md"
INVENTORY = (*_TABLES, PRICES, README)


def check_inventory(files: BundleFiles, plant: Plant) -> None:
    """Every row that the cabling or the fabric contradicts is a finding."""
    for path, (rows_of, columns, key) in _TABLES.items():
        files.compare(path, files.table(path, columns), columns, key, rows_of(plant))
    if README not in files.sizes:
        files.wrong(README, "the file is missing")
    items = _items(plant)
    rows = files.table(PRICES, ("item", "count", "unit_usd", "total_usd", "source"))
    for row, item in zip(rows, items, strict=False):
        row.wrong(*_price_rules(row, *item))
    for row in rows[len(items) :]:
        row.wrong(f"{shown(row['item'])} is in no fabric")
    for name, *_ in items[len(rows) :]:
        files.wrong(PRICES, f"the row of {shown(name)} is missing")


def _price_rules(
    row: Row, name: str, count: int, unit: float | None, total: float | None
) -> Iterator[str]:
    wanted = {"item": name, "count": str(count)}
    by = "by the fabric it is"
    yield from row.differences({c: (value, f"{by} {shown(value)}") for c, value in wanted.items()})
    for column, price in (("unit_usd", unit), ("total_usd", total)):
        text = row[column]
        if text != "" if price is None else not is_decimal(text, exact(price), _CENT):
            yield f"{column} is {shown(text)}: {by} {price}"


def _items(plant: Plant) -> list[tuple[str, int, float | None, float | None]]:
    """Name, count and prices (None where none is public) of what is bought, then two sums."""
    fabric = plant.fabric
    ports: Counter[tuple[str, float | None]] = Counter()
    for switch in fabric.switches:
        ports[switch.profile.name, switch.profile.price_usd_per_port] += switch.num_ports
    bought: list[tuple[str, int, float | None]] = [
        (f"{name} port", count, usd) for (name, usd), count in ports.items()
    ]
    per_host = fabric.num_ports_per_host
    gbps = exact(fabric.cost_model.node_bandwidth_Bps) * 8 / per_host / 10**9
    rate = min((rate for rate in TRANSCEIVERS_USD if rate >= gbps), default=max(TRANSCEIVERS_USD))
    each = -(-gbps // rate)
    for what, prices in (("transceiver", TRANSCEIVERS_USD), ("NIC", NICS_USD)):
        bought.append((f"{rate}G {what}", len(fabric.hosts) * per_host * each, prices[rate]))
    two_way = sum(model.ports_per_host for model in plant.models if model.is_bidirectional)
    if two_way:
        bought.append(("circulator", len(fabric.hosts) * two_way * each, None))
    rows = [(name, count, usd, None if usd is None else count * usd) for name, count, usd in bought]
    total = sum((price or 0.0 for *_, price in rows), 0.0)
    idle = [
        (switch.profile, switch.profile.num_ports - switch.num_ports) for switch in fabric.switches
    ]
    whole = total + sum(count * (profile.price_usd_per_port or 0.0) for profile, count in idle)
    return [*rows, ("total", 1, total, total), ("total with whole switches", 1, whole, whole)]
