"""Moves: what one rank sends, receives and adds, step by step, in one buffer of elements.

A wire is three calls, to start a send, to start a receive and to wait; ``execute`` does the rest.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from ocs_codesign.core.topology import starts_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ocs_codesign.interop.runtimes.traffic import RankMessages

Runs = tuple[tuple[int, int], ...]
"""Ranges of elements of a rank's buffer, one behind the other."""


class Send(NamedTuple):
    """What goes to a peer; the runs are one message."""

    peer: int
    runs: Runs
    size: int


class Receive(NamedTuple):
    """What comes from a peer, and which of its runs are added.

    It may come into the buffer at once where ``is_direct``: it is one run, which nobody else reads
    or writes in the step.
    """

    peer: int
    runs: Runs
    size: int
    adds: tuple[bool, ...]
    is_direct: bool


class RankStep(NamedTuple):
    """What a rank does in a step, by its number from 0 on; receives by increasing source."""

    number: int
    sends: tuple[Send, ...]
    receives: tuple[Receive, ...]


class RankMoves(NamedTuple):
    """A rank's part of a collective: a buffer of ``size`` elements, and what happens in it.

    Input and output stand in the buffer as ``given`` and ``wanted``.
    """

    size: int
    given: Runs
    wanted: Runs
    steps: tuple[RankStep, ...]
    num_steps: int

    @property
    def num_messages(self) -> int:
        """Messages that the rank sends."""
        return sum(len(step.sends) for step in self.steps)


def moves_of(traffic: RankMessages, rank: int, sizes: NDArray[np.int64]) -> RankMoves:
    """A rank's moves where chunks have so many elements; empty messages are not sent.

    >>> from ocs_codesign.core.collective import Collective
    >>> from ocs_codesign.core.schedule import Messages
    >>> from ocs_codesign.interop.runtimes.traffic import traffic_of
    >>> swap = Messages(2, Collective.ALLGATHER, 2, [1, 1], [1, 0], [0, 1], [1, 0], [False, False])
    >>> traffic = traffic_of(swap)
    >>> moves_of(traffic, 0, traffic.sizes(5)).steps[0].receives
    (Receive(peer=1, runs=((5, 10),), size=5, adds=(False,), is_direct=True),)
    """
    slots = traffic.slots_of(rank)
    place = starts_of(sizes[slots])
    first = np.zeros(len(sizes), dtype=np.int64)
    first[slots] = place[:-1]

    def runs(chunks: NDArray[np.int64], adds: NDArray[np.bool_] | None = None) -> Any:
        filled = sizes[chunks] > 0
        chunks = chunks[filled]
        lo, hi = first[chunks], first[chunks] + sizes[chunks]
        new = np.ones(len(chunks), dtype=bool)
        new[1:] = lo[1:] != hi[:-1]
        if adds is not None:
            adds = adds[filled]
            new[1:] |= adds[1:] != adds[:-1]
        last = np.append(new[1:], True)[: len(new)]
        found = tuple(zip(lo[new].tolist(), hi[last].tolist(), strict=True))
        return found if adds is None else (found, tuple(adds[new].tolist()))

    mine = np.flatnonzero((traffic.source == rank) | (traffic.target == rank))
    bounds = np.flatnonzero(np.diff(traffic.step[mine], prepend=-1))
    steps = []
    for rows in np.split(mine, bounds[1:]) if len(mine) else ():
        parts = {
            row: slice(int(traffic.start[row]), int(traffic.start[row + 1]))
            for row in rows.tolist()
        }
        touched = np.bincount(
            np.concatenate([traffic.chunk[part] for part in parts.values()]), minlength=len(sizes)
        )
        sends, receives = [], []
        for row, part in parts.items():
            chunks = traffic.chunk[part]
            size = int(sizes[chunks].sum())
            if not size:
                continue
            if traffic.source[row] == rank:
                sends.append(Send(int(traffic.target[row]), runs(chunks), size))
                continue
            ranges, adds = runs(chunks, traffic.adds[part])
            alone = len(ranges) == 1 and not adds[0] and int(touched[chunks].max()) == 1
            receives.append(Receive(int(traffic.source[row]), ranges, size, adds, alone))
        if sends or receives:
            number = int(traffic.step[rows[0]])
            steps.append(RankStep(number, tuple(sends), tuple(receives)))
    return RankMoves(
        int(place[-1]),
        runs(traffic.given(rank)),
        runs(traffic.wanted(rank)),
        tuple(steps),
        traffic.num_steps,
    )


@lru_cache(maxsize=256)
def moves_for(traffic: RankMessages, rank: int, elements: int) -> RankMoves:
    """The moves for so many elements, as ``RankMessages.sizes`` has them; kept."""
    return moves_of(traffic, rank, traffic.sizes(elements))


class MessageWire(Protocol):
    """What a runtime does: buffers are its own, of elements, and slices of them are views."""

    def room(self, size: int) -> Any:
        """A new buffer."""

    def send(self, content: Any, peer: int, tag: int) -> Any:
        """Start a send."""

    def receive(self, room: Any, peer: int, tag: int) -> Any:
        """Start a receive."""

    def wait(self, started: Any, peer: int, step: int) -> None:
        """Wait for what was started; an error that names the peer and the step if it fails."""


def execute(
    moves: RankMoves,
    buffer: Any,
    wire: MessageWire,
    combine: Callable[[Any, Any], object],
    tag: int,
    modulo: int,
) -> None:
    """Do the moves of a rank in its buffer; ``combine`` adds its second operand to its first.

    Messages of step s have the tag ``tag`` + s modulo ``modulo``. All receives of a step are
    started before its sends, and all are waited for before anything is added or copied.
    """
    for step in moves.steps:
        number = (tag + step.number) % modulo
        started, rooms = [], []
        for receive in step.receives:
            lo, hi = receive.runs[0]
            room = buffer[lo:hi] if receive.is_direct else wire.room(receive.size)
            rooms.append(room)
            started.append((wire.receive(room, receive.peer, number), receive.peer))
        for send in step.sends:
            content = packed(buffer, send.runs, send.size, wire)
            started.append((wire.send(content, send.peer, number), send.peer))
        for request, peer in started:
            wire.wait(request, peer, step.number)
        for receive, room in zip(step.receives, rooms, strict=True):
            if receive.is_direct:
                continue
            start = 0
            for (lo, hi), adds in zip(receive.runs, receive.adds, strict=True):
                content = room[start : start + hi - lo]
                if adds:
                    combine(buffer[lo:hi], content)
                else:
                    buffer[lo:hi] = content
                start += hi - lo


def packed(buffer: Any, runs: Runs, size: int, wire: MessageWire) -> Any:
    """Runs of a buffer as one: a view if they are."""
    if len(runs) == 1:
        return buffer[runs[0][0] : runs[0][1]]
    whole, start = wire.room(size), 0
    for lo, hi in runs:
        whole[start : start + hi - lo] = buffer[lo:hi]
        start += hi - lo
    return whole


def put(buffer: Any, runs: Runs, content: Any) -> None:
    """Write a content into runs of a buffer, one after the other."""
    start = 0
    for lo, hi in runs:
        buffer[lo:hi] = content[start : start + hi - lo]
        start += hi - lo
