"""What operations of ranks wait for, and whether all accesses of a slot are in one order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.kernels import for_work
from ocs_codesign.rank_program import (
    ADD,
    COPY,
    GET,
    KINDS,
    PUT,
    RECEIVE,
    RECEIVE_ADD,
    SEND,
    SIGNAL,
    WAIT,
)
from ocs_codesign.verification import rank_program_kernels as loops
from ocs_codesign.verification.witness import Witness

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.rank_program import RankProgram

    Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]
    """Operations, and others that are after them."""

_TABLE_ENTRIES = 2**24

STUCK = "this operation waits for ever"
NOT_TAKEN = "what is sent here is never received"
NOT_SENT = "what is received here is never sent"
NOT_WAITED = "no wait takes what is signalled here"
NOT_SIGNALLED = "what is waited for here is never signalled"
OTHER_COUNT = "this receives {got} chunks of {sent} that are sent"
OUT_OF_TURN = "this may overtake operation {earlier}, which is for the same peer and channel"
RACE = "nothing orders this and operation {earlier}, of which one writes a slot of both"


@final
@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """Which operations of a program come after which, and an order in which all can run.

    ``before`` and ``after`` (int64) are pairs: of a rank's own by stream and need, and with sends
    and signals before what they meet. ``meets`` (int64) is of a send its receive and the other way
    round, -1 of others. ``place`` (int64) is the number of an operation in its stream, ``stream``
    (int64) that of its stream among all of all ranks, by rank.
    """

    program: RankProgram
    before: NDArray[np.int64]
    after: NDArray[np.int64]
    is_local: NDArray[np.bool_]
    meets: NDArray[np.int64]
    stream: NDArray[np.int64]
    place: NDArray[np.int64]
    order: NDArray[np.int64]


def order_of(program: RankProgram, fifo_depth: int | None) -> Order | Witness:
    """The order of a program whose channels hold ``fifo_depth`` sends, None for any number.

    Or the first operation that never runs, or meets nothing or something of another size.
    """
    num = program.num_operations
    stream, place, local = _local(program)
    sends = _met(program, (SEND,), (RECEIVE, RECEIVE_ADD), NOT_TAKEN, NOT_SENT)
    if isinstance(sends, Witness):
        return sends
    signals = _met(program, (SIGNAL,), (WAIT,), NOT_WAITED, NOT_SIGNALLED)
    if isinstance(signals, Witness):
        return signals
    unequal = np.flatnonzero(program.count[sends[0]] != program.count[sends[1]])
    if len(unequal):
        sent, got = (int(side[unequal[0]]) for side in sends)
        rule = OTHER_COUNT.format(got=int(program.count[got]), sent=int(program.count[sent]))
        return told(program, got, rule)
    meets = np.full(num, -1)
    meets[sends[0]], meets[sends[1]] = sends[1], sends[0]
    before = np.concatenate([local[0], sends[0], signals[0]])
    after = np.concatenate([local[1], sends[1], signals[1]])
    room = _room(program, sends, fifo_depth)
    order = _sorted(np.concatenate([before, room[0]]), np.concatenate([after, room[1]]), num)
    if len(order) < num:
        return _stuck(program, order, (before, after), room)
    is_local = np.arange(len(before)) < len(local[0])
    return Order(program, before, after, is_local, meets, stream, place, order)


def told(program: RankProgram, operation: int, rule: str) -> Witness:
    """Witness of an operation, told with its kind and peer."""
    kind, peer = KINDS[int(program.kind[operation])], int(program.peer[operation])
    what = kind if peer < 0 else f"{kind}, peer {peer}, channel {int(program.channel[operation])}"
    return Witness(f"{rule} ({what})", rank=int(program.rank[operation]), operation=operation)


def _local(program: RankProgram) -> tuple[NDArray[np.int64], NDArray[np.int64], Pairs]:
    """Stream and place of every operation, and what is after what within ranks."""
    num = program.num_operations
    key = program.rank * (int(program.stream.max(initial=0)) + np.int64(1)) + program.stream
    stream = np.unique(key, return_inverse=True)[1]
    order = np.argsort(stream, kind="stable")
    follows = np.flatnonzero(np.diff(stream[order]) == 0)
    first = np.searchsorted(stream[order], stream[order])
    place = np.empty(num, dtype=np.int64)
    place[order] = np.arange(num) - first
    owner = np.repeat(np.arange(num), np.diff(program.need_start))
    before = np.concatenate([order[follows], program.need])
    return stream, place, (before, np.concatenate([order[follows + 1], owner]))


def _met(
    program: RankProgram, gives: tuple[int, ...], takes: tuple[int, ...], left: str, lacks: str
) -> Pairs | Witness:
    """The operations that meet: the k-th of a rank, peer and channel the k-th over there."""
    giver = np.flatnonzero(np.isin(program.kind, gives))
    taker = np.flatnonzero(np.isin(program.kind, takes))
    keys = []
    for rows, ends in ((giver, ("rank", "peer")), (taker, ("peer", "rank"))):
        from_rank, to_rank = (getattr(program, end)[rows].astype(np.int64) for end in ends)
        channel = program.channel[rows]
        key = from_rank * program.num_ranks + to_rank
        keys.append(np.stack([key, channel], axis=1))
    _, line = np.unique(np.concatenate(keys), axis=0, return_inverse=True)
    line = line.ravel()
    given, taken = line[: len(giver)], line[len(giver) :]
    orders = np.argsort(given, kind="stable"), np.argsort(taken, kind="stable")
    giver, given, taker, taken = (
        giver[orders[0]],
        given[orders[0]],
        taker[orders[1]],
        taken[orders[1]],
    )
    number = [np.arange(len(side)) - np.searchsorted(side, side) for side in (given, taken)]
    lines = int(line.max(initial=-1)) + 1
    sizes = [np.bincount(side, minlength=lines) for side in (given, taken)]
    alone = giver[number[0] >= sizes[1][given]]
    if len(alone):
        return told(program, int(alone.min()), left)
    alone = taker[number[1] >= sizes[0][taken]]
    if len(alone):
        return told(program, int(alone.min()), lacks)
    return giver, taker


def _room(program: RankProgram, sends: Pairs, fifo_depth: int | None) -> Pairs:
    """A receive is before the send that needs the place of what it takes."""
    none = np.zeros(0, dtype=np.int64)
    if fifo_depth is None:
        return none, none
    sent, got = sends  # by channel, and then in turn
    line = [getattr(program, name)[sent] for name in ("rank", "peer", "channel")]
    last = np.arange(max(0, len(sent) - fifo_depth))
    same = np.ones(len(last), dtype=bool)
    for column in line:
        same &= column[last] == column[last + fifo_depth]
    return got[last[same]], sent[last[same] + fifo_depth]


def _sorted(before: NDArray[np.int64], after: NDArray[np.int64], num: int) -> NDArray[np.int64]:
    start, successor = grouped(before, after, num)
    waits = np.bincount(after, minlength=num)
    order: NDArray[np.int64] = for_work(loops.in_order, len(before))(start, successor, waits)
    return order


def grouped(
    key: NDArray[np.int64], value: NDArray[np.int64], num: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The values of every key, those of key k at ``start[k] : start[k + 1]``."""
    start = np.concatenate([[0], np.cumsum(np.bincount(key, minlength=num))])
    return start, value[np.argsort(key, kind="stable")]


def _stuck(program: RankProgram, order: NDArray[np.int64], pairs: Pairs, room: Pairs) -> Witness:
    """An operation of a circle, each of which waits for the one before."""
    runs = np.zeros(program.num_operations, dtype=bool)
    runs[order] = True
    before = np.concatenate([pairs[0], room[0]])
    after = np.concatenate([pairs[1], room[1]])
    blocked = np.flatnonzero(~runs[before] & ~runs[after])
    waits_for = np.full(len(runs), -1)
    waits_for[after[blocked]] = before[blocked]
    at = int(np.flatnonzero(~runs)[0])
    path: dict[int, None] = {}
    while at not in path:
        path[at] = None
        at = int(waits_for[at])
    circle = list(path)[list(path).index(at) :]
    shown = ", ".join(
        f"{operation} of rank {int(program.rank[operation])}" for operation in circle[:8]
    )
    more = f" and {len(circle) - 8} more" if len(circle) > 8 else ""
    first = min(circle)
    return told(
        program, first, f"{STUCK}: operations {shown}{more} wait for each other in a circle"
    )


def race_of(order: Order, base: NDArray[np.int64]) -> Witness | None:
    """Two accesses of a slot in no order, or two that could overtake each other on a channel.

    ``base[rank, buffer]`` is where a buffer begins among all slots.
    """
    turns = _turns(order)
    loose = _not_after(order, *turns)
    if loose is not None:
        rule = OUT_OF_TURN.format(earlier=int(turns[0][loose]))
        return told(order.program, int(turns[1][loose]), rule)
    first, second = _conflicts(order, base)
    loose = _not_after(order, first, second)
    if loose is None:
        return None
    return told(order.program, int(second[loose]), RACE.format(earlier=int(first[loose])))


def _turns(order: Order) -> Pairs:
    """Neighbours among what meets over a channel, at each end."""
    program = order.program
    pairs = []
    for kinds in ((SEND,), (RECEIVE, RECEIVE_ADD), (SIGNAL,), (WAIT,)):
        rows = np.flatnonzero(np.isin(program.kind, kinds))
        columns = [getattr(program, name)[rows] for name in ("channel", "peer", "rank")]
        by_line = np.lexsort(columns)
        same = np.ones(max(0, len(rows) - 1), dtype=bool)
        for column in columns:
            same &= np.diff(column[by_line]) == 0
        at = np.flatnonzero(same)
        pairs.append((rows[by_line[at]], rows[by_line[at + 1]]))
    first, second = (np.concatenate(side) for side in zip(*pairs, strict=True))
    return first, second


def accesses_of(
    program: RankProgram, base: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Every access: its operation, its first slot among all, and whether it writes."""
    kind = program.kind
    ours = base[program.rank, program.source_buffer] + program.source
    at_peer = np.isin(kind, (PUT, GET))
    owner = np.where(at_peer, program.peer, program.rank)
    theirs = base[owner, program.target_buffer] + program.target
    parts = (
        (np.isin(kind, (SEND, COPY, ADD, PUT)), ours, False),
        (kind == GET, ours, True),
        (np.isin(kind, (RECEIVE, RECEIVE_ADD, COPY, ADD, PUT)), theirs, True),
        (kind == GET, theirs, False),
    )
    rows = [np.flatnonzero(which & (program.count > 0)) for which, _, _ in parts]
    slots = [where[row] for row, (_, where, _) in zip(rows, parts, strict=True)]
    writes = [np.full(len(row), write) for row, (_, _, write) in zip(rows, parts, strict=True)]
    return np.concatenate(rows), np.concatenate(slots), np.concatenate(writes)


def _conflicts(order: Order, base: NDArray[np.int64]) -> Pairs:
    """Pairs of operations that must be ordered, the first of which comes before in ``order``.

    In every slot a write and the next one, and what reads in between and both: since order is
    transitive, these stand for all pairs.
    """
    operation, lo, writes = accesses_of(order.program, base)
    hi = lo + order.program.count[operation]
    edges = np.unique(np.concatenate([lo, hi]))
    first, last = np.searchsorted(edges, lo), np.searchsorted(edges, hi)
    access = np.repeat(np.arange(len(lo)), last - first)
    begin = np.cumsum(last - first) - (last - first)
    cell = np.arange(len(access)) - begin[access] + first[access]
    turn = np.empty(order.program.num_operations, dtype=np.int64)
    turn[order.order] = np.arange(len(turn))
    by_cell = np.lexsort((writes[access], turn[operation[access]], cell))
    cell, access = cell[by_cell], access[by_cell]
    operation, writes = operation[access], writes[access]
    index = np.arange(len(cell))
    start = np.searchsorted(cell, cell)
    last_write = np.concatenate([[-1], np.maximum.accumulate(np.where(writes, index, -1))[:-1]])
    last_write = last_write[: len(index)]
    after_write = np.flatnonzero(last_write >= start)
    next_write = np.minimum.accumulate(np.where(writes, index, len(index))[::-1])[::-1]
    reads = np.flatnonzero(~writes & (next_write < len(index)))
    reads = reads[cell[next_write[reads]] == cell[reads]]
    one = np.concatenate([operation[last_write[after_write]], operation[reads]])
    other = np.concatenate([operation[after_write], operation[next_write[reads]]])
    apart = one != other
    pairs = np.unique(one[apart] * len(turn) + other[apart])
    return pairs // len(turn), pairs % len(turn)


def _not_after(order: Order, first: NDArray[np.int64], second: NDArray[np.int64]) -> int | None:
    """The first pair whose second operation is not after its first, None if all are.

    Most pairs are ordered within their rank. What is left is looked for in the whole graph.
    """
    program = order.program
    open_ = np.flatnonzero(
        (order.stream[first] != order.stream[second]) | (order.place[first] > order.place[second])
    )
    own = order.stream - order.stream[np.searchsorted(program.rank, program.rank)]
    same_rank = open_[program.rank[first[open_]] == program.rank[second[open_]]]
    local = order.before[order.is_local], order.after[order.is_local]
    lost = _unreached(order, local, own, first[same_rank], second[same_rank])
    rest = np.concatenate(
        [same_rank[lost], open_[program.rank[first[open_]] != program.rank[second[open_]]]]
    )
    everything = order.before, order.after
    unordered = rest[_unreached(order, everything, order.stream, first[rest], second[rest])]
    return int(unordered.min()) if len(unordered) else None


def _unreached(
    order: Order,
    pairs: Pairs,
    stream: NDArray[np.int64],
    first: NDArray[np.int64],
    second: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Which second operations are not after their first by these pairs; streams in blocks."""
    if not len(first):
        return np.zeros(0, dtype=np.int64)
    num = len(stream)
    start, before = grouped(pairs[1], pairs[0], num)
    needed = np.unique(stream[first])
    block = max(1, _TABLE_ENTRIES // num)
    is_open = np.ones(len(first), dtype=bool)
    for begin in range(0, len(needed), block):
        chosen = needed[begin : begin + block]
        at = np.minimum(np.searchsorted(chosen, stream), len(chosen) - 1)
        column = np.where(chosen[at] == stream, at, -1)
        latest = np.full((num, len(chosen)), -1, dtype=np.int32)
        loop = for_work(loops.latest_before, len(before) * len(chosen))
        loop(order.order, start, before, column, order.place, latest)
        mine = np.flatnonzero(column[first] >= 0)
        reached = latest[second[mine], column[first[mine]]] >= order.place[first[mine]]
        is_open[mine[reached]] = False
    return np.flatnonzero(is_open)
