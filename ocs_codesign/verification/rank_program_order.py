"""What operations of ranks wait for, and an order in which they all can run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.kernels import for_work
from ocs_codesign.rank_program import (
    KINDS,
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

STUCK = "this operation waits for ever"
NOT_TAKEN = "what is sent here is never received"
NOT_SENT = "what is received here is never sent"
NOT_WAITED = "no wait takes what is signalled here"
NOT_SIGNALLED = "what is waited for here is never signalled"
OTHER_COUNT = "this receives {got} chunks of {sent} that are sent"


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
    keys, channels = [], int(program.channel.max(initial=0)) + 1
    for rows, ends in ((giver, ("rank", "peer")), (taker, ("peer", "rank"))):
        from_rank, to_rank = (getattr(program, end)[rows].astype(np.int64) for end in ends)
        channel = program.channel[rows]
        keys.append((from_rank * program.num_ranks + to_rank) * channels + channel)
    _, line = np.unique(np.concatenate(keys), return_inverse=True)
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
