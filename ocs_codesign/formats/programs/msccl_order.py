"""What comes before what in a program: its operations as a graph, levels in it, and causes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.rank_program import NOP, RECEIVE, RECEIVE_ADD, SEND, RankProgram
from ocs_codesign.runs import places, starts_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

MAX_REDUCED = 60_000
"""Operations up to which needs that follow from others are told apart; more keep them all."""


@final
@dataclass(frozen=True, slots=True)
class Meetings:
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
@dataclass(frozen=True, slots=True)
class ProgramCauses:
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
