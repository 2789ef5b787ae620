"""Layout: which chunk stands in which slot of a rank's buffers, and how many elements it has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.demand import MOVE, SUM
from ocs_codesign.rank_program import INPUT, OUTPUT
from ocs_codesign.runs import before, places, starts_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.demand import Demand
    from ocs_codesign.rank_program import RankProgram

MAX_ELEMENTS = 2**31
"""Most elements of M that are run, so that products of places and elements stay in 64 bits."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """What a rank has in a ``buffer`` before or after a program: slot and number of its chunks.

    Chunks are numbered through all pieces of the demand; both columns are in the order in which
    MPI's own collectives have the data, and int64.
    """

    buffer: int
    slot: NDArray[np.int64]
    chunk: NDArray[np.int64]


def input_and_output(program: RankProgram, rank: int) -> tuple[Place, Place]:
    """Where a rank has its input and its output; in place both are in one buffer.

    ValueError if a part of the smaller buffer does not stand in the larger one.
    """
    units = program.chunks_per_unit
    given = _chunks(program.demands[0], rank, units, at_first=True)
    wanted = _chunks(program.demands[-1], rank, units, at_first=False)
    buffer = program.place_buffer
    held = given if buffer == INPUT else wanted
    if not program.in_place or not len(held):  # a leaf of a scatter or a gather has only one anyway
        return (
            Place(INPUT, np.arange(len(given)), given),
            Place(OUTPUT, np.arange(len(wanted)), wanted),
        )
    return Place(buffer, _found(held, given, rank), given), Place(
        buffer, _found(held, wanted, rank), wanted
    )


def _found(held: NDArray[np.int64], chunks: NDArray[np.int64], rank: int) -> NDArray[np.int64]:
    """Slots of chunks in a buffer that holds them among others."""
    order = np.argsort(held)
    at = np.searchsorted(held[order], chunks)
    if len(chunks) and (
        len(held) == 0 or (held[order[np.minimum(at, len(held) - 1)]] != chunks).any()
    ):
        raise ValueError(
            f"rank {rank}: what it has first and last does not fit one buffer in place"
        )
    return order[at] if len(chunks) else np.zeros(0, dtype=np.int64)


def _chunks(demand: Demand, host: int, units: int, *, at_first: bool) -> NDArray[np.int64]:
    """Numbers of the chunks that a host has before a demand, or must have after it, in order."""
    summed = demand.kind[demand.item_of_piece()] == SUM
    at_root = demand.root[demand.item_of_piece()] == host
    of_group = np.zeros(len(demand.group_start) - 1, dtype=bool)
    groups = np.repeat(np.arange(len(of_group)), np.diff(demand.group_start))
    of_group[groups[demand.member == host]] = True
    in_group = of_group[demand.group]
    piece = np.flatnonzero(np.where(summed == at_first, in_group, at_root))
    first = demand.first_units()[:-1]
    return places(first[piece] * units, demand.weight[piece] * units)[1]


def chunk_elements(program: RankProgram, elements: int) -> NDArray[np.int64]:
    """Elements of every chunk, int64, when M has so many: M is cut as evenly as integers allow.

    Chunk k of the T of M has the elements from floor(k M / T) to floor((k + 1) M / T), so that some
    are empty where there are more chunks than elements.
    """
    demand, units = program.demands[0], program.chunks_per_unit
    within = _place_in_message(demand, program.collective.name) * units
    place = places(within, demand.weight * units)[1]
    total = demand.message_units * units
    sizes: NDArray[np.int64] = (place + 1) * elements // total - place * elements // total
    return sizes


def _place_in_message(demand: Demand, collective: str) -> NDArray[np.int64]:
    """Units before every piece in the buffer that is M."""
    key: NDArray[Any] = demand.group
    if (demand.kind == MOVE).any() and collective != "gather":
        key = demand.item_of_piece()
    return before(key, demand.weight)


def piece_of_chunk(demand: Demand, units: int, chunk: int) -> tuple[int, int, int]:
    """Item, piece and number in the piece of a chunk."""
    start = demand.first_units() * units
    piece = int(np.searchsorted(start, chunk, side="right")) - 1
    return int(demand.item_of_piece()[piece]), piece, chunk - int(start[piece])


def piece_elements(demand: Demand, units: int, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Elements of every piece, given those of every chunk."""
    total = starts_of(sizes)[demand.first_units() * units]
    return np.diff(total)
