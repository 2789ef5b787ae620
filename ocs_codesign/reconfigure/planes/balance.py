"""Good usages without barriers: planes are kept equally busy, and change seldom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.reconfigure.planes.labels import Entries, unit_of
from ocs_codesign.reconfigure.planes.loads import makespan
from ocs_codesign.reconfigure.planes.uses import START

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ocs_codesign.reconfigure.planes.problem import PlaneProblem, Usage

_WIDTH, _PER_STATE = 48, 3
_TRIED = 2000
"""Usages that are tried to improve one."""


@final
@dataclass(frozen=True, slots=True)
class _Loads:
    """What every plane holds, as a code, and how long it is busy; ``chain`` is the usage so far."""

    held: tuple[int, ...]
    busy: tuple[float, ...]
    chain: Any

    @property
    def score(self) -> float:
        """The mean load, and a part of what the largest is above it: later sends may level it."""
        mean = sum(self.busy) / len(self.busy)
        return mean + 0.3 * (max(self.busy) - mean)


def balanced_usage(problem: PlaneProblem) -> Usage:
    """Step by step, the best few ways to go on; a step's bytes level the loads of its planes.

    >>> from ocs_codesign.reconfigure.planes.problem import PlaneProblem
    >>> from ocs_codesign.reconfigure.change import ReconfigurationCost
    >>> cost = ReconfigurationCost(1, barrier=False)
    >>> balanced_usage(PlaneProblem((0, 1), (6, 6), 2, 1, cost))
    ((0,), (1,))
    """
    entries = Entries.of(problem, unit_of(problem))
    best = [_Loads(entries.start, (0.0,) * problem.num_planes, None)]
    for send, needed in zip(entries.send.tolist(), entries.kind.tolist(), strict=True):
        dead = (entries.dead[:, needed] + entries.latency).tolist()
        grown = [
            _served(loads, planes, needed, send, dead)
            for loads in best
            for planes in _choices(loads, needed)
        ]
        best = _kept(sorted(grown, key=lambda loads: (loads.score, loads.busy)))
    usage: list[tuple[int, ...]] = []
    chain = min(best, key=lambda loads: max(loads.busy)).chain
    while chain is not None:
        chain, planes = chain
        usage.append(planes)
    return tuple(reversed(usage))


def improved(problem: PlaneProblem, usage: Usage) -> Usage:
    """The usage after single planes joined or left steps as long as that helps, within limits.

    >>> from ocs_codesign.reconfigure.planes.problem import PlaneProblem
    >>> from ocs_codesign.reconfigure.change import ReconfigurationCost
    >>> cost = ReconfigurationCost(1, overlap=False, barrier=False)
    >>> improved(PlaneProblem((0, 0), (9, 1), 2, 1, cost, latency_s=5), ((0, 1), (0, 1)))
    ((0, 1), (1,))
    """
    entries, fixed = Entries.of(problem, unit_of(problem)), 0.0
    if not problem.cost.overlap:
        fixed = float(problem.cost.fixed_s / unit_of(problem))
    estimate = _Estimate(entries, problem.cost.overlap, fixed)
    best, total = list(usage), estimate.total(usage)
    budget, changed = _TRIED, True
    while changed and budget > 0:
        changed = False
        for step in range(problem.num_steps):
            for plane in range(problem.num_planes):
                planes = tuple(sorted({*best[step]} ^ {plane}))
                if not planes or budget <= 0:
                    continue
                budget -= 1
                before, best[step] = best[step], planes
                found = estimate.total(best)
                if found < total * (1 - 1e-12):
                    total, changed = found, True
                else:
                    best[step] = before
    return tuple(best)


class _Estimate:
    """The total of a usage without barriers; a fabric that stops does so as late as it can."""

    def __init__(self, entries: Entries, overlap: bool, fixed: float) -> None:
        self.overlap, self.fixed, self.latency = overlap, fixed, entries.latency
        self.start, self.dead = entries.start, entries.dead.tolist()
        self.steps = list(zip(entries.send.tolist(), entries.kind.tolist(), strict=True))

    def total(self, usage: Sequence[tuple[int, ...]]) -> float:
        """In the unit of the entries."""
        held, since = list(self.start), [START] * len(self.start)
        work, total, stop = [0.0] * 2 ** len(held), 0.0, START
        for step, ((send, needed), planes) in enumerate(zip(self.steps, usage, strict=True)):
            waits = [self.dead[held[plane]][needed] for plane in planes]
            if not self.overlap:
                if any(wait and since[at] >= stop for at, wait in zip(planes, waits, strict=True)):
                    total += makespan(np.array(work)) + self.fixed
                    work, stop = [0.0] * len(work), step
                total += sum(wait - self.fixed for wait in waits if wait)
                waits = [0.0] * len(waits)
            mask = 0
            for plane, wait in zip(planes, waits, strict=True):
                work[1 << plane] += wait + self.latency
                held[plane], since[plane] = needed, step
                mask |= 1 << plane
            work[mask] += send
        return total + makespan(np.array(work))


def _choices(loads: _Loads, needed: int) -> Iterator[tuple[int, ...]]:
    """Planes that hold what is needed, or these and the least busy of the others, one by one."""
    order = sorted(range(len(loads.held)), key=lambda plane: (loads.busy[plane], plane))
    holding = [plane for plane in order if loads.held[plane] == needed]
    others = [plane for plane in order if loads.held[plane] != needed]
    first_of = {loads.held[plane]: plane for plane in reversed(others)}
    distinct = [plane for plane in others if first_of[loads.held[plane]] == plane]
    for some in ([], *([plane] for plane in distinct), others[:2], others):
        if holding or some:
            yield tuple(sorted(holding + some))
    if len(holding) > 1:
        yield tuple(sorted(holding[:-1]))


def _served(
    loads: _Loads, planes: tuple[int, ...], needed: int, send: float, dead: list[float]
) -> _Loads:
    """The loads after the planes share the sends so that the least busy gets most."""
    held, busy = list(loads.held), list(loads.busy)
    for plane in planes:
        busy[plane] += dead[held[plane]]
        held[plane] = needed
    ends = sorted(busy[plane] for plane in planes)
    level = min((send + sum(ends[:many])) / many for many in range(1, len(ends) + 1))
    for plane in planes:
        busy[plane] = max(busy[plane], level)
    return _Loads(tuple(held), tuple(busy), (loads.chain, planes))


def _kept(grown: list[_Loads]) -> list[_Loads]:
    """The first ones, a few of those that hold the same."""
    seen: dict[tuple[int, ...], int] = {}
    kept = []
    for loads in grown:
        state = tuple(sorted(loads.held))
        seen[state] = seen.get(state, 0) + 1
        if seen[state] <= _PER_STATE:
            kept.append(loads)
    return kept[:_WIDTH]
