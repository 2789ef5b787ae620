"""Plans made ready to leave: lowered, and interpreted by a checker that shares nothing with that.

An export on disk is a directory with the files of a format and ``export.json``, which says what
they are. A book has a directory for each of its plans.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ocs_codesign
from ocs_codesign.files.atomic import check_replaceable, whole_directory
from ocs_codesign.files.limited import read_limited
from ocs_codesign.formats.programs.export import Export
from ocs_codesign.lowering.lowering import lower
from ocs_codesign.verification.rank_programs import check_program

if TYPE_CHECKING:
    from fractions import Fraction

    from ocs_codesign.book import Plan
    from ocs_codesign.formats.programs.export import Contents
    from ocs_codesign.network import Network

INDEX = "export.json"
MAX_INDEX_BYTES = 2**24
_LONGEST_NAME = 60


def plain_name(text: str) -> str:
    """A text as a name for files and algorithms: letters, digits, ``-`` and ``_``.

    >>> plain_name("Line(CompleteBipartite(4))")
    'Line-CompleteBipartite-4'
    """
    name = re.sub(r"[^A-Za-z0-9_]+", "-", text).strip("-")
    return name[:_LONGEST_NAME].strip("-") or "design"


def exported(
    name: str,
    plan: Plan,
    network: Network,
    *,
    unit_Bps: Fraction | None = None,  # noqa: N803 - units keep their case
    message_bytes: int | None = None,
    in_place: bool = False,
) -> Export:
    """A verified plan, lowered to a program that the interpreter accepts.

    Raises ValueError for a plan that cannot be lowered, RuntimeError, with what is wrong, for a
    program that does not do what is demanded.
    """
    program = lower(plan, in_place=in_place)
    verdict = check_program(program)
    if not verdict.ok:
        raise RuntimeError(f"the program of {name} fails: {verdict.witness}")
    return Export(plain_name(name), plan, program, network, unit_Bps, message_bytes)


def check_export_directory(directory: str | Path) -> None:
    """ValueError or OSError if nothing must be exported there: only exports are replaced."""
    check_replaceable(
        Path(directory).resolve(),
        _foreign,
        "an export is only written to a new or empty directory or over an earlier export",
    )


def _foreign(directory: Path) -> set[str]:
    """What is in a directory that no earlier export put there."""
    there = set(os.listdir(directory))
    if INDEX not in there:
        return there
    try:
        files = json.loads(read_limited(directory / INDEX, MAX_INDEX_BYTES))["files"]
        own = {str(name).split("/", 1)[0] for name in files}
    except (ValueError, KeyError, TypeError, RecursionError):
        return there
    return there - own - {INDEX}


def save_export(contents: Contents, facts: dict[str, Any], directory: str | Path) -> None:
    """Write the files of an export and its ``export.json`` with ``facts``, all or none of them.

    Raises ValueError if the directory holds anything else, OSError if it cannot be written.
    """
    check_export_directory(directory)
    index = {"format": 1, "version": ocs_codesign.__version__, **facts, "files": sorted(contents)}
    with whole_directory(Path(directory), swapped=True) as part:
        for name, content in contents.items():
            (part / name).parent.mkdir(parents=True, exist_ok=True)
            (part / name).write_bytes(content)
        (part / INDEX).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")
