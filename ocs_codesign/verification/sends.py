"""Sends: the rows of a schedule from node to node, their chunks counted in spans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.schedule import Schedule

_MARK_CHUNKS = 2**24


@final
@dataclass(frozen=True, slots=True, eq=False)
class Sends:
    """Equally long int32 columns: spans [``lo``, ``hi``) of ``item`` go from node to node.

    A span is a run of chunks, of one piece, that all sends carry together; ``spans`` (int64) has
    the first chunk of each. A send takes from ``start`` to ``end``, in steps or in any other order
    of time. ``row`` is the row of the schedule, ``phase`` its half of the collective, ``kind`` what
    its item's demand is.
    """

    spans: NDArray[np.int64]
    row: NDArray[np.int64]
    item: NDArray[np.int32]
    lo: NDArray[np.int32]
    hi: NDArray[np.int32]
    sender: NDArray[np.int32]
    receiver: NDArray[np.int32]
    start: NDArray[np.int32]
    end: NDArray[np.int32]
    phase: NDArray[np.int32]
    kind: NDArray[np.int8]

    def at(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> Sends:
        """Some of the sends."""
        return Sends(self.spans, *(getattr(self, name)[rows] for name in SEND_COLUMNS))

    def of(self, phase: int, kind: int) -> Sends:
        """The sends of one half of the collective whose items are of a kind."""
        mine = (self.phase == phase) & (self.kind == kind)
        return self if mine.all() else self.at(mine)


SEND_COLUMNS = ("row", "item", "lo", "hi", "sender", "receiver", "start", "end", "phase", "kind")


def sends_of(schedule: Schedule) -> Sends:
    """All sends of a schedule, in its order."""
    lo, hi, spans = _spans(schedule)
    topology, phase = schedule.topology, schedule.phase
    kinds = np.stack([demand.kind for demand in schedule.demands])
    half = np.zeros(schedule.num_sends, dtype=np.int32) if phase is None else phase
    return Sends(
        spans,
        np.arange(schedule.num_sends),
        schedule.item,
        lo,
        hi,
        topology.tail[schedule.link],
        topology.head[schedule.link],
        schedule.step - 1,
        schedule.step,
        half,
        kinds[half, schedule.item],
    )


def _spans(
    schedule: Schedule,
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
    """Columns lo and hi counted in spans, and every span's first chunk."""
    ends = np.unique(
        np.concatenate([_piece_ends(schedule, at) for at in range(len(schedule.demands))])
    )
    if schedule.num_chunks <= _MARK_CHUNKS:
        marked = np.zeros(schedule.num_chunks + 1, dtype=bool)
        marked[schedule.lo] = marked[schedule.hi] = marked[ends] = True
        edges = np.flatnonzero(marked)
        number = (np.cumsum(marked) - 1).astype(np.int32)
        return number[schedule.lo], number[schedule.hi], edges[:-1]
    edges = np.unique(np.concatenate([schedule.lo, schedule.hi, ends]))
    lo = np.searchsorted(edges, schedule.lo).astype(np.int32)
    return lo, np.searchsorted(edges, schedule.hi).astype(np.int32), edges[:-1]


def _piece_ends(schedule: Schedule, half: int) -> NDArray[np.int64]:
    """First and last chunk of all pieces, counted within their items, each once."""
    demand = schedule.demands[half]
    ends = demand.first_units()
    sizes = np.diff(demand.piece_start)
    first = np.repeat(ends[demand.piece_start[:-1]], sizes)
    within = np.concatenate([ends[:-1] - first, ends[1:] - first])
    unique: NDArray[np.int64] = np.unique(within) * schedule.chunks_per_unit
    return unique
