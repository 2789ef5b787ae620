"""Planes that make one configuration each and keep it: what changing circuits is compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ocs_codesign.reconfigure.planes.plan import plan_of_usage
from ocs_codesign.reconfigure.planes.stretches import Work, add_step, planes_given

if TYPE_CHECKING:
    from ocs_codesign.reconfigure.planes.problem import PlanePlan, PlaneProblem


def static_plan_of_planes(problem: PlaneProblem) -> PlanePlan | None:
    """The best plan found in which no plane changes after the beginning, None if there is none.

    Planes that hold nothing make one configuration each and keep it, and every plane serves all
    steps of what it holds. How many planes make what is the best for the sends: where all planes
    are ready together, that is the best of all. There is no such plan if more configurations are
    needed than planes can have.

    >>> from ocs_codesign.reconfigure.planes.problem import PlaneProblem
    >>> from ocs_codesign.reconfigure.change import ReconfigurationCost
    >>> cost = ReconfigurationCost(1)
    >>> static_plan_of_planes(PlaneProblem((0, 1, 0), (4, 2, 4), 2, 1, cost)).total_s
    Fraction(11, 1)
    >>> static_plan_of_planes(PlaneProblem((0, 1, 2), (4, 2, 4), 2, 1, cost)) is None
    True
    """
    work: Work = {}
    for step in range(problem.num_steps):
        add_step(problem, work, step)
    count = planes_given(problem, work, problem.held.count(None))
    if count is None:
        return None
    held = list(problem.held)
    for needed in sorted(count):
        for _ in range(count[needed] - held.count(needed)):
            held[held.index(None)] = needed
    return plan_of_usage(
        problem,
        [
            [plane for plane, holds in enumerate(held) if holds == needed]
            for needed in problem.configurations
        ],
    )
