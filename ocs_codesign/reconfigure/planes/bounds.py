"""What no plan can beat, for problems that are too large to be solved.

* Windows, with barriers and overlap: the time of a stretch of steps is at least the optimum when
  planes hold, in the beginning of the stretch, whatever is best for it. Stretches are disjoint, so
  their times add up.
* Held configurations: k planes hold k configurations at most, so by Belady's rule (1966: give up
  what is needed last) so many changes there must be at least. What all planes have to do takes them
  1 / k of it. Nothing is said where configurations differ in no circuit.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from ocs_codesign.reconfigure.planes.labels import Entries, LabelEffort, search, unit_of
from ocs_codesign.reconfigure.planes.milp import relaxed_bound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ocs_codesign.reconfigure.planes.problem import PlaneProblem

LABEL_PLANES = 5
"""With more planes than these polyhedra of times are large, and windows are relaxed."""
_WINDOW_STEPS, _RELAXED_STEPS = 16, 14
_WINDOW = LabelEffort(2000)


def window_bound_s(
    problem: PlaneProblem, on_step: Callable[[int, int], None] | None = None
) -> Fraction:
    """The sum of the least times of windows; the first one begins as the problem does.

    >>> from ocs_codesign.reconfigure.planes.problem import PlaneProblem
    >>> from ocs_codesign.reconfigure.change import ReconfigurationCost
    >>> problem = PlaneProblem((0, 1) * 4, (5,) * 8, 2, 1, ReconfigurationCost(1))
    >>> round(float(window_bound_s(problem)), 6)
    28.0
    """
    is_small = problem.num_planes <= LABEL_PLANES
    size = _WINDOW_STEPS if is_small else _RELAXED_STEPS
    unit, total = unit_of(problem), 0.0
    for first in range(0, problem.num_steps, size):
        window = problem.part(first, first + size)
        entries = Entries.of(window, unit, free=first > 0)
        if is_small:
            bound = search(entries, _WINDOW).bound
        else:
            bound = relaxed_bound(window, float(unit), free=first > 0)
        total += max(float(entries.least()[0]), bound)
        if on_step is not None:
            on_step(min(first + size, problem.num_steps), problem.num_steps)
    return Fraction(total) * unit


def held_bound_s(problem: PlaneProblem) -> Fraction:
    """Sends, latencies and the least dead times of the planes that serve, divided by their number.

    Without overlap all are dark at once: as often as there are more configurations in a row than
    planes, and while the least number of changed circuits takes.

    >>> from ocs_codesign.reconfigure.planes.problem import PlaneProblem
    >>> from ocs_codesign.reconfigure.change import ReconfigurationCost
    >>> cost = ReconfigurationCost(1, barrier=False)
    >>> held_bound_s(PlaneProblem((0, 1, 2), (6, 6, 6), 2, 1, cost))
    Fraction(21, 2)
    """
    cost, planes = problem.cost, problem.num_planes
    spent = sum(problem.send_s, problem.num_steps * problem.latency_s)
    circuits = min(_circuits(problem), default=0)
    if cost.overlap:
        dead = cost.dead_time_s(circuits)
        return min(
            (spent + num_changes(problem, used) * dead) / used for used in range(1, planes + 1)
        )
    stops = num_stops(problem) if circuits else 0
    each = circuits * cost.per_circuit_s
    return spent / planes + stops * cost.fixed_s + num_changes(problem, planes) * each


def num_changes(problem: PlaneProblem, used: int) -> int:
    """The least number of changes if so many planes serve steps, by Belady's rule.

    Planes that hold nothing, and did not have to be made, are free to change once. Those that have
    to be made do so if they serve at all.
    """
    held = [configuration for configuration in problem.held if configuration is not None]
    given, free = len(held), problem.held.count(None)
    room = problem.num_planes if given else used
    if problem.cost.cold_start:
        free = 0
    else:
        given = problem.num_planes
    coming: dict[int, list[int]] = {}
    for step in range(problem.num_steps - 1, -1, -1):
        coming.setdefault(problem.configurations[step], []).append(step)
    changes = 0
    for needed in problem.configurations:
        coming[needed].pop()
        if needed not in held:
            changes += 1
            if len(held) == room:
                held.remove(max(held, key=lambda one: (coming.get(one) or [problem.num_steps])[-1]))
            held.append(needed)
    return max(changes - free, used - given, 0)


def num_stops(problem: PlaneProblem) -> int:
    """The least number of stops: every stretch between two goes as far as there are planes."""
    held = set(problem.held) - {None}
    spare = 0 if problem.cost.cold_start else problem.num_planes - len(held)
    stops = 0
    for needed in problem.configurations:
        if needed not in held:
            if spare == 0:
                stops += 1
                held, spare = set(), problem.num_planes
            held.add(needed)
            spare -= 1
    return stops


def tells_apart(problem: PlaneProblem) -> bool:
    """Whether some circuit changes in every change that is needed."""
    return all(_circuits(problem))


def _circuits(problem: PlaneProblem) -> Iterable[int]:
    """Circuits that change in every change that may be needed, but for those made in time."""
    needed = set(problem.configurations)
    holds = {*problem.held, *needed} - ({None} if not problem.cost.cold_start else set())
    return [problem.circuits_changed(held, to) for held in holds for to in needed - {held}]
