"""The mixed-integer program of planes one by one, for every kind of fabric.

Plane j walks over the steps that it serves: z[p, q, j] = 1 if it serves step p and then, next, step
q, holding the configuration of p until it changes. With y[i, j] = 1 if it serves step i, where it
sends for x[i, j] seconds:

* overlap and barriers, d_i the time of step i: what a plane does from the step a that it serves to
  the step b, sends, latencies and changes, takes at most d_a + ... + d_b;
* overlap without barriers: all that a plane does takes at most T;
* without overlap, s_i = 1 if the fabric stops before step i: a plane that changes between p and q
  needs a stop in between, and every stop takes time, as do all circuits that change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from ocs_codesign.reconfigure.planes.rows import ProgramRows
from ocs_codesign.reconfigure.planes.uses import START

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ocs_codesign.lp import LinearProgram
    from ocs_codesign.reconfigure.planes.problem import PlaneProblem, Usage
    from ocs_codesign.reconfigure.planes.rows import Term


@final
@dataclass(frozen=True, slots=True)
class PathProgram:
    """The program; ``serves[i][j]`` is the column of y, ``sends[i][j]`` that of x."""

    program: LinearProgram
    serves: tuple[tuple[int, ...], ...]
    sends: tuple[tuple[int, ...], ...]


class _Walks:
    """Columns of the walks of all planes, and the rows that make walks of them."""

    def __init__(self, problem: PlaneProblem, unit: float) -> None:
        self.problem, self.unit, self.rows = problem, unit, ProgramRows()
        self.send = [float(send) / unit for send in problem.send_s]
        self.latency = float(problem.latency_s) / unit
        steps, planes = range(problem.num_steps), range(problem.num_planes)
        self.serves = [[self.rows.column(upper=1.0, integer=True) for _ in planes] for _ in steps]
        self.sends = [[self.rows.column(upper=send) for _ in planes] for send in self.send]
        self.arcs: list[dict[tuple[int, int], int]] = [self._walk(plane) for plane in planes]
        for step, send in enumerate(self.send):
            parts = [(one, 1.0) for one in self.sends[step]]
            self.rows.row(parts, lower=send, upper=send)
            self.rows.row([(one, 1.0) for one in self.serves[step]], lower=1.0)
            for serves, sends in zip(self.serves[step], self.sends[step], strict=True):
                self.rows.row([(sends, 1.0), (serves, -send)], upper=0.0)
        self._break_symmetry()

    def _walk(self, plane: int) -> dict[tuple[int, int], int]:
        """The arcs of a plane from START over its uses to the end."""
        steps = self.problem.num_steps
        arcs = {
            (tail, head): self.rows.column(upper=1.0, integer=True)
            for tail in range(START, steps)
            for head in range(tail + 1, steps + 1)
        }
        self.rows.row([(arcs[START, head], 1.0) for head in range(steps + 1)], lower=1.0, upper=1.0)
        for step in range(steps):
            use = (self.serves[step][plane], -1.0)
            into = [(arcs[tail, step], 1.0) for tail in range(START, step)]
            out = [(arcs[step, head], 1.0) for head in range(step + 1, steps + 1)]
            self.rows.row([*into, use], lower=0.0, upper=0.0)
            self.rows.row([*out, use], lower=0.0, upper=0.0)
        return arcs

    def _break_symmetry(self) -> None:
        """Of planes that hold the same at first, the one that serves earlier steps comes first."""
        for plane in range(1, self.problem.num_planes):
            if self.problem.held[plane] == self.problem.held[plane - 1]:
                steps = range(min(self.problem.num_steps, 10))
                first = [(self.serves[step][plane - 1], 0.5**step) for step in steps]
                second = [(self.serves[step][plane], -(0.5**step)) for step in steps]
                self.rows.row([*first, *second], lower=0.0)

    def circuits(self, plane: int, tail: int, head: int) -> int:
        """Circuits that a plane changes on an arc; none at the end, and if it was made in time."""
        problem = self.problem
        if head == problem.num_steps:
            return 0
        held = problem.held[plane] if tail == START else problem.configurations[tail]
        if held is None and not problem.cost.cold_start:
            return 0
        return problem.circuits_changed(held, problem.configurations[head])

    def dead(self, plane: int, tail: int, head: int) -> float:
        """Dead time of a plane on an arc."""
        cost = self.problem.cost
        return float(cost.dead_time_s(self.circuits(plane, tail, head))) / self.unit

    def busy(self, plane: int, first: int, last: int) -> list[Term]:
        """What a plane does in the steps first to last that it serves."""
        steps = range(max(first, 0), last + 1)
        terms: list[Term] = [(self.sends[step][plane], 1.0) for step in steps]
        if self.latency:
            terms += [(self.serves[step][plane], self.latency) for step in steps]
        return terms

    def changes(self, plane: int, first: int, last: int) -> list[Term]:
        """Dead times of the arcs of a plane within the steps first to last."""
        return [
            (column, self.dead(plane, tail, head))
            for (tail, head), column in self.arcs[plane].items()
            if first <= tail and head <= last and self.circuits(plane, tail, head)
        ]


def path_program(problem: PlaneProblem, unit: float, cap: float) -> PathProgram:
    """The program in units of so many seconds; no total is above ``cap`` units."""
    walks = _Walks(problem, unit)
    if not problem.cost.overlap:
        _add_stops(walks, cap)
    elif problem.cost.barrier:
        durations = _durations(walks, cap, cost=1.0)
        for plane in range(problem.num_planes):
            for first in (START, *range(1, problem.num_steps)):
                for last in range(max(first, 0), problem.num_steps):
                    time = [(one, -1.0) for one in durations[max(first, 0) : last + 1]]
                    terms = walks.busy(plane, first, last) + walks.changes(plane, first, last)
                    walks.rows.row([*terms, *time], upper=0.0)
    else:
        end = walks.rows.column(cost=1.0, upper=cap)
        last = problem.num_steps - 1
        for plane in range(problem.num_planes):
            terms = walks.busy(plane, START, last) + walks.changes(plane, START, last)
            walks.rows.row([*terms, (end, -1.0)], upper=0.0)
    return PathProgram(
        walks.rows.program(), tuple(map(tuple, walks.serves)), tuple(map(tuple, walks.sends))
    )


def usage_of(found: PathProgram, values: NDArray[np.float64]) -> Usage:
    """The planes that send something in each step."""
    return tuple(
        tuple(
            plane
            for plane, (serve, send) in enumerate(zip(serves, sends, strict=True))
            if values[serve] > 0.5 and values[send] > 1e-9
        )
        for serves, sends in zip(found.serves, found.sends, strict=True)
    )


def _durations(walks: _Walks, cap: float, cost: float) -> list[int]:
    """A column d_i a step, at least what n planes take if n serve it."""
    rows, planes = walks.rows, walks.problem.num_planes
    durations = []
    for step, send in enumerate(walks.send):
        durations.append(rows.column(cost=cost))
        counts = [rows.column(upper=1.0) for _ in range(planes)]
        rows.row([(one, 1.0) for one in counts], lower=1.0, upper=1.0)
        number = [(one, -float(at)) for at, one in enumerate(counts, 1)]
        rows.row([*((one, 1.0) for one in walks.serves[step]), *number], lower=0.0, upper=0.0)
        least = [(one, -send / at - walks.latency) for at, one in enumerate(counts, 1)]
        rows.row([(durations[-1], 1.0), *least], lower=0.0)
    rows.row([(one, 1.0) for one in durations], upper=cap)
    return durations


def _add_stops(walks: _Walks, cap: float) -> None:
    """Stops, and steps between them with barriers or without."""
    problem, rows = walks.problem, walks.rows
    planes, steps = range(problem.num_planes), range(problem.num_steps)
    fixed, each = (
        float(time) / walks.unit for time in (problem.cost.fixed_s, problem.cost.per_circuit_s)
    )
    stops = [rows.column(upper=1.0, integer=True) for _ in steps]
    dark: list[Term] = [(stop, fixed) for stop in stops]
    for plane in planes:
        for (tail, head), column in walks.arcs[plane].items():
            circuits = walks.circuits(plane, tail, head)
            if circuits:
                between = [(stop, 1.0) for stop in stops[tail + 1 : head + 1]]
                rows.row([*between, (column, -1.0)], lower=0.0)
                dark.append((column, each * circuits))
    if problem.cost.barrier:
        durations = _durations(walks, cap, cost=0.0)
        for step in steps:
            for plane in planes:
                busy = walks.busy(plane, step, step)
                rows.row([*busy, (durations[step], -1.0)], upper=0.0)
        time: list[Term] = [(one, 1.0) for one in durations]
    else:
        time = _add_stretches(walks, stops, cap)
    end = rows.column(cost=1.0, upper=cap)
    rows.row([*time, *dark, (end, -1.0)], upper=0.0)


def _add_stretches(walks: _Walks, stops: list[int], cap: float) -> list[Term]:
    """Without barriers only a stop holds planes up; returns the column of when all is done.

    ``begin`` of a step is when the last stop before it was over, all stops taking no time here.
    """
    rows, last = walks.rows, [-1] * walks.problem.num_planes
    begin = rows.column(upper=0.0)
    for step, stop in enumerate(stops):
        before, begin = begin, rows.column(upper=cap)
        rows.row([(begin, 1.0), (before, -1.0)], lower=0.0)
        for plane, free in enumerate(last):
            end = rows.column(upper=cap)
            minus = [(column, -value) for column, value in walks.busy(plane, step, step)]
            rows.row([(end, 1.0), (begin, -1.0), *minus], lower=0.0)
            if free >= 0:
                rows.row([(end, 1.0), (free, -1.0), *minus], lower=0.0)
                rows.row([(begin, 1.0), (free, -1.0), (stop, -cap)], lower=-cap)
            last[plane] = end
    done = rows.column(upper=cap)
    for end in last:
        rows.row([(done, 1.0), (end, -1.0)], lower=0.0)
    return [(done, 1.0)]
