"""Stretches in which no plane changes, when every stop takes the same time whatever changes in it.

In a stretch every configuration that it needs has one plane at least. With barriers its time is the
sum of sends / planes of its configurations, and every further plane goes where it saves most, which
is best since that is convex; without them it is the largest, and the plane goes there.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ocs_codesign.reconfigure.planes.problem import PlaneProblem

Held = tuple[int | None, ...]
"""What the planes hold, in any order."""

Work = dict[int, tuple[float, float]]
"""By configuration: what a stretch sends over it, and what it takes every plane besides."""


def by_stretches(problem: PlaneProblem) -> list[Held]:
    """What is held in every step; between two stretches the whole fabric stops.

    >>> from ocs_codesign.reconfigure.planes.problem import PlaneProblem
    >>> from ocs_codesign.reconfigure.change import ReconfigurationCost
    >>> cost = ReconfigurationCost(2, overlap=False)
    >>> by_stretches(PlaneProblem((0, 1, 0), (6, 6, 6), 2, 1, cost))
    [(0, 0), (1, 1), (0, 0)]
    >>> cost = ReconfigurationCost(2, overlap=False, barrier=False)
    >>> by_stretches(PlaneProblem((0, 1, 0), (6, 6, 6), 2, 1, cost))
    [(0, 0), (1, 0), (1, 0)]
    """
    stop, steps = float(problem.cost.fixed_s), problem.num_steps
    best: list[tuple[float, int, Held]] = [(0.0, 0, ())]
    best += [(float("inf"), 0, ())] * steps
    for first in range(steps):
        work: Work = {}
        for last in range(first, steps):
            add_step(problem, work, last)
            if len(work) > problem.num_planes:
                break
            made = spread(problem, work, dict.fromkeys(work, 1), problem.num_planes - len(work))
            total = best[first][0] + stop + _spent(problem, work, made)
            best[last + 1] = min(best[last + 1], (total, first, tuple(Counter(made).elements())))
            spare = 0 if problem.cost.cold_start else problem.held.count(None)
            kept = planes_given(problem, work, spare) if first == 0 else None
            if kept is not None:
                option = (_spent(problem, work, kept), 0, _with_spare(problem, kept))
                best[last + 1] = min(best[last + 1], option, key=lambda one: one[0])
    held: list[Held] = []
    while len(held) < steps:
        _, first, during = best[steps - len(held)]
        held += [during] * (steps - len(held) - first)
    return held[::-1]


def add_step(problem: PlaneProblem, work: Work, step: int) -> None:
    """Add what a step has planes do."""
    configuration = problem.configurations[step]
    send, besides = work.get(configuration, (0.0, 0.0))
    send += float(problem.send_s[step])
    work[configuration] = send, besides + float(problem.latency_s)


def planes_given(problem: PlaneProblem, work: Work, spare: int) -> dict[int, int] | None:
    """How many planes have each configuration if ``spare`` ones are free; None if too few are."""
    count = {needed: problem.held.count(needed) for needed in work}
    for needed, planes in count.items():
        if not planes:
            count[needed], spare = 1, spare - 1
    return None if spare < 0 else spread(problem, work, count, spare)


def spread(problem: PlaneProblem, work: Work, count: dict[int, int], spare: int) -> dict[int, int]:
    """The planes of every configuration after each spare one went where it saves most."""
    count = dict(count)

    def gain(needed: int) -> float:
        planes, (send, besides) = count[needed], work[needed]
        if problem.cost.barrier:
            return send / (planes * (planes + 1))
        return send / planes + besides

    for _ in range(spare):
        count[max(count, key=gain)] += 1
    return count


def _spent(problem: PlaneProblem, work: Work, count: dict[int, int]) -> float:
    """The time of a stretch, but for latencies with barriers, which are the same in any."""
    if problem.cost.barrier:
        return sum(send / count[needed] for needed, (send, _) in work.items())
    return max(send / count[needed] + besides for needed, (send, besides) in work.items())


def _with_spare(problem: PlaneProblem, count: dict[int, int]) -> Held:
    """What is held when planes that are free to choose went where they are counted."""
    held = [one for one in problem.held if one is not None or problem.cost.cold_start]
    for needed, planes in count.items():
        held += [needed] * (planes - held.count(needed))
    return tuple(held)
