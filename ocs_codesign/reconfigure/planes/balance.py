"""Good usages without barriers: planes are kept equally busy, and change seldom."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, final

from ocs_codesign.reconfigure.change import ReconfigurationCost
from ocs_codesign.reconfigure.planes.problem import PlaneProblem
from ocs_codesign.reconfigure.planes.uses import changes_of, late_stops

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ocs_codesign.reconfigure.planes.problem import Usage

_WIDTH, _PER_STATE = 48, 3
_TRIED = 2000
"""Usages that are tried to improve one."""


@final
@dataclass(frozen=True, slots=True)
class _Times:
    """Seconds of a problem as floats: sends, the latency, and dead times by (held, needed)."""

    sends: tuple[float, ...]
    latency: float
    dead: dict[tuple[int | None, int], float]

    @classmethod
    def of(cls, problem: PlaneProblem) -> _Times:
        """The times of a problem."""
        needed = set(problem.configurations)
        dead = {
            (held, one): float(problem.dead_time_s(held, one))
            for held in {*problem.held, *needed}
            for one in needed
        }
        return cls(tuple(map(float, problem.send_s)), float(problem.latency_s), dead)


@final
@dataclass(frozen=True, slots=True)
class _Loads:
    """What every plane holds and how long it is busy, after the planes served so far."""

    held: tuple[int | None, ...]
    busy: tuple[float, ...]
    chain: tuple[object, tuple[int, ...]] | None

    @property
    def score(self) -> float:
        """The mean load, and a part of what the largest is above it: later sends may level it."""
        mean = sum(self.busy) / len(self.busy)
        return mean + 0.3 * (max(self.busy) - mean)


def balanced_usage(problem: PlaneProblem) -> Usage:
    """Step by step, the best few ways to go on; a step's bytes level the loads of its planes.

    >>> from ocs_codesign.reconfigure import PlaneProblem, ReconfigurationCost
    >>> cost = ReconfigurationCost(1, barrier=False)
    >>> balanced_usage(PlaneProblem((0, 1), (6, 6), 2, 1, cost))
    ((0,), (1,))
    """
    times = _Times.of(problem)
    best = [_Loads(problem.held, (0.0,) * problem.num_planes, None)]
    for needed, send in zip(problem.configurations, times.sends, strict=True):
        grown = [
            _served(times, one, planes, needed, send)
            for one in best
            for planes in _choices(one, needed)
        ]
        best = _kept(sorted(grown, key=lambda one: (one.score, one.busy)))
    usage: list[tuple[int, ...]] = []
    chain = min(best, key=lambda one: max(one.busy)).chain
    while chain is not None:
        before, planes = chain
        usage.append(planes)
        chain = before  # type: ignore[assignment]
    return tuple(reversed(usage))


def improved(problem: PlaneProblem, usage: Usage) -> Usage:
    """The usage after single planes joined or left steps as long as that helps, within limits.

    With overlap and without barriers.
    """
    times = _Times.of(problem)
    best, total = list(usage), _makespan(problem, times, usage)
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
                found = _makespan(problem, times, best)
                if found < total * (1 - 1e-12):
                    total, changed = found, True
                else:
                    best[step] = before
    return tuple(best)


def lightened(problem: PlaneProblem, usage: Usage) -> Usage:
    """The usage after planes left steps between two stops, or joined steps of what they hold.

    Without overlap and without barriers, where not every plane has to spend a step's latency.

    >>> from ocs_codesign.reconfigure import PlaneProblem, ReconfigurationCost
    >>> cost = ReconfigurationCost(1, overlap=False, barrier=False)
    >>> problem = PlaneProblem((0, 0), (9, 1), 2, 1, cost, latency_s=5)
    >>> lightened(problem, ((0, 1), (0, 1)))
    ((0, 1), (1,))
    """
    dark = [one for one in changes_of(problem, usage) if one.circuits]
    never = ReconfigurationCost(
        2 * (sum(problem.send_s) + problem.num_steps * problem.latency_s), barrier=False
    )
    light: list[tuple[int, ...]] = []
    for first, last in pairwise([*late_stops(dark), problem.num_steps]):
        held: list[int | None] = [None] * problem.num_planes
        for needed, planes in zip(
            problem.configurations[first:last], usage[first:last], strict=True
        ):
            for plane in planes:
                held[plane] = needed
        stretch = PlaneProblem(
            problem.configurations[first:last],
            problem.step_bytes[first:last],
            problem.num_planes,
            problem.plane_bandwidth_Bps,
            never,
            latency_s=problem.latency_s,
            held=held,
        )
        light += improved(stretch, usage[first:last])
    return tuple(light)


def _makespan(problem: PlaneProblem, times: _Times, usage: Sequence[tuple[int, ...]]) -> float:
    """When all is done at best, as in ``planes.loads``, in floats."""
    import numpy as np

    planes, latency = problem.num_planes, times.latency
    sends, held = [0.0] * 2**planes, list(problem.held)
    for needed, serve, send in zip(problem.configurations, usage, times.sends, strict=True):
        mask = 0
        for plane in serve:
            mask |= 1 << plane
            sends[1 << plane] += times.dead[held[plane], needed] + latency
            held[plane] = needed
        sends[mask] += send
    work = np.array(sends)
    sets = np.arange(2**planes)
    for plane in range(planes):
        with_it = sets[(sets >> plane) & 1 == 1]
        work[with_it] += work[with_it ^ (1 << plane)]
    size = np.array([one.bit_count() for one in range(2**planes)])
    return float((work[1:] / size[1:]).max())


def _choices(loads: _Loads, needed: int) -> Iterator[tuple[int, ...]]:
    """Planes that hold what is needed, or these and the least busy of the others, one by one."""
    order = sorted(range(len(loads.held)), key=lambda plane: (loads.busy[plane], plane))
    holding = [plane for plane in order if loads.held[plane] == needed]
    others = [plane for plane in order if loads.held[plane] != needed]
    distinct: list[int] = []
    for plane in others:
        if all(loads.held[plane] != loads.held[one] for one in distinct):
            distinct.append(plane)
    for some in ([], *([one] for one in distinct), others[:2], others):
        if holding or some:
            yield tuple(sorted(holding + some))
    if len(holding) > 1:
        yield tuple(sorted(holding[:-1]))


def _served(
    times: _Times, loads: _Loads, planes: tuple[int, ...], needed: int, send: float
) -> _Loads:
    """The loads after the planes share the sends so that the least busy gets most."""
    held, busy = list(loads.held), list(loads.busy)
    for plane in planes:
        busy[plane] += times.dead[held[plane], needed] + times.latency
        held[plane] = needed
    order = sorted(planes, key=lambda plane: busy[plane])
    level, number = busy[order[0]], 1
    left = send
    for plane in order[1:]:
        step = (busy[plane] - level) * number
        if step >= left:
            break
        left -= step
        level, number = busy[plane], number + 1
    level += left / number
    for plane in planes:
        busy[plane] = max(busy[plane], level)
    return _Loads(tuple(held), tuple(busy), (loads.chain, planes))


def _kept(grown: list[_Loads]) -> list[_Loads]:
    """The first ones, a few of those that hold the same."""
    seen: dict[tuple[int, ...], int] = {}
    kept = []
    for one in grown:
        state = tuple(sorted(-1 if held is None else held for held in one.held))
        seen[state] = seen.get(state, 0) + 1
        if seen[state] <= _PER_STATE:
            kept.append(one)
        if len(kept) == _WIDTH:
            break
    return kept
