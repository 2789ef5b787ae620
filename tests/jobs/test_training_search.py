"""Divisions of a step: the winner is that of all candidates one by one, and of the simulator."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product

import pytest
from training_runs import known

from ocs_codesign.faces.answers.sections import Table
from ocs_codesign.faces.answers.step import step_ranking_sections
from ocs_codesign.jobs.issue import run
from ocs_codesign.jobs.job_draft import JobDraft
from ocs_codesign.jobs.models.building import SCHEDULES, interleaved
from ocs_codesign.jobs.models.layer import Transformer
from ocs_codesign.jobs.training.constants import chip_named, software_named
from ocs_codesign.jobs.training.division import Division
from ocs_codesign.jobs.training.layers import Method
from ocs_codesign.jobs.training.pipelines import FORWARD, WEIGHTS, ZERO_BUBBLE, zero_bubble
from ocs_codesign.jobs.training.room import Room
from ocs_codesign.jobs.training.search import rank_divisions
from ocs_codesign.jobs.training.step import StepModel, TrainedStep, estimate_step

MEGATRON, OLD = (Method(software_named(name)) for name in ("megatron", "megatron-2022"))


def small(layers, batch, **more):
    return Transformer(layers, 2048, 8, 8192, 32000, 4096, batch, kv_heads=2, gated=True, **more)


def room(servers, memory_bytes=80e9):
    return Room(replace(chip_named("a100"), memory_bytes=memory_bytes), servers, 4, 300e9, 25e9)


JOBS = {
    "a prime of layers": (small(7, 24), room(1), MEGATRON, "1f1b"),
    "three servers": (small(6, 60), room(3), MEGATRON, "1f1b"),
    "little memory": (small(5, 20), room(1, 7e9), MEGATRON, "1f1b"),
    "experts": (small(4, 16, experts=4, top_k=2), room(1, 20e9), MEGATRON, "1f1b"),
    "zero bubble, scores kept": (small(6, 35), room(1, 40e9), OLD, "zb-h1"),
}


STATES = ((0, 1), (1, 1), (2, 1), (3, 1), (3, 2), (3, 3), (3, 4), (3, 6))
"""ZeRO's stage, and replicas that hold all states."""


def every_division(model, where, method, schedule):
    """All divisions of a small job, in loops of their own; what the rules refuse is left out."""
    degrees = range(1, where.num_accelerators + 1)
    kinds = [("none", None), ("full", None)]
    kinds += [("full", layers) for layers in range(1, model.layers)]
    kinds += [("experts", None)] if model.experts > 1 else []
    kinds += [("attention", None)] if method.attends == "unfused" else []
    for data, tensor, pipeline in product(degrees, (1, 2, 4), degrees):
        if data * tensor * pipeline > where.num_accelerators:
            continue
        for expert, (zero, replicas), microbatch, chunks, (recompute, again) in product(
            *({1, 2, 4} if model.experts > 1 else {1}, STATES, (1, 2, 4, 8, 16)),
            *(range(1, model.layers + 1), kinds),
        ):
            if zero == 3 and pipeline > 1:  # parameters stay gathered: zero 3 in name only
                continue
            if replicas > 1 and replicas >= data:
                continue
            if zero == 0 and data > 1:  # as fast as zero 1, and larger
                continue
            try:
                division = Division(
                    *(data, tensor, pipeline, 1, expert),
                    zero=zero,
                    microbatch=microbatch,
                    chunks=chunks,
                    replicas=replicas,
                    recompute=recompute,
                    recompute_layers=again,
                    schedule=schedule if pipeline > 1 else "1f1b",
                )
                yield estimate_step(model, division, where, method)
            except ValueError:
                continue


LONG = ("a prime of layers", "three servers", "experts")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in LONG else ()) for name in JOBS]
)
def test_the_winner_is_that_of_all_candidates_one_by_one(name):
    model, where, method, schedule = JOBS[name]
    job = TrainedStep(name, model, Division(schedule=schedule), method)
    ranking = rank_divisions(job, where, 3)
    seconds = [step.seconds for step in ranking.ranked]
    assert seconds == sorted(seconds)
    every = list(every_division(model, where, method, schedule))
    best = min((step for step in every if step.fits), key=lambda step: step.seconds)
    assert seconds[0] == pytest.approx(best.seconds, rel=1e-12)
    for step in every:
        assert StepModel(model, step.division, where, method).least_s() <= step.seconds
    assert simulated_pipeline_s(ranking.ranked[0]) == pytest.approx(
        pipeline_s(ranking.ranked[0]), rel=1e-6
    )


def pipeline_s(step):
    """The estimate's pipeline without messages between stages."""
    made = StepModel(step.model, step.division, step.room, step.method)
    return made.pipeline_s([made.body(stage) for stage in range(step.division.pipeline)])


def simulated_pipeline_s(step):
    """The same passes as nodes of a job, on the clock that simulates jobs."""
    division, model = step.division, step.model
    made = StepModel(model, division, step.room, step.method)
    stages, chunks, count = division.pipeline, division.chunks, division.microbatches(model)
    draft = JobDraft(stages)
    nodes: dict[tuple[int, int, int], int] = {}
    for stage in range(stages):
        body, row = made.body(stage), []
        for kind, number, chunk in order_of(division, stage, count, model):
            here = chunk * stages + stage
            head = made.head if here == stages * chunks - 1 else None
            split = division.schedule in ZERO_BUBBLE
            seconds = seconds_of(body, kind, split=split) / chunks
            seconds += seconds_of(head, kind, split=split) if head else 0.0
            nodes[kind, number, here] = draft.compute(stage, round(seconds * 1e9))
            row.append(nodes[kind, number, here])
        draft.in_turn(row)
    last = stages * chunks - 1
    for (kind, number, here), node in nodes.items():
        if kind == FORWARD and here:
            draft.wait(node, nodes[FORWARD, number, here - 1])
        elif kind == WEIGHTS:
            draft.wait(node, nodes[0, number, here])
        elif kind == 0:
            draft.wait(
                node, nodes[(FORWARD, number, here) if here == last else (0, number, here + 1)]
            )
    return int(run(draft.graph()).end.max()) / 1e9


def order_of(division, stage, count, model):
    stages, chunks = division.pipeline, division.chunks
    if division.schedule in ZERO_BUBBLE:
        return zero_bubble(stage, stages, count, ZERO_BUBBLE[division.schedule])
    if chunks > 1:
        return interleaved(stage, stages, count, chunks, division.turn(model))
    return SCHEDULES["1f1b"](stage, stages, count, 1)


def seconds_of(pair, kind, *, split):
    if kind == FORWARD:
        return pair.forward
    if kind == WEIGHTS:
        return pair.weights
    return pair.backward - (pair.weights if split else 0.0)


def model_of(name, sequence, batch):
    shape = known()["models"][name]
    return Transformer(
        *(shape["L"], shape["h"], shape["a"], shape["f"], shape["V"], sequence, batch, shape["kv"]),
        gated=bool(shape["gated"]),
        tied=bool(shape["tied"]),
        head_dim=shape["hd"],
    )


@pytest.mark.slow
def test_idle_accelerators_are_explained_with_the_nearest_batch():
    """250 hosts of one accelerator, which no degrees of 70B divide evenly."""
    where = Room(chip_named("h100"), 250, 1, 50e9, 50e9)
    job = TrainedStep("j", model_of("llama3-70b", 8192, 1024), Division(), MEGATRON)
    ranking = rank_divisions(job, where, 1)
    best = ranking.ranked[0].division
    assert best.num_ranks < 250
    assert f"{250 - best.num_ranks} of 250 accelerators are idle" in ranking.ranked[0].notes[-1]
    told = re.findall(r"batch of (\d+) .* use (\d+)", ranking.advice)
    batch, ranks = (int(number) for number in told[0])
    assert best.num_ranks < ranks <= 250
    padded = replace(job, model=replace(job.model, batch=batch))
    data = ranks * best.data // best.num_ranks
    assert replace(padded, division=replace(best, data=data)).on(where).division.num_ranks == ranks


def test_a_group_of_all_accelerators_has_no_advice():
    ranking = rank_divisions(TrainedStep("j", small(8, 32), Division(), MEGATRON), room(2), 1)
    assert ranking.ranked[0].division.num_ranks == 8
    assert ranking.advice is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "sequence", "batch", "chip", "servers", "same"),
    [
        ("llama3-405b", 8192, 2048, "h100", 2048, {"tensor": 8}),
        ("llama3-405b", 131072, 128, "h100", 2048, {"tensor": 8}),
        ("gpt-1t", 2048, 3072, "a100", 384, {"tensor": 8, "pipeline": 32, "chunks": 4}),
        ("llama3-70b", 8192, 1024, "h100", 32, {"tensor": 4, "pipeline": 4}),
    ],
)
def test_large_jobs_are_divided_as_published_or_faster(model, sequence, batch, chip, servers, same):
    """Winners use all accelerators, and no published division is faster by the same model."""
    inside, outside = (450e9, 50e9) if chip == "h100" else (300e9, 25e9)
    where = Room(chip_named(chip), servers, 8, inside, outside)
    published = {
        2048: Division(128, 8, 16, zero=1, chunks=4),
        384: Division(6, 8, 64, zero=1, chunks=2),
        32: Division(16, 4, 4, zero=1, chunks=5),
    }[servers]
    if sequence > 100_000:
        published = replace(published, data=8, context=16)
    job = TrainedStep("j", model_of(model, sequence, batch), published, MEGATRON)
    ranking = rank_divisions(job, where, 3)
    best = ranking.ranked[0]
    assert best.division.num_ranks == where.num_accelerators
    for name, degree in same.items():
        assert getattr(best.division, name) == degree
    assert best.seconds <= ranking.given.seconds or not ranking.given.fits
    assert best.seconds >= 0.85 * ranking.given.seconds


def test_a_division_of_the_file_that_cannot_be_is_a_row():
    job = TrainedStep("j", small(8, 64), Division(64, zero=1), MEGATRON)
    ranking = rank_divisions(job, room(2), 1)
    assert ranking.given is None
    assert ranking.refused == "64 ranks are asked for: there are 8 accelerators"
    told = list(step_ranking_sections("j", "c", ranking))
    tables = [each for each in told if isinstance(each, Table)]
    assert ranking.refused in tables[-1].rows[-1][-1]
