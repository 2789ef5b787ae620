"""The best times of a usage: who sends how much of every step, and when all that happens.

Steps come in groups: within a group every plane goes on to its next step as soon as it can, and
all planes wait for each other between two groups. With barriers a group is a step; where the whole
fabric stops for changes it is what lies between two stops; otherwise all steps are one group. With
d the time of a group, and a change of dead time D between steps of the groups p and q, which may
begin early, by lam before the end of p, and end late, by tau after the beginning of q:

    minimise sum d
    lam + tau + sum of d between p and q  >=  D                    every change between groups
    d - lam - tau - sends  >=  latencies and changes in the group  every plane in a group
    sum of sends  >=  what these planes serve in the group         every set of planes in a group

This is a linear program in the data of the problem, so it has an exact optimum in rationals. Then
all planes do what they do as early as they can.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from math import lcm
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.lp import Options, Status, exact_vertex, solve
from ocs_codesign.reconfigure.planes.loads import stops_of
from ocs_codesign.reconfigure.planes.rows import ProgramRows, Term
from ocs_codesign.reconfigure.planes.uses import START, PlaneChange, changes_of, checked_usage
from ocs_codesign.timeline import Activity, Interval, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ocs_codesign.lp import LinearProgram
    from ocs_codesign.reconfigure.planes.problem import PlaneProblem, Usage

_EXACT_ROWS = 1500
_EXACT_FLOATS = 2**52
_GRID_BITS = 40

Shares = list[dict[int, Fraction]]
"""The seconds that each plane sends in every step."""


@final
@dataclass(frozen=True, slots=True)
class TimedUsage:
    """What planes do for a usage, and by when all is done.

    ``usage`` is what the timeline serves: planes that would send nothing in a step are taken out.
    """

    total_s: Fraction
    usage: Usage
    timeline: Timeline


def timed(problem: PlaneProblem, usage: Sequence[Sequence[int]]) -> TimedUsage:
    """The best times of a usage; for very long ones the best within rounding.

    Raises ValueError unless some plane of the problem serves every step.

    >>> from ocs_codesign.reconfigure.planes.problem import PlaneProblem
    >>> from ocs_codesign.reconfigure.change import ReconfigurationCost
    >>> problem = PlaneProblem((0, 1, 1), (10, 1, 10), 2, 50, ReconfigurationCost(Fraction(1, 5)))
    >>> timed(problem, ((0, 1), (0, 1), (0, 1))).total_s
    Fraction(61, 100)
    >>> cost = ReconfigurationCost(2, overlap=False)
    >>> problem = PlaneProblem((0, 1, 0), (6, 6, 6), 2, 1, cost)
    >>> [timed(problem, usage).total_s for usage in (((0,), (1,), (0,)), ((0, 1),) * 3)]
    [Fraction(20, 1), Fraction(15, 1)]
    """
    checked = checked_usage(problem, usage)
    while True:
        groups = _Groups.of(problem, checked)
        shares = _shares(groups)
        served = tuple(tuple(plane for plane in part if part[plane] > 0) for part in shares)
        if served == checked:
            return _timed(groups, shares)
        checked = served


@final
@dataclass(frozen=True, slots=True)
class _Groups:
    """A usage with its steps in groups, by the step that they begin with, and at last their end.

    Changes are made by planes ``alone``, by step and plane, or in the stop before a step.
    """

    problem: PlaneProblem
    usage: Usage
    first: list[int]
    alone: dict[tuple[int, int], PlaneChange]
    stops: dict[int, list[PlaneChange]]

    @classmethod
    def of(cls, problem: PlaneProblem, usage: Usage) -> _Groups:
        """The groups that the rules of the fabric make."""
        changes, first = changes_of(problem, usage), [0]
        alone = {(change.before, change.plane): change for change in changes}
        stops: defaultdict[int, list[PlaneChange]] = defaultdict(list)
        if not problem.cost.overlap:
            first = stops_of(problem, usage, changes)
            for change in changes:
                if change.circuits:
                    stop = first[bisect_right(first, change.before) - 1]
                    stops[stop].append(alone.pop((change.before, change.plane)))
        if problem.cost.barrier:
            first = list(range(problem.num_steps))
        return cls(problem, usage, [*first, problem.num_steps], alone, stops)


def _shares(groups: _Groups) -> Shares:
    """What every plane sends in every step: even shares if a stop and a barrier part all steps."""
    problem, usage = groups.problem, groups.usage
    if problem.cost.barrier and not problem.cost.overlap:
        return [
            dict.fromkeys(planes, send / len(planes))
            for planes, send in zip(usage, problem.send_s, strict=True)
        ]
    rows, least, columns = _program(groups)
    values = _solved(rows.program(), least)
    shares: Shares = []
    for first, last in pairwise(groups.first):
        sends = {}
        for planes in {*usage[first:last]}:
            mine = [step for step in range(first, last) if usage[step] == planes]
            total = sum((problem.send_s[step] for step in mine), Fraction(0))
            given = {plane: values[columns[first, planes, plane]] for plane in planes}
            sends[planes] = {plane: sent / total for plane, sent in _fitted(given, total).items()}
        shares += [
            {plane: part * problem.send_s[step] for plane, part in sends[usage[step]].items()}
            for step in range(first, last)
        ]
    return shares


def _fitted(sends: dict[int, Fraction], total: Fraction) -> dict[int, Fraction]:
    """The sends, of which the largest are so much larger or smaller that their sum is right."""
    missing = total - sum(sends.values())
    for plane in sorted(sends, key=lambda plane: (-sends[plane], plane)):
        sent = max(Fraction(0), sends[plane] + missing)
        missing -= sent - sends[plane]
        sends[plane] = sent
    return sends


def _program(
    groups: _Groups,
) -> tuple[ProgramRows, list[Fraction], dict[tuple[int, tuple[int, ...], int], int]]:
    """The program, the right sides of its rows, and the columns of sends by group and planes."""
    problem, usage, starts = groups.problem, groups.usage, groups.first
    rows, least = ProgramRows(), []
    times = [rows.column(cost=1.0) for _ in starts[:-1]]
    columns = {}
    busy: defaultdict[tuple[int, int], list[Term]] = defaultdict(list)
    loads: defaultdict[tuple[int, int], Fraction] = defaultdict(Fraction)
    sends: defaultdict[tuple[int, tuple[int, ...]], Fraction] = defaultdict(Fraction)
    group = 0
    for step, planes in enumerate(usage):
        group += step == starts[group + 1]
        sends[group, planes] += problem.send_s[step]
        for plane in planes:
            loads[group, plane] += problem.latency_s
            change = groups.alone.get((step, plane))
            if change is None or not change.dead_time_s:
                continue
            if change.after < starts[group] and problem.cost.barrier:
                ends = [at for at in (change.after, step) if at != START]
                parts = [(rows.column(), 1.0) for _ in ends]
                for at, (part, _) in zip(ends, parts, strict=True):
                    busy[at, plane].append((part, -1.0))
                between = times[change.after + 1 : step]
                rows.row([*parts, *((time, 1.0) for time in between)])
                least.append(change.dead_time_s)
            else:
                loads[group, plane] += change.dead_time_s
    for (group, planes), send in sends.items():
        sent = {plane: rows.column() for plane in planes}
        rows.row([(column, 1.0) for column in sent.values()])
        least.append(send)
        for plane, column in sent.items():
            columns[starts[group], planes, plane] = column
            busy[group, plane].append((column, -1.0))
    for (group, plane), load in loads.items():
        rows.row([(times[group], 1.0), *busy[group, plane]])
        least.append(load)
    return rows, least, columns


def _solved(program: LinearProgram, least: list[Fraction]) -> list[Fraction]:
    """The values of all columns where rows are at least so much, exact or on a fine grid."""

    def scaled(unit: Fraction) -> LinearProgram:
        return replace(program, row_lower=np.array([float(side / unit) for side in least]))

    largest, small = max(least), len(least) <= _EXACT_ROWS
    unit = Fraction(1, lcm(*(side.denominator for side in least)))
    found = solve(scaled(largest), options=Options("simplex") if small else None)
    if found.status is not Status.OPTIMAL or found.values is None:
        raise RuntimeError(found.message)
    # The basis is found where numbers are near 1, and holds for the same program in units.
    if small and largest / unit <= _EXACT_FLOATS:
        exact = exact_vertex(scaled(unit), found)
        if exact is not None:
            return [value * unit for value in exact.values]
    grid = unit / 2 ** max(0, _GRID_BITS - int(largest / unit).bit_length())
    scale = float(largest / grid)
    return [grid * max(0, int(value * scale)) for value in found.values.tolist()]


def _timed(groups: _Groups, shares: Shares) -> TimedUsage:
    """All that planes do, as early as they can."""
    problem = groups.problem
    now, free = Fraction(0), [Fraction(0)] * problem.num_planes
    rows: list[Interval] = []
    for step, (sends, configuration) in enumerate(zip(shares, problem.configurations, strict=True)):
        if step in groups.stops:
            begin, changes = max(free), groups.stops[step]
            now = begin + problem.cost.dead_time_s(sum(change.circuits for change in changes))
            rows += [
                Interval(change.plane, begin, now, Activity.RECONFIGURE, change.target)
                for change in changes
            ]
            free = [now] * problem.num_planes
        for plane, sent in sends.items():
            begin = free[plane]
            if (step, plane) in groups.alone:
                free[plane] += groups.alone[step, plane].dead_time_s
                what = (Activity.RECONFIGURE, configuration)
                rows.append(Interval(plane, begin, free[plane], *what))
            begin = max(now, free[plane])
            free[plane] = begin + problem.latency_s + sent
            size = sent * problem.plane_bandwidth_Bps
            rows.append(
                Interval(plane, begin, free[plane], Activity.SEND, configuration, step + 1, size)
            )
        if problem.cost.barrier:
            now = max(now, *(free[plane] for plane in sends))
    usage = tuple(tuple(sends) for sends in shares)
    return TimedUsage(max(free), usage, Timeline.of(_with_idle(problem, rows, max(free))))


def _with_idle(
    problem: PlaneProblem, rows: list[Interval], total_s: Fraction
) -> Iterator[Interval]:
    """The intervals with idle ones between them, so that every plane's row is without gaps."""
    free, held = [Fraction(0)] * problem.num_planes, list(problem.held)
    for row in rows:
        if row.start_s > free[row.plane]:
            yield Interval(row.plane, free[row.plane], row.start_s, Activity.IDLE, held[row.plane])
        yield row
        free[row.plane], held[row.plane] = row.end_s, row.configuration
    for plane, since in enumerate(free):
        if since < total_s:
            yield Interval(plane, since, total_s, Activity.IDLE, held[plane])
