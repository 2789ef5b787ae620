"""From an MSCCL++ execution plan to a program of ranks with puts, gets, signals and waits.

What is ordered, and what is not, is that of the executor. All threads of a block do data operations
(put, get, copy, sums); thread j alone does the j-th signal, wait, release or acquire of an
operation, and others do not wait for it. So

* every data operation is a stream of its own (streams are used again behind a nop), and what thread
  j does is one: neither is ordered against the other, nor are two data operations;
* a nop, and a barrier, comes after all that the block did since the last one, and before all that
  it does next: these are needs;
* a barrier is a nop at which a block arrives and one with which it leaves, which needs the arrivals
  of all blocks;
* a semaphore is a counter of the rank at itself;
* a relaxed signal orders nothing: one that follows data operations is alone in a stream, with a
  counter for it and the wait that it meets;
* when all blocks of a rank have ended, its output is read: a copy of it to scratch at the end, so
  that what a peer still puts there then is a race.

A missing nop between put and signal, or between wait and the next data operation, is then a race
that the interpreter finds.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.files.archives import read_limited
from ocs_codesign.core.plans import (
    ADD,
    COLUMNS,
    COPY,
    GET,
    NOP,
    PUT,
    SCRATCH,
    SIGNAL,
    WAIT,
    RankProgram,
)
from ocs_codesign.core.topology import starts_of
from ocs_codesign.interop.msccl.read import FilePlaces, check_slots, units_and_factor
from ocs_codesign.interop.mscclpp.plan import (
    MAX_FILE_BYTES,
    RELAXED,
    TELLING,
    WORDS,
    ExecutionPlan,
    PlanChunks,
    PlanOperation,
    joined_blocks,
    parsed_plan,
    relaxed_counters,
)

if TYPE_CHECKING:
    from pathlib import Path


_SEMAPHORES = 2**16
"""Channels of a rank to itself from here on are its semaphores."""

_Place = tuple[int, int]


def read_mscclpp(path: Path) -> RankProgram:
    """The program that a plan holds; OSError if it cannot be read, ValueError if it is none."""
    return parse_mscclpp(read_limited(path, MAX_FILE_BYTES), str(path))


def parse_mscclpp(data: bytes, name: str) -> RankProgram:
    """The program that the content of a plan holds; ValueError if it is none."""
    return plan_program(parsed_plan(data, name), name)


def plan_program(plan: ExecutionPlan, name: str) -> RankProgram:
    """The program of a plan, called ``name`` in errors.

    Offsets of a get are taken as the executor takes them: that of the source is used here, that of
    the target at the peer. Raises ValueError, with gpu, threadblock and operation, for buffers
    that are not of the collective and for barriers that not all join.
    """
    try:
        return _Reader(plan).program()
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


@final
@dataclass(slots=True)
class _Thread:
    """Where a threadblock is: its last nop, and all that it did since."""

    number: int
    at: int = 0
    sync: int = -1
    since: list[int] = field(default_factory=list)
    data: int = 0
    seen_data: bool = False


@final
class _Reader:
    """The operations of a plan, rank after rank, in an order in which needs come first."""

    def __init__(self, plan: ExecutionPlan) -> None:
        self.plan = plan
        names = {word: name for name, word in WORDS.items()}
        if plan.collective not in names:
            raise ValueError(f"collective is {plan.collective!r}: it is one of {', '.join(names)}")
        self.collective = Collective(names[plan.collective])
        ranks = len(plan.gpus)
        inputs, outputs, _ = plan.gpus[0].chunks
        whole = outputs if self.collective.name == "allgather" else inputs
        self.units, self.factor = units_and_factor(self.collective, ranks, whole)
        part = self.units // self.factor
        self.places = FilePlaces(self.collective, part, self.factor, plan.inplace)
        expected = {"allgather": (part, whole), "reduce-scatter": (whole, part)}
        sizes = expected.get(self.collective.name, (whole, whole))
        for rank, gpu in enumerate(plan.gpus):
            if gpu.chunks[:2] != sizes:
                raise ValueError(
                    f"gpu {rank}: {gpu.chunks[0]} and {gpu.chunks[1]} chunks of input and output: "
                    f"{plan.collective} of {whole} chunks has {sizes[0]} and {sizes[1]}"
                )
        self.rows: list[tuple[int, ...]] = []
        self.needs: list[list[int]] = []
        self.scratch = [gpu.chunks[2] * self.factor for gpu in plan.gpus]
        self.streams: dict[tuple[int, str, int], int] = {}
        self.relaxed = relaxed_counters(plan)
        self.told: dict[tuple[int, int, int, bool], int] = defaultdict(int)

    def program(self) -> RankProgram:
        """All of it; ValueError for barriers that not all join."""
        for rank in range(len(self.plan.gpus)):
            self._rank(rank)
        check_slots([self.scratch, [2 * len(self.scratch) * self.units * len(self.scratch)]])
        columns = dict(zip(COLUMNS, zip(*self.rows, strict=True), strict=False))
        if not self.rows:
            columns = dict.fromkeys(COLUMNS, ())
        arrays = {name: np.array(column, dtype=np.int64) for name, column in columns.items()}
        starts = starts_of(np.array([len(need) for need in self.needs], dtype=np.int64))
        return RankProgram(
            self.collective,
            len(self.plan.gpus),
            self.units,
            self.plan.inplace,
            self.scratch,
            dict(arrays),
            starts,
            np.array([n for need in self.needs for n in need], dtype=np.int64),
        )

    def _rank(self, rank: int) -> None:
        """The operations of a rank, every block as far as the barriers let it."""
        gpu = self.plan.gpus[rank]
        self.streams = {}
        for number, value in enumerate(gpu.semaphores):
            for _ in range(value):
                self._add(rank, (-1, "first", number), SIGNAL, rank, _SEMAPHORES + number)
        threads = [_Thread(number) for number in range(len(gpu.blocks))]
        joined = joined_blocks(rank, gpu.blocks)
        arrived: dict[int, list[tuple[_Thread, int]]] = defaultdict(list)
        ready = list(threads)
        while ready:
            thread = ready.pop(0)
            block = gpu.blocks[thread.number]
            while thread.at < len(block):
                op = block[thread.at]
                thread.at += 1
                if op.name != "barrier":
                    self._operation(rank, thread, op)
                    continue
                self._sync(rank, thread)
                waiting = arrived[op.barrier[0]]
                waiting.append((thread, thread.sync))
                if len(waiting) == joined[op.barrier[0]]:
                    needs = [arrival for _, arrival in waiting]
                    for other, _ in waiting:
                        main = (other.number, "main", 0)
                        other.sync = self._add(rank, main, NOP, needs=needs)
                    ready += [other for other, _ in waiting]
                    waiting.clear()
                break
        for number, waiting in arrived.items():
            if waiting:
                thread = waiting[0][0]
                raise ValueError(
                    f"gpu {rank}, threadblock {thread.number}, op {thread.at - 1}: barrier "
                    f"{number} is joined by {len(waiting)} of {joined[number]} threadblocks"
                )
        self._end(rank, threads)

    def _end(self, rank: int, threads: list[_Thread]) -> None:
        """The output is read, all blocks having ended."""
        ended = [o for t in threads for o in ([] if t.sync < 0 else [t.sync]) + t.since]
        count = self.plan.gpus[rank].chunks[1] * self.factor
        kept = SCRATCH, self.scratch[rank]
        self.scratch[rank] += count
        output = self.places.of(rank, "o", 0)
        self._add(rank, (-1, "end", 0), COPY, -1, 0, output, kept, count, needs=ended)

    def _add(
        self,
        rank: int,
        stream: tuple[int, str, int],
        kind: int,
        peer: int = -1,
        channel: int = 0,
        source: _Place = (0, 0),
        target: _Place = (0, 0),
        count: int = 0,
        step: int = 0,
        needs: list[int] | None = None,
    ) -> int:
        number = self.streams.setdefault(stream, len(self.streams))
        self.rows.append((rank, number, kind, peer, channel, *source, *target, count, step))
        self.needs.append(sorted(set(needs or [])))
        return len(self.rows) - 1

    def _sync(self, rank: int, thread: _Thread) -> None:
        last = thread.since if thread.sync < 0 else [thread.sync, *thread.since]
        thread.sync = self._add(rank, (thread.number, "main", 0), NOP, needs=last)
        thread.since, thread.data = [], 0

    def _operation(self, rank: int, thread: _Thread, op: PlanOperation) -> None:
        needs = [] if thread.sync < 0 else [thread.sync]
        if op.name == "nop":
            self._sync(rank, thread)
        elif op.name in TELLING:
            for at, (peer, channel) in enumerate(op.channels):
                self._tell(rank, thread, op.name, at, peer, channel, needs)
        elif op.name in ("sem_release", "sem_acquire"):
            kind = SIGNAL if op.name == "sem_release" else WAIT
            for at, number in enumerate(op.semaphores):
                one = (thread.number, "thread", at)
                channel = _SEMAPHORES + number
                thread.since.append(self._add(rank, one, kind, rank, channel, needs=needs))
        else:
            thread.seen_data = True
            self._data(rank, thread, op, needs)

    def _tell(
        self,
        rank: int,
        thread: _Thread,
        name: str,
        at: int,
        peer: int,
        channel: int,
        needs: list[int],
    ) -> None:
        """A signal or wait of one channel, in the stream of the thread that does it."""
        signals = name.endswith("signal")
        key = (rank, peer, channel, signals)
        met = (rank, peer, channel) if signals else (peer, rank, channel)
        counter = self.relaxed.get((*met, self.told[key]), channel)
        self.told[key] += 1
        stream = (thread.number, "thread", at)
        if counter >= RELAXED and signals:
            stream, needs = (thread.number, "relaxed", counter), []
        kind = SIGNAL if signals else WAIT
        thread.since.append(self._add(rank, stream, kind, peer, counter, needs=needs))

    def _data(self, rank: int, thread: _Thread, op: PlanOperation, needs: list[int]) -> None:
        """A data operation: what all threads do, side by side with others until a nop."""
        parts = [0] if op.name not in ("put", "get") else range(len(op.source))
        for part in parts:
            stream = (thread.number, "data", thread.data)
            thread.data += 1
            first = len(self.rows)
            if op.name == "put":
                moved = op.source[part]._replace(type=op.source[0].type)
                self._move(rank, stream, PUT, moved, op.target[part], op.step)
            elif op.name == "get":
                here = op.target[part]._replace(offset=op.source[part].offset)
                there = op.source[part]._replace(offset=op.target[part].offset)
                self._move(rank, stream, GET, here, there)
            else:
                self._sum(rank, stream, op)
            if first == len(self.rows):  # a copy of what is there already
                continue
            self.needs[first] = list(needs)
            thread.since.append(len(self.rows) - 1)

    def _place(self, rank: int, chunks: PlanChunks) -> _Place:
        owner = rank if chunks.rank < 0 else chunks.rank
        return self.places.of(owner, chunks.type, chunks.offset)

    def _move(
        self,
        rank: int,
        stream: tuple[int, str, int],
        kind: int,
        here: PlanChunks,
        there: PlanChunks,
        step: int = 0,
    ) -> None:
        places = self._place(rank, here), self._place(rank, there)
        self._add(rank, stream, kind, there.rank, 0, *places, there.size * self.factor, step)

    def _sum(self, rank: int, stream: tuple[int, str, int], op: PlanOperation) -> None:
        """A copy or a sum of what is here and at peers, and where it goes then."""
        count = op.target[0].size * self.factor
        target = self._place(rank, op.target[0])
        here = [self._place(rank, chunks) for chunks in op.source if chunks.rank < 0]
        for chunks in op.source:
            if chunks.rank >= 0:
                got = SCRATCH, self.scratch[rank]
                self.scratch[rank] += count
                there = self._place(rank, chunks)
                self._add(rank, stream, GET, chunks.rank, 0, got, there, count)
                here.append(got)
        if target in here:
            here.remove(target)
        else:
            if len(here) > 1 and any(_overlap(place, target, count) for place in here):
                raise ValueError(
                    f"gpu {rank}, threadblock {stream[0]}: a {op.name} writes part of what it adds"
                )
            self._add(rank, stream, COPY, -1, 0, here.pop(0), target, count)
        for place in here:
            self._add(rank, stream, ADD, -1, 0, place, target, count)
        for chunks in op.target[1:]:
            self._move(rank, stream, PUT, op.target[0], chunks)


def _overlap(one: _Place, other: _Place, count: int) -> bool:
    return one[0] == other[0] and abs(one[1] - other[1]) < count
