"""Ranks of PyTorch over gloo: processes forked from this one, or those of torchrun.

What they do is a ``work`` by its name; what rank 0 makes of it is the answer.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import sys
from datetime import timedelta
from multiprocessing.connection import wait
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist

from ocs_codesign.interop.run.launch import TASK, leave
from ocs_codesign.interop.run.measuring import Probes, probe
from ocs_codesign.interop.run.performance import DTYPES, drawn
from ocs_codesign.interop.runtimes.moves import execute, moves_of, packed, put
from ocs_codesign.interop.runtimes.running import RankData, outcome_of
from ocs_codesign.interop.runtimes.torch_wire import TAGS, TorchWire

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ocs_codesign.interop.run.performance import RunOutcome
    from ocs_codesign.interop.runtimes.running import MessagesJob


class JoinedRank(NamedTuple):
    """Where a rank meets the others, which it is of how many, and for how long it waits."""

    store: Any
    rank: int
    size: int
    limit: timedelta

    def gloo(self, name: str) -> Any:
        """A group of gloo of all ranks, of its own by its name."""
        return dist.ProcessGroupGloo(
            dist.PrefixStore(name, self.store), self.rank, self.size, self.limit
        )

    def gathered(self, name: str, own: object) -> list[Any]:
        """What every rank gives under a name."""
        self.store.set(f"{name}/{self.rank}", pickle.dumps(own))
        keys = [f"{name}/{each}" for each in range(self.size)]
        self.store.wait(keys, self.limit)
        return [pickle.loads(self.store.get(key)) for key in keys]

    def part(self) -> None:
        """Wait until no rank needs another: one that ends earlier breaks what is on its way."""
        self.store.set(f"parted/{self.rank}", "1")
        self.store.wait([f"parted/{each}" for each in range(self.size)], self.limit)


def library() -> str:
    """What runs here."""
    return f"PyTorch {torch.__version__.partition('+')[0]}, gloo"


class GlooPings:
    """Ranks of a group of gloo."""

    protocol = "gloo"

    def __init__(self, group: Any) -> None:
        self._group, self.rank, self.size = group, group.rank(), group.size()
        self.library = library()

    def room(self, num_bytes: int) -> Any:
        """A buffer."""
        return torch.zeros(num_bytes, dtype=torch.uint8)

    def start(self, data: Any, peer: int) -> Any:
        """Begin to send."""
        return self._group.send([data], peer, 0)

    def send(self, data: Any, peer: int) -> None:
        """Send."""
        self._group.send([data], peer, 0).wait()

    def receive(self, data: Any, peer: int) -> None:
        """Receive."""
        self._group.recv([data], peer, 0).wait()

    def meet(self) -> None:
        """Wait for all ranks."""
        self._group.barrier().wait()

    def largest(self, values: NDArray[Any]) -> NDArray[Any]:
        """Of every value the largest of all ranks."""
        options, whole = dist.AllreduceOptions(), torch.from_numpy(values.copy())
        options.reduceOp = dist.ReduceOp.MAX
        self._group.allreduce([whole], options).wait()
        found: NDArray[Any] = whole.numpy()
        return found


def _probed(ranks: JoinedRank, _: None) -> Probes:
    return probe(GlooPings(ranks.gloo("measure")))


def _ran(ranks: JoinedRank, task: tuple[MessagesJob, float]) -> RunOutcome:
    """A job that has so many seconds for every kind of data, on all ranks."""
    job, limit_s = task
    mine, group = RankData.of(job, ranks.rank), ranks.gloo("run")
    moves = moves_of(job.program, ranks.rank, mine.sizes)
    got, wall_s = [], []
    for turn, name in enumerate(DTYPES):
        _, rest = drawn(job.seed, ranks.rank, 0, name)
        buffer = torch.from_numpy(np.resize(rest, moves.size))
        put(buffer, moves.given, torch.from_numpy(mine.given(name)))
        wire = TorchWire(group, buffer, job.name, moves.num_steps, timedelta(seconds=limit_s))
        wire.meet()
        begin = perf_counter()
        execute(moves, buffer, wire, torch.Tensor.add_, turn * moves.num_steps, TAGS)
        wall_s.append(perf_counter() - begin)
        total = sum(hi - lo for lo, hi in moves.wanted)
        got.append(packed(buffer, moves.wanted, total, wire).numpy())
    results = ranks.gathered("result", mine.result(got, wall_s))
    return outcome_of(job, results, library(), "torch")


WORKS: dict[str, Callable[[JoinedRank, Any], Any]] = {"measure": _probed, "run": _ran}


def joined(work: str, limit_s: float, make: Callable[[int], object]) -> tuple[int, Any]:
    """This rank of torchrun's, and what it makes of the task that rank 0 makes."""
    limit = timedelta(seconds=limit_s)
    store, rank, size = next(dist.rendezvous("env://", timeout=limit))
    ranks = JoinedRank(dist.PrefixStore("ocs-codesign", store), rank, size, limit)
    told: tuple[object, ...] = ()
    try:
        if not rank:
            told = (make(size),)
    finally:
        if not rank:  # whatever is wrong, the others wait to be told
            ranks.store.set("task", pickle.dumps(told))
    ranks.store.wait(["task"], limit)
    told = pickle.loads(ranks.store.get("task"))
    if not told:
        return rank, None
    answer = WORKS[work](ranks, *told)
    ranks.part()
    return rank, answer


def main(directory: Path) -> int:
    """Fork the ranks of a task; the exit code of the first that fails, which ends them all."""
    ranks, work, limit_s, task = pickle.loads((directory / TASK).read_bytes())
    torch.set_num_threads(1)
    forking = multiprocessing.get_context("fork")
    processes = []
    for rank in range(ranks):
        store = dist.FileStore(str(directory / "store"), ranks)
        own = JoinedRank(store, rank, ranks, timedelta(seconds=limit_s))
        given = (own, work, task, directory)
        processes.append(forking.Process(target=_rank, args=given, daemon=True))
    for process in processes:
        process.start()
    left: dict[Any, Any] = {process.sentinel: process for process in processes}
    while left:
        for sentinel in wait(list(left)):
            process = left.pop(sentinel)
            process.join()
            if process.exitcode:
                sys.stderr.write(f"Error: a rank ended with code {process.exitcode}\n")
                return 1
    return 0


def _rank(ranks: JoinedRank, work: str, task: Any, directory: Path) -> None:
    """One rank; rank 0 leaves the answer, or why a work cannot be done."""
    code = 0
    try:
        try:
            answer = WORKS[work](ranks, task)
        except ValueError as error:
            answer = str(error)
        if ranks.rank == 0:
            leave(answer, directory)
        ranks.part()
    except Exception as error:
        told = " ".join(str(error).split())
        who = "" if told.startswith("rank ") else f"rank {ranks.rank}: {type(error).__name__}: "
        sys.stderr.write(f"Error: {who}{told}\n")
        sys.stderr.flush()
        code = 1
    os._exit(code)  # groups that are taken down one by one wait for each other


if __name__ == "__main__":
    # Not the functions of __main__, whose answers nobody else could read.
    from ocs_codesign.interop.runtimes import torch_ranks

    sys.exit(torch_ranks.main(Path(sys.argv[1])))
