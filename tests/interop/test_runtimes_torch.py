"""The process group "ocs": known bits, training, what falls back, and what failures say."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter, defaultdict
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from folders import ROOT
from runtime_samples import CASES, bits, inputs_of, planned, threaded
from torch_ranks import on_processes, on_threads, plans

from ocs_codesign.interop.runtimes.traffic import traffic_of
from ocs_codesign.schedules.classic.registry import CLASSIC

pytestmark = [pytest.mark.runtimes, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def _counted_anew():
    from ocs_codesign.interop.runtimes import torch_group

    torch_group._SHELVES.clear()
    torch_group._COUNTS.clear()
    torch_group._SAID.clear()


def called(group, collective, given, elements, root):
    """One call of a group, as torch makes it."""
    import torch
    import torch.distributed as dist

    given, size = torch.from_numpy(given.copy()), group.size()
    if collective == "allreduce":
        group.allreduce([given]).wait()
        return given.numpy()
    if collective in ("broadcast", "reduce"):
        options = dist.BroadcastOptions() if collective == "broadcast" else dist.ReduceOptions()
        options.rootRank = root
        getattr(group, collective)([given], options).wait()
        return given.numpy()
    each = elements * (size if collective in ("allgather", "alltoall") else 1)
    output = torch.empty(each, dtype=given.dtype)
    calls = {
        "allgather": group.all_gather_single,
        "reduce-scatter": group.reduce_scatter_single,
        "alltoall": group.all_to_all_single,
    }
    calls[collective](output, given).wait()
    return output.numpy()


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_known_bits(name, batched):
    from ocs_codesign.interop.runtimes import torch_group

    case = CASES[name]
    collective, root = case["plan"]["collective"], case["plan"].get("root")
    torch_group.use(planned(case["plan"]))
    inputs = [inputs_of(case, run) for run in case["runs"]]

    def work(group):
        if batched:
            group._wires["cpu"] = torch_group.BatchedGroup(group._wires["cpu"])
        return [
            called(group, collective, given[group.rank()], run["elements"], root)
            for given, run in zip(inputs, case["runs"], strict=True)
        ]

    results = on_threads(case["plan"]["num_nodes"], work)
    for number, run in enumerate(case["runs"]):
        all_ranks = [result[number] for result in results]
        all_ranks = all_ranks[root : root + 1] if collective == "reduce" else all_ranks
        wanted = run.get("sha256_16_of_all_ranks") or run["sha256_16_of_results"]
        assert bits(all_ranks) == wanted, run
    counts = torch_group.counts()
    assert counts == {(collective, "schedule"): len(results) * len(case["runs"])}


class Marks:
    """Streams in place of those of a GPU: what is asked of them, in turn."""

    def __init__(self):
        self.asked, self.is_past = [], False

    @contextmanager
    def device(self, device):
        self.asked.append(f"on {device}")
        yield
        self.asked.append("left")

    def current_stream(self):
        return SimpleNamespace(record_event=lambda: self.asked.append("mark") or self)

    def wait(self):
        self.asked.append("wait")

    def query(self):
        return self.is_past


def test_on_a_device_with_streams_a_step_is_a_batch_and_the_host_goes_on(monkeypatch):
    """As on GPUs with NCCL, with gloo and no streams in their place."""
    import torch
    import torch.distributed as dist

    from ocs_codesign.interop.runtimes import torch_group, torch_wire

    plan = CASES["two rings allreduce 6"]["plan"]
    torch_group.use(planned(plan))
    usual, batches = dist.batch_isend_irecv, defaultdict(list)

    def recorded(operations):
        rank = operations[0].group.rank()
        batches[rank].append([(each.op.__name__, each.group_peer) for each in operations])
        return usual(operations)

    monkeypatch.setattr(dist, "batch_isend_irecv", recorded)
    monkeypatch.setattr(torch_group, "STREAMS", streams := {"cpu": None})
    monkeypatch.setattr(torch_wire, "STREAMS", streams)
    streams["cpu"] = marks = Marks()
    first = []

    def work(group):
        inner = group._inner
        group._wires["cpu"] = torch_group.BatchedGroup(group._wires["cpu"])
        group._inner = SimpleNamespace(allreduce=lambda x: first.append(1) or inner.allreduce(x))
        own = [torch.full((24,), group.rank() + 1) for _ in range(2)]
        works = [group.allreduce([each]) for each in own]
        assert group._worker._thread is None
        assert not any(each.is_completed() for each in works)
        for each in works:
            each.wait()
        return [each.tolist() for each in own]

    assert on_threads(6, work) == [[[21] * 24] * 2] * 6
    assert len(first) == 6  # a call of all ranks, once a group
    assert Counter(marks.asked) == dict.fromkeys(("on cpu", "left", "mark", "wait"), 12)
    sends = {(step, source): [] for step, source, *_ in plan["sends"]}
    for step, source, target, *_ in sorted(plan["sends"]):
        sends[step, source] += [target] * (target not in sends[step, source])
    for rank, steps in batches.items():
        assert [[peer for op, peer in step if op == "isend"] for step in steps] == 2 * [
            peers for (_, source), peers in sorted(sends.items()) if source == rank
        ]
        assert all([op for op, _ in step] == ["irecv"] * 2 + ["isend"] * 2 for step in steps)


def test_a_work_on_a_stream_is_done_when_that_is_past_its_mark():
    from ocs_codesign.interop.runtimes.torch_wire import OcsWork

    work, marks = OcsWork([]), Marks()
    work.finish(mark=marks)
    assert not work.is_completed()
    marks.is_past = True
    assert work.is_success()
    assert work.get_future().done()
    assert marks.asked == ["wait"]


def test_a_device_without_a_wire_is_the_librarys():
    import torch

    from ocs_codesign.interop.runtimes import torch_group

    torch_group.use(*plans(2))

    def work(group):
        near, far = torch.ones(4), torch.ones(4, device="meta")
        call = torch_group._Call("allreduce", 16, 4, far, far)
        mixed = group._ours([call._replace(given=near)], [], None)
        return group._page(call), mixed

    assert on_threads(2, work) == [("tensors of meta", None)] * 2
    assert torch_group.counts() == {("allreduce", "two devices"): 2}


def test_operations_dtypes_and_what_falls_back():
    import torch
    import torch.distributed as dist

    from ocs_codesign.interop.runtimes import torch_group

    torch_group.use(*plans(4))
    kinds = ("int32", "uint8", "float16", "bfloat16", "float64", "int64")

    def work(group):
        ops = dist.ReduceOp
        mine = torch.arange(7) % 3 + group.rank() + 1
        found = []
        for dtype in (getattr(torch, each) for each in kinds):
            for op in (ops.SUM, ops.MAX, ops.MIN, ops.PRODUCT):
                options = dist.AllreduceOptions()
                options.reduceOp = op
                own = mine.to(dtype, copy=True)
                group.allreduce([own], options).wait()
                found.append(own.to(torch.int64).tolist())
        average = dist.AllreduceOptions()
        average.reduceOp = ops.AVG
        own = mine.double()
        group.allreduce([own], average).wait()
        found.append(own.tolist())
        band = dist.AllreduceOptions()
        band.reduceOp = ops.BAND
        for tensor, options in (
            (mine.clone(), band),
            (torch.ones(4, 4).t(), None),
            (torch.ones(3, dtype=torch.bool), None),
            (torch.ones(0), None),
        ):
            with_options = (options,) if options is not None else ()
            try:
                group.allreduce([tensor], *with_options).wait()
            except RuntimeError as error:  # the library's own answer
                found.append(str(error)[:20])
        output = torch.empty(4, dtype=torch.int64)
        group.all_to_all_single(output, torch.arange(4), [1] * 4, [1] * 4).wait()
        moved = output.tolist()
        uneven = [(2, 1, 0, 1)[(each - group.rank()) % 4] for each in range(4)]
        group.all_to_all_single(output, torch.arange(4) * 0 + 9, uneven, uneven).wait()
        return found, moved, output.tolist()

    results = on_threads(4, work)
    each = np.stack([np.arange(7) % 3 + rank + 1 for rank in range(4)])
    wanted = [fold(each, axis=0).tolist() for fold in (np.sum, np.max, np.min, np.prod)]
    for rank, (found, moved, uneven) in enumerate(results):
        assert found[: 4 * len(kinds)] == [
            [value % 256 for value in row] if kind == "uint8" else row
            for kind in kinds
            for row in wanted
        ]
        assert found[4 * len(kinds)] == each.mean(axis=0).tolist()
        assert (moved, uneven) == ([rank] * 4, [9] * 4)
    ways = {way for _, way in torch_group.counts()}
    strange = {"sparse or strided", "empty", "operation on torch.bool", "another operation"}
    assert ways == {"schedule", "unequal parts"} | strange


def test_a_reason_is_said_once_and_every_call_of_it_is_counted(caplog):
    """By all groups of as many ranks together, since a mesh has many; anew after other plans."""
    import torch
    import torch.distributed as dist

    from ocs_codesign.interop.runtimes import torch_group

    band = dist.AllreduceOptions()
    band.reduceOp = dist.ReduceOp.BAND

    def work(group):
        size = group.size()
        for _ in range(3):
            group.allreduce([torch.ones(4, dtype=torch.int32)], band).wait()
            group.allreduce([torch.ones(4)]).wait()
            group.allgather([[torch.empty(2) for _ in range(size)]], [torch.ones(2)]).wait()

    why = "of 4 ranks by the library"
    said = [f"allreduce {why}: another operation", f"allgather {why}: a list of tensors"]
    for _ in range(2):
        caplog.clear()
        torch_group._COUNTS.clear()
        torch_group.use(*plans(4))
        for _ in range(2):
            on_threads(4, work)
        assert [each.getMessage() for each in caplog.records] == said
        assert {each.levelname for each in caplog.records} == {"WARNING"}
        assert torch_group.report().splitlines() == [
            "allgather: 24 by the library: a list of tensors",
            "allreduce: 24 by the library: another operation",
            "allreduce: 24 by schedules",
        ]
    caplog.clear()
    on_threads(2, work)
    assert [each.getMessage() for each in caplog.records] == [
        "allreduce of 2 ranks by the library: no plan for 2 ranks",
        "allgather of 2 ranks by the library: a list of tensors",
    ]
    assert torch_group.counts()["allreduce", "no plan for 2 ranks"] == 12


def trained(rank, _, *, sharded):
    """Losses and counts of four steps of a small model."""
    import torch
    from torch import nn
    from torch.distributed.fsdp import fully_shard

    from ocs_codesign.interop.runtimes.torch_group import counts

    torch.manual_seed(0)
    layers = [nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 4)]
    model = nn.Sequential(*layers)
    if sharded:
        for layer in layers[::2]:
            fully_shard(layer)
        fully_shard(model)
    else:
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    drawn = torch.Generator().manual_seed(rank)
    losses = []
    for _ in range(4):
        data = torch.randn(8, 16, generator=drawn)
        loss = (model(data) - data[:, :4]).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss))
    return losses, counts()


MORE = [(6, True), (6, False), (8, False), (8, True)]


@pytest.mark.parametrize(
    ("ranks", "sharded"),
    [(4, False), (4, True), *(pytest.param(*each, marks=pytest.mark.long) for each in MORE)],
)
def test_training_goes_by_schedules(ranks, sharded, tmp_path):
    work = partial(trained, sharded=sharded)
    ours = on_processes(ranks, tmp_path, work)
    theirs = on_processes(ranks, tmp_path, work, backend="gloo")
    for (losses, counts), (usual, _) in zip(ours, theirs, strict=True):
        assert losses == pytest.approx(usual, rel=1e-5)
        by_schedule = {name: number for (name, way), number in counts.items() if way == "schedule"}
        assert counts.keys() <= {(name, "schedule") for name in by_schedule} | {
            ("allgather", "a list of tensors")  # DDP compares the shapes of parameters, once
        }
        if sharded:
            assert by_schedule["allgather"] >= 24
            assert by_schedule["reduce-scatter"] >= 12
        else:
            assert by_schedule["allreduce"] >= 4


def meshed(rank, _):
    import torch
    import torch.distributed as dist
    import torch.distributed._functional_collectives as functional
    from torch.distributed.device_mesh import init_device_mesh

    from ocs_codesign.interop.runtimes.torch_group import counts

    mesh = init_device_mesh("cpu", (2, 4), mesh_dim_names=("data", "model"))
    one = torch.full((5,), float(rank))
    rows = functional.all_reduce(one, "sum", mesh["model"]) + 0
    whole = functional.all_gather_tensor(one, 0, dist.group.WORLD) + 0
    sliced = functional.reduce_scatter_tensor(torch.ones(16), "sum", 0, dist.group.WORLD) + 0
    pair = dist.new_group([0, 5])
    if rank in (0, 5):
        dist.all_reduce(one, group=pair)
    return rows[0].item(), whole[::5].tolist(), sliced.tolist(), one[0].item(), counts()


def test_meshes_sub_groups_and_functional_collectives(tmp_path):
    from ocs_codesign.interop.runtimes import torch_group

    torch_group.use(*plans(8), *plans(4))
    results = on_processes(8, tmp_path, meshed)
    for rank, (row, whole, sliced, one, counts) in enumerate(results):
        assert row == (6 if rank < 4 else 22)
        assert whole == list(range(8))
        assert sliced == [8.0, 8.0]
        assert one == (5 if rank in (0, 5) else rank)
        assert counts["allreduce", "schedule"] == counts["allgather", "schedule"] == 1
        assert counts.get(("allreduce", "no plan for 2 ranks"), 0) == (rank in (0, 5))


def scaled(rank):
    return np.arange(1, 65, dtype=np.float32) * np.float32(1.1**rank / 3)


def turned(rank, _):
    import torch
    import torch.distributed as dist

    from ocs_codesign.interop.runtimes.torch_group import counts

    found = []
    for is_sorted in (True, False):
        group = dist.new_group([4, 1, 3, 0], sort_ranks=is_sorted)
        if rank in (0, 1, 3, 4):
            whole, own = torch.empty(4), torch.from_numpy(scaled(rank))
            dist.all_gather_single(whole, torch.tensor([float(rank)]), group=group)
            dist.all_reduce(own, group=group)
            found.append((whole.tolist(), own.numpy().tobytes()))
    return found, counts()


def test_ranks_of_a_sub_group_are_nodes_in_its_order(tmp_path):
    """Which torch sorts unless it is told not to: sums on a ring tell the order by their bits."""
    from ocs_codesign.interop.runtimes import torch_group

    ring = CLASSIC["ring"].messages("allreduce", 4)
    torch_group.use(*plans(4), ring)
    results = on_processes(5, tmp_path, turned)
    for rank in (0, 1, 3, 4):
        found, counts = results[rank]
        assert [order for order, _ in found] == [[0, 1, 3, 4], [4, 1, 3, 0]]
        assert {way for _, way in counts} == {"schedule"}
        for order, told in found:
            wanted = threaded(traffic_of(ring), 64, [scaled(int(each)) for each in order])[0]
            assert told == wanted.tobytes()
    assert results[0][0][0][1] != results[0][0][1][1]


def test_different_plans_are_refused():
    import torch.distributed as dist

    from ocs_codesign.interop.runtimes import torch_group

    torch_group.use(*plans(4))
    store = dist.HashStore()
    for rank in (1, 2, 3):
        store.set(f"ocs-plans/{rank}", torch_group._SHELVES[4].digest() if rank > 1 else "0123")
    with pytest.raises(ValueError, match=r"those of rank 0 are \w+, of rank 1 0123"):
        torch_group.OcsGroup(store, 0, 4, timedelta(seconds=5))


def dying(rank, _, *, future):
    import torch
    import torch.distributed as dist

    store = dist.distributed_c10d._get_default_store()
    dist.barrier()
    store.set(f"past-{rank}", "1")
    if rank == 2:  # once nobody is in the barrier
        store.wait([f"past-{each}" for each in range(4)])
        os._exit(7)
    work = dist.all_reduce(torch.ones(100), async_op=True)
    if future:
        work.get_future()
    work.wait()


@pytest.mark.parametrize("future", [False, True])
def test_a_rank_that_dies_ends_the_others_with_a_sentence(future, tmp_path, capfd):
    begin = time.monotonic()
    results = on_processes(4, tmp_path, partial(dying, future=future), limit=10)
    assert time.monotonic() - begin < 60
    said = capfd.readouterr().err if future else " ".join(map(str, results))
    assert results[2] == 7
    assert "waits for rank 2, step 1 of 2 of allreduce (page 0 B): the connection is gone" in said
    if future:  # what torch itself would do is a SIGSEGV
        assert {results[rank] for rank in (0, 1, 3)} == {1}
    else:
        assert all(results[rank].startswith("RuntimeError: rank ") for rank in (0, 1, 3))


def test_a_rank_that_is_gone_before_a_call_is_named_too():
    import torch

    from ocs_codesign.interop.runtimes.torch_wire import TorchWire

    def gone(*_):
        raise RuntimeError("[a/pair.cc:553] Connection closed by peer [::1]:9. This is typical")

    group = SimpleNamespace(send=gone, recv=gone, rank=lambda: 1)
    wire = TorchWire(group, torch.ones(1), "allreduce (page 0 B)", 3, timedelta(seconds=1))
    for start in (wire.send, wire.receive):
        with pytest.raises(RuntimeError) as told:
            wire.wait(start(torch.ones(1), 2, 0), 2, 0)
        step = "step 1 of 3 of allreduce (page 0 B)"
        assert str(told.value) == f"rank 1 waits for rank 2, {step}: the connection is gone"


SCRIPT = """
import torch, torch.distributed as dist
dist.init_process_group()
x = torch.ones(10); dist.all_reduce(x); print(x[0].item()); dist.destroy_process_group()
"""


def test_an_unchanged_script_by_the_launcher(tmp_path):
    from ocs_codesign.schedules.files.designs import save_design

    save_design(plans(2)[2], tmp_path / "allreduce")
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    words = ["-m", "ocs_codesign.torch", "--plans", str(tmp_path / "allreduce"), "--report"]
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(20000 + os.getpid() % 20000)}
    usual = {**os.environ, **address, "WORLD_SIZE": "2", "GLOO_SOCKET_IFNAME": "lo"}
    usual |= {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(
            [sys.executable, *words, str(script)],
            env={**usual, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    told = [process.communicate(timeout=120) for process in ranks]
    assert [out for out, _ in told] == ["2.0\n"] * 2, told
    assert "allreduce: 1 by schedules" in told[0][1]


def told_by_launcher(*words):
    """The exit code and what is said of a start that does not come to a script."""
    done = subprocess.run(
        [sys.executable, "-m", "ocs_codesign.torch", *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


def test_the_launcher_refuses_in_a_sentence(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    code, said = told_by_launcher("--plans", str(tmp_path / "none"), str(script))
    assert (code, said.count("\n")) == (2, 1)
    assert said.startswith("Error: ")
