"""Plans made ready to leave: lowered, and interpreted by a checker that shares nothing with that.

An export on disk is a directory with the files of a format and ``export.json``, which says what
they are. A book has a directory for each of its plans.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import ocs_codesign
from ocs_codesign.core.files.archives import read_limited
from ocs_codesign.core.files.atomic import check_replaceable, whole_directory
from ocs_codesign.core.plans import RankProgram
from ocs_codesign.core.schedule import Messages
from ocs_codesign.interop.lowering.lowering import lower
from ocs_codesign.interop.lowering.raising import raised
from ocs_codesign.interop.registry import FORMATS, Export, read_program
from ocs_codesign.verification.messages import check_messages
from ocs_codesign.verification.rank_programs import check_program
from ocs_codesign.verification.schedules import verify

if TYPE_CHECKING:
    from fractions import Fraction

    from ocs_codesign.core.collective import Collective
    from ocs_codesign.core.network import Network
    from ocs_codesign.core.plans import Plan
    from ocs_codesign.core.schedule import Schedule
    from ocs_codesign.interop.registry import Contents
    from ocs_codesign.verification.schedules import Verdict


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


def is_export(directory: str | Path) -> bool:
    """Whether a directory holds an export."""
    return os.path.isfile(Path(directory) / INDEX)  # a recipe may be too long for a path


def programs_in(directory: str | Path) -> list[tuple[Path, str]]:
    """The file of every plan in an export, with its format.

    Of a format with a file a rank it is one of them. Raises OSError if ``export.json`` cannot be
    read and ValueError if it is none, or the format cannot be read or checked.
    """
    directory = Path(directory)
    format_name, names = _index(directory / INDEX)
    form = FORMATS.get(format_name)
    if form is None or (form.read is None and form.check is None):
        raise ValueError(f"{directory}: an export to {format_name} cannot be verified")
    endings = (form.suffix, Path(form.suffix).suffix)  # schedules end in .npz, messages in more
    listed = ([name for name in names if name.endswith(each)] for each in endings)
    paths = [directory / name for name in next(filter(None, listed), [])]
    first = {path.parent: path for path in reversed(paths)}
    if not paths:
        raise ValueError(f"{directory / INDEX}: no file of {format_name} is listed")
    return [(path, format_name) for path in (first.values() if form.check else paths)][::-1]


def _index(path: Path) -> tuple[str, list[str]]:
    """The format that an export's index tells, and its files."""
    try:
        record = json.loads(read_limited(path, MAX_INDEX_BYTES))
        names = [str(name) for name in record["files"]]
        if any(Path(name).is_absolute() or ".." in Path(name).parts for name in names):
            raise ValueError("files lie inside the directory")
        return str(record["to"]), names
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{path}: this is no index of an export: {error}") from None


def _foreign(directory: Path) -> set[str]:
    """What is in a directory that no earlier export put there."""
    there = set(os.listdir(directory))
    if INDEX not in there:
        return there
    try:
        own = {name.split("/", 1)[0] for name in _index(directory / INDEX)[1]}
    except ValueError:
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


# Programs and plans of others: read, interpreted, and raised to a schedule that is replayed.


@final
@dataclass(frozen=True, slots=True, eq=False)
class Imported:
    """What a file of others holds: its ``collective`` of so many ranks, and what a check found.

    ``witness`` is the first thing wrong, in words, None if nothing is; then ``schedule`` is what
    was read, or what the program does as sends over links, with the ``verdict`` of its replay.
    ``num_operations`` is 0 for a plan that is no program.
    """

    format_name: str
    collective: Collective
    num_ranks: int
    num_operations: int
    witness: str | None
    schedule: Schedule | None = None
    verdict: Verdict | None = None


def imported(path: Path, format_name: str) -> Imported:
    """What a file of a format holds, verified.

    Raises OSError if it cannot be read and ValueError if it is not of the format.
    """
    found = read_program(path, format_name)
    witness = None
    if isinstance(found, RankProgram):
        shape = (found.collective, found.num_ranks, found.num_operations)
        witness = check_program(found).witness
    elif isinstance(found, Messages):
        shape = (found.collective, found.num_ranks, 0)
        witness = check_messages(found)
    else:
        shape = (found.collective, found.num_hosts, 0)
    if witness is not None:
        return Imported(format_name, *shape, str(witness))
    program = lower(found) if isinstance(found, Messages) else found
    schedule = raised(program) if isinstance(program, RankProgram) else program
    verdict = verify(schedule)
    wrong = None if verdict.witness is None else str(verdict.witness)
    return Imported(format_name, *shape, wrong, schedule, verdict)
