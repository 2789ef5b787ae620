"""Engine: the operations of one rank, run over MPI as what they wait for comes true.

All receives are posted first, into buffers of their own. An operation begins when nothing is left
that it waits for; what was received is copied or added to its target only then. Of several that may
begin any may be first, so that nothing but what the program says puts them in order. A rank never
waits inside of MPI, so that it can say what it waits for when its time is over.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, final

import numpy as np

from ocs_codesign.core.demand import MOVE, SUM
from ocs_codesign.core.plans import ADD, COPY, INPUT, KINDS, OUTPUT, RECEIVE, RECEIVE_ADD, SEND
from ocs_codesign.core.topology import before, places, starts_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from numpy.typing import NDArray

    from ocs_codesign.core.demand import Demand
    from ocs_codesign.core.plans import RankProgram
    from ocs_codesign.interop.run.launch import Share
    from ocs_codesign.interop.runtimes.traffic import RankMessages


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


# Memory: the buffers of one rank while a program runs, and how operations read and write them.
#
# A program runs on Numbers first, where every slot holds the number of its chunk. That tells how
# many elements every operation moves when chunks have different sizes, through whatever slots
# they go.


EMPTY, MIXED = -1, -2
"""Numbers of what is in a slot into which nothing came, and of a sum of different chunks."""


class Memory(Protocol):
    """Buffers of a rank: what operations, named by their row in its share, read and write."""

    dtype: np.dtype[Any]

    def room(self, count: int) -> NDArray[Any]:
        """A new buffer for a message of so many chunks."""

    def taken(self, row: int) -> NDArray[Any]:
        """What an operation reads from its source."""

    def put(self, row: int, content: NDArray[Any], *, adds: bool) -> None:
        """Write ``content`` to an operation's target, or add it; ValueError for another length."""


@final
@dataclass(frozen=True, slots=True)
class _Slots:
    """Where operations read and write: the slots of their ends among those of all buffers."""

    source: list[int]
    target: list[int]
    count: list[int]

    @classmethod
    def of(cls, share: Share) -> _Slots:
        first, columns = starts_of(np.array(share.slots)), share.columns
        source, target = (
            (first[columns[f"{end}_buffer"]] + columns[end]).tolist()
            for end in ("source", "target")
        )
        return cls(source, target, columns["count"].tolist())

    def read(self, row: int) -> slice:
        """What an operation reads."""
        return slice(self.source[row], self.source[row] + self.count[row])

    def written(self, row: int) -> slice:
        """What it writes."""
        return slice(self.target[row], self.target[row] + self.count[row])


def _rows(share: Share, place: Place) -> NDArray[np.int64]:
    """The slots of a place among those of all buffers."""
    return place.slot + sum(share.slots[: place.buffer])


@final
@dataclass(slots=True)
class Numbers:
    """Buffers whose slots hold the numbers of chunks, and what every operation has moved."""

    share: Share
    held: NDArray[np.int64]
    moved: dict[int, NDArray[np.int64]]
    slots: _Slots
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, share: Share) -> Numbers:
        """The buffers before a program runs."""
        held = np.full(sum(share.slots), EMPTY, dtype=np.int64)
        held[_rows(share, share.given)] = share.given.chunk
        return cls(share, held, {}, _Slots.of(share), held.dtype)

    def room(self, count: int) -> NDArray[Any]:
        """A number a chunk."""
        return np.empty(count, dtype=self.dtype)

    def taken(self, row: int) -> NDArray[Any]:
        """The chunks that an operation reads."""
        content = self.held[self.slots.read(row)]
        self.moved[row] = content.copy()
        return content

    def put(self, row: int, content: NDArray[Any], *, adds: bool) -> None:
        """Write chunks, or add them to what must be the same chunks."""
        target = self.held[self.slots.written(row)]
        if len(content) != len(target):
            raise ValueError(f"{len(content)} chunks came, not {len(target)}")
        self.moved[row] = content.copy()
        target[:] = np.where(target == content, content, MIXED) if adds else content

    def result(self) -> NDArray[np.int64]:
        """The chunks in the slots of the output."""
        return self.held[_rows(self.share, self.share.wanted)]


@final
@dataclass(slots=True)
class Data:
    """Buffers of data: slots of ``width`` elements, of which a chunk fills as many as it has.

    ``sizes`` are the elements of the chunks that every operation moves, None where all are full.
    """

    share: Share
    held: NDArray[Any]
    sizes: dict[int, NDArray[np.int64] | None]
    slots: _Slots
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, share: Share, numbers: Numbers, given: NDArray[Any], rest: NDArray[Any]) -> Data:
        """The buffers with ``given`` as input, chunk after chunk, and ``rest`` elsewhere."""
        width = max(int(share.sizes.max(initial=0)), 1)
        held = np.resize(rest, (sum(share.slots), width))
        elements = np.append(share.sizes, [0, 0])  # of MIXED and EMPTY
        sizes: dict[int, NDArray[np.int64] | None] = {}
        for row, chunks in numbers.moved.items():
            size = elements[chunks]
            sizes[row] = None if (size == width).all() else size
        rows = _rows(share, share.given)
        block = held[rows]
        block[_filled(share.sizes[share.given.chunk], width)] = given
        held[rows] = block
        return cls(share, held, sizes, numbers.slots, held.dtype)

    def room(self, count: int) -> NDArray[Any]:
        """Full slots."""
        return np.empty(count * self.held.shape[1], dtype=self.dtype)

    def taken(self, row: int) -> NDArray[Any]:
        """The elements that an operation reads: of full slots as they stand, else packed."""
        block, sizes = self.held[self.slots.read(row)], self.sizes[row]
        return block.reshape(-1) if sizes is None else block[_filled(sizes, block.shape[1])]

    def put(self, row: int, content: NDArray[Any], *, adds: bool) -> None:
        """Write elements, or add them."""
        block, sizes = self.held[self.slots.written(row)], self.sizes[row]
        expected = block.size if sizes is None else int(sizes.sum())
        if len(content) != expected:
            raise ValueError(
                f"{len(content)} elements came, but {expected} when the program ran before: what "
                "is sent depends on who is first"
            )
        if sizes is not None:
            filled = _filled(sizes, block.shape[1])
            block[filled] = block[filled] + content if adds else content
        elif adds:
            block += content.reshape(block.shape)
        else:
            block[:] = content.reshape(block.shape)

    def result(self) -> NDArray[Any]:
        """The elements of the output, chunk after chunk."""
        block = self.held[_rows(self.share, self.share.wanted)]
        packed: NDArray[Any] = block[
            _filled(self.share.sizes[self.share.wanted.chunk], self.held.shape[1])
        ]
        return packed


def _filled(sizes: NDArray[np.int64], width: int) -> NDArray[np.bool_]:
    """Which elements of slots are of their chunks, shape (slots, width)."""
    filled: NDArray[np.bool_] = np.arange(width) < sizes[:, None]
    return filled


def chunk_of_element(sizes: NDArray[np.int64], element: int) -> tuple[int, int]:
    """The chunk in a row of chunks, and the place in it, of an element of them all.

    >>> chunk_of_element(np.array([2, 0, 3]), 2)
    (2, 0)
    """
    start = starts_of(sizes)
    chunk = int(np.searchsorted(start, element, side="right")) - 1
    return chunk, element - int(start[chunk])


# Layout: which chunk stands in which slot of a rank's buffers, and how many elements it has.


MAX_ELEMENTS = 2**31
"""Most elements of M that are run, so that products of places and elements stay in 64 bits."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """What a rank has in a ``buffer`` before or after a program: slot and number of its chunks.

    Chunks are numbered through all pieces of the demand; both columns are in the order in which
    MPI's own collectives have the data, and int64.
    """

    buffer: int
    slot: NDArray[np.int64]
    chunk: NDArray[np.int64]


def input_and_output(program: RankProgram, rank: int) -> tuple[Place, Place]:
    """Where a rank has its input and its output; in place both are in one buffer.

    ValueError if a part of the smaller buffer does not stand in the larger one.
    """
    units = program.chunks_per_unit
    given = chunks_held(program.demands[0], rank, units, at_first=True)
    wanted = chunks_held(program.demands[-1], rank, units, at_first=False)
    buffer = program.place_buffer
    held = given if buffer == INPUT else wanted
    if not program.in_place or not len(held):  # a leaf of a scatter or a gather has only one anyway
        return (
            Place(INPUT, np.arange(len(given)), given),
            Place(OUTPUT, np.arange(len(wanted)), wanted),
        )
    return Place(buffer, _found(held, given, rank), given), Place(
        buffer, _found(held, wanted, rank), wanted
    )


def _found(held: NDArray[np.int64], chunks: NDArray[np.int64], rank: int) -> NDArray[np.int64]:
    """Slots of chunks in a buffer that holds them among others."""
    order = np.argsort(held)
    at = np.searchsorted(held[order], chunks)
    if len(chunks) and (
        len(held) == 0 or (held[order[np.minimum(at, len(held) - 1)]] != chunks).any()
    ):
        raise ValueError(
            f"rank {rank}: what it has first and last does not fit one buffer in place"
        )
    return order[at] if len(chunks) else np.zeros(0, dtype=np.int64)


def chunks_held(demand: Demand, host: int, units: int, *, at_first: bool) -> NDArray[np.int64]:
    """Numbers of the chunks that a host has before a demand, or must have after it, in order."""
    summed = demand.kind[demand.item_of_piece()] == SUM
    at_root = demand.root[demand.item_of_piece()] == host
    of_group = np.zeros(len(demand.group_start) - 1, dtype=bool)
    groups = np.repeat(np.arange(len(of_group)), np.diff(demand.group_start))
    of_group[groups[demand.member == host]] = True
    in_group = of_group[demand.group]
    piece = np.flatnonzero(np.where(summed == at_first, in_group, at_root))
    first = demand.first_units()[:-1]
    return places(first[piece] * units, demand.weight[piece] * units)[1]


def chunk_elements(program: RankProgram | RankMessages, elements: int) -> NDArray[np.int64]:
    """Elements of every chunk, int64, when M has so many: M is cut as evenly as integers allow.

    Chunk k of the T of M has the elements from floor(k M / T) to floor((k + 1) M / T), so that some
    are empty where there are more chunks than elements.
    """
    demand, units = program.demands[0], program.chunks_per_unit
    within = _place_in_message(demand, program.collective.name) * units
    place = places(within, demand.weight * units)[1]
    total = demand.message_units * units
    sizes: NDArray[np.int64] = (place + 1) * elements // total - place * elements // total
    return sizes


def _place_in_message(demand: Demand, collective: str) -> NDArray[np.int64]:
    """Units before every piece in the buffer that is M."""
    key: NDArray[Any] = demand.group
    if (demand.kind == MOVE).any() and collective != "gather":
        key = demand.item_of_piece()
    return before(key, demand.weight)


def piece_of_chunk(demand: Demand, units: int, chunk: int) -> tuple[int, int, int]:
    """Item, piece and number in the piece of a chunk."""
    start = demand.first_units() * units
    piece = int(np.searchsorted(start, chunk, side="right")) - 1
    return int(demand.item_of_piece()[piece]), piece, chunk - int(start[piece])


def piece_elements(demand: Demand, units: int, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Elements of every piece, given those of every chunk."""
    total = starts_of(sizes)[demand.first_units() * units]
    return np.diff(total)
