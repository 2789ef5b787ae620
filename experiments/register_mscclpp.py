"""Register plans of ours in MSCCL++ by its documented calls, and run what the GPUs here can run.

    python experiments/register_mscclpp.py [--plans DIR] [--interface NAME:IP:PORT]

writes execution plans of 1 to 8 ranks to DIR. Where there is a CUDA GPU and the package mscclpp,
every rank's part of every plan is loaded (``ExecutionPlan``), wrapped (``Algorithm``) and
registered (``AlgorithmCollectionBuilder``), and what comes back is compared with the file. The
plans of as many ranks as there are processes are run (``Algorithm.execute``) at three sizes, and
their results compared element by element with numpy: on one GPU those of one rank, which copy; with

    torchrun --nproc-per-node 4 experiments/register_mscclpp.py

those of four. Without a GPU or mscclpp it says so in a sentence and ends with code 0. The calls are
those that MSCCL++ 0.9 documents; it was not run on a GPU here.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from ocs_codesign import build, parse
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.files.atomic import write_files
from ocs_codesign.core.schedule import Messages
from ocs_codesign.interop.lowering.lowering import lower
from ocs_codesign.interop.mscclpp.programs import parse_mscclpp
from ocs_codesign.interop.mscclpp.write import write_mscclpp
from ocs_codesign.schedules.classic.registry import CLASSIC
from ocs_codesign.verification.rank_programs import check_program

SEED = 7
TOLD = ("name", "collective", "min_message_size", "max_message_size")
"""What MSCCL++ says of a plan that it has loaded, and the plan's file."""

RANKS = {"RANK": "0", "WORLD_SIZE": "1"}
"""What torchrun tells a process, and what one alone is."""

UNITS = (1, 5, 1024)
"""Sizes that are run, in the smallest that a plan allows: 16 bytes a chunk, its alignment."""


def alone(collective: str) -> Callable[[], Any]:
    """The plan of one rank, in four chunks: it copies."""
    return lambda: Messages(1, Collective(collective), 4, *([] for _ in range(5)))


def designed(recipe: str, collective: str) -> Callable[[], Any]:
    """The schedule of a design."""
    return lambda: build(parse(recipe), collective).schedule


PLANS: dict[str, Callable[[], Any]] = {
    "alone-allgather": alone("allgather"),
    "alone-reduce-scatter": alone("reduce-scatter"),
    "alone-allreduce": alone("allreduce"),
    "alone-alltoall": alone("alltoall"),
    "complete2-allreduce": designed("Complete(2)", "allreduce"),
    "ring4-allgather": designed("UniRing(1, 4)", "allgather"),
    "ring4-reduce-scatter": designed("BiRing(2, 4)", "reduce-scatter"),
    "complete4-alltoall": lambda: CLASSIC["bruck"].messages("alltoall", 4),
    "torus2x3-allreduce": designed("Torus((2, 3))", "allreduce"),
    "kautz8-allgather": designed("GeneralizedKautz(2, 8)", "allgather"),
    "hypercube8-allreduce": designed("Hypercube(3)", "allreduce"),
    "complete8-alltoall": lambda: CLASSIC["direct"].messages("alltoall", 8),
}


class Written(NamedTuple):
    """A plan by its name, its file and what that says."""

    name: str
    path: Path
    says: dict[str, Any]

    @property
    def num_ranks(self) -> int:
        """Ranks of the plan."""
        return len(self.says["gpus"])


def written(folder: Path) -> list[Written]:
    """All plans as files of a folder, each read again and verified, as ``export`` does."""
    found = []
    for name, make in PLANS.items():
        path = folder / f"{name}.mscclpp.json"
        data = write_mscclpp(lower(make()), name).encode()
        verdict = check_program(parse_mscclpp(data, path.name))
        if not verdict.ok:
            raise RuntimeError(f"{path.name}: {verdict.witness}")
        write_files({path: data})
        found.append(Written(name, path, json.loads(data)))
    return found


def missing() -> str | None:
    """Why nothing can be registered here, None if it can."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "there is no CUDA GPU here"
    count = ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
        return "there is no CUDA GPU here"
    if find_spec("mscclpp") is None:
        return "mscclpp is not installed, which is built from its source"
    return None


def registered(plans: list[Written], rank: int) -> dict[str, Any]:
    """The algorithms of all plans by name, of the rank here where it is one of theirs.

    ValueError where a plan is not what its file says, for any of its ranks.
    """
    mscclpp, ext = import_module("mscclpp"), import_module("mscclpp.ext")
    builder = ext.AlgorithmCollectionBuilder()
    for plan in plans:
        for each in range(plan.num_ranks):
            loaded = mscclpp.ExecutionPlan(str(plan.path), each)
            told = tuple(getattr(loaded, key) for key in TOLD)
            if told != tuple(plan.says[key] for key in TOLD):
                raise ValueError(f"{plan.path.name}: as rank {each} it was loaded as {told}")
            if each == rank % plan.num_ranks:
                limits = mscclpp.Algorithm.Constraint(world_size=plan.num_ranks)
                builder.add_algorithm_builder(
                    mscclpp.Algorithm(id=plan.name, execution_plan=loaded, constraint=limits)
                )
    collection = builder.build()
    found = {}
    for plan in plans:
        same = collection.get_by_collective(plan.says["collective"])
        known = [each for each in same if each.name == plan.name]
        if len(known) != 1:
            raise ValueError(f"{plan.name} was registered, but {len(known)} come back")
        (found[plan.name],) = known
    return found


def asked(collective: str, rank: int, inputs: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What a rank is to have after a collective, given the inputs of all: (ranks, elements)."""
    if collective == "allgather":
        return inputs.ravel()
    if collective == "allreduce":
        return np.asarray(inputs.sum(axis=0, dtype=inputs.dtype))
    parts = inputs.reshape(len(inputs), len(inputs), -1)[:, rank]
    return parts.ravel() if collective == "alltoall" else parts.sum(axis=0, dtype=inputs.dtype)


def run(plan: Written, algorithm: Any, group: Any, executor: Any) -> Iterator[int]:
    """The bytes of every input with which a plan was run; ValueError at the first wrong element.

    Buffers live until all is run: the executor knows those that it has seen by their addresses.
    """
    mscclpp, cupy = import_module("mscclpp"), import_module("cupy")
    rank, gpu, buffers = group.my_rank, plan.says["gpus"][group.my_rank], []
    for units in UNITS:
        width = plan.says["buffer_alignment"] * units // 4
        chunks = (gpu["input_chunks"], gpu["output_chunks"])
        buffers += [mscclpp.GpuBuffer(width * each, dtype="int32") for each in chunks]
        shape = (plan.num_ranks, width * chunks[0])
        whole = np.random.default_rng((SEED, units)).integers(-999, 999, shape)
        for dtype in ("int32", "float32"):
            given, result = (each.view(dtype) for each in buffers[-2:])
            inputs = whole.astype(dtype)
            given[...] = cupy.asarray(inputs[rank])
            result[...] = 0
            cupy.cuda.runtime.deviceSynchronize()
            group.barrier()
            told = algorithm.execute(
                comm=group.communicator,
                input_buffer=given.data.ptr,
                output_buffer=result.data.ptr,
                input_size=given.nbytes,
                output_size=result.nbytes,
                dtype=getattr(mscclpp.DataType, dtype),
                stream=0,
                executor=executor,
            )
            cupy.cuda.runtime.deviceSynchronize()
            code = int(getattr(told, "value", told))
            wanted = asked(plan.says["collective"], rank, inputs)
            wrong = np.flatnonzero(cupy.asnumpy(result) != wanted)
            if code or len(wrong):
                raise ValueError(
                    f"{plan.name}, {given.nbytes} bytes of {dtype}, rank {rank}: "
                    f"code {code}, {len(wrong)} of {len(wanted)} elements are wrong"
                )
            group.barrier()
            yield given.nbytes


def on_gpus(plans: list[Written], interface: str) -> None:
    """Register all plans and run those of as many ranks as there are processes."""
    mscclpp, cupy = import_module("mscclpp"), import_module("cupy")
    rank, ranks = (int(os.environ.get(name, given)) for name, given in RANKS.items())
    cupy.cuda.Device(rank % cupy.cuda.runtime.getDeviceCount()).use()
    group = mscclpp.CommGroup(interfaceIpPortTrio=interface, rank=rank, size=ranks)
    executor = mscclpp.Executor(group.communicator)
    algorithms = registered(plans, rank)
    for plan in plans:
        line = f"{plan.name}: registered, loaded for {plan.num_ranks} ranks"
        if plan.num_ranks == ranks:
            sizes = list(run(plan, algorithms[plan.name], group, executor))
            line += f"; run {len(sizes)} times to {max(sizes)} bytes, every element right"
        if rank == 0:
            print(line)


def main() -> int:
    """Write the plans, and register and run them where that can be."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--plans", type=Path, metavar="DIR", help="keep the plans there")
    parser.add_argument(
        "--interface",
        default="lo:127.0.0.1:50053",
        metavar="NAME:IP:PORT",
        help="where ranks meet (default: this machine)",
    )
    given = parser.parse_args()
    with TemporaryDirectory() as directory:
        folder = given.plans or Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        plans = written(folder)
        kept = f"{len(plans)} plans were written" + (f" to {folder}" if given.plans else "")
        reason = missing()
        if reason is not None:
            print(f"skipped: {reason}; {kept}, none was registered")
            return 0
        try:
            on_gpus(plans, given.interface)
        except ValueError as error:
            sys.stderr.write(f"Error: {error}\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
