"""Ranks of torch.distributed for tests: threads of this process, or processes forked from it."""

from __future__ import annotations

import multiprocessing
import os
import traceback
from datetime import timedelta
from functools import cache
from multiprocessing.connection import wait
from threading import Thread
from typing import TYPE_CHECKING, Any

from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.classic.registry import CLASSIC
from ocs_codesign.schedules.design import build

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@cache
def plans(ranks: int) -> tuple[Any, ...]:
    """A plan of every collective that training calls, roots of broadcasts 0."""
    kinds = ("allgather", "reduce-scatter", "allreduce")
    made = [build(parse(f"Complete({ranks})"), each) for each in kinds]
    return (
        *made,
        CLASSIC["bruck"].messages("alltoall", ranks),
        CLASSIC["binomial"].messages("broadcast", ranks),
    )


def on_threads(ranks: int, work: Callable[[Any], Any]) -> list[Any]:
    """What ``work`` makes of the group of every rank, each a thread."""
    import torch.distributed as dist

    from ocs_codesign.interop.runtimes.torch_group import OcsGroup

    store, results = dist.HashStore(), {}

    def perform(rank: int) -> None:
        group = OcsGroup(store, rank, ranks, timedelta(seconds=60))
        try:
            results[rank] = work(group)
        finally:
            group.shutdown()

    threads = [Thread(target=perform, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    return [results[rank] for rank in range(ranks)]


def on_processes(
    ranks: int,
    directory: Path,
    work: Callable[[int, int], Any],
    backend: str = "ocs",
    limit: int = 60,
) -> list[Any]:
    """What ``work`` makes of rank and ranks, or the text of what it raises, or an exit code."""
    import torch  # once, before they part

    torch.set_num_threads(1)
    forking, ends = multiprocessing.get_context("fork"), []
    for rank in range(ranks):
        here, there = forking.Pipe(False)
        arguments = (rank, ranks, str(directory / f"store-{backend}"), work, backend, limit, there)
        ends.append((forking.Process(target=_rank, args=arguments), here))
    for process, _ in ends:
        process.start()
    for process, end in ends:
        wait([process.sentinel, end], 90)
    told = [_received(end) for _, end in ends]
    for process, _ in ends:
        process.join(10)
        process.kill()
    return [
        process.exitcode if each is None else each
        for each, (process, _) in zip(told, ends, strict=True)
    ]


def _received(end: Any) -> Any:
    """What a rank has said, None if it ended without a word."""
    try:
        return end.recv() if end.poll() else None
    except EOFError:
        return None


def _rank(rank: int, ranks: int, path: str, work: Any, backend: str, limit: int, end: Any) -> None:
    import torch.distributed as dist

    from ocs_codesign.interop.runtimes import torch_group

    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    try:
        torch_group.register()
        if not torch_group._SHELVES:
            torch_group.use(*plans(ranks))
        dist.init_process_group(
            backend,
            store=dist.FileStore(path, ranks),
            rank=rank,
            world_size=ranks,
            timeout=timedelta(seconds=limit),
        )
        end.send(work(rank, ranks))
    except Exception as error:
        end.send(f"{type(error).__name__}: {error} {traceback.format_exc()[-1500:]}")
    os._exit(0)
