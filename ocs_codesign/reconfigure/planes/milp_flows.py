"""The mixed-integer program of planes as flows, for overlap and barriers.

Planes are interchangeable, so it is enough to know how many go from one use to the next: an arc
(p, q) carries the planes that serve step p and then, next, step q. They hold the configuration of p
until they change, however many steps pass: every arc is a stretch of held configuration. With
d_i the time of step i and w_in = 1 if n planes serve it (d_i = sum of d_in, 0 where w_in = 0):

    minimise sum d_i over integer flows of num_planes planes, at least one through every step
    sum n d_in  >=  send_i + n_i latency + early and late parts of changes at i
    early + late + sum of d_t, p < t < q  >=  dead time of (p, q), for the m-th plane on it if there
    early + latency  <=  d_p,  late + latency  <=  d_q
    num_planes * sum of d_t, a <= t <= b  >=  sends, latencies and dead times of arcs within [a, b]

The last rows follow from the others for integers; without them the relaxation is weak. A plane that
would have to arrive after it leaves may take part in a solution. If all changes take the same time,
all goes as well without it in that step, so the optimum is right; if not, it is a lower bound.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.reconfigure.planes.rows import ProgramRows
from ocs_codesign.reconfigure.planes.uses import START

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from ocs_codesign.lp import LinearProgram
    from ocs_codesign.reconfigure.planes.problem import PlaneProblem, Usage
    from ocs_codesign.reconfigure.planes.rows import Term


@final
@dataclass(frozen=True, slots=True)
class Arc:
    """Planes of one source (by what they hold at first) or use go on to a step, or to the end."""

    tail: int
    head: int
    dead: float
    source: int = 0
    flow: tuple[int, ...] = ()
    early: tuple[int, ...] = ()
    late: tuple[int, ...] = ()

    @property
    def is_change(self) -> bool:
        """Whether planes change on the way."""
        return self.dead > 0


@final
@dataclass(frozen=True, slots=True)
class FlowProgram:
    """The program with its columns: d_in of every step, w_in, and those of the arcs."""

    program: LinearProgram
    durations: tuple[tuple[int, ...], ...]
    arcs: tuple[Arc, ...]
    sources: tuple[tuple[int, ...], ...] = field(repr=False)


def flow_program(
    problem: PlaneProblem, unit: float, cap: float, *, free: bool = False
) -> FlowProgram:
    """The program in units of so many seconds; no total is above ``cap`` units.

    ``free``: planes hold in the beginning whatever is best for them, a relaxation.
    """
    rows = ProgramRows()
    sends = [float(send) / unit for send in problem.send_s]
    latency, planes = float(problem.latency_s) / unit, problem.num_planes
    sources = _sources(problem, free)
    durations = [tuple(rows.column(cost=1.0) for _ in range(planes)) for _ in sends]
    counts = [tuple(rows.column(upper=1.0, integer=True) for _ in range(planes)) for _ in sends]
    arcs = [
        _with_columns(rows, arc, planes, latency, durations)
        for arc in _arcs(problem, sources, unit, free)
    ]
    _add_flows(rows, arcs, sources, counts)
    least = [send / planes + latency for send in sends]
    for step, send in enumerate(sends):
        longest = cap - sum(least) + least[step]
        work: list[Term] = []
        for number, (duration, count) in enumerate(
            zip(durations[step], counts[step], strict=True), 1
        ):
            rows.row([(duration, 1.0), (count, -send / number - latency)], lower=0.0)
            rows.row([(duration, 1.0), (count, -longest)], upper=0.0)
            work += [(duration, float(number)), (count, -latency * number)]
        work += [(one, -1.0) for arc in arcs if arc.tail == step for one in arc.early]
        work += [(one, -1.0) for arc in arcs if arc.head == step for one in arc.late]
        rows.row(work, lower=send)
    _add_windows(rows, arcs, sends, latency, durations, counts)
    rows.row([(one, 1.0) for step in durations for one in step], upper=cap)
    return FlowProgram(rows.program(), tuple(durations), tuple(arcs), sources)


def usage_of(found: FlowProgram, values: NDArray[np.float64], latency: float) -> Usage:
    """The planes that serve each step; those that would be done before they arrive are left out.

    Planes of a step are interchangeable: who arrives last leaves last.
    """
    steps = len(found.durations)
    served: list[list[int]] = [[] for _ in range(steps)]
    waiting: list[list[tuple[float, int]]] = [[] for _ in range(steps + 1)]
    leaving = _leaving(found, values)
    for source, planes in enumerate(found.sources):
        for plane, (_, late, head) in zip(planes, leaving[START, source], strict=True):
            waiting[head].append((late, plane))
    for step in range(steps):
        duration = sum(values[column] for column in found.durations[step])
        arrived = sorted(waiting[step], reverse=True)
        for (late, plane), (early, next_late, head) in zip(arrived, leaving[step, 0], strict=True):
            if duration - late - early - latency > 1e-7 * duration:
                served[step].append(plane)
            waiting[head].append((next_late, plane))
    return tuple(
        tuple(sorted(planes)) or (min(waiting[step])[1],) for step, planes in enumerate(served)
    )


def _leaving(
    found: FlowProgram, values: NDArray[np.float64]
) -> dict[tuple[int, int], list[tuple[float, float, int]]]:
    """By use: early part, late part and head of each unit that goes on, the last to leave first."""
    units: dict[tuple[int, int], list[tuple[float, float, int]]] = {}
    for arc in found.arcs:
        here = units.setdefault((arc.tail, arc.source), [])
        if arc.is_change:
            for flow, early, late in zip(arc.flow, arc.early, arc.late, strict=True):
                if values[flow] > 0.5:
                    here.append((float(values[early]), float(values[late]), arc.head))
        else:
            here += [(0.0, 0.0, arc.head)] * round(float(values[arc.flow[0]]))
    return {use: sorted(here) for use, here in units.items()}


def _sources(problem: PlaneProblem, free: bool) -> tuple[tuple[int, ...], ...]:
    """Planes that are alike in the beginning."""
    if free:
        return (tuple(range(problem.num_planes)),)
    alike: dict[int | None, list[int]] = {}
    for plane, held in enumerate(problem.held):
        alike.setdefault(held, []).append(plane)
    return tuple(tuple(planes) for planes in alike.values())


def _arcs(
    problem: PlaneProblem, sources: Sequence[Sequence[int]], unit: float, free: bool
) -> Iterator[Arc]:
    """All arcs that some optimal plan may use.

    A plane that keeps what it holds loses nothing in serving every step that needs it.
    """
    needed, steps = problem.configurations, problem.num_steps
    for source, planes in enumerate(sources):
        yield Arc(START, steps, 0.0, source)
        for head in range(steps):
            dead = problem.dead_time_s(problem.held[planes[0]], needed[head])
            if free or not dead:
                if needed[head] not in needed[:head]:
                    yield Arc(START, head, 0.0, source)
            else:
                yield Arc(START, head, float(dead) / unit, source)
    for tail in range(steps):
        yield Arc(tail, steps, 0.0)
        for head in range(tail + 1, steps):
            dead = problem.dead_time_s(needed[tail], needed[head])
            if dead:
                yield Arc(tail, head, float(dead) / unit)
            elif needed[head] not in needed[tail + 1 : head]:
                yield Arc(tail, head, 0.0)


def _with_columns(
    rows: ProgramRows, arc: Arc, planes: int, latency: float, durations: Sequence[Sequence[int]]
) -> Arc:
    """The arc with its columns: one flow, or a unit a plane with an early and a late part."""
    if not arc.is_change:
        flow = rows.column(upper=float(planes), integer=True)
        return Arc(arc.tail, arc.head, arc.dead, arc.source, (flow,))
    between = [(one, 1.0) for step in durations[arc.tail + 1 : arc.head] for one in step]
    most_early = 0.0 if arc.tail == START else arc.dead
    flows, early, late = [], [], []
    for unit in range(planes):
        flows.append(rows.column(upper=1.0, integer=True))
        early.append(rows.column(upper=most_early))
        late.append(rows.column(upper=arc.dead))
        dead = [(early[-1], 1.0), (late[-1], 1.0), (flows[-1], -arc.dead), *between]
        rows.row(dead, lower=0.0)
        for part, step in ((early[-1], arc.tail), (late[-1], arc.head)):
            if step != START:
                time = [(one, -1.0) for one in durations[step]]
                rows.row([(part, 1.0), (flows[-1], latency), *time], upper=0.0)
        if unit:
            rows.row([(flows[-2], 1.0), (flows[-1], -1.0)], lower=0.0)
    return Arc(arc.tail, arc.head, arc.dead, arc.source, tuple(flows), tuple(early), tuple(late))


def _add_flows(
    rows: ProgramRows,
    arcs: Sequence[Arc],
    sources: Sequence[Sequence[int]],
    counts: Sequence[Sequence[int]],
) -> None:
    """As many planes arrive at a step as leave it, and as its count says."""
    for source, planes in enumerate(sources):
        leaving = [
            (one, 1.0)
            for arc in arcs
            if arc.tail == START and arc.source == source
            for one in arc.flow
        ]
        rows.row(leaving, lower=float(len(planes)), upper=float(len(planes)))
    for step, count in enumerate(counts):
        number = [(column, -float(planes)) for planes, column in enumerate(count, 1)]
        arriving = [(one, 1.0) for arc in arcs if arc.head == step for one in arc.flow]
        leaving = [(one, 1.0) for arc in arcs if arc.tail == step for one in arc.flow]
        rows.row(arriving + number, lower=0.0, upper=0.0)
        rows.row(leaving + number, lower=0.0, upper=0.0)
        rows.row([(column, 1.0) for column in count], lower=1.0, upper=1.0)


def _add_windows(
    rows: ProgramRows,
    arcs: Sequence[Arc],
    sends: Sequence[float],
    latency: float,
    durations: Sequence[Sequence[int]],
    counts: Sequence[Sequence[int]],
) -> None:
    """What all planes do within a stretch of steps takes no longer than they are there."""
    planes = len(durations[0])
    for first in range(START, len(sends)):
        if first == 0:
            continue
        terms: list[Term] = []
        total = 0.0
        for last in range(max(first, 0), len(sends)):
            total += sends[last]
            terms += [(one, float(planes)) for one in durations[last]]
            terms += [(one, -latency * number) for number, one in enumerate(counts[last], 1)]
            terms += [
                (one, -arc.dead)
                for arc in arcs
                if arc.is_change and arc.head == last and arc.tail >= first
                for one in arc.flow
            ]
            rows.row(terms, lower=total)
