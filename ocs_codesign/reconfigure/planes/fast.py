"""A good usage in a short time, and a bound on all, for lists of steps of any length."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from ocs_codesign.reconfigure.planes.balance import balanced_usage, improved, lightened
from ocs_codesign.reconfigure.planes.bounds import held_bound_s, window_bound_s
from ocs_codesign.reconfigure.planes.draft import Draft
from ocs_codesign.reconfigure.planes.entries import entries_of, unit_of
from ocs_codesign.reconfigure.planes.labels import Effort, search
from ocs_codesign.reconfigure.planes.segments import by_segments
from ocs_codesign.reconfigure.planes.stops import stopping, usage_of
from ocs_codesign.reconfigure.planes.times import timed

if TYPE_CHECKING:
    from collections.abc import Callable

    from ocs_codesign.reconfigure.planes.problem import PlaneProblem, Usage

_ALL = Effort(20_000, 1024)
"""Labels, and points of one, of the search that means to prove the optimum."""
_SOME = Effort(24, 16)
_FEW = Effort(200, leave_early=False)
"""For more planes than polyhedra of times are small for."""
POLYHEDRAL_PLANES = 5
_LIGHTENED_STEPS = 256


def by_labels(problem: PlaneProblem, on_step: Callable[[int, int], None] | None = None) -> Draft:
    """The exact dynamic program over what planes hold, ``stopping`` without overlap.

    Beyond 20,000 labels a step, and 1024 points a label, the best are kept, and what they prove is
    a bound. ValueError without barriers.
    """
    if not problem.cost.barrier:
        raise ValueError("labels are for steps that a barrier separates: take milp or fast")
    if not problem.cost.overlap:
        return stopping(problem)
    unit = unit_of(problem)
    found = search(entries_of(problem, unit), _ALL, on_step)
    status = f"label search, up to {found.most_labels} labels after a step"
    return Draft(found.usage, Fraction(found.bound) * unit, status)


def quickly(problem: PlaneProblem, on_step: Callable[[int, int], None] | None = None) -> Draft:
    """The best usage of a narrow search, with the best bound that is cheap."""
    usage, bounds = quick_usage(problem, on_step)
    bounds.append(held_bound_s(problem))
    if problem.cost.barrier and problem.cost.overlap:
        bounds.append(window_bound_s(problem, on_step))
    return Draft(usage, max(bounds), "narrow search, bounded by windows and held configurations")


def quick_usage(
    problem: PlaneProblem, on_step: Callable[[int, int], None] | None = None
) -> tuple[Usage, list[Fraction]]:
    """The usage alone, with bounds that come with it."""
    if not problem.cost.overlap:
        draft = stopping(problem)
        if problem.cost.barrier:
            bound = draft.lower_bound_s
            return draft.usage, [timed(problem, draft.usage).total_s if bound is None else bound]
        usages = [draft.usage, usage_of(problem, by_segments(problem))]
        if problem.latency_s and problem.num_steps <= _LIGHTENED_STEPS:
            usages += [lightened(problem, usage) for usage in usages]
        return min(usages, key=lambda usage: timed(problem, usage).total_s), []
    if not problem.cost.barrier:
        return improved(problem, balanced_usage(problem)), []
    unit = unit_of(problem)
    entries = entries_of(problem, unit)
    if problem.num_planes > POLYHEDRAL_PLANES:
        return search(entries, _FEW, on_step).usage, []
    found = search(entries, _SOME, on_step)
    return found.usage, [Fraction(found.bound) * unit]
