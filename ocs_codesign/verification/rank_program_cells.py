"""Cells: runs of slots that no operation divides, where they are or where they come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.rank_program import ADD, COPY, GET, PUT, SEND

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.verification.rank_program_order import Order

    Ways = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
    """First slots, first slots of where these go, and how many."""

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
