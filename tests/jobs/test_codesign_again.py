"""Winners whose circuits change, simulated again as a whole, under other seeds, and bad files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from codesign_samples import CLUSTER, DENSE, JOB, cluster, planner

from ocs_codesign.faces.cli import main
from ocs_codesign.jobs.cluster_design.candidates import Joining
from ocs_codesign.jobs.cluster_design.outcomes import late_job, late_of, resimulated, run_of
from ocs_codesign.jobs.cluster_design.planning import codesign
from ocs_codesign.jobs.issue import run

DEEP = replace(DENSE, layers=4, batch=32, hidden=512, feed_forward=2048)
WIDE = replace(DEEP, batch=16, hidden=1024, heads=8, feed_forward=4096)
CHANGING_JOB = """\
name: deep
model: {kind: transformer, layers: 4, hidden: 512, heads: 4, feed_forward: 2048, vocabulary: 1000,
  sequence: 128, batch: 32}
"""
CHANGING_CLUSTER = """\
name: hosts
servers: {count: 8}
accelerator: {peak: 10e+12, memory: 200MB, memory_bandwidth: 500GB/s}
optics: {ports: 4, port_bandwidth: 8Gbps, alpha: 5us, switch: polatis-384, delta: 10us}
"""


@pytest.mark.parametrize(
    ("model", "hosts", "ports", "rate", "dark_us", "early"),
    [
        (DEEP, 8, 4, 10**9, 10, {"pipeline": 4}),
        (DEEP, 11, 4, 10**9, 10, {"pipeline": 4}),
        (DEEP, 8, 3, 10**9, 10, {"pipeline": 2}),
        (WIDE, 8, 3, 5 * 10**9, 0, {"tensor": 3}),
    ],
    ids=["round", "prime", "a port left over", "tensor"],
)
def test_a_winner_whose_circuits_change_simulated_rank_by_rank_takes_as_long(
    model, hosts, ports, rate, dark_us, early
):
    on = replace(
        cluster(hosts, 1, ports, memory=2 * 10**8, delta=Fraction(dark_us, 10**6)),
        port_Bps=Fraction(rate),
    )
    used = planner(model, on)
    plan = codesign(used.trained, on, ("fifo",))
    best = plan.best
    assert best.candidate.joining is Joining.CHANGING
    assert (best.candidate.ports, best.candidate.late_ports) == (early, {"replica": ports})
    for alone in (False, True):
        passes, period_s = resimulated(used, best, ranks_alone=alone)
        assert period_s == best.period_s
        parallel = best.candidate.parallel
        assert passes.num_owners == (parallel.num_ranks if alone else parallel.pipeline)
    # The picture shows the passes; what is left is gradients and the dead times.
    graph = used.graph(best.candidate.parallel)
    late_s = run(late_job(best.candidate, graph, on)).total_s
    assert late_s == late_of(best.candidate, graph, on) > 0
    assert run_of(plan).total_s + late_s + Fraction(2 * dark_us, 10**6) == best.period_s
    # Every other candidate that was simulated and is held takes no less, nor does a usual fabric.
    assert all(best.period_s <= one.period_s for one in plan.ranked)
    assert any(not one.candidate.late_ports for one in plan.ranked)


def test_gradients_alone_wait_for_no_message_of_passes():
    """Two copies of a pipeline: the stage with the embedding has the most to send, by hand."""
    on = replace(cluster(8, 1, 4, memory=2 * 10**8, delta=Fraction(0)), port_Bps=Fraction(10**9))
    used = planner(DEEP, on)
    best = codesign(used.trained, on, ("fifo",)).best
    parallel = best.candidate.parallel
    assert (parallel.data, parallel.pipeline, parallel.zero) == (2, 4, 1)
    layer = 2 * (4 * 512 * 512 + 2 * 512 * 2048)
    # A reduce-scatter and an allgather of half of M each, of what the first or last stage holds.
    seconds = Fraction(layer + 2 * 1000 * 512, 4 * 10**9)
    late_s = late_of(best.candidate, used.graph(parallel), on)
    assert late_s - 6 * Fraction(5, 10**6) == seconds


def test_seeds_change_nothing_where_circuits_change(tmp_path):
    (tmp_path / "job.yaml").write_text(CHANGING_JOB, encoding="utf-8")
    (tmp_path / "cluster.yaml").write_text(CHANGING_CLUSTER, encoding="utf-8")
    words = ["codesign", "job.yaml", "cluster.yaml", "--policy", "fifo", "--json", "-"]
    answers = []
    for seed in ("0", "7"):
        done = subprocess.run(
            [sys.executable, "-m", "ocs_codesign", *words],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            cwd=tmp_path,
        )
        answers.append(done.stdout)
    assert answers[0] == answers[1]
    best = json.loads(answers[0])["ranking"][0]
    assert best["joining"] == "circuits that change"
    assert best["gradient_designs"]
    assert best["dark_s"] == pytest.approx(20e-6)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        (
            "job",
            JOB.replace("kind: transformer", "kind: transfomer"),
            "line 2: model is {'kind': 'transfomer'",
        ),
        ("job", JOB.replace("experts: 2", "experts: 2.5"), "line 11: model.experts is 2.5"),
        ("job", JOB.replace("batch: 8", "batch: [8]"), "line 10: model.batch is [8]"),
        ("job", JOB.replace("data: 4", "data: 4, data: 4"), "line 12"),
        ("job", JOB + "parallels: {data: 4}\n", "line 13: parallels is no known key"),
        ("cluster", CLUSTER + "prices: {nic: -1}\n", "line 5: prices.nic is -1"),
        ("cluster", CLUSTER + "prices: {packet_port: 0}\n", "line 5: prices.packet_port is 0"),
        (
            "cluster",
            CLUSTER + "prices: {packet_port: .inf}\n",
            "line 5: .inf is not a number: numbers are finite",
        ),
        ("cluster", CLUSTER + "version: 3\n", "line 5: version is 3"),
        ("cluster", CLUSTER.replace("{count: 4,", "{count: 4"), "cluster.yaml, line 2"),
        ("cluster", "- name: eight\n", "cluster.yaml"),
        ("cluster", "", "cluster.yaml"),
    ],
)
def test_nonsense_in_yaml_has_line_path_and_rule(tmp_path, monkeypatch, capsys, name, text, told):
    monkeypatch.chdir(tmp_path)
    given = {"job": JOB, "cluster": CLUSTER} | {name: text}
    for part, written in given.items():
        Path(f"{part}.yaml").write_text(written, encoding="utf-8")
    assert main(["codesign", "job.yaml", "cluster.yaml", "--policy", "fifo"]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(f"Error: {name}.yaml")
    assert told in shown.err
    assert len(shown.err.strip().splitlines()) == 1
