"""Workload files: the collectives that a fabric is chosen for, in YAML or JSON.

``workload_json_schema`` documents the keys. Sizes and times are text with their unit, as in
``64MiB`` and ``200us``; a message is the whole data of all hosts together.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ocs_codesign.fabric.workload import Part, Workload
from ocs_codesign.files.broken_rules import checked_part, file_error
from ocs_codesign.files.limited import check_size, read_limited
from ocs_codesign.files.plain_text import read_plain_text
from ocs_codesign.reconfigure.hold.trace import Job

if TYPE_CHECKING:
    from ocs_codesign.formats.workload.schema import CollectivePart, WorkloadPart

MAX_WORKLOAD_BYTES = 4 * 2**20


def load_workload(path: str | Path) -> Workload:
    """The workload in a file, JSON if its suffix says so and YAML otherwise.

    Raises OSError if the file cannot be read, and ValueError with the file, the line (of YAML), the
    path in it, the value and the rule for anything else.
    """
    path = Path(path)
    data = read_limited(path, MAX_WORKLOAD_BYTES)
    return parse_workload(data, str(path), is_json=path.suffix.lower() == ".json")


def parse_workload(data: bytes, name: str, *, is_json: bool = False) -> Workload:
    """The workload in the content of a file called ``name``; ValueError as in ``load_workload``.

    >>> text = b"name: w\\ncollectives:\\n- {collective: allreduce, message: 64}\\n"
    >>> parse_workload(text, "w.yaml")
    Traceback (most recent call last):
    ValueError: w.yaml, line 3: collectives[0].message is 64: write a size as text with its unit, \
as in 64MiB
    """
    check_size(data, name, MAX_WORKLOAD_BYTES)
    from ocs_codesign.formats.workload.schema import WorkloadPart, keys_at

    plain = read_plain_text(data, name, is_json=is_json)
    part = checked_part(plain, name, WorkloadPart, keys_at, "workload", keys="name and collectives")
    try:
        return _workload(part)
    except ValueError as error:
        raise file_error(name, plain, ("collectives",), f": {error}", "the workload") from None


def workload_json_schema() -> dict[str, Any]:
    """The JSON Schema of workload files."""
    from ocs_codesign.formats.workload.schema import json_schema

    return json_schema()


def _workload(part: WorkloadPart) -> Workload:
    parts = tuple(_part(one, at) for at, one in enumerate(part.collectives, 1))
    return Workload(part.name, parts, part.repeat, part.reconfiguration)


def _part(one: CollectivePart, position: int) -> Part:
    job = Job(
        one.collective,
        one.message,
        gap_before_s=one.gap,
        gap_after_s=one.gap_after,
        count=one.count,
    )
    return Part(one.name or f"{one.collective.name} {position}", job)
