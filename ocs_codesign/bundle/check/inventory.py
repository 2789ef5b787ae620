"""Tables of what there is: port use, NetBox imports and prices, compared with the cabling."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from ocs_codesign.bundle.check.claims import is_decimal
from ocs_codesign.bundle.check.wiring import Port
from ocs_codesign.fabric.prices import fabric_price
from ocs_codesign.files.naming import shown
from ocs_codesign.quantities import exact

if TYPE_CHECKING:
    from ocs_codesign.bundle.check.files import BundleFiles
    from ocs_codesign.bundle.check.wiring import Cable, Plant

PORTS, PRICES = "ports.csv", "prices.csv"
DEVICES, INTERFACES = "netbox/dcim.device.csv", "netbox/dcim.interface.csv"
CABLES = "netbox/dcim.cable.csv"
INVENTORY = (PORTS, PRICES, DEVICES, INTERFACES, CABLES)

_CENT = Fraction(1, 200)
_ENDS = tuple(f"side_{side}_{field}" for side in "ab" for field in ("device", "type", "name"))


def check_inventory(files: BundleFiles, plant: Plant) -> None:
    """Every row that the cabling or the fabric contradicts is a finding."""
    _check_ports(files, plant)
    _check_devices(files, plant)
    _check_interfaces(files, plant)
    _check_cables(files, plant)
    _check_prices(files, plant)


def _check_ports(files: BundleFiles, plant: Plant) -> None:
    expected = {}
    for switch in plant.fabric.switches:
        for side in "AB" if switch.profile.port_model.has_b_side else "A":
            ports = (Port(switch.name, f"{at}{side}") for at in range(1, switch.num_ports + 1))
            used = sum(plant.cable_at(port) is not None for port in ports)
            free = switch.num_ports - used - switch.num_spares
            counts = (switch.num_ports, used, switch.num_spares, free)
            expected[f"{switch.name} {side}"] = ",".join(map(str, counts))
    values = ("ports", "used", "spare", "free")
    rows = files.table(PORTS, ("switch", "side", *values))
    files.compare(PORTS, rows, expected, "switch side", values)


def _check_devices(files: BundleFiles, plant: Plant) -> None:
    site = plant.fabric.name
    kinds = dict.fromkeys(plant.fabric.hosts, ("Host", "host"))
    for switch in plant.fabric.switches:
        kinds[switch.name] = ("Optical circuit switch", switch.profile.name)
    expected = {
        name: f"{role},Generic,{kind},{site},planned" for name, (role, kind) in kinds.items()
    }
    values = ("role", "manufacturer", "device_type", "site", "status")
    rows = files.table(DEVICES, ("name", *values))
    files.compare(DEVICES, rows, expected, "name", values)


def _check_interfaces(files: BundleFiles, plant: Plant) -> None:
    expected = {}
    for cable in plant.host_at.values():
        near = f"{cable.near.device} {cable.near.name}"
        expected[near] = f"other,plane {cable.plane} {cable.strand}"
    for switch in plant.fabric.switches:
        for side in "AB" if switch.profile.port_model.has_b_side else "A":
            for number in range(1, switch.num_ports + 1):
                note = "spare" if number > switch.num_usable else ""
                expected[f"{switch.name} {number}{side}"] = f"other,{note}"
    rows = files.table(INTERFACES, ("device", "name", "type", "description"))
    files.compare(INTERFACES, rows, expected, "device name", ("type", "description"))


def _check_cables(files: BundleFiles, plant: Plant) -> None:
    expected = {cable.name: f"{_ends(cable)},smf,planned" for cable in plant.cables}
    rows = files.table(CABLES, (*_ENDS, "type", "status", "label"))
    files.compare(CABLES, rows, expected, "label", (*_ENDS, "type", "status"))


def _ends(cable: Cable) -> str:
    return ",".join(f"{end.device},dcim.interface,{end.name}" for end in (cable.near, cable.far))


def _check_prices(files: BundleFiles, plant: Plant) -> None:
    prices = fabric_price(plant.fabric)
    sums = [(one.name, one.count, one.price_usd, one.total_usd) for one in prices.items]
    total = prices.total_usd
    sums.append(("total", 1, total, total))
    rows = files.table(PRICES, ("item", "count", "unit_usd", "total_usd", "source"))
    for at, row in enumerate(rows):
        if at >= len(sums):
            files.findings.add(PRICES, row.line, f"{shown(row['item'])} is in no fabric")
            continue
        name, count, unit, whole = sums[at]
        for column, text in (("item", name), ("count", str(count))):
            if row[column] != text:
                rule = f"{column} is {shown(row[column])}: by the fabric it is {shown(text)}"
                files.findings.add(PRICES, row.line, rule)
        for column, price in (("unit_usd", unit), ("total_usd", whole)):
            if not _is_price(row[column], price):
                rule = f"{column} is {shown(row[column])}: by the fabric it is {price}"
                files.findings.add(PRICES, row.line, rule)
    for name, *_ in sums[len(rows) :]:
        files.findings.add(PRICES, None, f"the row of {shown(name)} is missing")


def _is_price(text: str, price: float | None) -> bool:
    return text == "" if price is None else is_decimal(text, exact(price), _CENT)
