"""Joined: a run on ranks that somebody else has started with mpirun, of which this is one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ocs_codesign.execute.job import RunJob
    from ocs_codesign.execute.outcome import RunOutcome

EQUAL, DIFFERENT, REFUSED, BROKEN = range(4)
"""Exit codes of ranks; the first three are those of the command."""


def run_joined(
    make: Callable[[], RunJob], time_limit_s: float, show: Callable[[RunOutcome], None]
) -> int:
    """Run the job that rank 0 makes on all ranks; rank 0 shows the outcome, all get the exit code.

    What is wrong with a job is raised on rank 0 alone. Ranks that are stuck are aborted.
    """
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    jobs: list[RunJob] = []
    wrong: Exception | None = None
    if world.rank == 0:
        try:
            jobs = [make()]
        except Exception as error:  # whatever it is, the other ranks wait to be told
            wrong = error
    if world.bcast(wrong is not None):
        if wrong is not None:
            raise wrong
        return REFUSED
    try:
        outcomes = run_or_abort(world, jobs, time_limit_s)
    except ValueError:
        if world.rank == 0:
            raise
        return REFUSED
    for outcome in outcomes:
        show(outcome)
    code = EQUAL if all(each.ok for each in outcomes) else DIFFERENT
    code, stuck = world.bcast((code, any(each.under_way for each in outcomes)))
    if stuck:
        world.Abort(code)
    return int(code)


def run_or_abort(
    world: Any, jobs: Sequence[RunJob], time_limit_s: float, most_tags: int | None = None
) -> list[RunOutcome]:
    """``session.run_jobs``; a rank on which anything but ValueError is raised ends them all."""
    from ocs_codesign.execute.session import run_jobs

    try:
        return run_jobs(world, jobs, time_limit_s, most_tags)
    except ValueError:
        raise
    except Exception as error:
        told = " ".join(str(error).split()) or "nothing more"
        sys.stderr.write(f"Error: rank {world.rank}: {type(error).__name__}: {told}\n")
        sys.stderr.flush()
        world.Abort(BROKEN)
        raise
