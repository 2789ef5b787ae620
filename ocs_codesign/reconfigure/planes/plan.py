"""Plan planes: a method finds who serves what, and exact times make a timeline that is checked."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from ocs_codesign.lp import DEFAULT_OPTIONS
from ocs_codesign.reconfigure.planes.balance import balanced_usage, improved
from ocs_codesign.reconfigure.planes.bounds import LABEL_PLANES, held_bound_s, window_bound_s
from ocs_codesign.reconfigure.planes.labels import Entries, LabelEffort, search, unit_of
from ocs_codesign.reconfigure.planes.milp import by_milp
from ocs_codesign.reconfigure.planes.problem import Draft, PlanePlan
from ocs_codesign.reconfigure.planes.stops import stopping, usage_of
from ocs_codesign.reconfigure.planes.stretches import by_stretches
from ocs_codesign.reconfigure.planes.timing import timed
from ocs_codesign.verification.timelines import check_timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ocs_codesign.lp import Options
    from ocs_codesign.reconfigure.planes.problem import PlaneProblem, Usage

    OnStep = Callable[[int, int], None]

AUTO, LABELS, MILP, FAST = "auto", "labels", "milp", "fast"
PLANE_METHODS = (AUTO, LABELS, MILP, FAST)
"""Ways to plan: labels and milp prove the optimum, fast gives a bound with its plan."""

_LABEL_STEPS = 2000
_MILP_USES, _STOPPED_USES = 64, 20
_IMPROVED_STEPS = 256
"""Steps of a fabric that stops, up to which single planes are moved to improve a usage."""
_ALL = LabelEffort(20_000, 1024)
"""Labels, and points of one, of the search that means to prove the optimum."""
_SOME = LabelEffort(24, 16)
_FEW = LabelEffort(200, leave_early=False)
"""For more planes than polyhedra of times are small for."""


def plan_planes(
    problem: PlaneProblem,
    method: str = AUTO,
    options: Options = DEFAULT_OPTIONS,
    on_step: OnStep | None = None,
) -> PlanePlan:
    """Which planes serve which steps, and when they change, so that all ends as early as it can.

    ``method`` is one of PLANE_METHODS: "labels" is the dynamic program over what planes hold (with
    barriers), "milp" a mixed-integer program with these options, "fast" a narrow search with a
    bound. "auto" takes labels as far as they go, then milp where it is small, then fast.
    ``on_step`` is told how many steps of how many are done. Raises ValueError for a method that
    cannot take the problem.

    >>> from ocs_codesign.reconfigure.planes.problem import PlaneProblem
    >>> from ocs_codesign.reconfigure.change import ReconfigurationCost
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
        draft = _by_labels(problem, on_step)
    elif method == MILP:
        draft = by_milp(problem, _quick_usage(problem)[0], options)
    else:
        draft = _quickly(problem, on_step)
    return _plan(problem, draft, method)


def plan_of_usage(problem: PlaneProblem, usage: Sequence[Sequence[int]]) -> PlanePlan:
    """The best times when these planes serve the steps; no bound is proven on other usages.

    >>> from ocs_codesign.reconfigure.planes.problem import PlaneProblem
    >>> from ocs_codesign.reconfigure.change import ReconfigurationCost
    >>> problem = PlaneProblem((0, 1), (4, 4), 2, 1, ReconfigurationCost(1))
    >>> plan_of_usage(problem, ((0, 1), (0, 1))).total_s
    Fraction(6, 1)
    """
    given = tuple(tuple(planes) for planes in usage)
    return _plan(problem, Draft(given, Fraction(0), "usage as given"), "given")


def _method_for(problem: PlaneProblem) -> str:
    if problem.cost.barrier:
        small = problem.num_planes <= LABEL_PLANES and problem.num_steps <= _LABEL_STEPS
        return LABELS if small or not problem.cost.overlap else FAST
    uses = _MILP_USES if problem.cost.overlap else _STOPPED_USES
    return MILP if problem.num_planes * problem.num_steps <= uses else FAST


def _by_labels(problem: PlaneProblem, on_step: OnStep | None) -> Draft:
    """The exact dynamic program over what planes hold, ``stopping`` without overlap.

    Beyond 20,000 labels a step, and 1024 points a label, the best are kept, and what they prove is
    a bound. ValueError without barriers.
    """
    if not problem.cost.barrier:
        raise ValueError("labels are for steps that a barrier separates: take milp or fast")
    if not problem.cost.overlap:
        return stopping(problem)
    unit = unit_of(problem)
    found = search(Entries.of(problem, unit), _ALL, on_step)
    status = f"label search, up to {found.most_labels} labels after a step"
    return Draft(found.usage, Fraction(found.bound) * unit, status)


def _quickly(problem: PlaneProblem, on_step: OnStep | None) -> Draft:
    """The best usage of a narrow search, with the best bound that is cheap."""
    usage, bound = _quick_usage(problem, on_step)
    bound = max(bound, held_bound_s(problem))
    if problem.cost.barrier and problem.cost.overlap:
        bound = max(bound, window_bound_s(problem, on_step))
    return Draft(usage, bound, "narrow search, bounded by windows and held configurations")


def _quick_usage(problem: PlaneProblem, on_step: OnStep | None = None) -> tuple[Usage, Fraction]:
    """The usage alone, with the bound that comes with it."""
    cost = problem.cost
    if cost.barrier and not cost.overlap:
        draft = stopping(problem)
        bound = draft.lower_bound_s
        return draft.usage, timed(problem, draft.usage).total_s if bound is None else bound
    if not cost.overlap:
        usages = [stopping(problem).usage, usage_of(problem, by_stretches(problem))]
        if problem.num_steps <= _IMPROVED_STEPS:
            usages += [improved(problem, usage) for usage in usages]
        return min(usages, key=lambda usage: timed(problem, usage).total_s), Fraction(0)
    if not cost.barrier:
        return improved(problem, balanced_usage(problem)), Fraction(0)
    unit = unit_of(problem)
    effort = _SOME if problem.num_planes <= LABEL_PLANES else _FEW
    found = search(Entries.of(problem, unit), effort, on_step)
    return found.usage, max(Fraction(0), Fraction(max(found.bound, 0.0)) * unit)


def _plan(problem: PlaneProblem, draft: Draft, method: str) -> PlanePlan:
    """The draft with its best times, checked."""
    answer = timed(problem, draft.usage)
    witness = check_timeline(problem, answer.timeline)
    if witness is not None:
        raise RuntimeError(f"the timeline of this plan is wrong: {witness}")
    bound = answer.total_s if draft.lower_bound_s is None else draft.lower_bound_s
    bound = max(Fraction(0), min(bound, answer.total_s))
    return PlanePlan(
        problem, answer.total_s, bound, method, draft.status, answer.usage, answer.timeline
    )
