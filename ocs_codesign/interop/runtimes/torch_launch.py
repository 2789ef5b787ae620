"""``python -m ocs_codesign.torch``: an unchanged training script over schedules."""

from __future__ import annotations

import os
import runpy
import sys
from functools import wraps
from typing import Any

import torch.distributed as dist

from ocs_codesign.interop.runtimes.torch_group import NAME, PLANS, register, report, use

USAGE = """usage: python -m ocs_codesign.torch [--plans PATHS] [--report] SCRIPT [ARGUMENT...]

Runs SCRIPT with the process group "ocs" in place of gloo and NCCL; every rank is started so, as by
torchrun -m ocs_codesign.torch SCRIPT. PATHS are those of books and designs, as in $PATH, or are in
OCS_PLANS. --report prints at the end which calls of rank 0 went by schedules.
"""
_STOOD_FOR = (None, "gloo", "nccl", "cpu:gloo,cuda:nccl")


def stand_in() -> None:
    """Take "ocs" wherever a script asks for no backend, for gloo or for NCCL."""
    register()
    for device in ("cpu", "cuda"):
        dist.Backend.default_device_backend_map[device] = NAME
    usual = dist.init_process_group

    @wraps(usual)
    def init_process_group(backend: Any = None, *arguments: Any, **named: Any) -> Any:
        return usual(NAME if backend in _STOOD_FOR else backend, *arguments, **named)

    dist.init_process_group = init_process_group


def main(words: list[str]) -> int:
    """Run a script as told by the words of a command line."""
    words = list(words)
    reports = False
    while words and words[0].startswith("--"):
        option = words.pop(0)
        if option == "--report":
            reports = True
        elif option == "--plans" and words:
            os.environ[PLANS] = words.pop(0)
        elif option == "--help":
            sys.stdout.write(USAGE)
            return 0
        else:
            sys.stderr.write(f"{USAGE}\nError: what is {option}?\n")
            return 2
    if not words:
        sys.stderr.write(f"{USAGE}\nError: a script is missing\n")
        return 2
    try:
        use(*filter(None, os.environ.get(PLANS, "").split(os.pathsep)))
    except (OSError, ValueError) as error:
        sys.stderr.write(f"Error: {error}\n")
        return 2
    stand_in()
    sys.argv = words
    sys.path.insert(0, os.path.dirname(os.path.abspath(words[0])))
    try:
        runpy.run_path(words[0], run_name="__main__")
    finally:
        if reports and os.environ.get("RANK", "0") == "0":
            sys.stderr.write(f"{report()}\n")
    return 0
