"""Share: what one rank must know to do its part of a program, and nothing of the others' parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.execute.layout import (
    MAX_ELEMENTS,
    Place,
    chunk_elements,
    input_and_output,
)
from ocs_codesign.execute.reference import Reference, reference_of
from ocs_codesign.rank_program import KINDS, NOP, RECEIVE, RECEIVE_ADD, SEND

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike, NDArray

    from ocs_codesign.rank_program import RankProgram

_COLUMNS = (
    "kind",
    "peer",
    "channel",
    "source_buffer",
    "source",
    "target_buffer",
    "target",
    "count",
)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Share:
    """The operations of one rank, with what they wait for, and its buffers.

    Columns are those of the program, int64, for the rank's own operations, whose numbers in the
    program begin at ``first``. Operation o waits for ``num_waits[o]`` others, and those of
    ``after[after_start[o] : after_start[o + 1]]`` wait for it. ``epoch`` counts the barriers that
    come before an operation. ``number`` counts sends and receives within their pair of source and
    target, one channel after the other, so that both ends number a transfer alike. ``sizes`` are
    the elements of every chunk of the demand. All of it is plain arrays, to be sent to the rank.
    """

    rank: int
    first: int
    columns: dict[str, NDArray[np.int64]]
    step: NDArray[np.int64]
    num_waits: NDArray[np.int64]
    after_start: NDArray[np.int64]
    after: NDArray[np.int64]
    epoch: NDArray[np.int64]
    num_epochs: int
    number: NDArray[np.int64]
    slots: tuple[int, int, int]
    given: Place
    wanted: Place
    sizes: NDArray[np.int64]
    reference: Reference

    @property
    def num_operations(self) -> int:
        """Number of operations of the rank."""
        return len(self.step)

    def is_kind(self, *kinds: int) -> NDArray[np.bool_]:
        """Which operations are of these kinds."""
        return np.isin(self.columns["kind"], kinds)

    def transfers(self, kind: int) -> dict[int, dict[int, list[int]]]:
        """Of every peer and channel the chunks of each message, in order, that ``kind`` moves."""
        found: dict[int, dict[int, list[int]]] = {}
        kinds = (SEND,) if kind == SEND else (RECEIVE, RECEIVE_ADD)
        rows = np.flatnonzero(self.is_kind(*kinds))
        names = ("peer", "channel", "count")
        for peer, channel, count in zip(
            *(self.columns[n][rows].tolist() for n in names), strict=True
        ):
            found.setdefault(peer, {}).setdefault(channel, []).append(count)
        return found


def check_runs(program: RankProgram, elements: int) -> None:
    """ValueError for what cannot be run, or is outside of its buffer, or so many elements of M."""
    if not 0 <= elements <= MAX_ELEMENTS:
        raise ValueError(f"{elements} elements: from 0 to {MAX_ELEMENTS} can be run")
    one_sided = np.flatnonzero(program.kind > NOP)
    if len(one_sided):
        kind = KINDS[program.kind[one_sided[0]]]
        raise ValueError(
            f"operation {one_sided[0]} is a {kind}: MPI runs programs of sends and receives, "
            "not of one-sided operations"
        )
    sizes = np.stack(program.buffer_sizes())
    for end in ("source", "target"):
        used = np.isin(program.kind, _USES[end])
        last = getattr(program, end).astype(np.int64) + program.count
        buffer = getattr(program, f"{end}_buffer")
        outside = np.flatnonzero(used & (last > sizes[buffer, program.rank]))
        if len(outside):
            row = int(outside[0])
            raise ValueError(
                f"operation {row}: its {end} ends at chunk {last[row]} of a buffer of "
                f"{sizes[buffer[row], program.rank[row]]}"
            )


_USES = {
    "source": [KINDS.index(kind) for kind in ("send", "copy", "add")],
    "target": [KINDS.index(kind) for kind in ("receive", "receive-add", "copy", "add")],
}


def shares_of(program: RankProgram, elements: int, barriers: ArrayLike = ()) -> Iterator[Share]:
    """The shares of all ranks, when M has so many elements and all ranks meet at barriers.

    ``barriers`` are steps before which they meet. Raises ValueError as ``check_runs`` does.
    """
    check_runs(program, elements)
    stops = np.unique(np.asarray(barriers, dtype=np.int64))
    sizes = chunk_elements(program, elements)
    buffers = np.stack(program.buffer_sizes())
    for rank in range(program.num_ranks):
        rows = program.operations_of(rank)
        columns = {name: getattr(program, name)[rows].astype(np.int64) for name in _COLUMNS}
        step = program.step[rows].astype(np.int64)
        before, after = _edges(program, rows)
        num_waits = np.bincount(after, minlength=len(step))
        order = np.argsort(before, kind="stable")
        after_start = np.searchsorted(before[order], np.arange(len(step) + 1))
        given, wanted = input_and_output(program, rank)
        input_slots, output_slots, scratch = buffers[:, rank].tolist()
        yield Share(
            rank,
            int(rows.start),
            columns,
            step,
            num_waits,
            after_start,
            after[order],
            _epochs(np.searchsorted(stops, step, side="right"), before, after),
            len(stops) + 1,
            _numbers(columns),
            (input_slots, output_slots, scratch),
            given,
            wanted,
            sizes,
            reference_of(program, rank, sizes, given, wanted),
        )


def _edges(program: RankProgram, rows: slice) -> tuple[NDArray[Any], NDArray[Any]]:
    """What comes before what among the operations of a rank: streams and needs."""
    stream = program.stream[rows]
    order = np.argsort(stream, kind="stable")
    same = stream[order][1:] == stream[order][:-1]
    start = program.need_start[rows.start : rows.stop + 1]
    need = program.need[start[0] : start[-1]] - rows.start
    waiting = np.repeat(np.arange(len(stream)), np.diff(start))
    before = np.concatenate([order[:-1][same], need])
    return before, np.concatenate([order[1:][same], waiting])


def _epochs(own: NDArray[Any], before: NDArray[Any], after: NDArray[Any]) -> NDArray[np.int64]:
    """Epochs of operations: their own, but none earlier than what they wait for."""
    epoch = own.astype(np.int64).tolist()
    order = np.argsort(after, kind="stable")
    # What waits has a higher number than what it waits for, so one pass in order is enough.
    for first, then in zip(before[order].tolist(), after[order].tolist(), strict=True):
        epoch[then] = max(epoch[then], epoch[first])
    return np.array(epoch, dtype=np.int64)


def _numbers(columns: dict[str, NDArray[np.int64]]) -> NDArray[np.int64]:
    """The number of every transfer within its pair of ranks, -1 of other operations."""
    number = np.full(len(columns["kind"]), -1, dtype=np.int64)
    for kinds in ((SEND,), (RECEIVE, RECEIVE_ADD)):
        rows = np.flatnonzero(np.isin(columns["kind"], kinds))
        peer = columns["peer"][rows]
        order = np.lexsort((columns["channel"][rows], peer))
        sorted_peer = peer[order]
        number[rows[order]] = np.arange(len(rows)) - np.searchsorted(sorted_peer, sorted_peer)
    return number
