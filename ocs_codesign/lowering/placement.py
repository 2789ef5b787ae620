"""Where the pieces of a demand stand in the buffers of ranks, and where chunks of scratch do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.demand import SUM
from ocs_codesign.rank_program import INPUT, OUTPUT
from ocs_codesign.runs import places, starts_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ocs_codesign.demand import Demand

NOWHERE = -1
"""The buffer of what a rank has no place for."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Slots:
    """Chunks of ``buffer`` (int8, NOWHERE where there is none) from ``chunk`` (int64) on."""

    buffer: NDArray[np.int8]
    chunk: NDArray[np.int64]

    def at(self, rows: NDArray[Any]) -> Slots:
        """Some of the slots."""
        return Slots(self.buffer[rows], self.chunk[rows])

    def or_else(self, other: Slots, mine: NDArray[np.bool_]) -> Slots:
        """These slots where they are ``mine``, else the others."""
        buffer = np.where(mine, self.buffer, other.buffer)
        return Slots(buffer, np.where(mine, self.chunk, other.chunk))


@final
@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Pieces in the input and output of ranks, all counted in chunks.

    ``edges`` (int64, pieces + 1) are the first chunks of all pieces, counted over all items, and
    the end of the last; ``root`` (int32) is that of every piece's item.
    """

    num_ranks: int
    edges: NDArray[np.int64]
    root: NDArray[np.int32]
    before: _Table
    after: _Table
    place_buffer: int | None

    @classmethod
    def of(
        cls, demands: Sequence[Demand], chunks_per_unit: int, place_buffer: int | None
    ) -> Placement:
        """That of a program; ``place_buffer`` is input and output in one, None if none is."""
        first = demands[0]
        return cls(
            first.num_hosts,
            first.first_units() * chunks_per_unit,
            first.root[first.item_of_piece()],
            _Table.of(first, chunks_per_unit, first=True),
            _Table.of(demands[-1], chunks_per_unit, first=False),
            place_buffer,
        )

    @property
    def stride(self) -> int:
        """Places of a rank where each is rank * stride + chunk; no rank's end is another's first.

        Chunks are counted over all items.
        """
        return int(self.edges[-1]) + 1

    def had(self, rank: NDArray[Any], piece: NDArray[Any], chunk: NDArray[Any]) -> Slots:
        """Where ranks have chunks of pieces before."""
        slots = self._slots(self.before, INPUT, rank, piece, chunk)
        if self.place_buffer != OUTPUT:
            return slots
        larger = self._slots(self.after, OUTPUT, rank, piece, chunk)
        return larger.or_else(slots, larger.buffer >= 0)

    def wanted(self, rank: NDArray[Any], piece: NDArray[Any], chunk: NDArray[Any]) -> Slots:
        """Where ranks must get chunks of pieces."""
        slots = self._slots(self.after, OUTPUT, rank, piece, chunk)
        if self.place_buffer != INPUT:
            return slots
        larger = self._slots(self.before, INPUT, rank, piece, chunk)
        return larger.or_else(slots, (larger.buffer >= 0) & (slots.buffer >= 0))

    def _slots(
        self,
        table: _Table,
        buffer: int,
        rank: NDArray[Any],
        piece: NDArray[Any],
        chunk: NDArray[Any],
    ) -> Slots:
        first = table.find(rank.astype(np.int64) * (len(self.edges) - 1) + piece)
        found = np.where(first >= 0, buffer, NOWHERE).astype(np.int8)
        return Slots(found, first + chunk - self.edges[piece])

    def own(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rank and piece of all that ranks have before and want after."""
        both = np.intersect1d(self.before.key, self.after.key, assume_unique=True)
        rank, piece = np.divmod(both, max(1, len(self.edges) - 1))
        return rank, piece


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """Keys rank * pieces + piece, ascending, and the first chunk of each in its buffer."""

    key: NDArray[np.int64]
    chunk: NDArray[np.int64]

    @classmethod
    def of(cls, demand: Demand, chunks_per_unit: int, *, first: bool) -> _Table:
        item = demand.item_of_piece()
        at_root = (demand.kind[item] != SUM) if first else (demand.kind[item] == SUM)
        rooted, shared = np.flatnonzero(at_root), np.flatnonzero(~at_root)
        group = demand.group[shared]
        run, member = places(demand.group_start[group], np.diff(demand.group_start)[group])
        host = np.concatenate([demand.root[item[rooted]], demand.member[member]]).astype(np.int64)
        piece = np.concatenate([rooted, shared[run]])
        key = host * demand.num_pieces + piece
        order = np.argsort(key, kind="stable")
        key, host = key[order], host[order]
        total = starts_of(demand.weight[piece[order]] * chunks_per_unit)[:-1]
        return cls(key, total - total[np.searchsorted(host, host)])

    def find(self, wanted: NDArray[np.int64]) -> NDArray[np.int64]:
        """The first chunk of what has these keys, -1 where nothing has."""
        if not len(self.key):
            return np.full(len(wanted), -1)
        at = np.minimum(np.searchsorted(self.key, wanted), len(self.key) - 1)
        return np.where(self.key[at] == wanted, self.chunk[at], -1)


def cut(
    lo: NDArray[np.int64], hi: NDArray[np.int64], edges: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Intervals cut at ascending edges that reach as far: row, number of the edge, lo and hi.

    >>> [column.tolist() for column in cut(np.array([1, 4]), np.array([5, 6]), np.array([0, 4, 9]))]
    [[0, 0, 1], [0, 1, 1], [1, 4, 4], [4, 5, 6]]
    """
    first = np.searchsorted(edges, lo, side="right") - 1
    last = np.searchsorted(edges, hi, side="left")
    row, at = places(first, last - first)
    lo, hi = np.maximum(lo[row], edges[at]), np.minimum(hi[row], edges[at + 1])
    filled = lo < hi  # pieces without weight are between edges that are equal
    return (row, at, lo, hi) if filled.all() else (row[filled], at[filled], lo[filled], hi[filled])


def unions(
    lo: NDArray[np.int64], hi: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The runs that intervals make together, ascending: first places and ends.

    >>> [column.tolist() for column in unions(np.array([7, 0, 2]), np.array([9, 3, 5]))]
    [[0, 7], [5, 9]]
    """
    order = np.argsort(lo, kind="stable")
    lo, reach = lo[order], np.maximum.accumulate(hi[order])
    new = np.ones(len(lo), dtype=bool)
    new[1:] = lo[1:] > reach[:-1]
    last = np.append(new[1:], True)[: len(lo)]
    return lo[new], reach[last]
