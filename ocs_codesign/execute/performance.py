"""Performance: what one rank does with its share, from the check of messages to the comparison."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.execute.engine import MismatchError, Run, StuckError
from ocs_codesign.execute.memory import EMPTY, Data, Numbers, chunk_of_element
from ocs_codesign.execute.outcome import DTYPES, Difference, RankResult
from ocs_codesign.rank_program import RECEIVE, SEND

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ocs_codesign.execute.memory import Memory
    from ocs_codesign.execute.reference import Call
    from ocs_codesign.execute.share import Share

LARGEST_NUMBER = 2**10
"""Largest whole number in a float, so that sums of 2^14 ranks are exact."""


@final
@dataclass(slots=True)
class Performance:
    """A rank's part of a program on a communicator, to be compared with a ``call`` of MPI.

    ``even`` says whether all parts of all ranks are equal. All ranks have one, and ask for its
    result together.
    """

    world: Any
    share: Share
    seed: int
    call: Call
    even: bool
    time_limit_s: float
    num_tags: int
    _communicators: Sequence[Any] = ()
    _last: Run | None = None
    _wall_s: list[float] = field(default_factory=list)

    def result(self) -> RankResult:
        """What this rank has seen."""
        fault = self._unmatched()
        if any(self.world.allgather(fault is not None)):
            return self._told(fault=fault)
        self._communicators = self._enough_communicators()
        numbers = Numbers.of(self.share)
        fault = self._run(numbers)
        if any(self.world.allgather(fault is not None)):
            return self._told(fault=fault)
        difference = None
        for name in DTYPES:
            given, rest = self._drawn(np.dtype(name))
            data = Data.of(self.share, numbers, given, rest)
            self.world.Barrier()
            begin_s = time.perf_counter()
            fault = self._run(data)
            self._wall_s.append(time.perf_counter() - begin_s)
            if any(self.world.allgather(fault is not None)):
                return self._told(fault=fault)
            wanted = self._by_mpi(given)
            difference = difference or self._difference(data.result(), wanted, numbers.result())
        for communicator in self._communicators:
            communicator.Free()
        return self._told(difference)

    def _told(self, difference: Difference | None = None, fault: str | None = None) -> RankResult:
        last = self._last
        moved = (0, 0) if last is None else (last.num_messages, last.num_elements)
        return RankResult(
            *(self.share.rank, self.share.num_operations, *moved),
            *(difference, fault, tuple(self._wall_s), fault is not None and last is not None),
        )

    def _unmatched(self) -> str | None:
        """The first peer and channel whose messages do not meet what this rank receives."""
        sent, awaited = (self.share.transfers(kind) for kind in (SEND, RECEIVE))
        ranks = range(self.world.size)
        coming = dict(enumerate(self.world.alltoall([sent.get(rank, {}) for rank in ranks])))
        for peer in ranks:
            mine = awaited.get(peer, {})
            for channel in sorted({*coming[peer], *mine}):
                here, there = mine.get(channel, []), coming[peer].get(channel, [])
                if here != there:
                    return (
                        f"rank {peer} sends it {_messages(there)} over channel {channel}, but it "
                        f"receives {_messages(here)}"
                        f"{' of other sizes' if len(here) == len(there) else ''}"
                    )
        return None

    def _enough_communicators(self) -> list[Any]:
        """Communicators for all transfers of any pair of ranks."""
        from mpi4py import MPI

        most = self.world.allreduce(int(self.share.number.max(initial=0)), MPI.MAX)
        return [self.world.Dup() for _ in range(most // self.num_tags + 1)]

    def _run(self, memory: Memory) -> str | None:
        """Run the program once; why it did not end, if so."""
        deadline_s = time.monotonic() + self.time_limit_s
        order = Random(f"{self.seed} {self.share.rank} {memory.dtype} {type(memory).__name__}")
        run = Run(self.share, memory, self._communicators, self.num_tags, deadline_s, order)
        self._last = run
        try:
            run.execute()
        except StuckError as error:
            return f"{error} after {self.time_limit_s:g} s"
        except MismatchError as error:
            return str(error)
        return None

    def _drawn(self, dtype: np.dtype[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """The rank's input, and what is in all its buffers first."""
        elements = int(self.share.sizes[self.share.given.chunk].sum())
        rng = np.random.default_rng([self.seed, self.share.rank])
        if dtype.kind == "f":
            whole = rng.integers(-LARGEST_NUMBER, LARGEST_NUMBER, elements, endpoint=True)
            return whole.astype(dtype), np.array([np.nan], dtype=dtype)
        bounds = np.iinfo(dtype)
        return (
            rng.integers(bounds.min, bounds.max, elements, dtype=dtype, endpoint=True),
            rng.integers(bounds.min, bounds.max, 1009, dtype=dtype, endpoint=True),
        )

    def _by_mpi(self, given: NDArray[Any]) -> NDArray[Any]:
        """What MPI's own collective makes of the input."""
        from mpi4py import MPI

        told = self.share.reference
        result = np.zeros(self.share.sizes[self.share.wanted.chunk].sum(), dtype=given.dtype)
        colour = MPI.UNDEFINED if told.group < 0 else told.group
        group = self.world.Split(colour, told.place)
        if group != MPI.COMM_NULL:
            self.call(group, told, given, result, self.even)
            group.Free()
        return result

    def _difference(
        self, got: NDArray[Any], wanted: NDArray[Any], holds: NDArray[np.int64]
    ) -> Difference | None:
        """The first element that differs in a bit, None if there is none."""
        chunks = self.share.wanted.chunk
        sizes = self.share.sizes[chunks]
        bits = np.dtype(f"u{got.itemsize}")
        different = np.flatnonzero(got.view(bits) != wanted.view(bits))
        if not len(different):
            return None
        first = int(different[0])
        at, element = chunk_of_element(sizes, first)
        values = str(got[first]), str(wanted[first])
        held = int(holds[at]) if at < len(holds) else EMPTY
        return Difference(
            *(got.dtype.name, int(chunks[at]), element, *values, held, len(different))
        )


def _messages(counts: list[int]) -> str:
    return f"{len(counts)} message{'s' * (len(counts) != 1)}"
