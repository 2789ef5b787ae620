"""Fabric files: a fabric described in YAML or JSON, read with every rule checked, and written.

``schema.json_schema`` documents the keys. Quantities are text with their unit, as in ``10us`` and
``400Gbps``; ``node_bandwidth`` is the egress of a host over all its ports, ``port_bandwidth`` that
of one of them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from ocs_codesign.files.atomic import write_files
from ocs_codesign.files.broken_rules import checked_part, file_error
from ocs_codesign.files.limited import check_size, read_limited
from ocs_codesign.files.naming import shown
from ocs_codesign.files.plain_text import read_plain_text

if TYPE_CHECKING:
    from ocs_codesign.fabric.description import Fabric

MAX_FABRIC_BYTES = 4 * 2**20


def load_fabric(path: str | Path) -> Fabric:
    """The fabric in a file, JSON if its suffix says so and YAML otherwise.

    Raises OSError if the file cannot be read, and ValueError with the file, the line (of YAML), the
    path in it, the value and the rule for anything else.
    """
    path = Path(path)
    data = read_limited(path, MAX_FABRIC_BYTES)
    return parse_fabric(data, str(path), is_json=path.suffix.lower() == ".json")


def parse_fabric(data: bytes, name: str, *, is_json: bool = False) -> Fabric:
    """The fabric in the content of a file called ``name``; ValueError as in ``load_fabric``.

    >>> parse_fabric(b"name: lab\\nhosts: 64", "lab.yaml")
    Traceback (most recent call last):
    ValueError: lab.yaml, line 2: hosts is 64: it must be a map of keys to values \
(and 3 more errors)
    """
    check_size(data, name, MAX_FABRIC_BYTES)
    from ocs_codesign.formats.fabric.parts import PartError, fabric_of
    from ocs_codesign.formats.fabric.schema import TAGS, FabricPart, keys_at

    plain = read_plain_text(data, name, is_json=is_json)
    part = checked_part(
        plain, name, FabricPart, keys_at, "fabric", tags=TAGS, keys="name and so on"
    )
    try:
        return fabric_of(part)
    except PartError as error:
        raise file_error(name, plain, error.place, f" {error.rule}", "the fabric") from None


def fabric_text(fabric: Fabric, *, as_json: bool = False) -> str:
    """The canonical text of a fabric, YAML or JSON, which ``parse_fabric`` reads back.

    Raises ValueError for a fabric that a file cannot describe, such as a name of two lines.
    """
    from ocs_codesign.formats.fabric.plain import plain_fabric, yaml_text

    plain = plain_fabric(fabric)
    text = json.dumps(plain, indent=2, ensure_ascii=False) + "\n" if as_json else yaml_text(plain)
    again = parse_fabric(text.encode(), f"fabric {shown(fabric.name)}", is_json=as_json)
    if plain_fabric(again) != plain:
        raise ValueError(f"fabric {shown(fabric.name)} is not the same when it is read back")
    return text


def save_fabric(fabric: Fabric, path: str | Path) -> None:
    """Write a fabric's canonical text: JSON if the suffix says so, YAML otherwise."""
    path = Path(path)
    text = fabric_text(fabric, as_json=path.suffix.lower() == ".json")
    write_files({path: text.encode()})
