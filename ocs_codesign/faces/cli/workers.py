"""Where long work runs: processes on this machine, or the workers of a Dask scheduler."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from ocs_codesign.faces.cli.commands import option
from ocs_codesign.faces.cli.interruption import interruptions
from ocs_codesign.faces.cli.progress import progress

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor


workers_option = option(
    "--workers", type=click.IntRange(1), help="Local processes; all cores by default."
)
dask_option = option("--dask", metavar="ADDRESS", help="A Dask scheduler to work on instead.")


@contextmanager
def long_work(
    phase: str, kept: str, workers: int | None, scheduler: str | None
) -> Iterator[tuple[Executor, int]]:
    """Where tasks of work that takes long run, and how many at once.

    A Ctrl-C ends the command with exit code 130 and says that what is ``kept`` is.
    """
    try:
        with (
            interruptions(),
            progress(phase),
            executor_of(workers, scheduler) as (executor, number),
        ):
            yield executor, number
    except KeyboardInterrupt:
        click.echo(f"Interrupted: {kept}.", err=True)
        raise click.exceptions.Exit(130) from None


@contextmanager
def executor_of(workers: int | None, scheduler: str | None) -> Iterator[tuple[Executor, int]]:
    """Where tasks run, and how many at once: local processes, or a Dask scheduler's workers."""
    if scheduler is not None:
        with _dask(scheduler) as found:
            yield found
        return
    import multiprocessing
    import os
    from concurrent.futures import ProcessPoolExecutor

    number = workers or os.cpu_count() or 1
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
    import os
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
