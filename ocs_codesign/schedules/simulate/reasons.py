"""Why a simulated collective took its time: what links waited for, and the path that decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.schedules.simulate.transfers import BARRIER, DARK

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.schedules.simulate.engine import Simulated


DATA, LINK, BARRIERS, DARKNESS, NODE, DONE = IDLE_REASONS = (
    *("data", "link", "barrier", "dark", "node", "done"),
)
"""What a link waits for while it sends nothing: that the data comes to its tail, that another link
has brought it or the one before has arrived, a barrier, a change of circuits, the processor, ports
or memory of a node, or nothing any more."""

SEND, LATENCY, ADDITION = "send", "latency", "addition"
PARTS = (SEND, LATENCY, ADDITION, NODE, BARRIERS, DARKNESS)
"""What happens on a critical path."""


def idle_ticks(simulated: Simulated) -> NDArray[np.int64]:
    """Ticks that every link sends nothing, by reason: shape (links, IDLE_REASONS).

    With the ticks that it sends they add up to the total of every link.
    """
    transfers = simulated.transfers
    link, start = transfers.path_link, simulated.hop_start
    order = np.lexsort((start, link))
    free = (start + simulated.hop_ticks()[0])[order]
    is_first = np.diff(link[order], prepend=-1) != 0
    gap = start[order] - np.where(is_first, 0, np.roll(free, 1))
    reason = np.full(len(link), IDLE_REASONS.index(LINK))
    begins = transfers.path_start[:-1][np.diff(transfers.path_start) > 0]
    reason[begins] = _reasons(simulated)[np.diff(transfers.path_start) > 0]
    idle = np.zeros((transfers.network.num_links, len(IDLE_REASONS)), dtype=np.int64)
    np.add.at(idle, (link[order], reason[order]), gap)
    idle[:, -1] = simulated.total_ticks - simulated.link_busy() - idle.sum(axis=1)
    return idle


def _let_begin(simulated: Simulated) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """When every transfer might begin, and the largest kind of what it waited for last, or -1.

    -1 is that it waited for the one before it on its pair, or for nothing.
    """
    transfers, num = simulated.transfers, simulated.transfers.num_transfers
    waits = np.flatnonzero(np.diff(transfers.wait_start))
    at, kind = np.zeros(num, dtype=np.int64), np.full(num, -1)
    if len(waits):
        ends, first = simulated.end[transfers.wait_for], transfers.wait_start[waits]
        at[waits] = np.maximum.reduceat(ends, first)
        is_last = ends == np.repeat(at[waits], np.diff(transfers.wait_start)[waits])
        kinds = np.where(is_last, transfers.kind[transfers.wait_for], -1)
        kind[waits] = np.maximum.reduceat(kinds, first)
    has_to_arrive = (transfers.previous >= 0) & (not simulated.rules.pipelined)
    arrived = np.where(has_to_arrive, simulated.arrival[transfers.previous], 0)
    kind[arrived > at] = -1
    return np.maximum(at, arrived), kind


def _reasons(simulated: Simulated) -> NDArray[np.int64]:
    """The reason of the time before every transfer, as the first link of its path sees it."""
    at, kind = _let_begin(simulated)
    of_kind = {-1: LINK, BARRIER: BARRIERS, DARK: DARKNESS}
    names = [of_kind.get(each, DATA) for each in range(-1, DARK + 1)]
    reason = np.array([IDLE_REASONS.index(name) for name in names])[kind + 1]
    if not simulated.rules.is_free_at_ends:
        reason[simulated.start > at] = IDLE_REASONS.index(NODE)
    return reason


@final
@dataclass(frozen=True, slots=True)
class Stretch:
    """What decides the total from tick ``start`` to ``end``: a part of a transfer, on a link or -1.

    ``part`` is one of PARTS.
    """

    start: int
    end: int
    part: str
    transfer: int
    link: int


def critical_path(simulated: Simulated) -> tuple[Stretch, ...]:
    """Stretches from tick 0 to the total without a gap, each of which the next one waited for.

    Where a transfer found its link taken, the path goes on with what was on the link.
    """
    walk = _Walk(simulated)
    walk.go()
    return tuple(walk.found[::-1])


@final
class _Walk:
    """The way back from the last end."""

    def __init__(self, simulated: Simulated) -> None:
        self.simulated = simulated
        self.found: list[Stretch] = []
        self.tick = simulated.total_ticks
        transfers = simulated.transfers
        self.order = np.lexsort((simulated.hop_start, transfers.path_link))
        keys = transfers.path_link[self.order], simulated.hop_start[self.order]
        is_new = np.append(True, (np.diff(keys[0]) != 0) | (np.diff(keys[1]) != 0))[: len(keys[0])]
        # What a hop found on its link began before it; what begins with it takes no time.
        first = np.maximum.accumulate(np.where(is_new, np.arange(len(is_new)), 0))
        self.place = np.empty_like(self.order)
        self.place[self.order] = first
        self.owner = simulated.owner()
        self.let_begin, _ = _let_begin(simulated)
        self.busy, self.flight = simulated.hop_ticks()

    def add(self, start: int, part: str, transfer: int, link: int = -1) -> None:
        """A stretch from ``start`` to where the path has come to."""
        if start < self.tick:
            self.found.append(Stretch(start, self.tick, part, transfer, link))
            self.tick = start

    def go(self) -> None:
        """To the beginning."""
        done = self.simulated
        transfers = done.transfers
        if not transfers.num_transfers:
            return
        this, has_ended = int(done.end.argmax()), True
        while this >= 0:
            if has_ended:
                self._after_arrival(this)
            if transfers.path_start[this] < transfers.path_start[this + 1]:
                this = self._over_links(this)
            begin = int(self.let_begin[this])
            self.add(begin, NODE, this)
            previous = int(transfers.previous[this])
            waits = transfers.wait_for[transfers.wait_start[this] : transfers.wait_start[this + 1]]
            has_ended = bool(len(waits)) and int(done.end[waits].max()) == begin
            this = int(waits[done.end[waits] == begin].min()) if has_ended else previous

    def _after_arrival(self, this: int) -> None:
        """What a transfer took after it had arrived, or all of one that sends nothing."""
        done = self.simulated
        kind, compute = done.transfers.kind[this], int(done.transfers.compute[this])
        part = {BARRIER: BARRIERS, DARK: DARKNESS}.get(int(kind), ADDITION)
        self.add(self.tick - compute, part, this)
        self.add(int(done.arrival[this]), NODE, this)

    def _over_links(self, this: int) -> int:
        """From an arrival back to the beginning of the transfer that found its first link free."""
        done, transfers = self.simulated, self.simulated.transfers
        at = int(transfers.path_start[this + 1]) - 1
        has_arrived = True
        while True:
            first = int(transfers.path_start[this])
            link, start = int(transfers.path_link[at]), int(done.hop_start[at])
            if has_arrived:
                latency = int(self.flight[at] - self.busy[at])
                self.add(max(start, self.tick - latency), LATENCY, this, link)
            self.add(start, SEND, this, link)
            has_arrived = True
            if self._found_taken(at, first):
                at = int(self.order[self.place[at] - 1])
                this = int(self.owner[at])
                has_arrived = done.rules.blocking
            elif at > first:
                at -= 1
            else:
                return this

    def _found_taken(self, at: int, first: int) -> bool:
        """Whether a hop began late because another transfer was on its link."""
        done, place = self.simulated, int(self.place[at])
        start = int(done.hop_start[at])
        if at == first:
            asked = int(self.let_begin[self.owner[at]])
        else:
            whole = 0 if done.rules.cut_through else self.busy[at - 1]
            asked = int(done.hop_start[at - 1] + self.flight[at - 1] - self.busy[at - 1] + whole)
        before = int(self.order[place - 1])
        links = done.transfers.path_link
        if start == asked or place == 0 or links[before] != links[at]:
            return False
        if at > first or done.rules.is_free_at_ends:
            return True
        lasts = self.flight[before] if done.rules.blocking else self.busy[before]
        return bool(done.hop_start[before] + lasts == start)
