"""Runtimes by the name that --on has: MPI, and PyTorch over gloo."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ocs_codesign.interop.run import measuring
from ocs_codesign.interop.run.launch import is_under_mpirun
from ocs_codesign.interop.runtimes.starting import is_under_torchrun, on_torch, on_torchrun

if TYPE_CHECKING:
    from collections.abc import Callable

    from ocs_codesign.interop.run.measuring import Probes


class Runtime(NamedTuple):
    """Where ranks are processes: who else starts them, and how they measure each other.

    ``measured`` takes the ranks to start, None for those that are there, of which only rank 0 has
    the probes.
    """

    starter: str
    is_joined: Callable[[], bool]
    measured: Callable[[int | None], Probes | None]


def _measured_on_torch(ranks: int | None) -> Probes | None:
    found: Probes | None
    if ranks is None:
        found = on_torchrun("measure", measuring.limit_s(measuring.MAX_RANKS))
    else:
        measuring.check_ranks(ranks)
        found = on_torch(ranks, "measure", measuring.limit_s(ranks))
    return found


RUNTIMES = {
    "mpi": Runtime("mpirun", is_under_mpirun, measuring.measured),
    "torch": Runtime("torchrun", is_under_torchrun, _measured_on_torch),
}
