"""The wire to PyTorch: messages of an inner group, and works that tell what failed."""

from __future__ import annotations

import os
import sys
import threading
from datetime import timedelta
from queue import SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, final

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

if TYPE_CHECKING:
    from collections.abc import Callable

STREAMS = {"cuda": torch.cuda}
"""Devices whose streams wait for what is under way, while the host goes on."""

TAGS = 2**20
_ROUNDED_S = 1e-3
"""Limits are whole milliseconds there."""

BROKEN = 1
"""Exit code of a rank that nobody can tell by an exception."""


@final
class TorchWire:
    """Sends and receives of one call on a group with ``send`` and ``recv``, such as gloo's.

    ``told`` says what is run: ``allreduce (page 64 KiB)``.
    """

    def __init__(self, group: Any, like: Any, told: str, num_steps: int, limit: timedelta) -> None:
        self._group, self._like, self._limit = group, like, limit
        self._told, self._num_steps = told, num_steps

    def room(self, size: int) -> Any:
        """A new buffer."""
        return torch.empty(size, dtype=self._like.dtype, device=self._like.device)

    def send(self, content: Any, peer: int, tag: int) -> Any:
        """Start a send."""
        return _started(self._group.send, content, peer, tag)

    def receive(self, room: Any, peer: int, tag: int) -> Any:
        """Start a receive."""
        return _started(self._group.recv, room, peer, tag)

    def wait(self, started: Any, peer: int, step: int) -> None:
        """Wait; RuntimeError, with the rank, the peer and the step, if it does not come.

        What took as long as it may has not come; what fails earlier cannot come any more.
        """
        begin = monotonic()
        try:
            started.wait(self._limit)
        except RuntimeError as error:
            limit_s = self._limit.total_seconds()
            is_over = monotonic() - begin >= limit_s - _ROUNDED_S
            raise RuntimeError(
                f"rank {self._group.rank()} waits for rank {peer}, step {step + 1} of "
                f"{self._num_steps} of {self._told}: "
                f"{f'nothing came in {limit_s:g} s' if is_over else 'the connection is gone'}"
            ) from error

    def meet(self) -> None:
        """Wait for all ranks of the group; RuntimeError, with the rank, if one does not come."""
        try:
            self._group.barrier().wait()
        except RuntimeError as error:
            raise RuntimeError(
                f"rank {self._group.rank()} waits for all ranks to begin {self._told}: one of them "
                "does not come"
            ) from error


class _FailedStart(NamedTuple):
    """What cannot start since the peer has gone: said like all else where it is waited for."""

    error: RuntimeError

    def wait(self, _limit: timedelta) -> None:
        """Raise why."""
        raise self.error


def _started(start: Callable[[list[Any], int, int], Any], content: Any, peer: int, tag: int) -> Any:
    try:
        return start([content], peer, tag)
    except RuntimeError as error:
        return _FailedStart(error)


@final
class BatchedGroup:
    """A group whose sends and receives begin together, once the first of them is waited for.

    They are one ``batch_isend_irecv``: NCCL would wait for peers one by one, and knows no tags.
    """

    def __init__(self, group: Any) -> None:
        self._group = group
        self._begun: list[Any] = []
        self._batch: list[Any] = []
        # Torch asks for ranks in the whole job of a group that it does not know.
        c10d._world.pg_group_ranks[group] = {rank: rank for rank in range(group.size())}

    def rank(self) -> int:
        """The rank."""
        rank: int = self._group.rank()
        return rank

    def send(self, tensors: list[Any], peer: int, tag: int) -> _Batched:
        """A send of the next batch."""
        return self._added(dist.isend, tensors[0], peer, tag)

    def recv(self, tensors: list[Any], peer: int, tag: int) -> _Batched:
        """A receive of the next batch."""
        return self._added(dist.irecv, tensors[0], peer, tag)

    def _added(self, op: Any, tensor: Any, peer: int, tag: int) -> _Batched:
        self._batch.append(dist.P2POp(op, tensor, group=self._group, tag=tag, group_peer=peer))
        return _Batched(self, len(self._batch) - 1, tensor.device.type in STREAMS)

    def begun(self, place: int) -> Any:
        """What is waited for of the operation at a place of the batch, which begins if it has not.

        That is one work for each of them, or one for all.
        """
        if self._batch:
            batch, self._batch = self._batch, []
            self._begun = dist.batch_isend_irecv(batch)
        return self._begun[place if len(self._begun) > 1 else 0]

    def end(self) -> None:
        """Have torch forget the group."""
        c10d._world.pg_group_ranks.pop(self._group, None)


class _Batched(NamedTuple):
    """An operation of a batch."""

    group: BatchedGroup
    place: int
    on_stream: bool

    def wait(self, limit: timedelta) -> None:
        """Wait: the stream for as long as it takes, as with a limit the host would wait."""
        work = self.group.begun(self.place)
        _ = work.wait() if self.on_stream else work.wait(limit)


@final
class OcsWork(dist.Work):  # type: ignore[misc]
    """A call under way: ``wait`` raises what went wrong.

    A future that fails ends DDP by SIGSEGV: where one was asked for, the sentence is printed and
    the process ends.
    """

    def __init__(self, results: Any) -> None:
        super().__init__()
        self._results = results
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._error: Exception | None = None
        self._future: Any = None
        self._mark: Any = None

    def finish(self, error: Exception | None = None, mark: Any = None) -> None:
        """Say that it is done, or why it never will be; on a stream once that is past a mark."""
        with self._lock:
            self._error, self._mark = error, mark
            if self._future is not None:  # before anybody who waits goes on
                self._tell()
            self._done.set()

    def _tell(self) -> None:
        if self._error is not None:
            sys.stderr.write(f"Error: {self._error}\n")
            sys.stderr.flush()
            os._exit(BROKEN)
        if self._mark is not None:
            self._mark.wait()
        self._future.set_result(self._results)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Wait for the end; RuntimeError if it failed or took longer than a ``timeout`` above 0."""
        seconds = timeout.total_seconds()
        if not self._done.wait(seconds if seconds > 0 else None):
            raise RuntimeError(f"not done after {seconds:g} s")
        if self._error is not None:
            raise self._error
        if self._mark is not None:  # the stream of who waits, which need not be that of the call
            self._mark.wait()
        return True

    def is_completed(self) -> bool:
        """Whether it has ended."""
        return self._done.is_set() and (self._mark is None or self._mark.query())

    def is_success(self) -> bool:
        """Whether it has ended well."""
        return self.is_completed() and self._error is None

    def result(self) -> Any:
        """The tensors with the results."""
        return self._results

    def get_future(self) -> Any:
        """The future of the results."""
        with self._lock:
            if self._future is None:
                devices = {each.device for each in self._results if each.device.type in STREAMS}
                self._future = torch.futures.Future(devices=list(devices) or None)
                if self._done.is_set():
                    self._tell()
            return self._future


@final
class Worker:
    """One thread that does what it is given in turn."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[tuple[OcsWork, Callable[[], None]] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def begin(self, work: OcsWork, job: Callable[[], None]) -> None:
        """Do a job later, and tell its work."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._go, name="ocs-codesign", daemon=True)
            self._thread.start()
        self._jobs.put((work, job))

    def end(self) -> None:
        """Do what is left, and end."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None

    def _go(self) -> None:
        while (given := self._jobs.get()) is not None:
            done(*given)


def done(work: OcsWork, job: Callable[[], None], mark: Callable[[], Any] = lambda: None) -> None:
    """Do a job now, and tell its work; on a stream its mark behind it."""
    try:
        job()
        at_end = mark()
    except Exception as error:  # whatever it is, it is for who waits
        work.finish(error)
    else:
        work.finish(mark=at_end)


def enqueued(work: OcsWork, job: Callable[[], None], device: Any) -> None:
    """Do a job on the current stream of a device, for which the host does not wait."""
    streams = STREAMS[device.type]
    with streams.device(device):
        done(work, job, lambda: streams.current_stream().record_event())
