"""Transfers over circuits that change: ports are dark, or everything stops."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.routes import direct_routes
from ocs_codesign.simulate.making import (
    ADDITION_TICKS,
    transfers_of_schedule,
    with_nodes,
    with_stops,
)
from ocs_codesign.simulate.transfers import DARK

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from ocs_codesign.circuits import CircuitProgram
    from ocs_codesign.network import Network
    from ocs_codesign.schedule import Schedule
    from ocs_codesign.simulate.transfers import Transfers


def transfers_of_program(
    program: CircuitProgram,
    schedule: Schedule,
    network: Network,
    message_bytes: Fraction | float,
    dark_ticks: int,
    *,
    stops: bool = False,
    cold_start: bool = False,
    chained: bool = True,
    barriers: bool = False,
    addition_ticks: int = ADDITION_TICKS,
) -> Transfers:
    """The transfers of a schedule whose circuits change, as ``transfers_of_schedule`` makes them.

    Circuit i is link i of the network. A port is dark for ``dark_ticks`` from when its last circuit
    has brought its last transfer until the next one comes up, while others go on; a circuit comes
    up when both of its ports are ready.
    If everything ``stops``, all transfers end before a step in which circuits come up, and all that
    follow begin ``dark_ticks`` later. With a ``cold_start`` the first circuits have to be made too.
    Raises ValueError for a schedule of other links, or a send over a circuit that is not up.
    """
    if schedule.topology != program.topology:
        raise ValueError("the links of the schedule are not those of the program's circuits")
    if not program.is_up(schedule.link, schedule.step).all():
        row = int((~program.is_up(schedule.link, schedule.step)).argmax())
        raise ValueError(
            f"send {row}: the circuit of link {schedule.link[row]} is not up in step "
            f"{schedule.step[row]}"
        )
    made = transfers_of_schedule(
        *(schedule, direct_routes(program.topology, network), message_bytes),
        chained=chained,
        barriers=barriers,
        addition_ticks=addition_ticks,
    )
    if stops:
        begins = np.unique(program.first_step)
        begins = begins if cold_start else begins[begins > begins[0]]
        begins = begins[begins <= schedule.num_steps]
        return with_stops(made, begins, np.full(len(begins), dark_ticks), DARK)
    return _with_dark_ports(made, program, dark_ticks, cold_start)


def _with_dark_ports(
    made: Transfers, program: CircuitProgram, dark_ticks: int, cold_start: bool
) -> Transfers:
    """A dark time before every interval of a circuit whose ports had another one."""
    topology = program.topology
    before = [
        _interval_before(program, ends[program.link]) for ends in (topology.tail, topology.head)
    ]
    changes = np.full(len(program.link), cold_start) | (before[0] >= 0) | (before[1] >= 0)
    number = np.where(changes, np.cumsum(changes) - 1 + made.num_transfers, -1)
    interval = _interval_of(made, program)
    sent = np.flatnonzero(interval >= 0)
    own = interval[sent]
    waits = [(sent[changes[own]], number[own[changes[own]]])]
    for earlier in before:
        # What comes after an interval of a port waits for all that was sent in it, and for the
        # change that brought it up.
        after = np.full(len(program.link), -1)
        has = np.flatnonzero(earlier >= 0)
        after[earlier[has]] = has
        ends = after[own] >= 0
        waits.append((number[after[own[ends]]], sent[ends]))
        late = has[number[earlier[has]] >= 0]
        waits.append((number[late], number[earlier[late]]))
    steps = program.first_step[changes]
    return with_nodes(made, steps, np.full(len(steps), dark_ticks), DARK, waits)


def _interval_before(program: CircuitProgram, node: NDArray[np.int32]) -> NDArray[np.int64]:
    """The interval of the circuit that a port of every interval had before, -1 if it had none."""
    plane = program.plane[program.link]
    order = np.lexsort((program.first_step, plane, node))
    same = (np.diff(node[order]) == 0) & (np.diff(plane[order]) == 0)
    before = np.full(len(order), -1)
    before[order[1:]] = np.where(same, order[:-1], -1)
    return before


def _interval_of(made: Transfers, program: CircuitProgram) -> NDArray[np.int64]:
    """The interval of the circuit that every transfer takes, -1 for barriers."""
    has_path = np.diff(made.path_start) > 0
    stride = int(max(program.last_step.max(), made.num_steps)) + 1
    rank = program.link.astype(np.int64) * stride + program.first_step
    interval = np.full(made.num_transfers, -1)
    wanted = made.path_link.astype(np.int64) * stride + made.step[has_path]
    interval[has_path] = np.searchsorted(rank, wanted, side="right") - 1
    return interval
