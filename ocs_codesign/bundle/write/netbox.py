"""NetBox bulk-import tables: devices, their interfaces, and the cables between them.

Columns are those of NetBox's import forms (dcim). A cable of NetBox ends at two interfaces and an
interface has one cable, so every strand of a host is an interface, as in ``p1-tx``. The site, the
roles, the manufacturer and the device types must exist in NetBox before the import; they are the
fabric's name, ``Host`` and ``Optical circuit switch``, ``Generic``, and ``host`` and the switch
profiles. Import devices first, then interfaces, then cables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ocs_codesign.bundle.write.tables import host_cables
from ocs_codesign.bundle.write.text import csv_bytes

if TYPE_CHECKING:
    from ocs_codesign.bundle.write.tables import Cable, CableEnd
    from ocs_codesign.fabric.description import Fabric

HOST, SWITCH = "Host", "Optical circuit switch"
MANUFACTURER, HOST_TYPE = "Generic", "host"
PLANNED, INTERFACE_TYPE, CABLE_TYPE = "planned", "other", "smf"
INTERFACE = "dcim.interface"


def netbox_tables(fabric: Fabric, cables: list[Cable]) -> dict[str, bytes]:
    """Files by name."""
    return {
        "dcim.device.csv": _devices(fabric),
        "dcim.interface.csv": _interfaces(fabric, cables),
        "dcim.cable.csv": _cables(fabric, cables),
    }


def _devices(fabric: Fabric) -> bytes:
    site = (fabric.name, PLANNED)
    rows = [(host, HOST, MANUFACTURER, HOST_TYPE, *site) for host in fabric.hosts]
    rows += [
        (switch.name, SWITCH, MANUFACTURER, switch.profile.name, *site)
        for switch in fabric.switches
    ]
    return csv_bytes(("name", "role", "manufacturer", "device_type", "site", "status"), rows)


def _interfaces(fabric: Fabric, cables: list[Cable]) -> bytes:
    at_hosts = [
        (cable.a.device, _interface(cable.a, is_host=True), f"plane {cable.plane} {cable.a.strand}")
        for _, cable in host_cables(fabric, cables)
    ]
    at_switches = [
        (switch.name, f"{port}{side}", "spare" if port > switch.num_usable else "")
        for switch in fabric.switches
        for side in ("AB" if switch.profile.port_model.has_b_side else "A")
        for port in range(1, switch.num_ports + 1)
    ]
    rows = [(device, name, INTERFACE_TYPE, text) for device, name, text in at_hosts + at_switches]
    return csv_bytes(("device", "name", "type", "description"), rows)


def _cables(fabric: Fabric, cables: list[Cable]) -> bytes:
    hosts = set(fabric.hosts)
    sides = [f"side_{side}_{field}" for side in "ab" for field in ("device", "type", "name")]
    rows = []
    for cable in cables:
        names = [_interface(end, is_host=end.device in hosts) for end in (cable.a, cable.b)]
        ends = (cable.a.device, INTERFACE, names[0], cable.b.device, INTERFACE, names[1])
        rows.append((*ends, CABLE_TYPE, PLANNED, cable.name))
    return csv_bytes((*sides, "type", "status", "label"), rows)


def _interface(end: CableEnd, *, is_host: bool) -> str:
    return f"{end.port}-{end.strand}" if is_host else end.port
