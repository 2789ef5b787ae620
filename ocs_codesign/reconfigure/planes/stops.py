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
from ocs_codesign.reconfigure.planes.draft import Draft
from ocs_codesign.reconfigure.planes.segments import by_segments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ocs_codesign.reconfigure.planes.problem import PlaneProblem, Usage

MAX_STATES = 60_000
MAX_ENTRIES = 100_000_000
"""States at a time, and over all steps, of the dynamic program."""

Held = tuple[int | None, ...]


def stopping(problem: PlaneProblem) -> Draft:
    """The best usage without overlap and with barriers.

    >>> from ocs_codesign.reconfigure import PlaneProblem, ReconfigurationCost
    >>> cost = ReconfigurationCost(2, overlap=False)
    >>> stopping(PlaneProblem((0, 1, 0), (6, 6, 6), 2, 1, cost)).usage
    ((0, 1), (0, 1), (0, 1))
    """
    needed = {*problem.configurations, *problem.held}
    size = comb(len(needed) + problem.num_planes - 1, problem.num_planes)
    if size <= MAX_STATES and size * problem.num_steps <= MAX_ENTRIES:
        held = _States(problem).plan()
        return Draft(
            usage_of(problem, held), None, f"dynamic program over {size} ways to hold circuits"
        )
    usage = usage_of(problem, by_segments(problem))
    if problem.cost.per_circuit_s == 0 and tells_apart(problem):
        return Draft(usage, None, "dynamic program over the stretches between two stops")
    return Draft(usage, held_bound_s(problem), "stretches as if every stop took the same time")


def usage_of(problem: PlaneProblem, held: Sequence[Held]) -> Usage:
    """The planes that serve each step if so much is held in it; as few circuits change as may."""
    from scipy.optimize import linear_sum_assignment

    now, usage = list(problem.held), []
    for needed, after in zip(problem.configurations, held, strict=True):
        if sorted(map(str, now)) != sorted(map(str, after)):
            cost = np.array([[_circuits(problem, one, other) for other in after] for one in now])
            rows, columns = linear_sum_assignment(cost)
            for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
                now[row] = after[column]
        usage.append(tuple(plane for plane, one in enumerate(now) if one == needed))
    return tuple(usage)


def _circuits(problem: PlaneProblem, held: int | None, target: int | None) -> float:
    """Circuits that change; a plane never comes to hold nothing."""
    if target is None:
        return 0.0 if held is None else 1e12
    if held is None and not problem.cost.cold_start:
        return 0.0
    return float(problem.circuits_changed(held, target))


class _States:
    """All ways to hold configurations, and the time to each of them."""

    def __init__(self, problem: PlaneProblem) -> None:
        self.problem = problem
        self.needed = sorted(set(problem.configurations))
        rest = {one for one in problem.held if one not in self.needed}
        self.names: list[int | None] = [*self.needed, *rest]
        size = problem.num_planes
        self.states = list(combinations_with_replacement(range(len(self.names)), size))
        self.number = {state: at for at, state in enumerate(self.states)}
        table = np.array(self.states)
        self.counts = np.stack([(table == at).sum(axis=1) for at in range(len(self.names))])
        self.moves = [] if self._is_constant() else list(self._moves())

    def plan(self) -> list[Held]:
        """What is held in every step of the best plan."""
        problem = self.problem
        time = self._start()
        origins = []
        for needed, send in zip(problem.configurations, problem.send_s, strict=True):
            time, origin = self._changed(time)
            planes = self.counts[self.names.index(needed)]
            with np.errstate(divide="ignore"):
                time = time + float(problem.latency_s) + float(send) / planes
            origins.append(origin)
        state, held = int(time.argmin()), []
        for origin in reversed(origins):
            held.append(tuple(self.names[at] for at in self.states[state]))
            state = int(origin[state])
        return held[::-1]

    def _is_constant(self) -> bool:
        return self.problem.cost.per_circuit_s == 0 and tells_apart(self.problem)

    def _start(self) -> NDArray[np.float64]:
        """0 for what may be held in the beginning."""
        problem = self.problem
        cold = problem.cost.cold_start
        given = [self.names.index(one) for one in problem.held if one is not None or cold]
        count = np.bincount(given, minlength=len(self.names))
        fits = (self.counts >= count[:, None]).all(axis=0)
        if len(given) < problem.num_planes:
            fits &= self.counts[self.names.index(None)] == 0
        return np.where(fits, 0.0, np.inf)

    def _changed(self, time: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
        """The time to every state after a stop or none, and the state before it."""
        here = np.arange(len(time), dtype=np.int32)
        fixed = float(self.problem.cost.fixed_s)
        if not self.moves:
            best = int(time.argmin())
            jump = time[best] + fixed
            return np.minimum(time, jump), np.where(time <= jump, here, np.int32(best))
        stayed, from_stay = self._closed(time, here, dark=False)
        jumped, from_jump = self._closed(time + fixed, here, dark=True)
        return np.minimum(stayed, jumped), np.where(stayed <= jumped, from_stay, from_jump)

    def _closed(
        self, time: NDArray[np.float64], origin: NDArray[np.int32], *, dark: bool
    ) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
        """Times after any changes of planes one after the other; without a stop, free ones only."""
        time, origin = time.copy(), origin.copy()
        for _ in range(self.problem.num_planes):
            old_time, old_origin = time.copy(), origin.copy()
            for tail, head, circuits in self.moves:
                if circuits and not dark:
                    continue
                reached = old_time[tail] + circuits * float(self.problem.cost.per_circuit_s)
                better = reached < time[head]
                time[head[better]] = reached[better]
                origin[head[better]] = old_origin[tail[better]]
            if (time == old_time).all():
                break
        return time, origin

    def _moves(self) -> list[tuple[NDArray[np.int64], NDArray[np.int64], float]]:
        """States in which one plane changes from a to b, those after it, and the circuits."""
        moves = []
        for a, held in enumerate(self.names):
            tails = np.flatnonzero(self.counts[a])
            for b, target in enumerate(self.names):
                if a == b or target not in self.needed:
                    continue
                heads = [self._swapped(self.states[at], a, b) for at in tails.tolist()]
                moves.append((tails, np.array(heads), _circuits(self.problem, held, target)))
        return moves

    def _swapped(self, state: tuple[int, ...], a: int, b: int) -> int:
        after = list(state)
        after[after.index(a)] = b
        return self.number[tuple(sorted(after))]
