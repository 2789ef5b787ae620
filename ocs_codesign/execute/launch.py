"""Launch: mpirun started from here, with programs for its ranks, and stopped whatever happens."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ocs_codesign.execute.share import check_runs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ocs_codesign.execute.job import RunJob
    from ocs_codesign.execute.outcome import RunOutcome

TASK, ANSWER = "task.pickle", "answer.pickle"
"""Files in a directory of ours that only this user can enter."""

MPIRUN = "mpirun"
START_S, START_S_PER_RANK = 60.0, 2.0
"""Time for ranks to start, and to compare what they have."""

_RUNS = 3
"""A program runs on numbers of chunks, on integers and on floats."""

_UNDER_MPIRUN = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK")


class UnavailableError(RuntimeError):
    """MPI is not here; the message says what to install."""


def is_under_mpirun() -> bool:
    """Whether this process is a rank that mpirun has started."""
    return any(name in os.environ for name in _UNDER_MPIRUN)


def check_available(*, launcher: bool = True) -> None:
    """UnavailableError, with what to install, unless there are mpi4py and Open MPI's mpirun."""
    if find_spec("mpi4py") is None:
        raise UnavailableError("mpi4py is missing: pip install 'ocs-codesign[mpi]'")
    if not launcher:
        return
    path = shutil.which(MPIRUN)
    if path is None:
        raise UnavailableError("mpirun is missing: apt-get install openmpi-bin libopenmpi-dev")
    told = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    if "Open MPI" not in told.stdout:
        raise UnavailableError(
            f"{path} is not Open MPI's, with which ranks are started (apt-get install openmpi-bin "
            "libopenmpi-dev): with another MPI start mpirun yourself, as in "
            "mpirun -n 8 ocs-codesign run DESIGN"
        )


def launch(
    jobs: Sequence[RunJob], time_limit_s: float, most_tags: int | None = None
) -> list[RunOutcome]:
    """Run jobs, all of the same number of ranks, as processes of this machine.

    Raises ValueError for a job that cannot be run, UnavailableError where MPI is missing, and
    RuntimeError if the ranks do not end as they should. No rank outlives the call.
    """
    ranks = {job.program.num_ranks for job in jobs}
    if len(ranks) != 1:
        raise ValueError(f"jobs of {sorted(ranks)} ranks: all must be of as many")
    for job in jobs:
        check_runs(job.program, job.elements)
    check_available()
    with tempfile.TemporaryDirectory(prefix="ocs-codesign-") as name:
        directory = Path(name)
        (directory / TASK).write_bytes(pickle.dumps((list(jobs), time_limit_s, most_tags)))
        number = ranks.pop()
        limit_s = START_S + START_S_PER_RANK * number + len(jobs) * (_RUNS * time_limit_s + 1.0)
        told = _started(command(number, directory), limit_s)
        if not (directory / ANSWER).exists():
            raise RuntimeError(told)
        answer = pickle.loads((directory / ANSWER).read_bytes())
    if isinstance(answer, str):
        raise ValueError(answer)
    outcomes: list[RunOutcome] = answer
    return outcomes


def command(ranks: int, directory: Path) -> list[str]:
    """The command that starts the ranks: more than there are cores, which they leave to others."""
    as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return [
        *(MPIRUN, "--oversubscribe", "--mca", "mpi_yield_when_idle", "1", *as_root),
        *("-n", str(ranks), sys.executable, "-m", "ocs_codesign.execute.rank", str(directory)),
    ]


def _environment() -> Mapping[str, str]:
    """One thread a rank: the others have the processors."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def _started(words: list[str], limit_s: float) -> str:
    """Run mpirun to its end; what is to be said if it leaves no answer."""
    with _ended_by_signals():
        return _until_end(words, limit_s)


def _until_end(words: list[str], limit_s: float) -> str:
    process = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=_environment(),
        start_new_session=True,
    )
    try:
        told, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        return f"the ranks had not ended after {limit_s:g} s, and were stopped"
    finally:
        _stop(process)
    return (
        f"mpirun ended with code {process.returncode}: {_reason(told.decode('utf-8', 'replace'))}"
    )


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """SIGTERM raises SystemExit inside, so that the ranks are stopped as well."""

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End mpirun, which ends its ranks, and then whatever is left."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=5)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def _reason(text: str) -> str:
    """The line of what mpirun and the ranks said that says most."""
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and set(line) - set("-*=")]
    errors = [line for line in lines if "Error" in line or "error" in line]
    return (errors or lines or ["it said nothing"])[0][:300]
