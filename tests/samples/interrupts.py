"""Ctrl-C in the middle of a command that runs in a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

LISTEN = """import os, select, signal
import ocs_codesign.faces.cli.progress
ocs_codesign.faces.cli.progress.SILENCE_S = 3600
signal.signal(signal.SIGINT, signal.default_int_handler)
came, comes = os.pipe()
os.set_blocking(comes, False)
signal.set_wakeup_fd(comes)
def wait_for_ctrl_c():
    select.select([came], [], [])
"""
"""A process started in the background ignores SIGINT, and so would its children. What has come
before the wait begins is in the pipe, so that none is missed."""


def interrupted(script: str, cwd: Path) -> tuple[int, str, str]:
    """Exit code, output and errors of a script that is interrupted when it has printed "ready"."""
    process = subprocess.Popen(
        [sys.executable, "-c", LISTEN + script],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=600)
    return process.returncode, out, err.strip()
