"""From sends and receives to puts with signals, waits and local sums, as MSCCL++ has them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

from ocs_codesign.formats.programs.msccl_order import (
    ProgramCauses,
    edges_of,
    levels,
    messages_of,
)
from ocs_codesign.formats.programs.msccl_threads import RECEIVES, threads_of
from ocs_codesign.formats.programs.mscclpp_landing import (
    NOWHERE,
    ChunkSpan,
    landings,
    source_of,
    target_of,
)
from ocs_codesign.rank_program import ADD, COPY, RECEIVE_ADD, SEND, WAIT, RankProgram

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
        self,
        program: RankProgram,
        landing: dict[int, ChunkSpan],
        links: list[int],
        work: list[int],
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
