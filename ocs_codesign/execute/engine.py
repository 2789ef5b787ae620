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

    ``communicators`` are as many as tags need: transfer k of a pair has tag k modulo ``tags``, on
    the communicator of number k divided by it. ``order`` draws what is first of all that may begin.
    """

    share: Share
    memory: Memory
    communicators: Sequence[Any]
    tags: int
    deadline_s: float
    order: Random
    done: int = 0
    num_messages: int = 0
    num_elements: int = 0
    _left: list[int] = field(init=False)
    _kind: list[int] = field(init=False)
    _peer: list[int] = field(init=False)
    _posted: dict[int, tuple[Any, NDArray[Any]]] = field(default_factory=dict)
    _requests: list[Any] = field(default_factory=list)
    _owner: list[int] = field(default_factory=list)
    _ready: list[int] = field(default_factory=list)
    _later: dict[int, list[int]] = field(default_factory=dict)
    _epoch: int = 0

    def __post_init__(self) -> None:
        self._left = self.share.num_waits.tolist()
        self._kind = self.share.columns["kind"].tolist()
        self._peer = self.share.columns["peer"].tolist()

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
        share = self.share
        for row in np.flatnonzero(share.is_kind(RECEIVE, RECEIVE_ADD)).tolist():
            room = self.memory.room(int(share.columns["count"][row]))
            communicator, tag = self._address(row)
            self._posted[row] = communicator.Irecv(room, self._peer[row], tag), room

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
            if not self._paused(idle):
                raise StuckError(f"it waits for {self._named(min(self._owner))}")

    def _paused(self, idle: int) -> bool:
        """Leave the processor to other ranks; False when the time is over."""
        time.sleep(0 if idle < _IDLE_ROUNDS else min(_MOST_SLEEP_S, 1e-5 * idle))
        return time.monotonic() < self.deadline_s

    def _meet(self) -> None:
        """Wait for all ranks."""
        request, idle = self.communicators[0].Ibarrier(), 0
        while not request.Test():
            idle += 1
            if not self._paused(idle):
                raise StuckError(f"it waits at barrier {self._epoch + 1} for other ranks")

    def _take_finished(self) -> bool:
        """Whether any send, or receive whose turn has come, is finished, which then takes effect.

        Of all others MPI takes care meanwhile.
        """
        from mpi4py import MPI

        statuses: list[Any] = []
        found = MPI.Request.Testsome(self._requests, statuses) if self._requests else None
        if not found:
            return False
        finished = [self._owner[at] for at in found]
        for at in sorted(found, reverse=True):
            for column in (self._requests, self._owner):
                column[at] = column[-1]
                column.pop()
        for row, status in zip(finished, statuses, strict=True):
            if self._kind[row] != SEND:
                _, room = self._posted.pop(row)
                self._take(row, room[: status.Get_count(MPI.BYTE) // room.itemsize])
            self._finish(row)
        return True

    def _take(self, row: int, content: NDArray[Any]) -> None:
        try:
            self.memory.put(row, content, adds=self._kind[row] == RECEIVE_ADD)
        except ValueError as error:
            raise MismatchError(f"{self._named(row)}: {error}") from None

    def _begin(self, row: int) -> None:
        """Begin an operation for which nothing is left to wait but its message."""
        kind = self._kind[row]
        if kind == SEND:
            self._send(row)
        elif kind in (RECEIVE, RECEIVE_ADD):
            self._requests.append(self._posted[row][0])
            self._owner.append(row)
        else:
            if kind in (COPY, ADD):
                self.memory.put(row, self.memory.taken(row), adds=kind == ADD)
            self._finish(row)

    def _send(self, row: int) -> None:
        content = self.memory.taken(row)
        communicator, tag = self._address(row)
        self._requests.append(communicator.Isend(content, self._peer[row], tag))
        self._owner.append(row)
        self.num_messages += 1
        self.num_elements += len(content)

    def _finish(self, row: int) -> None:
        """Count an operation as done, and begin to make ready what waited for it."""
        self.done += 1
        start = self.share.after_start
        for then in self.share.after[start[row] : start[row + 1]].tolist():
            self._left[then] -= 1
            if not self._left[then]:
                self._make_ready(then)

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
