"""Designs on disk: a directory with ``schedule.npz`` and ``design.json``, which explains it."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import ocs_codesign
from ocs_codesign.cost import Cost
from ocs_codesign.export.atomic import temporary_sibling
from ocs_codesign.export.npz import read_schedule, write_schedule

if TYPE_CHECKING:
    from ocs_codesign.design import Design
    from ocs_codesign.schedule import Schedule

SCHEDULE_FILE = "schedule.npz"
RECORD_FILE = "design.json"
FORMAT = 1
MAX_RECORD_BYTES = 64 * 2**20

_FRACTION = re.compile(r"(0|[1-9][0-9]{0,99})(/[1-9][0-9]{0,99})?")
_MAX_INTEGER = 2**63


@final
@dataclass(frozen=True, slots=True, eq=False)
class LoadedDesign:
    """A schedule that was read, and what its record claims; None where there is no record.

    Nothing is verified yet: give ``schedule`` and ``claimed`` to ``verification.verify``, and
    compare ``loads`` and the recipe's topology.
    """

    schedule: Schedule
    claimed: Cost | None
    recipe: str | None
    loads: tuple[Fraction, ...] | None = None


def design_record(design: Design, graph: str | None = None) -> dict[str, Any]:
    """What ``design.json`` says of a design; ``graph`` names the file of one without a recipe."""
    schedule = design.schedule
    return {
        "format": FORMAT,
        "version": ocs_codesign.__version__,
        "recipe": None if design.recipe is None else repr(design.recipe),
        "graph": graph,
        "collective": schedule.collective.value,
        "nodes": schedule.topology.num_nodes,
        "degree": schedule.topology.degree,
        "cost": {
            "steps": design.cost.steps,
            "t_b": str(design.cost.t_b),
            "t_b_float": float(design.cost.t_b),
        },
        "max_load_per_step": [str(load) for load in design.loads],
        "num_chunks": schedule.num_chunks,
        "num_sends": schedule.num_sends,
        "schedule": design.maker,
    }


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
    check_design_directory(directory)
    target = Path(directory).resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    part = temporary_sibling(target)
    try:
        part.mkdir()
        with (part / SCHEDULE_FILE).open("xb") as file:
            write_schedule(file, design.schedule)
        record = json.dumps(design_record(design, graph), indent=2, allow_nan=False)
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
        return LoadedDesign(read_schedule(path), None, None)
    for name in (SCHEDULE_FILE, RECORD_FILE):
        if not (path / name).exists():
            raise FileNotFoundError(None, f"there is no {name} in this directory", str(path))
    record_path = path / RECORD_FILE
    with record_path.open("rb") as file:
        data = file.read(MAX_RECORD_BYTES + 1)
    try:
        record = _Record(_parsed(data))
        claimed, recipe, loads = record.cost(), record.recipe(), record.loads()
        facts = record.facts()
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{record_path}: {error}") from None
    schedule = read_schedule(path / SCHEDULE_FILE)
    real = {
        "collective": schedule.collective.value,
        "nodes": schedule.topology.num_nodes,
        "degree": schedule.topology.degree,
        "num_chunks": schedule.num_chunks,
        "num_sends": schedule.num_sends,
    }
    for key, value in real.items():
        if facts[key] != value:
            raise ValueError(
                f"{record_path} is not of this schedule: {key} is {facts[key]!r} there, "
                f"{value!r} in {SCHEDULE_FILE}"
            )
    return LoadedDesign(schedule, claimed, recipe, loads)


def _parsed(data: bytes) -> dict[str, Any]:
    if len(data) > MAX_RECORD_BYTES:
        raise ValueError(f"more than {MAX_RECORD_BYTES // 2**20} MiB are not read")
    try:
        record = json.loads(data, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise ValueError(f"line {error.lineno} is not JSON ({error.msg.lower()})") from None
    except UnicodeDecodeError:
        raise ValueError("this is not UTF-8 text") from None
    if not isinstance(record, dict):
        raise ValueError("the record of a design must be a JSON object")
    return record


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is not a number of a design")


@final
@dataclass(frozen=True, slots=True)
class _Record:
    """A record being checked: every method returns checked fields or raises ValueError."""

    fields: dict[str, Any]

    def facts(self) -> dict[str, Any]:
        if self._integer("format") != FORMAT:
            raise ValueError(f"format is {self.fields['format']}: this version reads {FORMAT}")
        for key in ("version", "schedule", "collective"):
            self._text(key)
        for key in ("nodes", "degree", "num_chunks", "num_sends"):
            self._integer(key)
        return self.fields

    def cost(self) -> Cost:
        cost = _Record(self._kind("cost", dict, "an object"))
        t_b = _fraction(cost._text("t_b"), "cost.t_b")
        if cost._kind("t_b_float", float | int, "a number") != float(t_b):
            raise ValueError(f"cost.t_b_float is {cost.fields['t_b_float']}, but t_b is {t_b}")
        return Cost(cost._integer("steps"), t_b)

    def recipe(self) -> str | None:
        if self._kind("recipe", str | None, "a text or null") is None:
            self._kind("graph", str | None, "a text or null")
        recipe: str | None = self.fields["recipe"]
        return recipe

    def loads(self) -> tuple[Fraction, ...]:
        loads = self._kind("max_load_per_step", list, "a list of fractions")
        return tuple(_fraction(load, "an entry of max_load_per_step") for load in loads)

    def _text(self, key: str) -> str:
        text: str = self._kind(key, str, "a text")
        return text

    def _integer(self, key: str) -> int:
        value = self._kind(key, int, "an integer")
        if not 0 <= value < _MAX_INTEGER:
            raise ValueError(f"{key} is out of range")
        return int(value)

    def _kind(self, key: str, kind: Any, expected: str) -> Any:
        if key not in self.fields:
            raise ValueError(f"{key} is missing")
        value = self.fields[key]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ValueError(f"{key} must be {expected}")
        return value


def _fraction(text: Any, name: str) -> Fraction:
    if not isinstance(text, str) or not _FRACTION.fullmatch(text):
        raise ValueError(f"{name} must be a fraction such as '261/256'")
    return Fraction(text)
