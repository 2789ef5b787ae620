"""Uses of planes: from what each plane serves, the changes between, their dead times and circuits.

A plane that serves steps p and then q changes in between, unless it holds what q needs; it may do
so whenever it likes, and never makes a detour. So a plan is known from the usage alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from ocs_codesign.reconfigure.planes.problem import PlaneProblem, Usage

START = -1
"""The step before the first one, in which a plane is as it was given."""


@final
@dataclass(frozen=True, slots=True)
class PlaneChange:
    """Plane ``plane`` changes after it served step ``after`` and before it serves step ``before``.

    Both steps count from 0; ``after`` is START for what the plane holds in the beginning.
    """

    plane: int
    after: int
    before: int
    target: int
    circuits: int
    dead_time_s: Fraction


def changes_of(problem: PlaneProblem, usage: Usage) -> list[PlaneChange]:
    """All changes that the usage needs, by step, then by plane.

    >>> from ocs_codesign.reconfigure.planes.problem import PlaneProblem
    >>> from ocs_codesign.reconfigure.change import ReconfigurationCost
    >>> problem = PlaneProblem((0, 1, 0), (1, 1, 1), 2, 1, ReconfigurationCost(3))
    >>> [(one.plane, one.after, one.before) for one in changes_of(problem, ((0,), (1,), (0,)))]
    [(0, -1, 0), (1, -1, 1)]
    """
    changes = []
    held, after = list(problem.held), [START] * problem.num_planes
    for step, (planes, target) in enumerate(zip(usage, problem.configurations, strict=True)):
        for plane in planes:
            if held[plane] != target:
                circuits = problem.circuits_changed(held[plane], target)
                dead = problem.cost.dead_time_s(circuits)
                changes.append(PlaneChange(plane, after[plane], step, target, circuits, dead))
            held[plane], after[plane] = target, step
    return changes


def late_stops(changes: Sequence[PlaneChange]) -> list[int]:
    """The steps before which the fabric stops for these changes: seldom, and as late as may be."""
    last, stops = START, {0}
    for change in changes:
        if change.circuits and change.after >= last:
            last = change.before
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
