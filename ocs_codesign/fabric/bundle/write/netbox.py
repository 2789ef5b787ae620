"""NetBox tables of a bundle, with what they need, and the order in which they are imported.

Columns are those of NetBox's import forms (dcim). A cable of NetBox ends at two places, each of
which has one cable, so every strand of a host is an interface, as in ``p1-tx``. A port of a switch
is a front port, where the cable ends, with a rear port of the same name behind it; a cross-connect
is a cable between two rear ports, so that NetBox traces light from host to host.
"""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING

from ocs_codesign.core.files.archives import read_limited
from ocs_codesign.fabric.bundle.write.tables import host_cables
from ocs_codesign.fabric.bundle.write.text import csv_bytes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from ocs_codesign.fabric.bundle.write.tables import Cable, CableEnd
    from ocs_codesign.fabric.description import Fabric


HOST, SWITCH = "Host", "Optical circuit switch"
MANUFACTURER, HOST_TYPE = "Generic", "host"
FAILED = "failed"
PLANNED, OTHER, CABLE_TYPE = "planned", "other", "smf"
INTERFACE, FRONT, REAR = "dcim.interface", "dcim.frontport", "dcim.rearport"
MAX_BYTES = 256 * 2**20
COLOURS = {HOST: "0b5fa5", SWITCH: "e0a030"}

_ORDER = {
    "dcim.site.csv": ("Organization > Sites", ("name",)),
    "dcim.manufacturer.csv": ("Devices > Manufacturers", ("name",)),
    "dcim.devicerole.csv": ("Devices > Device Roles", ("name",)),
    "dcim.devicetype.csv": ("Devices > Device Types", ("model",)),
    "dcim.device.csv": ("Devices > Devices", ("name",)),
    "dcim.interface.csv": ("Devices > Interfaces", ("device", "name")),
    "dcim.rearport.csv": ("Devices > Rear Ports", ("device", "name")),
    "dcim.frontport.csv": ("Devices > Front Ports", ("device", "name")),
    "dcim.cable.csv": ("Connections > Cables", ("label",)),
    "dcim.cable.up.csv": ("Connections > Cables", ("label",)),
}
"""Where each file is imported, and the columns that tell its rows apart."""

_SIDES = [f"side_{side}_{field}" for side in "ab" for field in ("device", "type", "name")]


def netbox_files(
    fabric: Fabric, listed: list[Cable], failed: Collection[str], joined: Sequence[tuple[str, str]]
) -> dict[str, bytes]:
    """Files by name; ``failed`` are devices, ``joined`` cross-connects as switch and id."""
    types = dict.fromkeys([HOST_TYPE, *(switch.profile.name for switch in fabric.switches)])
    name = ("name", "slug")
    kinds = [(MANUFACTURER, kind, slug(kind), 1) for kind in types]
    rear, front = _ports(fabric)
    return {
        "README.md": _readme(),
        "dcim.site.csv": csv_bytes((*name, "status"), [(fabric.name, slug(fabric.name), PLANNED)]),
        "dcim.manufacturer.csv": csv_bytes(name, [(MANUFACTURER, slug(MANUFACTURER))]),
        "dcim.devicerole.csv": csv_bytes(
            (*name, "color"), [(role, slug(role), COLOURS[role]) for role in COLOURS]
        ),
        "dcim.devicetype.csv": csv_bytes(("manufacturer", "model", "slug", "u_height"), kinds),
        "dcim.device.csv": _devices(fabric, failed),
        "dcim.interface.csv": _interfaces(fabric, listed),
        "dcim.rearport.csv": rear,
        "dcim.frontport.csv": front,
        "dcim.cable.csv": _cables(fabric, listed),
        "dcim.cable.up.csv": csv_bytes(
            (*_SIDES, "type", "status", "label"), map(_cross_connect, joined)
        ),
    }


def slug(name: str) -> str:
    """A name as NetBox has it in addresses.

    >>> slug("Optical circuit switch")
    'optical-circuit-switch'
    """
    return re.sub(r"[^a-z0-9_]+", "-", name.lower()).strip("-")[:100] or "unnamed"


def with_ids(name: str, table: bytes, exported: bytes) -> bytes:
    """A table with the ``id`` that NetBox exported for each of its rows, empty for new ones.

    NetBox updates what has an id and makes the rest. Raises ValueError unless what was exported
    has an ID and the columns that tell rows apart; capitals and spaces do not matter.

    >>> with_ids("dcim.device.csv", b"name,role\\nh1,Host\\nh2,Host\\n", b"ID,Name\\n7,h2\\n")
    b'id,name,role\\n,h1,Host\\n7,h2,Host\\n'
    """
    key = _ORDER[name][1]
    ids: dict[tuple[str, ...], str] = {}
    for row in csv.DictReader(io.StringIO(exported.decode("utf-8-sig"), newline="")):
        plain = {(column or "").lower().replace(" ", "_"): value for column, value in row.items()}
        missing = [column for column in ("id", *key) if column not in plain]
        if missing:
            raise ValueError(f"{name}: what NetBox exported has no column {missing[0]!r}")
        ids[tuple(plain[column] for column in key)] = plain["id"]
    rows = list(csv.DictReader(io.StringIO(table.decode(), newline="")))
    columns = list(rows[0]) if rows else []
    made = ([ids.get(tuple(row[c] for c in key), ""), *row.values()] for row in rows)
    return csv_bytes(("id", *columns), made) if rows else table


def imports_with_ids(directory: Path, exported: Path) -> dict[str, tuple[bytes, int]]:
    """Every import of a bundle with the ids in the files of its name, and how many have one.

    Raises OSError if there are none, and ValueError as ``with_ids``.
    """
    made = {}
    for name in _ORDER:
        table, known = read_limited(directory / name, MAX_BYTES), exported / name
        if known.is_file():
            table = with_ids(name, table, read_limited(known, MAX_BYTES))
        has_ids = table.startswith(b"id,")
        count = sum(not line.startswith(b",") for line in table.splitlines()[1:]) if has_ids else 0
        made[name] = table, count
    return made


def _readme() -> bytes:
    steps = [f"{at}. `{name}`: {menu}" for at, (name, (menu, _)) in enumerate(_ORDER.items(), 1)]
    lines = (
        *("# Import into NetBox", "", "Upload the files in this order, each as CSV:", ""),
        *(*steps, "", "The first four make what the others name; leave out those that your NetBox"),
        "has, and put its names into `dcim.device.csv`. The last one has the cross-connects of the",
        "configuration that is up or planned, as cables between rear ports.",
        "",
        "After a repair or a rewiring, export what NetBox has (All Data, CSV, with the column ID)",
        "under these names to a directory: `ocs-codesign fabric netbox BUNDLE DIRECTORY --out",
        "IMPORTS` writes the files again with the ids of what is there, which NetBox updates.",
        "Delete cables of `dcim.cable.up.csv` that are no longer in it before you import it again.",
    )
    return ("\n".join(lines) + "\n").encode()


def _devices(fabric: Fabric, failed: Collection[str]) -> bytes:
    kinds = [(host, HOST, MANUFACTURER, HOST_TYPE) for host in fabric.hosts]
    kinds += [(each.name, SWITCH, MANUFACTURER, each.profile.name) for each in fabric.switches]
    rows = [(*kind, fabric.name, FAILED if kind[0] in failed else PLANNED) for kind in kinds]
    return csv_bytes(("name", "role", "manufacturer", "device_type", "site", "status"), rows)


def _interfaces(fabric: Fabric, listed: list[Cable]) -> bytes:
    rows = [
        (*_end(cable.a, is_host=True)[::2], OTHER, f"plane {cable.plane} {cable.a.strand}")
        for _, cable in host_cables(fabric, listed)
    ]
    return csv_bytes(("device", "name", "type", "description"), rows)


def _ports(fabric: Fabric) -> tuple[bytes, bytes]:
    """Rear ports, and the front ports before them."""
    ports = [
        (switch.name, f"{port}{side}", "spare" if port > switch.num_usable else "")
        for switch in fabric.switches
        for side in switch.profile.port_model.sides
        for port in range(1, switch.num_ports + 1)
    ]
    rear = [(device, name, OTHER, 1, text) for device, name, text in ports]
    front = [(device, name, OTHER, 1, name, 1, text) for device, name, text in ports]
    columns, behind = ("device", "name", "type"), ("rear_port", "rear_port_position")
    return (
        csv_bytes((*columns, "positions", "description"), rear),
        csv_bytes((*columns, "positions", *behind, "description"), front),
    )


def _cables(fabric: Fabric, listed: list[Cable]) -> bytes:
    hosts = set(fabric.hosts)

    def rows() -> Iterator[tuple[str, ...]]:
        for cable in listed:
            ends = (_end(end, is_host=end.device in hosts) for end in (cable.a, cable.b))
            yield (*next(ends), *next(ends), CABLE_TYPE, PLANNED, cable.name)

    return csv_bytes((*_SIDES, "type", "status", "label"), rows())


def _end(end: CableEnd, *, is_host: bool) -> tuple[str, str, str]:
    """Device, type and name of what a cable ends at."""
    if is_host:
        return end.device, INTERFACE, f"{end.port}-{end.strand}"
    return end.device, FRONT, end.port


def _cross_connect(joined: tuple[str, str]) -> tuple[str, ...]:
    switch, name = joined
    a_side, _, b_side = name.partition("-")
    ends = (switch, REAR, a_side, switch, REAR, b_side)
    return (*ends, CABLE_TYPE, PLANNED, f"{switch} {name}")
