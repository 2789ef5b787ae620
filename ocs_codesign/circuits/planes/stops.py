"""A fabric that stops for every change, with barriers: the exact dynamic program over what is held.

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

from ocs_codesign.circuits.planes.labels import Entries, LabelEffort, search, unit_of
from ocs_codesign.circuits.planes.milp import relaxed_bound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

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


def window_bound_s(
    problem: PlaneProblem, on_step: Callable[[int, int], None] | None = None
) -> Fraction:
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


MAX_STATES = 60_000
MAX_ENTRIES = 100_000_000
"""States at a time, and over all steps, of the dynamic program."""


def stopping(problem: PlaneProblem) -> tuple[Usage, Fraction | None, str]:
    """The best usage without overlap and with barriers, its bound and what proves it.

    A bound of None is the total itself: the usage is optimal.
    """
    needed = {*problem.configurations, *problem.held}
    size = comb(len(needed) + problem.num_planes - 1, problem.num_planes)
    if size <= MAX_STATES and size * problem.num_steps <= MAX_ENTRIES:
        usage = usage_of(problem, _States(problem).plan())
        return usage, None, f"dynamic program over {size} ways to hold circuits"
    usage = usage_of(problem, by_stretches(problem))
    if problem.cost.per_circuit_s == 0 and tells_apart(problem):
        return usage, None, "dynamic program over the stretches between two stops"
    return usage, held_bound_s(problem), "stretches as if every stop took the same time"


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


class _States:
    """All ways to hold configurations, sorted, and what changes one plane of them."""

    def __init__(self, problem: PlaneProblem) -> None:
        self.problem = problem
        needed = sorted(set(problem.configurations))
        self.names = [*needed, *({*problem.held} - {*needed})]
        names = range(len(self.names))
        self.states = list(combinations_with_replacement(names, problem.num_planes))
        table = np.array(self.states)
        self.counts = np.stack([(table == name).sum(axis=1) for name in names])
        self.is_constant = problem.cost.per_circuit_s == 0 and tells_apart(problem)
        moves = [] if self.is_constant else list(self._moves(len(needed)))
        self.tails, self.heads, self.circuits = np.array(moves, dtype=int).reshape(-1, 3).T

    def _moves(self, num_needed: int) -> Iterator[tuple[int, int, int]]:
        """Before, after and circuits of every change of one plane to what some step needs."""
        number = {state: at for at, state in enumerate(self.states)}
        for before, state in enumerate(self.states):
            for held in set(state):
                rest = list(state)
                rest.remove(held)
                for target in set(range(num_needed)) - {held}:
                    after = number[tuple(sorted([*rest, target]))]
                    yield (
                        before,
                        after,
                        int(_circuits(self.problem, self.names[held], self.names[target])),
                    )

    def plan(self) -> list[Held]:
        """What is held in every step of the best plan."""
        problem, times = self.problem, [self._start()]
        for needed, send in zip(problem.configurations, problem.send_s, strict=True):
            with np.errstate(divide="ignore"):
                spent = (
                    float(problem.latency_s) + float(send) / self.counts[self.names.index(needed)]
                )
            times.append(self._changed(times[-1], self.tails, self.heads) + spent)
        state, held = int(times.pop().argmin()), []
        while times:
            held.append(tuple(self.names[name] for name in self.states[state]))
            target = np.where(np.arange(len(self.states)) == state, 0.0, np.inf)
            total = times.pop() + self._changed(target, self.heads, self.tails)
            state = state if total[state] <= total.min() else int(total.argmin())
        return held[::-1]

    def _start(self) -> NDArray[np.float64]:
        """0 for what may be held in the beginning."""
        problem = self.problem
        cold = problem.cost.cold_start
        given = [self.names.index(held) for held in problem.held if held is not None or cold]
        count = np.bincount(given, minlength=len(self.names))
        fits = (self.counts >= count[:, None]).all(axis=0)
        if len(given) < problem.num_planes:
            fits &= self.counts[self.names.index(None)] == 0
        return np.where(fits, 0.0, np.inf)

    def _changed(
        self, time: NDArray[np.float64], tails: NDArray[np.int64], heads: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """The time to every state after a stop, or without one where no circuits change."""
        cost = self.problem.cost
        if self.is_constant:
            return np.asarray(np.minimum(time, time.min() + float(cost.fixed_s)))
        free, dark = time, time + float(cost.fixed_s)
        same = self.circuits == 0
        for _ in range(self.problem.num_planes):
            free, before = free.copy(), free
            np.minimum.at(free, heads[same], before[tails[same]])
            dark, before = dark.copy(), dark
            np.minimum.at(dark, heads, before[tails] + self.circuits * float(cost.per_circuit_s))
        return np.asarray(np.minimum(free, dark))
