"""Namespaces of its own for a rehearsal: no root, nothing leaves, nothing stays."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from typing import Any

from ocs_codesign.core.progress import tell_phase

_SPACES = ("--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
_MARK, KEPT = "OCS_CODESIGN_REHEARSAL", "kept"
_TRIAL = """mount -t tmpfs none /run || { echo 'mount of tmpfs'; exit 0; }
mkdir /run/netns
ip netns add a 2>/dev/null || { echo 'ip netns'; exit 0; }
ip link add v0 type veth peer name v1 netns a 2>/dev/null ||
    { echo 'veth (a kernel module)'; exit 0; }
ip link add br0 type bridge 2>/dev/null || { echo 'bridge (a kernel module)'; exit 0; }
tc qdisc add dev v0 root tbf rate 1mbit burst 17600 limit 4194304 2>/dev/null ||
    { echo 'tbf (sch_tbf, a kernel module)'; exit 0; }
tc qdisc add dev v0 clsact 2>/dev/null || { echo 'clsact (sch_ingress, a kernel module)'; exit 0; }
tc filter add dev v0 ingress pref 1 protocol all u32 match u32 0 0 action mirred egress redirect \
dev v0 2>/dev/null || { echo 'u32 and mirred (kernel modules)'; exit 0; }
echo ready"""


def unshared() -> list[str]:
    """What makes the namespaces; ValueError with what this machine lacks."""
    if sys.platform != "linux":
        raise ValueError("a rehearsal runs in namespaces of Linux, which this system has not")
    for tool, package in (("unshare", "util-linux"), ("ip", "iproute2"), ("tc", "iproute2")):
        if shutil.which(tool) is None:
            raise ValueError(f"a rehearsal needs {tool}, of the package {package}")
    lacks = "user namespaces (sysctl user.max_user_namespaces), or to be run as root"
    for first in (("--user", "--map-root-user"), *([()] if os.geteuid() == 0 else [])):
        words = ["unshare", *first, *_SPACES]
        tried = subprocess.run(
            [*words, "sh", "-c", _TRIAL], capture_output=True, text=True, check=False
        )
        said = tried.stdout.strip()
        if said == "ready":
            return words
        lacks = said or lacks
    raise ValueError(f"a rehearsal needs {lacks}, which this machine lacks")


def _die_with(parent: int) -> None:
    """End with the parent, even if it has ended before this was asked for."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def in_namespaces(asked: dict[str, Any]) -> dict[str, Any]:
    """What a rehearsal there says; ValueError with why if it could not be.

    All its processes end with the first one, which ends with this one, and their namespaces, files
    and interfaces with them. One that is to ``keep`` runs on until ``taken_down``; ``sockets`` says
    where its switches are. What it tells of its phases is told here.
    """
    words = unshared()
    script = 'mount -t tmpfs none /run && mkdir /run/netns && exec "$@"'
    inside = [sys.executable, "-m", "ocs_codesign.fabric.rehearsal.rehearse"]
    is_kept = bool(asked.get("keep"))
    mark = KEPT if is_kept else str(os.getpid())
    process = subprocess.Popen(
        [*words, "sh", "-c", script, "sh", *inside],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL if is_kept else None,
        text=True,
        env={**os.environ, _MARK: mark},
        start_new_session=True,  # Ctrl-C is for this process, which ends the others
        preexec_fn=None if is_kept else partial(_die_with, os.getpid()),
    )
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("no pipe to the rehearsal")
    answer: dict[str, Any] = {}
    try:
        with process.stdin, process.stdout:
            process.stdin.write(json.dumps(asked) + "\n")
            process.stdin.flush()
            for line in process.stdout:
                said = json.loads(line)
                if isinstance(said, dict):
                    answer = said
                    break
                tell_phase(*said)
    except BaseException:  # of Ctrl-C it has not heard, and this process may go on
        process.kill()
        process.wait()
        raise
    if is_kept and answer and "error" not in answer:
        process.returncode = 0  # it is not waited for
        return {**answer, "left_behind": 0, "sockets": f"/proc/{process.pid}/root/run/switches"}
    process.wait()
    if not answer:
        raise ValueError(f"the rehearsal ended without an answer (code {process.returncode})")
    if "error" in answer:
        raise ValueError(answer["error"])
    return {**answer, "left_behind": len(left(mark))}


def taken_down() -> int:
    """End the rehearsals that were kept; how many processes that were."""
    ended = left(KEPT)
    for pid in ended:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    while left(KEPT):
        time.sleep(0.02)
    return len(ended)


def left(mark: str) -> list[int]:
    """Processes of a rehearsal, which they say in their environment."""
    found = []
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if f"{_MARK}={mark}".encode() in file.read().split(b"\0"):
                    found.append(int(name))
        except (OSError, ValueError):
            continue
    return found
