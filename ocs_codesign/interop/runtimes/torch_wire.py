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

if TYPE_CHECKING:
    from collections.abc import Callable

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

    def finish(self, error: Exception | None = None) -> None:
        """Say that it is done, or why it never will be."""
        with self._lock:
            self._error = error
            if self._future is not None:  # before anybody who waits goes on
                self._tell()
            self._done.set()

    def _tell(self) -> None:
        if self._error is not None:
            sys.stderr.write(f"Error: {self._error}\n")
            sys.stderr.flush()
            os._exit(BROKEN)
        self._future.set_result(self._results)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Wait for the end; RuntimeError if it failed or took longer than a ``timeout`` above 0."""
        seconds = timeout.total_seconds()
        if not self._done.wait(seconds if seconds > 0 else None):
            raise RuntimeError(f"not done after {seconds:g} s")
        if self._error is not None:
            raise self._error
        return True

    def is_completed(self) -> bool:
        """Whether it has ended."""
        return self._done.is_set()

    def is_success(self) -> bool:
        """Whether it has ended well."""
        return self._done.is_set() and self._error is None

    def result(self) -> Any:
        """The tensors with the results."""
        return self._results

    def get_future(self) -> Any:
        """The future of the results."""
        with self._lock:
            if self._future is None:
                self._future = torch.futures.Future()
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


def done(work: OcsWork, job: Callable[[], None]) -> None:
    """Do a job now, and tell its work."""
    try:
        job()
    except Exception as error:  # whatever it is, it is for who waits
        work.finish(error)
    else:
        work.finish()
