"""What ranks have in their buffers before a program and must have after it, and a run of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.demand import SUM
from ocs_codesign.kernels import for_work
from ocs_codesign.rank_program import (
    GET,
    INPUT,
    NOP,
    OUTPUT,
    PUT,
    RECEIVE,
    RECEIVE_ADD,
    SEND,
    SIGNAL,
    WAIT,
)
from ocs_codesign.verification import rank_program_kernels as loops
from ocs_codesign.verification.rank_program_cells import Cells, cells_of, ends_of_operations
from ocs_codesign.verification.rank_program_order import told
from ocs_codesign.verification.witness import Witness

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ocs_codesign.demand import Demand
    from ocs_codesign.rank_program import RankProgram
    from ocs_codesign.verification.rank_program_order import Order

_WORD_BITS = 64

_RULES = {
    loops.TWICE: "a contribution would be added a second time",
    loops.MIXED: "parts of different chunks would be added",
    loops.NOTHING: "something would be added that never was written",
}
NEVER_WRITTEN = "this rank never gets a chunk that it must have"
OTHER_DATA = "this rank has another chunk where this one must be"
NOT_WHOLE = "the sum of this chunk at this rank is not whole"


@final
@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """Pieces in the buffers of ranks: the first slot of each among all, and how many it has."""

    rank: NDArray[np.int64]
    piece: NDArray[np.int64]
    slot: NDArray[np.int64]
    size: NDArray[np.int64]


def data_of(program: RankProgram, base: NDArray[np.int64]) -> tuple[Held, Held]:
    """What is had before and what is wanted after; ``base[rank, buffer]`` begins a buffer."""
    first, last = program.demands[0], program.demands[-1]
    tables = [_pieces(first, before=True), _pieces(last, before=False)]
    slots, sizes = [], []
    for (rank, piece), demand, buffer in zip(tables, (first, last), (INPUT, OUTPUT), strict=True):
        size = demand.weight[piece] * program.chunks_per_unit
        total = np.cumsum(size) - size
        slots.append(base[rank, buffer] + total - total[np.searchsorted(rank, rank)])
        sizes.append(size)
    if program.in_place:
        larger = program.place_buffer == OUTPUT
        smaller = not larger
        keys = [rank * first.num_pieces + piece for rank, piece in tables]
        at = np.searchsorted(keys[larger], keys[smaller])
        at = np.minimum(at, max(0, len(keys[larger]) - 1))
        is_part = keys[larger][at] == keys[smaller]
        slots[smaller] = np.where(is_part, slots[larger][at], slots[smaller])
    had, wanted = (
        Held(*table, slot, size) for table, slot, size in zip(tables, slots, sizes, strict=True)
    )
    return had, wanted


def _pieces(demand: Demand, *, before: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rank and piece of all that ranks have before, or must have after, in the order of buffers."""
    item = demand.item_of_piece()
    is_at_root = (demand.kind[item] == SUM) != before
    own = np.flatnonzero(is_at_root)
    others = np.flatnonzero(~is_at_root)
    begin, end = (demand.group_start[demand.group[others] + late] for late in (0, 1))
    row = np.repeat(np.arange(len(others)), end - begin)
    member = np.arange(len(row)) - (np.cumsum(end - begin) - end)[row]
    rank = np.concatenate([demand.root[item[own]], demand.member[member]]).astype(np.int64)
    piece = np.concatenate([own, others[row]])
    order = np.lexsort((piece, rank))
    return rank[order], piece[order]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Ended:
    """What a run with sets of ranks comes to, of the contributions of 64 ranks or of all as one.

    Of every cell of slots the number of the first chunk that it has (``datum``, int64, -1 for none)
    and the ranks whose contributions (``parts``, uint64, a bit a rank); of every piece the ranks
    that have one (``whole``). ``on_way`` and ``parts_on_way`` are the same of what operation o
    sends, puts or gets, from ``transit[o]`` on. ``fault`` is of the first ``operation`` that is
    wrong, 0 if none.
    """

    cells: Cells
    datum: NDArray[np.int64]
    parts: NDArray[np.uint64]
    whole: NDArray[np.uint64]
    transit: NDArray[np.int64]
    on_way: NDArray[np.int64]
    parts_on_way: NDArray[np.uint64]
    operation: int
    fault: int


def wrong_data(
    order: Order, base: NDArray[np.int64], cells: Cells, sides: tuple[Held, Held]
) -> Witness | None:
    """Run the program once, with sets of ranks for data: what it adds wrongly, or ends without.

    ``sides`` are what is had before and wanted after.
    """
    ends = ends_of(order, base, sides[0], cells)
    faults = (_wrong(order.program, ended, sides[1]) for ended in ends)
    return next((fault for fault in faults if fault is not None), None)


def cells_with(order: Order, base: NDArray[np.int64], sides: tuple[Held, Held]) -> Cells:
    """The cells of a program's slots, none of which has more than one piece of these."""
    slots = int(sum(size.sum() for size in order.program.buffer_sizes()))
    borders = [side for held in sides for side in (held.slot, held.slot + held.size)]
    return cells_of(order, base, slots, np.concatenate(borders))


def ends_of(order: Order, base: NDArray[np.int64], had: Held, cells: Cells) -> Iterator[Ended]:
    """The end of a run for every 64 ranks, so that sets are words.

    What is never summed is one rank's all along: then one run will do, in which all have the same
    bit, so that adding is a fault at once.
    """
    program = order.program
    if not (program.demands[0].kind == SUM).any():
        yield _ended(order, base, had, np.ones(len(had.rank), dtype=np.uint64), cells)
        return
    for word in range(-(-program.num_ranks // _WORD_BITS)):
        bit = np.uint64(1) << (had.rank % _WORD_BITS).astype(np.uint64)
        bit[had.rank // _WORD_BITS != word] = 0
        yield _ended(order, base, had, bit, cells)


def _ended(
    order: Order, base: NDArray[np.int64], had: Held, bit: NDArray[np.uint64], cells: Cells
) -> Ended:
    program = order.program
    datum, parts = np.full(cells.num, -1, dtype=np.int64), np.zeros(cells.num, dtype=np.uint64)
    run, cell, before = cells.within(had.slot, had.size)
    datum[cell], parts[cell] = first_chunks(program)[had.piece[run]] + before, bit[run]
    source, target = ends_of_operations(order, base)
    is_sent = np.isin(program.kind, (SEND, PUT, GET))
    is_got = np.isin(program.kind, (RECEIVE, RECEIVE_ADD))
    first = np.where(is_got, target, source)
    size = cells.number(first + program.count) - cells.number(first)
    size[np.isin(program.kind, (NOP, SIGNAL, WAIT))] = 0
    transit = np.cumsum(np.where(is_sent, size, 0)) - np.where(is_sent, size, 0)
    transit[is_got] = transit[order.meets[is_got]]
    on_way = np.full(int(size[is_sent].sum()), -1, dtype=np.int64)
    parts_on_way = np.zeros(len(on_way), dtype=np.uint64)
    columns = (program.kind, cells.number(source), cells.number(target), size, transit)
    executed = for_work(loops.executed, int(size.sum()))
    operation, _, fault = executed(order.order, *columns, datum, parts, on_way, parts_on_way)
    whole = np.zeros(program.demands[0].num_pieces, dtype=np.uint64)
    np.bitwise_or.at(whole, had.piece, bit)
    return Ended(
        *(cells, datum, parts, whole, transit, on_way, parts_on_way, int(operation), int(fault))
    )


def first_chunks(program: RankProgram) -> NDArray[np.int64]:
    """The first chunk of every piece, counted over all items, and the end of the last."""
    firsts: NDArray[np.int64] = program.demands[0].first_units() * program.chunks_per_unit
    return firsts


def _wrong(program: RankProgram, ended: Ended, wanted: Held) -> Witness | None:
    if ended.fault:
        return told(program, ended.operation, _RULES[ended.fault])
    run, cell, before = ended.cells.within(wanted.slot, wanted.size)
    has, chunk = ended.datum[cell], first_chunks(program)[wanted.piece[run]] + before
    broken = [
        (has < 0, NEVER_WRITTEN),
        (has != chunk, OTHER_DATA),
        (ended.parts[cell] != ended.whole[wanted.piece[run]], NOT_WHOLE),
    ]
    for where, rule in broken:
        if where.any():
            at = int(where.argmax())
            return _lacking(program, int(wanted.rank[run[at]]), int(chunk[at]), rule)
    return None


def _lacking(program: RankProgram, rank: int, chunk: int, rule: str) -> Witness:
    demand = program.demands[0]
    first = first_chunks(program)[demand.piece_start]
    item = int(np.searchsorted(first, chunk, side="right")) - 1
    return Witness(rule, int(demand.root[item]), chunk - int(first[item]), rank=rank)
