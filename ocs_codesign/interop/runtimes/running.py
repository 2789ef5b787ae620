"""Running: messages between ranks on data as of a run over MPI, and what is right by numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ocs_codesign.core.topology import places, starts_of
from ocs_codesign.interop.run.engine import chunk_elements
from ocs_codesign.interop.run.launch import START_S, START_S_PER_RANK
from ocs_codesign.interop.run.performance import (
    DTYPES,
    RankResult,
    RunOutcome,
    difference_of,
    drawn,
)
from ocs_codesign.interop.runtimes.traffic import traffic_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ocs_codesign.core.plans import Plan, RankProgram
    from ocs_codesign.interop.runtimes.traffic import RankMessages

NUMPY = "numpy"
"""With what results are compared where a runtime has no collective of its own for all of them."""


class MessagesJob(NamedTuple):
    """Messages to be run on ``elements`` elements of M drawn with ``seed``; as ``RunJob`` is."""

    name: str
    program: RankMessages
    elements: int
    barriers: tuple[int, ...] = ()
    seed: int = 0


def job_of(
    name: str, plan: Plan | RankProgram, elements: int, barriers: Sequence[int], seed: int
) -> MessagesJob:
    """The job of a verified plan; ValueError for what messages alone cannot do."""
    if barriers:
        raise ValueError(
            f"the circuits of {name} change while it runs, before which all ranks must meet: that "
            "is for --on mpi"
        )
    return MessagesJob(name, traffic_of(plan), elements, (), seed)


def limit_of(ranks: int, time_limit_s: float) -> float:
    """Seconds for ranks to start, and for a run of every kind of data."""
    return START_S + START_S_PER_RANK * ranks + len(DTYPES) * (time_limit_s + 1.0)


class RankData(NamedTuple):
    """What a rank of a job is given and wants: chunks, and the elements of all chunks."""

    job: MessagesJob
    rank: int
    sizes: NDArray[np.int64]

    @classmethod
    def of(cls, job: MessagesJob, rank: int) -> RankData:
        """That of a rank."""
        return cls(job, rank, chunk_elements(job.program, job.elements))

    def given(self, dtype: str, rank: int | None = None) -> NDArray[Any]:
        """The input of the rank, or of another one."""
        rank = self.rank if rank is None else rank
        elements = int(self.sizes[self.job.program.given(rank)].sum())
        return drawn(self.job.seed, rank, elements, dtype)[0]

    def right(self, dtype: str) -> NDArray[Any]:
        """The output: of every chunk the sum over all who are given it, by numpy."""
        traffic, sizes = self.job.program, self.sizes
        wanted = traffic.wanted(self.rank)
        first = np.full(len(sizes), -1, dtype=np.int64)
        first[wanted] = starts_of(sizes[wanted])[:-1]
        total = np.zeros(int(sizes[wanted].sum()), dtype=dtype)
        for rank in range(traffic.num_ranks):
            chunks = traffic.given(rank)
            mine = first[chunks] >= 0
            if mine.any():
                start, count = starts_of(sizes[chunks])[:-1][mine], sizes[chunks][mine]
                into, source = (places(at, count)[1] for at in (first[chunks][mine], start))
                np.add.at(total, into, self.given(dtype, rank)[source])
        return total

    def result(self, got: Sequence[NDArray[Any]], wall_s: Sequence[float]) -> RankResult:
        """What the rank has seen that has got these outputs, of every kind of data one."""
        traffic, chunks = self.job.program, self.job.program.wanted(self.rank)
        each = (
            difference_of(output, self.right(name), chunks, self.sizes[chunks], chunks)
            for output, name in zip(got, DTYPES, strict=True)
        )
        difference = next((found for found in each if found is not None), None)
        message = np.repeat(np.arange(len(traffic.step)), np.diff(traffic.start))
        moved = np.bincount(message, self.sizes[traffic.chunk], len(traffic.step))
        sent = moved[traffic.source == self.rank].astype(np.int64)
        operations = int(((traffic.source == self.rank) | (traffic.target == self.rank)).sum())
        return RankResult(
            *(self.rank, operations, int((sent > 0).sum()), int(sent.sum()), difference),
            wall_s=tuple(wall_s),
        )


def outcome_of(
    job: MessagesJob, results: Sequence[RankResult], library: str, runtime: str
) -> RunOutcome:
    """The outcome of what all ranks have seen."""
    sizes = chunk_elements(job.program, job.elements)
    empty = int((sizes == 0).sum())
    return RunOutcome(job, NUMPY, library, len(sizes), empty, tuple(results), runtime)
