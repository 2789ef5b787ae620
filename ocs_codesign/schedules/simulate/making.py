"""Transfers made from steps: of schedules, and of messages between ranks.

All that one step sends over one pair of nodes is one transfer, additions apart from copies. It
waits for the transfers of earlier steps that bring its sender what it sends, and, if ``chained``,
until the transfer before it on the same pair has arrived. With ``barriers`` a step waits for all of
the step before instead. What a host adds takes it ``addition_ticks``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.compute.kernels import for_work
from ocs_codesign.core.demand import SUM
from ocs_codesign.core.network import Routes, direct_routes
from ocs_codesign.core.quantities import exact
from ocs_codesign.core.topology import Topology, places, row_numbers, starts_of
from ocs_codesign.schedules.simulate import kernels
from ocs_codesign.schedules.simulate.transfers import ADD, BARRIER, COPY, DARK, Transfers
from ocs_codesign.verification.sends import told_apart

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from ocs_codesign.core.circuits import CircuitProgram
    from ocs_codesign.core.network import Network
    from ocs_codesign.core.schedule import Messages, Schedule


ADDITION_TICKS = 1
_FEW_BUCKETS = 16


def transfers_of_schedule(
    schedule: Schedule,
    routes: Routes,
    message_bytes: Fraction | float,
    *,
    chained: bool = True,
    barriers: bool = False,
    addition_ticks: int = ADDITION_TICKS,
    hop_by_hop: bool = False,
) -> Transfers:
    """The transfers of a schedule whose links are paths of a network, for M = ``message_bytes``.

    A switch passes on in the same step what it gets. What it sends on as often as it gets it goes
    from host to host as one transfer; what it copies or adds up has a transfer a hop, of which only
    what leaves hosts is chained, step by step; ``hop_by_hop`` all that it sends has. Raises
    ValueError for a schedule of another topology.

    >>> from ocs_codesign.core.collective import Collective
    >>> from ocs_codesign.core.network import Network
    >>> from ocs_codesign.core.network import Routes, direct_routes
    >>> from ocs_codesign.core.schedule import Schedule
    >>> ring = Network(3, 3, [0, 1, 2], [1, 2, 0], [1, 1, 1])
    >>> columns = [0, 1, 2, 2, 0, 1], [0] * 6, [1] * 6, [0, 1, 2, 0, 1, 2], [1, 1, 1, 2, 2, 2]
    >>> gather = Schedule(ring.topology(), Collective.ALLGATHER, 1, *columns)
    >>> made = transfers_of_schedule(gather, direct_routes(ring.topology(), ring), 3)
    >>> made.wait_for.tolist(), made.previous.tolist()
    ([2, 0, 1], [-1, -1, -1, 0, 1, 2])
    """
    if schedule.topology != routes.topology:
        raise ValueError("the schedule is not on the topology of these routes")
    topology = schedule.topology
    rows = _Rows(
        schedule.step,
        schedule.link,
        sums_of(schedule),
        topology.tail[schedule.link],
        topology.head[schedule.link],
        schedule.item,
        schedule.lo,
        schedule.hi,
    )
    if schedule.num_hosts < topology.num_nodes and not hop_by_hop:
        rows, routes = _end_to_end(rows, routes, schedule.num_hosts)
    units = max(demand.message_units for demand in schedule.demands) * schedule.chunks_per_unit
    sequence = _Sequence(chained, barriers, addition_ticks)
    return _made(rows, routes, schedule.num_hosts, exact(message_bytes) / units, sequence)


def transfers_of_messages(
    messages: Messages,
    routes: Routes,
    message_bytes: Fraction | float,
    rank_to_node: ArrayLike | None = None,
    *,
    chained: bool = True,
    barriers: bool = False,
    addition_ticks: int = ADDITION_TICKS,
) -> Transfers:
    """The transfers of messages between ranks, for M = ``message_bytes``.

    Rank r is on host ``rank_to_node[r]``, by default r. What one host sends to another takes the
    first link between them of the routes' topology; ValueError if there is none.
    """
    topology = routes.topology
    own = np.arange(messages.num_ranks)
    node = (own if rank_to_node is None else np.asarray(rank_to_node)).astype(np.int32)
    sender, receiver = node[messages.source], node[messages.target]
    joins = topology.tail.astype(np.int64) * topology.num_nodes + topology.head
    first = np.argsort(joins, kind="stable")
    pairs, wanted = joins[first], sender.astype(np.int64) * topology.num_nodes + receiver
    at = np.minimum(np.searchsorted(pairs, wanted), max(len(pairs) - 1, 0))
    if len(wanted) and (not len(pairs) or (lacks := pairs[at] != wanted).any()):
        row = int(lacks.argmax()) if len(pairs) else 0
        raise ValueError(
            f"node {sender[row]} sends to {receiver[row]}, but the routes have no path between them"
        )
    nothing = np.zeros(len(wanted), dtype=np.int32)
    rows = _Rows(
        messages.step,
        first[at].astype(np.int32),
        messages.adds,
        sender,
        receiver,
        messages.item,
        nothing,
        nothing + 1,
    )
    chunk_bytes = exact(message_bytes) * messages.item_size
    sequence = _Sequence(chained, barriers, addition_ticks)
    return _made(rows, routes, topology.num_nodes, chunk_bytes, sequence)


def sums_of(schedule: Schedule) -> NDArray[np.bool_]:
    """Whether what each send of a schedule brings is added up."""
    kinds = np.stack([demand.kind for demand in schedule.demands])
    phase = 0 if schedule.phase is None else schedule.phase
    adds: NDArray[np.bool_] = kinds[phase, schedule.item] == SUM
    return adds


@final
@dataclass(frozen=True, slots=True)
class _Sequence:
    """What follows what besides data: on a pair, from step to step, behind an addition."""

    chained: bool
    barriers: bool
    addition_ticks: int


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Columns: in a step chunks of an item cross a logical link, to be added or not."""

    step: NDArray[np.int32]
    link: NDArray[np.int32]
    adds: NDArray[np.bool_]
    sender: NDArray[np.int32]
    receiver: NDArray[np.int32]
    item: NDArray[np.int32]
    lo: NDArray[np.int32]
    hi: NDArray[np.int32]

    def columns(self) -> list[NDArray[Any]]:
        """All of them."""
        return [getattr(self, name) for name in self.__slots__]

    def in_order(self) -> NDArray[np.int64] | None:
        """The rows sorted by step, link and addition, in their order; None if they are."""
        key = (self.step.astype(np.int64) * (int(self.link.max(initial=0)) + 1) + self.link) * 2
        key += self.adds
        return None if (key[1:] >= key[:-1]).all() else np.argsort(key, kind="stable")

    def at(self, order: NDArray[np.int64]) -> _Rows:
        """Some of the rows."""
        return _Rows(*(column[order] for column in self.columns()))


def _end_to_end(rows: _Rows, routes: Routes, num_hosts: int) -> tuple[_Rows, Routes]:
    """Rows that switches only pass on as rows from host to host, over routes of their own."""
    following = _passed_on(rows, num_hosts)
    begins = np.ones(len(following), dtype=bool)
    begins[following[following >= 0]] = False
    hops = [np.flatnonzero(begins)]
    while (hops[-1] >= 0).any():
        hops.append(np.where(hops[-1] >= 0, following[hops[-1]], -1))
    chain = np.stack(hops[:-1] or hops, axis=1)
    is_left = np.ones(len(following) + 1, dtype=bool)
    is_left[chain] = False
    round_trips = np.flatnonzero(is_left[:-1])
    alone = np.full((len(round_trips), chain.shape[1]), -1)
    alone[:, 0] = round_trips
    chain = np.concatenate([chain, alone])
    chain = chain[np.argsort(chain[:, 0])]
    kept, last = rows.at(chain[:, 0]), chain[np.arange(len(chain)), (chain >= 0).sum(axis=1) - 1]
    key = np.where(chain >= 0, rows.link[chain] + 1, 0)
    # To the next hosts first, so that not all send to one.
    path = row_numbers((rows.receiver[last] - kept.sender) % num_hosts, *key.T)
    _, example = np.unique(path, return_index=True)
    logical = key[example]
    at, links = np.nonzero(logical)[0], logical[logical > 0] - 1
    run, place = places(routes.start[links], np.diff(routes.start)[links])
    start = starts_of(np.bincount(at[run], minlength=len(example)))
    ends = kept.sender[example], rows.receiver[last[example]]
    joins = Topology(routes.topology.num_nodes, *ends)
    paths = Routes(joins, routes.network, start, routes.link[place], hosts_forward=True)
    joined = replace(kept, link=path.astype(np.int32), receiver=rows.receiver[last])
    return joined, paths


def _passed_on(rows: _Rows, num_hosts: int) -> NDArray[np.int64]:
    """The row with which a switch sends on what each brings it, -1 where it copies or adds up."""
    chunks = (rows.step, rows.adds, rows.item, rows.lo, rows.hi)
    ends = (rows.receiver, rows.sender)
    stay = row_numbers(*(np.tile(column, 2) for column in chunks), np.concatenate(ends))
    enters, leaves = stay.reshape(2, -1)
    is_even = np.bincount(enters, minlength=len(stay)) == np.bincount(leaves, minlength=len(stay))
    enters, leaves = (
        np.where((end >= num_hosts) & is_even[at], at, -1)
        for end, at in zip(ends, (enters, leaves), strict=True)
    )
    before = told_apart(enters, leaves, np.arange(len(enters)))
    following = np.full(len(enters), -1)
    out = np.flatnonzero(leaves >= 0)
    following[before[out]] = out
    return following


def transfer_of(
    step: NDArray[np.int32], link: NDArray[np.int32], adds: NDArray[np.bool_], *, apart: bool
) -> NDArray[np.int32]:
    """The number of the transfer of each of rows that are sorted by the three."""
    new = np.ones(len(step), dtype=bool)
    if not apart:
        new[1:] = (step[1:] != step[:-1]) | (link[1:] != link[:-1]) | (adds[1:] != adds[:-1])
    return (np.cumsum(new) - 1).astype(np.int32)


def _made(
    rows: _Rows, routes: Routes, num_hosts: int, chunk_bytes: Fraction, sequence: _Sequence
) -> Transfers:
    order = rows.in_order()
    rows = rows if order is None else rows.at(order)
    num_nodes = routes.topology.num_nodes
    relays = np.arange(num_nodes) >= num_hosts
    owner = transfer_of(rows.step, rows.link, rows.adds, apart=bool(relays.any()))
    first = np.flatnonzero(np.diff(owner, prepend=-1))
    num = len(first)
    wait_start, wait_for = _waits(rows, owner, relays, num, sequence.barriers)
    link, adds = rows.link[first], rows.adds[first]
    previous = np.full(num, -1, dtype=np.int32)
    has_chains = sequence.chained and not sequence.barriers and num > 0
    if has_chains and not relays.any():
        last_on_pair = for_work(kernels.last_on_pair, num)
        previous = last_on_pair(link, routes.topology.num_links)
    chunks = rows.hi.astype(np.int64) - rows.lo
    hops = np.diff(routes.start)[link]
    path_link = routes.link[places(routes.start[link], hops)[1]]
    made = Transfers(
        routes.network,
        chunk_bytes,
        np.add.reduceat(chunks, first) if num else chunks,
        starts_of(hops),
        path_link,
        wait_start,
        wait_for,
        previous,
        np.where(adds & ~relays[rows.receiver[first]], sequence.addition_ticks, 0),
        np.where(adds, ADD, COPY),
        rows.step[first],
    )
    if has_chains and relays.any():
        return _with_steps_in_turn(made, link, ~relays[rows.sender[first]])
    if not sequence.barriers:
        return made
    steps = np.unique(made.step)[1:]
    return with_stops(made, steps, np.zeros(len(steps), dtype=np.int64), BARRIER)


def _with_steps_in_turn(
    made: Transfers, link: NDArray[np.int32], is_chained: NDArray[np.bool_]
) -> Transfers:
    """What is chained waits for the last of the step before on its link, not for its own step's."""
    order = np.argsort(link, kind="stable")
    links, steps = link[order], made.step[order]
    is_new = np.append(True, (np.diff(links) != 0) | (np.diff(steps) != 0))
    first = np.maximum.accumulate(np.where(is_new, np.arange(len(order)), 0))
    waits = (first > 0) & (links[first - 1] == links) & is_chained[order]
    nothing = np.zeros(0, dtype=np.int64)
    return with_nodes(made, nothing, nothing, COPY, [(order[waits], order[first[waits] - 1])])


def _waits(
    rows: _Rows, owner: NDArray[np.int32], relays: NDArray[np.bool_], num: int, has_steps: bool
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """For whom every transfer waits because of what it sends."""
    wait_start = np.zeros(num + 1, dtype=np.int32)
    if has_steps and not relays.any():
        return wait_start, wait_start[:0]
    items = int(rows.item.max(initial=0)) + 1
    sent = rows.sender.astype(np.int64) * items + rows.item
    got = rows.receiver.astype(np.int64) * items + rows.item
    both, buckets = np.concatenate([sent, got]), len(relays) * items
    if buckets > _FEW_BUCKETS * len(both):
        both, buckets = _numbered(both)
    sent, got = np.split(both.astype(np.int32 if buckets < 2**31 else np.int64), 2)
    work = 10 * len(owner)
    row = np.arange(len(owner), dtype=np.int32)
    start, received = for_work(kernels.grouped, work)(got, row, buckets)
    columns = (owner, rows.step, rows.sender, sent, rows.lo, rows.hi, start, received, relays)
    received_before = for_work(kernels.received_before, work)
    total = len(owner)
    wait_for = np.empty(0, dtype=np.int32)
    while total > len(wait_for):  # most schedules wait for one transfer each
        wait_for = np.empty(total, dtype=np.int32)
        total = received_before(*columns, has_steps, wait_start, wait_for)
    return wait_start, wait_for[:total]


def _numbered(keys: NDArray[Any]) -> tuple[NDArray[np.int64], int]:
    """The keys numbered from 0 on, and how many differ."""
    different, number = np.unique(keys, return_inverse=True)
    return number, len(different)


def with_stops(
    transfers: Transfers, steps: NDArray[Any], ticks: NDArray[np.int64], kind: int
) -> Transfers:
    """The transfers with a stop before each of these steps, ascending: all before end before it.

    All of the step and later begin after it, and it takes ``ticks``, of a barrier or of dark ports.
    """
    num = transfers.num_transfers
    stop = np.arange(len(steps)) + num
    # Between two stops everything waits for the first and is waited for by the second.
    before = np.searchsorted(steps, transfers.step, side="right") - 1
    node, last = np.arange(num), len(steps) - 1
    after, first = before >= 0, before < last
    waits = [
        (node[after], stop[before[after]]),
        (stop[before[first] + 1], node[first]),
        (stop[1:], stop[:-1]),
    ]
    return with_nodes(transfers, steps, ticks, kind, waits)


def with_nodes(
    transfers: Transfers,
    steps: NDArray[Any],
    ticks: NDArray[np.int64],
    kind: int,
    waits: list[tuple[NDArray[Any], NDArray[Any]]],
) -> Transfers:
    """The transfers with others that send nothing, and with pairs of who waits and for whom."""
    num, more = transfers.num_transfers, len(steps)
    own = np.repeat(np.arange(num), np.diff(transfers.wait_start))
    who = np.concatenate([own, *(pair[0] for pair in waits)])
    whom = np.concatenate([transfers.wait_for, *(pair[1] for pair in waits)])
    grouped = for_work(kernels.grouped, 10 * len(who))
    wait_start, wait_for = grouped(who, whom, num + more)
    none, ends = np.zeros(more, np.int8), np.full(more, len(transfers.path_link))
    return Transfers(
        transfers.network,
        transfers.chunk_bytes,
        np.append(transfers.size, none),
        np.append(transfers.path_start, ends),
        transfers.path_link,
        wait_start,
        wait_for,
        np.append(transfers.previous, none - 1),
        np.append(transfers.compute, ticks),
        np.append(transfers.kind, none + kind),
        np.append(transfers.step, steps),
    )


# Transfers over circuits that change: ports are dark, or everything stops.


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
