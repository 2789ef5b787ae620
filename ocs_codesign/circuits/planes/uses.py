"""Uses of planes: from what each plane serves, the changes between, their dead times and circuits.

A plane that serves steps p and then q changes in between, unless it holds what q needs; it may do
so whenever it likes, and never makes a detour. So a plan is known from the usage alone.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.core.circuits import PlaneChange
from ocs_codesign.core.lp import LinearProgram

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from ocs_codesign.circuits.planes.problem import PlaneProblem, Usage


START = -1
"""The step before the first one, in which a plane is as it was given."""


def changes_of(problem: PlaneProblem, usage: Usage) -> list[PlaneChange]:
    """All changes that the usage needs, by step (from 1), then by plane.

    ``dark_steps`` are those since the plane served one, or since the beginning.
    """
    changes = []
    held, after = list(problem.held), [START] * problem.num_planes
    for step, (planes, target) in enumerate(zip(usage, problem.configurations, strict=True)):
        for plane in planes:
            if held[plane] != target:
                circuits = problem.circuits_changed(held[plane], target)
                changes.append(PlaneChange(step + 1, plane, circuits, step - after[plane] - 1))
            held[plane], after[plane] = target, step
    return changes


def served_before(change: PlaneChange) -> int:
    """The step, from 0, that the plane served last before a change; START if none."""
    return change.step - change.dark_steps - 2


def late_stops(changes: Sequence[PlaneChange]) -> list[int]:
    """The steps before which the fabric stops for these changes: seldom, and as late as may be."""
    last, stops = START, {0}
    for change in changes:
        if change.num_circuits and served_before(change) >= last:
            last = change.step - 1
            stops.add(last)
    return sorted(stops)


def checked_usage(problem: PlaneProblem, usage: Sequence[Sequence[int]]) -> Usage:
    """The usage in ascending order; ValueError unless every step is served by known planes."""
    if len(usage) != problem.num_steps:
        raise ValueError(f"a usage of {len(usage)} steps for {problem.num_steps} steps")
    for step, planes in enumerate(usage, 1):
        if not planes:
            raise ValueError(f"no plane serves step {step}")
        if not set(planes) <= set(range(problem.num_planes)) or len(set(planes)) < len(planes):
            raise ValueError(
                f"planes {', '.join(map(str, planes))} serve step {step}: there are "
                f"{problem.num_planes}, from 0, each once"
            )
    return tuple(tuple(sorted(planes)) for planes in usage)


# Planes that do not wait for each other within a stretch of steps: loads, makespans and stops.
#
# In a stretch a plane just has a load: its dead times, a latency a step and what it sends. Bytes
# of a step may be split over the planes that serve it as one likes, so the makespan is, over all
# sets A of planes, the largest of
#
#     (dead times and latencies of A + sends of the steps that only planes of A serve) / |A|.
#
# Where the whole fabric stops for changes, stretches are what lies between two stops.


_STOPS_SEARCHED = 48
_PLANES_SEARCHED = 6


def makespan(work: NDArray[np.float64]) -> float:
    """The least makespan when ``work[mask]`` is shared by the planes whose bits are in the mask."""
    inside, planes = work.copy(), len(work).bit_length() - 1
    number = np.zeros(len(work))
    for plane in range(planes):
        halves, counts = inside.reshape(-1, 2, 2**plane), number.reshape(-1, 2, 2**plane)
        halves[:, 1] += halves[:, 0]
        counts[:, 1] += 1
    return float((inside[1:] / number[1:]).max())


def stops_of(problem: PlaneProblem, usage: Usage, changes: Sequence[PlaneChange]) -> list[int]:
    """The steps before which the fabric stops, in ascending order, the first step among them.

    With barriers only the number of stops counts, and as late as possible is best; without them
    also what lies between two stops, and lists that are not too long are searched.
    """
    searched = problem.num_steps <= _STOPS_SEARCHED and problem.num_planes <= _PLANES_SEARCHED
    if problem.cost.barrier or not searched:
        return late_stops(changes)
    return _best_stops(problem, usage, [change for change in changes if change.num_circuits])


def _best_stops(problem: PlaneProblem, usage: Usage, changes: Sequence[PlaneChange]) -> list[int]:
    """Stops with the least sum of makespans and fixed dead times, one step after the other.

    What changed circuits add is the same wherever planes change, so it decides nothing.
    """
    fixed, latency = float(problem.cost.fixed_s), float(problem.latency_s)
    best: list[tuple[float, list[int]]] = [(0.0, [])]
    for last in range(1, problem.num_steps + 1):
        work, options = np.zeros(2**problem.num_planes), []
        inside = [served_before(change) for change in changes if change.step <= last]
        for first in range(last - 1, max(inside, default=START), -1):
            for plane in usage[first]:
                work[1 << plane] += latency
            work[sum(1 << plane for plane in usage[first])] += float(problem.send_s[first])
            is_dark = first > 0 or START in inside
            spent, stops = best[first]
            options.append((spent + fixed * is_dark + makespan(work), [*stops, first]))
        best.append(min(options))
    return best[-1][1]


# Programs of planes written column by column and row by row; a solver gets the arrays, whole.


Term = tuple[int, float]
"""A column and its coefficient."""


class ProgramRows:
    """Columns and rows gathered one by one; ``program`` makes arrays of them."""

    def __init__(self) -> None:
        self._columns: list[tuple[float, float, bool]] = []
        self._start = [0]
        self._terms: list[Term] = []
        self._sides: list[tuple[float, float]] = []

    def column(self, cost: float = 0.0, upper: float = inf, *, integer: bool = False) -> int:
        """The number of a new column, from 0 to ``upper``."""
        self._columns.append((cost, upper, integer))
        return len(self._columns) - 1

    def row(self, terms: Iterable[Term], lower: float = -inf, upper: float = inf) -> None:
        """Add a row; every column is in it once."""
        self._terms += terms
        self._start.append(len(self._terms))
        self._sides.append((lower, upper))

    def program(self) -> LinearProgram:
        """The program: minimise the cost over the rows."""
        cost, upper, integer = np.array(self._columns, dtype=float).reshape(-1, 3).T
        index, values = np.array(self._terms, dtype=float).reshape(-1, 2).T
        sides = np.array(self._sides, dtype=float).reshape(-1, 2)
        return LinearProgram(
            *(cost, np.array(self._start), index.astype(np.int64), values),
            *(sides[:, 0], sides[:, 1], np.zeros(len(cost)), upper),
            integer > 0 if integer.any() else None,
        )
