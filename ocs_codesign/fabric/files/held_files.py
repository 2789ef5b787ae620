"""Held cross-connects: what switches have up now, as their own tables or an inventory say it.

Columns of a CSV file, named by its first line, and keys of a cross-connect in JSON alike:

========================== =====================================================
``switch`` (or ``plane``)  the switch that has it, by name (its plane, if switches have no names)
``id``                     the two ports that it joins, as in ``1A-2B`` (``1-2`` without sides)
========================== =====================================================

``records`` says how lines and cells are separated.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.core.files.archives import read_limited
from ocs_codesign.core.files.atomic import errors_at
from ocs_codesign.core.files.records import RecordLayout, parse_records
from ocs_codesign.core.quantities import whole
from ocs_codesign.core.shown import shown
from ocs_codesign.fabric.repairs.repair import JoinedPorts
from ocs_codesign.fabric.rewiring.state import DARK, checked_state

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.fabric.description import Fabric, PortModel


MAX_HELD_BYTES = 64 * 2**20
MAX_HELD = 2**20
MAX_PLANES = 4096

_ID = re.compile(r"([1-9][0-9]{0,6})(A?)-([1-9][0-9]{0,6})(B?)")


def _text(value: Any, name: str) -> str:
    if not isinstance(value, (str, int)) or isinstance(value, bool):
        raise ValueError(f"{name} is {shown(value)}: it must be a name")
    return str(value)


_LAYOUT: RecordLayout[tuple[str, str]] = RecordLayout(
    whole="list of cross-connects",
    record="cross_connect",
    fields={"switch": ("place", _text), "plane": ("place", _text), "id": ("name", _text)},
    required=("place", "name"),
    make=lambda place, name: (place, name),
    most=MAX_HELD,
    other="name",
)


def read_joined_ports(path: str | Path, fabric: Fabric) -> list[JoinedPorts]:
    """The cross-connects that the switches of a fabric hold.

    Raises OSError if the file cannot be read, and ValueError with the place and the rule for
    switches that the fabric does not have and what is no cross-connect of theirs.
    """
    sided = {switch.name: switch.profile.port_model.has_b_side for switch in fabric.switches}
    found = []
    for place, (switch, name) in _records(path):
        with errors_at(place):
            if switch not in sided:
                raise ValueError(f"the fabric has no switch {shown(switch)}")
            found.append(JoinedPorts(switch, *_ports(name, has_b_side=sided[switch])))
    return found


def read_plane_state(
    path: str | Path, port_model: PortModel, num_nodes: int, num_planes: int
) -> NDArray[np.int32]:
    """What planes hold (at least so many planes x N, -1 for dark), port n + 1 being node n's.

    Raises OSError and ValueError as ``read_joined_ports`` does.
    """
    rows = []
    for place, (plane, name) in _records(path):
        with errors_at(place):
            number = whole(plane)
            if number is None or number >= MAX_PLANES:
                raise ValueError(f"plane is {shown(plane)}: planes are 0 to {MAX_PLANES - 1}")
            ends = _ports(name, has_b_side=port_model.has_b_side)
            if max(ends) > num_nodes:
                raise ValueError(
                    f"id is {shown(name)}: there are {num_nodes} nodes, from port 1 on"
                )
            rows.append((number, ends[0] - 1, ends[1] - 1))
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    planes = max(num_planes, 1 + int(table[:, 0].max(initial=-1)))
    state = np.full((planes, num_nodes), DARK, dtype=np.int32)
    if not port_model.has_b_side:
        table = np.concatenate([table, table[:, [0, 2, 1]]])
    places = table[:, 0] * num_nodes + table[:, 1]
    if len(np.unique(places)) < len(places):
        raise ValueError(f"{path}: a port is in two cross-connects")
    state[table[:, 0], table[:, 1]] = table[:, 2]
    with errors_at(str(path)):
        return checked_state(state, port_model, num_nodes)


def _records(path: str | Path) -> list[tuple[str, tuple[str, str]]]:
    path = Path(path)
    data = read_limited(path, MAX_HELD_BYTES)
    is_json = path.suffix.lower() == ".json"
    return parse_records(data, str(path), _LAYOUT, is_json=is_json)[0]


def _ports(name: str, *, has_b_side: bool) -> tuple[int, int]:
    parts = _ID.fullmatch(name)
    if parts is None or {bool(parts[2]), bool(parts[4])} != {has_b_side}:
        form = "1A-2B" if has_b_side else "1-2"
        raise ValueError(f"id is {shown(name)}: it must be as {form}")
    return int(parts[1]), int(parts[3])
