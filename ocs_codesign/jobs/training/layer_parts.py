"""What a layer of a division takes, by part: kernels, what is computed again, exposed messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ocs_codesign.jobs.training.constants import constants
from ocs_codesign.jobs.training.counts import context_sent
from ocs_codesign.jobs.training.layers import DENSE_KERNELS, EXPERT_KERNELS, Kernels, Pair
from ocs_codesign.jobs.training.routing import skew_of

if TYPE_CHECKING:
    from ocs_codesign.jobs.training.room import Room

LayerKinds = dict[bool, dict[str, Pair]]
"""What a layer takes, with experts (True) and without, by part."""


def layer_kinds(kernels: Kernels, room: Room) -> LayerKinds:
    """The parts of the kinds of layers that a model has."""
    model = kernels.model
    sparse = model.num_expert_layers
    kinds = {False: sparse < model.layers, True: sparse > 0}
    return {kind: _parts(kernels, room, sparse=kind) for kind, has in kinds.items() if has}


class _Work(NamedTuple):
    """Kernels of a layer by what they are."""

    projections: Pair
    maps: Pair
    attention: Pair
    rest: Pair
    fixed: Pair

    def total(self) -> Pair:
        total = ZERO
        for part in self:
            total = total.plus(part)
        return total


ZERO = Pair(0.0, 0.0)


def _parts(kernels: Kernels, room: Room, *, sparse: bool) -> dict[str, Pair]:
    """What a layer takes by part; ``again`` is what recomputing it whole or in part adds."""
    work = _work(kernels, sparse=sparse)
    expert = _expert(kernels, room, work.total()) if sparse else ZERO
    tensor = _tensor(kernels, room, sparse=sparse)
    return {
        "work": work.total(),
        "again": Pair(0.0, _again(kernels, work, tensor, expert, sparse=sparse)),
        "tensor": tensor,
        "expert": expert,
        "context": _context(kernels, room, work.attention),
    }


def _work(kernels: Kernels, *, sparse: bool) -> _Work:
    model, division = kernels.model, kernels.division
    if sparse:
        maps = kernels.experts()
        rows = division.tokens(model) * model.top_k / division.tensor
        rest, launches = kernels.elementwise(0.0, rows), EXPERT_KERNELS
        routing_s = constants()["expert_layer_s"]
    else:
        maps = kernels.feed_forward(model.feed_forward)
        rest = kernels.elementwise(model.feed_forward / division.tensor)
        launches, routing_s = DENSE_KERNELS, 0.0
    launch = launches * constants()["launch_s"]
    fixed = Pair(launch + routing_s, launch + 1.6 * routing_s)
    return _Work(kernels.projections(), maps, kernels.attention(), rest, fixed)


def _again(kernels: Kernels, work: _Work, tensor: Pair, expert: Pair, *, sparse: bool) -> float:
    """Seconds of what is computed, and sent, again in backward."""
    recompute = kernels.division.recompute
    if recompute == "full":
        return work.total().forward + tensor.forward + expert.forward
    if recompute == "attention":
        return work.attention.forward
    if recompute == "second":
        linear = work.projections.forward + work.maps.forward
        return constants()["second_products"] * linear + work.rest.forward
    if recompute == "experts" and sparse:
        return work.maps.forward + work.rest.forward / 2  # what was dispatched is kept
    return 0.0


def _tensor(kernels: Kernels, room: Room, *, sparse: bool) -> Pair:
    """What tensor collectives of a layer leave exposed.

    With sequence parallelism two of P a half block each way, the gather of the stored input under
    the gradient of weights; without it an allreduce, half of which hides backward.
    """
    model, division, software = kernels.model, kernels.division, kernels.method.software
    blocks = 2 if not sparse else 1 + (model.shared_experts > 0)
    tensor = division.tensor
    whole = 2 * division.tokens(model) * model.hidden
    each = room.wire_s(whole * (tensor - 1) / tensor, tensor)
    forward = 2 * blocks * each
    if software.sequence:
        left = (1 - software.tensor_hidden) * forward
        return Pair(left, left)
    return Pair(forward, forward / 2)


def _context(kernels: Kernels, room: Room, attention: Pair) -> Pair:
    division, software = kernels.division, kernels.method.software
    sent = context_sent(kernels.model, division) / 3
    wire = room.wire_s(sent, division.context, division.tensor)
    hidden, exposed = software.context_hidden, software.context_exposed
    return Pair(
        max(0.0, wire - hidden * attention.forward) + exposed * wire,
        max(0.0, 2 * wire - hidden * attention.backward) + exposed * 2 * wire,
    )


def _expert(kernels: Kernels, room: Room, work: Pair) -> Pair:
    """What dispatch and combine leave exposed.

    Where two microbatches run against each other (DeepSeek-V3, 2024), forward of one lies under
    backward of the other: what their kernels do not cover is left, and a share at least.
    """
    model, division, software = kernels.model, kernels.division, kernels.method.software
    rows = division.tokens(model) * model.top_k * model.hidden * 2 / division.tensor
    skew = skew_of(model, division.expert).median_wire
    sent = skew * rows * (division.expert - 1) / division.expert
    trips = 1.5 if software.fp8_dispatch and kernels.method.precision == "fp8" else 2.0
    wire = trips * room.experts_s(model, division, sent)
    left = software.expert_exposed * wire
    if division.schedule != "dualpipe":
        return Pair(left, left)
    return Pair(max(left, wire - work.backward), max(left, wire - work.forward))
