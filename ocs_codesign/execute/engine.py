"""Engine: the operations of one rank, run over MPI as what they wait for comes true.

All receives are posted first, into buffers of their own. An operation begins when nothing is left
that it waits for; what was received is copied or added to its target only then. Of several that may
begin any may be first, so that nothing but what the program says puts them in order. A rank never
waits inside of MPI, so that it can say what it waits for when its time is over.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.rank_program import ADD, COPY, KINDS, RECEIVE, RECEIVE_ADD, SEND

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from numpy.typing import NDArray

    from ocs_codesign.execute.memory import Memory
    from ocs_codesign.execute.share import Share

LEAST_TAG_UB = 32_767
"""The largest tag that every MPI has."""

_IDLE_ROUNDS, _MOST_SLEEP_S = 20, 1e-3


class StuckError(RuntimeError):
    """A rank whose time is over while operations are left; the message says what it waits for."""


class MismatchError(RuntimeError):
    """A message with another number of elements than the one that it met before."""


@final
@dataclass(slots=True)
class Run:
    """One run of a share: what is left, what is under way, and what it has moved.

    ``communicators`` are as many as tags need: transfer k of a pair has tag
    k modulo ``tags``, on the communicator of number k divided by it. ``order`` draws what is first
    of all that may begin.
    """

    share: Share
    memory: Memory
    communicators: Sequence[Any]
    tags: int
    deadline_s: float
    order: Random
    left: list[int] = field(init=False)
    done: int = 0
    num_messages: int = 0
    num_elements: int = 0
    _requests: list[Any] = field(default_factory=list)
    _owner: list[int] = field(default_factory=list)
    _staged: dict[int, NDArray[Any]] = field(default_factory=dict)
    _arrived: set[int] = field(default_factory=set)
    _waiting: set[int] = field(default_factory=set)
    _ready: list[int] = field(default_factory=list)
    _later: dict[int, list[int]] = field(default_factory=dict)
    _epoch: int = 0

    def __post_init__(self) -> None:
        self.left = self.share.num_waits.tolist()

    def execute(self) -> None:
        """Run all operations; StuckError or MismatchError if that cannot be."""
        share, epochs = self.share, self.share.epoch
        self._post_receives()
        for row in np.flatnonzero(share.num_waits == 0).tolist():
            self._make_ready(row)
        in_epoch = np.bincount(epochs, minlength=share.num_epochs).cumsum().tolist()
        for epoch in range(share.num_epochs):
            self._epoch = epoch
            self._ready.extend(self._later.pop(epoch, ()))
            self._until(in_epoch[epoch])
            if epoch < share.num_epochs - 1:
                self._meet()

    def _post_receives(self) -> None:
        share, columns = self.share, self.share.columns
        for row in np.flatnonzero(share.is_kind(RECEIVE, RECEIVE_ADD)).tolist():
            room = self.memory.room(int(columns["count"][row]))
            self._staged[row] = room
            communicator, tag = self._address(row)
            peer = int(columns["peer"][row])
            self._requests.append(communicator.Irecv(room, peer, tag))
            self._owner.append(row)

    def _address(self, row: int) -> tuple[Any, int]:
        turn, tag = divmod(int(self.share.number[row]), self.tags)
        return self.communicators[turn], tag

    def _make_ready(self, row: int) -> None:
        epoch = int(self.share.epoch[row])
        if epoch > self._epoch:
            self._later.setdefault(epoch, []).append(row)
        else:
            self._ready.append(row)

    def _until(self, target: int) -> None:
        """Go on until so many operations are done."""
        idle = 0
        while True:
            while self._ready:
                at = self.order.randrange(len(self._ready))
                self._ready[at], self._ready[-1] = self._ready[-1], self._ready[at]
                self._begin(self._ready.pop())
                idle = 0
            if self.done == target:
                return
            if self._take_finished():
                idle = 0
                continue
            idle += 1
            self._pause(idle)

    def _pause(self, idle: int) -> None:
        """Leave the processor to other ranks; StuckError when the time is over."""
        if time.monotonic() > self.deadline_s:
            raise StuckError(self._what_is_missing())
        time.sleep(0 if idle < _IDLE_ROUNDS else min(_MOST_SLEEP_S, 1e-5 * idle))

    def _meet(self) -> None:
        """Wait for all ranks."""
        request, idle = self.communicators[0].Ibarrier(), 0
        while not request.Test():
            idle += 1
            if time.monotonic() > self.deadline_s:
                raise StuckError(f"it waits at barrier {self._epoch + 1} for other ranks")
            self._pause(idle)

    def _take_finished(self) -> bool:
        """Whether any send or receive is finished, which then have their effect."""
        from mpi4py import MPI

        if not self._requests:
            return False
        statuses: list[Any] = []
        found = MPI.Request.Testsome(self._requests, statuses)
        if not found:
            return False
        for at, status in zip(found, statuses, strict=True):
            row = self._owner[at]
            if self.share.columns["kind"][row] == SEND:
                self._finish(row)
                continue
            room = self._staged[row]
            self._staged[row] = room[: status.Get_count(MPI.BYTE) // room.itemsize]
            self._arrived.add(row)
            if row in self._waiting:
                self._waiting.discard(row)
                self._ready.append(row)
        gone = set(found)
        keep = [at for at in range(len(self._owner)) if at not in gone]
        self._requests = [self._requests[at] for at in keep]
        self._owner = [self._owner[at] for at in keep]
        return True

    def _begin(self, row: int) -> None:
        """Begin an operation for which nothing is left to wait but its message."""
        columns = self.share.columns
        kind = int(columns["kind"][row])
        if kind == SEND:
            self._send(row)
            return
        if kind in (RECEIVE, RECEIVE_ADD):
            if row not in self._arrived:
                self._waiting.add(row)
                return
            self._arrived.discard(row)
            content = self._staged.pop(row)
            try:
                self.memory.put(row, content, adds=kind == RECEIVE_ADD)
            except ValueError as error:
                raise MismatchError(f"{self._named(row)}: {error}") from None
        elif kind in (COPY, ADD):
            self.memory.put(row, self.memory.taken(row), adds=kind == ADD)
        self._finish(row)

    def _send(self, row: int) -> None:
        content = self.memory.taken(row)
        communicator, tag = self._address(row)
        peer = int(self.share.columns["peer"][row])
        self._requests.append(communicator.Isend(content, peer, tag))
        self._owner.append(row)
        self.num_messages += 1
        self.num_elements += len(content)

    def _finish(self, row: int) -> None:
        """Count an operation as done, and begin to make ready what waited for it."""
        self.done += 1
        start = self.share.after_start
        for then in self.share.after[start[row] : start[row + 1]].tolist():
            self.left[then] -= 1
            if not self.left[then]:
                self._make_ready(then)

    def _what_is_missing(self) -> str:
        """The first operation that has begun and does not end."""
        under_way = sorted({*self._waiting, *self._owner} - self._unasked())
        if not under_way:
            return "operations are left that wait for each other"
        return f"it waits for {self._named(under_way[0])}"

    def _unasked(self) -> set[int]:
        """Receives that are posted, but whose turn has not come."""
        return {row for row in self._staged if row not in self._waiting}

    def _named(self, row: int) -> str:
        """An operation in words: ``the receive from rank 2 (operation 7, channel 0, step 3)``."""
        columns = self.share.columns
        kind, peer = KINDS[columns["kind"][row]], int(columns["peer"][row])
        way = "to" if kind == "send" else "from"
        number = self.share.first + row
        step = f", step {self.share.step[row]}" if self.share.step[row] else ""
        return (
            f"its {kind} {way} rank {peer} (operation {number}, channel "
            f"{columns['channel'][row]}{step})"
        )
