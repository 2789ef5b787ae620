"""Seconds of a layer's kernels on one rank: products by shape and tiles, attention, the rest.

A product takes its operations at what the chip sustains, times a share for its depth and one for
the tiles that its last wave leaves idle, or the bytes that it moves; the rest moves bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ocs_codesign.jobs.training.constants import attention_share, constants
from ocs_codesign.jobs.training.counts import kv_heads_of_rank, score_operations
from ocs_codesign.jobs.training.routing import held_experts, skew_of

if TYPE_CHECKING:
    from ocs_codesign.jobs.models.layer import Transformer
    from ocs_codesign.jobs.training.constants import Chip, Software
    from ocs_codesign.jobs.training.division import Division

TILES = ((128, 256, 1.0), (256, 128, 1.0), (128, 128, 0.92), (64, 128, 0.75))
"""Rows, columns and relative speed of the tiles that a product is cut into."""

DENSE_KERNELS, EXPERT_KERNELS = 9, 14
"""Kernels of a layer beside its products."""


class Pair(NamedTuple):
    """Seconds forward and backward, and of the latter those of gradients of weights."""

    forward: float
    backward: float
    weights: float = 0.0

    @property
    def total(self) -> float:
        """Seconds of both ways."""
        return self.forward + self.backward

    def plus(self, other: Pair, times: float = 1) -> Pair:
        """The sum with so many times another."""
        return Pair(
            self.forward + times * other.forward,
            self.backward + times * other.backward,
            self.weights + times * other.weights,
        )


def tile_share(rows: int, columns: int, processors: int) -> float:
    """The share of its speed that a product keeps when tiles fill waves of processors.

    >>> round(tile_share(1024, 10240, 108), 6), round(tile_share(100, 4096, 132), 6)
    (0.987654, 0.284091)
    """
    best = 0.0
    for high, wide, speed in TILES:
        waves = -(-(-(-rows // high) * -(-columns // wide)) // processors)
        best = max(best, speed * rows * columns / (high * wide * waves * processors))
    return best


class Method(NamedTuple):
    """How a step is computed: software, type of the layers' products, kind of attention."""

    software: Software
    precision: str = "bf16"
    attention: str | None = None

    @property
    def attends(self) -> str:
        """The kind of attention."""
        return self.attention or self.software.attention


class Kernels(NamedTuple):
    """Kernels of a model on a chip, for one division and one way of computing."""

    model: Transformer
    division: Division
    chip: Chip
    method: Method
    microbatches: int

    def rate(self, precision: str) -> tuple[float, float]:
        """Peak and sustained share, of the processors that are not kept for wires."""
        peak, share = self.chip.rate(precision)
        left = self.chip.processors - self.method.software.processors_for_wires
        return peak * left / self.chip.processors, share

    def memory_s(self, moved_bytes: float) -> float:
        """Seconds to move bytes of the accelerator's memory."""
        return moved_bytes / (constants()["memory_share"] * self.chip.memory_Bps)

    def product(self, rows: int, columns: int, depth: int, precision: str = "bf16") -> float:
        """Seconds of a product of rows x depth by depth x columns."""
        half = constants()["half_depth"] * (2 if precision == "fp8" else 1)
        peak, share = self.rate(precision)
        left = self.chip.processors - self.method.software.processors_for_wires
        share *= self.method.software.products
        speed = peak * share * depth / (depth + half) * tile_share(rows, columns, left)
        each = 1 if precision == "fp8" else 2
        moved = each * depth * (rows + columns) + 2 * rows * columns
        work = max(2 * rows * columns * depth / speed, self.memory_s(moved))
        return work + constants()["launch_s"]

    def linear(self, rows: int, columns: int, depth: int, precision: str | None = None) -> Pair:
        """A linear map, and backward the gradients of its input and of its weights.

        In fp8 inputs are cast each time, weights once a step.
        """
        kind = precision or self.method.precision
        forward = self.product(rows, columns, depth, kind)
        weights = self.product(columns, depth, rows, kind)
        backward = self.product(rows, depth, columns, kind) + weights
        if kind == "fp8":
            cast = self.memory_s(constants()["cast_bytes"])
            forward += cast * (rows * depth + columns * depth / self.microbatches)
            backward += cast * rows * columns
        return Pair(forward, backward, weights)

    def projections(self) -> Pair:
        """The linear maps of attention."""
        model, tensor = self.model, self.division.tensor
        tokens = self.division.tokens(model)
        if model.latent is not None:
            queries, kept, plain, turned, values = model.latent
            heads = model.heads // tensor
            maps = [
                (queries, model.hidden),
                (heads * (plain + turned), queries),
                (kept + turned, model.hidden),
                (heads * (plain + values), kept),
                (model.hidden, heads * values),
            ]
        else:
            wide = model.heads // tensor + 2 * kv_heads_of_rank(model, tensor)
            maps = [
                (wide * model.size_of_head, model.hidden),
                (model.hidden, model.heads * model.size_of_head // tensor),
            ]
        total = Pair(0.0, 0.0)
        for columns, depth in maps:
            total = total.plus(self.linear(tokens, columns, depth))
        return total

    def attention(self) -> Pair:
        """Scores, their softmax and what values add: of the causal half, or unfused of all."""
        model, known = self.model, constants()
        tokens = self.division.tokens(model)
        each = score_operations(model) * model.window / self.division.tensor
        work = tokens * model.sequence * each
        peak, sustained = self.rate("bf16")
        if self.method.attends == "unfused":
            scores = self.memory_s(9.0 * tokens * model.sequence * model.heads)
            speed = peak * sustained * self.method.software.attention_factor
            speed *= known["unfused_attention"]
            moved = scores / self.division.tensor
            return Pair(work / speed + moved, 2 * work / speed + moved)
        share = attention_share(self.method.attends, self.chip)
        share *= sustained_share_of_class(self.chip) * self.method.software.attention_factor
        length = model.sequence / self.division.context
        share *= length / (length + known["attention_half"])
        if model.latent is None:
            share *= min(1.0, model.size_of_head / 128) ** known["narrow_heads"]
        forward = work / 2 / (peak * share)
        return Pair(forward, known["attention_backward"] * forward)

    def feed_forward(self, width: int) -> Pair:
        """The linear maps of a feed-forward part that tensor ranks divide."""
        rows = self.division.tokens(self.model)
        return self._two_maps(rows, width // self.division.tensor)

    def _two_maps(self, rows: int, width: int) -> Pair:
        first = (2 if self.model.gated else 1) * width
        into = self.linear(rows, first, self.model.hidden)
        return into.plus(self.linear(rows, self.model.hidden, width))

    def expert(self, rows: int) -> Pair:
        """The linear maps of an expert with so many tokens."""
        return self._two_maps(rows, self.model.expert_width // self.division.expert_tensor)

    def experts(self) -> Pair:
        """The linear maps of the experts of a rank, of those shared, and of the router."""
        model, division = self.model, self.division
        tokens = division.tokens(model)
        held = held_experts(model, division.expert)
        spread, skew = tokens * model.top_k / held, skew_of(model, division.expert).median_rows
        rows = max(1, round(skew * spread / division.tensor * division.expert_tensor))
        total = Pair(0.0, 0.0).plus(self.expert(rows), held)
        if model.shared_experts:
            total = total.plus(self.feed_forward(model.shared_experts * model.expert_width))
        divided = tokens // (division.tensor if self.method.software.sequence else 1)
        return total.plus(self.linear(divided, model.experts, model.hidden, "bf16"))

    def elementwise(self, width: float, rows: float = 0.0) -> Pair:
        """Norms, activations, additions: with ``width`` numbers a token, ``rows`` for experts."""
        model, software = self.model, self.method.software
        tokens, tensor = self.division.tokens(model), self.division.tensor
        hidden = tokens * model.hidden / (tensor if software.sequence else 1)
        if model.latent is not None:
            _, _, plain, turned, _ = model.latent
            columns = 2 * model.heads * (plain + turned) / tensor
        else:
            kv = kv_heads_of_rank(model, tensor)
            columns = model.size_of_head * (model.heads / tensor + kv)
        forward_each, backward_each = (6, 10) if model.gated else (4, 6)
        more = 2 if software.dropout else 0
        forward = (20 + more) * hidden + 4 * tokens * columns + tokens * width * forward_each
        backward = (28 + more) * hidden + 4 * tokens * columns + tokens * width * backward_each
        forward += rows * (4 * model.hidden + model.expert_width * forward_each)
        backward += rows * (6 * model.hidden + model.expert_width * backward_each)
        factor = software.elementwise
        if self.method.precision == "fp8" and software.elementwise_fp8 is not None:
            factor = software.elementwise_fp8
        return Pair(factor * self.memory_s(forward), factor * self.memory_s(backward))

    def head(self) -> Pair:
        """The product with the vocabulary and its softmax, in bf16."""
        model = self.model
        tokens, rows = self.division.tokens(model), model.vocabulary // self.division.tensor
        maps = self.linear(tokens, rows, model.hidden, "bf16")
        moved = self.memory_s(self.method.software.logit_bytes / 2 * tokens * rows)
        return maps.plus(Pair(moved, moved))


def sustained_share_of_class(chip: Chip) -> float:
    """What a chip that is held back sustains of its kind, so that attention is held back too."""
    from ocs_codesign.jobs.training.constants import chips

    if not chip.name.startswith("h100-"):
        return 1.0
    return chip.sustained[0] / chips()["h100"].sustained[0]
