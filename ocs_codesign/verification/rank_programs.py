"""Independent check of programs of ranks: run once with sets for data, since the order is fixed.

Nothing here is shared with the code that makes programs: it knows only the operations and what the
collective demands. Checked in this order:

* Bounds: every operation stays within the buffers that it names, and none copies a slot onto
  itself or one that it reads.
* Partners: the k-th send over a channel meets the k-th receive, of as many chunks, and the k-th
  signal the k-th wait; none is left over, so that all channels and counters end empty.
* Deadlock: what operations wait for, in their stream, for others of their rank, for what is sent
  and for a place in a channel that holds so many sends, has no circle.
* Races: every two accesses of a slot of which one writes are ordered, by streams, needs, sends and
  signals; so are every two operations that meet others over one channel. Places in channels order
  nothing, since a deeper one would not. As order is transitive, every write is held against the
  next one and against the reads between.
* Data: one run, in any order that is possible, with the set of ranks whose contribution is in
  every slot. Sets that are added have nothing in common; in the end all is there that is demanded.

Since all accesses are in one order, every other run does the same. What it cannot see: how memory
of a machine orders accesses within an operation, faults of protocols, and speed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.compute.kernels import for_work
from ocs_codesign.core.demand import SUM
from ocs_codesign.core.plans import (
    ADD,
    BUFFERS,
    COPY,
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
from ocs_codesign.verification import kernels
from ocs_codesign.verification.rank_order import (
    Cells,
    cells_of,
    ends_of_operations,
    order_of,
    race_of,
    told,
)
from ocs_codesign.verification.sends import Witness

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ocs_codesign.core.demand import Demand
    from ocs_codesign.core.plans import RankProgram
    from ocs_codesign.verification.rank_order import Order


# What ranks have in their buffers before a program and must have after it, and a run of it.


_WORD_BITS = 64

_RULES = {
    kernels.TWICE: "a contribution would be added a second time",
    kernels.MIXED: "parts of different chunks would be added",
    kernels.NOTHING: "something would be added that never was written",
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
    executed = for_work(kernels.executed, int(size.sum()))
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


OUT_OF_BOUNDS = "this reaches beyond the {buffer} of rank {rank}, which has {size} chunks"
ONTO_ITSELF = "this reads slots that it writes"


@final
@dataclass(frozen=True, slots=True)
class RankProgramVerdict:
    """What the interpreter found: the first witness if any."""

    witness: Witness | None

    @property
    def ok(self) -> bool:
        """Whether the program ends, in whatever order its operations run, with what is demanded."""
        return self.witness is None

    def __bool__(self) -> bool:
        """The same: a verdict is true if nothing is wrong."""
        return self.ok


def check_program(program: RankProgram, *, fifo_depth: int | None = None) -> RankProgramVerdict:
    """Run a program with sets for data; channels hold ``fifo_depth`` sends, or any number (None).

    The depth decides about deadlocks alone. The witness names rank and operation. An allgather of a
    thousand ranks takes seconds; time grows with operations times streams only for what neither its
    rank nor the way of a chunk orders. Raises ValueError for a depth below 1.
    """
    if fifo_depth is not None and fifo_depth < 1:
        raise ValueError(f"fifo_depth is {fifo_depth}: a channel holds a send or more")
    sizes = np.stack(program.buffer_sizes(), axis=1)
    base = (np.cumsum(sizes) - sizes.ravel()).reshape(sizes.shape)
    witness = _out_of_bounds(program, sizes)
    if witness is not None:
        return RankProgramVerdict(witness)
    order = order_of(program, fifo_depth)
    if isinstance(order, Witness):
        return RankProgramVerdict(order)
    sides = data_of(program, base)
    cells = cells_with(order, base, sides)
    return RankProgramVerdict(race_of(order, base, cells) or wrong_data(order, base, cells, sides))


def _out_of_bounds(program: RankProgram, sizes: NDArray[np.int64]) -> Witness | None:
    """The first operation beyond a buffer, or that writes what it reads."""
    kind, count = program.kind, program.count.astype(np.int64)
    at_peer = np.isin(kind, (PUT, GET))
    owner = np.where(at_peer, program.peer, program.rank)
    touches = ~np.isin(kind, (NOP, SIGNAL, WAIT))
    alone = np.isin(kind, (COPY, ADD))
    reads_here = touches & ~np.isin(kind, (RECEIVE, RECEIVE_ADD))
    writes_here = touches & (kind != SEND)
    for side, rank, buffer, first in (
        (reads_here, program.rank, program.source_buffer, program.source),
        (writes_here, owner, program.target_buffer, program.target),
    ):
        size = sizes[rank, buffer]
        beyond = np.flatnonzero(side & (first + count > size))
        if len(beyond):
            at = int(beyond[0])
            named = {"buffer": BUFFERS[int(buffer[at])], "rank": int(rank[at])}
            return told(program, at, OUT_OF_BOUNDS.format(size=int(size[at]), **named))
    same = (program.source_buffer == program.target_buffer) & (owner == program.rank)
    same &= np.abs(program.source.astype(np.int64) - program.target) < count
    onto = np.flatnonzero(same & (alone | at_peer))
    return told(program, int(onto[0]), ONTO_ITSELF) if len(onto) else None
