"""From what ranks do back to a schedule: which chunks go over which link, in steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.collective import CUSTOM
from ocs_codesign.core.compute.kernels import for_work
from ocs_codesign.core.demand import COPY, MOVE, SUM
from ocs_codesign.core.plans import GET, INPUT, PUT, SCRATCH, SEND
from ocs_codesign.core.schedule import Schedule
from ocs_codesign.core.topology import Topology, before, distinct, places
from ocs_codesign.interop.lowering.hops import Slots, cut, runs_on_end, unions
from ocs_codesign.verification.kernels import longest_before
from ocs_codesign.verification.rank_order import Order, ends_of_operations, grouped, order_of
from ocs_codesign.verification.rank_programs import (
    cells_with,
    check_program,
    data_of,
    ends_of,
    first_chunks,
)
from ocs_codesign.verification.schedules import AT_LEAST_ONCE, verify
from ocs_codesign.verification.sends import Witness

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.core.collective import Collective
    from ocs_codesign.core.demand import Demand
    from ocs_codesign.core.plans import RankProgram
    from ocs_codesign.interop.lowering.hops import Hops, Placement


def raised(program: RankProgram) -> Schedule:
    """The schedule that a program runs: a link for every (rank, peer, channel) that it sends over.

    Steps are those of the program if it has them for all that is sent and they keep what it needs;
    else every send has the step after the last one that it depends on. Links are in the order of
    (rank, peer, channel) and of equal speed. In an allreduce a chunk is of the shard of the rank
    where its sum first is whole, so that shards may have sizes. Raises ValueError for a program
    that is not right, or that is no schedule since it sends a part of a sum twice, as recursive
    doubling of whole vectors does.

    >>> from ocs_codesign.core.collective import Collective
    >>> from ocs_codesign.interop.lowering.lowering import lower
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
    moves = np.flatnonzero(_sending(program))
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
    own = order.program.step.astype(np.int64)
    return own if _has_steps(order.program) and _steps_hold(order) else _found_steps(order)


def steps_follow(program: RankProgram) -> bool:
    """Whether the steps of all that is sent are what a reader finds without them, or are unknown.

    That is the number of messages, one after the other, behind which a send is, counted without
    those numbers that no send has. Of a program that never ends it is true.
    """
    order = order_of(program, None)
    if isinstance(order, Witness) or not _has_steps(program):
        return True
    moves = _sending(program)
    return bool((_found_steps(order)[moves] == program.step[moves]).all())


def steps_hold(program: RankProgram) -> bool:
    """Whether nothing is sent in the step of a message that it waits for, or before, if known.

    Of a program that never ends it is true.
    """
    order = order_of(program, None)
    return isinstance(order, Witness) or not _has_steps(program) or _steps_hold(order)


def _sending(program: RankProgram) -> NDArray[np.bool_]:
    return np.isin(program.kind, (SEND, PUT, GET))


def _has_steps(program: RankProgram) -> bool:
    return bool((program.step[_sending(program)] > 0).all())


def _steps_hold(order: Order) -> bool:
    own, moves = order.program.step.astype(np.int64), _sending(order.program)
    return bool((_most_before(order, own)[moves] < own[moves]).all())


def _found_steps(order: Order) -> NDArray[np.int64]:
    moves = _sending(order.program)
    step = np.ones(len(moves), dtype=np.int64)
    step[moves] += np.unique(_most_before(order)[moves], return_inverse=True)[1]
    return step


def _most_before(order: Order, own: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """Of every operation the largest number that came with the messages that it is after.

    A message brings the ``own`` number of what sends it or, without any, one more than came there.
    """
    num = order.program.num_operations
    start, edge = grouped(order.after, np.arange(len(order.after)), num)
    earlier = order.before[edge]
    takes = ~order.is_local[edge] | (order.program.kind[earlier] == GET)
    most, more = np.zeros(num, dtype=np.int64), takes.astype(np.int64)
    if own is not None:
        owner = np.repeat(np.arange(num), np.diff(start))
        np.maximum.at(most, owner[takes], own[earlier[takes]])
        more = np.zeros_like(more)
    loop = for_work(longest_before, len(earlier))
    loop(order.order, start, earlier, more, most)
    return most


def _joined(
    columns: list[NDArray[np.int64]], chunk: NDArray[np.int64], size: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Runs of chunks that follow each other where columns are alike: a row of each, lo and hi."""
    order = np.lexsort((chunk, *columns))
    lo = chunk[order]
    first, total = runs_on_end([column[order] for column in columns], [lo], size[order])
    return order[first], lo[first], lo[first] + total


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


# Rows: hops with the slots that they read at their sender and write at their receiver.


@final
@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Hops, the slots that they read and write, and whether they add to what is there."""

    hops: Hops
    source: Slots
    target: Slots
    adds: NDArray[np.bool_]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Locals:
    """So many chunks that are copied within a rank before anything is sent or received there."""

    rank: NDArray[np.int64]
    source: Slots
    target: Slots
    count: NDArray[np.int64]


@final
@dataclass(slots=True, eq=False)
class Scratch:
    """How many chunks of scratch every rank has taken; it only grows."""

    size: NDArray[np.int64]

    def taken(self, rank: NDArray[Any], count: NDArray[Any]) -> NDArray[np.int64]:
        """The first chunk of a run for each of these, one behind the other."""
        first: NDArray[np.int64] = self.size[rank] + before(rank, count)
        np.add.at(self.size, rank, count)
        return first


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Kept:
    """What ranks keep in scratch of the chunks that they have no other place for.

    Runs of places, which are rank * stride + chunk, and where each begins in the rank's scratch.
    """

    stride: int
    lo: NDArray[np.int64]
    hi: NDArray[np.int64]
    first: NDArray[np.int64]

    @classmethod
    def of(cls, hops: Hops, stride: int, slots: Slots, scratch: Scratch) -> _Kept:
        """Room for what is received and has no slot."""
        without = np.flatnonzero(slots.buffer < 0)
        begin = hops.receiver[without].astype(np.int64) * stride
        lo, hi = unions(begin + hops.lo[without], begin + hops.hi[without])
        return cls(stride, lo, hi, scratch.taken(lo // stride, hi - lo))

    def filled(self, slots: Slots, rank: NDArray[Any], hops: Hops) -> Slots:
        """The slots, and where there is none that in scratch."""
        without = np.flatnonzero(slots.buffer < 0)
        if not len(without):
            return slots
        place = rank[without].astype(np.int64) * self.stride + hops.lo[without]
        run = np.searchsorted(self.lo, place, side="right") - 1
        size = hops.hi[without] - hops.lo[without]
        lost = (run < 0) | (place + size > self.hi[run] if len(self.hi) else True)
        if lost.any():
            _refuse(hops, int(without[lost.argmax()]))
        buffer, chunk = slots.buffer.copy(), slots.chunk.copy()
        buffer[without] = SCRATCH
        chunk[without] = self.first[run] + place - self.lo[run]
        return Slots(buffer, chunk)


def _refuse(hops: Hops, row: int) -> None:
    raise ValueError(
        f"step {int(hops.step[row])}: node {int(hops.sender[row])} sends to "
        f"{int(hops.receiver[row])} what it does not have: only verified plans can be lowered"
    )


def rows_of(hops: Hops, placed: Placement, scratch: Scratch) -> tuple[list[Rows], list[Locals]]:
    """The slots of all hops by kind, and what ranks copy at first."""
    rows: list[Rows] = []
    copied: list[Locals] = []
    for kind, resolve in ((SUM, _sums), (COPY, _copies), (MOVE, _moves)):
        mine = np.flatnonzero(hops.kind == kind)
        if len(mine) or kind == COPY:  # nothing at all is sent by one rank
            found, first = resolve(_in_pieces(hops.at(mine), placed), placed, scratch)
            rows.append(found)
            copied += first
    copied.append(_own(rows, placed))
    return rows, copied


def _in_pieces(hops: Hops, placed: Placement) -> Hops:
    row, piece, lo, hi = cut(hops.lo, hops.hi, placed.edges)
    return hops.at(row, lo, hi, piece)


def _own(rows: list[Rows], placed: Placement) -> Locals:
    """What ranks have before and want after, and never receive, where it stands apart."""
    stride = placed.stride
    places = [np.zeros((2, 0), dtype=np.int64)]
    for part in rows:
        begin = part.hops.receiver.astype(np.int64) * stride
        places.append(np.stack([begin + part.hops.lo, begin + part.hops.hi]))
    rank, piece = placed.own()
    got = np.stack(unions(*np.concatenate(places, axis=1)), axis=1).ravel()
    edges = np.concatenate([[-2, -1], got, [placed.num_ranks * stride]])
    begin = rank * stride
    row, number, lo, hi = cut(begin + placed.edges[piece], begin + placed.edges[piece + 1], edges)
    left = number % 2 == 1  # between the end of one run and the first place of the next
    row, lo, hi = row[left], lo[left] % stride, (hi - lo)[left]
    rank, piece = rank[row], piece[row]
    source = placed.had(rank, piece, lo)
    target = placed.wanted(rank, piece, lo)
    apart = np.flatnonzero((source.buffer != target.buffer) & (hi > 0))
    return Locals(rank[apart], source.at(apart), target.at(apart), hi[apart])


def _copies(hops: Hops, placed: Placement, scratch: Scratch) -> tuple[Rows, list[Locals]]:
    """The root sends its own, or its sum; others pass on what they have received."""
    hops = _received_once(hops, placed)
    wanted = placed.wanted(hops.receiver, hops.piece, hops.lo)
    kept = _Kept.of(hops, placed.stride, wanted, scratch)
    held = placed.wanted(hops.sender, hops.piece, hops.lo)
    if not hops.is_twofold:
        had = placed.had(hops.sender, hops.piece, hops.lo)
        held = had.or_else(held, hops.sender == placed.root[hops.piece])
    source = kept.filled(held, hops.sender, hops)
    target = kept.filled(wanted, hops.receiver, hops)
    return Rows(hops, source, target, np.zeros(len(hops.lo), dtype=bool)), []


def _received_once(hops: Hops, placed: Placement) -> Hops:
    """The hops without what their receivers have already."""
    needed = np.flatnonzero(hops.receiver != placed.root[hops.piece])
    hops = hops if len(needed) == len(hops.lo) else hops.at(needed)
    begin = hops.receiver.astype(np.int64) * placed.stride
    lo, hi = begin + hops.lo, begin + hops.hi
    order = np.argsort(lo, kind="stable")
    if (lo[order][1:] >= np.maximum.accumulate(hi[order])[:-1]).all():
        return hops
    row, cell, lo, hi = cut(lo, hi, distinct(np.concatenate([lo, hi])))
    first = np.sort(np.unique(cell, return_index=True)[1])
    row, begin = row[first], begin[row[first]]
    return hops.at(row, lo[first] - begin, hi[first] - begin)


def _moves(hops: Hops, placed: Placement, scratch: Scratch) -> tuple[Rows, list[Locals]]:
    """What is moved stands in scratch of its own at every node that passes it on."""
    edges = distinct(np.concatenate([hops.lo, hops.hi]))
    row, cell, lo, hi = cut(hops.lo, hops.hi, edges)
    order = np.lexsort((lo, hops.line[row], hops.step[row]))
    row, cell = row[order], cell[order]
    hops = hops.at(row, lo[order], hi[order])
    target = placed.wanted(hops.receiver, hops.piece, hops.lo)
    without = np.flatnonzero(target.buffer < 0)
    target.buffer[without] = SCRATCH
    size = (hops.hi - hops.lo)[without]
    target.chunk[without] = scratch.taken(hops.receiver[without], size)
    source = placed.had(hops.sender, hops.piece, hops.lo)
    order = np.argsort(cell, kind="stable")
    again = np.flatnonzero(np.diff(cell[order]) == 0) + 1
    now, last = order[again], order[again - 1]
    source.buffer[now], source.chunk[now] = target.buffer[last], target.chunk[last]
    lost = source.buffer < 0
    lost[now] |= hops.receiver[last] != hops.sender[now]
    if lost.any():
        _refuse(hops, int(lost.argmax()))
    return Rows(hops, source, target, np.zeros(len(hops.lo), dtype=bool)), []


def _sums(hops: Hops, placed: Placement, scratch: Scratch) -> tuple[Rows, list[Locals]]:
    """Ranks add to a sum of their own, which begins as their part of it or as what comes first."""
    stride = placed.stride
    begin = hops.receiver.astype(np.int64) * stride
    got = distinct(np.concatenate([begin + hops.lo, begin + hops.hi]))
    edges = np.concatenate([[-1], got, [placed.num_ranks * stride]])
    row, cell, lo, hi = cut(begin + hops.lo, begin + hops.hi, edges)
    hops = hops.at(row, lo - begin[row], hi - begin[row])
    _, first_row = np.unique(cell, return_index=True)
    is_first = np.zeros(len(cell), dtype=bool)
    is_first[first_row] = True
    since = np.full(len(edges), np.iinfo(np.int32).max)
    since[cell[first_row]] = hops.step[first_row]
    begin = hops.sender.astype(np.int64) * stride
    row, cell, lo, hi = cut(begin + hops.lo, begin + hops.hi, edges)
    hops, is_first = hops.at(row, lo - begin[row], hi - begin[row]), is_first[row]

    theirs = _summed_at(hops, placed, hops.receiver)
    kept = _Kept.of(hops, stride, theirs, scratch)
    target = kept.filled(theirs, hops.receiver, hops)
    own = placed.had(hops.sender, hops.piece, hops.lo)
    is_own = since[cell] >= hops.step
    if (is_own & (own.buffer < 0)).any():
        _refuse(hops, int((is_own & (own.buffer < 0)).argmax()))
    held = own.or_else(_summed_at(hops, placed, hops.sender), is_own)
    source = kept.filled(held, hops.sender, hops)

    base = placed.had(hops.receiver, hops.piece, hops.lo)
    adds = hops.adds & ~(is_first & (base.buffer < 0))
    apart = is_first & adds & (base.buffer != target.buffer)
    starts = np.flatnonzero(apart)
    size = (hops.hi - hops.lo)[starts]
    copied = Locals(
        hops.receiver[starts].astype(np.int64), base.at(starts), target.at(starts), size
    )
    return Rows(hops, source, target, adds), [copied]


def _summed_at(hops: Hops, placed: Placement, rank: NDArray[Any]) -> Slots:
    """Where ranks add up what they receive, but for scratch."""
    wanted = placed.wanted(rank, hops.piece, hops.lo)
    if placed.place_buffer != INPUT:
        return wanted
    had = placed.had(rank, hops.piece, hops.lo)
    return had.or_else(wanted, had.buffer >= 0)
