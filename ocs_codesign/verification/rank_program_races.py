"""Whether all accesses of a slot are in one order: within ranks, by ways of chunks, by everything.

Nearly all accesses of a slot are ordered within their rank. What is left, above all a whole sum
that overwrites a part sent before, is ordered along the way of its chunk: from slot to slot by
sends, and within slots by what is ordered already. These ways are apart for every chunk, so that
looking for all is little work. Only what still is left is looked for among all operations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.kernels import for_work
from ocs_codesign.rank_program import (
    ADD,
    COPY,
    GET,
    PUT,
    RECEIVE,
    RECEIVE_ADD,
    SEND,
    SIGNAL,
    WAIT,
)
from ocs_codesign.verification import rank_program_kernels as loops
from ocs_codesign.verification.rank_program_cells import ascending, ends_of_operations
from ocs_codesign.verification.rank_program_order import grouped, told

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.verification.rank_program_cells import Cells
    from ocs_codesign.verification.rank_program_order import Order, Pairs
    from ocs_codesign.verification.witness import Witness

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
        loop = for_work(loops.latest_before, len(before) * len(chosen))
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
    chunk = for_work(loops.joined, len(one))(num, one, other)
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
        loop = for_work(loops.handed_on, len(before) * held.shape[1])
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
