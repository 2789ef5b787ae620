"""RunOutcome: what a run of a program on real processes has shown, rank by rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from ocs_codesign.execute.job import RunJob

DTYPES = ("int64", "float32")
"""What is sent: any 64 bits, and small whole numbers as floats, whose sums are exact."""

PROVES = (
    "Proves: the program ends under MPI's progress, every send meets its receive, and data and "
    "sums are right."
)
PROVES_NOT = (
    "Not proven: time, contention, the order of transfers on a link, the order of memory accesses "
    "of a GPU."
)


@final
@dataclass(frozen=True, slots=True)
class Difference:
    """The first element of a rank's output that is not what MPI has there.

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
        """Whether its output is MPI's, bit by bit."""
        return self.difference is None and self.fault is None and len(self.wall_s) == len(DTYPES)


@final
@dataclass(frozen=True, slots=True, eq=False)
class RunOutcome:
    """A run of a job: which collective of MPI it was compared with, and the result of every rank.

    ``num_empty`` of ``num_chunks`` chunks have no elements; ``library`` is the MPI that ran it.
    """

    job: RunJob
    call: str
    library: str
    num_chunks: int
    num_empty: int
    ranks: tuple[RankResult, ...]

    @property
    def ok(self) -> bool:
        """Whether every rank has what MPI has."""
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
