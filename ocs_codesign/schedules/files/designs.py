"""Designs on disk: a directory with ``schedule.npz`` and ``design.json``, which explains it."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, final

import numpy as np

import ocs_codesign
from ocs_codesign.core.circuits import PlaneChange
from ocs_codesign.core.cost import Cost
from ocs_codesign.core.files.archives import read_limited
from ocs_codesign.core.files.atomic import check_replaceable, whole_directory
from ocs_codesign.core.files.plain_text import once_each
from ocs_codesign.core.shown import Brief, shown
from ocs_codesign.schedules.files.archive import read_archive, write_schedule
from ocs_codesign.verification.sends import FORWARD_ONLY, Abilities, Witness

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ocs_codesign.circuits.programs.designs import ProgramDesign
    from ocs_codesign.core.circuits import CircuitProgram
    from ocs_codesign.core.schedule import Schedule
    from ocs_codesign.core.topology import Topology
    from ocs_codesign.schedules.design import Design
    from ocs_codesign.verification.circuits import ProgramVerdict
    from ocs_codesign.verification.schedules import Verdict


# ``design.json``: what the record of a design says, written, and read without believing it.


FORMAT, PROGRAM_FORMAT = 1, 2
"""Of records of designs whose links stay, and of those whose circuits change."""

_FRACTION = re.compile(r"(0|[1-9][0-9]{0,99})(/[1-9][0-9]{0,99})?")
_MAX_INTEGER = 2**63


@final
@dataclass(frozen=True, slots=True)
class _Kind:
    """What the value of a key must be, in Python and in words; if a list, what its entries are."""

    type: Any
    words: str
    entry: Any = object


_INTEGER, _TEXT = _Kind(int, "an integer"), _Kind(str, "a text")
_TEXT_OR_NULL, _OBJECT = _Kind(str | None, "a text or null"), _Kind(dict, "an object")
_FACTS = {
    "format": _INTEGER,
    **dict.fromkeys(("version", "schedule", "collective"), _TEXT),
    **dict.fromkeys(("nodes", "degree", "num_chunks", "num_sends"), _INTEGER),
    "cost": _OBJECT,
    "recipe": _TEXT_OR_NULL,
    "max_load_per_step": _Kind(list, "a list of fractions"),
}
_COST = {"steps": _INTEGER, "t_b": _TEXT, "t_b_float": _Kind(float | int, "a number")}
_PROGRAM = {
    "recipes": _Kind(list, "a list of texts", str),
    "recipe_of_step": _Kind(list, "a list of integers", int),
    "t_b_bound": _TEXT_OR_NULL,
    "configurations": _INTEGER,
    "changes": _Kind(list, "a list of objects", dict),
}
_CHANGE = dict.fromkeys(("step", "plane", "circuits", "dark_steps"), _INTEGER)


def design_record(design: Design, graph: str | None = None) -> dict[str, Any]:
    """What ``design.json`` says of a design; ``graph`` names the file of one without a recipe."""
    schedule = design.schedule
    return {
        "format": FORMAT,
        "version": ocs_codesign.__version__,
        "recipe": repr(design.recipe) if design.recipes else None,
        "graph": graph,
        "collective": schedule.collective.name,
        "nodes": schedule.topology.num_nodes,
        "degree": schedule.topology.degree,
        **_cost_fields(design.cost, design.loads),
        "num_chunks": schedule.num_chunks,
        "num_sends": schedule.num_sends,
        "schedule": design.maker,
    }


def program_record(design: ProgramDesign) -> dict[str, Any]:
    """What ``design.json`` says of a design whose circuits change.

    ``degree`` is the number of planes, each a port at every node; ``configurations`` counts the
    sets of circuits that follow each other.
    """
    schedule, verdict = design.schedule, design.verdict
    return {
        "format": PROGRAM_FORMAT,
        "version": ocs_codesign.__version__,
        "recipe": None,
        "graph": None,
        "recipes": [repr(recipe) for recipe in design.recipes],
        "recipe_of_step": list(design.recipe_of_step),
        "collective": schedule.collective.name,
        "nodes": schedule.topology.num_nodes,
        "degree": design.program.num_planes,
        **_cost_fields(design.cost, verdict.max_loads),
        "t_b_bound": None if design.bound is None else str(design.bound),
        "num_chunks": schedule.num_chunks,
        "num_sends": schedule.num_sends,
        "schedule": design.maker,
        "configurations": verdict.num_configurations,
        "changes": [change_fields(change) for change in verdict.changes],
    }


def change_fields(change: PlaneChange) -> dict[str, int]:
    """A change of circuits in JSON."""
    values = (change.step, change.plane, change.num_circuits, change.dark_steps)
    return dict(zip(_CHANGE, values, strict=True))


def _cost_fields(cost: Cost, loads: tuple[Fraction, ...]) -> dict[str, Any]:
    return {
        "cost": {"steps": cost.steps, "t_b": str(cost.t_b), "t_b_float": float(cost.t_b)},
        "max_load_per_step": [str(load) for load in loads],
    }


@final
@dataclass(frozen=True, slots=True)
class _ProgramClaims:
    """What a record says of circuits that change.

    ``recipe_of_step`` says which of ``recipes`` is up in every step; both are empty if none are.
    """

    recipes: tuple[str, ...]
    recipe_of_step: tuple[int, ...]
    num_configurations: int
    changes: tuple[PlaneChange, ...]
    bound: Fraction | None


@final
@dataclass(frozen=True, slots=True)
class _Claims:
    """What a record says; ``facts`` are all its fields, ``program`` is None if links stay."""

    facts: dict[str, Any]
    cost: Cost
    recipe: str | None
    loads: tuple[Fraction, ...]
    program: _ProgramClaims | None


def read_record(data: bytes) -> _Claims:
    """The claims of a record, every field checked; ValueError with the rule if it is none."""
    record = _checked(_parsed(data), _FACTS)
    if record["format"] not in (FORMAT, PROGRAM_FORMAT):
        raise ValueError(
            f"format is {record['format']}: this version reads {FORMAT} and {PROGRAM_FORMAT}"
        )
    if record["recipe"] is None:
        _checked(record, {"graph": _TEXT_OR_NULL})
    _check_keys(record, "graph", *_FACTS, *(_PROGRAM if record["format"] == PROGRAM_FORMAT else ()))
    _check_keys(record["cost"], *_COST)
    cost = _checked(record["cost"], _COST)
    t_b = _fraction(cost["t_b"], "cost.t_b")
    if cost["t_b_float"] != float(t_b):
        raise ValueError(f"cost.t_b_float is {cost['t_b_float']}, but t_b is {t_b}")
    return _Claims(
        record,
        Cost(cost["steps"], t_b),
        record["recipe"],
        tuple(
            _fraction(text, "an entry of max_load_per_step") for text in record["max_load_per_step"]
        ),
        _program(record) if record["format"] == PROGRAM_FORMAT else None,
    )


def _program(record: dict[str, Any]) -> _ProgramClaims:
    _checked(record, _PROGRAM)
    recipes, used = tuple(record["recipes"]), tuple(record["recipe_of_step"])
    if any(not 0 <= number < len(recipes) for number in used):
        raise ValueError(f"recipe_of_step names a recipe that is none of the {len(recipes)}")
    bound = record["t_b_bound"]
    return _ProgramClaims(
        recipes,
        used,
        record["configurations"],
        tuple(
            PlaneChange(*(_checked(_check_keys(change, *_CHANGE), _CHANGE)[key] for key in _CHANGE))
            for change in record["changes"]
        ),
        None if bound is None else _fraction(bound, "t_b_bound"),
    )


def _parsed(data: bytes) -> dict[str, Any]:
    try:
        record = json.loads(data, parse_constant=_no_constant, object_pairs_hook=once_each)
    except json.JSONDecodeError as error:
        raise ValueError(f"line {error.lineno} is not JSON ({error.msg.lower()})") from None
    except UnicodeDecodeError:
        raise ValueError("this is not UTF-8 text") from None
    if not isinstance(record, dict):
        raise ValueError("the record of a design must be a JSON object")
    return record


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is not a number of a design")


def _checked(record: dict[str, Any], kinds: dict[str, _Kind]) -> dict[str, Any]:
    """The record, or ValueError for the first of these keys whose value is of another kind."""
    for key, kind in kinds.items():
        if key not in record:
            raise ValueError(f"{key} is missing")
        value = record[key]
        entries = value if isinstance(value, list) else []
        if not _is(value, kind.type) or not all(_is(entry, kind.entry) for entry in entries):
            raise ValueError(f"{key} must be {kind.words}")
        if kind is _INTEGER and not 0 <= value < _MAX_INTEGER:
            raise ValueError(f"{key} is out of range")
    return record


def _check_keys(record: dict[str, Any], *known: str) -> dict[str, Any]:
    """The record; ValueError for a key that is none of these."""
    unknown = next((key for key in record if key not in known), None)
    if unknown is not None:
        raise ValueError(f"{shown(unknown)} is no known key: they are {', '.join(known)}")
    return record


def _is(value: Any, kind: Any) -> bool:
    """Whether a value is of a type, of which truth values are none."""
    return isinstance(value, kind) and (kind is object or not isinstance(value, bool))


def _fraction(text: Any, name: str) -> Fraction:
    if not isinstance(text, str) or not _FRACTION.fullmatch(text):
        raise ValueError(f"{name} must be a fraction such as '261/256'")
    return Fraction(text)


SCHEDULE_FILE = "schedule.npz"
RECORD_FILE = "design.json"
MAX_RECORD_BYTES = 64 * 2**20


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LoadedDesign(Brief):
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
    program: _ProgramClaims | None
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


_INSIDE = ("book", "book1")


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
            inside = [one for one in _INSIDE if (path / one).is_dir()]
            more = f", is {path / inside[0]} meant?" if inside else ""
            raise FileNotFoundError(None, f"there is no {name} in this directory{more}", str(path))
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
    claims: _Claims, schedule: Schedule, circuits: CircuitProgram | None
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


# Designs that were loaded, verified: the sends are replayed, and every claim must be true.


@final
@dataclass(frozen=True, slots=True, eq=False)
class DesignVerdict:
    """What a replay found of a design; ``changing`` is the verdict where circuits change."""

    verdict: Verdict | ProgramVerdict
    changing: ProgramVerdict | None
    witness: Witness | None

    def __bool__(self) -> bool:
        """Whether nothing is wrong."""
        return self.witness is None


def verify_design(loaded: LoadedDesign) -> DesignVerdict:
    """Replay a design and compare it with its record; the witness is the first thing wrong."""
    from ocs_codesign.verification.circuits import verify_program
    from ocs_codesign.verification.schedules import verify

    if loaded.circuits is None:
        verdict = verify(loaded.schedule, loaded.claimed, abilities=loaded.abilities)
        wrong = verdict.witness or _false_loads(loaded, verdict) or _false_recipe(loaded)
        return DesignVerdict(verdict, None, wrong)
    changing = verify_program(loaded.circuits, loaded.schedule, loaded.claimed)
    wrong = changing.witness or _false_loads(loaded, changing)
    if wrong is None and loaded.program is not None:
        wrong = _false_program(loaded.circuits, loaded.program, changing)
    return DesignVerdict(changing, changing, wrong)


def _false_loads(loaded: LoadedDesign, verdict: Verdict | ProgramVerdict) -> Witness | None:
    if loaded.loads is not None and loaded.loads != verdict.max_loads:
        return Witness("the claimed largest loads are not those of the sends")
    return None


def _false_recipe(loaded: LoadedDesign) -> Witness | None:
    from ocs_codesign.graphs.text import parse

    if loaded.recipe is None:
        return None
    recipe, topology = parse(loaded.recipe), loaded.schedule.topology
    small = (recipe.num_nodes, recipe.degree) == (topology.num_nodes, topology.degree)
    if small and recipe.topology() == topology:
        return None
    return Witness(f"the links are not those of the claimed recipe {loaded.recipe}")


def _false_program(
    circuits: CircuitProgram, claims: _ProgramClaims, verdict: ProgramVerdict
) -> Witness | None:
    """The first claim about circuits that they do not bear out."""
    steps, t_b = verdict.cost.steps, verdict.cost.t_b
    if claims.changes != verdict.changes:
        return Witness("the claimed changes are not those of the circuits")
    if claims.num_configurations != verdict.num_configurations:
        return Witness(
            f"{claims.num_configurations} configurations are claimed, "
            f"but {verdict.num_configurations} follow each other"
        )
    if claims.bound is not None and claims.bound > t_b:
        return Witness(f"t_b is claimed to be at least {claims.bound}, but is {t_b}")
    if not claims.recipes:
        return None
    if len(claims.recipe_of_step) != steps:
        return Witness(f"{len(claims.recipe_of_step)} of {steps} steps have a claimed recipe")
    return _foreign_step(circuits, claims)


def _foreign_step(circuits: CircuitProgram, claims: _ProgramClaims) -> Witness | None:
    """The first step in which other links are up than those of the recipe claimed for it."""
    from ocs_codesign.graphs.text import parse

    wanted: dict[int, NDArray[np.int64]] = {}
    edges = {*circuits.first_step.tolist(), *(circuits.last_step + 1).tolist()}
    before = None
    for step, number in enumerate(claims.recipe_of_step, 1):
        if number == before and step not in edges:
            continue
        before = number
        if number not in wanted:
            recipe = parse(claims.recipes[number])
            same = recipe.num_nodes == circuits.topology.num_nodes
            if not same or recipe.degree > circuits.num_planes:
                return Witness(f"the nodes or ports are not those of {recipe!r}", step=step)
            wanted[number] = _ends(recipe.topology())
        if not np.array_equal(wanted[number], _ends(circuits.topology, circuits.links_up(step))):
            rule = f"the links up are not those of {claims.recipes[number]}"
            return Witness(rule, step=step)
    return None


def _ends(topology: Topology, links: NDArray[Any] | None = None) -> NDArray[Any]:
    """Pairs of ends as sorted numbers, of these links or of all."""
    tail, head = topology.tail, topology.head
    if links is not None:
        tail, head = tail[links], head[links]
    return np.sort(tail.astype(np.int64) * topology.num_nodes + head)
