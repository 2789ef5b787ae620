"""A step as layers whose gradients are summed: what policies of communication are compared on."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from ocs_codesign.jobs.layers import LayerTimes
from ocs_codesign.jobs.training.step import StepModel

if TYPE_CHECKING:
    from ocs_codesign.jobs.training.room import Room
    from ocs_codesign.jobs.training.step import StepEstimate, TrainedStep


class StepLayers(NamedTuple):
    """Layers of the pipeline stage whose gradients take longest, and the step as published runs
    have it: what a rank of the stage computes, and sends with nothing else on the wires."""

    layers: LayerTimes
    stage: int
    estimate: StepEstimate


def step_layers(trained: TrainedStep, room: Room) -> StepLayers:
    """The last microbatch of a step layer by layer; all that is not of it as one layer behind.

    That one has the other microbatches, waiting in the pipeline, optimizer and jitter, so that
    periods are those of steps. Embedding and head have gradients of their own. Raises ValueError
    where gradients are summed once a microbatch, and where nobody has copies.

    >>> from ocs_codesign.jobs.models.layer import Transformer
    >>> from ocs_codesign.jobs.training.constants import chip_named, software_named
    >>> from ocs_codesign.jobs.training.division import Division
    >>> from ocs_codesign.jobs.training.layers import Method
    >>> from ocs_codesign.jobs.training.room import Room
    >>> from ocs_codesign.jobs.training.step import TrainedStep
    >>> small = Transformer(8, 1024, 8, 4096, 32000, 1024, 64)
    >>> job = TrainedStep("j", small, Division(8, zero=1), Method(software_named("megatron")))
    >>> step_layers(job, Room(chip_named("h100"), 1, 8, 450e9, 50e9)).layers.num_layers
    11
    """
    division = trained.division
    if division.zero > 1:
        raise ValueError(
            f"zero is {division.zero}: policies are compared where gradients are summed once a "
            "step, with zero 0 or 1"
        )
    if division.copies == 1:
        raise ValueError("data and context are 1: no gradients are summed")
    made = StepModel(trained.model, division, room, trained.method)
    estimate = made.estimate()
    stage = max(range(division.pipeline), key=made.gradients_s)
    forward, backward, sums = [], [], []
    tables_s, layer_s = made.gradients_by_layer_s(stage)
    is_last = stage == division.pipeline - 1
    both = stage == 0 and is_last and not trained.model.tied
    if stage == 0:
        forward, backward, sums = [0.0], [0.0], [tables_s / (2 if both else 1)]
    for sparse, (layers, again) in made.layers[stage].items():
        for layer in range(layers):
            pair = made.layer(sparse=sparse, again=layer < again)
            forward.append(pair.forward)
            backward.append(pair.backward)
            sums.append(layer_s)
    if is_last:
        forward.append(made.head.forward)
        backward.append(made.head.backward)
        sums.append(tables_s / 2 if both else tables_s if stage else 0.0)
    rest = estimate.seconds - estimate.parts["data"] - sum(forward) - sum(backward)
    forward.append(max(0.0, rest))
    backward.append(0.0)
    sums.append(0.0)
    columns = _in_nanoseconds(forward), _in_nanoseconds(backward), _in_nanoseconds(sums)
    return StepLayers(LayerTimes(*columns), stage, estimate)


def _in_nanoseconds(row: list[float]) -> list[Fraction]:
    return [Fraction(round(time * 1e9), 10**9) for time in row]
