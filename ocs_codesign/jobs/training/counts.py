"""What a training step computes, holds and sends, exactly: parameters, operations, bytes.

Formulas: Korthikanti et al. (MLSys 2023) and Megatron-LM for activations and traffic, ZeRO (SC
2020) for states. A rank sends (n - 1) / n of what n ranks gather or scatter.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

from ocs_codesign.jobs.training.routing import held_experts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ocs_codesign.jobs.models.layer import Transformer
    from ocs_codesign.jobs.training.division import Division

OPTIMIZER_BYTES = 12
WEIGHT_BYTES = 2


@final
@dataclass(frozen=True, slots=True)
class StepOperations:
    """Multiplications and additions of a step of all ranks, forward where it is not said.

    ``model`` is three times forward; ``hardware`` has what is computed again too: attention in
    blocks computes its scores twice backward.
    """

    linear: int
    head: int
    attention_full: int
    attention_causal: int
    model_full: int
    model_causal: int
    hardware_causal: int


def step_operations(
    model: Transformer, recompute: str = "none", again: float = 1.0
) -> StepOperations:
    """The operations of a step, where that share of the layers is computed again.

    >>> from ocs_codesign.jobs.models.layer import Transformer
    >>> step_operations(Transformer(96, 12288, 96, 49152, 51200, 2048, 1536)).model_full
    3386196746387324928
    """
    tokens = model.batch * model.sequence
    tables = (1 if model.tied else 2) * model.vocabulary * model.hidden
    linear = 2 * tokens * (model.active_parameters - tables)
    head = 2 * tokens * model.hidden * model.vocabulary
    full = int(tokens * model.sequence * model.layers * score_operations(model) * model.window)
    causal = full // 2
    forward = linear + head + causal
    hardware = 3 * forward + causal // 2
    routed = 2 * tokens * model.num_expert_layers * model.top_k * model.expert_parameters
    more = {"full": linear + causal, "attention": causal, "second": linear // 2, "experts": routed}
    hardware += int(more.get(recompute, 0) * Fraction(again))
    model_full = 3 * (linear + head + full)
    return StepOperations(linear, head, full, causal, model_full, 3 * forward, hardware)


def score_operations(model: Transformer) -> int:
    """Operations of all heads for a query and a key, and for what its value adds."""
    if model.latent is not None:
        _, _, plain, turned, values = model.latent
        return 2 * model.heads * (plain + turned + values)
    return 4 * model.heads * model.size_of_head


def kv_heads_of_rank(model: Transformer, tensor: int) -> int:
    """Heads of keys and values that a tensor rank has, copies where there are more ranks."""
    return -(-(model.kv_heads or model.heads) // tensor)


@final
@dataclass(frozen=True, slots=True)
class StageCounts:
    """What a rank of a stage has and sends; bytes, of a microbatch unless it is of a step.

    ``dense`` parameters, ``tables`` of embedding and head among them, have copies over data and
    context, ``expert`` ones on expert copies.
    ``activations`` are of all passes that are held at once.
    """

    layers: int
    expert_layers: int
    tables: int
    dense: int
    expert: int
    weights: int
    gradients: int
    optimizer: int
    activations: int
    in_flight: int
    tensor_sent: int
    expert_sent: int
    context_sent: int
    pipeline_sent: int
    data_sent: int
    data_a_microbatch: bool

    @property
    def parameters(self) -> int:
        """All parameters that a rank has."""
        return self.dense + self.expert

    @property
    def held(self) -> int:
        """All bytes, without logits and what an allocator loses."""
        return self.weights + self.gradients + self.optimizer + self.activations


def stage_counts(
    model: Transformer, division: Division, which: Sequence[int] | None = None
) -> tuple[StageCounts, ...]:
    """The counts of every pipeline stage, or of some; ValueError for what cannot be divided so."""
    division.check(model)
    layers = division.layers(model)
    chosen = range(division.pipeline) if which is None else which
    return tuple(
        _stage(model, division, stage, (sum(layers[:stage]), layers[stage])) for stage in chosen
    )


def _stage(
    model: Transformer, division: Division, stage: int, where: tuple[int, int]
) -> StageCounts:
    first, layers = where
    sparse = model.expert_layers(first, layers)
    plain = layers - sparse
    ends = (stage == 0) + (stage == division.pipeline - 1)
    tables = model.vocabulary * model.hidden // division.tensor
    copies_of_table = 1 if division.pipeline == 1 and model.tied else ends
    dense = layers * attention_parameters(model, division.tensor) + copies_of_table * tables
    dense += plain * (model.dense_parameters // division.tensor)
    if sparse:
        shared = model.shared_experts * model.expert_parameters // division.tensor
        dense += sparse * (shared + model.hidden * model.experts)
    held = held_experts(model, division.expert)
    expert = sparse * held * (model.expert_parameters // division.expert_tensor)
    activations = _activations(model, division, plain, sparse)
    activations -= int(activations * division.offload)
    in_flight = division.in_flight(model, stage)
    whole = 2 * division.tokens(model) * model.hidden
    blocks = 2 * plain + sparse * (1 + (model.shared_experts > 0))
    share = Fraction(division.again(layers), layers)
    rounds = 5 + (2 * share if division.recompute == "full" else 0)
    tensor = int(rounds * blocks * _others(whole, division.tensor))
    rows = division.tokens(model) * model.top_k * model.hidden * 2 // division.tensor
    trips = 4 + (2 * share if division.recompute == "full" else 0)
    routed = int(sparse * trips * _others(rows, division.expert)) if model.experts > 1 else 0
    sent, each = _data_sent(division, (dense, expert), division.microbatches(model))
    return StageCounts(
        layers,
        sparse,
        copies_of_table * tables,
        dense,
        expert,
        *_states(division, dense, expert),
        activations * in_flight // division.chunks,
        in_flight,
        tensor,
        routed,
        layers * context_sent(model, division),
        _pipeline_sent(model, division, stage),
        sent,
        each,
    )


def attention_parameters(model: Transformer, tensor: int) -> int:
    """Parameters of attention that a tensor rank has in a layer."""
    if model.latent is not None:
        queries, kept, _, turned, _ = model.latent
        alone = model.hidden * (queries + kept + turned)
        return alone + (model.attention_parameters - alone) // tensor
    kv = kv_heads_of_rank(model, tensor)
    return 2 * model.hidden * model.size_of_head * (model.heads // tensor + kv)


def context_sent(model: Transformer, division: Division) -> int:
    """Bytes of keys, values and their gradients that a rank sends round its context, a layer."""
    kept = 2 * kv_heads_of_rank(model, division.tensor) * model.size_of_head
    return 3 * (division.context - 1) * 2 * division.tokens(model) * kept


def _others(size: int, ranks: int) -> int:
    """What a rank sends of a whole that so many ranks gather or scatter."""
    return size * (ranks - 1) // ranks


def _states(division: Division, dense: int, expert: int) -> tuple[int, int, int]:
    """Bytes of weights, gradients and optimizer."""
    sizes = []
    twice = division.directions
    kinds = ((3, WEIGHT_BYTES), (2, division.gradient_bytes), (1, OPTIMIZER_BYTES))
    for least, each in kinds:
        divided = division.zero >= least
        shards = division.shards(division.copies), division.shards(division.expert_copies)
        parts = zip((dense, expert), shards, strict=True)
        sizes.append(sum(each * count // (ranks if divided else 1) for count, ranks in parts))
    return twice * sizes[0], twice * sizes[1], sizes[2]


def _data_sent(
    division: Division, parameters: tuple[int, int], microbatches: int
) -> tuple[int, bool]:
    """Bytes of gradients and parameters, of a step, or with ZeRO 3 of a microbatch."""
    gradient = division.gradient_bytes
    each = {
        0: 2 * gradient,
        1: gradient + WEIGHT_BYTES,
        2: gradient * microbatches + WEIGHT_BYTES,
        3: gradient + 2 * WEIGHT_BYTES,
    }[division.zero]
    # Across replicas the shard of a gradient is summed, as often as it is scattered inside.
    across = 2 * gradient * (microbatches if division.zero == 2 else 1)
    sent = Fraction(0)
    for count, copies in zip(parameters, (division.copies, division.expert_copies), strict=True):
        shards = division.shards(copies)
        sent += Fraction(each * count * (shards - 1), shards)
        sent += Fraction(across * count * (division.replicas - 1), shards * division.replicas)
    return int(division.directions * sent), division.zero == 3


def _pipeline_sent(model: Transformer, division: Division, stage: int) -> int:
    if division.pipeline == 1:
        return 0
    ends = (stage == 0) + (stage == division.pipeline - 1)
    each = 2 * division.tokens(model) * model.hidden // division.tensor
    return (2 * division.chunks - ends) * each


def _activations(model: Transformer, division: Division, plain: int, sparse: int) -> int:
    """Bytes that a microbatch leaves in so many layers of either kind until it goes backward.

    Layers that are computed again are the first ones of a stage.
    """
    if division.again(plain + sparse) == plain + sparse or division.recompute == "none":
        return _kept(model, division, division.recompute, plain, sparse)
    first = division.again(plain + sparse)
    again = min(plain, first), max(0, first - plain)
    kept = _kept(model, division, division.recompute, *again)
    return kept + _kept(model, division, "none", plain - again[0], sparse - again[1])


def _kept(model: Transformer, division: Division, recompute: str, plain: int, sparse: int) -> int:
    tokens, tensor = division.tokens(model), division.tensor
    if recompute == "full":
        return (plain + sparse) * (2 * tokens * model.hidden // tensor)
    matrices = 3 if model.gated else 2
    norms = 8 * tokens * model.hidden // tensor
    around = norms + _attention_activations(model, division)
    dense = around + 2 * tokens * matrices * model.feed_forward // tensor
    total = plain * dense
    if sparse:
        rows = tokens * model.top_k // tensor
        width = model.expert_width // division.expert_tensor
        if recompute == "experts":
            routed = rows * 4 * model.hidden
        else:
            routed = rows * (4 * model.hidden + 2 * matrices * width)
        shared = 2 * tokens * matrices * model.shared_experts * model.expert_width // tensor
        total += sparse * (around + routed + shared + 4 * tokens * model.experts // tensor)
    return total * 3 // 5 if recompute == "second" else total


def _attention_activations(model: Transformer, division: Division) -> int:
    """Bytes of queries, keys, values, what comes out, and the sums of exponentials."""
    tokens, tensor, heads = division.tokens(model), division.tensor, model.heads
    if model.latent is not None:
        queries, kept, plain, turned, values = model.latent
        wide = heads * (2 * (plain + turned) + 2 * values) // tensor
        numbers = queries + kept + turned + wide
    else:
        kv = kv_heads_of_rank(model, tensor)
        numbers = 2 * model.size_of_head * (heads // tensor + kv)
    return 2 * tokens * numbers + 4 * tokens * heads // tensor
