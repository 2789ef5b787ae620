"""What comes before what in a program: its operations as a graph, levels in it, and causes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from ocs_codesign.core.plans import ADD, COPY, NOP, RECEIVE, RECEIVE_ADD, SEND, RankProgram
from ocs_codesign.core.topology import places, starts_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray


MAX_REDUCED = 60_000
"""Operations up to which needs that follow from others are told apart; more keep them all."""


@final
class Meetings(NamedTuple):
    """Every send with its receive, sorted by (rank, peer, channel) and order on the link."""

    send: NDArray[np.int64]
    receive: NDArray[np.int64]
    number: NDArray[np.int64]
    """How many messages came before on the link."""


def messages_of(program: RankProgram) -> Meetings:
    """The messages of a program of sends and receives; ValueError if some have no other end."""
    send = np.flatnonzero(program.kind == SEND)
    receive = np.flatnonzero(np.isin(program.kind, (RECEIVE, RECEIVE_ADD)))
    out = [program.channel[send], program.peer[send], program.rank[send]]
    into = [program.channel[receive], program.rank[receive], program.peer[receive]]
    orders = np.lexsort(out), np.lexsort(into)
    send, receive = send[orders[0]], receive[orders[1]]
    outs, ins = np.stack(out)[:, orders[0]], np.stack(into)[:, orders[1]]
    if not np.array_equal(outs, ins):
        _refuse_unmatched(outs, ins)
    new = np.append(True, (outs[:, 1:] != outs[:, :-1]).any(axis=0))[: len(send)]
    first = np.flatnonzero(new)
    number = np.arange(len(send)) - np.repeat(first, np.diff(np.append(first, len(send))))
    unequal = program.count[send] != program.count[receive]
    if unequal.any():
        at = int(unequal.argmax())
        counts = int(program.count[send[at]]), int(program.count[receive[at]])
        raise ValueError(
            f"link {link_text(program, int(send[at]))}: message {int(number[at])} has {counts[0]} "
            f"chunks where it is sent and {counts[1]} where it is received"
        )
    return Meetings(send, receive, number)


def _refuse_unmatched(out: NDArray[Any], into: NDArray[Any]) -> None:
    links = np.unique(np.concatenate([out, into], axis=1), axis=1)
    for channel, peer, rank in links.T.tolist():
        counts = [
            int((ends == np.array([[channel], [peer], [rank]])).all(axis=0).sum())
            for ends in (out, into)
        ]
        if counts[0] != counts[1]:
            raise ValueError(
                f"link {rank} -> {peer}, channel {channel}: {counts[0]} messages are sent "
                f"and {counts[1]} are received"
            )


def link_text(program: RankProgram, operation: int) -> str:
    """The link of a send or receive, as errors name it."""
    rank, peer = int(program.rank[operation]), int(program.peer[operation])
    if program.kind[operation] != SEND:
        rank, peer = peer, rank
    return f"{rank} -> {peer}"


def edges_of(program: RankProgram, messages: Meetings) -> tuple[NDArray[np.int64], ...]:
    """What happens before what: tails and heads of order in streams, on links, and of needs."""
    order = np.lexsort((program.stream, program.rank))
    same = (np.diff(program.rank[order]) == 0) & (np.diff(program.stream[order]) == 0)
    owner = np.repeat(np.arange(program.num_operations), np.diff(program.need_start))
    later = np.flatnonzero(messages.number[1:])
    pairs = [
        (order[:-1][same], order[1:][same]),
        (program.need, owner),
        (messages.send[later], messages.send[later + 1]),
        (messages.receive[later], messages.receive[later + 1]),
        (messages.send, messages.receive),
    ]
    return tuple(np.concatenate(ends) for ends in zip(*pairs, strict=True))


def space_edges(messages: Meetings, fifo_depth: int) -> tuple[NDArray[np.int64], ...]:
    """Which receive must be done before which send finds room in a FIFO of so many messages."""
    later = np.flatnonzero(messages.number >= fifo_depth)
    return messages.receive[later - fifo_depth], messages.send[later]


def levels(count: int, tail: NDArray[np.int64], head: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of every node of a graph the most edges on a way to it, -1 if it is behind a cycle.

    >>> levels(4, np.array([0, 1, 0]), np.array([1, 2, 2])).tolist()
    [0, 1, 2, 0]
    """
    order = np.argsort(tail, kind="stable")
    start, head = starts_of(np.bincount(tail, minlength=count)), head[order]
    waiting = np.bincount(head, minlength=count)
    level = np.full(count, -1, dtype=np.int64)
    ready, depth = np.flatnonzero(waiting == 0), 0
    while len(ready):
        level[ready] = depth
        reached = head[places(start[ready], start[ready + 1] - start[ready])[1]]
        np.subtract.at(waiting, reached, 1)
        ready, depth = np.unique(reached[waiting[reached] == 0]), depth + 1
    return level


@final
class ProgramCauses(NamedTuple):
    """What has to be waited for, and what is known to be over.

    ``before[o]`` are the operations of the same rank that o must wait for itself: those that
    follow from others, a message that it receives included, are left out unless there are too many
    operations. ``proven`` are the pairs asked for of which the first is done before the second.
    """

    before: list[list[int]]
    proven: set[tuple[int, int]]
    reduced: bool


def causes_of(
    program: RankProgram,
    edges: tuple[NDArray[np.int64], ...],
    level: NDArray[np.int64],
    asked: Mapping[int, Iterable[int]] | None = None,
) -> ProgramCauses:
    """The causes of every operation where what ``edges`` say is before what, as levels agree.

    ``asked`` names, by operation, what may be done before it.
    """
    tail, head = edges
    count = program.num_operations
    order = np.lexsort((-level[tail], head))
    start = starts_of(np.bincount(head, minlength=count)).tolist()
    tails, rank = tail[order].tolist(), program.rank.tolist()
    if count > MAX_REDUCED:
        before = [
            [p for p in dict.fromkeys(tails[start[o] : start[o + 1]]) if rank[p] == rank[o]]
            for o in range(count)
        ]
        return ProgramCauses(before, set(), reduced=False)
    before = [[] for _ in range(count)]
    past: dict[int, int] = {}
    uses = np.bincount(tail, minlength=count).tolist()
    proven: set[tuple[int, int]] = set()
    for o in np.argsort(level, kind="stable").tolist():
        known = 0
        causes = tails[start[o] : start[o + 1]]
        for p in causes:
            if not known >> p & 1:
                known |= past[p] | 1 << p
                if rank[p] == rank[o]:
                    before[o].append(p)
        for p in causes:
            uses[p] -= 1
            if not uses[p]:
                del past[p]
        past[o] = known
        if asked and o in asked:
            proven.update((a, o) for a in asked[o] if known >> a & 1)
    return ProgramCauses(before, proven, reduced=True)


def pass_over_nops(program: RankProgram, causes: ProgramCauses, level: NDArray[Any]) -> None:
    """Whatever waits for a nop waits for what the nop waits for."""
    nops = np.flatnonzero(program.kind == NOP).tolist()
    if not nops:
        return
    is_nop = set(nops)
    for o in np.argsort(level, kind="stable").tolist():
        if is_nop & set(causes.before[o]):
            wide = (causes.before[p] if p in is_nop else [p] for p in causes.before[o])
            causes.before[o] = list(dict.fromkeys(p for part in wide for p in part))


def split(program: RankProgram, most: int) -> RankProgram:
    """The same program where no operation concerns more than ``most`` chunks."""
    parts = np.maximum(-(-program.count.astype(np.int64) // most), 1)
    if (parts == 1).all():
        return program
    first = starts_of(parts)
    old, place = places(np.zeros(len(parts), dtype=np.int64), parts)
    columns = {name: getattr(program, name)[old] for name in _COPIED}
    moved = place * most
    for name in ("source", "target"):
        columns[name] = getattr(program, name)[old] + moved
    columns["count"] = np.minimum(program.count[old] - moved, most)
    # A part of what was just written waits for that part alone, all else for the whole.
    owner = np.repeat(np.arange(len(parts)), np.diff(program.need_start))
    alike = _passed_on(program, program.need, owner)
    entry, part = places(np.zeros(len(owner), dtype=np.int64), np.where(alike, parts[owner], 1))
    waits = first[owner[entry]] + part
    needed = program.need[entry]
    need = np.where(alike[entry], first[needed] + part, first[needed + 1] - 1)
    order = np.argsort(waits, kind="stable")
    sizes = np.bincount(waits, minlength=len(old))
    return with_columns(program, columns, starts_of(sizes), need[order])


def _passed_on(
    program: RankProgram, receive: NDArray[np.int64], send: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Which pairs are of a receive and a send of just what it wrote."""
    same: NDArray[np.bool_] = program.kind[send] == SEND
    same &= np.isin(program.kind[receive], (RECEIVE, RECEIVE_ADD))
    same &= program.target_buffer[receive] == program.source_buffer[send]
    same &= program.target[receive] == program.source[send]
    same &= program.count[receive] == program.count[send]
    return same


_COPIED = (
    *("rank", "stream", "kind", "peer", "channel", "source_buffer"),
    *("target_buffer", "step"),
)


def with_columns(
    program: RankProgram,
    columns: Mapping[str, NDArray[np.int64]],
    need_start: NDArray[np.int64],
    need: NDArray[np.int64],
) -> RankProgram:
    """Other operations for what a program does, in its buffers."""
    named = program.collective.name != "custom"
    return RankProgram(
        program.collective if named else program.demands[0],
        program.num_ranks,
        program.chunks_per_unit,
        program.in_place,
        program.scratch,
        dict(columns),
        need_start,
        need,
    )


# Threads of a rank: which link out and which link in one threadblock serves, and what it does.


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
