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

MAX_RECORD_BYTES = 64 * 2**20

_FRACTION = re.compile(r"(0|[1-9][0-9]{0,99})(/[1-9][0-9]{0,99})?")
_MAX_INTEGER = 2**63
_CHANGE = ("step", "plane", "circuits", "dark_steps")


def design_record(design: Design, graph: str | None = None) -> dict[str, Any]:
    """What ``design.json`` says of a design; ``graph`` names the file of one without a recipe."""
    schedule = design.schedule
    return {
        "format": FORMAT,
        "version": ocs_codesign.__version__,
        "recipe": None if design.recipe is None else repr(design.recipe),
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
    record = _Record(_parsed(data))
    cost, recipe, loads = record.cost(), record.recipe(), record.loads()
    facts = record.facts()
    program = record.program() if facts["format"] == PROGRAM_FORMAT else None
    return Claims(facts, cost, recipe, loads, program)


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
        if self._integer("format") not in (FORMAT, PROGRAM_FORMAT):
            raise ValueError(
                f"format is {self.fields['format']}: "
                f"this version reads {FORMAT} and {PROGRAM_FORMAT}"
            )
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

    def program(self) -> ProgramClaims:
        recipes = tuple(self._list("recipes", str, "a list of texts"))
        used = tuple(self._list("recipe_of_step", int, "a list of integers"))
        if any(not 0 <= number < len(recipes) for number in used):
            raise ValueError(f"recipe_of_step names a recipe that is none of the {len(recipes)}")
        bound = self._kind("t_b_bound", str | None, "a text or null")
        return ProgramClaims(
            recipes,
            used,
            self._integer("configurations"),
            tuple(_change(fields) for fields in self._list("changes", dict, "a list of objects")),
            None if bound is None else _fraction(bound, "t_b_bound"),
        )

    def _list(self, key: str, kind: type, expected: str) -> list[Any]:
        values: list[Any] = self._kind(key, list, expected)
        if not all(isinstance(value, kind) and not isinstance(value, bool) for value in values):
            raise ValueError(f"{key} must be {expected}")
        return values

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


def _change(fields: dict[str, Any]) -> Change:
    record = _Record(fields)
    return Change(*(record._integer(key) for key in _CHANGE))


def _fraction(text: Any, name: str) -> Fraction:
    if not isinstance(text, str) or not _FRACTION.fullmatch(text):
        raise ValueError(f"{name} must be a fraction such as '261/256'")
    return Fraction(text)
