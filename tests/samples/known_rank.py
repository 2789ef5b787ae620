"""A rank of mpirun that runs every known plan on known data; rank 0 leaves the bits of results."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime_samples import CASES, bits, inputs_of, known_traffic, planned, uneven_inputs_of

from ocs_codesign.interop.lowering.lowering import lower
from ocs_codesign.interop.run.engine import LEAST_TAG_UB, Data, Numbers
from ocs_codesign.interop.run.launch import leave, shares_of
from ocs_codesign.interop.run.performance import Performance

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.interop.run.launch import Share


@cache
def share_of(name: str, rank: int) -> Share:
    return list(shares_of(lower(planned(CASES[name]["plan"])), 1))[rank]


def brought(world: Any, name: str, elements: Any, inputs: list[NDArray[Any]]) -> NDArray[Any]:
    """The output of this rank."""
    sizes = known_traffic(name).sizes(elements)
    share = replace(share_of(name, world.rank), sizes=sizes)
    given = inputs[world.rank][: int(sizes[share.given.chunk].sum())]
    run = Performance(world, share, 0, lambda *_: None, False, 60.0, LEAST_TAG_UB)
    run._communicators = [world]
    numbers = Numbers.of(share)
    assert run._run(numbers) is None
    data = Data.of(share, numbers, given, given[:0])
    assert run._run(data) is None
    return data.result()


def main(directory: Path) -> None:
    from mpi4py import MPI

    found = {}
    for name, case in CASES.items():
        ranks, rank = case["plan"]["num_nodes"], MPI.COMM_WORLD.rank
        world = MPI.COMM_WORLD.Split(0 if rank < ranks else MPI.UNDEFINED)
        if world == MPI.COMM_NULL:
            continue
        runs = [(run["elements"], inputs_of(case, run)) for run in case["runs"]]
        runs += [(run["items"], uneven_inputs_of(case, run)) for run in case.get("uneven", ())]
        for at, (elements, inputs) in enumerate(runs):
            results = world.gather(brought(world, name, elements, inputs))
            if rank == 0:
                root = case["plan"].get("root", 0)
                reduced = case["plan"]["collective"] == "reduce"
                found[name, at] = bits(results[root : root + 1] if reduced else results)
        world.Free()
    if MPI.COMM_WORLD.rank == 0:
        leave(found, directory)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
