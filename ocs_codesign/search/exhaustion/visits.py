"""Every regular digraph of a size, each isomorphism class once: what none of them beats.

All digraphs are made that have d links in and out of every node, or d two-way links, and are
connected; each is scored by exact BFB in both directions. What is left undominated is proven for
BFB by exhaustion. All-to-all is solved for those whose distances leave room for less than the best
so far, so its frontier is proven for any routing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import factorial, lcm, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.compute.kernels import compiled
from ocs_codesign.core.cost import Cost, undominated
from ocs_codesign.core.lp import Options
from ocs_codesign.core.progress import tell_phase
from ocs_codesign.graphs.expansions.reverse import Transpose
from ocs_codesign.graphs.families.cayley import Lift
from ocs_codesign.graphs.groups.cyclic import Cyclic
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.design import Question
from ocs_codesign.schedules.paths.throughput import throughput
from ocs_codesign.search.exhaustion.kernels import BILLION, END, Kept, visit
from ocs_codesign.verification.labelled import connected_digraphs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from ocs_codesign.graphs.recipe import Recipe


MAX_CLASSES = 2**23
"""Isomorphism classes that an exhaustion may have about; more take hours."""
MAX_NODES, MAX_DEGREE = 24, 6
_CLASSES_A_VISIT, _KEPT = 20_000, 2_000
_NEVER = 1 << 40
_MARGIN = 64


@final
@dataclass(frozen=True, slots=True)
class Point:
    """An undominated cost, and a recipe that has it."""

    cost: Cost
    recipe: Recipe


@final
@dataclass(frozen=True, slots=True)
class Exhaustion:
    """What is proven of a question by looking at all topologies there are.

    Without loops and parallel links if ``simple``. There are ``num_classes`` up to isomorphism, and
    ``num_labelled`` on labelled nodes. ``allgather`` and ``allreduce`` are the undominated BFB
    schedules, ``alltoall`` (diameter, t_b) by any routing, None if it was not solved.
    """

    question: Question
    simple: bool
    num_classes: int
    num_labelled: int
    allgather: tuple[Point, ...]
    allreduce: tuple[Point, ...]
    alltoall: tuple[Point, ...] | None = None

    def points(self, collective: Collective) -> tuple[Point, ...] | None:
        """The frontier of a collective; a reduce-scatter is an allgather on the reverse."""
        if collective == Collective.ALLTOALL:
            return self.alltoall
        return self.allreduce if collective == Collective.ALLREDUCE else self.allgather

    def proves(self, cost: Cost, collective: Collective) -> bool:
        """Whether no topology has less of one, steps or t_b, and no more of the other."""
        return any(point.cost.point() == cost.point() for point in self.points(collective) or ())


def exhaust(question: Question, *, simple: bool = False, alltoall: bool = False) -> Exhaustion:
    """Look at every topology of a size; loops and parallel links too, unless ``simple``.

    Two-way topologies never have loops. That none was left out is checked: what was visited, N! /
    automorphisms labelled digraphs a class, adds up to what ``connected_digraphs`` counts by other
    means, or RuntimeError. Raises ValueError
    if there are too many, or none.

    >>> from ocs_codesign.schedules.design import Question
    >>> found = exhaust(Question(6, 2), simple=True)
    >>> found.num_classes, [str(point.cost.t_b) for point in found.allgather]
    (22, ['1', '5/6'])
    """
    expected = _expected(question, simple)
    visits = _Visits(question, simple, alltoall)
    while visits.goes_on():
        tell_phase(f"{visits.num_classes:,} topologies")
    if visits.num_labelled != expected:
        raise RuntimeError(
            f"{visits.num_labelled} labelled topologies were visited of {expected} there are"
        )
    gather, both = visits.points(0), visits.points(1)
    solved = tuple(visits.solved) if alltoall else None
    return Exhaustion(question, simple, visits.num_classes, expected, gather, both, solved)


def _expected(question: Question, simple: bool) -> int:
    """How many labelled topologies there are to visit; ValueError if too many, or none."""
    nodes, degree = question.num_nodes, question.degree
    if not (2 <= nodes <= MAX_NODES and 1 <= degree <= MAX_DEGREE):
        raise ValueError(
            f"{nodes} nodes of degree {degree}: all topologies are looked at for 2 to {MAX_NODES} "
            f"nodes of degree 1 to {MAX_DEGREE}"
        )
    about = _about(question)
    if about > _MARGIN * MAX_CLASSES:
        raise ValueError(_too_many(question, f"about {float(about):.2g}"))
    labelled = connected_digraphs(
        nodes, degree, bidirectional=question.bidirectional, simple=simple
    )
    if not labelled:
        raise ValueError(f"there is no such topology of {nodes} nodes and degree {degree}")
    least = labelled // factorial(nodes)
    if least > MAX_CLASSES:
        raise ValueError(_too_many(question, f"{least} or more"))
    return labelled


def _about(question: Question) -> int:
    """Ways to join ports at random, over those of numbering nodes and their ports."""
    nodes, degree = question.num_nodes, question.degree
    ends, ports = nodes * degree, prod(factorial(degree) for _ in range(nodes))
    if question.bidirectional:
        pairs = ends // 2
        return factorial(ends) // ((factorial(pairs) << pairs) * factorial(nodes) * ports)
    return factorial(ends) // (factorial(nodes) * ports * ports)


def _too_many(question: Question, number: str) -> str:
    return (
        f"{question.num_nodes} nodes of degree {question.degree} have {number} topologies: at most "
        f"{MAX_CLASSES} can all be looked at"
    )


@final
class _Visits:
    """The state of an enumeration between visits, and the best so far."""

    def __init__(self, question: Question, simple: bool, alltoall: bool) -> None:
        nodes, degree = question.num_nodes, question.degree
        self._nodes, self._degree, self._both = nodes, degree, question.bidirectional
        self._simple = simple
        self._unit = lcm(*range(1, degree + 1))
        self._sizes = np.array([links.bit_count() for links in range(1 << degree)])
        self._heads = np.full((nodes, degree), -1, dtype=np.int64)
        self._used = np.zeros(nodes, dtype=np.int64)
        self._state = np.zeros(6, dtype=np.int64)
        length = max(nodes, degree) + 1
        self._work = tuple(np.zeros(length, dtype=np.int64) for _ in range(6))
        self._best = np.full((2, nodes + 1), _NEVER, dtype=np.int64)
        self._shown = np.zeros((2, nodes + 1, nodes + 1, degree), dtype=np.int64)
        self._most_hops = np.full(nodes + 1, nodes**3 if alltoall else -1, dtype=np.int64)
        self._short = np.zeros((_KEPT, nodes, degree), dtype=np.int64)
        self.solved: list[Point] = []

    @property
    def num_classes(self) -> int:
        """Isomorphism classes visited."""
        return int(self._state[2])

    @property
    def num_labelled(self) -> int:
        """Labelled digraphs that they stand for."""
        return int(self._state[3]) + int(self._state[4]) * BILLION

    def goes_on(self) -> bool:
        """Visit some more; False when there are no more."""
        given = (self._both, self._simple, self._unit, self._sizes, self._heads, self._used)
        kept = Kept(self._best, self._shown, self._most_hops, self._short)
        end = compiled(visit)(*given, self._state, self._work, kept, _CLASSES_A_VISIT)
        self._solve(self._short[: self._state[5]])
        self._state[5] = 0
        return bool(end != END)

    def points(self, kind: int) -> tuple[Point, ...]:
        """The undominated costs of an allgather (0) or an allreduce (1)."""
        found = []
        for steps in np.flatnonzero(self._best[kind] < _NEVER).tolist():
            t_b = Fraction(int(self._best[kind, steps]) * self._degree, self._unit * self._nodes)
            recipe: Recipe = recipe_of(self._shown[kind, steps, :-1])
            if self._shown[kind, steps, -1, 0]:
                recipe = Transpose(recipe)
            found.append(Point(Cost(steps * (kind + 1), t_b), recipe))
        return tuple(undominated(found, lambda point: point.cost))

    def _solve(self, digraphs: NDArray[np.int64]) -> None:
        """Solve an all-to-all where distances leave room for less than is known, shortest first."""
        hops = [_hops(rows) for rows in digraphs]
        for place in sorted(range(len(hops)), key=hops.__getitem__):
            diameter, total = _diameter(digraphs[place]), hops[place]
            if total > self._most_hops[diameter]:
                continue
            recipe = recipe_of(digraphs[place].copy())
            found = throughput(recipe.topology(), Options())
            if found.time != found.bound:
                raise RuntimeError(f"the all-to-all of {recipe!r} was not solved exactly")
            point = Point(Cost(diameter, found.time), recipe)
            self.solved = undominated([*self.solved, point], lambda one: one.cost)
            for steps in range(self._nodes + 1):
                times = [one.cost.t_b for one in self.solved if one.cost.steps <= steps]
                if times:
                    room = min(times) * self._nodes**2
                    self._most_hops[steps] = -(-room.numerator // room.denominator) - 1


def recipe_of(rows: NDArray[np.int64]) -> Lift:
    """The digraph of these out-neighbours of every node."""
    return Lift(Cyclic(1), tuple(tuple(row) for row in rows.tolist()))


def _hops(rows: NDArray[np.int64]) -> int:
    return int(recipe_of(rows).topology().distances().sum())


def _diameter(rows: NDArray[np.int64]) -> int:
    return recipe_of(rows).topology().diameter()


# Exhaustions that have been done: their frontiers, with recipes, and how much was looked at.


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
