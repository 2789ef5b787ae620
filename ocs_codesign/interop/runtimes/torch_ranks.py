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
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.distributed as dist

from ocs_codesign.interop.run.launch import TASK, leave
from ocs_codesign.interop.run.measuring import Probes, probe

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


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

    def part(self) -> None:
        """Wait until no rank needs another: one that ends earlier breaks what is on its way."""
        self.store.set(f"parted/{self.rank}", "1")
        self.store.wait([f"parted/{each}" for each in range(self.size)], self.limit)


class GlooPings:
    """Ranks of a group of gloo."""

    protocol = "gloo"

    def __init__(self, group: Any) -> None:
        self._group, self.rank, self.size = group, group.rank(), group.size()
        self.library = f"PyTorch {torch.__version__.partition('+')[0]}, gloo"

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


def _probed(ranks: JoinedRank) -> Probes:
    return probe(GlooPings(ranks.gloo("measure")))


WORKS: dict[str, Callable[[JoinedRank], Any]] = {"measure": _probed}


def joined(work: str, limit_s: float) -> Any:
    """The answer of rank 0 of torchrun's processes, None on the others."""
    limit = timedelta(seconds=limit_s)
    store, rank, size = next(dist.rendezvous("env://", timeout=limit))
    ranks = JoinedRank(dist.PrefixStore("ocs-codesign", store), rank, size, limit)
    answer = WORKS[work](ranks)
    ranks.part()
    return None if rank else answer


def main(directory: Path) -> int:
    """Fork the ranks of a task; the exit code of the first that fails, which ends them all."""
    ranks, work, limit_s = pickle.loads((directory / TASK).read_bytes())
    torch.set_num_threads(1)
    forking = multiprocessing.get_context("fork")
    processes = []
    for rank in range(ranks):
        store = dist.FileStore(str(directory / "store"), ranks)
        own = JoinedRank(store, rank, ranks, timedelta(seconds=limit_s))
        processes.append(forking.Process(target=_rank, args=(own, work, directory)))
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


def _rank(ranks: JoinedRank, work: str, directory: Path) -> None:
    """One rank; rank 0 leaves the answer, or why a work cannot be done."""
    code = 0
    try:
        try:
            answer = WORKS[work](ranks)
        except ValueError as error:
            answer = str(error)
        if ranks.rank == 0:
            leave(answer, directory)
        ranks.part()
    except Exception as error:
        told = " ".join(str(error).split())
        sys.stderr.write(f"Error: rank {ranks.rank}: {type(error).__name__}: {told}\n")
        sys.stderr.flush()
        code = 1
    os._exit(code)  # groups that are taken down one by one wait for each other


if __name__ == "__main__":
    # Not the functions of __main__, whose answers nobody else could read.
    from ocs_codesign.interop.runtimes import torch_ranks

    sys.exit(torch_ranks.main(Path(sys.argv[1])))
