"""Traces as jobs: those of collectives, of Chakra, and of PyTorch's profiler."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest
from folders import EXAMPLES

from ocs_codesign.circuits.legs.trace import Job, Trace
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.cost import CostModel
from ocs_codesign.faces.cli import main
from ocs_codesign.interop.chakra.graph import EtGraph
from ocs_codesign.interop.chakra.jobs import job_of_traces
from ocs_codesign.interop.chakra.reading import read_graph, write_graph
from ocs_codesign.interop.chakra.workload import CollectiveNode, ComputationNode, workload_graph
from ocs_codesign.jobs.files.job_cluster_files import load_job_cluster, load_room
from ocs_codesign.jobs.files.job_files import GivenMachine, load_job, load_training, parse_job
from ocs_codesign.jobs.files.profiler import job_of_profile
from ocs_codesign.jobs.issue import run
from ocs_codesign.jobs.layers import chain_of
from ocs_codesign.jobs.prices import Level, Machine, priced

GIVEN = GivenMachine(CostModel(1e-6, 1e9))


def on_ring(job, num_ranks):
    return run(priced(job, Machine((Level(num_ranks, CostModel(1e-6, 1e9)),))))


def test_a_trace_is_a_chain():
    trace = Trace([Job("allreduce", 4000, gap_before_s=1e-3, count=2), Job("alltoall", 400)], 3)
    done = on_ring(chain_of(trace, 4), 4)
    allreduce, alltoall = Fraction(6 + 6, 10**6), Fraction(3 * 10 + 3, 10**7)
    assert done.total_s == 3 * (2 * (Fraction(1, 1000) + allreduce) + alltoall)
    with pytest.raises(ValueError, match="at most 200000 are simulated"):
        chain_of(Trace([Job("allreduce", 1, count=200_001)]), 2)


def test_trace_files(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("collective,message,gap\nallreduce,4kB,1ms\n", encoding="utf-8")
    given = GivenMachine(CostModel(1e-6, 1e9), num_ranks=4)
    assert run(load_job(path, given).graph).total_s == Fraction(1012, 10**6)
    with pytest.raises(ValueError, match="does not say how many ranks there are"):
        load_job(path, GIVEN)
    (tmp_path / "t.json").write_text(
        json.dumps({"jobs": [{"collective": "allreduce", "message": "4kB"}]}), encoding="utf-8"
    )
    assert run(load_job(tmp_path / "t.json", given).graph).total_s == Fraction(12, 10**6)


def test_chakra_graphs(tmp_path):
    chain = [
        ComputationNode(5),
        CollectiveNode(Collective.ALLREDUCE, 4000),
        CollectiveNode(Collective.ALLGATHER, 4000),
        ComputationNode(0),
    ]
    for name, content in write_graph(workload_graph(chain, 4), "w").items():
        (tmp_path / name).write_bytes(content)
    job = load_job(tmp_path, GIVEN).graph
    assert run(job).total_s == Fraction(5 + 12 + 6, 10**6) + Fraction(1, 10**9)
    assert load_job(tmp_path / "w.0.et", GIVEN).graph.num_nodes == 16
    with pytest.raises(ValueError, match="--alpha and --bandwidth do"):
        load_job(tmp_path)


def with_groups(names, sizes=None):
    """A collective of every rank in the group that it names."""
    num, nothing = len(names), np.full(len(names), -1)
    return EtGraph(
        num,
        *(np.arange(num, dtype=np.int32), np.full(num, 4), np.full(num, 7, dtype=np.int8)),
        *(("sum",) * num, nothing.astype(np.int32), nothing),
        np.array(sizes or [4000] * num),
        *(np.zeros(num, dtype=np.int8), np.zeros(num, dtype=np.int64)),
        *(np.zeros(num + 1, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=bool)),
        tuple(names),
    )


def test_process_groups_of_chakra(tmp_path):
    traces = with_groups(["even", "odd", "even", "odd"])
    for name, content in write_graph(traces, "g").items():
        (tmp_path / name).write_bytes(content)
    assert read_graph(tmp_path) == traces
    job = load_job(tmp_path, GIVEN).graph
    assert job.group_size.tolist() == [2, 2]
    assert sorted(job.group_owner.tolist()) == [0, 1, 2, 3]
    # An allreduce of two ranks: two steps of half of 4000 bytes.
    assert run(job).total_s == Fraction(4000, 10**9) + run_latency(2)
    one = job_of_traces(with_groups(["", "", "", ""]))
    assert one.group_size.tolist() == [4]
    mixed = with_groups(["a", "a", "b", ""])
    with pytest.raises(ValueError, match="not have as many collectives of all ranks"):
        job_of_traces(mixed)
    with pytest.raises(ValueError, match="differs from rank 0, node 4"):
        job_of_traces(with_groups(["a", "a"], [10, 20]))


def run_latency(steps):
    return steps * GIVEN.model.alpha_s


def messages(sizes=(100, 100), kinds=(5, 6), peers=(1, 0)):
    """A message from rank 0 to rank 1."""
    none = np.full(2, -1)
    return EtGraph(
        2,
        np.array([0, 1], dtype=np.int32),
        np.array([7, 8]),
        np.array(kinds, dtype=np.int8),
        ("a", "b"),
        np.array(peers, dtype=np.int32),
        np.array([3, 3]),
        np.array(sizes),
        none.astype(np.int8),
        np.zeros(2, dtype=np.int64),
        np.zeros(3, dtype=np.int64),
        np.zeros(0, dtype=np.int64),
        np.zeros(0, dtype=bool),
    )


def test_messages_of_chakra_meet():
    assert on_ring(job_of_traces(messages()), 2).total_s == Fraction(11, 10**7)
    with pytest.raises(ValueError, match="sends 100 bytes: its receive has 90"):
        job_of_traces(messages((100, 90)))
    with pytest.raises(ValueError, match="from rank 0 to 1 with tag 3 has no receive"):
        job_of_traces(messages(kinds=(5, 5)))


def kernel(begin, end, name="gemm", **arguments):
    event = {"ph": "X", "cat": "kernel", "name": name, "ts": begin, "dur": end - begin}
    return {**event, "args": arguments}


def summed(begin, end, **changed):
    told = {
        **{"Collective name": "allreduce", "In msg nelems": 1000, "Out msg nelems": 1000},
        **{"dtype": "Float", "Group size": 4, **changed},
    }
    return kernel(begin, end, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", **told)


PROFILE = {
    "schemaVersion": 1,
    "traceEvents": [
        {"ph": "M", "name": "process_name"},
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 0, "dur": 90},
        kernel(100, 110),
        summed(110, 122),
        kernel(110, 115),
        kernel(122, 130),
        kernel(132, 140),
    ],
}


def test_profiles_of_pytorch(tmp_path):
    """The allreduce of 4000 bytes takes 12 us as in the trace: so does all; then a faster one."""
    job = job_of_profile(PROFILE)
    assert on_ring(job, 4).total_s == Fraction(40, 10**6)
    fast = run(priced(job, Machine((Level(4, CostModel(0, 3e9)),))))
    assert fast.total_s == Fraction(10 + 5 + 8 + 2 + 8, 10**6)
    slow = run(priced(job, Machine((Level(4, CostModel(10e-6, 1e9)),))))
    assert slow.total_s == Fraction(10 + 66 + 8 + 2 + 8, 10**6)
    path = tmp_path / "p.json"
    path.write_text(json.dumps(PROFILE), encoding="utf-8")
    assert run(load_job(path, GIVEN).graph).total_s == Fraction(40, 10**6)


def test_a_collective_that_nothing_waits_for_is_at_the_end():
    events = [kernel(0, 10), summed(5, 17), kernel(10, 12)]
    assert on_ring(job_of_profile({"traceEvents": events}), 4).total_s == Fraction(17, 10**6)


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (summed(0, 1, dtype="Quad"), "has the dtype 'Quad'"),
        (summed(0, 1, **{"Group size": "4"}), "'Group size'] is '4': it must be a whole number"),
        (kernel(0, 1, "ncclKernel"), "without 'Collective name'"),
        (kernel(0, -1), "traceEvents[0].dur is -1"),
        ({**kernel(0, 1), "ts": None}, "traceEvents[0].ts is None"),
        ({"ph": "X", "cat": "cpu_op"}, "has no kernel"),
        ("text", "has no kernel"),
    ],
)
def test_bad_profiles(event, message, tmp_path):
    path = tmp_path / "p.json"
    path.write_text(json.dumps({"traceEvents": [event]}), encoding="utf-8")
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is compared
        load_job(path, GIVEN)
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(path))


def test_commands_take_traces(capsys, tmp_path):
    path = tmp_path / "p.json"
    path.write_text(json.dumps(PROFILE), encoding="utf-8")
    words = ["iterate", str(path), "--alpha", "1us", "--bandwidth", "1GB/s", "--json", "-"]
    assert main(words) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["period_s"] == pytest.approx(40e-6)
    assert answer["num_ranks"] == 4
    assert main(["iterate", str(path), "--alpha", "1us"]) == 2
    assert "--alpha and --bandwidth together" in capsys.readouterr().err
    assert main(["example", str(tmp_path)]) == 0
    assert main(["iterate", str(tmp_path / "dlrm.yaml"), *words[2:6]]) == 2
    assert "it has a machine: another one is not taken" in capsys.readouterr().err


def test_rules_on_several_nodes_have_a_line():
    text = """name: c
ranks: 2
nodes:
- {name: a, kind: compute, time: 1us}
- {name: x, kind: allreduce, time: 1us, after: [a]}
- {name: y, kind: allreduce, time: 1us, after: [x]}
- {name: y, kind: allreduce, time: 1us}
"""
    with pytest.raises(ValueError, match=r"c.yaml, line 7: nodes\[3\].name is 'y': another node"):
        parse_job(text.encode(), "c.yaml")
    twice = text.replace("- {name: y, kind: allreduce, time: 1us}\n", "")
    wrong = twice.replace("after: [x]", "group: [0, 0]")
    with pytest.raises(ValueError, match=r"c.yaml, line 6: nodes\[2\].group names a rank twice"):
        parse_job(wrong.encode(), "c.yaml")


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        *(("llama3_8b", 8.03), ("llama3_70b", 70.6), ("llama3_405b", 405.9), ("mixtral", 46.7)),
        *(("mixtral_8x22b", 140.6), ("deepseek_v3", 671.0), ("dlrm", 24.0), ("gpt3", 174.6)),
    ],
)
def test_known_models_have_the_parameters_that_are_published(name, billions):
    trained = load_training(EXAMPLES / f"{name}.yaml")
    assert trained.model.num_parameters / 1e9 == pytest.approx(billions, rel=2e-3)


@pytest.mark.parametrize("name", ["dgx_a100", "dgx_h100", "dgx_b200", "gb200_nvl72", "mi300x"])
def test_known_machines_are_clusters_for_co_designs_and_for_steps(name):
    cluster = load_job_cluster(EXAMPLES / f"{name}.yaml")
    _, room = load_room(EXAMPLES / f"{name}.yaml")
    assert cluster.num_accelerators == room.num_accelerators == 512
    assert cluster.accelerator.peak_flops == room.chip.bf16
    text = (EXAMPLES / f"{name}.yaml").read_text(encoding="utf-8")
    assert "datasheet" in text.partition("version:")[0]
