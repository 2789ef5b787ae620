"""The best times of a usage with barriers, when planes change while others send.

Let step i last d_i seconds and n_i planes serve it. A change of dead time D between steps p and q
may begin early, by lam before the end of p, and end late, by tau after the beginning of q:

    minimise sum d_i
    n_i d_i - sum lam - sum tau  >=  send_i + n_i latency     the work of step i
    lam + tau + sum of d_i, p < i < q  >=  D                  every change
    d_i - lam - tau  >=  latency                              every plane that serves step i

This is a linear program in the data of the problem, so it has an exact optimum in rationals. There
is more time than work only where a plane that serves a step has nothing to send.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING, final

from ocs_codesign.lp import ExactSolution, Options, Status, refine, solve
from ocs_codesign.reconfigure.planes.rows import ProgramRows
from ocs_codesign.reconfigure.planes.timeline import Activity, Interval
from ocs_codesign.reconfigure.planes.uses import START, Change, changes_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ocs_codesign.lp import LinearProgram
    from ocs_codesign.reconfigure.planes.problem import PlaneProblem, Usage

_EXACT_ROWS = 1500
_EXACT_FLOATS = 2**52
_GRID_BITS = 40


@final
@dataclass(frozen=True, slots=True)
class Timed:
    """What planes do for a usage, and by when all is done.

    ``usage`` is what the intervals serve: planes that would send nothing in a step are taken out of
    it. ``is_exact``: no times of it are better; otherwise they are best within rounding.
    """

    total_s: Fraction
    usage: Usage
    intervals: tuple[Interval, ...]
    is_exact: bool


def timed_with_barriers(problem: PlaneProblem, usage: Usage) -> Timed:
    """The best times of a usage with overlap and barriers.

    >>> from ocs_codesign.reconfigure import PlaneProblem, ReconfigurationCost
    >>> cost = ReconfigurationCost(Fraction(1, 5))
    >>> problem = PlaneProblem((0, 1, 1), (10, 1, 10), 2, 50, cost)
    >>> timed_with_barriers(problem, ((0, 1), (0, 1), (0, 1))).total_s
    Fraction(61, 100)
    """
    while True:
        changes = changes_of(problem, usage)
        times = [*problem.send_s, problem.latency_s, *(one.dead_time_s for one in changes)]
        unit = Fraction(1, lcm(*(time.denominator for time in times)))
        early = _early_exactly(problem, usage, changes, unit, max(times))
        grid = None
        if early is None:
            bits = max(0, _GRID_BITS - int(max(times) / unit).bit_length())
            grid = unit / 2**bits
            early = _early_nearly(problem, usage, changes, grid, max(times))
        timed = _replayed(problem, usage, dict(zip(changes, early, strict=True)), grid)
        if timed.usage == usage:
            return timed
        usage = timed.usage


def _early_exactly(
    problem: PlaneProblem,
    usage: Usage,
    changes: Sequence[Change],
    unit: Fraction,
    largest: Fraction,
) -> list[Fraction] | None:
    """By how much every change begins before the end of the step before it; None if too large."""
    if not changes:
        return []
    program = _program(problem, usage, changes, unit)
    if program.num_rows > _EXACT_ROWS or largest / unit > _EXACT_FLOATS:
        return None
    # The basis is found where numbers are near 1, and holds for the same program in units.
    found = solve(_program(problem, usage, changes, largest), options=Options("simplex"))
    exact = refine(program, found)
    if not isinstance(exact, ExactSolution):
        return None
    first = problem.num_steps
    return [exact.values[first + 2 * at] * unit for at in range(len(changes))]


def _early_nearly(
    problem: PlaneProblem,
    usage: Usage,
    changes: Sequence[Change],
    grid: Fraction,
    largest: Fraction,
) -> list[Fraction]:
    """The same from floats, in multiples of the grid."""
    found = solve(_program(problem, usage, changes, largest))
    if found.status is not Status.OPTIMAL or found.values is None:
        raise RuntimeError(found.message)
    scale, first = float(largest / grid), problem.num_steps
    values = found.values[first::2][: len(changes)].tolist()
    return [grid * max(0, int(value * scale)) for value in values]


def _program(
    problem: PlaneProblem, usage: Usage, changes: Sequence[Change], unit: Fraction
) -> LinearProgram:
    """Columns: d of every step, then lam and tau of every change; times in units."""
    rows = ProgramRows()
    durations = [rows.column(cost=1.0) for _ in usage]
    latency = float(problem.latency_s / unit)
    leaving: dict[tuple[int, int], int] = {}
    arriving: dict[tuple[int, int], int] = {}
    for one in changes:
        early = rows.column(upper=0.0 if one.after == START else float("inf"))
        late = rows.column()
        if one.after != START:
            leaving[one.after, one.plane] = early
        arriving[one.before, one.plane] = late
        between = [(durations[step], 1.0) for step in range(one.after + 1, one.before)]
        rows.row([(early, 1.0), (late, 1.0), *between], lower=float(one.dead_time_s / unit))
    for step, planes in enumerate(usage):
        work = [(durations[step], float(len(planes)))]
        for plane in planes:
            lost = [
                (columns[step, plane], -1.0)
                for columns in (leaving, arriving)
                if (step, plane) in columns
            ]
            work += lost
            if lost:
                rows.row([(durations[step], 1.0), *lost], lower=latency)
        total = float(problem.send_s[step] / unit) + len(planes) * latency
        rows.row(work, lower=total)
    return rows.program()


def _replayed(
    problem: PlaneProblem, usage: Usage, early: dict[Change, Fraction], grid: Fraction | None
) -> Timed:
    """Step by step: every plane sends from when it can until it leaves, early if it is to.

    On a grid all planes but one end on it, so that denominators do not grow with the steps.
    """
    arriving = {(one.before, one.plane): one for one in early}
    leaves = {(one.after, one.plane): ahead for one, ahead in early.items()}
    latency, free = problem.latency_s, [Fraction(0)] * problem.num_planes
    intervals: list[Interval] = []
    served: list[tuple[int, ...]] = []
    now = Fraction(0)
    for step, (planes, send) in enumerate(zip(usage, problem.send_s, strict=True)):
        begin = {}
        for plane in planes:
            change = arriving.get((step, plane))
            ready = now
            if change is not None:
                up = free[plane] + change.dead_time_s
                dark = Interval(plane, free[plane], up, Activity.RECONFIGURE, change.target)
                intervals.append(dark)
                ready = max(now, up)
            begin[plane] = ready
        end = _ends(begin, send, latency, {plane: leaves.get((step, plane)) for plane in planes})
        end = _on_grid(begin, end, send, latency, grid)
        served.append(tuple(plane for plane in planes if end[plane] > begin[plane] + latency))
        for plane in served[-1]:
            size = (end[plane] - begin[plane] - latency) * problem.plane_bandwidth_Bps
            what = (Activity.SEND, problem.configurations[step], step + 1, size)
            intervals.append(Interval(plane, begin[plane], end[plane], *what))
            free[plane] = end[plane]
        now = max(end.values())
    return Timed(now, tuple(served), tuple(intervals), grid is None)


def _ends(
    begin: dict[int, Fraction],
    send: Fraction,
    latency: Fraction,
    early: dict[int, Fraction | None],
) -> dict[int, Fraction]:
    """When every plane ends its part: together, but for those that are to leave earlier."""
    ahead = {plane: early[plane] or Fraction(0) for plane in begin}
    total = send + sum(begin.values()) + sum(ahead.values()) + len(begin) * latency
    last = total / len(begin)
    return {plane: last - ahead[plane] for plane in begin}


def _on_grid(
    begin: dict[int, Fraction],
    end: dict[int, Fraction],
    send: Fraction,
    latency: Fraction,
    grid: Fraction | None,
) -> dict[int, Fraction]:
    """The same ends, on the grid but for the plane that sends most: it sends what is left."""
    if grid is None:
        return end
    most = max(begin, key=lambda plane: (end[plane] - begin[plane], -plane))
    rounded = {plane: max(grid * (end[plane] // grid), begin[plane] + latency) for plane in begin}
    others = sum(rounded[plane] - begin[plane] - latency for plane in begin if plane != most)
    rounded[most] = begin[most] + latency + send - others
    return rounded
