"""Planes that change their circuits one by one: the problem, and the plan that answers it.

A fabric has k planes, and every node has one port of each. Step i of a collective needs
configuration c_i and moves m_i bytes a node, split over planes that hold c_i. Which planes do is a
fact about what every plane **holds**: the configuration that it last changed to, however long ago.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from math import lcm
from operator import index
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.circuits.planes.uses import (
    START,
    ProgramRows,
    Term,
    changes_of,
    checked_usage,
    served_before,
    stops_of,
)
from ocs_codesign.core.circuits import Activity, Interval, PlaneChange, Timeline
from ocs_codesign.core.lp import Options, Status, exact_vertex, solve
from ocs_codesign.core.quantities import exact, exact_time
from ocs_codesign.core.shown import Brief

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ocs_codesign.circuits.change import Change
    from ocs_codesign.core.lp import LinearProgram


MAX_PLANES = 16
MAX_STEPS = 100_000
MAX_CONFIGURATIONS = 1024
MAX_MATRIX = 512
"""Configurations of which every two may differ in another number of circuits."""

Usage = tuple[tuple[int, ...], ...]
"""The planes that serve each step, in ascending order."""

_ROUNDING = Fraction(1, 10**6)
_GIVEN = (
    *("configurations", "step_bytes", "num_planes", "plane_bandwidth_Bps", "cost", "latency_s"),
    *("held", "changed_circuits"),
)


@final
@dataclass(frozen=True, slots=True, init=False)
class PlaneProblem:
    """Steps with the configuration that each needs, planes and what they hold, the cost of change.

    ``configurations[i]`` is the configuration (from 0) that step i needs, ``step_bytes[i]`` what a
    node sends in it. A plane that serves a step is busy for ``latency_s`` + its bytes /
    ``plane_bandwidth_Bps``. ``held[j]`` is what plane j holds at time 0; None: nothing, and its
    first configuration pays dead time if ``cost.cold_start``, else it was made in time.
    ``changed_circuits[a][b]`` circuits change from a to b; the last row, one more than there are
    columns, is for a plane that holds nothing. A whole number instead of a matrix: as many in every
    change. What ``overlap`` and ``barrier`` of the cost mean: a plane changes while others
    send, or the whole fabric stops between two steps and its planes change together; and a step
    begins when the one before has arrived everywhere, or every plane goes on to its next part.
    A plane never profits from a detour, so circuits have to be counted as sets are: no more change
    from a to b than from a over c to b.

    Times are exact: a float is read as the decimal that it prints as. Raises ValueError for
    anything that is no such problem.

    >>> from ocs_codesign.circuits.change import Change
    >>> problem = PlaneProblem((0, 1, 1, 0), (4e6, 2e6, 2e6, 4e6), 2, 50e9,
    ...                        Change(200e-6))
    >>> problem.num_steps, problem.num_configurations, problem.send_s[0]
    (4, 2, Fraction(1, 12500))
    """

    configurations: tuple[int, ...]
    step_bytes: tuple[Fraction, ...]
    num_planes: int
    plane_bandwidth_Bps: Fraction  # noqa: N815 - the unit keeps its case
    cost: Change
    latency_s: Fraction
    held: tuple[int | None, ...]
    num_configurations: int
    changed_circuits: tuple[tuple[int, ...], ...] | int = field(repr=False)
    send_s: tuple[Fraction, ...] = field(repr=False, compare=False)
    """Seconds that one plane alone would send in each step."""

    def __init__(
        self,
        configurations: Sequence[int],
        step_bytes: Sequence[Fraction | float],
        num_planes: int,
        plane_bandwidth_Bps: Fraction | float,  # noqa: N803
        cost: Change,
        *,
        latency_s: Fraction | float = 0,
        held: Sequence[int | None] | None = None,
        changed_circuits: Sequence[Sequence[int]] | int = 1,
    ) -> None:
        if not 1 <= num_planes <= MAX_PLANES:
            raise ValueError(f"{num_planes} planes: there must be 1 to {MAX_PLANES}")
        needed = tuple(index(one) for one in configurations)
        sizes = _sizes(step_bytes, len(needed))
        bandwidth = exact(plane_bandwidth_Bps, "plane_bandwidth_Bps")
        if bandwidth <= 0:
            raise ValueError(f"plane_bandwidth_Bps is {plane_bandwidth_Bps}: it must be positive")
        latency = exact_time(latency_s, "latency_s")
        holding = (None,) * num_planes if held is None else tuple(held)
        if len(holding) != num_planes:
            raise ValueError(f"{len(holding)} held configurations for {num_planes} planes")
        known = [*needed, *(one for one in holding if one is not None)]
        circuits = _circuits(changed_circuits)
        number = max(known) + 1 if isinstance(circuits, int) else len(circuits[0])
        _check_indices(needed, holding, number)
        send = tuple(size / bandwidth for size in sizes)
        values = (needed, sizes, num_planes, bandwidth, cost, latency, holding, number, circuits)
        for name, value in zip(self.__slots__, (*values, send), strict=True):
            object.__setattr__(self, name, value)

    @property
    def num_steps(self) -> int:
        """How many steps there are."""
        return len(self.configurations)

    def part(self, first: int, last: int) -> PlaneProblem:
        """The same planes with the steps ``first`` to ``last`` alone (from 0, end excluded)."""
        configurations = self.configurations[first:last]
        return self._with(configurations=configurations, step_bytes=self.step_bytes[first:last])

    def with_cost(self, cost: Change) -> PlaneProblem:
        """The same problem at another cost of change."""
        return self._with(cost=cost)

    def _with(self, **changed: Any) -> PlaneProblem:
        return PlaneProblem(**{name: getattr(self, name) for name in _GIVEN} | changed)

    def circuits_changed(self, held: int | None, target: int) -> int:
        """Circuits that change when a plane goes from what it holds to another configuration.

        None do where a plane that holds nothing was made in time.
        """
        if held == target or (held is None and not self.cost.cold_start):
            return 0
        if isinstance(self.changed_circuits, int):
            return self.changed_circuits
        return self.changed_circuits[-1 if held is None else held][target]

    def dead_time_s(self, held: int | None, target: int) -> Fraction:
        """Seconds without light when a plane changes on its own; 0 if it was made in time."""
        return self.cost.dead_time_s(self.circuits_changed(held, target))


@final
@dataclass(frozen=True, slots=True, repr=False)
class PlanePlan(Brief):
    """How the planes serve the steps in ``total_s`` seconds, and the least that is proven.

    ``usage[i]`` are the planes that serve step i. No plan takes less than ``lower_bound_s``;
    ``status`` says in a sentence how that is known. The timeline has been checked.
    """

    problem: PlaneProblem = field(repr=False)
    total_s: Fraction
    lower_bound_s: Fraction
    method: str
    status: str
    usage: Usage = field(repr=False)
    timeline: Timeline = field(repr=False)

    @property
    def gap(self) -> Fraction:
        """By what part of itself the total may be above the least."""
        return 1 - self.lower_bound_s / self.total_s

    @property
    def is_optimal(self) -> bool:
        """Whether no plan is faster but for a 1e-6 part, the tolerance of solvers."""
        return self.gap <= _ROUNDING


def _sizes(step_bytes: Sequence[Fraction | float], num_steps: int) -> tuple[Fraction, ...]:
    """The bytes of the steps, checked."""
    if not 1 <= num_steps <= MAX_STEPS:
        raise ValueError(f"{num_steps} steps: there must be 1 to {MAX_STEPS}")
    if len(step_bytes) != num_steps:
        raise ValueError(f"{num_steps} configurations for {len(step_bytes)} sizes of steps")
    sizes = tuple(exact(size, f"bytes of step {i}") for i, size in enumerate(step_bytes, 1))
    for i, size in enumerate(sizes, 1):
        if size <= 0:
            raise ValueError(f"step {i} moves {step_bytes[i - 1]} bytes: it must be more than 0")
    return sizes


def _circuits(changed: Sequence[Sequence[int]] | int) -> tuple[tuple[int, ...], ...] | int:
    """The matrix of changed circuits, or the number that they all are, checked."""
    if isinstance(changed, int):
        if changed < 1:
            raise ValueError(f"{changed} circuits change in a change: it must be at least 1")
        return changed
    size = len(changed[0]) if len(changed) else 0
    if not 1 <= size <= MAX_MATRIX:
        raise ValueError(f"a matrix for {size} configurations: there must be 1 to {MAX_MATRIX}")
    if len(changed) != size + 1 or any(len(row) != size for row in changed):
        raise ValueError(
            f"the matrix of changed circuits has {len(changed)} rows for {size} configurations: "
            "it needs one for each and a last one for a plane that holds nothing, all as long"
        )
    matrix = tuple(tuple(index(entry) for entry in row) for row in changed)
    _check_triangles(matrix)
    return matrix


def _check_indices(needed: Sequence[int], held: Sequence[int | None], size: int) -> None:
    if size > MAX_CONFIGURATIONS:
        raise ValueError(
            f"configuration {size - 1}: at most {MAX_CONFIGURATIONS}, from 0, are known"
        )
    for i, one in enumerate(needed, 1):
        if not 0 <= one < size:
            raise ValueError(f"step {i} needs configuration {one}: there are {size}, from 0")
    for plane, holds in enumerate(held):
        if holds is not None and not 0 <= holds < size:
            raise ValueError(f"plane {plane} holds configuration {holds}: there are {size}, from 0")


def _check_triangles(matrix: tuple[tuple[int, ...], ...]) -> None:
    import numpy as np

    changed = np.array(matrix, dtype=np.int64)
    size = changed.shape[1]
    if changed.min() < 0 or np.diagonal(changed).any():
        raise ValueError("changed circuits are counts, and none from a configuration to itself")
    for over in range(size):
        longer = changed[:, over, None] + changed[over]
        a, b = np.unravel_index(int((changed - longer).argmax()), changed.shape)
        if changed[a, b] > longer[a, b]:
            start = "nothing" if a == size else f"configuration {a}"
            raise ValueError(
                f"{changed[a, b]} circuits change from {start} to {b}, but {longer[a, b]} over "
                f"{over}: no count of circuits is like that"
            )


# The best times of a usage: who sends how much of every step, and when all that happens.
#
# Steps come in groups: within a group every plane goes on to its next step as soon as it can, and
# all planes wait for each other between two groups. With barriers a group is a step; where the
# whole fabric stops for changes it is what lies between two stops; otherwise all steps are one
# group. With d the time of a group, and a change of dead time D between steps of the groups p and
# q, which may begin early, by lam before the end of p, and end late, by tau after the beginning
# of q:
#
#     minimise sum d
#     lam + tau + sum of d between p and q  >=  D                    every change between groups
#     d - lam - tau - sends  >=  latencies and changes in the group  every plane in a group
#     sum of sends  >=  what these planes serve in the group         every set of planes in a group
#
# This is a linear program in the data of the problem, so it has an exact optimum in rationals.
# Then all planes do what they do as early as they can.


_EXACT_ROWS = 1500
_EXACT_FLOATS = 2**52
_GRID_BITS = 40

Shares = list[dict[int, Fraction]]
"""The seconds that each plane sends in every step."""


def timed(
    problem: PlaneProblem,
    usage: Sequence[Sequence[int]],
    lower_bound_s: Fraction | None = Fraction(0),
    status: str = "usage as given",
) -> PlanePlan:
    """The best times of a usage; for very long ones the best within rounding.

    Planes that would send nothing in a step are taken out of it. A bound of None is the total
    itself: the usage is optimal. Raises ValueError unless some plane of the problem serves every
    step.
    """
    checked = checked_usage(problem, usage)
    while True:
        groups = _Groups.of(problem, checked)
        shares = _shares(groups)
        served = tuple(tuple(plane for plane in part if part[plane] > 0) for part in shares)
        if served == checked:
            total_s, timeline = _timed(groups, shares)
            bound_s = total_s if lower_bound_s is None else min(lower_bound_s, total_s)
            bound_s = max(Fraction(0), bound_s)
            return PlanePlan(problem, total_s, bound_s, "given", status, served, timeline)
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
        alone = {(change.step - 1, change.plane): change for change in changes}
        stops: defaultdict[int, list[PlaneChange]] = defaultdict(list)
        if not problem.cost.overlap:
            first = stops_of(problem, usage, changes)
            for change in changes:
                if change.num_circuits:
                    stop = first[bisect_right(first, change.step - 1) - 1]
                    stops[stop].append(alone.pop((change.step - 1, change.plane)))
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
            dead_s = problem.cost.dead_time_s(change.num_circuits) if change else Fraction(0)
            if change is None or not dead_s:
                continue
            served = served_before(change)
            if served < starts[group] and problem.cost.barrier:
                ends = [at for at in (served, step) if at != START]
                parts = [(rows.column(), 1.0) for _ in ends]
                for at, (part, _) in zip(ends, parts, strict=True):
                    busy[at, plane].append((part, -1.0))
                between = times[served + 1 : step]
                rows.row([*parts, *((time, 1.0) for time in between)])
                least.append(dead_s)
            else:
                loads[group, plane] += dead_s
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


def _timed(groups: _Groups, shares: Shares) -> tuple[Fraction, Timeline]:
    """By when all is done, and all that planes do, as early as they can."""
    problem = groups.problem
    now, free = Fraction(0), [Fraction(0)] * problem.num_planes
    rows: list[Interval] = []
    for step, (sends, configuration) in enumerate(zip(shares, problem.configurations, strict=True)):
        if step in groups.stops:
            begin, changes = max(free), groups.stops[step]
            now = begin + problem.cost.dead_time_s(sum(change.num_circuits for change in changes))
            made = [(change.plane, problem.configurations[change.step - 1]) for change in changes]
            rows += [Interval(at, begin, now, Activity.RECONFIGURE, to) for at, to in made]
            free = [now] * problem.num_planes
        for plane, sent in sends.items():
            begin = free[plane]
            if (step, plane) in groups.alone:
                free[plane] += problem.cost.dead_time_s(groups.alone[step, plane].num_circuits)
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
    return max(free), Timeline.of(_with_idle(problem, rows, max(free)))


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
