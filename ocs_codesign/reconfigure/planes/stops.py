"""A fabric that stops for every change, with barriers: the exact dynamic program over what is held.

A step that n planes hold the circuits of takes latency + send / n, so only the number of planes
with every configuration counts. Between two steps the fabric may stop, and planes change together.
"""

from __future__ import annotations

from itertools import combinations_with_replacement
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.reconfigure.planes.bounds import held_bound_s, tells_apart
from ocs_codesign.reconfigure.planes.problem import Draft
from ocs_codesign.reconfigure.planes.stretches import by_stretches

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from ocs_codesign.reconfigure.planes.problem import PlaneProblem, Usage
    from ocs_codesign.reconfigure.planes.stretches import Held

MAX_STATES = 60_000
MAX_ENTRIES = 100_000_000
"""States at a time, and over all steps, of the dynamic program."""


def stopping(problem: PlaneProblem) -> Draft:
    """The best usage without overlap and with barriers.

    >>> from ocs_codesign.reconfigure.planes.problem import PlaneProblem
    >>> from ocs_codesign.reconfigure.change import ReconfigurationCost
    >>> cost = ReconfigurationCost(2, overlap=False)
    >>> stopping(PlaneProblem((0, 1, 0), (6, 6, 6), 2, 1, cost)).usage
    ((0, 1), (0, 1), (0, 1))
    """
    needed = {*problem.configurations, *problem.held}
    size = comb(len(needed) + problem.num_planes - 1, problem.num_planes)
    if size <= MAX_STATES and size * problem.num_steps <= MAX_ENTRIES:
        usage = usage_of(problem, _States(problem).plan())
        return Draft(usage, None, f"dynamic program over {size} ways to hold circuits")
    usage = usage_of(problem, by_stretches(problem))
    if problem.cost.per_circuit_s == 0 and tells_apart(problem):
        return Draft(usage, None, "dynamic program over the stretches between two stops")
    return Draft(usage, held_bound_s(problem), "stretches as if every stop took the same time")


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
