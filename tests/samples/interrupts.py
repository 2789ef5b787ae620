"""Ctrl-C in the middle of a command that runs in a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

_LISTEN = """import signal, time
import ocs_codesign.faces.cli.progress
ocs_codesign.faces.cli.progress.SILENCE_S = 3600
signal.signal(signal.SIGINT, signal.default_int_handler)
def wait_for_ctrl_c():
    for _ in range(600):
        time.sleep(0.1)
"""
"""A process started in the background ignores SIGINT, and so would its children. A signal that
comes just before one long sleep begins would be noticed only at its end: so it sleeps often."""


def interrupted(script: str, cwd: Path) -> tuple[int, str, str]:
    """Exit code, output and errors of a script that is interrupted when it has printed "ready"."""
    process = subprocess.Popen(
        [sys.executable, "-c", _LISTEN + script],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err.strip()
