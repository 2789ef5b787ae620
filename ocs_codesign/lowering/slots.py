"""Rows: hops with the slots that they read at their sender and write at their receiver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.demand import COPY, MOVE, SUM
from ocs_codesign.lowering.placement import Slots, cut, unions
from ocs_codesign.rank_program import INPUT, SCRATCH
from ocs_codesign.runs import before, distinct

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.lowering.hops import Hops
    from ocs_codesign.lowering.placement import Placement


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
