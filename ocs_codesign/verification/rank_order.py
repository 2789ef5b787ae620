"""What operations of ranks wait for, and an order in which they all can run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.compute.kernels import for_work
from ocs_codesign.core.plans import (
    ADD,
    COPY,
    GET,
    KINDS,
    PUT,
    RECEIVE,
    RECEIVE_ADD,
    SEND,
    SIGNAL,
    WAIT,
)
from ocs_codesign.verification import kernels
from ocs_codesign.verification.sends import Witness

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.core.plans import RankProgram

    Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]
    "Operations, and others that are after them."
    Ways = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
    "First slots, first slots of where these go, and how many."


STUCK = "this operation waits for ever"
NOT_TAKEN = "what is sent here is never received"
NOT_SENT = "what is received here is never sent"
NOT_WAITED = "no wait takes what is signalled here"
NOT_SIGNALLED = "what is waited for here is never signalled"
OTHER_COUNT = "this receives {got} chunks of {sent} that are sent"


@final
@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """Which operations of a program come after which, and an order in which all can run.

    ``before`` and ``after`` (int64) are pairs: of a rank's own by stream and need, and with sends
    and signals before what they meet. ``meets`` (int64) is of a send its receive and the other way
    round, -1 of others. ``place`` (int64) is the number of an operation in its stream, ``stream``
    (int64) that of its stream among all of all ranks, by rank.
    """

    program: RankProgram
    before: NDArray[np.int64]
    after: NDArray[np.int64]
    is_local: NDArray[np.bool_]
    meets: NDArray[np.int64]
    stream: NDArray[np.int64]
    place: NDArray[np.int64]
    order: NDArray[np.int64]


def order_of(program: RankProgram, fifo_depth: int | None) -> Order | Witness:
    """The order of a program whose channels hold ``fifo_depth`` sends, None for any number.

    Or the first operation that never runs, or meets nothing or something of another size.
    """
    num = program.num_operations
    stream, place, local = _local(program)
    sends = _met(program, (SEND,), (RECEIVE, RECEIVE_ADD), NOT_TAKEN, NOT_SENT)
    if isinstance(sends, Witness):
        return sends
    signals = _met(program, (SIGNAL,), (WAIT,), NOT_WAITED, NOT_SIGNALLED)
    if isinstance(signals, Witness):
        return signals
    unequal = np.flatnonzero(program.count[sends[0]] != program.count[sends[1]])
    if len(unequal):
        sent, got = (int(side[unequal[0]]) for side in sends)
        rule = OTHER_COUNT.format(got=int(program.count[got]), sent=int(program.count[sent]))
        return told(program, got, rule)
    meets = np.full(num, -1)
    meets[sends[0]], meets[sends[1]] = sends[1], sends[0]
    before = np.concatenate([local[0], sends[0], signals[0]])
    after = np.concatenate([local[1], sends[1], signals[1]])
    room = _room(program, sends, fifo_depth)
    order = _sorted(np.concatenate([before, room[0]]), np.concatenate([after, room[1]]), num)
    if len(order) < num:
        return _stuck(program, order, (before, after), room)
    is_local = np.arange(len(before)) < len(local[0])
    return Order(program, before, after, is_local, meets, stream, place, order)


def told(program: RankProgram, operation: int, rule: str) -> Witness:
    """Witness of an operation, told with its kind and peer."""
    kind, peer = KINDS[int(program.kind[operation])], int(program.peer[operation])
    what = kind if peer < 0 else f"{kind}, peer {peer}, channel {int(program.channel[operation])}"
    return Witness(f"{rule} ({what})", rank=int(program.rank[operation]), operation=operation)


def _local(program: RankProgram) -> tuple[NDArray[np.int64], NDArray[np.int64], Pairs]:
    """Stream and place of every operation, and what is after what within ranks."""
    num = program.num_operations
    key = program.rank * (int(program.stream.max(initial=0)) + np.int64(1)) + program.stream
    stream = np.unique(key, return_inverse=True)[1]
    order = np.argsort(stream, kind="stable")
    follows = np.flatnonzero(np.diff(stream[order]) == 0)
    first = np.searchsorted(stream[order], stream[order])
    place = np.empty(num, dtype=np.int64)
    place[order] = np.arange(num) - first
    owner = np.repeat(np.arange(num), np.diff(program.need_start))
    before = np.concatenate([order[follows], program.need])
    return stream, place, (before, np.concatenate([order[follows + 1], owner]))


def _met(
    program: RankProgram, gives: tuple[int, ...], takes: tuple[int, ...], left: str, lacks: str
) -> Pairs | Witness:
    """The operations that meet: the k-th of a rank, peer and channel the k-th over there."""
    giver = np.flatnonzero(np.isin(program.kind, gives))
    taker = np.flatnonzero(np.isin(program.kind, takes))
    keys, channels = [], int(program.channel.max(initial=0)) + 1
    for rows, ends in ((giver, ("rank", "peer")), (taker, ("peer", "rank"))):
        from_rank, to_rank = (getattr(program, end)[rows].astype(np.int64) for end in ends)
        channel = program.channel[rows]
        keys.append((from_rank * program.num_ranks + to_rank) * channels + channel)
    _, line = np.unique(np.concatenate(keys), return_inverse=True)
    given, taken = line[: len(giver)], line[len(giver) :]
    orders = np.argsort(given, kind="stable"), np.argsort(taken, kind="stable")
    giver, given, taker, taken = (
        giver[orders[0]],
        given[orders[0]],
        taker[orders[1]],
        taken[orders[1]],
    )
    number = [np.arange(len(side)) - np.searchsorted(side, side) for side in (given, taken)]
    lines = int(line.max(initial=-1)) + 1
    sizes = [np.bincount(side, minlength=lines) for side in (given, taken)]
    alone = giver[number[0] >= sizes[1][given]]
    if len(alone):
        return told(program, int(alone.min()), left)
    alone = taker[number[1] >= sizes[0][taken]]
    if len(alone):
        return told(program, int(alone.min()), lacks)
    return giver, taker


def _room(program: RankProgram, sends: Pairs, fifo_depth: int | None) -> Pairs:
    """A receive is before the send that needs the place of what it takes."""
    none = np.zeros(0, dtype=np.int64)
    if fifo_depth is None:
        return none, none
    sent, got = sends  # by channel, and then in turn
    line = [getattr(program, name)[sent] for name in ("rank", "peer", "channel")]
    last = np.arange(max(0, len(sent) - fifo_depth))
    same = np.ones(len(last), dtype=bool)
    for column in line:
        same &= column[last] == column[last + fifo_depth]
    return got[last[same]], sent[last[same] + fifo_depth]


def _sorted(before: NDArray[np.int64], after: NDArray[np.int64], num: int) -> NDArray[np.int64]:
    start, successor = grouped(before, after, num)
    waits = np.bincount(after, minlength=num)
    order: NDArray[np.int64] = for_work(kernels.in_order, len(before))(start, successor, waits)
    return order


def grouped(
    key: NDArray[np.int64], value: NDArray[np.int64], num: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The values of every key, those of key k at ``start[k] : start[k + 1]``."""
    start = np.concatenate([[0], np.cumsum(np.bincount(key, minlength=num))])
    return start, value[np.argsort(key, kind="stable")]


def _stuck(program: RankProgram, order: NDArray[np.int64], pairs: Pairs, room: Pairs) -> Witness:
    """An operation of a circle, each of which waits for the one before."""
    runs = np.zeros(program.num_operations, dtype=bool)
    runs[order] = True
    before = np.concatenate([pairs[0], room[0]])
    after = np.concatenate([pairs[1], room[1]])
    blocked = np.flatnonzero(~runs[before] & ~runs[after])
    waits_for = np.full(len(runs), -1)
    waits_for[after[blocked]] = before[blocked]
    at = int(np.flatnonzero(~runs)[0])
    path: dict[int, None] = {}
    while at not in path:
        path[at] = None
        at = int(waits_for[at])
    circle = list(path)[list(path).index(at) :]
    shown = ", ".join(
        f"{operation} of rank {int(program.rank[operation])}" for operation in circle[:8]
    )
    more = f" and {len(circle) - 8} more" if len(circle) > 8 else ""
    first = min(circle)
    return told(
        program, first, f"{STUCK}: operations {shown}{more} wait for each other in a circle"
    )


# Cells: runs of slots that no operation divides, where they are or where they come from.


LARGE = 8
"""Slots of an operation, on average, from which on it pays to find cells."""
_MOST_SLOTS = 2**26
"""Slots that are taken one by one: a file may say that a rank has any number of them."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """``num`` cells of all slots; ``edges`` (int64) are the first slots of cells, None if each is
    one slot.
    """

    num: int
    edges: NDArray[np.int64] | None

    def number(self, slot: NDArray[Any]) -> NDArray[np.int64]:
        """The cell that begins at a slot, for the end of all slots the number of cells."""
        if self.edges is None:
            return slot.astype(np.int64)
        return np.searchsorted(self.edges, slot)

    def size(self, cell: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many slots cells have."""
        if self.edges is None:
            return np.ones(len(cell), dtype=np.int64)
        sizes: NDArray[np.int64] = np.diff(self.edges)[cell]
        return sizes

    def within(
        self, first: NDArray[np.int64], size: NDArray[Any]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Of every cell of runs of slots: the run, the cell, and the slots of the run before it."""
        begin = self.number(first)
        count = self.number(first + size) - begin
        run = np.repeat(np.arange(len(first)), count)
        cell = np.arange(len(run)) + (begin - np.cumsum(count) + count)[run]
        slot = cell if self.edges is None else self.edges[cell]
        return run, cell, slot - first[run]


def ends_of_operations(
    order: Order, base: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First slots among all that operations read or write here, and there or as a target."""
    program = order.program
    source = base[program.rank, program.source_buffer] + program.source
    owner = np.where(np.isin(program.kind, (PUT, GET)), program.peer, program.rank)
    return source, base[owner, program.target_buffer] + program.target


def cells_of(order: Order, base: NDArray[np.int64], slots: int, more: NDArray[np.int64]) -> Cells:
    """The cells of so many slots; ``more`` (int64) are first slots and ends besides operations'.

    Whatever divides what an operation carries at one end divides it at the other, again and again
    until nothing new comes. Where operations carry little, each slot is a cell.
    """
    program = order.program
    chunks = int(program.count.sum(dtype=np.int64))
    if chunks <= LARGE * program.num_operations and slots <= _MOST_SLOTS:
        return Cells(slots, None)
    source, target = ends_of_operations(order, base)
    sends = np.flatnonzero(program.kind == SEND)
    alone = np.flatnonzero(np.isin(program.kind, (COPY, ADD, PUT, GET)))
    size = np.concatenate([program.count[sends], program.count[alone]]).astype(np.int64)
    one = np.concatenate([source[sends], source[alone]])
    other = np.concatenate([target[order.meets[sends]], target[alone]])
    edges = ascending(np.concatenate([one, one + size, other, other + size, more, [0, slots]]))
    while True:
        found = [edges, _taken_over((one, other, size), edges)]
        found.append(_taken_over((other, one, size), edges))
        refined = ascending(np.concatenate(found))
        if len(refined) == len(edges):
            return Cells(len(edges) - 1, edges)
        edges = refined


def _taken_over(ways: Ways, edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where the edges within the runs of ways come to lie at the other end."""
    first, other, size = ways
    begin = np.searchsorted(edges, first, side="right")
    count = np.maximum(np.searchsorted(edges, first + size) - begin, 0)
    way = np.repeat(np.arange(len(first)), count)
    edge = edges[np.arange(len(way)) + (begin - np.cumsum(count) + count)[way]]
    moved: NDArray[np.int64] = ascending(edge - first[way] + other[way])
    return moved


def ascending(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """The values in order, each once; ``np.unique`` takes a hundred times as long for millions."""
    ordered = np.sort(values)
    new = np.ones(len(ordered), dtype=bool)
    new[1:] = ordered[1:] != ordered[:-1]
    return ordered[new]


# Whether all accesses of a slot are in one order: within ranks, by ways of chunks, by everything.
#
# Nearly all accesses of a slot are ordered within their rank. What is left, above all a whole sum
# that overwrites a part sent before, is ordered along the way of its chunk: from slot to slot by
# sends, and within slots by what is ordered already. These ways are apart for every chunk, so
# that looking for all is little work. Only what still is left is looked for among all operations.


_TABLE_ENTRIES = 2**24
_WORD_BITS = 64

OUT_OF_TURN = "this may overtake operation {earlier}, which is for the same peer and channel"
RACE = "nothing orders this and operation {earlier}, of which one writes a slot of both"


def race_of(order: Order, base: NDArray[np.int64], cells: Cells) -> Witness | None:
    """Two accesses of a slot in no order, or two that could overtake each other on a channel.

    ``base[rank, buffer]`` is where a buffer begins among all slots.
    """
    for rule, (first, second) in (
        (OUT_OF_TURN, _turns(order)),
        (RACE, _conflicts(order, _Accesses.of(order, base, cells))),
    ):
        if len(first):
            loose = int(first[0]), int(second[0])
            return told(order.program, loose[1], rule.format(earlier=loose[0]))
    return None


def _turns(order: Order) -> Pairs:
    """Neighbours among what meets over a channel, at each end, that are in no order."""
    program = order.program
    pairs = []
    for kinds in ((SEND,), (RECEIVE, RECEIVE_ADD), (SIGNAL,), (WAIT,)):
        rows = np.flatnonzero(np.isin(program.kind, kinds))
        columns = [getattr(program, name)[rows] for name in ("channel", "peer", "rank")]
        by_line = np.lexsort(columns)
        same = np.ones(max(0, len(rows) - 1), dtype=bool)
        for column in columns:
            same &= np.diff(column[by_line]) == 0
        at = np.flatnonzero(same)
        pairs.append((rows[by_line[at]], rows[by_line[at + 1]]))
    first, second = (np.concatenate(side) for side in zip(*pairs, strict=True))
    return _apart(order, *_apart_within_ranks(order, first, second))


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Accesses:
    """Every access of a cell of slots: by which operation, which cell, and whether it writes.

    Those of operation o that read begin at ``reads_at[o]``, and those that write at
    ``writes_at[o]``, both in the order of the operation's slots; -1 if it does not.
    """

    operation: NDArray[np.int64]
    cell: NDArray[np.int64]
    writes: NDArray[np.bool_]
    reads_at: NDArray[np.int64]
    writes_at: NDArray[np.int64]

    @classmethod
    def of(cls, order: Order, base: NDArray[np.int64], cells: Cells) -> _Accesses:
        program = order.program
        kind, gets = program.kind, program.kind == GET
        source, target = ends_of_operations(order, base)
        reads = np.flatnonzero(np.isin(kind, (SEND, COPY, ADD, PUT, GET)))
        writes = np.flatnonzero(np.isin(kind, (RECEIVE, RECEIVE_ADD, COPY, ADD, PUT, GET)))
        row = np.concatenate([reads, writes])
        from_, to = np.where(gets, target, source), np.where(gets, source, target)
        slot = np.concatenate([from_[reads], to[writes]])
        run, cell, _ = cells.within(slot, program.count[row])
        first = np.searchsorted(run, np.arange(len(row)))
        at = np.full((2, len(kind)), -1)
        at[0, reads], at[1, writes] = first[: len(reads)], first[len(reads) :]
        return cls(row[run], cell, run >= len(reads), at[0], at[1])


def _conflicts(order: Order, accesses: _Accesses) -> Pairs:
    """Operations that access a slot, of which one writes, and that are in no order.

    In every cell a write is held against the next one, and what reads in between against both:
    since order is transitive, these stand for all pairs.
    """
    one, other = _neighbours(order, accesses)
    num = len(order.order)
    key = accesses.operation[one] * num + accesses.operation[other]
    pairs = ascending(key)
    open_ = _apart_within_ranks(order, pairs // num, pairs % num)
    if not len(open_[0]):
        return open_
    is_open = np.isin(key, open_[0] * num + open_[1])
    edges = one[~is_open], other[~is_open]
    wanted = one[is_open], other[is_open]
    ordered = key[is_open][_reached(order, accesses, edges, wanted)]
    left = ~np.isin(open_[0] * num + open_[1], ordered)
    return _apart(order, open_[0][left], open_[1][left])


def _neighbours(order: Order, accesses: _Accesses) -> Pairs:
    """Accesses of one cell that must be ordered, the first of which comes before in ``order``."""
    turn = np.empty(len(order.order), dtype=np.int64)
    turn[order.order] = np.arange(len(turn))
    by_cell = np.lexsort((accesses.writes, turn[accesses.operation], accesses.cell))
    cell, writes = accesses.cell[by_cell], accesses.writes[by_cell]
    index = np.arange(len(cell))
    start = np.searchsorted(cell, cell)
    last = np.concatenate([[-1], np.maximum.accumulate(np.where(writes, index, -1))[:-1]])
    last = last[: len(index)]
    follows = np.flatnonzero(last >= start)
    following = np.minimum.accumulate(np.where(writes, index, len(index))[::-1])[::-1]
    reads = np.flatnonzero(~writes & (following < len(index)))
    reads = reads[cell[following[reads]] == cell[reads]]
    one = by_cell[np.concatenate([last[follows], reads])]
    other = by_cell[np.concatenate([follows, following[reads]])]
    apart = accesses.operation[one] != accesses.operation[other]
    return one[apart], other[apart]


def _apart_within_ranks(order: Order, first: NDArray[np.int64], second: NDArray[np.int64]) -> Pairs:
    """The pairs whose second operation is not after its first by what its rank does alone."""
    program = order.program
    same_stream = order.stream[first] == order.stream[second]
    open_ = np.flatnonzero(~same_stream | (order.place[first] > order.place[second]))
    own = order.stream - order.stream[np.searchsorted(program.rank, program.rank)]
    of_a_rank = program.rank[first[open_]] == program.rank[second[open_]]
    near = open_[of_a_rank]
    local = order.before[order.is_local], order.after[order.is_local]
    lost = near[_unreached(order, local, own, first[near], second[near])]
    rest = np.sort(np.concatenate([lost, open_[~of_a_rank]]))
    return first[rest], second[rest]


def _apart(order: Order, first: NDArray[np.int64], second: NDArray[np.int64]) -> Pairs:
    """The pairs whose second operation is not after its first."""
    pairs = order.before, order.after
    left = _unreached(order, pairs, order.stream, first, second)
    return first[left], second[left]


def _unreached(
    order: Order,
    pairs: Pairs,
    stream: NDArray[np.int64],
    first: NDArray[np.int64],
    second: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Which second operations are not after their first by these pairs; streams in blocks."""
    if not len(first):
        return np.zeros(0, dtype=np.int64)
    num = len(stream)
    start, before = grouped(pairs[1], pairs[0], num)
    needed = ascending(stream[first])
    block = max(1, _TABLE_ENTRIES // num)
    is_open = np.ones(len(first), dtype=bool)
    for begin in range(0, len(needed), block):
        chosen = needed[begin : begin + block]
        at = np.minimum(np.searchsorted(chosen, stream), len(chosen) - 1)
        column = np.where(chosen[at] == stream, at, -1)
        latest = np.full((num, len(chosen)), -1, dtype=np.int32)
        loop = for_work(kernels.latest_before, len(before) * len(chosen))
        loop(order.order, start, before, column, order.place, latest)
        mine = np.flatnonzero(column[first] >= 0)
        reached = latest[second[mine], column[first[mine]]] >= order.place[first[mine]]
        is_open[mine[reached]] = False
    return np.flatnonzero(is_open)


def _reached(order: Order, accesses: _Accesses, edges: Pairs, wanted: Pairs) -> NDArray[np.bool_]:
    """Which wanted accesses are after their first along the way of a chunk.

    Ways lead from what is read to where it is written, and from access to access of a cell where
    these are ordered. Every access has a bit for those of its chunk from which a way is wanted.
    """
    one, other = (
        np.concatenate(side) for side in zip(edges, _carried(order, accesses), strict=True)
    )
    num = len(accesses.cell)
    chunk = for_work(kernels.joined, len(one))(num, one, other)
    begin = ascending(wanted[0])
    by_chunk = begin[np.argsort(chunk[begin], kind="stable")]
    bit = np.empty(num, dtype=np.int64)
    bit[by_chunk] = np.arange(len(begin)) - np.searchsorted(chunk[by_chunk], chunk[by_chunk])
    turn = np.empty(len(order.order), dtype=np.int64)
    turn[order.order] = np.arange(len(turn))
    in_turn = np.argsort(turn[accesses.operation], kind="stable")  # reads are before writes
    start, before = grouped(other, one, num)
    words = int(bit[begin].max(initial=0)) // _WORD_BITS + 1
    block = max(1, _TABLE_ENTRIES // num)
    is_after = np.zeros(len(wanted[0]), dtype=bool)
    for first in range(0, words, block):
        held = np.zeros((num, min(block, words - first)), dtype=np.uint64)
        word = bit // _WORD_BITS - first
        marks = np.uint64(1) << (bit % _WORD_BITS).astype(np.uint64)
        mine = begin[(word[begin] >= 0) & (word[begin] < held.shape[1])]
        held[mine, word[mine]] = marks[mine]
        loop = for_work(kernels.handed_on, len(before) * held.shape[1])
        loop(in_turn, start, before, held)
        asked = np.flatnonzero(np.isin(wanted[0], mine) & (chunk[wanted[0]] == chunk[wanted[1]]))
        source, target = wanted[0][asked], wanted[1][asked]
        is_after[asked] = (held[target, word[source]] & marks[source]) > 0
    return is_after


def _carried(order: Order, accesses: _Accesses) -> Pairs:
    """What is read and where it is written, cell by cell, by one operation or two that meet."""
    program = order.program
    sends = np.flatnonzero(program.kind == SEND)
    alone = np.flatnonzero(np.isin(program.kind, (COPY, ADD, PUT, GET)))
    read = accesses.reads_at[np.concatenate([sends, alone])]
    written = accesses.writes_at[np.concatenate([order.meets[sends], alone])]
    size = np.bincount(accesses.operation[~accesses.writes], minlength=len(program.kind))
    size = size[np.concatenate([sends, alone])]
    row = np.repeat(np.arange(len(size)), size)
    within = np.arange(len(row)) - (np.cumsum(size) - size)[row]
    return read[row] + within, written[row] + within
