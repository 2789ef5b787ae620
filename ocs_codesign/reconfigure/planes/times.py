"""The best times of any usage, whatever the rules of the fabric, as a timeline without gaps."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

from ocs_codesign.reconfigure.planes.loads import Stretch, makespan_s, shares
from ocs_codesign.reconfigure.planes.timeline import Activity, Interval, Timeline
from ocs_codesign.reconfigure.planes.timing import Timed, timed_with_barriers
from ocs_codesign.reconfigure.planes.uses import (
    START,
    Change,
    changes_of,
    checked_usage,
    late_stops,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ocs_codesign.reconfigure.planes.problem import PlaneProblem, Usage

_STOPS_SEARCHED = 48
_PLANES_SEARCHED = 6


def timed(problem: PlaneProblem, usage: Sequence[Sequence[int]]) -> Timed:
    """The best times of a usage.

    Raises ValueError unless some plane of the problem serves every step.

    >>> from ocs_codesign.reconfigure import PlaneProblem, ReconfigurationCost
    >>> cost = ReconfigurationCost(2, overlap=False)
    >>> problem = PlaneProblem((0, 1, 0), (6, 6, 6), 2, 1, cost)
    >>> [timed(problem, usage).total_s for usage in (((0,), (1,), (0,)), ((0, 1),) * 3)]
    [Fraction(20, 1), Fraction(15, 1)]
    """
    checked = checked_usage(problem, usage)
    if problem.cost.overlap and problem.cost.barrier:
        return timed_with_barriers(problem, checked)
    while True:
        answer = _in_stretches(problem, checked)
        if answer.usage == checked:
            return answer
        checked = answer.usage


def timeline_of(problem: PlaneProblem, answer: Timed) -> Timeline:
    """The intervals with idle ones between them, so that every plane's row is without gaps."""
    rows: defaultdict[int, list[Interval]] = defaultdict(list)
    for one in answer.intervals:
        rows[one.plane].append(one)
    filled = []
    for plane in range(problem.num_planes):
        now, held = Fraction(0), problem.held[plane]
        for one in sorted(rows[plane], key=lambda each: (each.start_s, each.end_s)):
            if one.start_s > now:
                filled.append(Interval(plane, now, one.start_s, Activity.IDLE, held))
            filled.append(one)
            now, held = one.end_s, one.configuration
        if now < answer.total_s:
            filled.append(Interval(plane, now, answer.total_s, Activity.IDLE, held))
    return Timeline.of(filled)


def _in_stretches(problem: PlaneProblem, usage: Usage) -> Timed:
    """Without overlap or without barriers: stretches of steps, a stop before each but the first.

    Changes that no stop is needed for are made by their planes alone.
    """
    changes = changes_of(problem, usage)
    stops, is_exact = [0], True
    if not problem.cost.overlap:
        stops, is_exact = _stops(problem, usage, changes)
    together: defaultdict[int, list[Change]] = defaultdict(list)
    alone: defaultdict[int, list[Change]] = defaultdict(list)
    for one in changes:
        if problem.cost.overlap or not one.circuits:
            alone[one.before].append(one)
        else:
            together[stops[bisect_right(stops, one.before) - 1]].append(one)
    free = [Fraction(0)] * problem.num_planes
    intervals: list[Interval] = []
    served: list[tuple[int, ...]] = []
    for first, last in pairwise([*stops, problem.num_steps]):
        if not problem.cost.overlap:
            intervals += _stop(problem, together[first], free)
        sent, exactly = _shared(problem, usage, first, last, alone)
        is_exact &= exactly
        for step in range(first, last):
            served.append(tuple(sorted(sent[step])))
            for plane, part in sorted(sent[step].items()):
                intervals += _change(alone[step], plane, free)
                length = part * problem.send_s[step] + problem.latency_s
                what = (Activity.SEND, problem.configurations[step], step + 1)
                begin, free[plane] = free[plane], free[plane] + length
                size = part * problem.step_bytes[step]
                intervals.append(Interval(plane, begin, free[plane], *what, size))
            if problem.cost.barrier:
                free[:] = [max(free)] * problem.num_planes
    return Timed(max(free), tuple(served), tuple(intervals), is_exact)


def _shared(
    problem: PlaneProblem, usage: Usage, first: int, last: int, alone: dict[int, list[Change]]
) -> tuple[dict[int, dict[int, Fraction]], bool]:
    """The part of every step of a stretch that each plane sends, and whether that is exact."""
    steps = range(first, last)
    if problem.cost.barrier:
        even = {step: Fraction(1, len(usage[step])) for step in steps}
        return {step: dict.fromkeys(usage[step], even[step]) for step in steps}, True
    parts, is_exact = shares(_stretch(problem, usage, first, last, alone))
    return {step: parts[usage[step]] for step in steps}, is_exact


def _stretch(
    problem: PlaneProblem, usage: Usage, first: int, last: int, alone: dict[int, list[Change]]
) -> Stretch:
    """Steps with what has to be done anyway: latencies, and changes made one by one."""
    loads = [Fraction(0)] * problem.num_planes
    for step in range(first, last):
        for plane in usage[step]:
            loads[plane] += problem.latency_s
        for one in alone.get(step, ()):
            loads[one.plane] += one.dead_time_s
    return Stretch.of(usage[first:last], problem.send_s[first:last], loads)


def _change(changes: Sequence[Change], plane: int, free: list[Fraction]) -> Iterator[Interval]:
    """The change of a plane on its own, as soon as it is free."""
    for one in changes:
        if one.plane == plane:
            begin, free[plane] = free[plane], free[plane] + one.dead_time_s
            yield Interval(plane, begin, free[plane], Activity.RECONFIGURE, one.target)


def _stop(
    problem: PlaneProblem, changes: Sequence[Change], free: list[Fraction]
) -> Iterator[Interval]:
    """The stop of the whole fabric in which these planes change, once everything has arrived."""
    begin = max(free)
    end = begin + problem.cost.dead_time_s(sum(one.circuits for one in changes))
    for one in changes:
        last = end if one.circuits else begin
        yield Interval(one.plane, begin, last, Activity.RECONFIGURE, one.target)
    free[:] = [end] * problem.num_planes


def _stops(
    problem: PlaneProblem, usage: Usage, changes: Sequence[Change]
) -> tuple[list[int], bool]:
    """The steps that stretches begin with, in ascending order, and whether no others are better.

    With barriers only the number of stops counts, and as late as possible is best; without them
    also what lies between two stops, and lists that are not too long are searched.
    """
    dark = [one for one in changes if one.circuits]
    searched = problem.num_steps <= _STOPS_SEARCHED and problem.num_planes <= _PLANES_SEARCHED
    if not problem.cost.barrier and searched:
        return _best_stops(problem, usage, dark), True
    return late_stops(dark), problem.cost.barrier


def _best_stops(problem: PlaneProblem, usage: Usage, changes: Sequence[Change]) -> list[int]:
    """Stops with the least sum of makespans and fixed dead times, one step after the other.

    What changed circuits add is the same wherever planes change, so it decides nothing.
    """
    size, fixed = problem.num_steps, problem.cost.fixed_s
    best: list[tuple[Fraction, list[int]]] = [(Fraction(0), [])]
    for last in range(1, size + 1):
        options = []
        for first in range(last):
            if any(first <= one.after and one.before < last for one in changes):
                continue
            spent, stops = best[first]
            is_dark = first or any(one.after == START and one.before < last for one in changes)
            makespan = makespan_s(_stretch(problem, usage, first, last, {}))
            options.append((spent + fixed * bool(is_dark) + makespan, [*stops, first]))
        best.append(min(options))
    return best[size][1]
