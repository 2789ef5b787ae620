"""Threads of a rank: which link out and which link in one threadblock serves, and what it does."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

from ocs_codesign.rank_program import ADD, COPY, NOP, RECEIVE, RECEIVE_ADD, SEND

if TYPE_CHECKING:
    from ocs_codesign.formats.programs.msccl_order import ProgramCauses
    from ocs_codesign.rank_program import RankProgram

LOCAL = (COPY, ADD, NOP)
RECEIVES = (RECEIVE, RECEIVE_ADD)

_Side = tuple[int, int]
"""A channel and a peer."""


@final
@dataclass(slots=True)
class LinkThread:
    """A thread of a rank: the peers that it sends to and receives from (-1 is none), operations."""

    rank: int
    send: int
    receive: int
    channel: int
    operations: list[int] = field(default_factory=list)


def passes_on(program: RankProgram, receive: int, send: int) -> bool:
    """Whether a send is of just what a receive, of the same rank, wrote."""
    return (
        program.kind[receive] in RECEIVES
        and program.kind[send] == SEND
        and program.target_buffer[receive] == program.source_buffer[send]
        and program.target[receive] == program.source[send]
        and program.count[receive] == program.count[send]
    )


def threads_of(
    program: RankProgram,
    causes: ProgramCauses,
    max_threads: int,
    max_per_channel: int,
    *,
    fused: bool = True,
) -> list[list[LinkThread]]:
    """The threads of every rank, each for one link out, one link in, or one of both.

    A link in and a link out of one channel go together if what comes in goes out again, most
    transfers first, if they may be ``fused``; where there are more threads than are allowed, all
    that can. What is local is done by the thread of what comes next in its stream, or before it,
    or by one of its own.
    """
    score: list[Counter[tuple[_Side, _Side]]] = [Counter() for _ in range(program.num_ranks)]
    peer, channel, rank = program.peer.tolist(), program.channel.tolist(), program.rank.tolist()
    outs: list[set[_Side]] = [set() for _ in range(program.num_ranks)]
    ins: list[set[_Side]] = [set() for _ in range(program.num_ranks)]
    for o, kind in enumerate(program.kind.tolist()):
        side = channel[o], peer[o]
        if kind == SEND:
            outs[rank[o]].add(side)
            for p in causes.before[o]:
                if fused and channel[p] == channel[o] and passes_on(program, p, o):
                    score[rank[o]][(channel[p], peer[p]), side] += 1
        elif kind in RECEIVES:
            ins[rank[o]].add(side)
    threads = [
        _paired(r, outs[r], ins[r], score[r], max_threads, max_per_channel)
        for r in range(program.num_ranks)
    ]
    for r, of_rank in enumerate(threads):
        _share_out(program, r, of_rank, max_threads, max_per_channel)
    return threads


def _paired(
    rank: int,
    outs: set[_Side],
    ins: set[_Side],
    score: Counter[tuple[_Side, _Side]],
    max_threads: int,
    max_per_channel: int,
) -> list[LinkThread]:
    into_of: dict[_Side, _Side] = {}
    free = set(ins)
    wishes = sorted(score.items(), key=lambda wish: (-wish[1], wish[0]))
    for (into, out), _ in wishes:
        if into in free and out not in into_of:
            into_of[out] = into
            free.remove(into)
    sides = len(outs) + len(free)
    per_channel = Counter(side[0] for side in outs) + Counter(side[0] for side in free)
    if sides > max_threads or max(per_channel.values(), default=0) > max_per_channel:
        for out in sorted(outs - set(into_of)):
            same = [side for side in sorted(free) if side[0] == out[0]]
            if same:
                into_of[out] = same[0]
                free.remove(same[0])
    threads = [LinkThread(rank, out[1], into_of.get(out, (0, -1))[1], out[0]) for out in outs]
    threads += [LinkThread(rank, -1, into[1], into[0]) for into in free]
    return sorted(threads, key=lambda t: (t.channel, t.send < 0, t.send, t.receive))


def _share_out(
    program: RankProgram,
    rank: int,
    threads: list[LinkThread],
    max_threads: int,
    max_per_channel: int,
) -> None:
    """Give every operation of a rank to a thread, in the order of the program."""
    of_send = {(t.channel, t.send): t for t in threads if t.send >= 0}
    of_receive = {(t.channel, t.receive): t for t in threads if t.receive >= 0}
    span = program.operations_of(rank)
    chosen: dict[int, LinkThread] = {}
    waiting: dict[int, list[int]] = {}
    last: dict[int, LinkThread] = {}
    kind, stream = program.kind[span].tolist(), program.stream[span].tolist()
    for at, o in enumerate(range(span.start, span.stop)):
        if kind[at] in LOCAL:
            waiting.setdefault(stream[at], []).append(o)
            continue
        side = int(program.channel[o]), int(program.peer[o])
        thread = of_send[side] if kind[at] == SEND else of_receive[side]
        for local in waiting.pop(stream[at], []):
            chosen[local] = thread
        chosen[o] = last[stream[at]] = thread
    for at_stream, locals_ in sorted(waiting.items()):
        thread = last.get(at_stream) or _alone(rank, threads, max_threads, max_per_channel)
        for local in locals_:
            chosen[local] = thread
    for o in sorted(chosen):
        chosen[o].operations.append(o)


def _alone(
    rank: int, threads: list[LinkThread], max_threads: int, max_per_channel: int
) -> LinkThread:
    """A thread for what is local only: one of its own if there is room for it, else the first."""
    used = Counter(thread.channel for thread in threads)
    channel = min(used or (0,), key=lambda c: (used[c], c))
    if threads and (len(threads) >= max_threads or used[channel] >= max_per_channel):
        return threads[0]
    threads.append(LinkThread(rank, -1, -1, channel))
    return threads[-1]
