"""A fabric that stops for every change, with barriers: what is held, planned as legs.

A step that n planes hold the circuits of takes latency + send / n, so only the number of planes
with every configuration counts. Between two steps the fabric may stop, and planes change together.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import combinations_with_replacement
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.circuits.legs.plan import LegProblem, plan_legs
from ocs_codesign.circuits.planes.labels import Entries, LabelEffort, search, unit_of
from ocs_codesign.circuits.planes.milp import relaxed_bound
from ocs_codesign.core.progress import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ocs_codesign.circuits.planes.problem import PlaneProblem, Usage


# What no plan can beat, for problems that are too large to be solved.
#
# * Windows, with barriers and overlap: the time of a stretch of steps is at least the optimum
# when planes hold, in the beginning of the stretch, whatever is best for it. Stretches are
# disjoint, so their times add up. * Held configurations: k planes hold k configurations at most,
# so by Belady's rule (1966: give up what is needed last) so many changes there must be at least.
# What all planes have to do takes them 1 / k of it. Nothing is said where configurations differ
# in no circuit.


LABEL_PLANES = 5
"""With more planes than these polyhedra of times are large, and windows are relaxed."""
_WINDOW_STEPS, _RELAXED_STEPS = 16, 14
_WINDOW = LabelEffort(2000)


def window_bound_s(problem: PlaneProblem) -> Fraction:
    """The sum of the least times of windows; the first one begins as the problem does.

    >>> from ocs_codesign.circuits.planes.problem import PlaneProblem
    >>> from ocs_codesign.circuits.change import Change
    >>> problem = PlaneProblem((0, 1) * 4, (5,) * 8, 2, 1, Change(1))
    >>> round(float(window_bound_s(problem)), 6)
    28.0
    """
    is_small = problem.num_planes <= LABEL_PLANES
    size = _WINDOW_STEPS if is_small else _RELAXED_STEPS
    unit, total = unit_of(problem), 0.0
    for first in counted(range(0, problem.num_steps, size)):
        window = problem.part(first, first + size)
        entries = Entries.of(window, unit, free=first > 0)
        if is_small:
            bound = search(entries, _WINDOW).bound
        else:
            bound = relaxed_bound(window, float(unit), free=first > 0)
        total += max(float(entries.least()[0]), bound)
    return Fraction(total) * unit


def held_bound_s(problem: PlaneProblem) -> Fraction:
    """Sends, latencies and the least dead times of the planes that serve, divided by their number.

    Without overlap all are dark at once: as often as there are more configurations in a row than
    planes, and while the least number of changed circuits takes.

    >>> from ocs_codesign.circuits.planes.problem import PlaneProblem
    >>> from ocs_codesign.circuits.change import Change
    >>> cost = Change(1, barrier=False)
    >>> held_bound_s(PlaneProblem((0, 1, 2), (6, 6, 6), 2, 1, cost))
    Fraction(21, 2)
    """
    cost, planes = problem.cost, problem.num_planes
    spent = sum(problem.send_s, problem.num_steps * problem.latency_s)
    circuits = min(_plane_circuits(problem), default=0)
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
    return all(_plane_circuits(problem))


def _plane_circuits(problem: PlaneProblem) -> Iterable[int]:
    """Circuits that change in every change that may be needed, but for those made in time."""
    needed = set(problem.configurations)
    holds = {*problem.held, *needed} - ({None} if not problem.cost.cold_start else set())
    return [problem.circuits_changed(held, to) for held in holds for to in needed - {held}]


# Stretches in which no plane changes, when every stop takes the same time whatever changes in it.
#
# In a stretch every configuration that it needs has one plane at least. With barriers its time is
# the sum of sends / planes of its configurations, and every further plane goes where it saves
# most, which is best since that is convex; without them it is the largest, and the plane goes
# there.


Held = tuple[int | None, ...]
"""What the planes hold, in any order."""

Work = dict[int, tuple[float, float]]
"""By configuration: what a stretch sends over it, and what it takes every plane besides."""


def by_stretches(problem: PlaneProblem) -> list[Held]:
    """What is held in every step; between two stretches the whole fabric stops."""
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


MAX_STATES, MAX_ENTRIES = 512, 2**18
"""Ways to hold configurations, and all that with the steps, that are planned as legs."""


def stopping(problem: PlaneProblem) -> tuple[Usage, Fraction | None, str]:
    """The best usage without overlap and with barriers, its bound and what proves it.

    A bound of None is the total itself: the usage is optimal.
    """
    is_constant = problem.cost.per_circuit_s == 0 and tells_apart(problem)
    needed = {*problem.configurations, *problem.held}
    size = comb(len(needed) + problem.num_planes - 1, problem.num_planes)
    if not is_constant and size <= MAX_STATES and size * problem.num_steps <= MAX_ENTRIES:
        usage = usage_of(problem, by_states(problem))
        return usage, None, f"dynamic program over {size} ways to hold circuits"
    usage = usage_of(problem, by_stretches(problem))
    if is_constant:
        return usage, None, "dynamic program over the stretches between two stops"
    return usage, held_bound_s(problem), "stretches as if every stop took the same time"


def by_states(problem: PlaneProblem) -> list[Held]:
    """What is held in every step of the best plan: ways to hold circuits are what legs choose."""
    needed = sorted(set(problem.configurations))
    names = [*needed, *({*problem.held} - {*needed})]
    states = list(combinations_with_replacement(range(len(names)), problem.num_planes))
    number = {state: at for at, state in enumerate(states)}
    counts = np.stack([(np.array(states) == name).sum(axis=1) for name in range(len(names))])
    circuits = np.where(np.eye(len(states), dtype=bool), 0.0, np.inf)
    for before, state in enumerate(states):
        for place, held in enumerate(state):
            for target in range(len(needed)):
                after = number[tuple(sorted((*state[:place], target, *state[place + 1 :])))]
                circuits[before, after] = problem.circuits_changed(names[held], needed[target])
    for over in range(len(states)):  # planes change together, each the shortest way
        np.minimum(circuits, circuits[:, [over]] + circuits[over], out=circuits)
    delta = np.full(circuits.shape, np.inf, dtype=object)
    for changed in np.unique(circuits[circuits < np.inf]).tolist():
        delta[circuits == changed] = problem.cost.dead_time_s(int(changed))
    costs = np.full((problem.num_steps, len(states)), np.inf, dtype=object)
    for step, (name, send) in enumerate(zip(problem.configurations, problem.send_s, strict=True)):
        for planes in range(1, problem.num_planes + 1):
            serving = counts[needed.index(name)] == planes
            costs[step, serving] = problem.latency_s + send / planes
    cold = problem.cost.cold_start
    given = [names.index(held) for held in problem.held if held is not None or cold]
    fits = (counts >= np.bincount(given, minlength=len(names))[:, None]).all(axis=0)
    if len(given) < problem.num_planes:
        fits &= counts[names.index(None)] == 0
    plan = plan_legs(LegProblem(costs, delta, first=delta[fits].min(axis=0)))
    return [tuple(names[name] for name in states[held]) for held in plan.choice.tolist()]


def usage_of(problem: PlaneProblem, held: Sequence[Held]) -> Usage:
    """The planes that serve each step if so much is held in it; as few circuits change as may."""
    from scipy.optimize import linear_sum_assignment

    now, usage = list(problem.held), []
    for needed, after in zip(problem.configurations, held, strict=True):
        if sorted(map(str, now)) != sorted(map(str, after)):
            cost = [[_circuits(problem, before, to) for to in after] for before in now]
            for plane, place in zip(*linear_sum_assignment(cost), strict=True):
                now[plane] = after[place]
        usage.append(tuple(plane for plane, one in enumerate(now) if one == needed))
    return tuple(usage)


def _circuits(problem: PlaneProblem, held: int | None, target: int | None) -> float:
    """Circuits that change; a plane never comes to hold nothing."""
    if target is None:
        return 0.0 if held is None else 1e12
    return float(problem.circuits_changed(held, target))
