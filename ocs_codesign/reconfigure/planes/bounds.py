"""What no plan can beat, for problems that are too large to be solved.

* Windows, with barriers and overlap: the time of a stretch of steps is at least the optimum when
  planes hold, in the beginning of the stretch, whatever is best for it. Stretches are disjoint, so
  their times add up.
* Held configurations: k planes hold k configurations at most, so by Belady's rule (1966: give up
  what is needed last) so many changes there must be at least. What all planes have to do takes them
  1 / k of it. Nothing is said where configurations differ in no circuit.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

from ocs_codesign.lp import solve
from ocs_codesign.reconfigure.planes.entries import entries_of, unit_of
from ocs_codesign.reconfigure.planes.labels import Effort, search
from ocs_codesign.reconfigure.planes.milp_flows import flow_program

if TYPE_CHECKING:
    from collections.abc import Callable

    from ocs_codesign.reconfigure.planes.problem import PlaneProblem

WINDOW_STEPS = 16
"""Steps of a window that labels solve; with more planes than LABEL_PLANES, windows are relaxed."""
RELAXED_STEPS = 14
LABEL_PLANES = 5
_WINDOW = Effort(2000)


def window_bound_s(
    problem: PlaneProblem, on_step: Callable[[int, int], None] | None = None
) -> Fraction:
    """The sum of the least times of windows; the first one begins as the problem does.

    >>> from ocs_codesign.reconfigure import PlaneProblem, ReconfigurationCost
    >>> problem = PlaneProblem((0, 1) * 4, (5,) * 8, 2, 1, ReconfigurationCost(1))
    >>> round(float(window_bound_s(problem)), 6)
    28.0
    """
    size = WINDOW_STEPS if problem.num_planes <= LABEL_PLANES else RELAXED_STEPS
    cuts = [*range(0, problem.num_steps, size), problem.num_steps]
    unit, total = unit_of(problem), 0.0
    for first, last in pairwise(cuts):
        total += _window(problem, unit, first, last)
        if on_step is not None:
            on_step(last, problem.num_steps)
    return Fraction(total) * unit


def _window(problem: PlaneProblem, unit: Fraction, first: int, last: int) -> float:
    """A lower bound on the time of a window, in units."""
    entries = entries_of(problem, unit, first, last, free=first > 0)
    least = float(entries.least()[0])
    if problem.num_planes <= LABEL_PLANES:
        return max(least, search(entries, _WINDOW).bound)
    part = problem.part(first, last)
    found = flow_program(part, float(unit), 3.0 * (last - first), free=first > 0)
    solution = solve(replace(found.program, integer=None))
    return max(least, (solution.bound or 0.0) * (1 - 1e-7))


def held_bound_s(problem: PlaneProblem) -> Fraction:
    """Sends, latencies and the least dead times of the planes that serve, divided by their number.

    Without overlap all are dark at once: as often as there are more configurations in a row than
    planes, and while the least number of changed circuits takes.

    >>> from ocs_codesign.reconfigure import PlaneProblem, ReconfigurationCost
    >>> cost = ReconfigurationCost(1, barrier=False)
    >>> held_bound_s(PlaneProblem((0, 1, 2), (6, 6, 6), 2, 1, cost))
    Fraction(21, 2)
    """
    cost, spent = problem.cost, sum(problem.send_s, Fraction(0))
    spent += problem.num_steps * problem.latency_s
    circuits = _fewest_circuits(problem)
    if not cost.overlap:
        changes = num_changes(problem, problem.num_planes)
        dark = num_stops(problem) * cost.fixed_s + changes * circuits * cost.per_circuit_s
        return spent / problem.num_planes + dark
    dead = cost.dead_time_s(circuits)
    return min(
        (spent + num_changes(problem, used) * dead) / used
        for used in range(1, problem.num_planes + 1)
    )


def _fewest_circuits(problem: PlaneProblem) -> int:
    """Circuits that change in every change at least."""
    needed = set(problem.configurations)
    counts = {
        problem.circuits_changed(held, one)
        for held in {*problem.held, *needed}
        for one in needed - {held}
    }
    return min(counts, default=0)


def num_changes(problem: PlaneProblem, used: int) -> int:
    """The least number of changes if so many planes serve steps, by Belady's rule.

    Planes that hold nothing, and did not have to be made, are free to change once. Those that have
    to be made do so if they serve at all.
    """
    held = [one for one in problem.held if one is not None]
    given = len(held)
    room = problem.num_planes if given else used
    if not problem.cost.cold_start:
        given = problem.num_planes
    coming: dict[int, list[int]] = {}
    for step in range(problem.num_steps - 1, -1, -1):
        coming.setdefault(problem.configurations[step], []).append(step)
    changes = 0
    for one in problem.configurations:
        coming[one].pop()
        if one in held:
            continue
        changes += 1
        if len(held) == room:
            held.remove(max(held, key=lambda each: _next(coming.get(each))))
        held.append(one)
    free = 0 if problem.cost.cold_start else sum(one is None for one in problem.held)
    return max(changes - free, used - given, 0)


def _next(steps: list[int] | None) -> float:
    """The next step of those that are to come, the last of the list; never if there is none."""
    return steps[-1] if steps else float("inf")


def num_stops(problem: PlaneProblem) -> int:
    """The least number of stops: every stretch between two goes as far as there are planes."""
    if not tells_apart(problem):
        return 0
    held = {one for one in problem.held if one is not None}
    spare = 0 if problem.cost.cold_start else problem.num_planes - len(held)
    stops = 0
    for one in problem.configurations:
        if one in held:
            continue
        if spare == 0:
            stops += 1
            held, spare = set(), problem.num_planes
        held.add(one)
        spare -= 1
    return stops


def tells_apart(problem: PlaneProblem) -> bool:
    """Whether some circuit changes in every change that is needed."""
    needed = set(problem.configurations)
    return all(
        problem.circuits_changed(held, one)
        for held in {*problem.held, *needed}
        for one in needed - {held}
    )
