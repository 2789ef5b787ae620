"""What every rank that ``launch`` has started runs, as ``python -m`` of this module and DIR."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

from ocs_codesign.interop.run.launch import TASK, leave, run_or_abort


def main(directory: Path) -> None:
    """Run the jobs in a directory of ours; rank 0 writes the outcomes, or why there are none."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    task = pickle.loads((directory / TASK).read_bytes()) if world.rank == 0 else ((), 0.0, None)
    jobs, time_limit_s, most_tags = task
    time_limit_s, most_tags = world.bcast((time_limit_s, most_tags))
    stopped = False
    try:
        outcomes = run_or_abort(world, jobs, time_limit_s, most_tags)
        answer: object = outcomes
        stopped = any(each.under_way for each in outcomes)
    except ValueError as error:
        answer = str(error)
    if world.rank == 0:
        leave(answer, directory)
    if world.bcast(stopped):
        world.Abort(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
