"""Independent check of schedules that change circuits: a send needs its circuit, a port its time.

Nothing here is shared with the code that makes programs. Checked in this order:

* Ports: in a step a node has at most one circuit out and one in of every plane.
* Changes: when a port goes from one circuit to the next, it has been dark for a whole step at
  least, or there is a pause before the step in which the new circuit comes up.
* Circuits: every send crosses a circuit that is up in its step, so none crosses one that is being
  reconfigured; no circuit comes up after the last send.
* The replay of ``verification.schedules.verify`` over all links, every send at its step.

Then steps, t_b and the changes are recomputed; B is shared by the ports that a node has.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.circuits import Activity, PlaneChange
from ocs_codesign.core.cost import Cost
from ocs_codesign.core.shown import Brief
from ocs_codesign.verification.schedules import EXACTLY_ONCE, replay_sends, verify
from ocs_codesign.verification.sends import Witness, sends_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike, NDArray

    from ocs_codesign.circuits.planes.problem import PlaneProblem
    from ocs_codesign.core.circuits import CircuitProgram, Interval, Timed, Timeline
    from ocs_codesign.core.schedule import Schedule


TWO_OUT = "a second circuit leaves this node in this plane: a port holds one at a time"
TWO_IN = "a second circuit enters this node in this plane: a port holds one at a time"
NO_TIME = (
    "this circuit takes over a port of the node without a dark step or a pause: "
    "the port cannot change at once"
)
NOT_UP = "the circuit of this link is not up at this step"
RECONFIGURED = "the circuit of this link is being reconfigured at this step"
TOO_LATE = "this circuit comes up after the last send"


@final
@dataclass(frozen=True, slots=True, repr=False)
class ProgramVerdict(Brief):
    """What the replay found: cost and changes of circuits recomputed, and the first witness if any.

    ``max_loads`` are those of a ``Verdict``. ``changes`` are sorted by (step, plane); those of step
    1 make the first configuration. They are empty if ports are misused.
    """

    cost: Cost
    max_loads: tuple[Fraction, ...]
    changes: tuple[PlaneChange, ...]
    witness: Witness | None

    @property
    def ok(self) -> bool:
        """Whether the schedule achieves its collective over circuits that are up."""
        return self.witness is None

    def __bool__(self) -> bool:
        """The same: a verdict is true if nothing is wrong."""
        return self.ok

    @property
    def num_configurations(self) -> int:
        """Sets of circuits that follow each other: steps in which circuits come up, the first too.

        What comes up in different planes at one step counts once.
        """
        return len({change.step for change in self.changes})


def verify_program(
    program: CircuitProgram, schedule: Schedule, claimed: Cost | None = None
) -> ProgramVerdict:
    """Replay a schedule against the circuits that exist at each moment, and recompute its cost.

    ``claimed`` must then be exactly that cost. The witness is the earliest of the first rule that
    is broken. Raises ValueError if the schedule's links are not the program's.

    >>> from ocs_codesign.core.circuits import CircuitProgram
    >>> from ocs_codesign.core.collective import Collective
    >>> from ocs_codesign.core.schedule import Schedule
    >>> from ocs_codesign.core.topology import Topology
    >>> pair = Topology(2, [0, 1], [1, 0])
    >>> swap = Schedule(pair, Collective.ALLGATHER, 1, [0, 1], [0, 0], [1, 1], [0, 1], [1, 2])
    >>> verify_program(CircuitProgram(pair, [0, 0], [0, 1], [1, 1], [2, 2]), swap).cost
    Cost(steps=2, t_b=Fraction(1, 1))
    >>> print(verify_program(CircuitProgram(pair, [0, 0], [0, 1], [1, 1], [1, 1]), swap).witness)
    row 1, step 2, link 1, root 1, chunk 0, plane 0: the circuit of this link is not up at this step
    """
    if schedule.topology != program.topology:
        raise ValueError("the links of the schedule are not those of the program's circuits")
    replayed = verify(schedule)
    total = sum(replayed.max_loads, Fraction(0))
    cost = Cost(len(replayed.max_loads), program.t_b(total))
    ports = _ports(program)
    witness = _shared_port(program, ports)
    changes = () if witness else _changes(program, ports)
    witness = (
        witness
        or _hasty_change(program, ports)
        or _send_in_the_dark(program, schedule)
        or _late_circuit(program, schedule)
        or replayed.witness
    )
    if witness is None and claimed is not None and claimed != cost:
        witness = Witness(
            f"the claimed cost is {claimed.steps} steps and t_b {claimed.t_b}, "
            f"the sends take {cost.steps} steps and t_b {cost.t_b}"
        )
    return ProgramVerdict(cost, replayed.max_loads, changes, witness)


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Port:
    """One end of every interval: the node, the rule if it is shared, what held the port before.

    ``previous`` (int64, a row) is the last step before the row's in which its port had a circuit:
    at most its own last but one if nothing is shared, 0 if the port had none.
    """

    node: NDArray[np.int32]
    shared: str
    previous: NDArray[np.int64]


def _ports(program: CircuitProgram) -> tuple[_Port, _Port]:
    """The ports out and in of every interval."""
    topology = program.topology
    return (
        _port(program, topology.tail[program.link], TWO_OUT),
        _port(program, topology.head[program.link], TWO_IN),
    )


def _port(program: CircuitProgram, node: NDArray[np.int32], shared: str) -> _Port:
    """Intervals of a port in the order of time: disjoint if each ends before the next begins."""
    plane = program.plane[program.link]
    order = np.lexsort((program.link, program.first_step, plane, node))
    same = (np.diff(node[order]) == 0) & (np.diff(plane[order]) == 0)
    previous = np.zeros(len(order), dtype=np.int64)
    previous[order[1:]] = np.where(same, program.last_step[order[:-1]], 0)
    return _Port(node, shared, previous)


def _earliest(program: CircuitProgram, broken: NDArray[np.bool_]) -> int | None:
    """The broken row whose circuit comes up first, the least link of several."""
    rows = np.flatnonzero(broken)
    return int(rows[np.argmin(program.first_step[rows])]) if len(rows) else None


def _at(program: CircuitProgram, row: int, rule: str, node: int | None = None) -> Witness:
    """Witness of an interval of a circuit."""
    link = int(program.link[row])
    plane, step = int(program.plane[link]), int(program.first_step[row])
    return Witness(rule, node=node, step=step, link=link, plane=plane)


def _shared_port(program: CircuitProgram, ports: tuple[_Port, _Port]) -> Witness | None:
    found = []
    for port in ports:
        row = _earliest(program, port.previous >= program.first_step)
        if row is not None:
            found.append(_at(program, row, port.shared, int(port.node[row])))
    return min(found, key=lambda witness: witness.step or 0, default=None)


def _hasty_change(program: CircuitProgram, ports: tuple[_Port, _Port]) -> Witness | None:
    paused = np.isin(program.first_step, program.pauses)
    found = []
    for port in ports:
        at_once = (port.previous > 0) & (port.previous == program.first_step - 1)
        row = _earliest(program, at_once & ~paused)
        if row is not None:
            found.append(_at(program, row, NO_TIME, int(port.node[row])))
    return min(found, key=lambda witness: witness.step or 0, default=None)


def _send_in_the_dark(program: CircuitProgram, schedule: Schedule) -> Witness | None:
    """The first send over a circuit that is not up."""
    dark = ~program.is_up(schedule.link, schedule.step)
    if not dark.any():
        return None
    row = int(np.argmax(dark))
    link, step = int(schedule.link[row]), int(schedule.step[row])
    rule = RECONFIGURED if _is_reconfigured(program, link, step) else NOT_UP
    root, chunk = int(schedule.root[row]), int(schedule.lo[row])
    return Witness(rule, root, chunk, None, row, step, link, int(program.plane[link]))


def _is_reconfigured(program: CircuitProgram, link: int, step: int) -> bool:
    """Whether a port of the circuit is dark in the step, between two circuits or before its own."""
    topology, rows = program.topology, program.link
    for ends in (topology.tail, topology.head):
        mine = (ends[rows] == ends[link]) & (program.plane[rows] == program.plane[link])
        first, last = program.first_step[mine], program.last_step[mine]
        held = ((first <= step) & (step <= last)).any()
        if not held and (first > step).any():
            return True
    return False


def _late_circuit(program: CircuitProgram, schedule: Schedule) -> Witness | None:
    row = _earliest(program, program.first_step > max(1, schedule.num_steps))
    return None if row is None else _at(program, row, TOO_LATE)


def _changes(program: CircuitProgram, ports: tuple[_Port, _Port]) -> tuple[PlaneChange, ...]:
    """What comes up together in a plane, and the steps that all its ports have been dark before.

    A plane makes one change at a time: the steps count from its last change on.
    """
    plane, first = program.plane[program.link], program.first_step
    free = first - 1 - np.maximum(ports[0].previous, ports[1].previous)
    order = np.lexsort((free, first, plane))
    new = np.append(True, (np.diff(plane[order]) != 0) | (np.diff(first[order]) != 0))
    start = np.flatnonzero(new)
    count = np.diff(start, append=len(order))
    plane, first, free = (column[order[start]] for column in (plane, first, free))
    since = np.ones(len(start), dtype=np.int64)
    since[1:] = np.where(np.diff(plane) == 0, first[:-1], 1)
    dark = np.minimum(free, first - since)
    by_step = np.lexsort((plane, first))
    columns = (column[by_step].tolist() for column in (first, plane, count, dark))
    return tuple(PlaneChange(*row) for row in zip(*columns, strict=True))


# Independent check of timelines: is every send over circuits that are up, and all of it there?
#
# Nothing here is shared with the code that makes plans: the check knows the problem and the
# columns.


def check_timeline(problem: PlaneProblem, timeline: Timeline) -> Witness | None:
    """The first rule that a timeline breaks, None if it is a right answer to the problem.

    Rules: intervals of a plane are within time, in order and apart; a plane sends only over the
    configuration that its step needs and that it holds, for latency + bytes / bandwidth at least;
    a change lasts its dead time; steps have all their bytes and, on every plane, their order; with
    barriers no step begins before those before it have ended; without overlap nobody sends while a
    plane changes, planes change together, and every stop is between two steps.

    >>> from ocs_codesign.circuits.planes.problem import PlaneProblem
    >>> from ocs_codesign.circuits.change import Change
    >>> from ocs_codesign.core.circuits import Interval, Timeline
    >>> problem = PlaneProblem((0,), (10,), 1, 10, Change(2))
    >>> send = Interval(0, Fraction(0), Fraction(1), Activity.SEND, 0, 1, Fraction(10))
    >>> print(check_timeline(problem, Timeline.of([send])))
    step 1, plane 0: it sends over configuration 0 while it holds nothing
    """
    for rule in (_well_formed, _held, _complete, _in_order, _stops):
        witness = next(rule(problem, timeline), None)
        if witness is not None:
            return witness
    return None


def _well_formed(problem: PlaneProblem, timeline: Timeline) -> Iterator[Witness]:
    """Every interval alone, and no two of a plane at the same time."""
    last: dict[int, Interval] = {}
    for one in timeline:
        if not 0 <= one.plane < problem.num_planes:
            yield Witness(f"there are {problem.num_planes} planes, from 0", plane=one.plane)
        if one.start_s < 0 or one.end_s < one.start_s:
            yield Witness(
                f"an interval from {one.start_s} to {one.end_s} s is not within time",
                plane=one.plane,
            )
        before = last.get(one.plane)
        if before is not None and one.start_s < before.end_s:
            yield Witness(
                f"an interval begins at {one.start_s} s, before the last one ends at "
                f"{before.end_s} s",
                plane=one.plane,
                step=one.step,
            )
        last[one.plane] = one
        if one.activity is Activity.SEND:
            if one.step is None or not 1 <= one.step <= problem.num_steps:
                yield Witness("a send is of no step", plane=one.plane, step=one.step)
            elif one.bytes < 0:
                yield Witness(f"it sends {one.bytes} bytes", plane=one.plane, step=one.step)
        elif one.bytes or one.step is not None:
            yield Witness(f"it has a step or bytes in {one.activity.value}", plane=one.plane)


def _held(problem: PlaneProblem, timeline: Timeline) -> Iterator[Witness]:
    """Sends against what the plane holds, and how long sends and changes last."""
    held: dict[int, int | None] = dict(enumerate(problem.held))
    for one in timeline:
        if one.activity is Activity.RECONFIGURE:
            target = one.configuration
            if target is None or not 0 <= target < problem.num_configurations:
                yield Witness(f"it changes to configuration {target}", plane=one.plane)
                return
            if problem.cost.overlap and one.end_s - one.start_s < problem.dead_time_s(
                held[one.plane], target
            ):
                yield Witness(
                    f"a change to configuration {target} lasts {one.end_s - one.start_s} s of "
                    f"{problem.dead_time_s(held[one.plane], target)} s",
                    plane=one.plane,
                )
            held[one.plane] = target
        elif one.activity is Activity.SEND and one.step is not None:
            needed, holds = problem.configurations[one.step - 1], held[one.plane]
            if one.configuration != needed:
                yield Witness(
                    f"it sends over configuration {one.configuration}, not {needed}",
                    plane=one.plane,
                    step=one.step,
                )
            if holds != needed:
                what = "nothing" if holds is None else f"configuration {holds}"
                yield Witness(
                    f"it sends over configuration {needed} while it holds {what}",
                    plane=one.plane,
                    step=one.step,
                )
            least = problem.latency_s + one.bytes / problem.plane_bandwidth_Bps
            if one.end_s - one.start_s < least:
                yield Witness(
                    f"{one.bytes} bytes in {one.end_s - one.start_s} s, which takes {least} s",
                    plane=one.plane,
                    step=one.step,
                )


def _complete(problem: PlaneProblem, timeline: Timeline) -> Iterator[Witness]:
    """Every step moves its bytes."""
    sent: defaultdict[int, Fraction] = defaultdict(Fraction)
    for one in timeline:
        if one.activity is Activity.SEND and one.step is not None:
            sent[one.step] += one.bytes
    for step, size in enumerate(problem.step_bytes, 1):
        if sent[step] != size:
            yield Witness(f"{sent[step]} of {size} bytes are sent", step=step)


def _in_order(problem: PlaneProblem, timeline: Timeline) -> Iterator[Witness]:
    """Steps follow each other on every plane and, with barriers, everywhere."""
    sends = [one for one in timeline if one.activity is Activity.SEND and one.step is not None]
    for before, after in pairwise(sends):
        if before.plane == after.plane and (after.step or 0) <= (before.step or 0):
            yield Witness(
                f"it sends after step {before.step} has been served",
                plane=after.plane,
                step=after.step,
            )
    if problem.cost.barrier:
        end = Fraction(0)
        for step, group in _by_step(sends):
            first = min(group, key=lambda one: one.start_s)
            if first.start_s < end:
                yield Witness(
                    f"it begins at {first.start_s} s, before all of the steps before has arrived "
                    f"at {end} s",
                    plane=first.plane,
                    step=step,
                )
            end = max(end, *(one.end_s for one in group))


def _by_step(sends: list[Interval]) -> Iterator[tuple[int, list[Interval]]]:
    groups: defaultdict[int, list[Interval]] = defaultdict(list)
    for one in sends:
        groups[one.step or 0].append(one)
    yield from sorted(groups.items())


def _stops(problem: PlaneProblem, timeline: Timeline) -> Iterator[Witness]:
    """Without overlap: one stop at a time, long enough for all its circuits, between two steps."""
    if problem.cost.overlap:
        return
    held: dict[int, int | None] = dict(enumerate(problem.held))
    changed: defaultdict[tuple[Fraction, Fraction], int] = defaultdict(int)
    for one in timeline:
        if one.activity is Activity.RECONFIGURE and one.configuration is not None:
            before, held[one.plane] = held[one.plane], one.configuration
            if before is not None or problem.cost.cold_start:
                changed[one.start_s, one.end_s] += problem.circuits_changed(
                    before, one.configuration
                )
    stops = {span: circuits for span, circuits in sorted(changed.items()) if circuits}
    for (start, end), circuits in stops.items():
        if end - start < problem.cost.dead_time_s(circuits):
            yield Witness(
                f"a stop from {start} to {end} s is too short for {circuits} circuits, which take "
                f"{problem.cost.dead_time_s(circuits)} s"
            )
    for (_, end), (start, _) in pairwise(stops):
        if start < end:
            yield Witness(f"a stop begins at {start} s, while another lasts to {end} s")
    yield from _around(list(stops), timeline)


def _around(stops: list[tuple[Fraction, Fraction]], timeline: Timeline) -> Iterator[Witness]:
    """Sends while the fabric stops, and those of a step after a stop that is after the step."""
    sends = [one for one in timeline if one.activity is Activity.SEND]
    sends.sort(key=lambda one: one.start_s)
    begins = [one.start_s for one in sends]
    last_end = list(accumulate((one.end_s for one in sends), max))
    steps = [one.step or 0 for one in sends]
    last_step = list(accumulate(steps, max))
    first_step = list(accumulate(reversed(steps), min))[::-1]
    for start, end in stops:
        later = bisect_left(begins, end)
        if later and last_end[later - 1] > start:
            one = next(one for one in sends if one.end_s > start)
            yield Witness(
                f"it sends while the fabric stops at {start} s", plane=one.plane, step=one.step
            )
        if 0 < later < len(sends) and first_step[later] <= last_step[later - 1]:
            one = next(one for one in sends[later:] if (one.step or 0) <= last_step[later - 1])
            yield Witness(
                f"it sends after a stop at {start} s that is after the step",
                plane=one.plane,
                step=one.step,
            )


# Independent check of timed schedules: held by start, link free, circuit up.


BUSY = "this send begins while another one is on the link"
HASTY = "this send takes less time than its chunks occupy the link and are on the way"
DARK = "the circuit of this link is not up all the time that the send takes"


def check_timed(
    timed: Timed,
    latency: ArrayLike = 0,
    up: tuple[ArrayLike, ArrayLike, ArrayLike] | None = None,
    *,
    chunk_ticks: ArrayLike = 0,
    strictness: str = EXACTLY_ONCE,
) -> Witness | None:
    """The first send that breaks a rule, None if all that is demanded happens in time.

    A sender has all of what it sends at the start of a send. A link carries one send at a time; it
    is free again ``latency`` ticks (one number, or one a link) before the send ends, and until then
    takes at least ``chunk_ticks`` (one number, or one a link) for every chunk. ``up`` are
    columns link, start and end of the ticks in which circuits are up, None if they always are: a
    send is within one of them. Raises ValueError for a schedule that names switches.

    >>> from fractions import Fraction
    >>> from ocs_codesign.core.collective import Collective
    >>> from ocs_codesign.core.schedule import Schedule
    >>> from ocs_codesign.core.circuits import Timed
    >>> from ocs_codesign.core.topology import Topology
    >>> ring = Topology(3, [0, 1, 2], [1, 2, 0])
    >>> columns = [0, 1, 2, 2, 0, 1], [0] * 6, [1] * 6, [0, 1, 2, 0, 1, 2], [1, 1, 1, 2, 2, 2]
    >>> gather = Schedule(ring, Collective.ALLGATHER, 1, *columns)
    >>> check_timed(Timed(gather, [0, 0, 0, 5, 5, 5], [5] * 3 + [9] * 3, Fraction(1)))
    >>> print(check_timed(Timed(gather, [0, 0, 0, 4, 5, 5], [5] * 3 + [9] * 3, Fraction(1))))
    row 3, step 2, link 0: this send begins while another one is on the link
    """
    schedule = timed.schedule
    if schedule.topology.num_nodes > schedule.num_hosts:
        raise ValueError("a timed schedule is of sends from host to host: route it over switches")
    links = schedule.topology.num_links
    on_the_way, busy = np.broadcast_to(latency, links), np.broadcast_to(chunk_ticks, links)
    least = (schedule.hi.astype(np.int64) - schedule.lo) * busy[schedule.link]
    hasty = timed.end - timed.start < least + on_the_way[schedule.link]
    if busy.any() and hasty.any():
        return _witness(timed, int(hasty.argmax()), HASTY)
    return _overlap(timed, on_the_way) or (
        (None if up is None else _in_the_dark(timed, *up)) or _replay(timed, strictness)
    )


def _witness(timed: Timed, row: int, rule: str) -> Witness:
    schedule = timed.schedule
    return Witness(rule, row=row, step=int(schedule.step[row]), link=int(schedule.link[row]))


def _overlap(timed: Timed, latency: NDArray[np.int64]) -> Witness | None:
    """The first send on a link that is not free."""
    link = timed.schedule.link
    order = np.lexsort((timed.end, timed.start, link))
    free = np.maximum(timed.end - latency[link], timed.start)[order]
    same = link[order][1:] == link[order][:-1]
    # Sorted by start, a send overlaps an earlier one only if it overlaps one of those before it;
    # the first that does overlaps its neighbour.
    overlaps = np.flatnonzero(same & (timed.start[order][1:] < free[:-1]))
    if not len(overlaps):
        return None
    rows = order[overlaps + 1]
    return _witness(timed, int(rows[timed.start[rows].argmin()]), BUSY)


def _in_the_dark(timed: Timed, link: ArrayLike, start: ArrayLike, end: ArrayLike) -> Witness | None:
    """The first send that is not within an interval in which its circuit is up."""
    links, starts, ends = (np.asarray(column, dtype=np.int64) for column in (link, start, end))
    order = np.lexsort((starts, links))
    links, starts, ends = links[order], starts[order], ends[order]
    times = np.unique(np.concatenate([starts, timed.start]))
    rank = links * (len(times) + 1) + np.searchsorted(times, starts)
    wanted = timed.schedule.link.astype(np.int64) * (len(times) + 1)
    at = np.searchsorted(rank, wanted + np.searchsorted(times, timed.start), side="right") - 1
    is_up = (at >= 0) & (links[at] == timed.schedule.link) & (timed.end <= ends[at])
    if is_up.all():
        return None
    dark = np.flatnonzero(~is_up)
    return _witness(timed, int(dark[timed.start[dark].argmin()]), DARK)


def _replay(timed: Timed, strictness: str) -> Witness | None:
    """The replay in the order of time; only the order counts, so times are numbered."""
    sends = sends_of(timed.schedule)
    # Zero is when everything begins, so that what roots have from the beginning comes before all.
    times = np.unique(np.concatenate([[0], timed.start, timed.end]))
    start, end = (np.searchsorted(times, column) for column in (timed.start, timed.end))
    ranked = replace(sends, start=start.astype(np.int32), end=end.astype(np.int32))
    return replay_sends(timed.schedule, ranked.at(np.lexsort((end, start))), strictness)
