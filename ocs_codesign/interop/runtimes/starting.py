"""Starting: processes of PyTorch from here, or this one as a rank of those of torchrun."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from ocs_codesign.interop.run.launch import UnavailableError, answer_of

if TYPE_CHECKING:
    from pathlib import Path

_TORCHRUN: Final = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def is_under_torchrun() -> bool:
    """Whether this process is a rank that torchrun, or what sets its variables, has started."""
    return all(name in os.environ for name in _TORCHRUN)


def check_library(name: str) -> None:
    """UnavailableError, with what to install, unless a library of an extra is here."""
    if find_spec(name) is None:
        raise UnavailableError(f"{name} is missing: pip install 'ocs-codesign[{name}]'")


def on_torch(ranks: int, work: str, limit_s: float) -> Any:
    """What rank 0 of so many processes started here makes of ``work``; see ``answer_of``."""
    check_library("torch")
    loopback = {"GLOO_SOCKET_IFNAME": os.environ.get("GLOO_SOCKET_IFNAME", "lo")}
    return answer_of(_ranks, (ranks, work, limit_s), limit_s, loopback)


def on_torchrun(work: str, limit_s: float) -> Any:
    """What rank 0 of torchrun's processes makes of ``work``, None on the others."""
    check_library("torch")
    from ocs_codesign.interop.runtimes.torch_ranks import joined

    return joined(work, limit_s)


def _ranks(directory: Path) -> list[str]:
    return [sys.executable, "-m", "ocs_codesign.interop.runtimes.torch_ranks", str(directory)]
