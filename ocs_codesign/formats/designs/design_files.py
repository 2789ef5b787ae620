"""Designs on disk: a directory with ``schedule.npz`` and ``design.json``, which explains it."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, final

from ocs_codesign.files.atomic import temporary_sibling
from ocs_codesign.files.npz import read_archive, write_schedule
from ocs_codesign.formats.designs.record import (
    MAX_RECORD_BYTES,
    design_record,
    program_record,
    read_record,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from ocs_codesign.circuits import CircuitProgram
    from ocs_codesign.cost import Cost
    from ocs_codesign.design import Design
    from ocs_codesign.formats.designs.record import Claims, ProgramClaims
    from ocs_codesign.reconfigure.program.designs import ProgramDesign
    from ocs_codesign.schedule import Schedule

__all__ = [
    "LoadedDesign",
    "LoadedProgram",
    "check_design_directory",
    "design_record",
    "load_design",
    "program_record",
    "save_design",
    "save_program",
]

SCHEDULE_FILE = "schedule.npz"
RECORD_FILE = "design.json"


@final
@dataclass(frozen=True, slots=True, eq=False)
class LoadedProgram:
    """Circuits that were read, and what the record claims of them; None where there is none."""

    circuits: CircuitProgram
    claims: ProgramClaims | None


@final
@dataclass(frozen=True, slots=True, eq=False)
class LoadedDesign:
    """A schedule that was read, and what its record claims; None where there is no record.

    ``program`` is None if circuits do not change. Nothing is verified yet: give ``schedule`` and
    ``claimed`` to ``verification.schedules.verify``, or with the circuits to
    ``verification.programs.verify_program``, and compare ``loads`` and the recipe's topology.
    """

    schedule: Schedule
    claimed: Cost | None
    recipe: str | None
    loads: tuple[Fraction, ...] | None = None
    program: LoadedProgram | None = None


def check_design_directory(directory: str | Path) -> None:
    """ValueError or OSError if a design must not be saved there: only designs are replaced."""
    directory = Path(directory).resolve()
    if not directory.exists():
        near = next(parent for parent in directory.parents if parent.exists())
    else:
        near = directory
        if not directory.is_dir():
            raise NotADirectoryError(None, "is a file, not a directory", str(directory))
        others = sorted(set(os.listdir(directory)) - {SCHEDULE_FILE, RECORD_FILE})
        if others:
            raise ValueError(
                f"{directory} holds other files ({others[0]!r}): "
                "a design is only saved in a new or empty directory or over an earlier design"
            )
    if not os.access(near, os.W_OK):
        raise PermissionError(None, "cannot be written to", str(near))


def save_design(design: Design, directory: str | Path, graph: str | None = None) -> None:
    """Write ``schedule.npz`` and ``design.json``, both whole or neither, the same bytes each time.

    A new directory appears complete; an earlier design's files are replaced. ``graph`` names the
    file that a topology without a recipe came from. Raises ValueError if the directory holds
    anything else, OSError if it cannot be written.
    """
    record = design_record(design, graph)
    _save(record, lambda file: write_schedule(file, design.schedule), directory)


def save_program(design: ProgramDesign, directory: str | Path) -> None:
    """``save_design`` for one whose circuits change; they are saved with the schedule."""
    record = program_record(design)
    _save(record, lambda file: write_schedule(file, design.schedule, design.program), directory)


def _save(
    fields: dict[str, Any], write: Callable[[IO[bytes]], None], directory: str | Path
) -> None:
    check_design_directory(directory)
    target = Path(directory).resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    part = temporary_sibling(target)
    try:
        part.mkdir()
        with (part / SCHEDULE_FILE).open("xb") as file:
            write(file)
        record = json.dumps(fields, indent=2, allow_nan=False)
        (part / RECORD_FILE).write_text(record + "\n", encoding="utf-8")
        if target.is_dir():
            for name in (SCHEDULE_FILE, RECORD_FILE):
                os.replace(part / name, target / name)
        else:
            os.rename(part, target)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def load_design(path: str | Path) -> LoadedDesign:
    """The design in a directory, or the bare schedule in an npz file; trusts neither.

    Raises OSError if a file cannot be read and ValueError, with the file and the rule, if it is not
    what ``save_design`` writes or the two files are not of one design.
    """
    path = Path(path)
    if not path.is_dir():
        archive = read_archive(path)
        bare = None if archive.circuits is None else LoadedProgram(archive.circuits, None)
        return LoadedDesign(archive.schedule, None, None, None, bare)
    for name in (SCHEDULE_FILE, RECORD_FILE):
        if not (path / name).exists():
            raise FileNotFoundError(None, f"there is no {name} in this directory", str(path))
    record_path = path / RECORD_FILE
    with record_path.open("rb") as file:
        data = file.read(MAX_RECORD_BYTES + 1)
    try:
        claims = read_record(data)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{record_path}: {error}") from None
    archive = read_archive(path / SCHEDULE_FILE)
    try:
        program = _checked(claims, archive.schedule, archive.circuits)
    except ValueError as error:
        raise ValueError(f"{record_path} {error}") from None
    return LoadedDesign(archive.schedule, claims.cost, claims.recipe, claims.loads, program)


def _checked(
    claims: Claims, schedule: Schedule, circuits: CircuitProgram | None
) -> LoadedProgram | None:
    """The program and its claims, if the record is of this schedule; ValueError if not."""
    real = {
        "collective": schedule.collective.name,
        "nodes": schedule.topology.num_nodes,
        "degree": schedule.topology.degree if circuits is None else circuits.num_planes,
        "num_chunks": schedule.num_chunks,
        "num_sends": schedule.num_sends,
    }
    for key, value in real.items():
        if claims.facts[key] != value:
            raise ValueError(
                f"is not of this schedule: {key} is {claims.facts[key]!r} there, "
                f"{value!r} in {SCHEDULE_FILE}"
            )
    if (claims.program is None) != (circuits is None):
        changing = "no circuits" if circuits is None else "circuits that change"
        raise ValueError(
            f"is not of this schedule: it is of format {claims.facts['format']}, "
            f"but there are {changing} in {SCHEDULE_FILE}"
        )
    return None if circuits is None else LoadedProgram(circuits, claims.program)
