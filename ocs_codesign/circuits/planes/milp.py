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

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ocs_codesign.circuits.planes.problem import timed
from ocs_codesign.circuits.planes.uses import START, ProgramRows
from ocs_codesign.core.lp import solve

if TYPE_CHECKING:
    from ocs_codesign.circuits.planes.problem import PlanePlan, PlaneProblem, Usage
    from ocs_codesign.circuits.planes.uses import Term
    from ocs_codesign.core.lp import LinearProgram, Options


MAX_ARCS = 200_000
"""Arcs of the largest program that is written."""

_SLACK = 1e-4
"""How much worse than what is known a solution may be, so that none is cut off by rounding."""


def by_milp(problem: PlaneProblem, start: Usage, options: Options) -> PlanePlan:
    """The best usage that the solver finds in its time, and the bound that it proves.

    ``start`` is a usage that is known: nothing worse is searched. ValueError if the program would
    have more than MAX_ARCS arcs, SolverUnavailableError if no solver takes it.
    """
    steps = problem.num_steps
    arcs = steps * (steps + 1) // 2 * problem.num_planes
    if arcs > MAX_ARCS:
        raise ValueError(
            f"{steps} steps on {problem.num_planes} planes are too many for a mixed-integer "
            f"program: it would have {arcs} arcs, and {MAX_ARCS} are the most"
        )
    best = timed(problem, start)
    unit = best.total_s / steps
    walks = _Walks(problem, float(unit), steps * (1 + _SLACK))
    solution = solve(walks.program(), options=options).taken()
    if solution.values is not None:
        best = min(timed(problem, walks.usage(solution.values)), best, key=lambda one: one.total_s)
    bound = Fraction(solution.bound or 0) * unit
    bound = max(Fraction(0), min(bound, best.total_s))
    return replace(best, lower_bound_s=bound, status=solution.message)


def relaxed_bound(problem: PlaneProblem, unit: float, *, free: bool) -> float:
    """What the relaxation proves, in units; the solver's tolerance is taken off.

    ``free``: planes hold in the beginning whatever is best for them.
    """
    program = _Walks(problem, unit, 3.0 * problem.num_steps, free=free).program()
    return (solve(replace(program, integer=None)).bound or 0.0) * (1 - 1e-7)


class _Walks:
    """Columns of the walks of all planes in units of so many seconds, and their rows."""

    def __init__(
        self, problem: PlaneProblem, unit: float, cap: float, *, free: bool = False
    ) -> None:
        self.problem, self.unit, self.cap, self.free = problem, unit, cap, free
        self.rows = ProgramRows()
        self.send = [float(send) / unit for send in problem.send_s]
        self.latency = float(problem.latency_s) / unit
        self.steps, self.planes = range(problem.num_steps), range(problem.num_planes)
        column, row = self.rows.column, self.rows.row
        self.serves = [[column(upper=1.0, integer=True) for _ in self.planes] for _ in self.steps]
        self.sends = [[column(upper=send) for _ in self.planes] for send in self.send]
        self.changes: list[list[tuple[int, int, int, int]]] = [[] for _ in self.planes]
        """By plane: before, after, column and circuits of arcs with a change."""
        for plane in self.planes:
            self._walk(plane)
        for send, serves, sends in zip(self.send, self.serves, self.sends, strict=True):
            row([(sent, 1.0) for sent in sends], lower=send, upper=send)
            row([(serve, 1.0) for serve in serves], lower=1.0)
            for serve, sent in zip(serves, sends, strict=True):
                row([(sent, 1.0), (serve, -send)], upper=0.0)
        self._break_symmetry()

    def program(self) -> LinearProgram:
        """The whole program, by the rules of the fabric; no total is above the cap."""
        if not self.problem.cost.overlap:
            self._add_stops()
        elif self.problem.cost.barrier:
            durations = self._durations(cost=1.0)
            for plane in self.planes:
                for first in (START, *self.steps[1:]):
                    for last in self.steps[max(first, 0) :]:
                        time = [(one, -1.0) for one in durations[max(first, 0) : last + 1]]
                        self.rows.row([*self._busy(plane, first, last), *time], upper=0.0)
        else:
            end = self.rows.column(cost=1.0, upper=self.cap)
            for plane in self.planes:
                busy = self._busy(plane, START, self.steps[-1])
                self.rows.row([*busy, (end, -1.0)], upper=0.0)
        return self.rows.program()

    def usage(self, values: Any) -> Usage:
        """The planes that send something in each step."""
        return tuple(
            tuple(
                plane
                for plane, (serve, sent) in enumerate(zip(serves, sends, strict=True))
                if values[serve] > 0.5 and values[sent] > 1e-9
            )
            for serves, sends in zip(self.serves, self.sends, strict=True)
        )

    def _walk(self, plane: int) -> None:
        """The arcs of a plane from START over its uses to the end."""
        end, row = len(self.steps), self.rows.row
        arcs = {
            (tail, head): self.rows.column(upper=1.0, integer=True)
            for tail in (START, *self.steps)
            for head in range(tail + 1, end + 1)
        }
        row([(arcs[START, head], 1.0) for head in range(end + 1)], lower=1.0, upper=1.0)
        for step in self.steps:
            use = (self.serves[step][plane], -1.0)
            into = [(arcs[tail, step], 1.0) for tail in range(START, step)]
            out = [(arcs[step, head], 1.0) for head in range(step + 1, end + 1)]
            row([*into, use], lower=0.0, upper=0.0)
            row([*out, use], lower=0.0, upper=0.0)
        for (tail, head), column in arcs.items():
            circuits = self._circuits(plane, tail, head)
            if circuits:
                self.changes[plane].append((tail, head, column, circuits))

    def _break_symmetry(self) -> None:
        """Of planes that hold the same at first, the one that serves earlier steps comes first."""
        for plane in self.planes[1:]:
            if self.problem.held[plane] == self.problem.held[plane - 1]:
                terms = [
                    (self.serves[step][one], sign * 0.5**step)
                    for step in self.steps[:10]
                    for one, sign in ((plane - 1, 1.0), (plane, -1.0))
                ]
                self.rows.row(terms, lower=0.0)

    def _circuits(self, plane: int, tail: int, head: int) -> int:
        """Circuits that a plane changes on an arc; none at the end, and if it may begin as best."""
        problem = self.problem
        if head == problem.num_steps or (self.free and tail == START):
            return 0
        held = problem.held[plane] if tail == START else problem.configurations[tail]
        return problem.circuits_changed(held, problem.configurations[head])

    def _busy(self, plane: int, first: int, last: int) -> list[Term]:
        """What a plane does in the steps first to last that it serves, changes among them."""
        steps, cost = range(max(first, 0), last + 1), self.problem.cost
        terms = [(self.sends[step][plane], 1.0) for step in steps]
        if self.latency:
            terms += [(self.serves[step][plane], self.latency) for step in steps]
        for tail, head, column, circuits in self.changes[plane] if cost.overlap else ():
            if first <= tail and head <= last:
                terms.append((column, float(cost.dead_time_s(circuits)) / self.unit))
        return terms

    def _durations(self, cost: float) -> list[int]:
        """A column d_i a step, at least what n planes take if n serve it."""
        rows, durations = self.rows, []
        for send, serves in zip(self.send, self.serves, strict=True):
            durations.append(rows.column(cost=cost))
            counts = [rows.column(upper=1.0) for _ in self.planes]
            rows.row([(count, 1.0) for count in counts], lower=1.0, upper=1.0)
            number = [(count, -float(many)) for many, count in enumerate(counts, 1)]
            rows.row([*((one, 1.0) for one in serves), *number], lower=0.0, upper=0.0)
            least = [(count, -send / many - self.latency) for many, count in enumerate(counts, 1)]
            rows.row([(durations[-1], 1.0), *least], lower=0.0)
        rows.row([(duration, 1.0) for duration in durations], upper=self.cap)
        return durations

    def _add_stops(self) -> None:
        """Stops, and steps between them with barriers or without."""
        rows, cost = self.rows, self.problem.cost
        fixed, each = float(cost.fixed_s) / self.unit, float(cost.per_circuit_s) / self.unit
        stops = [rows.column(upper=1.0, integer=True) for _ in self.steps]
        time: list[Term] = [(stop, fixed) for stop in stops]
        for plane in self.planes:
            for tail, head, column, circuits in self.changes[plane]:
                between = [(stop, 1.0) for stop in stops[tail + 1 : head + 1]]
                rows.row([*between, (column, -1.0)], lower=0.0)
                time.append((column, each * circuits))
        if cost.barrier:
            durations = self._durations(cost=0.0)
            for step, duration in enumerate(durations):
                for plane in self.planes:
                    rows.row([*self._busy(plane, step, step), (duration, -1.0)], upper=0.0)
            time += [(duration, 1.0) for duration in durations]
        else:
            time.append((self._done(stops), 1.0))
        end = rows.column(cost=1.0, upper=self.cap)
        rows.row([*time, (end, -1.0)], upper=0.0)

    def _done(self, stops: list[int]) -> int:
        """When all is done without barriers, if stops take no time: only they hold planes up.

        ``begin`` of a step is when the last stop before it was over.
        """
        rows, cap = self.rows, self.cap
        free = [rows.column(upper=0.0) for _ in self.planes]
        begin = rows.column(upper=0.0)
        for step, stop in enumerate(stops):
            before, begin = begin, rows.column(upper=cap)
            rows.row([(begin, 1.0), (before, -1.0)], lower=0.0)
            for plane, since in enumerate(free):
                rows.row([(begin, 1.0), (since, -1.0), (stop, -cap)], lower=-cap)
                free[plane] = end = rows.column(upper=cap)
                busy = [(column, -value) for column, value in self._busy(plane, step, step)]
                for least in (begin, since):
                    rows.row([(end, 1.0), (least, -1.0), *busy], lower=0.0)
        done = rows.column(upper=cap)
        for end in free:
            rows.row([(done, 1.0), (end, -1.0)], lower=0.0)
        return done
