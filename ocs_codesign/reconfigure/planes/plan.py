"""Plan planes: a method finds who serves what, and exact times make a timeline that is checked."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from ocs_codesign.lp import DEFAULT_OPTIONS
from ocs_codesign.reconfigure.planes.draft import Draft
from ocs_codesign.reconfigure.planes.enumeration import enumerated
from ocs_codesign.reconfigure.planes.fast import by_labels, quick_usage, quickly
from ocs_codesign.reconfigure.planes.milp import by_milp
from ocs_codesign.reconfigure.planes.problem import PlanePlan
from ocs_codesign.reconfigure.planes.timeline_check import check_timeline
from ocs_codesign.reconfigure.planes.times import timed, timeline_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ocs_codesign.lp import Options
    from ocs_codesign.reconfigure.planes.problem import PlaneProblem

AUTO, LABELS, MILP, ENUMERATE, FAST = "auto", "labels", "milp", "enumerate", "fast"
PLANE_METHODS = (AUTO, LABELS, MILP, ENUMERATE, FAST)
"""Ways to plan: labels, milp and enumerate prove the optimum, fast gives a bound with its plan."""

_LABEL_PLANES, _LABEL_STEPS = 5, 2000
_MILP_USES, _STOPPED_USES = 64, 20


def plan_planes(
    problem: PlaneProblem,
    method: str = AUTO,
    options: Options = DEFAULT_OPTIONS,
    on_step: Callable[[int, int], None] | None = None,
) -> PlanePlan:
    """Which planes serve which steps, and when they change, so that all ends as early as it can.

    ``method`` is one of PLANE_METHODS: "labels" is the dynamic program over what planes hold (with
    barriers), "milp" a mixed-integer program with these options, "enumerate" tries everything.
    "auto" takes labels as far as they go, then milp where it is small, then fast. ``on_step`` is
    told how many steps of how many are done. Raises ValueError for a method that cannot take the
    problem.

    >>> from ocs_codesign.reconfigure import PlaneProblem, ReconfigurationCost
    >>> problem = PlaneProblem((0, 1, 1, 0), (4e6, 2e6, 2e6, 4e6), 2, 50e9,
    ...                        ReconfigurationCost(200e-6))
    >>> plan = plan_planes(problem)
    >>> plan.total_s, plan.usage, plan.is_optimal
    (Fraction(11, 25000), ((0,), (1,), (1,), (0,)), True)
    """
    if method not in PLANE_METHODS:
        raise ValueError(f"unknown method {method!r}: expected one of {', '.join(PLANE_METHODS)}")
    if method == AUTO:
        method = _method_for(problem)
    if method == LABELS:
        draft = by_labels(problem, on_step)
    elif method == MILP:
        draft = by_milp(problem, quick_usage(problem)[0], options)
    elif method == ENUMERATE:
        draft = enumerated(problem)
    else:
        draft = quickly(problem, on_step)
    return _plan(problem, draft, method)


def plan_of_usage(problem: PlaneProblem, usage: Sequence[Sequence[int]]) -> PlanePlan:
    """The best times when these planes serve the steps; no bound is proven on other usages.

    >>> from ocs_codesign.reconfigure import PlaneProblem, ReconfigurationCost
    >>> problem = PlaneProblem((0, 1), (4, 4), 2, 1, ReconfigurationCost(1))
    >>> plan_of_usage(problem, ((0, 1), (0, 1))).total_s
    Fraction(6, 1)
    """
    answer = timed(problem, usage)
    return _plan(problem, Draft(answer.usage, Fraction(0), "usage as given"), "given")


def _method_for(problem: PlaneProblem) -> str:
    if problem.cost.barrier:
        small = problem.num_planes <= _LABEL_PLANES and problem.num_steps <= _LABEL_STEPS
        return LABELS if small or not problem.cost.overlap else FAST
    uses = _MILP_USES if problem.cost.overlap else _STOPPED_USES
    return MILP if problem.num_planes * problem.num_steps <= uses else FAST


def _plan(problem: PlaneProblem, draft: Draft, method: str) -> PlanePlan:
    """The draft with its best times, checked."""
    answer = timed(problem, draft.usage)
    timeline = timeline_of(problem, answer)
    witness = check_timeline(problem, timeline)
    if witness is not None:
        raise RuntimeError(f"the timeline of this plan is wrong: {witness}")
    bound = answer.total_s if draft.lower_bound_s is None else draft.lower_bound_s
    bound = max(Fraction(0), min(bound, answer.total_s))
    return PlanePlan(problem, answer.total_s, bound, method, draft.status, answer.usage, timeline)
