"""Policies of communication on the layers of a step, beside what the software hides."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ocs_codesign.faces.cli import main
from ocs_codesign.jobs.models.layer import Transformer
from ocs_codesign.jobs.policies import compare_policies
from ocs_codesign.jobs.training.constants import chip_named, software_named
from ocs_codesign.jobs.training.division import Division
from ocs_codesign.jobs.training.layers import Method
from ocs_codesign.jobs.training.room import Room
from ocs_codesign.jobs.training.step import StepModel, TrainedStep
from ocs_codesign.jobs.training.step_layers import step_layers

MODEL = Transformer(9, 2048, 16, 8192, 64000, 2048, 64, 4, gated=True, tied=False)
SLOW = Room(chip_named("h100"), 4, 8, 450e9, 2e9)
METHOD = Method(software_named("megatron"))


@pytest.mark.parametrize(
    "division",
    [Division(32, zero=1), Division(16, 2), Division(8, 1, 3, zero=1), Division(4, 2, 3, chunks=1)],
    ids=str,
)
@pytest.mark.parametrize("tied", [False, True])
def test_layers_have_all_of_a_step(division, tied):
    """Everything in turn takes the step without what overlaps, and the preset lies between."""
    step = TrainedStep("j", replace(MODEL, tied=tied), division, METHOD)
    layers, stage, estimate = step_layers(step, SLOW)
    made = StepModel(step.model, division, SLOW, METHOD)
    computed = float(sum(layers.forward_s + layers.backward_s))
    assert computed == pytest.approx(estimate.seconds - estimate.parts["data"], abs=1e-6)
    sums = float(sum(layers.allreduce_s))
    assert sums == pytest.approx(made.gradients_s(stage), abs=1e-6)
    assert max(map(made.gradients_s, range(division.pipeline))) == made.gradients_s(stage)
    periods = {
        outcome.name: float(outcome.steady.period_s)
        for outcome in compare_policies(layers.graph(), ("serial", "fifo", "dear", "ddp"))
    }
    assert periods["serial"] == pytest.approx(computed + sums, abs=1e-6)
    assert all(float(layers.bound_s) <= period <= periods["serial"] for period in periods.values())
    assert periods["dear"] < periods["serial"]
    assert float(layers.bound_s) <= estimate.seconds <= periods["serial"] + 1e-6


@pytest.mark.parametrize(
    ("division", "match"),
    [
        (Division(32, zero=2), "zero is 2: policies are compared where gradients are summed once"),
        (Division(1, 8), "data and context are 1: no gradients are summed"),
    ],
)
def test_steps_without_gradients_to_order_are_refused(division, match):
    with pytest.raises(ValueError, match=match):
        step_layers(TrainedStep("j", MODEL, division, METHOD), SLOW)


def test_the_command_compares_on_a_cluster(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["example", "."]) == 0
    capsys.readouterr()
    words = ["compare-policies", "llama3_70b.yaml", "h100x64.yaml"]
    assert main([*words, "--policy", "fifo", "--policy", "serial", "--json", "-"]) == 0
    told = json.loads(capsys.readouterr().out)
    periods = {each["policy"]: each["period_s"] for each in told["policies"]}
    assert told["bound_s"] <= periods["fifo"] < periods["serial"]
    assert main([*words, "--alpha", "1us", "--bandwidth", "1GB/s"]) == 2
    assert "CLUSTER says what messages cost" in capsys.readouterr().err
