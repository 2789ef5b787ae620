"""Models of training: known sizes and periods, classes against ranks, and files of jobs."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest
from folders import EXAMPLES

from ocs_codesign.core.cost import CostModel
from ocs_codesign.jobs.files.job_files import job_json_schema, load_job, parse_job
from ocs_codesign.jobs.fused import Accelerator
from ocs_codesign.jobs.issue import period_bound_s, run, steady
from ocs_codesign.jobs.models.building import SCHEDULES, Parallel, job_of
from ocs_codesign.jobs.models.layer import (
    Block,
    ModelOnRanks,
    Recommender,
    ResidualNetwork,
    Transformer,
)
from ocs_codesign.jobs.prices import Level, Machine, priced
from ocs_codesign.jobs.rewriting import gradients
from ocs_codesign.schedules.design import measure

MACHINE = Machine((Level(8, CostModel(2e-6, 3e11)), Level(64, CostModel(5e-6, 5e10))))
PROCESSOR = Accelerator(312e12, 2e12)
SMALL = Transformer(4, 512, 8, 2048, 8000, 256, 32)
MOE = Transformer(4, 512, 8, 2048, 8000, 256, 32, experts=4, top_k=2, gated=True)


def one_second_layers(num):
    return tuple((Block("work", 0, 4.0 / num, 0.0),) for _ in range(num))


@pytest.mark.parametrize(
    ("schedule", "chunks", "expected"),
    [("gpipe", 1, 33), ("1f1b", 1, 33), ("interleaved", 2, 28.5), ("breadth-first", 2, 28.5)],
)
def test_bubbles_of_pipelines(schedule, chunks, expected):
    """Four stages, eight microbatches, f = 1, b = 2: (m + p - 1)(f + b); chunks divide p - 1."""
    parallel = Parallel(pipeline=4, microbatches=8, schedule=schedule, chunks=chunks)
    model = ModelOnRanks("x", one_second_layers(4 * chunks), 0, 2, 0)
    job = job_of(model, parallel, Accelerator(1.0, 1.0))
    assert run(job).total_s == expected
    assert steady(job).period_s == expected


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize(("stages", "microbatches"), [(1, 1), (3, 6), (4, 4), (5, 5)])
def test_passes_are_all_there_once(name, stages, microbatches):
    chunks = 2 if name in ("interleaved", "breadth-first") else 1
    for stage in range(stages):
        passes = SCHEDULES[name](stage, stages, microbatches, chunks)
        assert len(set(passes)) == len(passes) == 2 * microbatches * chunks
        for each in passes:
            if not each.is_forward:
                assert passes.index(each._replace(is_forward=True)) < passes.index(each)


def test_published_sizes():
    gpt3 = Transformer(96, 12288, 96, 49152, 50257, 2048, 1536)
    assert gpt3.num_parameters == pytest.approx(175e9, rel=0.01)
    mixtral = Transformer(
        *(32, 4096, 32, 14336, 32000, 4096, 256), kv_heads=8, gated=True, experts=8, top_k=2,
        tied=False,
    )  # fmt: skip
    assert mixtral.num_parameters == pytest.approx(46.7e9, rel=0.001)
    resnet = ResidualNetwork((3, 4, 6, 3), 224, 1000, 64)
    assert resnet.num_parameters == 25_557_032
    assert resnet.multiplications == pytest.approx(4.1e9, rel=0.01)
    assert ResidualNetwork((3, 4, 23, 3), 224, 1000, 64).num_parameters == 44_549_160
    dlrm = load_job(EXAMPLES / "dlrm.yaml")
    assert "24.04 billion" in dlrm.text


DIVIDED = [
    (SMALL, {"data": 4, "tensor": 2, "pipeline": 2, "microbatches": 4}),
    (
        SMALL,
        {"data": 4, "tensor": 2, "pipeline": 2, "microbatches": 2, "zero": 1, "sequence": True},
    ),
    (SMALL, {"data": 4, "zero": 3, "microbatches": 2}),
    (SMALL, {"data": 2, "pipeline": 2, "microbatches": 2, "chunks": 2, "schedule": "interleaved"}),
    (MOE, {"data": 8, "expert": 4, "tensor": 2, "sequence": True, "zero": 2}),
    (MOE, {"data": 4, "expert": 2, "pipeline": 2, "microbatches": 2}),
]


@pytest.mark.parametrize(("model", "degrees"), DIVIDED)
def test_a_class_does_what_its_ranks_do(model, degrees):
    parallel = Parallel(**degrees)
    parallel.check_alike(MACHINE)
    on_ranks = model.on_ranks(parallel)
    found = [
        steady(priced(job_of(on_ranks, parallel, PROCESSOR, ranks_alone=alone), MACHINE))
        for alone in (False, True)
    ]
    assert found[0].period_s == found[1].period_s
    assert found[0].exposed_s == found[1].exposed_s
    job = priced(job_of(model.on_ranks(parallel), parallel, PROCESSOR), MACHINE)
    assert found[0].period_s >= period_bound_s(job)


def sent(degrees, model=SMALL):
    """Bytes by collective and whether they are gradients' of one class."""
    parallel = Parallel(**degrees)
    job = job_of(model.on_ranks(parallel), parallel, PROCESSOR)
    sums = {}
    for kind in np.unique(job.kind[job.kind > 2]).tolist():
        sums[kind] = int(job.size_bytes[job.kind == kind].sum())
    return job, sums


def test_bytes_of_zero():
    """DP: an allreduce of all parameters; ZeRO 1 half of it each; ZeRO 3 two gathers, a scatter."""
    gather, scatter, reduce = 3, 4, 5
    whole = 2 * SMALL.num_parameters
    assert sent({"data": 4})[1] == {reduce: whole}
    assert sent({"data": 4, "zero": 1})[1] == {gather: whole, scatter: whole}
    job, zero3 = sent({"data": 4, "zero": 3})
    assert zero3 == {gather: 2 * whole, scatter: whole}
    assert (job.kind[gradients(job)] == scatter).all()


def test_bytes_of_tensor_and_expert_parallelism():
    activation = 32 * 256 * 512 * 2
    assert sent({"tensor": 2})[1] == {5: 4 * 4 * activation}
    halves = sent({"tensor": 2, "sequence": True})[1]
    assert halves == {3: 4 * 4 * activation, 4: 4 * 4 * activation}
    swaps = sent({"data": 2, "expert": 2}, MOE)[1][6]
    assert swaps == 4 * 4 * 2 * activation // 2


BAD = [
    ({"expert": 3, "data": 4}, "expert is 3: it divides data"),
    ({"zero": 4}, "zero is 4"),
    ({"schedule": "zigzag"}, "schedule is 'zigzag'"),
    ({"chunks": 2}, "1f1b has one chunk a stage"),
    ({"schedule": "interleaved", "pipeline": 4, "microbatches": 6}, "a multiple of 4 microbatches"),
    ({"data": 0}, "data is 0"),
    ({"data": 5}, "batch is 32: data times microbatches, 5, does not divide it"),
    ({"tensor": 16}, "heads is 8: tensor, 16, does not divide it"),
    ({"pipeline": 3}, "layers is 4: pipeline times chunks, 3, does not divide it"),
    ({"data": 2, "expert": 2}, "experts is 1: expert, 2, does not divide it"),
]


@pytest.mark.parametrize(("degrees", "message"), BAD)
def test_what_does_not_go_together(degrees, message):
    with pytest.raises(ValueError, match=message):
        SMALL.on_ranks(Parallel(**degrees))


def test_groups_that_lie_unevenly_are_refused():
    with pytest.raises(ValueError, match="cut groups of tensor ranks unevenly"):
        Parallel(tensor=3, data=2).check_alike(MACHINE)
    with pytest.raises(ValueError, match="128 ranks are asked for: the machine has 64"):
        Parallel(data=128).check_alike(MACHINE)
    with pytest.raises(ValueError, match="heads is 3: it divides hidden"):
        Transformer(1, 4, 3, 4, 4, 4, 4)
    with pytest.raises(ValueError, match="top_k is 2: there are 1 experts"):
        Transformer(1, 4, 2, 4, 4, 4, 4, top_k=2)
    with pytest.raises(ValueError, match="bottom ends with 3"):
        Recommender(1, 1, 4, 1, (2, 3), (2, 1), 8)


def test_a_fused_recommender_is_faster():
    periods = []
    for fused in (False, True):
        model = Recommender(
            *(26, 10**6, 128, 32, (13, 512, 128), (479, 1024, 1), 65536), fused=fused
        )
        machine = Machine((Level(16, CostModel(1e-6, 5e10), "direct"),))
        job = model.job(16, Accelerator(19.5e12, 2e12), machine)
        kept = (job.work > 0) & job.is_communication
        timed = priced(job, machine)
        finer = int(job.tick_s / timed.tick_s)
        timed = timed.changed(
            work=np.where(kept, job.work * finer, timed.work),
            latency=np.where(kept, job.latency * finer, timed.latency),
        )
        periods.append(steady(timed).period_s)
    assert periods[1] < periods[0]


@pytest.mark.parametrize(
    "name", [pytest.param("gpt3", marks=pytest.mark.slow), "mixtral", "dlrm", "resnet50", "layers"]
)
def test_examples_are_read(name):
    job = load_job(EXAMPLES / f"{name}.yaml")
    done = steady(job.graph)
    assert done.is_steady
    assert done.period_s >= period_bound_s(job.graph) > 0


NODES = """\
name: two
ranks: 2
machine: {levels: [{ranks: 2, alpha: 1us, bandwidth: 1GB/s}]}
nodes:
- {name: a, kind: compute, rank: 0, time: 5us, after_last: [d]}
- {name: b, kind: send, rank: 0, to: 1, size: 1000B, after: [a]}
- {name: c, kind: compute, rank: 1, time: 2us, after: [b], after_last: [d]}
- {name: d, kind: allreduce, size: 1000B, after: [a, c], gradient: true}
"""


def test_nodes_one_by_one(tmp_path):
    job = parse_job(NODES.encode(), "j.yaml")
    assert steady(job.graph).period_s == Fraction(5 + 2 + 2 + 3, 10**6)
    path = tmp_path / "j.json"
    plain = {"name": "j", "nodes": [{"name": "a", "kind": "compute", "time": "1s"}]}
    path.write_text(json.dumps(plain), encoding="utf-8")
    assert run(load_job(path).graph).total_s == 1
    assert "layers" in job_json_schema()["properties"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("time: 5us", "time: 5", "line 5: nodes[0].time is 5: write a time as text"),
        ("kind: send", "kind: post", "line 6: nodes[1].kind is 'post': it is one of compute"),
        ("to: 1", "to: 0", "nodes[1].to is missing: a send goes to another rank"),
        ("rank: 1,", "rank: 7,", "nodes[2] names ranks [7]: they are 0 to 1"),
        ("after: [b]", "after: [z]", "line 7: nodes[2].after names 'z': no node before it"),
        ("name: b", "name: a", "line 6: nodes[1].name is 'a': another node has this name"),
        ("after: [b]", "after: [a]", "nodes[2].after names 'a': it is a node of other ranks"),
        (
            "machine: {levels: [{ranks: 2, alpha: 1us, bandwidth: 1GB/s}]}\n",
            "",
            "size is given: the file needs a machine",
        ),
        ("gradient", "gradent", "nodes[3].gradent is no known key: did you mean gradient?"),
        ("ranks: 2\n", "ranks: 3\n", "rank 2 is not there: the machine has 2"),
    ],
)
def test_bad_nodes(old, new, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is compared
        parse_job(NODES.replace(old, new, 1).encode(), "j.yaml")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "hidden: 4096",
            "hidden: wide",
            "line 8: model.hidden is 'wide': it must be a whole number",
        ),
        ("gated", "gate", "model.gate is no known key: did you mean gated?"),
        ("  hidden: 4096\n", "", "line 5: model.hidden is missing"),
        ("kind: transformer", "kind: gru", "model"),
        ("data: 64", "data: 60", "line 19: parallel.expert is 8: it divides data"),
        (
            "accelerator: {peak: 312e+12, memory: 2TB/s}\n",
            "",
            "line 5: model: it needs a machine and an accelerator",
        ),
        ("zero: 1", "zero: 9", "parallel.zero is 9: it must be at most 3"),
        (
            "ranks: 8,",
            "ranks: 12,",
            "line 22: machine.levels: a level of 256 ranks is not several blocks of 12",
        ),
        ("direct", "best", "algorithm is 'best': it is one of ring, direct, bruck"),
    ],
)
def test_bad_models(old, new, message):
    text = (EXAMPLES / "mixtral.yaml").read_text(encoding="utf-8")
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is compared
        parse_job(text.replace(old, new, 1).encode(), "m.yaml")
    assert message in str(caught.value)
    assert str(caught.value).startswith("m.yaml")


def test_layers_with_gradients_of_bytes():
    text = (
        "name: l\nmachine: {levels: [{ranks: 4, alpha: 1us, bandwidth: 1GB/s}]}\n"
        "layers: [{forward: 1us, backward: 2us, gradient: 2kB, count: 2}]\n"
    )
    job = parse_job(text.encode(), "l.yaml").graph
    assert job.ticks[gradients(job)].tolist() == [9000 / (job.tick_s * 10**9)] * 2
    for bad, message in (
        (text.replace("gradient: 2kB", "allreduce: 1us, gradient: 2kB"), "has either allreduce"),
        (text.replace("name: l\n", "name: l\nnodes: [{name: a, kind: compute}]\n"), "one of"),
        ("name: l\nlayers: [{forward: 1us, backward: 1us, gradient: 1B}]", "needs a machine"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            parse_job(bad.encode(), "l.yaml")


def test_what_is_too_much_is_refused_before_it_is_made():
    parallel = Parallel(microbatches=2**20)
    model = ModelOnRanks("x", one_second_layers(4), 0, 2, 0)
    with pytest.raises(ValueError, match="1048576 microbatches through 4 blocks: at most"):
        job_of(model, parallel, PROCESSOR)
    for text, message in (
        ("layers: [{forward: 1e-300s, backward: 1s, allreduce: 1s}]", "from 0 to 2\\^62 ticks"),
        ("layers: [{forward: 1s, backward: 1s, allreduce: 1s, count: 9999}, "
         "{forward: 1s, backward: 1s, allreduce: 1s, count: 2}]", "10001 layers: at most 10000"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            parse_job(f"name: x\n{text}\n".encode(), "x.yaml")


def test_collectives_cost_what_schedules_of_topologies_do():
    """Eight ranks on Hypercube(3): 3 steps and 7/8 each way, instead of a ring's 7."""
    text = (
        "name: l\nlayers: [{forward: 1us, backward: 2us, gradient: 8kB}]\nmachine: {levels: "
        "[{ranks: 8, alpha: 1us, bandwidth: 1GB/s, topologies: ['Hypercube(3)']}]}\n"
    )
    cost = measure("Hypercube(3)", "allreduce").cost
    job = parse_job(text.encode(), "l.yaml").graph
    assert (cost.steps, cost.t_b) == (6, Fraction(7, 4))
    seconds = int(job.ticks[gradients(job)][0]) * job.tick_s
    assert seconds == cost.time_s(CostModel(1e-6, 1e9), 8000)
    for bad, message in (
        (text.replace("Hypercube", "Hyprcube"), "Hyprcube"),
        (text.replace("['Hypercube(3)']", "['Hypercube(3)', 'Complete(8)']"), "two of 8 nodes"),
    ):
        with pytest.raises(ValueError, match=message):
            parse_job(bad.encode(), "l.yaml")


@pytest.mark.slow
def test_a_job_of_16384_ranks_by_classes():
    text = (EXAMPLES / "gpt3.yaml").read_text(encoding="utf-8")
    text = text.replace("batch: 1536", "batch: 16384").replace("data: 12", "data: 128")
    job = parse_job(text.replace("ranks: 1536", "ranks: 16384").encode(), "x.yaml")
    assert int(job.graph.ranks.sum()) == 16384
    assert steady(job.graph).is_steady
