"""Designs on disk: a directory with ``schedule.npz`` and ``design.json``, which explains it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, final

from ocs_codesign.files.atomic import check_replaceable, whole_directory
from ocs_codesign.files.limited import read_limited
from ocs_codesign.formats.designs.archive import read_archive, write_schedule
from ocs_codesign.formats.designs.record import design_record, program_record, read_record
from ocs_codesign.verification.switches import FORWARD_ONLY, Abilities

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from ocs_codesign.circuits import CircuitProgram
    from ocs_codesign.cost import Cost
    from ocs_codesign.design import Design
    from ocs_codesign.formats.designs.record import Claims, ProgramClaims
    from ocs_codesign.reconfigure.program.designs import ProgramDesign
    from ocs_codesign.schedule import Schedule

SCHEDULE_FILE = "schedule.npz"
RECORD_FILE = "design.json"
MAX_RECORD_BYTES = 64 * 2**20


@final
@dataclass(frozen=True, slots=True, eq=False)
class LoadedDesign:
    """A schedule that was read, and what its record claims; None where there is no record.

    ``circuits`` are None if they do not change, ``program`` is what is claimed of them; ``maker``
    is what made the schedule, as the record says, and ``abilities`` what its switches must be able
    to do. Nothing is verified yet: ``claims.verify_design`` replays the sends and compares every
    claim.
    """

    schedule: Schedule
    claimed: Cost | None
    recipe: str | None
    loads: tuple[Fraction, ...] | None
    circuits: CircuitProgram | None
    program: ProgramClaims | None
    maker: str | None = None
    abilities: Abilities = FORWARD_ONLY


def check_design_directory(directory: str | Path) -> None:
    """ValueError or OSError if a design must not be saved there: only designs are replaced."""
    check_replaceable(
        Path(directory).resolve(),
        lambda target: set(os.listdir(target)) - {SCHEDULE_FILE, RECORD_FILE},
        "a design is only saved in a new or empty directory or over an earlier design",
    )


def save_design(design: Design, directory: str | Path, graph: str | None = None) -> None:
    """Write ``schedule.npz`` and ``design.json``, both whole or neither, the same bytes each time.

    A new directory appears complete; an earlier design's files are replaced. ``graph`` names the
    file that a topology without a recipe came from. Raises ValueError if the directory holds
    anything else, OSError if it cannot be written.
    """
    record = design_record(design, graph)
    contents = (design.schedule, None, design.abilities)
    _save(record, lambda file: write_schedule(file, *contents), directory)


def save_program(design: ProgramDesign, directory: str | Path) -> None:
    """``save_design`` for one whose circuits change; they are saved with the schedule."""
    record = program_record(design)
    _save(record, lambda file: write_schedule(file, design.schedule, design.program), directory)


def _save(
    fields: dict[str, Any], write: Callable[[IO[bytes]], None], directory: str | Path
) -> None:
    check_design_directory(directory)
    with whole_directory(Path(directory), swapped=False) as part:
        with (part / SCHEDULE_FILE).open("xb") as file:
            write(file)
        record = json.dumps(fields, indent=2, allow_nan=False)
        (part / RECORD_FILE).write_text(record + "\n", encoding="utf-8")


def load_design(path: str | Path) -> LoadedDesign:
    """The design in a directory, or the bare schedule in an npz file; trusts neither.

    Raises OSError if a file cannot be read and ValueError, with the file and the rule, if it is not
    what ``save_design`` writes or the two files are not of one design.
    """
    path = Path(path)
    if not path.is_dir():
        archive = read_archive(path)
        return LoadedDesign(
            *(archive.schedule, None, None, None, archive.circuits, None),
            abilities=archive.abilities,
        )
    for name in (SCHEDULE_FILE, RECORD_FILE):
        if not (path / name).exists():
            raise FileNotFoundError(None, f"there is no {name} in this directory", str(path))
    record_path = path / RECORD_FILE
    data = read_limited(record_path, MAX_RECORD_BYTES)
    try:
        claims = read_record(data)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{record_path}: {error}") from None
    archive = read_archive(path / SCHEDULE_FILE)
    rule = _contradiction(claims, archive.schedule, archive.circuits)
    if rule is not None:
        raise ValueError(f"{record_path} is not of this schedule: {rule} in {SCHEDULE_FILE}")
    return LoadedDesign(
        *(archive.schedule, claims.cost, claims.recipe, claims.loads),
        *(archive.circuits, claims.program, claims.facts["schedule"], archive.abilities),
    )


def _contradiction(
    claims: Claims, schedule: Schedule, circuits: CircuitProgram | None
) -> str | None:
    """What a record says that is not so of the schedule beside it; None if both are of one."""
    real = {
        "collective": schedule.collective.name,
        "nodes": schedule.topology.num_nodes,
        "degree": schedule.topology.degree if circuits is None else circuits.num_planes,
        "num_chunks": schedule.num_chunks,
        "num_sends": schedule.num_sends,
    }
    for key, value in real.items():
        if claims.facts[key] != value:
            return f"{key} is {claims.facts[key]!r} there, {value!r}"
    if (claims.program is None) == (circuits is None):
        return None
    changing = "no circuits" if circuits is None else "circuits that change"
    return f"it is of format {claims.facts['format']}, but there are {changing}"
