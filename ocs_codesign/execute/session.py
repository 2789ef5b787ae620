"""Session: programs that the ranks of a communicator run together, one after the other.

Rank 0 has the programs and gives every rank its share; it gets their results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.execute.engine import LEAST_TAG_UB
from ocs_codesign.execute.outcome import RunOutcome
from ocs_codesign.execute.performance import Performance
from ocs_codesign.execute.reference import CALLS
from ocs_codesign.execute.share import shares_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ocs_codesign.execute.job import RunJob
    from ocs_codesign.execute.share import Share


def run_jobs(
    world: Any, jobs: Sequence[RunJob], time_limit_s: float, most_tags: int | None = None
) -> list[RunOutcome]:
    """Run jobs on all ranks of an MPI communicator; rank 0 has ``jobs`` and gets the outcomes.

    A program that does not end in the time limit, each time that it runs, is the last one: messages
    are left under way, and MPI must be aborted. ``most_tags`` are the tags to use, all that MPI has
    by default. Raises ValueError, on all ranks, for a job of another number of ranks, or
    one that cannot be run.
    """
    from mpi4py import MPI

    num_tags = 1 + (world.Get_attr(MPI.TAG_UB) or LEAST_TAG_UB)
    num_tags = num_tags if most_tags is None else min(most_tags, num_tags)
    library = MPI.Get_library_version().partition(",")[0].strip("\0 \n")
    outcomes: list[RunOutcome] = []
    for at in range(world.bcast(len(jobs))):
        job = jobs[at] if world.rank == 0 else None
        share, seed = _share(world, job)
        even = world.allreduce(share.reference.is_even, MPI.LAND)
        call, *names = CALLS[share.reference.collective]
        own = Performance(world, share, seed, call, even, time_limit_s, num_tags).result()
        results = world.gather(own)
        if job is not None:
            empty = int((share.sizes == 0).sum())
            outcomes.append(
                RunOutcome(
                    job, names[0 if even else 1], library, len(share.sizes), empty, tuple(results)
                )
            )
        if world.bcast(bool(outcomes) and outcomes[-1].under_way):
            break
    return outcomes


def _share(world: Any, job: RunJob | None) -> tuple[Share, int]:
    """This rank's share of the job that rank 0 has, and the seed of its data."""
    shares, refusal = None, None
    if job is not None:
        try:
            if job.program.num_ranks != world.size:
                raise ValueError(
                    f"{job.name} is for {job.program.num_ranks} ranks, but MPI has {world.size}"
                )
            shares = list(shares_of(job.program, job.elements, job.barriers))
        except ValueError as error:
            refusal = str(error)
    refusal, seed = world.bcast((refusal, None if job is None else job.seed))
    if refusal is not None:
        raise ValueError(refusal)
    return world.scatter(shares), seed
