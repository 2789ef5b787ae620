"""MSCCL++ execution plans: puts, signals and waits of blocks over memory channels, as JSON."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from ocs_codesign.core.plans import (
    ADD,
    COPY,
    GET,
    PUT,
    RECEIVE_ADD,
    SEND,
    SIGNAL,
    WAIT,
    RankProgram,
)
from ocs_codesign.interop.lowering.raising import steps_follow
from ocs_codesign.interop.msccl.order import (
    RECEIVES,
    ProgramCauses,
    edges_of,
    levels,
    messages_of,
    threads_of,
)
from ocs_codesign.interop.mscclpp.blocks import (
    MAX_CHANNELS,
    MAX_OPERATIONS,
    NOWHERE,
    BlockCut,
    BlockWriter,
    ChunkSpan,
    cut_of,
    landings,
    source_of,
    target_of,
)
from ocs_codesign.interop.mscclpp.plan import WORDS, checked_plan
from ocs_codesign.interop.mscclpp.programs import plan_program

if TYPE_CHECKING:
    from numpy.typing import NDArray


# From sends and receives to puts with signals, waits and local sums, as MSCCL++ has them.


_UNLIMITED = 2**31


class ChunkPut(NamedTuple):
    """Chunks here that go to chunks of a peer, and in which step of a schedule, 0 if in none."""

    source: ChunkSpan
    target: ChunkSpan
    step: int = 0


@final
@dataclass(slots=True)
class PlanNode:
    """What a thread does at a time: puts and a signal, a wait for one, a local copy or sum.

    ``kind`` is SEND, WAIT, COPY or ADD. ``message`` numbers the signal of puts and waits, -1 for
    what is local. ``before`` are nodes of the same rank that must be over.
    """

    kind: int
    rank: int
    thread: int
    peer: int = -1
    message: int = -1
    puts: list[ChunkPut] = field(default_factory=list)
    source: ChunkSpan = NOWHERE
    target: ChunkSpan = NOWHERE
    before: set[int] = field(default_factory=set)
    level: int = 0


def nodes_of(program: RankProgram) -> tuple[list[PlanNode], list[int]]:
    """The nodes that do what a program does, and the chunks of scratch that every rank has then.

    Sends of one stream that may travel as one message share a signal, as far as nothing then waits
    for itself. What is local is done by the thread that sends what comes of it. Raises ValueError
    if operations wait for each other in a circle.
    """
    messages = messages_of(program)
    level = levels(program.num_operations, *edges_of(program, messages))
    if (level < 0).any():
        at = int((level < 0).argmax())
        raise ValueError(f"rank {int(program.rank[at])}, operation {at}: it never begins")
    causes, landing, scratch = landings(program, messages, level)
    links = _link_threads(program, causes)
    work = _work_threads(program, causes, level, links)
    pairs = list(zip(messages.send.tolist(), messages.receive.tolist(), strict=True))
    with_last = _with_last(program)
    while True:
        made = _Made(program, landing, links, work)
        made.add_messages(pairs, with_last)
        made.add_local()
        made.connect(causes)
        stuck = made.levelled()
        if not stuck:
            return made.nodes, scratch
        for send in stuck:
            with_last.pop(send, None)


def _link_threads(program: RankProgram, causes: ProgramCauses) -> list[int]:
    """The thread of every operation, numbered over all ranks, by the link that it serves."""
    links = [0] * program.num_operations
    number = 0
    for of_rank in threads_of(program, causes, _UNLIMITED, _UNLIMITED):
        for thread in of_rank:
            for o in thread.operations:
                links[o] = number
            number += 1
    return links


def _work_threads(
    program: RankProgram, causes: ProgramCauses, level: NDArray[np.int64], links: list[int]
) -> list[int]:
    """The thread that makes a copy or a sum: that which sends it, or what comes of it, first."""
    after: list[list[int]] = [[] for _ in links]
    for o, before in enumerate(causes.before):
        for p in before:
            after[p].append(o)
    work = list(links)
    kind = program.kind.tolist()
    for o in np.argsort(level, kind="stable")[::-1].tolist():
        if kind[o] == SEND:
            continue
        uses = [n for n in after[o] if kind[n] in (SEND, RECEIVE_ADD, ADD, COPY)]
        if uses:
            work[o] = work[min(uses, key=lambda n: (level[n], kind[n] != SEND, n))]
        elif kind[o] in (ADD, COPY) and causes.before[o]:
            work[o] = links[max(causes.before[o], key=lambda p: (level[p], p))]
    return work


def _with_last(program: RankProgram) -> dict[int, int]:
    """The sends that may travel with the send before them in their stream, and which that is."""
    order = np.lexsort((program.stream, program.rank))
    same = program.kind[order][1:] == SEND
    for name in ("rank", "stream", "kind", "peer", "channel", "step"):
        same &= np.diff(getattr(program, name)[order].astype(np.int64)) == 0
    same &= program.step[order][1:] > 0
    return dict(zip(order[1:][same].tolist(), order[:-1][same].tolist(), strict=True))


@final
class _Made:
    """Nodes in the making: those in which operations begin, and in which they are over."""

    def __init__(
        self, program: RankProgram, landing: dict[int, ChunkSpan], links: list[int], work: list[int]
    ) -> None:
        self.program, self.landing, self.links, self.work = program, landing, links, work
        self.rank, self.peer = program.rank.tolist(), program.peer.tolist()
        self.nodes: list[PlanNode] = []
        self.sends: list[list[int]] = []
        self.of: dict[int, int] = {}
        self.order: list[tuple[int, int]] = []

    def _add(self, node: PlanNode) -> int:
        self.nodes.append(node)
        self.sends.append([])
        return len(self.nodes) - 1

    def add_messages(self, pairs: list[tuple[int, int]], with_last: dict[int, int]) -> None:
        """Puts with a signal for every send, or run of sends, and waits where it is received."""
        put, last = -1, -1
        for send, receive in pairs:
            if with_last.get(send) != last or last < 0:
                ends = [(self.rank[o], self.links[o], self.peer[o]) for o in (send, receive)]
                same = put >= 0 and all(
                    (node.rank, node.thread, node.peer) == end
                    for node, end in zip(self.nodes[put : put + 2], ends, strict=True)
                )
                put, before = self._add(PlanNode(SEND, *ends[0], len(self.nodes))), put
                self._add(PlanNode(WAIT, *ends[1], put))
                if same:  # order on the link
                    self.order += [(before, put), (before + 1, put + 1)]
            step = int(self.program.step[send])
            put_one = ChunkPut(source_of(self.program, send), self.landing[receive], step)
            self.nodes[put].puts.append(put_one)
            self.sends[put].append(send)
            self.of[send], self.of[receive] = put, put + 1
            last = send

    def add_local(self) -> None:
        """Copies and sums, those of what came in scratch too."""
        for o, kind in enumerate(self.program.kind.tolist()):
            target = target_of(self.program, o)
            if kind in (COPY, ADD):
                node = PlanNode(kind, self.rank[o], self.work[o])
                node.source = source_of(self.program, o)
            elif kind in RECEIVES and self.landing[o] != target:
                node = PlanNode(ADD if kind == RECEIVE_ADD else COPY, self.rank[o], self.work[o])
                node.source = self.landing[o]
                node.before.add(self.of[o])
            else:
                continue
            node.target = target
            self.of[o] = self._add(node)

    def connect(self, causes: ProgramCauses) -> None:
        """What must be over before every node of the same rank."""
        for o, n in self.of.items():
            self.nodes[n].before.update(self.of[p] for p in causes.before[o] if self.of[p] != n)

    def levelled(self) -> set[int]:
        """Give all nodes a level above what they wait for; the sends to part if some have none."""
        edges = [(p, n) for n, node in enumerate(self.nodes) for p in node.before]
        edges += self.order
        edges += [(node.message, n) for n, node in enumerate(self.nodes) if node.kind == WAIT]
        ends = np.array(edges, dtype=np.int64).reshape(-1, 2).T
        level = levels(len(self.nodes), ends[0], ends[1]).tolist()
        for node, at in zip(self.nodes, level, strict=True):
            node.level = at
        behind = [n for n, at in enumerate(level) if at < 0]
        stuck = {send for n in behind for send in self.sends[n][1:]}
        if behind and not stuck:
            rank = self.nodes[behind[0]].rank
            raise ValueError(f"rank {rank}: operations wait for each other in a circle")
        return stuck


_NUM_THREADS = 1024
"""Of every block."""

_ADDRESSED_BYTES = 2**32
"""Offsets are 32 bit."""


def write_mscclpp(program: RankProgram, name: str) -> str:
    """The execution plan of a program of sends and receives.

    Every message is a put, or more, and a signal; what is to be added is put into scratch and
    added by its receiver. A block of threads serves a link out and the link in whose data it
    passes on; it begins by telling who puts there that it may, and waits for every signal that it
    is sent. Blocks of a rank that wait for each other meet at barriers. Messages are at most so
    large that offsets stay below 4 GiB. Plans know no steps of a schedule: where they do not follow
    from what waits for what, puts have a key "step", which the executor passes. Raises ValueError,
    naming the limit and the link, for what a plan cannot hold, and for other collectives than the
    four that plans have.
    """
    return json.dumps(plan_of(program, name))


def plan_of(program: RankProgram, name: str) -> dict[str, Any]:
    """What the plan of a program says; ValueError as of ``write_mscclpp``."""
    collective = program.collective
    if collective.name not in WORDS or collective.sizes is not None or collective.groups:
        raise ValueError(
            f"MSCCL++ plans have no word for {collective.text}: they hold {', '.join(WORDS)} "
            "of equal parts among all ranks"
        )
    for kind in (PUT, GET, SIGNAL, WAIT):
        if (program.kind == kind).any():
            raise ValueError("a plan is made of sends and receives: this program is one-sided")
    nodes, scratch = nodes_of(program)
    own: list[list[int]] = [[] for _ in range(program.num_ranks)]
    for n, node in enumerate(nodes):
        own[node.rank].append(n)
    cuts = [cut_of(nodes, rank, of) for rank, of in enumerate(own)]
    gpus = _Gpus(nodes, cuts)
    shard, whole = program.chunks_per_unit, program.chunks_per_unit * program.num_ranks
    inputs = shard if collective.name == "allgather" else whole
    outputs = shard if collective.name == "reduce-scatter" else whole
    size = _ADDRESSED_BYTES // max(inputs, outputs, *scratch)
    plan: dict[str, Any] = {
        "name": name,
        "collective": WORDS[collective.name],
        "protocol": "Simple",
        "inplace": program.in_place,
        "reuse_resources": False,
        "num_threads_per_block": _NUM_THREADS,
        "use_double_scratch_buffer": False,
        "buffer_alignment": 16,
        "min_message_size": 0,
        "max_message_size": size * (outputs if collective.name == "allgather" else inputs),
        "gpus": [
            {
                "id": rank,
                "input_chunks": inputs,
                "output_chunks": outputs,
                "scratch_chunks": scratch[rank],
                **gpus.written(rank),
            }
            for rank in range(program.num_ranks)
        ],
    }
    if steps_follow(plan_program(checked_plan(plan), name)):
        puts = (
            op
            for gpu in plan["gpus"]
            for block in gpu["threadblocks"]
            for op in block["ops"]
            if op["name"] == "put"
        )
        for op in puts:
            del op["step"]
    return plan


_End = tuple[int, int]
"""A rank and the number of one of its blocks."""


@final
@dataclass(slots=True)
class _Links:
    """The channels of a block by the block at the other end, those that it signals on first."""

    sends: dict[_End, list[int]] = field(default_factory=lambda: defaultdict(list))
    receives: dict[_End, list[int]] = field(default_factory=lambda: defaultdict(list))

    def ends(self) -> list[_End]:
        """The other ends in order."""
        return list(dict.fromkeys([*self.sends, *self.receives]))


@final
class _Gpus:
    """Blocks of all ranks, and the channels between them: one for each pair that has messages."""

    def __init__(self, nodes: list[PlanNode], cuts: list[BlockCut]) -> None:
        self.nodes, self.cuts = nodes, cuts
        block_of = {
            n: (rank, b)
            for rank, cut in enumerate(cuts)
            for b, block in enumerate(cut.blocks)
            for n in block.nodes
        }
        self.links: dict[_End, _Links] = {end: _Links() for end in block_of.values()}
        for n, node in enumerate(nodes):
            if node.kind == WAIT:
                here, there = block_of[n], block_of[node.message]
                self.links[here].receives[there].append(node.message)
                self.links[there].sends[here].append(node.message)

    def written(self, rank: int) -> dict[str, Any]:
        """The parts of a GPU in a plan: its channels, remote buffers and threadblocks."""
        cut = self.cuts[rank]
        listed = [
            (end, (rank, b)) for b in range(len(cut.blocks)) for end in self.links[rank, b].ends()
        ]
        number = _numbers(listed)
        remote: dict[tuple[int, int], int] = {}
        blocks = [self._block(rank, b, number, remote) for b in range(len(cut.blocks))]
        channels = [end[0] for end, _ in listed]
        return {
            "channels": [{"channel_type": "memory", "connected_to": channels}] if channels else [],
            "remote_buffers": [
                {"rank": peer, "type": "ios"[buffer], "access_channel_types": ["memory"]}
                for peer, buffer in remote
            ],
            "semaphores": [],
            "threadblocks": blocks,
        }

    def _block(
        self,
        rank: int,
        b: int,
        number: dict[tuple[_End, _End], int],
        remote: dict[tuple[int, int], int],
    ) -> dict[str, Any]:
        cut, links = self.cuts[rank], self.links[rank, b]
        own = [self.nodes[n] for n in cut.blocks[b].nodes]
        ends = links.ends()
        place = {end: at for at, end in enumerate(ends)}
        sends = {m: place[end] for end, messages in links.sends.items() for m in messages}
        receives = {m: place[end] for end, messages in links.receives.items() for m in messages}
        used = [(n.peer, p.target.buffer) for n in own if n.kind == SEND for p in n.puts]
        buffers = {key: at for at, key in enumerate(dict.fromkeys(used))}
        for key in buffers:
            remote.setdefault(key, len(remote))
        writer = BlockWriter(receives, sends, buffers)
        writer.start()
        age = cut.generation(cut.blocks[b])
        if age:
            writer.barrier(2 * age - 1, cut.members(age - 1, age))
        phase, last = cut.first[age], [*cut.first, max(cut.phase.values()) + 1][age + 1] - 1
        for n, node in zip(cut.blocks[b].nodes, own, strict=True):
            for _ in range(cut.phase[n] - phase):
                writer.barrier(2 * age, cut.members(age))
            phase = cut.phase[n]
            writer.node(node)
        for _ in range(last - phase):
            writer.barrier(2 * age, cut.members(age))
        if age + 1 < len(cut.first):
            writer.barrier(2 * age + 1, cut.members(age, age + 1))
        if writer.waiting:
            writer.sync()
        _check(rank, b, own, writer, len(ends), len(buffers))
        channels = [number[end, (rank, b)] for end in ends]
        ids = [remote[key] for key in buffers]
        listed = {"access_channel_type": "memory", "remote_buffer_ids": ids}
        return {
            "id": b,
            "channels": [{"channel_type": "memory", "channel_ids": channels}] if channels else [],
            "remote_buffer_refs": [listed] if ids else [],
            "ops": writer.operations,
        }


def _numbers(listed: list[tuple[_End, _End]]) -> dict[tuple[_End, _End], int]:
    """The channel of a rank for every pair of blocks (there, here).

    The k-th channel to a peer meets the peer's k-th channel back: both ends go by the pairs.
    """
    places: dict[int, list[int]] = defaultdict(list)
    pairs: dict[int, list[tuple[_End, _End]]] = defaultdict(list)
    for at, (there, here) in enumerate(listed):
        places[there[0]].append(at)
        pairs[there[0]].append((there, here))
    return {
        pair: at
        for peer, own in pairs.items()
        for pair, at in zip(sorted(own, key=sorted), places[peer], strict=True)
    }


def _check(
    rank: int, b: int, own: list[PlanNode], writer: BlockWriter, channels: int, buffers: int
) -> None:
    """ValueError, with a link, for a block beyond the limits of a plan."""
    limits = (
        (len(writer.operations), MAX_OPERATIONS, "operations"),
        (channels, MAX_CHANNELS, "channels"),
        (buffers, MAX_CHANNELS, "remote buffers"),
    )
    for count, most, what in limits:
        if count > most:
            node = next((node for node in own if node.kind == SEND), own[0])
            ends = (rank, node.peer) if node.kind == SEND else (node.peer, rank)
            raise ValueError(
                f"link {ends[0]} -> {ends[1]}: threadblock {b} would have {count} {what}, "
                f"a plan holds {most}"
            )
