"""Traffic: what goes from rank to rank in which step, one message a pair, in canonical order.

All sends of a step read what was held before it. A step's messages to a rank take effect by
increasing source, whatever came first, so that sums have the same bits on every wire.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.plans import RankProgram
from ocs_codesign.core.topology import before, places, starts_of
from ocs_codesign.interop.lowering.hops import hops_of
from ocs_codesign.interop.run.engine import chunks_held

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ocs_codesign.core.collective import Collective
    from ocs_codesign.core.demand import Demand
    from ocs_codesign.core.plans import Plan


@final
@dataclass(frozen=True, slots=True, eq=False)
class RankMessages:
    """Messages of a collective, sorted by (step, target, source), no two alike in all three.

    Message m is ``chunk[start[m] : start[m + 1]]``, ascending and counted through all pieces of the
    demand; ``adds`` (bool, chunks sent) tells which are added to what the target holds rather than
    kept as they are. ``step`` counts from 0 without gaps. ``slot`` holds the chunks that rank r
    ever holds, ascending: ``slot[slot_start[r] : slot_start[r + 1]]``. Arrays are int64.

    >>> from ocs_codesign.core.collective import Collective
    >>> from ocs_codesign.core.schedule import Messages
    >>> swap = Messages(2, Collective.ALLGATHER, 2, [1, 1], [1, 0], [0, 1], [1, 0], [False, False])
    >>> traffic = traffic_of(swap)
    >>> traffic.num_steps, traffic.source.tolist(), traffic.chunk.tolist(), traffic.most_slots
    (1, [1, 0], [1, 0], 2)
    """

    collective: Collective
    demands: tuple[Demand, ...]
    chunks_per_unit: int
    step: NDArray[np.int64]
    source: NDArray[np.int64]
    target: NDArray[np.int64]
    start: NDArray[np.int64]
    chunk: NDArray[np.int64]
    adds: NDArray[np.bool_]
    slot: NDArray[np.int64]
    slot_start: NDArray[np.int64]

    @property
    def num_ranks(self) -> int:
        """Number of ranks."""
        return self.demands[0].num_hosts

    @property
    def num_chunks(self) -> int:
        """Chunks of all pieces."""
        return int(self.demands[0].weight.sum()) * self.chunks_per_unit

    @property
    def num_steps(self) -> int:
        """Steps in which anything is sent."""
        return int(self.step[-1]) + 1 if len(self.step) else 0

    @property
    def num_operations(self) -> int:
        """Sends and receives of all ranks."""
        return 2 * len(self.step)

    @property
    def in_place(self) -> bool:
        """Input and output are never parts of one buffer that others see."""
        return False

    @property
    def most_slots(self) -> int:
        """The most chunks that a rank ever holds."""
        return int(np.diff(self.slot_start).max(initial=0))

    def slots_of(self, rank: int) -> NDArray[np.int64]:
        """The chunks that a rank ever holds."""
        return self.slot[self.slot_start[rank] : self.slot_start[rank + 1]]

    def given(self, rank: int) -> NDArray[np.int64]:
        """The chunks that a rank has before, in the order of its input."""
        return chunks_held(self.demands[0], rank, self.chunks_per_unit, at_first=True)

    def wanted(self, rank: int) -> NDArray[np.int64]:
        """The chunks that a rank has after, in the order of its output."""
        return chunks_held(self.demands[-1], rank, self.chunks_per_unit, at_first=False)

    def sizes(self, elements: int | Sequence[int]) -> NDArray[np.int64]:
        """Elements of every chunk, int64: chunk k of the T of n has floor((k+1)n/T) - floor(kn/T).

        n is the whole vector of an allreduce, a piece of any other: a shard, a rank's part for
        another, the vector of a root; ``elements`` of a unit of weight, or a number a piece.
        """
        demand, units = self.demands[0], self.chunks_per_unit
        parts = demand.weight * units
        within, place = places(np.zeros(len(parts), dtype=np.int64), parts)
        if self.collective.name == "allreduce":
            if not isinstance(elements, int):
                raise ValueError("an allreduce is of one vector: give its number of elements")
            place = place + (before(demand.group, demand.weight) * units)[within]
            total = np.full(len(place), demand.message_units * units)
            whole = np.full(len(place), elements)
        else:
            each = np.asarray(elements, dtype=np.int64)
            each = demand.weight * each if each.ndim == 0 else each
            if each.shape != demand.weight.shape or (each < 0).any():
                raise ValueError(f"elements are a number, or one for each of {len(parts)} pieces")
            total, whole = parts[within], each[within]
        sizes: NDArray[np.int64] = (place + 1) * whole // total - place * whole // total
        return sizes

    def digest(self) -> str:
        """16 hex digits that differ where anything is sent otherwise."""
        told = sha256(f"{self.collective!r} {self.num_ranks} {self.chunks_per_unit}".encode())
        for column in (self.step, self.source, self.target, self.start, self.chunk, self.adds):
            told.update(np.ascontiguousarray(column, dtype="<i8").tobytes())
        return told.hexdigest()[:16]


def traffic_of(plan: Plan | RankProgram) -> RankMessages:
    """The messages of a verified plan, or of the schedule that a program runs.

    Raises ValueError for a program that is no schedule.
    """
    if isinstance(plan, RankProgram):
        from ocs_codesign.interop.lowering.raising import raised

        plan = raised(plan)
    hops = hops_of(plan)
    row, chunk = places(hops.lo, hops.hi - hops.lo)
    ends = (hops.step[row], hops.receiver[row], hops.sender[row], chunk)
    rows, first = np.unique(np.stack(ends).astype(np.int64), axis=1, return_index=True)
    step, target, source, chunk = rows
    adds = hops.adds[row][first]
    chunks = int(hops.demands[0].weight.sum()) * hops.chunks_per_unit
    held = np.concatenate(
        [
            rank * chunks + chunks_held(hops.demands[0], rank, hops.chunks_per_unit, at_first=True)
            for rank in range(hops.demands[0].num_hosts)
        ]
    )
    key = target * chunks + chunk
    slot = np.union1d(held, key)
    _, arrival = np.unique(key, return_index=True)
    # Who only passes a sum on has no part of its own to which the first could be added.
    adds[arrival[~np.isin(key[arrival], held)]] = False
    new = np.ones(len(chunk), dtype=bool)
    new[1:] = (np.diff(rows[:3], axis=1) != 0).any(axis=0)
    begin = np.flatnonzero(new)
    return RankMessages(
        plan.collective,
        hops.demands,
        hops.chunks_per_unit,
        np.unique(step[begin], return_inverse=True)[1].astype(np.int64),
        source[begin],
        target[begin],
        np.append(begin, len(chunk)),
        chunk,
        adds,
        slot % chunks,
        starts_of(np.bincount(slot // chunks, minlength=hops.demands[0].num_hosts)),
    )
