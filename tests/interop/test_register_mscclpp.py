"""Plans for MSCCL++: those that the script registers, what it calls, what it says without a GPU."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import register_mscclpp
from folders import ROOT

from ocs_codesign.faces.cli import main
from ocs_codesign.interop.lowering.lowering import lower
from ocs_codesign.interop.lowering.raising import raised
from ocs_codesign.interop.mscclpp.programs import read_mscclpp
from ocs_codesign.interop.runtimes.traffic import traffic_of
from ocs_codesign.verification.rank_programs import check_program


def test_without_a_gpu_plans_are_written_and_a_sentence_says_why_none_is_registered(tmp_path):
    script = str(ROOT / "experiments" / "register_mscclpp.py")
    done = subprocess.run(
        [sys.executable, "-W", "error", script, "--plans", "plans"],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    told = "skipped: there is no CUDA GPU here; 12 plans were written to plans, none was registered"
    assert done.stdout == f"{told}\n"
    files = {path.name: path for path in (tmp_path / "plans").iterdir()}
    assert files.keys() == {f"{name}.mscclpp.json" for name in register_mscclpp.PLANS}
    for name, make in register_mscclpp.PLANS.items():
        program = read_mscclpp(files[f"{name}.mscclpp.json"])
        plan = make()
        assert check_program(program).ok
        assert (program.collective, program.num_ranks) == (
            plan.collective,
            traffic_of(plan).num_ranks,
        )
        assert raised(program).synchronous_cost() == raised(lower(plan)).synchronous_cost()


@pytest.mark.parametrize(
    ("name", "recipe"),
    [("torus2x3-allreduce", "Torus((2,3))"), ("kautz8-allgather", "GeneralizedKautz(2,8)")],
)
def test_they_are_what_export_writes(name, recipe, tmp_path):
    words = [recipe, "--collective", name.split("-")[1], "--format", "mscclpp"]
    assert main(["export", *words, "--out", str(tmp_path / "exported")]) == 0
    (exported,) = (tmp_path / "exported").glob("*.mscclpp.json")
    (ours,) = (each for each in register_mscclpp.written(tmp_path) if each.name == name)
    assert ours.says == {**json.loads(exported.read_text()), "name": name}


class Pointed(np.ndarray):
    """An array that knows its place in memory, as one of a GPU does."""

    @property
    def data(self):
        return SimpleNamespace(ptr=self.__array_interface__["data"][0])


def elements_at(pointer, size):
    return np.ctypeslib.as_array(ctypes.cast(pointer, ctypes.POINTER(ctypes.c_int32)), (size // 4,))


class Plan:
    """What ``mscclpp.ExecutionPlan`` tells of a file."""

    def __init__(self, path, rank):
        self.rank, self.of_file = rank, json.loads(Path(path).read_text())
        self.name, self.collective = self.of_file["name"], self.of_file["collective"]
        self.min_message_size = self.of_file["min_message_size"]
        self.max_message_size = self.of_file["max_message_size"]
        assert self.of_file["gpus"][rank]["id"] == rank


class Algorithm:
    """A plan of one rank, as ``mscclpp.Algorithm``: it copies chunks."""

    Constraint, wrong = SimpleNamespace, False

    def __init__(self, **given):
        assert given.keys() == {"id", "execution_plan", "constraint"}
        self.plan = given["execution_plan"]
        assert given["constraint"].world_size == len(self.plan.of_file["gpus"])
        assert given["id"] == self.plan.name
        self.name, self.collective, self.executed = self.plan.name, self.plan.collective, []

    def execute(self, input_buffer, output_buffer, input_size, output_size, dtype, **more):
        assert more == {"comm": "comm", "stream": 0, "executor": "executor of comm"}
        gpu = self.plan.of_file["gpus"][0]
        size = input_size // gpu["input_chunks"]
        assert size % 16 == 0
        given = elements_at(input_buffer, input_size)
        result = elements_at(output_buffer, output_size)
        (block,) = gpu["threadblocks"]
        for operation in block["ops"]:
            assert operation["name"] == "copy"
            for source, target in zip(operation["src_buff"], operation["dst_buff"], strict=True):
                assert (source["type"], target["type"]) == ("i", "o")
                here, there = (
                    slice(each["index"] * size // 4, (each["index"] + each["size"]) * size // 4)
                    for each in (source, target)
                )
                result[there] = given[here]
        self.executed.append((input_size, dtype))
        result[-1] += self.wrong and len(self.executed) == 4
        return SimpleNamespace(value=0)


class Builder:
    def __init__(self):
        self.known = []

    def add_algorithm_builder(self, algorithm):
        self.known.append(algorithm)

    def build(self):
        return SimpleNamespace(
            get_by_collective=lambda name: [each for each in self.known if each.collective == name]
        )


@pytest.fixture
def documented(monkeypatch):
    """A GPU and MSCCL++ by the signatures of its documentation; what is registered."""
    mscclpp, ext, cupy = (ModuleType(name) for name in ("mscclpp", "mscclpp.ext", "cupy"))
    builder, met = Builder(), []
    mscclpp.ExecutionPlan, mscclpp.Algorithm = Plan, type("Fresh", (Algorithm,), {})
    mscclpp.DataType = SimpleNamespace(int32="int32", float32="float32")
    mscclpp.Executor = lambda comm: f"executor of {comm}"
    mscclpp.GpuBuffer = lambda shape, dtype=float: np.full(shape, 77, dtype).view(Pointed)
    mscclpp.CommGroup = lambda rank, size, **where: SimpleNamespace(
        communicator="comm", my_rank=rank, nranks=size, barrier=lambda: met.append(where)
    )
    ext.AlgorithmCollectionBuilder = lambda: builder
    cupy.asarray, cupy.asnumpy = np.asarray, np.asarray
    runtime = SimpleNamespace(getDeviceCount=lambda: 1, deviceSynchronize=lambda: None)
    cupy.cuda = SimpleNamespace(runtime=runtime, Device=lambda _: SimpleNamespace(use=lambda: None))
    for module in (mscclpp, ext, cupy):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(register_mscclpp, "missing", lambda: None)
    monkeypatch.setattr(sys, "argv", ["register_mscclpp.py"])
    for name in register_mscclpp.RANKS:
        monkeypatch.delenv(name, raising=False)
    yield mscclpp, builder
    assert {each["interfaceIpPortTrio"] for each in met} == {"lo:127.0.0.1:50053"}


def test_one_gpu_registers_every_plan_and_runs_those_of_one_rank(documented, capsys):
    _, builder = documented
    assert register_mscclpp.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == list(register_mscclpp.PLANS)
    assert [each.name for each in builder.known] == list(register_mscclpp.PLANS)
    for line, algorithm in zip(lines, builder.known, strict=True):
        ranks = len(algorithm.plan.of_file["gpus"])
        assert f"registered, loaded for {ranks} ranks" in line
        sizes = [(64 * units, dtype) for units in (1, 5, 1024) for dtype in ("int32", "float32")]
        assert algorithm.executed == (sizes if ranks == 1 else [])
        assert line.endswith("run 6 times to 65536 bytes, every element right") == (ranks == 1)


def test_a_wrong_element_and_another_name_are_told(documented, capsys):
    mscclpp, builder = documented
    mscclpp.Algorithm.wrong = True
    assert register_mscclpp.main() == 1
    said = "alone-allgather, 320 bytes of float32, rank 0: code 0, 1 of 80 elements are wrong"
    assert capsys.readouterr().err == f"Error: {said}\n"
    builder.known.clear()
    mscclpp.ExecutionPlan = type(
        "Other", (Plan,), {"name": property(lambda _: "x", lambda *_: None)}
    )
    assert register_mscclpp.main() == 1
    assert "alone-allgather.mscclpp.json: as rank 0 it was loaded as (" in capsys.readouterr().err


def test_a_gpu_without_mscclpp_is_said(monkeypatch):
    devices = SimpleNamespace(cuInit=lambda _: 0, cuDeviceGetCount=lambda count: count.set(1))
    monkeypatch.setattr(ctypes, "CDLL", lambda _: devices)
    monkeypatch.setattr(
        ctypes,
        "byref",
        lambda count: SimpleNamespace(set=lambda number: setattr(count, "value", number)),
    )
    monkeypatch.setattr(register_mscclpp, "find_spec", lambda _: None)
    assert register_mscclpp.missing() == "mscclpp is not installed, which is built from its source"
    devices.cuInit = lambda _: 100
    assert register_mscclpp.missing() == "there is no CUDA GPU here"


@pytest.mark.parametrize("collective", ["allgather", "reducescatter", "allreduce", "alltoall"])
def test_what_is_asked_of_several_ranks(collective):
    inputs = np.arange(24, dtype=np.int32).reshape(3, 8)[:, :6]
    wanted = {
        "allgather": inputs.ravel(),
        "allreduce": inputs.sum(0),
        "reducescatter": inputs.sum(0)[2:4],
        "alltoall": inputs[:, 2:4].ravel(),
    }[collective]
    assert register_mscclpp.asked(collective, 1, inputs).tolist() == wanted.tolist()
