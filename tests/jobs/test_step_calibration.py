"""Measured steps: what a few say of others, tables and logs, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from statistics import median

import pytest
from fit_training import COMMON, LEFT_OUT, runs_of, with_values
from training_runs import published

from ocs_codesign.faces.answers.step import POORLY_APART
from ocs_codesign.faces.cli import main
from ocs_codesign.jobs.training.constants import with_constants
from ocs_codesign.jobs.training.fitting import MeasuredStep, calibrate_steps

STORED = json.loads(LEFT_OUT.read_text())
JOB = """
name: j
model: {kind: transformer, layers: 8, hidden: 4096, heads: 32, kv_heads: 8, feed_forward: 14336,
  vocabulary: 128256, sequence: 8192, batch: 16, gated: true, tied: false}
parallel: {data: 8, zero: 3, step: {software: torchtitan, microbatch: 1, factors: {products: 3.0}}}
"""
CLUSTER = """
name: c
servers: {count: 1, accelerators: 8, scale_up: 450GB/s}
accelerator: {name: h100}
network: {bandwidth: 50GB/s}
"""


@pytest.mark.parametrize("source", STORED)
def test_five_runs_halve_the_error_of_a_source_that_was_left_out(source):
    """Constants were fitted without it; five of its runs, evenly apart, fit the three factors.

    Nine percent are what releases of one software differ by: a source that is within is known.
    """
    values = STORED[source]
    with with_constants({name: values[name] for name in COMMON}):
        measured = []
        for run in runs_of(source):
            step, room = with_values(*published(run), values)
            tokens = step.model.batch * step.model.sequence
            seconds = tokens / run["tps"] / step.division.num_ranks
            measured.append(MeasuredStep(step, room, seconds))
        chosen = {round(place * (len(measured) - 1) / 4) for place in range(5)}
        found = calibrate_steps([measured[place] for place in sorted(chosen)])
        before, after = [], []
        for place, (step, room, seconds) in enumerate(measured):
            if place in chosen:
                continue
            software = found.software(step.method.software)
            mine = replace(step, method=step.method._replace(software=software))
            before.append(abs(step.on(room).seconds / seconds - 1))
            after.append(abs(mine.on(room).seconds / seconds - 1))
    assert len(chosen) == 5
    assert len(after) >= 5
    assert median(after) <= max(median(before) / 2, 0.09)


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "j.yaml").write_text(JOB)
    (tmp_path / "c.yaml").write_text(CLUSTER)
    return tmp_path


def answer(capsys, *words):
    code = main([*words, "--json", "-"])
    told = capsys.readouterr()
    return json.loads(told.out) if code == 0 else told.err


def test_factors_are_found_again_and_taken_by_iterate(files, capsys):
    """A machine with known factors is measured in three divisions, and found."""
    truth = JOB.replace("products: 3.0", "products: 0.8, elementwise: 1.5, attention: 0.7")
    rows = ["data,tensor,recompute,batch,sequence,seconds"]
    for data, tensor, recompute, batch, sequence in (
        (8, 1, "full", 16, 8192),
        (4, 2, "none", 8, 2048),
        (8, 1, "none", 8, 32768),
        (8, 1, "full", 8, 65536),
        (2, 4, "none", 8, 1024),
        (8, 1, "second", 16, 4096),
    ):
        job = truth.replace("microbatch: 1", f"microbatch: 1, recompute: {recompute}")
        job = job.replace("data: 8", f"data: {data}, tensor: {tensor}")
        job = job.replace("batch: 16", f"batch: {batch}").replace("8192", str(sequence))
        (files / "t.yaml").write_text(job)
        seconds = answer(capsys, "iterate", "t.yaml", "c.yaml")["step_seconds"]
        rows.append(f"{data},{tensor},{recompute},{batch},{sequence},{seconds:.9f}")
    (files / "m.csv").write_text("\n".join(rows))
    found = answer(capsys, "calibrate", "j.yaml", "c.yaml", "m.csv", "--out", "mine.yaml")
    assert found["factors"]["products"] == pytest.approx(0.8, rel=0.05)
    assert found["factors"]["attention"] == pytest.approx(0.7, rel=0.05)
    assert found["error_after"] < 0.01 < 0.1 < found["error_before"]
    # One chip and one software: elementwise kernels take a share of products, almost.
    assert found["apart"] < POORLY_APART
    told = answer(capsys, "iterate", "mine.yaml", "c.yaml")
    assert told["calibrated"]
    (files / "t.yaml").write_text(truth)
    real = answer(capsys, "iterate", "t.yaml", "c.yaml")
    assert told["step_seconds"] == pytest.approx(real["step_seconds"], rel=0.01)


LOGS = {
    "nemo": "Training epoch 0, iteration {}/9 | lr: 1e-4 | train_step_timing in s: {} | loss: 1",
    "megatron": " iteration {}/ 100 | elapsed time per iteration (ms): {}000 | loss: 2",
    "torchtitan": "\x1b[32mstep: {}  loss: 7  memory: 4GiB  \x1b[34mtps: {},384\x1b[0m  mfu: 4%",
}


@pytest.mark.parametrize("kind", LOGS)
def test_logs_are_read_without_their_first_step(files, capsys, kind):
    steps = [(1, 400), (2, 4), (3, 4), (4, 4)]
    (files / "log").write_text("\n".join(LOGS[kind].format(*step) for step in steps))
    found = answer(capsys, "calibrate", "j.yaml", "c.yaml", "log")
    seconds = 16 * 8192 / 8 / 4384 if kind == "torchtitan" else 4
    assert [step["measured_seconds"] for step in found["steps"]] == [pytest.approx(seconds)] * 3
    assert found["error_after"] < found["error_before"]


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ("data,seconds\n3,1\n", "line 2: parallel: batch is 16: 3 data ranks"),
        ("rank,seconds\n3,1\n", "column 'rank' is not once one of data"),
        ("data\n8\n", "it has one column of seconds"),
        ("data,seconds\n8\n", "line 2: 1 cells in 2 columns"),
        ("data,seconds\n8,nan\n", "line 2: seconds is 'nan': it is a positive number"),
        ("data,seconds\n8,1\n\n8,2\n", "2 measured steps: three or more"),
        ("data,seconds\nx,1\n", "line 2"),
        (f"data,seconds\n{'9' * 5000},1\n", "line 2: parallel.data is"),
        ("", "it has one column of"),
        ("data,seconds\n16,1\n16,1\n16,1\n", "16 ranks are asked for: there are 8"),
    ],
)
def test_tables_that_are_wrong_are_refused_in_a_sentence(files, capsys, content, match):
    (files / "m.csv").write_text(content)
    told = answer(capsys, "calibrate", "j.yaml", "c.yaml", "m.csv", "--out", "mine.yaml")
    assert match in told
    assert not (files / "mine.yaml").exists()


@pytest.mark.parametrize("left", ["parallel:", "parallel: {data: 8, step: }"])
def test_a_key_without_a_value_leaves_all_to_its_default(files, capsys, left):
    """YAML reads nothing as null."""
    (files / "j.yaml").write_text(JOB[: JOB.index("parallel:")] + left + "\n")
    (files / "m.csv").write_text("data,seconds\n8,1\n8,2\n")
    told = answer(capsys, "calibrate", "j.yaml", "c.yaml", "m.csv", "--out", "mine.yaml")
    assert "2 measured steps: three or more" in told


def test_a_log_without_steps_and_options_of_machines_are_refused(files, capsys):
    (files / "log").write_text("nothing\n")
    told = answer(capsys, "calibrate", "j.yaml", "c.yaml", "log")
    assert "no line has a step of NeMo" in told
    told = answer(capsys, "calibrate", "j.yaml", "c.yaml", "log", "--ranks", "4")
    assert "give no other options" in told
    assert "give JOB, CLUSTER" in answer(capsys, "calibrate", "j.yaml", "c.yaml")
