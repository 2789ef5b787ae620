"""Stretches between two stops, when every stop takes the same time whatever changes in it.

In a stretch every configuration that it needs has one plane at least. With barriers its time is the
sum of sends / planes of its configurations, and every further plane goes where it saves most, which
is best since that is convex; without them it is the largest, and the plane goes there.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heapreplace
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from ocs_codesign.reconfigure.planes.problem import PlaneProblem


def by_segments(problem: PlaneProblem) -> list[tuple[int | None, ...]]:
    """What is held in every step.

    >>> from ocs_codesign.reconfigure import PlaneProblem, ReconfigurationCost
    >>> cost = ReconfigurationCost(2, overlap=False)
    >>> by_segments(PlaneProblem((0, 1, 0), (6, 6, 6), 2, 1, cost))
    [(0, 0), (1, 1), (0, 0)]
    >>> cost = ReconfigurationCost(2, overlap=False, barrier=False)
    >>> by_segments(PlaneProblem((0, 1, 0), (6, 6, 6), 2, 1, cost))
    [(0, 0), (1, 0), (1, 0)]
    """
    rule = _Rule(problem.cost.barrier)
    stop = float(problem.cost.fixed_s)
    sends = [float(send) for send in problem.send_s]
    steps, planes = problem.num_steps, problem.num_planes
    best = [0.0] + [float("inf")] * steps
    begin = [(0, False)] * (steps + 1)
    for first in range(steps):
        work: dict[int, float] = {}
        held = _held(problem) if first == 0 else None
        for last in range(first, steps):
            one = problem.configurations[last]
            work[one] = work.get(one, 0.0) + sends[last]
            if len(work) > planes:
                break
            total = best[first] + stop + rule.spent(work, rule.planes_for(work, planes))
            if total < best[last + 1]:
                best[last + 1], begin[last + 1] = total, (first, True)
            given = None if held is None else rule.given(work, held)
            if given is not None and rule.spent(work, given) < best[last + 1]:
                best[last + 1], begin[last + 1] = rule.spent(work, given), (first, False)
    return _unfolded(problem, rule, begin)


def _unfolded(
    problem: PlaneProblem, rule: _Rule, begin: list[tuple[int, bool]]
) -> list[tuple[int | None, ...]]:
    """What is held in every step, from where the best stretches begin."""
    runs: list[list[tuple[int | None, ...]]] = []
    last = problem.num_steps
    while last:
        first, stopped = begin[last]
        work: dict[int, float] = {}
        for one, send in zip(
            problem.configurations[first:last], problem.send_s[first:last], strict=True
        ):
            work[one] = work.get(one, 0.0) + float(send)
        if stopped:
            count = rule.planes_for(work, problem.num_planes)
            now: list[int | None] = [one for one, many in count.items() for _ in range(many)]
        else:
            count = rule.given(work, _held(problem)) or {}
            now = list(problem.held)
            if not problem.cost.cold_start:
                now = [one for one in now if one is not None]
                for one, many in count.items():
                    now += [one] * (many - now.count(one))
        runs.append([tuple(now)] * (last - first))
        last = first
    return [held for run in reversed(runs) for held in run]


def _held(problem: PlaneProblem) -> dict[int | None, int]:
    """How many planes hold what in the beginning; planes that are free to choose count as None."""
    held: dict[int | None, int] = {}
    for one in problem.held:
        if one is not None or not problem.cost.cold_start:
            held[one] = held.get(one, 0) + 1
    return held


@final
@dataclass(frozen=True, slots=True)
class _Rule:
    """How planes are shared out in a stretch with barriers or without, and the time it takes."""

    barrier: bool

    def planes_for(self, work: dict[int, float], planes: int) -> dict[int, int]:
        """How many planes every configuration gets."""
        return self.spread(work, dict.fromkeys(work, 1), planes - len(work))

    def given(self, work: dict[int, float], held: dict[int | None, int]) -> dict[int, int] | None:
        """Without a stop: of planes that hold it or are free to; None if they are too few."""
        count = {one: held.get(one, 0) for one in work}
        spare = held.get(None, 0)
        for one, many in count.items():
            if not many:
                count[one], spare = 1, spare - 1
        return self.spread(work, count, spare) if spare >= 0 else None

    def spread(self, work: dict[int, float], count: dict[int, int], spare: int) -> dict[int, int]:
        """Every spare plane goes where it shortens the stretch most."""
        count = dict(count)
        gains = [(-self.gain(total, count[one]), one) for one, total in work.items()]
        heapify(gains)
        for _ in range(spare):
            one = gains[0][1]
            count[one] += 1
            heapreplace(gains, (-self.gain(work[one], count[one]), one))
        return count

    def gain(self, total: float, planes: int) -> float:
        """How much one more plane is worth to sends that have so many."""
        return total / (planes * (planes + 1)) if self.barrier else total / planes

    def spent(self, work: dict[int, float], count: dict[int, int]) -> float:
        """The time of a stretch."""
        each = (total / count[one] for one, total in work.items())
        return sum(each) if self.barrier else max(each)
