"""Good usages without barriers: planes are kept equally busy, and change seldom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from ocs_codesign.reconfigure.planes_times import timed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.reconfigure.planes import PlaneProblem, Usage

_WIDTH, _PER_STATE = 48, 3
_TIMED = 600
"""Usages that are timed to improve one."""


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
    sends, latency = [float(send) for send in problem.send_s], float(problem.latency_s)
    best = [_Loads(problem.held, (0.0,) * problem.num_planes, None)]
    for needed, send in zip(problem.configurations, sends, strict=True):
        grown = [
            _served(problem, one, planes, needed, send, latency)
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
    """The usage after single planes joined or left steps as long as that helps, within limits."""
    best = timed(problem, usage)
    budget, changed = _TIMED, True
    while changed and budget > 0:
        changed = False
        for step in range(problem.num_steps):
            for plane in range(problem.num_planes):
                planes = set(best.usage[step]) ^ {plane}
                if not planes or budget <= 0:
                    continue
                budget -= 1
                other = (*best.usage[:step], tuple(sorted(planes)), *best.usage[step + 1 :])
                answer = timed(problem, other)
                if answer.total_s < best.total_s:
                    best, changed = answer, True
    return best.usage


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
    problem: PlaneProblem,
    loads: _Loads,
    planes: tuple[int, ...],
    needed: int,
    send: float,
    latency: float,
) -> _Loads:
    """The loads after the planes share the sends so that the least busy gets most."""
    held, busy = list(loads.held), list(loads.busy)
    for plane in planes:
        busy[plane] += float(problem.dead_time_s(held[plane], needed)) + latency
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
