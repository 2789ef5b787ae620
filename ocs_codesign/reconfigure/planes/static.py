"""Planes that make one configuration each and keep it: what changing circuits is compared with."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, pairwise
from typing import TYPE_CHECKING

from ocs_codesign.reconfigure.planes.plan import plan_of_usage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.reconfigure.planes.problem import PlanePlan, PlaneProblem

_TIMED, _TIMED_STEPS = 8, 200
"""Assignments that are timed, since planes may not be ready together; of long lists one."""


def static_plan_of_planes(problem: PlaneProblem) -> PlanePlan | None:
    """The best plan found in which no plane changes after the beginning, None if there is none.

    Planes that hold nothing make one configuration each and keep it, and every plane serves all
    steps of what it holds. How many planes make what is the best for the sends: where all planes
    are ready together, that is the best of all. There is no such plan if more configurations are
    needed than planes can have.

    >>> from ocs_codesign.reconfigure import PlaneProblem, ReconfigurationCost
    >>> cost = ReconfigurationCost(1)
    >>> static_plan_of_planes(PlaneProblem((0, 1, 0), (4, 2, 4), 2, 1, cost)).total_s
    Fraction(11, 1)
    >>> static_plan_of_planes(PlaneProblem((0, 1, 2), (4, 2, 4), 2, 1, cost)) is None
    True
    """
    needed = sorted(set(problem.configurations))
    sends = dict.fromkeys(needed, 0.0)
    for one, send in zip(problem.configurations, problem.send_s, strict=True):
        sends[one] += float(send)
    steps = Counter(problem.configurations)

    def sending_s(held: tuple[int | None, ...]) -> float:
        planes = Counter(held)
        if problem.cost.barrier:
            return sum(sends[one] / planes[one] for one in needed)
        return max(sends[one] / planes[one] + steps[one] * latency for one in needed)

    latency = float(problem.latency_s)
    ranked = sorted(_assignments(problem, needed), key=sending_s)
    many = _TIMED if problem.num_steps <= _TIMED_STEPS else 1
    plans = [
        plan_of_usage(
            problem,
            [
                [plane for plane, one in enumerate(held) if one == step]
                for step in problem.configurations
            ],
        )
        for held in ranked[:many]
    ]
    return min(plans, key=lambda plan: plan.total_s, default=None)


def _assignments(problem: PlaneProblem, needed: list[int]) -> Iterator[tuple[int | None, ...]]:
    """What the planes may hold all the time so that every step is served."""
    spare = [plane for plane, one in enumerate(problem.held) if one is None]
    missing = set(needed) - set(problem.held)
    if len(missing) > len(spare):
        return
    places = len(spare) + len(needed) - 1
    for bars in combinations(range(places), len(needed) - 1):
        many = [b - a - 1 for a, b in pairwise((-1, *bars, places))]
        made = [one for one, number in zip(needed, many, strict=True) for _ in range(number)]
        if missing <= set(made):
            held = list(problem.held)
            for plane, one in zip(spare, made, strict=True):
                held[plane] = one
            yield tuple(held)
