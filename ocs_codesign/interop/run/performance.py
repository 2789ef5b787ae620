"""Performance: what one rank does with its share, from the check of messages to the comparison."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias, final

import numpy as np

from ocs_codesign.core.collective import CUSTOM
from ocs_codesign.core.demand import SUM
from ocs_codesign.core.plans import RECEIVE, SEND
from ocs_codesign.core.topology import places, starts_of
from ocs_codesign.interop.run.engine import (
    EMPTY,
    Data,
    MismatchError,
    Numbers,
    Run,
    StuckError,
    chunk_of_element,
    piece_elements,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from ocs_codesign.core.demand import Demand
    from ocs_codesign.core.plans import RankProgram
    from ocs_codesign.interop.run.engine import Memory, Place
    from ocs_codesign.interop.run.launch import RunJob, Share
    from ocs_codesign.interop.runtimes.running import MessagesJob


# RunOutcome: what a run of a program on real processes has shown, rank by rank.


DTYPES = ("int64", "float32")
"""What is sent: any 64 bits, and small whole numbers as floats, whose sums are exact."""

PROVES = {
    "mpi": "Proves: the program ends under MPI's progress, every send meets its receive, and data "
    "and sums are right.",
    "torch": "Proves: the messages end under gloo's progress, every send meets its receive, and "
    "data and sums are right.",
    "jax": "Proves: the permutations that JAX compiles end, and data and sums are right.",
}
"""By the runtime that has run it."""

PROVES_NOT = (
    "Not proven: time, contention, the order of transfers on a link, the order of memory accesses "
    "of a GPU."
)


@final
@dataclass(frozen=True, slots=True)
class Difference:
    """The first element of a rank's output that is not what is right there.

    ``element`` counts within ``chunk``, which counts through the demand; ``holds`` is the chunk
    that the program brought there, -1 for none and -2 for a sum of different ones.
    """

    dtype: str
    chunk: int
    element: int
    got: str
    wanted: str
    holds: int
    num_different: int


@final
@dataclass(frozen=True, slots=True)
class RankResult:
    """What one rank has seen; ``fault`` is why it did not come to its end.

    It is ``under_way`` if it had begun then: messages may be on their way.
    ``wall_s`` are the seconds of each run of the program on the machine at hand: not network time.
    """

    rank: int
    num_operations: int
    num_messages: int = 0
    num_elements: int = 0
    difference: Difference | None = None
    fault: str | None = None
    wall_s: tuple[float, ...] = ()
    under_way: bool = False

    @property
    def is_equal(self) -> bool:
        """Whether its output is right, bit by bit."""
        return self.difference is None and self.fault is None and len(self.wall_s) == len(DTYPES)


@final
@dataclass(frozen=True, slots=True, eq=False)
class RunOutcome:
    """A run of a job: which collective it was compared with, and the result of every rank.

    ``num_empty`` of ``num_chunks`` chunks have no elements; ``library`` is what ran it, and
    ``runtime`` its name for --on.
    """

    job: RunJob | MessagesJob
    call: str
    library: str
    num_chunks: int
    num_empty: int
    ranks: tuple[RankResult, ...]
    runtime: str = "mpi"

    @property
    def ok(self) -> bool:
        """Whether every rank has what it was compared with."""
        return all(result.is_equal for result in self.ranks)

    @property
    def fault(self) -> str | None:
        """The first rank that did not come to its end, and why."""
        stopped = [result for result in self.ranks if result.fault is not None]
        return f"rank {stopped[0].rank}: {stopped[0].fault}" if stopped else None

    @property
    def under_way(self) -> bool:
        """Whether ranks are stuck in the middle of it: MPI must be aborted."""
        return any(result.under_way for result in self.ranks)

    @property
    def wall_s(self) -> float:
        """The longest run of any rank: not network time."""
        return max((second for result in self.ranks for second in result.wall_s), default=0.0)


LARGEST_NUMBER = 2**10
"""Largest whole number in a float, so that sums of 2^14 ranks are exact."""


def drawn(seed: int, rank: int, elements: int, name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """The input of a rank, and what is in all its buffers first."""
    dtype, rng = np.dtype(name), np.random.default_rng([seed, rank])
    if dtype.kind == "f":
        whole = rng.integers(-LARGEST_NUMBER, LARGEST_NUMBER, elements, endpoint=True)
        return whole.astype(dtype), np.array([np.nan], dtype=dtype)
    bounds = np.iinfo(dtype)
    return (
        rng.integers(bounds.min, bounds.max, elements, dtype=dtype, endpoint=True),
        rng.integers(bounds.min, bounds.max, 1009, dtype=dtype, endpoint=True),
    )


def difference_of(
    got: NDArray[Any],
    wanted: NDArray[Any],
    chunks: NDArray[np.int64],
    sizes: NDArray[np.int64],
    holds: NDArray[np.int64],
) -> Difference | None:
    """The first element that differs in a bit, None if there is none.

    Outputs are of ``chunks`` of so many elements, where ``holds`` has come.
    """
    bits = np.dtype(f"u{got.itemsize}")
    different = np.flatnonzero(got.view(bits) != wanted.view(bits))
    if not len(different):
        return None
    first = int(different[0])
    at, element = chunk_of_element(sizes, first)
    values = str(got[first]), str(wanted[first])
    held = int(holds[at]) if at < len(holds) else EMPTY
    return Difference(*(got.dtype.name, int(chunks[at]), element, *values, held, len(different)))


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
            elements = int(self.share.sizes[self.share.given.chunk].sum())
            given, rest = drawn(self.seed, self.share.rank, elements, name)
            data = Data.of(self.share, numbers, given, rest)
            self.world.Barrier()
            begin_s = time.perf_counter()
            fault = self._run(data)
            self._wall_s.append(time.perf_counter() - begin_s)
            if any(self.world.allgather(fault is not None)):
                return self._told(fault=fault)
            wanted = self._by_mpi(given)
            chunks = self.share.wanted.chunk
            difference = difference or difference_of(
                data.result(), wanted, chunks, self.share.sizes[chunks], numbers.result()
            )
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


def _messages(counts: list[int]) -> str:
    return f"{len(counts)} message{'s' * (len(counts) != 1)}"


# Reference: what MPI's own collective makes of the same data, each group by itself.


def _nothing() -> NDArray[np.int64]:
    return np.zeros(0, dtype=np.int64)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """What a rank tells MPI's own collective.

    ``group`` (-1 for none) and ``place`` are the group that the rank is in and its number there,
    ``root`` that of the root. ``sends`` and ``receives`` (int64) are the elements for and from each
    rank of the group; of an allgather and of sums both are the parts of all. A demand without a
    name is exchanged over all ranks: the elements ``take`` of the input are what is sent, and what
    is received is added to the elements ``put`` of the output.
    """

    collective: str
    group: int
    place: int
    root: int = 0
    sends: NDArray[np.int64] = field(default_factory=_nothing)
    receives: NDArray[np.int64] = field(default_factory=_nothing)
    take: NDArray[np.int64] = field(default_factory=_nothing)
    put: NDArray[np.int64] = field(default_factory=_nothing)

    @property
    def is_root(self) -> bool:
        """Whether the rank is the root of its group."""
        return self.place == self.root

    @property
    def is_even(self) -> bool:
        """Whether what the rank sends to each, and receives from each, is equally much."""
        parts = (self.sends, self.receives)
        return all(len(part) == 0 or int(part.min()) == int(part.max()) for part in parts)


def reference_of(
    program: RankProgram, rank: int, sizes: NDArray[np.int64], given: Place, wanted: Place
) -> Reference:
    """What a rank must tell MPI, given the elements of every chunk and where its data are."""
    collective, demand = program.collective, program.demands[0]
    name, units = collective.name, program.chunks_per_unit
    elements = piece_elements(demand, units, sizes)
    if name == CUSTOM:
        return _exchange(demand, units, rank, sizes, elements, given, wanted)
    groups = collective.ranks(program.num_ranks)
    number = next((at for at, group in enumerate(groups) if rank in group), -1)
    if number < 0:
        return Reference(name, -1, 0)
    group = np.array(groups[number])
    root = demand.root[demand.item_of_piece()]
    if name in ("alltoall", "scatter", "gather"):
        target = demand.member[demand.group_start[demand.group]]
        sends = _per_rank(target[root == rank], elements[root == rank], group)
        receives = _per_rank(root[target == rank], elements[target == rank], group)
    else:
        sends = receives = _per_rank(root, elements, group)
    place = groups[number].index(rank)
    return Reference(name, number, place, collective.root or 0, sends, receives)


def _per_rank(
    rank: NDArray[Any], elements: NDArray[np.int64], group: NDArray[Any]
) -> NDArray[np.int64]:
    """Elements added up for each rank of a group, in its order."""
    total = np.zeros(int(max(group.max(), rank.max(initial=0))) + 1, dtype=np.int64)
    np.add.at(total, rank, elements)
    of_group: NDArray[np.int64] = total[group]
    return of_group


def _exchange(
    demand: Demand,
    units: int,
    rank: int,
    sizes: NDArray[np.int64],
    elements: NDArray[np.int64],
    given: Place,
    wanted: Place,
) -> Reference:
    """Of a demand without a name: every piece from where it is to where it is wanted or added."""
    first = demand.group_start[demand.group]
    piece, at = places(first, demand.group_start[demand.group + 1] - first)
    item = demand.item_of_piece()[piece]
    ends = demand.root[item], demand.member[at]
    summed = demand.kind[item] == SUM
    source, target = np.where(summed, ends[::-1], ends)
    parts = []
    for mine, other, place in ((source, target, given), (target, source, wanted)):
        rows = np.flatnonzero(mine == rank)
        rows = rows[np.lexsort((piece[rows], other[rows]))]
        start = _starts(demand, units, sizes, place)[piece[rows]]
        count = _per_rank(other[rows], elements[piece[rows]], np.arange(demand.num_hosts))
        parts.append((count, places(start, elements[piece[rows]])[1]))
    (sends, take), (receives, put) = parts
    return Reference(CUSTOM, 0, rank, 0, sends, receives, take, put)


def _starts(
    demand: Demand, units: int, sizes: NDArray[np.int64], place: Place
) -> NDArray[np.int64]:
    """Elements before every piece in a buffer, 0 for pieces that are not in it."""
    piece = np.searchsorted(demand.first_units() * units, place.chunk, side="right") - 1
    start = np.zeros(demand.num_pieces, dtype=np.int64)
    start[piece[::-1]] = starts_of(sizes[place.chunk])[:-1][::-1]  # the first chunk is the last
    return start


def _allgather(
    on: Any, told: Reference, given: NDArray[Any], result: NDArray[Any], even: bool
) -> None:
    if even:
        on.Allgather(given, result)
    else:
        on.Allgatherv(given, [result, told.receives])


def _reduce_scatter(
    on: Any, told: Reference, given: NDArray[Any], result: NDArray[Any], even: bool
) -> None:
    if even:
        on.Reduce_scatter_block(given, result)
    else:
        on.Reduce_scatter(given, result, told.sends)


def _allreduce(on: Any, _: Reference, given: NDArray[Any], result: NDArray[Any], __: bool) -> None:
    on.Allreduce(given, result)


def _alltoall(
    on: Any, told: Reference, given: NDArray[Any], result: NDArray[Any], even: bool
) -> None:
    if even:
        on.Alltoall(given, result)
    else:
        on.Alltoallv([given, told.sends], [result, told.receives])


def _broadcast(
    on: Any, told: Reference, given: NDArray[Any], result: NDArray[Any], _: bool
) -> None:
    if told.is_root:
        result[:] = given
    on.Bcast(result, told.root)


def _reduce(on: Any, told: Reference, given: NDArray[Any], result: NDArray[Any], _: bool) -> None:
    on.Reduce(given, result if told.is_root else None, root=told.root)


def _scatter(
    on: Any, told: Reference, given: NDArray[Any], result: NDArray[Any], even: bool
) -> None:
    if even:
        on.Scatter(given if told.is_root else None, result, told.root)
    else:
        on.Scatterv([given, told.sends] if told.is_root else None, result, told.root)


def _gather(
    on: Any, told: Reference, given: NDArray[Any], result: NDArray[Any], even: bool
) -> None:
    if even:
        on.Gather(given, result if told.is_root else None, told.root)
    else:
        on.Gatherv(given, [result, told.receives] if told.is_root else None, told.root)


def _exchange_and_add(
    on: Any, told: Reference, given: NDArray[Any], result: NDArray[Any], _: bool
) -> None:
    received = np.empty(len(told.put), dtype=given.dtype)
    on.Alltoallv([given[told.take], told.sends], [received, told.receives])
    np.add.at(result, told.put, received)


Call: TypeAlias = "Callable[[Any, Reference, NDArray[Any], NDArray[Any], bool], None]"
"""Of a communicator: what to tell MPI, the input, the output to fill, whether parts are equal."""

CALLS: dict[str, tuple[Call, str, str]] = {
    "allgather": (_allgather, "MPI_Allgather", "MPI_Allgatherv"),
    "reduce-scatter": (_reduce_scatter, "MPI_Reduce_scatter_block", "MPI_Reduce_scatter"),
    "allreduce": (_allreduce, "MPI_Allreduce", "MPI_Allreduce"),
    "alltoall": (_alltoall, "MPI_Alltoall", "MPI_Alltoallv"),
    "broadcast": (_broadcast, "MPI_Bcast", "MPI_Bcast"),
    "reduce": (_reduce, "MPI_Reduce", "MPI_Reduce"),
    "scatter": (_scatter, "MPI_Scatter", "MPI_Scatterv"),
    "gather": (_gather, "MPI_Gather", "MPI_Gatherv"),
    CUSTOM: (_exchange_and_add, "MPI_Alltoallv and sums", "MPI_Alltoallv and sums"),
}
"""MPI's own of every collective, and its names for equal parts and for unequal ones."""
