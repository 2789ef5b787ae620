"""Runtimes by the name that --on has: MPI, PyTorch over gloo, and JAX on virtual devices."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ocs_codesign.core.plans import RankProgram
from ocs_codesign.interop.lowering.lowering import lower
from ocs_codesign.interop.run import launch, measuring
from ocs_codesign.interop.run.launch import DIFFERENT, EQUAL, REFUSED, RunJob
from ocs_codesign.interop.runtimes.running import job_of, limit_of
from ocs_codesign.interop.runtimes.starting import (
    check_library,
    is_under_torchrun,
    on_jax,
    on_torch,
    on_torchrun,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ocs_codesign.interop.run.measuring import Probes
    from ocs_codesign.interop.run.performance import RunOutcome
    from ocs_codesign.interop.runtimes.running import MessagesJob

    Joined = Callable[[Callable[[], Any], float, Callable[[RunOutcome], None]], int]


class Runtime(NamedTuple):
    """Where ranks run: who else starts them, and how they run jobs and measure each other.

    ``check`` raises UnavailableError for what is missing. ``job`` is made of a name, a verified
    plan or a program, elements of M, barriers and a seed; ``launched`` runs one on ranks that it
    starts, ``joined`` what rank 0 makes on those that are there. ``measured`` takes the ranks to
    start, None for those that are there, of which only rank 0 has the probes.
    """

    starter: str | None
    is_joined: Callable[[], bool]
    check: Callable[[], None]
    job: Callable[..., Any]
    launched: Callable[[Any, float], RunOutcome]
    joined: Joined | None = None
    measured: Callable[[int | None], Probes | None] | None = None


def _mpi_job(
    name: str, plan: Any, elements: int, barriers: tuple[int, ...], seed: int, *, in_place: bool
) -> RunJob:
    program = plan if isinstance(plan, RankProgram) else lower(plan, in_place=in_place)
    return RunJob(name, program, elements, barriers, seed)


def _messages_job(runtime: str, *given: Any, in_place: bool) -> MessagesJob:
    if in_place:
        raise ValueError(f"--in-place is for --on mpi: on {runtime} buffers are its own")
    return job_of(*given)


def _check_mpi() -> None:
    launch.check_available(launcher=not launch.is_under_mpirun())


def _on_mpi(job: RunJob, time_limit_s: float) -> RunOutcome:
    (outcome,) = launch.launch([job], time_limit_s)
    return outcome


def _on_torch(job: MessagesJob, time_limit_s: float) -> RunOutcome:
    ranks = job.program.num_ranks
    limit_s = limit_of(ranks, time_limit_s)
    outcome: RunOutcome = on_torch(ranks, "run", limit_s, (job, time_limit_s))
    return outcome


def _joined_by_torchrun(
    make: Callable[[], MessagesJob], time_limit_s: float, show: Callable[[RunOutcome], None]
) -> int:
    """The exit code of a job that rank 0 makes and whose outcome it shows."""

    def task(size: int) -> tuple[MessagesJob, float]:
        job = make()
        ranks = job.program.num_ranks
        if ranks != size:
            raise ValueError(f"{job.name} is for {ranks} ranks, but torchrun has {size}")
        return job, time_limit_s

    rank, outcome = on_torchrun("run", limit_of(measuring.MAX_RANKS, time_limit_s), task)
    if outcome is None:
        return REFUSED
    if not rank:
        show(outcome)
    return EQUAL if outcome.ok else DIFFERENT


def _measured_on_torch(ranks: int | None) -> Probes | None:
    if ranks is None:
        rank, probes = on_torchrun("measure", measuring.limit_s(measuring.MAX_RANKS))
        return None if rank else probes
    measuring.check_ranks(ranks)
    found: Probes = on_torch(ranks, "measure", measuring.limit_s(ranks))
    return found


RUNTIMES = {
    "mpi": Runtime(
        "mpirun",
        launch.is_under_mpirun,
        _check_mpi,
        _mpi_job,
        _on_mpi,
        launch.run_joined,
        measuring.measured,
    ),
    "torch": Runtime(
        "torchrun",
        is_under_torchrun,
        partial(check_library, "torch"),
        partial(_messages_job, "torch"),
        _on_torch,
        _joined_by_torchrun,
        _measured_on_torch,
    ),
    "jax": Runtime(
        None, bool, partial(check_library, "jax"), partial(_messages_job, "jax"), on_jax
    ),
}
