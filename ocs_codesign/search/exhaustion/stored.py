"""Exhaustions that have been done: their frontiers, with recipes, and how much was looked at."""

from __future__ import annotations

import json
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ocs_codesign.collective import Collective
from ocs_codesign.cost import Cost
from ocs_codesign.graphs.text import parse
from ocs_codesign.question import Question
from ocs_codesign.search.exhaustion.visits import Exhaustion, Point

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ocs_codesign.graphs.recipe import Recipe

STORED = Path(__file__).with_name("exhausted.json")
"""Written by ``experiments/make_exhausted.py``."""

_KINDS = ("allgather", "allreduce", "alltoall")


def exhausted(question: Question, collective: Collective) -> Exhaustion | None:
    """What is proven of a collective by looking at all topologies of a size, None if nothing.

    With loops and parallel links rather than without, where both have been done.

    >>> found = exhausted(Question(6, 2), Collective.ALLGATHER)
    >>> [(point.cost.steps, str(point.cost.t_b)) for point in found.allgather]
    [(2, '1'), (3, '5/6')]
    """
    known = [_exhaustion(record) for record in _records().get(question, ())]
    told = [one for one in known if one.points(collective) is not None]
    return min(told, key=lambda one: one.simple, default=None)


def exhausted_recipes(question: Question) -> list[Recipe]:
    """A recipe for every point that is proven of a question by exhaustion."""
    texts = (
        text
        for record in _records().get(question, ())
        for kind in _KINDS
        for _, _, text in record[kind] or ()
    )
    return [parse(text) for text in dict.fromkeys(texts)]


def records_text(found: Iterable[Exhaustion]) -> str:
    """The content of the file, a line each, in the order of questions."""
    ordered = sorted(found, key=lambda one: (one.question, one.simple))
    lines = (json.dumps(_record(one), separators=(", ", ": ")) for one in ordered)
    return "[\n" + ",\n".join(lines) + "\n]\n"


def _record(one: Exhaustion) -> dict[str, Any]:
    question = one.question
    return {
        "nodes": question.num_nodes,
        "degree": question.degree,
        "bidirectional": question.bidirectional,
        "simple": one.simple,
        "classes": one.num_classes,
        "labelled": one.num_labelled,
        **{kind: _points_record(one.points(Collective.parse(kind))) for kind in _KINDS},
    }


def _points_record(points: tuple[Point, ...] | None) -> list[list[Any]] | None:
    if points is None:
        return None
    return [[one.cost.steps, str(one.cost.t_b), repr(one.recipe)] for one in points]


@cache
def _records() -> dict[Question, list[dict[str, Any]]]:
    found: dict[Question, list[dict[str, Any]]] = {}
    for record in json.loads(STORED.read_text(encoding="utf-8")):
        question = Question(record["nodes"], record["degree"], record["bidirectional"])
        found.setdefault(question, []).append(record)
    return found


def stored_exhaustions() -> list[Exhaustion]:
    """All that are stored, in the order of the file."""
    return [_exhaustion(record) for records in _records().values() for record in records]


def _exhaustion(record: dict[str, Any]) -> Exhaustion:
    gather, both, exchange = (_points(record[kind]) for kind in _KINDS)
    return Exhaustion(
        Question(record["nodes"], record["degree"], record["bidirectional"]),
        record["simple"],
        record["classes"],
        record["labelled"],
        gather or (),
        both or (),
        exchange,
    )


def _points(rows: list[Any] | None) -> tuple[Point, ...] | None:
    if rows is None:
        return None
    return tuple(Point(Cost(steps, Fraction(t_b)), parse(text)) for steps, t_b, text in rows)
