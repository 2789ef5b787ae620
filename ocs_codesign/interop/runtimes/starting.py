"""Starting: processes of PyTorch or JAX from here, or this one as a rank of torchrun's."""

from __future__ import annotations

import os
import sys
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from ocs_codesign.interop.run.launch import UnavailableError, answer_of
from ocs_codesign.interop.runtimes.running import limit_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ocs_codesign.interop.run.performance import RunOutcome
    from ocs_codesign.interop.runtimes.running import MessagesJob

_TORCHRUN: Final = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def is_under_torchrun() -> bool:
    """Whether this process is a rank that torchrun, or what sets its variables, has started."""
    return all(name in os.environ for name in _TORCHRUN)


def check_library(name: str) -> None:
    """UnavailableError, with what to install, unless a library of an extra is here."""
    if find_spec(name) is None:
        raise UnavailableError(f"{name} is missing: pip install 'ocs-codesign[{name}]'")


def on_torch(ranks: int, work: str, limit_s: float, task: object = None) -> Any:
    """What rank 0 of so many processes started here makes of ``work``; see ``answer_of``."""
    check_library("torch")
    loopback = {"GLOO_SOCKET_IFNAME": os.environ.get("GLOO_SOCKET_IFNAME", "lo")}
    given = (ranks, work, limit_s, task)
    return answer_of(partial(_process, "torch_ranks"), given, limit_s, loopback)


def on_torchrun(
    work: str, limit_s: float, make: Callable[[int], object] = lambda _: None
) -> tuple[int, Any]:
    """Which of torchrun's processes this is, and what it makes of ``work``.

    Rank 0 makes their task, given how many they are; what it cannot make is raised there, and the
    answer of the others is None.
    """
    check_library("torch")
    from ocs_codesign.interop.runtimes.torch_ranks import joined

    return joined(work, limit_s, make)


def on_jax(job: MessagesJob, time_limit_s: float) -> RunOutcome:
    """A job on as many virtual devices of a process as it has ranks; see ``answer_of``."""
    check_library("jax")
    ranks = job.program.num_ranks
    flags = f"--xla_force_host_platform_device_count={ranks}"
    environment = {
        "XLA_FLAGS": " ".join([*os.environ.get("XLA_FLAGS", "").split(), flags]),
        "JAX_PLATFORMS": "cpu",
        "JAX_ENABLE_X64": "1",
    }
    limit_s = limit_of(ranks, time_limit_s)
    outcome: RunOutcome = answer_of(partial(_process, "jax_ranks"), job, limit_s, environment)
    return outcome


def _process(module: str, directory: Path) -> list[str]:
    return [sys.executable, "-m", f"ocs_codesign.interop.runtimes.{module}", str(directory)]
