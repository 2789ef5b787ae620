"""``design.json``: what the record of a design says, written, and read without believing it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import ocs_codesign
from ocs_codesign.circuits import Change
from ocs_codesign.cost import Cost

if TYPE_CHECKING:
    from ocs_codesign.design import Design
    from ocs_codesign.reconfigure.program.designs import ProgramDesign

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


def change_fields(change: Change) -> dict[str, int]:
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
class ProgramClaims:
    """What a record says of circuits that change.

    ``recipe_of_step`` says which of ``recipes`` is up in every step; both are empty if none are.
    """

    recipes: tuple[str, ...]
    recipe_of_step: tuple[int, ...]
    num_configurations: int
    changes: tuple[Change, ...]
    bound: Fraction | None


@final
@dataclass(frozen=True, slots=True)
class Claims:
    """What a record says; ``facts`` are all its fields, ``program`` is None if links stay."""

    facts: dict[str, Any]
    cost: Cost
    recipe: str | None
    loads: tuple[Fraction, ...]
    program: ProgramClaims | None


def read_record(data: bytes) -> Claims:
    """The claims of a record, every field checked; ValueError with the rule if it is none."""
    record = _checked(_parsed(data), _FACTS)
    if record["format"] not in (FORMAT, PROGRAM_FORMAT):
        raise ValueError(
            f"format is {record['format']}: this version reads {FORMAT} and {PROGRAM_FORMAT}"
        )
    if record["recipe"] is None:
        _checked(record, {"graph": _TEXT_OR_NULL})
    cost = _checked(record["cost"], _COST)
    t_b = _fraction(cost["t_b"], "cost.t_b")
    if cost["t_b_float"] != float(t_b):
        raise ValueError(f"cost.t_b_float is {cost['t_b_float']}, but t_b is {t_b}")
    return Claims(
        record,
        Cost(cost["steps"], t_b),
        record["recipe"],
        tuple(
            _fraction(text, "an entry of max_load_per_step") for text in record["max_load_per_step"]
        ),
        _program(record) if record["format"] == PROGRAM_FORMAT else None,
    )


def _program(record: dict[str, Any]) -> ProgramClaims:
    _checked(record, _PROGRAM)
    recipes, used = tuple(record["recipes"]), tuple(record["recipe_of_step"])
    if any(not 0 <= number < len(recipes) for number in used):
        raise ValueError(f"recipe_of_step names a recipe that is none of the {len(recipes)}")
    bound = record["t_b_bound"]
    return ProgramClaims(
        recipes,
        used,
        record["configurations"],
        tuple(
            Change(*(_checked(change, _CHANGE)[key] for key in _CHANGE))
            for change in record["changes"]
        ),
        None if bound is None else _fraction(bound, "t_b_bound"),
    )


def _parsed(data: bytes) -> dict[str, Any]:
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


def _is(value: Any, kind: Any) -> bool:
    """Whether a value is of a type, of which truth values are none."""
    return isinstance(value, kind) and (kind is object or not isinstance(value, bool))


def _fraction(text: Any, name: str) -> Fraction:
    if not isinstance(text, str) or not _FRACTION.fullmatch(text):
        raise ValueError(f"{name} must be a fraction such as '261/256'")
    return Fraction(text)
