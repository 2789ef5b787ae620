"""Where messages are put: right where they belong, or in scratch if that is still in use."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ocs_codesign.formats.programs.msccl_order import Meetings, ProgramCauses, causes_of
from ocs_codesign.rank_program import (
    ADD,
    COPY,
    RECEIVE,
    RECEIVE_ADD,
    SCRATCH,
    SEND,
    RankProgram,
)
from ocs_codesign.runs import places

if TYPE_CHECKING:
    from numpy.typing import NDArray


class ChunkSpan(NamedTuple):
    """Chunks of a buffer of a rank."""

    buffer: int
    first: int
    size: int

    def overlaps(self, other: ChunkSpan) -> bool:
        """Whether both have a chunk in common."""
        return (
            self.buffer == other.buffer
            and self.first < other.first + other.size
            and other.first < self.first + self.size
        )


NOWHERE = ChunkSpan(0, 0, 0)


def source_of(program: RankProgram, o: int) -> ChunkSpan:
    """What an operation reads."""
    return ChunkSpan(int(program.source_buffer[o]), int(program.source[o]), int(program.count[o]))


def target_of(program: RankProgram, o: int) -> ChunkSpan:
    """What an operation writes."""
    return ChunkSpan(int(program.target_buffer[o]), int(program.target[o]), int(program.count[o]))


def landings(
    program: RankProgram, messages: Meetings, level: NDArray[np.int64]
) -> tuple[ProgramCauses, dict[int, ChunkSpan], list[int]]:
    """The causes of all operations, where every receive finds its message, and all scratch.

    Causes are by data: what reads or writes a slot comes after what wrote it, and a write after
    what read, in the order of the program, which is meant to be free of races. A message goes right
    to its target if it is kept as it is, and all that used the target before is over, as messages
    prove, when it is sent; else to scratch that nothing else uses.
    """
    send_of = dict(zip(messages.receive.tolist(), messages.send.tolist(), strict=True))
    uses = _earlier_uses(program, level)
    edges = np.array([(a, o) for o, before in uses.items() for a in before], dtype=np.int64)
    tail, head = edges.reshape(-1, 2).T
    tail, head = np.append(tail, messages.send), np.append(head, messages.receive)
    asked = {send_of[r]: uses.get(r, set()) for r in send_of}
    causes = causes_of(program, (tail, head), level, asked)
    scratch: list[int] = program.scratch.tolist()
    landing: dict[int, ChunkSpan] = {}
    for receive in sorted(send_of):
        span = target_of(program, receive)
        free = all((a, send_of[receive]) in causes.proven for a in uses.get(receive, ()))
        if program.kind[receive] != RECEIVE or not free:
            rank = int(program.rank[receive])
            span = ChunkSpan(SCRATCH, scratch[rank], span.size)
            scratch[rank] += span.size
        landing[receive] = span
    return causes, landing, scratch


def _earlier_uses(program: RankProgram, level: NDArray[np.int64]) -> dict[int, set[int]]:
    """What every operation comes after by the slots that it reads and writes.

    Of a read it is the last write of a slot, of a write that and what read since.
    """
    kinds = program.kind
    reads = np.flatnonzero(np.isin(kinds, (SEND, COPY, ADD)))
    writes = np.flatnonzero(np.isin(kinds, (RECEIVE, RECEIVE_ADD, COPY, ADD)))
    parts: list[tuple[NDArray[Any], ...]] = []
    for ops, end, writing in ((reads, "source", False), (writes, "target", True)):
        run, slot = places(getattr(program, end)[ops].astype(np.int64), program.count[ops])
        op = ops[run]
        buffer = getattr(program, f"{end}_buffer")[op].astype(np.int64)
        where = (program.rank[op].astype(np.int64) * 3 + buffer) << 32 | slot
        parts.append((where, level[op], op, np.full(len(op), writing)))
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    order = np.lexsort([columns[3], columns[2], columns[1], columns[0]])
    uses: dict[int, set[int]] = defaultdict(set)
    at, last = -1, -1
    since: list[int] = []
    rows = zip(*(columns[at][order].tolist() for at in (0, 2, 3)), strict=True)
    for place, o, write in rows:
        if place != at:
            at, last, since = place, -1, []
        if last >= 0 and last != o:
            uses[o].add(last)
        if write:
            uses[o].update(a for a in since if a != o)
            last, since = o, []
        else:
            since.append(o)
    return uses
