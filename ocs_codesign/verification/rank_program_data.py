"""What ranks have in their buffers before a program and must have after it, and a run of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.demand import SUM
from ocs_codesign.kernels import for_work
from ocs_codesign.rank_program import GET, INPUT, OUTPUT, PUT, SEND
from ocs_codesign.verification import rank_program_kernels as loops
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
    """Chunks in slots: slot among all of all ranks, number of the chunk, and rank, of each."""

    slot: NDArray[np.int64]
    datum: NDArray[np.int64]
    rank: NDArray[np.int64]


def data_of(program: RankProgram, base: NDArray[np.int64]) -> tuple[Held, Held]:
    """What is had before and what is wanted after; ``base[rank, buffer]`` begins a buffer."""
    first, last = program.demands[0], program.demands[-1]
    tables = [_pieces(first, before=True), _pieces(last, before=False)]
    spots = []
    for (rank, piece), demand, buffer in zip(tables, (first, last), (INPUT, OUTPUT), strict=True):
        size = demand.weight[piece] * program.chunks_per_unit
        total = np.cumsum(size) - size
        spots.append(base[rank, buffer] + total - total[np.searchsorted(rank, rank)])
    if program.in_place:
        larger = program.place_buffer == OUTPUT
        smaller = not larger
        keys = [rank * first.num_pieces + piece for rank, piece in tables]
        at = np.searchsorted(keys[larger], keys[smaller])
        at = np.minimum(at, max(0, len(keys[larger]) - 1))
        is_part = keys[larger][at] == keys[smaller]
        spots[smaller] = np.where(is_part, spots[larger][at], spots[smaller])
    sides = []
    for (rank, piece), spot in zip(tables, spots, strict=True):
        size = first.weight[piece] * program.chunks_per_unit
        row = np.repeat(np.arange(len(piece)), size)
        within = np.arange(len(row)) - (np.cumsum(size) - size)[row]
        chunk = first.first_units()[piece] * program.chunks_per_unit
        sides.append(Held(spot[row] + within, chunk[row] + within, rank[row]))
    return sides[0], sides[1]


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

    Of every slot the number of the chunk that it has (``datum``, int64, -1 for none) and the ranks
    whose contributions (``parts``, uint64, a bit a rank); of every chunk the ranks that have one
    (``whole``). ``on_way`` and ``parts_on_way`` are the same of what operation o sends, puts or
    gets, from ``transit[o]`` on. ``fault`` is of the first ``operation`` that is wrong, 0 if none.
    """

    datum: NDArray[np.int64]
    parts: NDArray[np.uint64]
    whole: NDArray[np.uint64]
    transit: NDArray[np.int64]
    on_way: NDArray[np.int64]
    parts_on_way: NDArray[np.uint64]
    operation: int
    fault: int


def wrong_data(order: Order, base: NDArray[np.int64]) -> Witness | None:
    """Run the program once, with sets of ranks for data: what it adds wrongly, or ends without."""
    had, wanted = data_of(order.program, base)
    faults = (_wrong(order.program, ended, wanted) for ended in ends_of(order, base, had))
    return next((fault for fault in faults if fault is not None), None)


def ends_of(order: Order, base: NDArray[np.int64], had: Held) -> Iterator[Ended]:
    """The end of a run for every 64 ranks, so that sets are words.

    What is never summed is one rank's all along: then one run will do, in which all have the same
    bit, so that adding is a fault at once.
    """
    program = order.program
    if not (program.demands[0].kind == SUM).any():
        yield _ended(order, base, had, np.ones(len(had.rank), dtype=np.uint64))
        return
    for word in range(-(-program.num_ranks // _WORD_BITS)):
        bit = np.uint64(1) << (had.rank % _WORD_BITS).astype(np.uint64)
        bit[had.rank // _WORD_BITS != word] = 0
        yield _ended(order, base, had, bit)


def _ended(order: Order, base: NDArray[np.int64], had: Held, bit: NDArray[np.uint64]) -> Ended:
    program, demand = order.program, order.program.demands[0]
    slots = int(sum(size.sum() for size in program.buffer_sizes()))
    datum, parts = np.full(slots, -1, dtype=np.int64), np.zeros(slots, dtype=np.uint64)
    datum[had.slot], parts[had.slot] = had.datum, bit
    is_sent = np.isin(program.kind, (SEND, PUT, GET))
    size = np.where(is_sent, program.count, 0).astype(np.int64)
    transit = np.cumsum(size) - size
    got = np.flatnonzero((order.meets >= 0) & ~is_sent)
    transit[got] = transit[order.meets[got]]
    source = base[program.rank, program.source_buffer] + program.source
    owner = np.where(np.isin(program.kind, (PUT, GET)), program.peer, program.rank)
    target = base[owner, program.target_buffer] + program.target
    on_way = np.full(int(size.sum()), -1, dtype=np.int64)
    parts_on_way = np.zeros(len(on_way), dtype=np.uint64)
    columns = (program.kind, source, target, program.count, transit)
    run = for_work(loops.executed, int(program.count.sum(dtype=np.int64)))
    operation, _, fault = run(order.order, *columns, datum, parts, on_way, parts_on_way)
    chunks = int(demand.weight.sum()) * program.chunks_per_unit
    whole = np.zeros(chunks, dtype=np.uint64)
    np.bitwise_or.at(whole, had.datum, bit)
    return Ended(datum, parts, whole, transit, on_way, parts_on_way, int(operation), int(fault))


def _wrong(program: RankProgram, ended: Ended, wanted: Held) -> Witness | None:
    if ended.fault:
        return told(program, ended.operation, _RULES[ended.fault])
    has = ended.datum[wanted.slot]
    broken = [
        (has < 0, NEVER_WRITTEN),
        (has != wanted.datum, OTHER_DATA),
        (ended.parts[wanted.slot] != ended.whole[wanted.datum], NOT_WHOLE),
    ]
    for where, rule in broken:
        if where.any():
            return _lacking(program, wanted, int(where.argmax()), rule)
    return None


def _lacking(program: RankProgram, wanted: Held, at: int, rule: str) -> Witness:
    demand, datum = program.demands[0], int(wanted.datum[at])
    firsts = demand.first_units() * program.chunks_per_unit
    piece = int(np.searchsorted(firsts, datum, side="right")) - 1
    item = int(np.searchsorted(demand.piece_start, piece, side="right")) - 1
    chunk = datum - int(firsts[demand.piece_start[item]])
    return Witness(rule, int(demand.root[item]), chunk, rank=int(wanted.rank[at]))
