"""NetBox tables of a bundle, with what they need, and the order in which they are imported.

Columns are those of NetBox's import forms (dcim). A cable of NetBox ends at two interfaces and an
interface has one cable, so every strand of a host is an interface, as in ``p1-tx``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ocs_codesign.bundle.write.tables import Cable, CableEnd, host_cables
from ocs_codesign.bundle.write.text import csv_bytes

if TYPE_CHECKING:
    from collections.abc import Collection

    from ocs_codesign.fabric.description import Fabric

HOST, SWITCH = "Host", "Optical circuit switch"
MANUFACTURER, HOST_TYPE = "Generic", "host"
FAILED = "failed"
PLANNED, INTERFACE_TYPE, CABLE_TYPE = "planned", "other", "smf"
INTERFACE = "dcim.interface"
COLOURS = {HOST: "0b5fa5", SWITCH: "e0a030"}

_ORDER = {
    "dcim.site.csv": "Organization > Sites",
    "dcim.manufacturer.csv": "Devices > Manufacturers",
    "dcim.devicerole.csv": "Devices > Device Roles",
    "dcim.devicetype.csv": "Devices > Device Types",
    "dcim.device.csv": "Devices > Devices",
    "dcim.interface.csv": "Devices > Interfaces",
    "dcim.cable.csv": "Connections > Cables",
}


def netbox_files(fabric: Fabric, listed: list[Cable], failed: Collection[str]) -> dict[str, bytes]:
    """Files by name; ``failed`` are devices."""
    types = dict.fromkeys([HOST_TYPE, *(switch.profile.name for switch in fabric.switches)])
    return {
        "README.md": _readme(),
        "dcim.site.csv": csv_bytes(
            ("name", "slug", "status"), [(fabric.name, slug(fabric.name), "planned")]
        ),
        "dcim.manufacturer.csv": csv_bytes(("name", "slug"), [(MANUFACTURER, slug(MANUFACTURER))]),
        "dcim.devicerole.csv": csv_bytes(
            ("name", "slug", "color"), [(role, slug(role), COLOURS[role]) for role in COLOURS]
        ),
        "dcim.devicetype.csv": csv_bytes(
            ("manufacturer", "model", "slug"), [(MANUFACTURER, kind, slug(kind)) for kind in types]
        ),
        "dcim.device.csv": _devices(fabric, failed),
        "dcim.interface.csv": _interfaces(fabric, listed),
        "dcim.cable.csv": _cables(fabric, listed),
    }


def slug(name: str) -> str:
    """A name as NetBox has it in addresses.

    >>> slug("Optical circuit switch")
    'optical-circuit-switch'
    """
    return re.sub(r"[^a-z0-9_]+", "-", name.lower()).strip("-")[:100] or "unnamed"


def _readme() -> bytes:
    steps = [f"{at}. `{name}`: {menu}, Import" for at, (name, menu) in enumerate(_ORDER.items(), 1)]
    lines = (
        *("# Import into NetBox", "", "Upload the files in this order, each as CSV:", ""),
        *(*steps, "", "The first four make what the others name; leave out those that your NetBox"),
        "has, and put its names into `dcim.device.csv`. After a repair import devices, interfaces",
        "and cables again: cables keep their labels.",
    )
    return ("\n".join(lines) + "\n").encode()


def _devices(fabric: Fabric, failed: Collection[str]) -> bytes:
    kinds = [(host, HOST, MANUFACTURER, HOST_TYPE) for host in fabric.hosts]
    kinds += [(each.name, SWITCH, MANUFACTURER, each.profile.name) for each in fabric.switches]
    rows = [(*kind, fabric.name, FAILED if kind[0] in failed else PLANNED) for kind in kinds]
    return csv_bytes(("name", "role", "manufacturer", "device_type", "site", "status"), rows)


def _interfaces(fabric: Fabric, listed: list[Cable]) -> bytes:
    at_hosts = [
        (cable.a.device, _interface(cable.a, is_host=True), f"plane {cable.plane} {cable.a.strand}")
        for _, cable in host_cables(fabric, listed)
    ]
    at_switches = [
        (switch.name, f"{port}{side}", "spare" if port > switch.num_usable else "")
        for switch in fabric.switches
        for side in ("AB" if switch.profile.port_model.has_b_side else ("",))
        for port in range(1, switch.num_ports + 1)
    ]
    rows = [(device, name, INTERFACE_TYPE, text) for device, name, text in at_hosts + at_switches]
    return csv_bytes(("device", "name", "type", "description"), rows)


def _cables(fabric: Fabric, listed: list[Cable]) -> bytes:
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
