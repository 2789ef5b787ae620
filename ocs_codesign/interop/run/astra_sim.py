"""ASTRA-sim as a second opinion: what a built binary says of an export, beside our clock.

Nothing of ASTRA-sim is needed but the path of its congestion-aware analytical build. It runs in a
directory of its own, for so long and with so much output; what it prints is read and not believed:
every rank must say once that it finished, because a run in which some wait for ever ends well too.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, final

from ocs_codesign.core.shown import shown
from ocs_codesign.interop.astra_sim import command, contents_of, links_of
from ocs_codesign.interop.chakra.check import checked_graph

if TYPE_CHECKING:
    from ocs_codesign.interop.astra_sim import AstraLinks
    from ocs_codesign.interop.registry import Contents, Export


VARIABLE = "OCS_CODESIGN_ASTRA_SIM"
"""The environment variable that names the binary."""

RAN, FAILED, SKIPPED = "ran", "failed", "skipped"
MAX_OUTPUT_BYTES = 64 * 2**20
TIME_LIMIT_S = 600.0
_PATIENCE_S = 0.02
_FINISHED = re.compile(rb"sys\[(\d{1,7})\](?: iteration \d+)? finished, (\d{1,18}) cycles")


@final
@dataclass(frozen=True, slots=True)
class _AstraRun:
    """What a run of ASTRA-sim came to: ``status``, a ``reason`` unless it ran, and cycles a rank.

    A cycle is a nanosecond; ``cycles`` is empty unless it ran.
    """

    status: str
    reason: str | None
    cycles: tuple[int, ...] = ()

    @property
    def total(self) -> int | None:
        """When the last rank finished, None if it did not run."""
        return max(self.cycles, default=None)


@final
@dataclass(frozen=True, slots=True, eq=False)
class SecondOpinion:
    """A run beside our clock, which by the same rules says ``own_ticks`` nanoseconds."""

    export: Export
    links: AstraLinks
    num_messages: int
    own_ticks: int
    run: _AstraRun

    @property
    def difference(self) -> int | None:
        """Nanoseconds that ASTRA-sim says more than we, None if it did not run."""
        return None if self.run.total is None else self.run.total - self.own_ticks


def second_opinion(
    export: Export, binary: str | Path | None, time_limit_s: float = TIME_LIMIT_S
) -> SecondOpinion:
    """What ASTRA-sim says of an export, beside our clock; skipped without a binary.

    Raises ValueError for what ASTRA-sim cannot take: networks that it does not have.
    """
    links, graph = links_of(export), checked_graph(export)
    ticks = links.clocked(graph).total_ticks
    contents = contents_of(export, graph, links, ticks)
    run = run_astra_sim(contents, graph.num_ranks, binary, time_limit_s)
    messages = int((graph.tag >= 0).sum()) // 2
    return SecondOpinion(export, links, messages, ticks, run)


def run_astra_sim(
    contents: Contents, num_ranks: int, binary: str | Path | None, time_limit_s: float
) -> _AstraRun:
    """The run of the files of an export in a directory that is gone afterwards."""
    path, reason = _binary(binary)
    if path is None:
        return _AstraRun(SKIPPED, reason)
    with tempfile.TemporaryDirectory(prefix="astra-sim-") as directory:
        for name, content in contents.items():
            (Path(directory) / name).write_bytes(content)
        output, failure = _output(path, Path(directory), time_limit_s)
    cycles, wrong = _cycles(output, num_ranks)
    failure = failure or wrong
    return _AstraRun(RAN, None, cycles) if failure is None else _AstraRun(FAILED, failure)


def _binary(binary: str | Path | None) -> tuple[Path | None, str | None]:
    """The binary to run, or why there is none."""
    asked = binary or os.environ.get(VARIABLE)
    if not asked:
        return None, f"no binary of ASTRA-sim is named, neither by --astra-sim nor by {VARIABLE}"
    path = Path(asked).resolve()
    if not path.is_file():
        return None, f"there is no file {asked}"
    if not os.access(path, os.X_OK):
        return None, f"{asked} cannot be run"
    return path, None


def _output(path: Path, directory: Path, time_limit_s: float) -> tuple[bytes, str | None]:
    """What the binary prints, and why that does not count, if it does not."""
    printed = directory / "printed.txt"
    with printed.open("wb") as file:
        try:
            process = subprocess.Popen(
                command(str(path)),
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            return b"", f"it cannot be run: {error.strerror or error}"
        failure = _waited(process, printed, time_limit_s)
    output = printed.read_bytes()[:MAX_OUTPUT_BYTES]
    if failure is None and process.returncode != 0:
        last = output.strip().rsplit(b"\n", 1)[-1].decode(errors="replace")
        failure = f"it ended with exit code {process.returncode}: {shown(last)}"
    return output, failure


def _waited(process: subprocess.Popen[bytes], printed: Path, time_limit_s: float) -> str | None:
    """Wait for a process to end, or end it and say why."""
    end = time.monotonic() + time_limit_s
    try:
        while process.poll() is None:
            if time.monotonic() > end:
                return f"it was stopped after {time_limit_s:g} s"
            if printed.stat().st_size > MAX_OUTPUT_BYTES:
                return f"it was stopped after {MAX_OUTPUT_BYTES // 2**20} MiB of output"
            try:
                process.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                continue
    finally:
        if process.poll() is None:  # also when we are interrupted
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return None


def _cycles(output: bytes, num_ranks: int) -> tuple[tuple[int, ...], str | None]:
    """The cycles of every rank, or which of them did not say once that it finished."""
    found: dict[int, int] = {}
    for rank, cycles in _FINISHED.findall(output):
        if int(rank) in found:
            return (), f"rank {int(rank)} says twice that it finished"
        found[int(rank)] = int(cycles)
    missing = [rank for rank in range(num_ranks) if rank not in found]
    if missing:
        done = num_ranks - len(missing)
        return (), f"{done} of {num_ranks} ranks finished, rank {missing[0]} did not"
    if len(found) > num_ranks:
        return (), f"rank {max(found)} finished, but there are {num_ranks} ranks"
    return tuple(found[rank] for rank in range(num_ranks)), None
