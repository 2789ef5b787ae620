"""Ranks of JAX: virtual devices of this process, as many as a job has ranks."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from ocs_codesign.interop.run.launch import TASK, leave
from ocs_codesign.interop.run.performance import DTYPES
from ocs_codesign.interop.runtimes.jax_collectives import AxisRanks, mesh, performed
from ocs_codesign.interop.runtimes.running import RankData, outcome_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.interop.run.performance import RunOutcome
    from ocs_codesign.interop.runtimes.running import MessagesJob


def ran(job: MessagesJob) -> RunOutcome:
    """The outcome of a job; its seconds are those of what is compiled already."""
    traffic = job.program
    ranks = [RankData.of(job, rank) for rank in range(traffic.num_ranks)]
    outputs: list[list[NDArray[Any]]] = [[] for _ in ranks]
    wall_s, sizes = [], ranks[0].sizes
    where = mesh(len(ranks), devices=jax.devices()[: len(ranks)])
    spec = jax.sharding.PartitionSpec("x")
    for name in DTYPES:
        given = [each.given(name) for each in ranks]
        rows = np.zeros((len(ranks), max(map(len, given))), dtype=name)
        for row, each in zip(rows, given, strict=True):
            row[: len(each)] = each
        function = jax.shard_map(
            lambda row: performed(traffic, row[0], AxisRanks("x"), sizes)[None],
            **{"mesh": where, "in_specs": spec, "out_specs": spec},
        )
        placed = jax.device_put(rows, jax.sharding.NamedSharding(where, spec))
        compiled = jax.jit(function).lower(placed).compile()
        begin = perf_counter()
        result = jax.block_until_ready(compiled(placed))
        wall_s.append(perf_counter() - begin)
        for rank, row in zip(ranks, np.asarray(result), strict=True):
            outputs[rank.rank].append(row[: int(sizes[traffic.wanted(rank.rank)].sum())])
    results = [rank.result(got, wall_s) for rank, got in zip(ranks, outputs, strict=True)]
    return outcome_of(job, results, f"JAX {jax.__version__}, virtual devices", "jax")


def main(directory: Path) -> None:
    """Run the job in a directory of ours and leave its outcome, or why there is none."""
    try:
        answer: object = ran(pickle.loads((directory / TASK).read_bytes()))
    except ValueError as error:
        answer = str(error)
    leave(answer, directory)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
