"""Places of experts in a training step: held while popularity moves on, anew when that pays.

Placed by what they got in one step, experts lose in those after it; moving weights and states of an
optimizer to new places takes time as well. Dispatches, combines and the busiest rank's products
count, of a layer whose popularity is drawn step by step, times all layers of the fullest stage.
"""

from __future__ import annotations

from functools import lru_cache, partial
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from ocs_codesign.jobs.training.constants import constants
from ocs_codesign.jobs.training.counts import OPTIMIZER_BYTES, WEIGHT_BYTES, stage_counts
from ocs_codesign.jobs.training.layers import Kernels
from ocs_codesign.jobs.training.routing import STEPS, drawn_tokens

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ocs_codesign.core.network import Network
    from ocs_codesign.jobs.models.layer import Transformer
    from ocs_codesign.jobs.training.division import Division
    from ocs_codesign.jobs.training.layers import Method
    from ocs_codesign.jobs.training.room import Room
    from ocs_codesign.jobs.training.step import StepEstimate

NEVER = 2**62
"""Units of an expert that no regret pays for."""


class HeldPlaces(NamedTuple):
    """When experts are placed anew in so many steps, and seconds of a step, moves included.

    ``changed_at`` are numbers of steps after the first. ``move_s`` is the dearest placing anew;
    ``step_s`` is the mean of steps that hold places, ``never_s`` of those that keep the first and
    ``always_s`` of those that choose anew each step, at most.
    """

    num_steps: int
    changed_at: tuple[int, ...]
    move_s: float
    step_s: float
    never_s: float
    always_s: float


def held_places(step: StepEstimate) -> HeldPlaces | None:
    """Where experts of unlike popularity are placed by it; None for a step of others.

    >>> from dataclasses import replace
    >>> from ocs_codesign.jobs.models.layer import Transformer
    >>> from ocs_codesign.jobs.training.constants import chip_named, software_named
    >>> from ocs_codesign.jobs.training.division import Division
    >>> from ocs_codesign.jobs.training.layers import Method
    >>> from ocs_codesign.jobs.training.room import Room
    >>> from ocs_codesign.jobs.training.step import estimate_step
    >>> room = Room(chip_named("h100"), 2, 8, 450e9, 50e9)
    >>> model = Transformer(4, 1024, 16, 4096, 32000, 4096, 64, experts=16, top_k=2)
    >>> model = replace(model, routing="moving", spare_experts=16)
    >>> method = Method(software_named("nemo"))
    >>> found = held_places(estimate_step(model, Division(16, expert=16), room, method))
    >>> None if found is None else (found.changed_at, found.step_s < 0.7 * found.never_s)
    ((2, 5, 8, 11, 14), True)
    """
    model = step.model
    if model.spare_experts is None or step.division.expert == 1 or model.routing == "even":
        return None
    return _held(model, step.division, step.room, step.method)


@lru_cache(maxsize=16)
def _held(model: Transformer, division: Division, room: Room, method: Method) -> HeldPlaces:
    from ocs_codesign.schedules.exchange.drift import held_experts
    from ocs_codesign.schedules.exchange.experts import expert_counts, expert_tokens

    ranks, microbatches = division.expert, division.microbatches(model)
    tokens = drawn_tokens(ranks, model.top_k)
    drawn = {"experts": model.experts, "top_k": model.top_k, "ranks": ranks, "tokens": tokens}
    popular = [expert_tokens(model.routing, **drawn, step=at) for at in range(STEPS)]

    def counts(at: int, home: NDArray[np.int64]) -> NDArray[np.int64]:
        return expert_counts(model.routing, **drawn, step=at, once=True, home=home)

    rows = max(1, division.tokens(model) * model.top_k // division.tensor)
    kernels = Kernels(model, division, room.chip, method, microbatches)
    work = kernels.expert(rows)
    # A token that is drawn stands for so many of a rank's in a step.
    scale = division.tokens(model) * microbatches / division.tensor / tokens
    software = method.software
    trips = 3.0 if software.fp8_dispatch and method.precision == "fp8" else 4.0
    unit_s = scale * trips * software.expert_exposed * 2 * model.hidden / _UNIT_BPS
    expert_s = _expert_bytes(model, division) / _UNIT_BPS
    holds = partial(
        held_experts,
        *(_network(division, room), popular, counts),
        spare=model.spare_experts or 0,
        working=scale * (work.forward + work.backward) / rows / unit_s,
    )
    held, never = holds(ceil(expert_s / unit_s)), holds(NEVER)
    layers = max(each.expert_layers for each in stage_counts(model, division))
    of_all = layers * unit_s
    moved = held.replanning * (STEPS - 1)
    return HeldPlaces(
        STEPS,
        tuple(held.planned[1:].tolist()),
        of_all * held.replanning,
        *(
            of_all * float(one) / STEPS
            for one in (held.total, never.total, sum(held.least) + moved)
        ),
    )


_UNIT_BPS = 1e6


def _network(division: Division, room: Room) -> Network:
    """Ranks of experts in servers, on as many rails as a server has of them."""
    from ocs_codesign.core.networks.servers import boxes

    known, ranks = constants(), division.expert
    share = known["expert_share"]
    inside = ceil(share * known["inside_share"] * room.inside_Bps / _UNIT_BPS)
    outside = ceil(share * room.outside_Bps / _UNIT_BPS)
    mates = max(1, room.accelerators_a_server // division.tensor)
    if mates >= ranks or ranks % mates:
        alone = inside if mates >= ranks else outside
        return boxes(ranks, 1, alone, alone)
    return boxes(ranks // mates, mates, inside, outside, outer=mates)


def _expert_bytes(model: Transformer, division: Division) -> float:
    """Weights of an expert and what the optimizer keeps of it that go to a new place, of a rank."""
    each = model.expert_parameters / division.expert_tensor
    shards = division.shards(division.expert_copies) if division.zero else 1
    return float(each * (WEIGHT_BYTES + OPTIMIZER_BYTES / shards))
