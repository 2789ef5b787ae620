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
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.plans import KINDS, NOP, RECEIVE, RECEIVE_ADD, SEND
from ocs_codesign.interop.run.engine import (
    LEAST_TAG_UB,
    MAX_ELEMENTS,
    Place,
    chunk_elements,
    input_and_output,
)
from ocs_codesign.interop.run.performance import (
    CALLS,
    Performance,
    Reference,
    RunOutcome,
    reference_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from ocs_codesign.core.circuits import CircuitProgram
    from ocs_codesign.core.plans import RankProgram


# RunJob: a program to be run on real processes, and where they meet.


@final
@dataclass(frozen=True, slots=True, eq=False)
class RunJob:
    """A program to be run, on ``elements`` elements of M drawn with ``seed``.

    All ranks meet before every step of ``barriers``, as they do where circuits change.
    """

    name: str
    program: RankProgram
    elements: int
    barriers: tuple[int, ...] = ()
    seed: int = 0


def steps_of_changes(circuits: CircuitProgram) -> tuple[int, ...]:
    """The steps before which circuits come up, or go down while others stay."""
    last = int(circuits.last_step.max())
    steps = np.unique(np.concatenate([circuits.first_step, circuits.last_step + 1]))
    return tuple(steps[(steps > 1) & (steps <= last)].tolist())


# Joined: a run on ranks that somebody else has started with mpirun, of which this is one.


EQUAL, DIFFERENT, REFUSED, BROKEN = range(4)
"""Exit codes of ranks; the first three are those of the command."""


def run_joined(
    make: Callable[[], RunJob], time_limit_s: float, show: Callable[[RunOutcome], None]
) -> int:
    """Run the job that rank 0 makes on all ranks; rank 0 shows the outcome, all get the exit code.

    What is wrong with a job is raised on rank 0 alone. Ranks that are stuck are aborted.
    """
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    jobs: list[RunJob] = []
    wrong: Exception | None = None
    if world.rank == 0:
        try:
            jobs = [make()]
        except Exception as error:  # whatever it is, the other ranks wait to be told
            wrong = error
    if world.bcast(wrong is not None):
        if wrong is not None:
            raise wrong
        return REFUSED
    try:
        outcomes = run_or_abort(world, jobs, time_limit_s)
    except ValueError:
        if world.rank == 0:
            raise
        return REFUSED
    for outcome in outcomes:
        show(outcome)
    code = EQUAL if all(each.ok for each in outcomes) else DIFFERENT
    code, stuck = world.bcast((code, any(each.under_way for each in outcomes)))
    if stuck:
        world.Abort(code)
    return int(code)


def run_or_abort(
    world: Any, jobs: Sequence[RunJob], time_limit_s: float, most_tags: int | None = None
) -> list[RunOutcome]:
    """``session.run_jobs``; a rank on which anything but ValueError is raised ends them all."""
    try:
        return run_jobs(world, jobs, time_limit_s, most_tags)
    except ValueError:
        raise
    except Exception as error:
        told = " ".join(str(error).split()) or "nothing more"
        sys.stderr.write(f"Error: rank {world.rank}: {type(error).__name__}: {told}\n")
        sys.stderr.flush()
        world.Abort(BROKEN)
        raise


# Share: what one rank must know to do its part of a program, and nothing of the others' parts.


_COLUMNS = (
    "kind",
    "peer",
    "channel",
    "source_buffer",
    "source",
    "target_buffer",
    "target",
    "count",
)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Share:
    """The operations of one rank, with what they wait for, and its buffers.

    Columns are those of the program, int64, for the rank's own operations, whose numbers in the
    program begin at ``first``. Operation o waits for ``num_waits[o]`` others, and those of
    ``after[after_start[o] : after_start[o + 1]]`` wait for it. ``epoch`` counts the barriers that
    come before an operation. ``number`` counts sends and receives within their pair of source and
    target, one channel after the other, so that both ends number a transfer alike. ``sizes`` are
    the elements of every chunk of the demand. All of it is plain arrays, to be sent to the rank.
    """

    rank: int
    first: int
    columns: dict[str, NDArray[np.int64]]
    step: NDArray[np.int64]
    num_waits: NDArray[np.int64]
    after_start: NDArray[np.int64]
    after: NDArray[np.int64]
    epoch: NDArray[np.int64]
    num_epochs: int
    number: NDArray[np.int64]
    slots: tuple[int, int, int]
    given: Place
    wanted: Place
    sizes: NDArray[np.int64]
    reference: Reference

    @property
    def num_operations(self) -> int:
        """Number of operations of the rank."""
        return len(self.step)

    def is_kind(self, *kinds: int) -> NDArray[np.bool_]:
        """Which operations are of these kinds."""
        return np.isin(self.columns["kind"], kinds)

    def transfers(self, kind: int) -> dict[int, dict[int, list[int]]]:
        """Of every peer and channel the chunks of each message, in order, that ``kind`` moves."""
        found: dict[int, dict[int, list[int]]] = {}
        kinds = (SEND,) if kind == SEND else (RECEIVE, RECEIVE_ADD)
        rows = np.flatnonzero(self.is_kind(*kinds))
        names = ("peer", "channel", "count")
        for peer, channel, count in zip(
            *(self.columns[n][rows].tolist() for n in names), strict=True
        ):
            found.setdefault(peer, {}).setdefault(channel, []).append(count)
        return found


def check_runs(program: RankProgram, elements: int) -> None:
    """ValueError for what cannot be run, or is outside of its buffer, or so many elements of M."""
    if not 0 <= elements <= MAX_ELEMENTS:
        raise ValueError(f"{elements} elements: from 0 to {MAX_ELEMENTS} can be run")
    one_sided = np.flatnonzero(program.kind > NOP)
    if len(one_sided):
        kind = KINDS[program.kind[one_sided[0]]]
        raise ValueError(
            f"operation {one_sided[0]} is a {kind}: MPI runs programs of sends and receives, "
            "not of one-sided operations"
        )
    sizes = np.stack(program.buffer_sizes())
    for end in ("source", "target"):
        used = np.isin(program.kind, _USES[end])
        last = getattr(program, end).astype(np.int64) + program.count
        buffer = getattr(program, f"{end}_buffer")
        outside = np.flatnonzero(used & (last > sizes[buffer, program.rank]))
        if len(outside):
            row = int(outside[0])
            raise ValueError(
                f"operation {row}: its {end} ends at chunk {last[row]} of a buffer of "
                f"{sizes[buffer[row], program.rank[row]]}"
            )


_USES = {
    "source": [KINDS.index(kind) for kind in ("send", "copy", "add")],
    "target": [KINDS.index(kind) for kind in ("receive", "receive-add", "copy", "add")],
}


def shares_of(program: RankProgram, elements: int, barriers: ArrayLike = ()) -> Iterator[Share]:
    """The shares of all ranks, when M has so many elements and all ranks meet at barriers.

    ``barriers`` are steps before which they meet. Raises ValueError as ``check_runs`` does.
    """
    check_runs(program, elements)
    stops = np.unique(np.asarray(barriers, dtype=np.int64))
    sizes = chunk_elements(program, elements)
    buffers = np.stack(program.buffer_sizes())
    for rank in range(program.num_ranks):
        rows = program.operations_of(rank)
        columns = {name: getattr(program, name)[rows].astype(np.int64) for name in _COLUMNS}
        step = program.step[rows].astype(np.int64)
        before, after = _edges(program, rows)
        num_waits = np.bincount(after, minlength=len(step))
        order = np.argsort(before, kind="stable")
        after_start = np.searchsorted(before[order], np.arange(len(step) + 1))
        given, wanted = input_and_output(program, rank)
        input_slots, output_slots, scratch = buffers[:, rank].tolist()
        yield Share(
            rank,
            int(rows.start),
            columns,
            step,
            num_waits,
            after_start,
            after[order],
            _epochs(np.searchsorted(stops, step, side="right"), before, after),
            len(stops) + 1,
            _numbers(columns),
            (input_slots, output_slots, scratch),
            given,
            wanted,
            sizes,
            reference_of(program, rank, sizes, given, wanted),
        )


def _edges(program: RankProgram, rows: slice) -> tuple[NDArray[Any], NDArray[Any]]:
    """What comes before what among the operations of a rank: streams and needs."""
    stream = program.stream[rows]
    order = np.argsort(stream, kind="stable")
    same = stream[order][1:] == stream[order][:-1]
    start = program.need_start[rows.start : rows.stop + 1]
    need = program.need[start[0] : start[-1]] - rows.start
    waiting = np.repeat(np.arange(len(stream)), np.diff(start))
    before = np.concatenate([order[:-1][same], need])
    return before, np.concatenate([order[1:][same], waiting])


def _epochs(own: NDArray[Any], before: NDArray[Any], after: NDArray[Any]) -> NDArray[np.int64]:
    """Epochs of operations: their own, but none earlier than what they wait for."""
    epoch = own.astype(np.int64).tolist()
    order = np.argsort(after, kind="stable")
    # What waits has a higher number than what it waits for, so one pass in order is enough.
    for first, then in zip(before[order].tolist(), after[order].tolist(), strict=True):
        epoch[then] = max(epoch[then], epoch[first])
    return np.array(epoch, dtype=np.int64)


def _numbers(columns: dict[str, NDArray[np.int64]]) -> NDArray[np.int64]:
    """The number of every transfer within its pair of ranks, -1 of other operations."""
    number = np.full(len(columns["kind"]), -1, dtype=np.int64)
    for kinds in ((SEND,), (RECEIVE, RECEIVE_ADD)):
        rows = np.flatnonzero(np.isin(columns["kind"], kinds))
        peer = columns["peer"][rows]
        order = np.lexsort((columns["channel"][rows], peer))
        sorted_peer = peer[order]
        number[rows[order]] = np.arange(len(rows)) - np.searchsorted(sorted_peer, sorted_peer)
    return number


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
        raise UnavailableError("mpi4py is missing: pip install mpi4py")
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
    number = ranks.pop()
    limit_s = START_S + START_S_PER_RANK * number + len(jobs) * (_RUNS * time_limit_s + 1.0)
    task = (list(jobs), time_limit_s, most_tags)
    outcomes: list[RunOutcome] = answer_of(lambda place: command(number, place), task, limit_s)
    return outcomes


def answer_of(
    words: Callable[[Path], list[str]],
    task: object,
    limit_s: float,
    environment: Mapping[str, str] | None = None,
) -> Any:
    """What a command answers that finds its task in a directory of ours, as ``leave`` leaves it.

    A text is why there is no answer, and raised as ValueError; RuntimeError if none was left. It
    runs to its end or to the limit, and none of the processes that it started outlives the call.
    """
    with tempfile.TemporaryDirectory(prefix="ocs-codesign-") as name:
        directory = Path(name)
        (directory / TASK).write_bytes(pickle.dumps(task))
        with _ended_by_signals():
            told = _until_end(words(directory), limit_s, environment or {})
        if not (directory / ANSWER).exists():
            raise RuntimeError(told)
        answer = pickle.loads((directory / ANSWER).read_bytes())
    if isinstance(answer, str):
        raise ValueError(answer)
    return answer


def leave(answer: object, directory: Path) -> None:
    """Write an answer whole or not at all."""
    part = directory / f"{ANSWER}.part"
    part.write_bytes(pickle.dumps(answer))
    part.rename(directory / ANSWER)


def command(
    ranks: int, directory: Path, module: str = "ocs_codesign.interop.run.rank"
) -> list[str]:
    """The command that starts the ranks: more than there are cores, which they leave to others."""
    as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return [
        *(MPIRUN, "--oversubscribe", "--mca", "mpi_yield_when_idle", "1", *as_root),
        *("-n", str(ranks), sys.executable, "-m", module, str(directory)),
    ]


def _until_end(words: list[str], limit_s: float, more: Mapping[str, str]) -> str:
    """Run a command to its end; what is to be said if it leaves no answer."""
    # One thread a rank: the others have the processors.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **more}
    process = None
    try:
        with _signals_later():
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        told, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        return f"the ranks had not ended after {limit_s:g} s, and were stopped"
    finally:
        if process is not None:
            _stop(process)
    who = MPIRUN if words[0] == MPIRUN else "their process"
    reason = _reason(told.decode("utf-8", "replace"))
    return f"{who} ended with code {process.returncode}: {reason}"


@contextmanager
def _signals_later() -> Iterator[None]:
    """Hold signals back until ranks that start are known, or nobody would stop them."""
    came: list[int] = []
    usual = {}
    if threading.current_thread() is threading.main_thread():
        for each in (signal.SIGINT, signal.SIGTERM):
            usual[each] = signal.signal(each, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for each, handler in usual.items():
            signal.signal(each, handler)
        for number in came:
            signal.raise_signal(number)


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
    """End a command, which ends its ranks, and then whatever is left."""
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
    """The line of what a command and the ranks said that says most."""
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and set(line) - set("-*=")]
    errors = [line for line in lines if "Error" in line or "error" in line]
    return (errors or lines or ["it said nothing"])[0][:300]


# Session: programs that the ranks of a communicator run together, one after the other.
#
# Rank 0 has the programs and gives every rank its share; it gets their results.


def run_jobs(
    world: Any, jobs: Sequence[RunJob], time_limit_s: float, most_tags: int | None = None
) -> list[RunOutcome]:
    """Run jobs on all ranks of an MPI communicator; rank 0 has ``jobs`` and gets the outcomes.

    A program that does not end in the time limit, each time that it runs, is the last one: messages
    are left under way, and MPI must be aborted. ``most_tags`` are the tags to use, all that MPI has
    by default. Raises ValueError, on all ranks, for a job of another number of ranks, or
    one that cannot be run.
    """
    from mpi4py import MPI

    num_tags = 1 + (world.Get_attr(MPI.TAG_UB) or LEAST_TAG_UB)
    num_tags = num_tags if most_tags is None else min(most_tags, num_tags)
    library = MPI.Get_library_version().partition(",")[0].strip("\0 \n")
    outcomes: list[RunOutcome] = []
    for at in range(world.bcast(len(jobs))):
        job = jobs[at] if world.rank == 0 else None
        share, seed = _share(world, job)
        even = world.allreduce(share.reference.is_even, MPI.LAND)
        call, *names = CALLS[share.reference.collective]
        own = Performance(world, share, seed, call, even, time_limit_s, num_tags).result()
        results = world.gather(own)
        if job is not None:
            empty = int((share.sizes == 0).sum())
            outcomes.append(
                RunOutcome(
                    job, names[0 if even else 1], library, len(share.sizes), empty, tuple(results)
                )
            )
        if world.bcast(bool(outcomes) and outcomes[-1].under_way):
            break
    return outcomes


def _share(world: Any, job: RunJob | None) -> tuple[Share, int]:
    """This rank's share of the job that rank 0 has, and the seed of its data."""
    shares, refusal = None, None
    if job is not None:
        try:
            if job.program.num_ranks != world.size:
                raise ValueError(
                    f"{job.name} is for {job.program.num_ranks} ranks, but MPI has {world.size}"
                )
            shares = list(shares_of(job.program, job.elements, job.barriers))
        except ValueError as error:
            refusal = str(error)
    refusal, seed = world.bcast((refusal, None if job is None else job.seed))
    if refusal is not None:
        raise ValueError(refusal)
    return world.scatter(shares), seed
