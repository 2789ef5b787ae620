"""Where long work runs: processes on this machine, or the workers of a Dask scheduler."""

from __future__ import annotations

import os
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ocs_codesign.faces.cli.commands import OptionGroup, option
from ocs_codesign.faces.cli.interruption import interruptions
from ocs_codesign.faces.cli.progress import progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Result = TypeVar("Result")


class WorkerOptions(OptionGroup):
    """Local processes, or the workers of a scheduler."""

    workers: int | None = option(
        "--workers", type=click.IntRange(1, 4096), help="Local processes; all cores by default."
    )
    dask: str | None = option(
        "--dask", metavar="ADDRESS", help="A Dask scheduler to work on instead."
    )


def num_cores() -> int:
    """How many workers there are if nobody says."""
    return os.cpu_count() or 1


class Here(Executor):
    """Work done where it is submitted, which spares one worker the start of a process."""

    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Future[Result]:
        """The work when it has been done."""
        future: Future[Result] = Future()
        try:
            with interruptions():  # a Ctrl-C in a kernel is no failure that is tried again
                future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


@contextmanager
def long_work(phase: str, kept: str, where: WorkerOptions) -> Iterator[tuple[Executor, int]]:
    """Where tasks of work that takes long run, and how many at once.

    A Ctrl-C ends the command with exit code 130 and says that what is ``kept`` is.
    """
    try:
        with interruptions(), progress(phase), executor_of(where) as work:
            yield work
    except KeyboardInterrupt:
        click.echo(f"Interrupted: {kept}.", err=True)
        raise click.exceptions.Exit(130) from None


@contextmanager
def executor_of(where: WorkerOptions) -> Iterator[tuple[Executor, int]]:
    """Where tasks run, and how many at once: local processes, or a Dask scheduler's workers."""
    if where.dask is not None:
        with _dask(where.dask) as found:
            yield found
        return
    number = where.workers or num_cores()
    if number == 1:
        yield Here(), 1
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    context = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(number, mp_context=context, initializer=_end_with_parent)
    try:
        yield executor, number
    finally:
        executor.shutdown(cancel_futures=True)


def _end_with_parent() -> None:
    """Let this process end when the one that started it does, even if that is killed.

    A worker holds both ends of the queue of work, so that it would wait, or work on, for ever.
    """
    from multiprocessing import parent_process
    from multiprocessing.connection import wait
    from threading import Thread

    parent = parent_process()

    def watch() -> None:
        if parent is not None:
            wait([parent.sentinel])
            os._exit(1)

    Thread(target=watch, daemon=True).start()


@contextmanager
def _dask(address: str) -> Iterator[tuple[Executor, int]]:
    try:
        from distributed import Client, KilledWorker
    except ImportError:
        raise ValueError(
            "work on a cluster needs the extra dask: pip install distributed"
        ) from None
    with Client(address, timeout="10s") as client:
        try:
            client.wait_for_workers(1, timeout="5s")
        except TimeoutError:
            raise ValueError(
                f"the Dask scheduler at {address} has no workers: 'dask worker {address}' starts "
                "one"
            ) from None
        # Whoever was there a moment ago may be lost: what is asked for waits for the next worker.
        number = max(1, sum(client.nthreads().values()))
        with client.get_executor() as executor:
            try:
                yield executor, number
            except KilledWorker:
                raise ValueError(
                    f"workers of {address} ended one after another over the same task: they may "
                    "have too little memory"
                ) from None
