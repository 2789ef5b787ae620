"""Stretches between two stops, when every stop takes the same time whatever changes in it.

In a stretch every configuration that it needs has one plane at least; every further plane goes
where it saves most, which is best since sends / planes is convex in the number of planes.
"""

from __future__ import annotations

from heapq import heapify, heapreplace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ocs_codesign.reconfigure.planes import PlaneProblem


def by_segments(problem: PlaneProblem) -> list[tuple[int | None, ...]]:
    """What is held in every step.

    >>> from ocs_codesign.reconfigure import PlaneProblem, ReconfigurationCost
    >>> cost = ReconfigurationCost(2, overlap=False)
    >>> by_segments(PlaneProblem((0, 1, 0), (6, 6, 6), 2, 1, cost))
    [(0, 0), (1, 1), (0, 0)]
    """
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
            total = best[first] + stop + _spent(work, _planes_for(work, planes))
            if total < best[last + 1]:
                best[last + 1], begin[last + 1] = total, (first, True)
            given = None if held is None else _given(work, held)
            if given is not None and _spent(work, given) < best[last + 1]:
                best[last + 1], begin[last + 1] = _spent(work, given), (first, False)
    return _unfolded(problem, begin)


def _unfolded(problem: PlaneProblem, begin: list[tuple[int, bool]]) -> list[tuple[int | None, ...]]:
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
            count = _planes_for(work, problem.num_planes)
            now: list[int | None] = [one for one, many in count.items() for _ in range(many)]
        else:
            count = _given(work, _held(problem)) or {}
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


def _planes_for(work: dict[int, float], planes: int) -> dict[int, int]:
    """How many planes every configuration gets."""
    return _spread(work, dict.fromkeys(work, 1), planes - len(work))


def _given(work: dict[int, float], held: dict[int | None, int]) -> dict[int, int] | None:
    """The same without a stop, of planes that hold it or are free to; None if they are too few."""
    count = {one: held.get(one, 0) for one in work}
    spare = held.get(None, 0)
    for one, many in count.items():
        if not many:
            count[one], spare = 1, spare - 1
    return _spread(work, count, spare) if spare >= 0 else None


def _spread(work: dict[int, float], count: dict[int, int], spare: int) -> dict[int, int]:
    """Every spare plane goes to the configuration whose sends it shortens most."""
    count = dict(count)
    saved = [(-total / (count[one] * (count[one] + 1)), one) for one, total in work.items()]
    heapify(saved)
    for _ in range(spare):
        one = saved[0][1]
        count[one] += 1
        heapreplace(saved, (-work[one] / (count[one] * (count[one] + 1)), one))
    return count


def _spent(work: dict[int, float], count: dict[int, int]) -> float:
    return sum(total / count[one] for one, total in work.items())
