"""From what ranks do back to a schedule: which chunks go over which link, in steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.collective import CUSTOM
from ocs_codesign.kernels import for_work
from ocs_codesign.rank_program import GET, PUT, SEND
from ocs_codesign.runs import before, places
from ocs_codesign.schedule import Schedule
from ocs_codesign.topology import Topology
from ocs_codesign.verification.rank_program_cells import ends_of_operations
from ocs_codesign.verification.rank_program_data import (
    cells_with,
    data_of,
    ends_of,
    first_chunks,
)
from ocs_codesign.verification.rank_program_kernels import longest_before
from ocs_codesign.verification.rank_program_order import Order, grouped, order_of
from ocs_codesign.verification.rank_programs import check_program
from ocs_codesign.verification.schedules import AT_LEAST_ONCE, verify
from ocs_codesign.verification.witness import Witness

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.collective import Collective
    from ocs_codesign.demand import Demand
    from ocs_codesign.rank_program import RankProgram


def raised(program: RankProgram) -> Schedule:
    """The schedule that a program runs: a link for every (rank, peer, channel) that it sends over.

    Steps are those of the program if it has them for all that is sent and they keep what it needs;
    else every send has the step after the last one that it depends on. Links are in the order of
    (rank, peer, channel) and of equal speed. In an allreduce a chunk is of the shard of the rank
    where its sum first is whole, so that shards may have sizes. Raises ValueError for a program
    that is not right, or that is no schedule since it sends a part of a sum twice, as recursive
    doubling of whole vectors does.

    >>> from ocs_codesign.collective import Collective
    >>> from ocs_codesign.lowering.lowering import lower
    >>> pair = Topology(2, [0, 1], [1, 0])
    >>> swap = Schedule(pair, Collective.ALLGATHER, 1, [0, 1], [0, 0], [1, 1], [0, 1], [1, 1])
    >>> raised(lower(swap)) == swap
    True
    """
    witness = check_program(program).witness
    if witness is not None:
        raise ValueError(f"only a program that is right can be raised: {witness}")
    order = order_of(program, None)
    if isinstance(order, Witness):
        raise ValueError(f"only a program that is right can be raised: {order}")
    sent = _sent(order)
    topology, link = _links(program, sent.operation)
    step = _steps(order)[sent.operation]
    make = _allreduce if len(program.demands) > 1 else _of_one_half
    schedule = make(program, topology, sent, link, step)
    witness = verify(schedule, strictness=AT_LEAST_ONCE).witness
    if witness is not None:
        raise ValueError(f"what this program sends is no schedule: {witness}")
    return schedule


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Sent:
    """Runs of chunks from rank to rank: by which operation, first one, how many, whether whole.

    Chunks are counted over all items.
    """

    operation: NDArray[np.int64]
    chunk: NDArray[np.int64]
    size: NDArray[np.int64]
    is_whole: NDArray[np.bool_]


def _sent(order: Order) -> _Sent:
    program = order.program
    sizes = np.stack(program.buffer_sizes(), axis=1)
    base = (np.cumsum(sizes) - sizes.ravel()).reshape(sizes.shape)
    sides = data_of(program, base)
    cells = cells_with(order, base, sides)
    moves = np.flatnonzero(np.isin(program.kind, (SEND, PUT, GET)))
    source, _ = ends_of_operations(order, base)
    run, cell, _ = cells.within(source[moves], program.count[moves])
    is_whole = np.ones(len(run), dtype=bool)
    chunk = np.zeros(len(run), dtype=np.int64)
    for ended in ends_of(order, base, sides[0], cells):
        chunk = ended.on_way
        piece = np.searchsorted(first_chunks(program), chunk, side="right") - 1
        is_whole &= ended.parts_on_way == ended.whole[piece]
    return _Sent(moves[run], chunk, cells.size(cell), is_whole)


def _links(
    program: RankProgram, operation: NDArray[np.int64]
) -> tuple[Topology, NDArray[np.int64]]:
    """A link for every rank, peer and channel, and the link of every operation."""
    gets = program.kind[operation] == GET
    rank, peer = (getattr(program, name)[operation].astype(np.int64) for name in ("rank", "peer"))
    tail, head = np.where(gets, peer, rank), np.where(gets, rank, peer)
    channels = int(program.channel.max(initial=0)) + 1
    key = (tail * program.num_ranks + head) * channels + program.channel[operation]
    links, link = np.unique(key, return_inverse=True)
    ends = links // channels
    return Topology(program.num_ranks, ends // program.num_ranks, ends % program.num_ranks), link


def _steps(order: Order) -> NDArray[np.int64]:
    """The step of every operation that sends."""
    program = order.program
    moves = np.isin(program.kind, (SEND, PUT, GET))
    start, edge = grouped(order.after, np.arange(len(order.after)), program.num_operations)
    earlier = order.before[edge]
    takes = ~order.is_local[edge] | (program.kind[earlier] == GET)
    own = program.step.astype(np.int64)
    if (own[moves] > 0).all():
        arrived = np.zeros(program.num_operations, dtype=np.int64)
        _arrivals(order, start, earlier, takes, own, arrived)
        if (arrived[moves] < own[moves]).all():
            return own
    level = np.zeros(program.num_operations, dtype=np.int64)
    loop = for_work(longest_before, len(earlier))
    loop(order.order, start, earlier, takes.astype(np.int64), level)
    step = np.ones(program.num_operations, dtype=np.int64)
    step[moves] += np.unique(level[moves], return_inverse=True)[1]
    return step


def _arrivals(
    order: Order,
    start: NDArray[np.int64],
    earlier: NDArray[np.int64],
    takes: NDArray[np.bool_],
    own: NDArray[np.int64],
    arrived: NDArray[np.int64],
) -> None:
    """Fill in the last step in which anything came that an operation is after."""
    owner = np.repeat(np.arange(len(own)), np.diff(start))
    np.maximum.at(arrived, owner[takes], own[earlier[takes]])
    loop = for_work(longest_before, len(earlier))
    loop(order.order, start, earlier, np.zeros(len(earlier), dtype=np.int64), arrived)


def _joined(
    columns: list[NDArray[np.int64]], chunk: NDArray[np.int64], size: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Runs of chunks that follow each other where columns are alike: a row of each, lo and hi."""
    order = np.lexsort((chunk, *columns))
    lo, hi = chunk[order], (chunk + size)[order]
    new = np.ones(len(order), dtype=bool)
    new[1:] = lo[1:] != hi[:-1]
    for column in columns:
        new[1:] |= np.diff(column[order]) != 0
    first = np.flatnonzero(new)
    last = np.append(first[1:], len(order))[: len(first)] - 1
    return order[first], lo[first], hi[last]


def _of_one_half(
    program: RankProgram,
    topology: Topology,
    sent: _Sent,
    link: NDArray[np.int64],
    step: NDArray[np.int64],
) -> Schedule:
    """Anything but an allreduce."""
    demand = program.demands[0]
    named: Collective | Demand = program.collective
    chunks = program.chunks_per_unit * int(demand.item_weight().max())
    if program.collective.name == CUSTOM:
        named = demand
    first = demand.first_units()[demand.piece_start] * program.chunks_per_unit
    item = np.searchsorted(first, sent.chunk, side="right") - 1
    row, lo, hi = _joined([item, link, step], sent.chunk - first[item], sent.size)
    return Schedule(topology, named, chunks, item[row], lo, hi, link[row], step[row])


def _allreduce(
    program: RankProgram,
    topology: Topology,
    sent: _Sent,
    link: NDArray[np.int64],
    step: NDArray[np.int64],
) -> Schedule:
    """An allreduce with shards as they are summed up; chunks of a group keep their order."""
    demand = program.demands[0]
    chunks = int(demand.weight.sum()) * program.chunks_per_unit
    home = _homes(program, sent, topology.tail[link], chunks)
    rank_of_item = demand.root
    item_of_rank = np.full(program.num_ranks, -1)
    item_of_rank[rank_of_item] = np.arange(len(rank_of_item))
    item = item_of_rank[home]
    within = before(item, np.ones(chunks, dtype=np.int64))
    size = np.bincount(item, minlength=len(rank_of_item))
    groups = program.collective.ranks(program.num_ranks)
    as_before = np.array_equal(size, demand.item_weight() * program.chunks_per_unit)
    collective, units = program.collective, program.chunks_per_unit
    if not as_before:
        if len(groups) > 1:
            raise ValueError("sums of several groups are whole at ranks that are not their shards'")
        collective, units = replace(collective, sizes=size[item_of_rank[list(groups[0])]]), 1
    most = int(size.max()) if not as_before else units * int(demand.item_weight().max())
    phase = sent.is_whole.astype(np.int64)
    of = item[sent.chunk]
    row, lo, hi = _joined([of, phase, link, step], within[sent.chunk], sent.size)
    return Schedule(topology, collective, most, of[row], lo, hi, link[row], step[row], phase[row])


def _homes(
    program: RankProgram, sent: _Sent, sender: NDArray[np.int32], chunks: int
) -> NDArray[np.int64]:
    """The rank where the sum of every chunk is whole first; it has all, and nobody sends it whole.

    Ranks that send the whole sum and are sent it only pass it on.
    """
    demand = program.demands[0]
    units = demand.first_units() * program.chunks_per_unit
    home = demand.root[demand.item_of_piece()].astype(np.int64)
    home = home[np.searchsorted(units, np.arange(chunks), side="right") - 1]
    whole = np.flatnonzero(sent.is_whole)
    ranks = program.num_ranks
    gets = program.kind[sent.operation] == GET
    receiver = np.where(gets, program.rank[sent.operation], program.peer[sent.operation])
    gives = sent.chunk[whole] * ranks + sender[whole]
    gives, first = np.unique(gives, return_index=True)
    alone = ~np.isin(gives, sent.chunk[whole] * ranks + receiver[whole])
    chunk, rank = np.divmod(gives[alone], ranks)
    if len(chunk) > len(np.unique(chunk)):
        twice = int(chunk[np.flatnonzero(np.diff(chunk) == 0)[0]])
        raise ValueError(f"the sum of chunk {twice} is whole at several ranks of themselves")
    run, every = places(chunk, sent.size[whole[first[alone]]])
    home[every] = rank[run]
    return home
