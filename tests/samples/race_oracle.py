"""Slow and plain: every two accesses of a slot, and what is before what, with Python's integers."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise

from ocs_codesign.core.plans import (
    ADD,
    COPY,
    GET,
    PUT,
    RECEIVE,
    RECEIVE_ADD,
    SEND,
    SIGNAL,
    WAIT,
    RankProgram,
)


def edges(program: RankProgram) -> list[tuple[int, int]]:
    """Pairs of operations of which the first is before the second, whatever the channels hold."""
    found, last = [], {}
    for o in range(program.num_operations):
        key = int(program.rank[o]), int(program.stream[o])
        if key in last:
            found.append((last[key], o))
        last[key] = o
        begin, end = program.need_start[o : o + 2]
        found += [(int(n), o) for n in program.need[begin:end]]
    for gives, takes in (((SEND,), (RECEIVE, RECEIVE_ADD)), ((SIGNAL,), (WAIT,))):
        lines = partners(program, gives, takes)
        for given, taken in lines.values():
            found += list(zip(given, taken, strict=False))
    return found


def partners(program: RankProgram, gives=(SEND,), takes=(RECEIVE, RECEIVE_ADD)):
    """The operations of every (from, to, channel) that give and that take, in turn."""
    lines: dict = defaultdict(lambda: ([], []))
    for o in range(program.num_operations):
        rank, peer, channel = (int(c[o]) for c in (program.rank, program.peer, program.channel))
        if program.kind[o] in gives:
            lines[rank, peer, channel][0].append(o)
        elif program.kind[o] in takes:
            lines[peer, rank, channel][1].append(o)
    return lines


def ancestors(program: RankProgram) -> list[int] | None:
    """All operations before each, a bit each; None if some wait in a circle."""
    num = program.num_operations
    after, waits = defaultdict(list), [0] * num
    for one, other in edges(program):
        after[one].append(other)
        waits[other] += 1
    above, ready, done = [0] * num, [o for o in range(num) if not waits[o]], 0
    while ready:
        o = ready.pop()
        done += 1
        for other in after[o]:
            above[other] |= above[o] | 1 << o
            waits[other] -= 1
            if not waits[other]:
                ready.append(other)
    return above if done == num else None


def accesses(program: RankProgram):
    """Of every slot (rank, buffer, chunk) all (operation, whether it writes)."""
    found = defaultdict(list)
    for o in range(program.num_operations):
        kind, rank, peer = (int(c[o]) for c in (program.kind, program.rank, program.peer))
        there = peer if kind in (PUT, GET) else rank
        for i in range(int(program.count[o])):
            source = rank, int(program.source_buffer[o]), int(program.source[o]) + i
            target = there, int(program.target_buffer[o]), int(program.target[o]) + i
            if kind in (SEND, COPY, ADD, PUT, GET):
                found[source].append((o, kind == GET))
            if kind in (RECEIVE, RECEIVE_ADD, COPY, ADD, PUT, GET):
                found[target].append((o, kind != GET))
    return found


def races(program: RankProgram) -> Counter[tuple[int, int]] | None:
    """In how many slots two operations are in no order and one of them writes, by pair.

    Pairs that could overtake each other on a channel count too; None if it cannot be told, because
    operations wait in a circle.
    """
    above = ancestors(program)
    if above is None:
        return None
    pairs = [
        (one, other)
        for slot in accesses(program).values()
        for at, (one, writes) in enumerate(slot)
        for other, writes_too in slot[:at]
        if (writes or writes_too) and one != other
    ]
    for gives, takes in (((SEND,), (RECEIVE, RECEIVE_ADD)), ((SIGNAL,), (WAIT,))):
        for sides in partners(program, gives, takes).values():
            pairs += [pair for side in sides for pair in pairwise(side)]
    return Counter(
        (min(one, other), max(one, other))
        for one, other in pairs
        if not (above[one] >> other & 1 or above[other] >> one & 1)
    )
