"""Benchmark: collectives by schedules against the library's own, in turns of one run, as ratios.

PyTorch: processes of this machine, gloo's collectives and those of the group "ocs" over it, inline
and by its thread. JAX: virtual devices of one process, ``jax.lax`` and ours, both compiled before.
A ratio is the median over turns of ours through theirs, one behind the other; so it says something
on a machine that others use as well. Times are those of one machine, not of a network.

    python experiments/benchmark_runtimes.py [--quick]

writes figures/benchmark_runtimes.csv; needs the extras torch and jax.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from timing import tell

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

import numpy as np

from ocs_codesign import build, parse

FIELDS = ("runtime", "collective", "ranks", "message_bytes", "library_ms", "ratio", "ratio_thread")
"""ratio_thread is that of calls that are handed to the group's thread and then waited for."""

RANKS, DEVICES = 4, 8
COLLECTIVES = ("allreduce", "allgather", "reduce-scatter")
WARM = 3


def in_turns(
    ways: list[Callable[[], object]], turns: int, meet: Callable[[], object]
) -> np.ndarray[Any, Any]:
    """Seconds of every way, all in turn: (turns, ways)."""
    seconds = np.zeros((turns, len(ways)))
    for turn in range(-WARM, turns):
        for at, way in enumerate(ways):
            meet()
            begin = time.perf_counter()
            way()
            seconds[max(turn, 0), at] = time.perf_counter() - begin
    return seconds


def row_of(runtime: str, name: str, ranks: int, size: int, seconds: Any) -> dict[str, object]:
    """The medians: of the library its time, of each other way the ratio to it in the same turn."""
    ratios = np.median(seconds[:, 1:] / seconds[:, :1], axis=0)
    row = {"runtime": runtime, "collective": name, "ranks": ranks, "message_bytes": size}
    row |= {"library_ms": float(np.median(seconds[:, 0])) * 1e3, "ratio": float(ratios[0])}
    return row | ({"ratio_thread": float(ratios[1])} if len(ratios) > 1 else {})


def torch_calls(name: str, size: int) -> Callable[..., Any]:
    """A call of a group, for M of so many bytes."""
    import torch
    import torch.distributed as dist

    whole, part = torch.ones(size // 4), torch.ones(size // 4 // RANKS)
    if name == "allreduce":
        return partial(dist.all_reduce, whole)
    if name == "allgather":
        return partial(dist.all_gather_single, whole, part)
    return partial(dist.reduce_scatter_single, part, whole)


def waited(call: Callable[..., Any], group: object) -> None:
    """A call that does not wait, and its wait."""
    call(group=group, async_op=True).wait()


def rank_of(rank: int, store: str, sizes: list[int], turns: int, told: Any) -> None:
    """A process of PyTorch; rank 0 tells its rows."""
    import torch.distributed as dist

    import ocs_codesign.torch

    ocs_codesign.torch.use(*(build(parse(f"Complete({RANKS})"), name) for name in COLLECTIVES))
    dist.init_process_group("gloo", store=dist.FileStore(store, RANKS), rank=rank, world_size=RANKS)
    ours = dist.new_group(backend="ocs")
    for name in COLLECTIVES:
        for size in sizes:
            call = torch_calls(name, size)
            ways: list[Callable[[], object]] = [
                call,
                partial(call, group=ours),
                partial(waited, call, ours),
            ]
            seconds = in_turns(ways, turns, dist.barrier)
            if rank == 0:
                told.send(row_of("torch", name, RANKS, size, seconds))
    if set(ocs_codesign.torch.counts()) != {(name, "schedule") for name in COLLECTIVES}:
        raise RuntimeError(ocs_codesign.torch.report())
    dist.barrier()
    told.close()
    os._exit(0)


def on_torch(sizes: list[int], turns: int) -> Iterator[dict[str, object]]:
    """Processes forked from this one."""
    import torch

    torch.set_num_threads(1)
    forking = multiprocessing.get_context("fork")
    here, there = forking.Pipe(False)
    with TemporaryDirectory() as directory:
        given = (str(Path(directory) / "store"), sizes, turns, there)
        ranks = [
            forking.Process(target=rank_of, args=(rank, *given), daemon=True)
            for rank in range(RANKS)
        ]
        for process in ranks:
            process.start()
        there.close()
        for _ in range(len(COLLECTIVES) * len(sizes)):
            yield here.recv()
        for process in ranks:
            process.join()


def until_ready(compiled: Callable[[Any], Any], rows: object) -> None:
    """A call of what is compiled, until its result is there."""
    import jax

    jax.block_until_ready(compiled(rows))


def on_jax(sizes: list[int], turns: int) -> Iterator[dict[str, object]]:
    """Virtual devices of this process."""
    import jax

    import ocs_codesign.jax

    plans = ocs_codesign.jax.collective(
        *(build(parse(f"Complete({DEVICES})"), name) for name in COLLECTIVES)
    )
    where, spec = ocs_codesign.jax.mesh(DEVICES), jax.sharding.PartitionSpec("x")
    pairs: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
        "allreduce": (partial(jax.lax.psum, axis_name="x"), plans.psum),
        "allgather": (partial(jax.lax.all_gather, axis_name="x", tiled=True), plans.all_gather),
        "reduce-scatter": (
            partial(jax.lax.psum_scatter, axis_name="x", tiled=True),
            plans.psum_scatter,
        ),
    }
    for name, (theirs, ours) in pairs.items():
        for size in sizes:
            length = size // 4 // (DEVICES if name == "allgather" else 1)
            rows = jax.device_put(
                np.ones(DEVICES * length, dtype=np.float32), jax.sharding.NamedSharding(where, spec)
            )
            ways: list[Callable[[], object]] = []
            calls: list[Callable[[Any], Any]] = [theirs, partial(ours, axis="x")]
            for call in calls:
                spread = jax.shard_map(
                    call, **{"mesh": where, "in_specs": spec, "out_specs": spec, "check_vma": False}
                )
                compiled = jax.jit(spread).lower(rows).compile()
                ways.append(partial(until_ready, compiled, rows))
            yield row_of("jax", name, DEVICES, size, in_turns(ways, turns, lambda: None))


def main() -> None:
    """PyTorch first: it forks, which JAX does not bear."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, writes no files")
    quick = parser.parse_args().quick
    sizes = [2**10, 2**20] if quick else [2**10, 2**16, 2**20, 2**23]
    turns = 5 if quick else 41

    def rows() -> Iterator[dict[str, object]]:
        yield from on_torch(sizes, turns)
        yield from on_jax(sizes, turns)

    tell("benchmark_runtimes", FIELDS, rows(), quick=quick)


if __name__ == "__main__":
    main()
