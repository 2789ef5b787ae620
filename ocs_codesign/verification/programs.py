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

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.circuits import Change
from ocs_codesign.cost import Cost
from ocs_codesign.verification.schedules import verify
from ocs_codesign.verification.witness import Witness

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.circuits import CircuitProgram
    from ocs_codesign.schedule import Schedule

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
@dataclass(frozen=True, slots=True)
class ProgramVerdict:
    """What the replay found: cost and changes of circuits recomputed, and the first witness if any.

    ``max_loads`` are those of a ``Verdict``. ``changes`` are sorted by (step, plane); those of step
    1 make the first configuration. They are empty if ports are misused.
    """

    cost: Cost
    max_loads: tuple[Fraction, ...]
    changes: tuple[Change, ...]
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

    >>> from ocs_codesign.circuits import CircuitProgram
    >>> from ocs_codesign.collective import Collective
    >>> from ocs_codesign.schedule import Schedule
    >>> from ocs_codesign.topology import Topology
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


def _changes(program: CircuitProgram, ports: tuple[_Port, _Port]) -> tuple[Change, ...]:
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
    return tuple(Change(*row) for row in zip(*columns, strict=True))
