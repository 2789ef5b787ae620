"""Threadblocks of MSCCL++ plans: nodes cut into blocks, joined by barriers, as operations."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from ocs_codesign.core.plans import (
    ADD,
    COPY,
    RECEIVE,
    RECEIVE_ADD,
    SCRATCH,
    SEND,
    WAIT,
    RankProgram,
)
from ocs_codesign.core.topology import places
from ocs_codesign.interop.msccl.order import Meetings, ProgramCauses, causes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from ocs_codesign.interop.mscclpp.write import ChunkPut, PlanNode


# Where messages are put: right where they belong, or in scratch if that is still in use.


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


MAX_OPERATIONS = 64
MAX_CHANNELS = 16
MAX_CHANNELS_PER_OPERATION = 8
MAX_BARRIERS = 16
MAX_SEMAPHORES = 16

_START = 5
"""Operations set aside for the start of a block: signals, waits and a nop."""

_LEAST = 8
"""Operations that a block must have room for beside its start and the barriers."""

_TRIES = 40


@final
@dataclass(slots=True)
class _Block:
    """A threadblock in the making: its nodes in order."""

    rank: int
    nodes: list[int] = field(default_factory=list)


@final
@dataclass(frozen=True, slots=True)
class BlockCut:
    """The blocks of a rank, the phase of every node, and which blocks meet between phases.

    Phases are in generations, of which ``first`` has the first phases, and every block is of one.
    Between phases of a generation its blocks meet, between generations those of both.
    """

    blocks: list[_Block]
    phase: dict[int, int]
    first: list[int]

    def generation(self, block: _Block) -> int:
        """The generation of a block."""
        return bisect_right(self.first, self.phase[block.nodes[0]]) - 1

    def members(self, *generations: int) -> int:
        """How many blocks are of one of these generations."""
        return sum(self.generation(block) in generations for block in self.blocks)

    def between(self, generation: int) -> int:
        """How many barriers a block of a generation joins."""
        ends = [*self.first, max(self.phase.values()) + 1]
        inner = ends[generation + 1] - ends[generation] - 1
        return inner + (generation > 0) + (generation < len(self.first) - 1)


def cut_of(nodes: list[PlanNode], rank: int, own: Iterable[int]) -> BlockCut:
    """The blocks of a rank: as few as its threads allow, no longer than a plan may have them.

    What waits for a node of another block is in a later phase, behind a barrier of all blocks of a
    generation. Raises ValueError, with the link, where barriers leave no room for operations.
    """
    threads: dict[int, list[int]] = defaultdict(list)
    for n in sorted(own, key=lambda n: (nodes[n].level, nodes[n].kind != SEND, n)):
        threads[nodes[n].thread].append(n)
    most = 0
    for generations in range(1, MAX_BARRIERS // 2 + 1):
        blocks = [_Block(rank, threads[t]) for t in sorted(threads)]
        for _ in range(_TRIES):
            phase = _phases(nodes, blocks)
            count = max(phase.values(), default=0) + 1
            most = max(most, count - 1)
            some = min(generations, count)
            first = [count * g // some for g in range(some)]
            cut = BlockCut([part for b in blocks for part in _ages(b, phase, first)], phase, first)
            rooms = [MAX_OPERATIONS - _START - cut.between(g) for g in range(some)]
            if min(rooms) < _LEAST:
                break
            again = [p for b in cut.blocks for p in _parts(nodes, b, rooms[cut.generation(b)])]
            if len(again) == len(blocks):
                return cut
            blocks = again
    link = next((nodes[n] for n in own if nodes[n].kind == SEND), None)
    raise ValueError(
        f"link {rank} -> {-1 if link is None else link.peer}: {most} barriers among the "
        f"threadblocks of rank {rank} leave no room in the {MAX_OPERATIONS} operations of each, "
        f"with {MAX_BARRIERS} barriers of a plan"
    )


def _ages(block: _Block, phase: dict[int, int], first: list[int]) -> list[_Block]:
    """A block in parts, one for each generation of its nodes."""
    ages = groupby(block.nodes, lambda n: bisect_right(first, phase[n]))
    return [_Block(block.rank, list(own)) for _, own in ages]


def _phases(nodes: list[PlanNode], blocks: list[_Block]) -> dict[int, int]:
    """The number of barriers that must come before every node.

    A barrier parts all nodes of a rank by level, so that what comes before it never waits, through
    other ranks, for what comes after it.
    """
    block_of = {n: b for b, block in enumerate(blocks) for n in block.nodes}
    phase: dict[int, int] = {}
    last = 0
    for _, level in groupby(sorted(block_of, key=lambda n: nodes[n].level), _level_of(nodes)):
        own = list(level)
        last += any(
            phase[p] == last and block_of[p] != block_of[n] for n in own for p in nodes[n].before
        )
        phase |= dict.fromkeys(own, last)
    return phase


def _level_of(nodes: list[PlanNode]) -> Callable[[int], int]:
    return lambda n: nodes[n].level


def _parts(nodes: list[PlanNode], block: _Block, room: int) -> list[_Block]:
    """A block in parts with room for their operations, cut where little is waited for across."""
    parts: list[_Block] = []
    rest = block.nodes
    while True:
        end = _fitting(nodes, rest, room)
        if end == len(rest):
            return [*parts, _Block(block.rank, rest)]
        position = {n: at for at, n in enumerate(rest)}
        # Cutting before `at` parts those whose cause is before and that are from there on.
        across = [0] * (len(rest) + 1)
        for at, n in enumerate(rest):
            causes = [position[p] for p in nodes[n].before if p in position]
            for place in range(min(causes, default=at) + 1, at + 1):
                across[place] += 1
        best = min(range(max(end // 2, 1), end + 1), key=lambda at: (across[at], -at))
        parts.append(_Block(block.rank, rest[:best]))
        rest = rest[best:]


def _fitting(nodes: list[PlanNode], order: list[int], room: int) -> int:
    """How many of the first nodes have their operations in the room."""
    writer = BlockWriter({}, {}, {})
    for at, n in enumerate(order):
        writer.node(nodes[n])
        if len(writer.operations) + writer.waiting > room:
            return max(at, 1)
    return len(order)


@final
class BlockWriter:
    """Operations of a threadblock, with a nop wherever threads must not run ahead.

    ``channels`` are the places of messages in the block's list of channels, by message;
    ``buffers`` those of (peer, buffer) in its list of remote buffers.
    """

    def __init__(
        self, receives: dict[int, int], sends: dict[int, int], buffers: dict[tuple[int, int], int]
    ) -> None:
        self.receives, self.sends, self.buffers = receives, sends, buffers
        self.operations: list[dict[str, Any]] = []
        self.read: list[ChunkSpan] = []
        self.written: list[ChunkSpan] = []
        self.waiting = False

    def sync(self) -> None:
        """All threads of the block go on together from here."""
        self.operations.append({"name": "nop"})
        self._clear()

    def _clear(self) -> None:
        self.read, self.written, self.waiting = [], [], False

    def start(self) -> None:
        """Tell those who put here that the buffers are theirs, and wait for the same."""
        for name, channel_of in (("rlxsignal", self.receives), ("rlxwait", self.sends)):
            channels = sorted(set(channel_of.values()))
            for at in range(0, len(channels), MAX_CHANNELS_PER_OPERATION):
                self._told(name, channels[at : at + MAX_CHANNELS_PER_OPERATION])
        self.waiting = bool(self.sends)

    def barrier(self, number: int, num_blocks: int) -> None:
        """So many blocks of the rank go on together from here."""
        self.operations.append(
            {"name": "barrier", "barrier_id": number, "num_threadblocks": num_blocks}
        )
        self._clear()

    def node(self, node: PlanNode) -> None:
        """The operations of a node."""
        if node.kind == WAIT:
            self._told("wait", [self.receives.get(node.message, 0)])
            self.waiting = True
        elif node.kind == SEND:
            for group in _groups(node.puts):
                self._put(node, group)
            self.sync()
            self._told("signal", [self.sends.get(node.message, 0)])
        else:
            self._local(node)

    def _told(self, name: str, channels: list[int]) -> None:
        self.operations.append({"name": name, "channel_ids": channels, "channel_type": "memory"})

    def _data(self, read: list[ChunkSpan], written: list[ChunkSpan]) -> None:
        """Before data is touched: what this depends on must be over."""
        busy = any(a.overlaps(b) for a in read for b in self.written)
        busy = busy or any(a.overlaps(b) for a in written for b in [*self.read, *self.written])
        if busy or self.waiting:
            self.sync()
        self.read += read
        self.written += written

    def _put(self, node: PlanNode, puts: list[ChunkPut]) -> None:
        self._data([put.source for put in puts], [])
        targets = [
            {
                "buffer_id": self.buffers.get((node.peer, put.target.buffer), 0),
                "index": put.target.first,
                "size": put.target.size,
            }
            for put in puts
        ]
        self.operations.append(
            {
                "name": "put",
                "src_buff": [_chunks(put.source) for put in puts],
                "dst_buff": targets,
                "channel_type": "memory",
                "step": puts[0].step,
            }
        )

    def _local(self, node: PlanNode) -> None:
        adds = node.kind != COPY
        if adds and self._joins_last(node):
            self.operations[-1]["src_buff"].append(_chunks(node.source))
            self.read.append(node.source)
            return
        read = [node.target, node.source] if adds else [node.source]
        self._data(read, [node.target])
        self.operations.append(
            {
                "name": "re" if adds else "copy",
                "src_buff": [_chunks(span) for span in read],
                "dst_buff": [_chunks(node.target)],
            }
        )

    def _joins_last(self, node: PlanNode) -> bool:
        """Whether the operation just written adds to the same chunks, and can add this too."""
        last = self.operations[-1] if self.operations else {}
        return (
            not self.waiting
            and last.get("name") == "re"
            and last["dst_buff"] == [_chunks(node.target)]
            and len(last["src_buff"]) < MAX_CHANNELS_PER_OPERATION
            and not any(node.source.overlaps(span) for span in self.written)
        )


def _groups(puts: list[ChunkPut]) -> Iterable[list[ChunkPut]]:
    """Puts of as few operations as hold them: of one buffer, no more than an operation takes."""
    group: list[ChunkPut] = []
    for put in puts:
        full = len(group) == MAX_CHANNELS_PER_OPERATION
        alike = group and group[0].source.buffer == put.source.buffer and group[0].step == put.step
        if group and (full or not alike):
            yield group
            group = []
        group.append(put)
    yield group


def _chunks(span: ChunkSpan) -> dict[str, Any]:
    return {"type": "ios"[span.buffer], "index": span.first, "size": span.size}
