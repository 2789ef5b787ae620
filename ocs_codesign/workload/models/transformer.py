"""Transformers: parameters and operations of their layers, dense or with experts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.workload.models.layer import (
    EXPERT,
    EXPERT_DATA,
    TENSOR,
    Block,
    Exchange,
    Layer,
    ModelOnRanks,
)

if TYPE_CHECKING:
    from ocs_codesign.workload.models.parallel import Parallel


@final
@dataclass(frozen=True, slots=True)
class Transformer:
    """A decoder of ``layers`` alike; ``batch`` sequences an iteration of all ranks together.

    ``kv_heads`` (as many as ``heads`` if None) have keys and values; ``gated`` layers have three
    matrices instead of two. Every token goes to ``top_k`` of ``experts``. ``tied``: the head uses
    the embedding's matrix. Raises ValueError for what is no such model.

    >>> gpt3 = Transformer(96, 12288, 96, 49152, 50257, 2048, 1536)
    >>> round(gpt3.num_parameters / 1e9, 1)
    174.6
    """

    layers: int
    hidden: int
    heads: int
    feed_forward: int
    vocabulary: int
    sequence: int
    batch: int
    kv_heads: int | None = None
    gated: bool = False
    experts: int = 1
    top_k: int = 1
    tied: bool = True
    element_bytes: int = 2

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if value is not None and not isinstance(value, bool) and not 1 <= value <= 2**40:
                raise ValueError(f"{name} is {value}: it is at least 1")
        if self.hidden % self.heads:
            raise ValueError(f"heads is {self.heads}: it divides hidden, which is {self.hidden}")
        if self.heads % (self.kv_heads or self.heads):
            raise ValueError(f"kv_heads is {self.kv_heads}: it divides heads, {self.heads}")
        if self.top_k > self.experts:
            raise ValueError(f"top_k is {self.top_k}: there are {self.experts} experts")

    @property
    def attention_parameters(self) -> int:
        """Parameters of the four projections of a layer."""
        kept = (self.kv_heads or self.heads) * self.hidden // self.heads
        return 2 * self.hidden * self.hidden + 2 * self.hidden * kept

    @property
    def expert_parameters(self) -> int:
        """Parameters of one expert, or of the feed-forward part of a layer without experts."""
        return (3 if self.gated else 2) * self.hidden * self.feed_forward

    @property
    def num_parameters(self) -> int:
        """All parameters; norms, biases and positions are left out."""
        router = self.hidden * self.experts if self.experts > 1 else 0
        layer = self.attention_parameters + self.experts * self.expert_parameters + router
        return self.layers * layer + (1 if self.tied else 2) * self.vocabulary * self.hidden

    def on_ranks(self, parallel: Parallel) -> ModelOnRanks:
        """What a rank of every stage computes and sends; ValueError if it cannot be divided so."""
        per_microbatch = parallel.data * parallel.microbatches
        divided = {
            "batch": (self.batch, per_microbatch, "data times microbatches"),
            "heads": (self.heads, parallel.tensor, "tensor"),
            "feed_forward": (self.feed_forward, parallel.tensor, "tensor"),
            "experts": (self.experts, parallel.expert, "expert"),
            "layers": (self.layers, parallel.pipeline * parallel.chunks, "pipeline times chunks"),
        }
        for name, (whole, parts, what) in divided.items():
            if whole % parts:
                raise ValueError(f"{name} is {whole}: {what}, {parts}, does not divide it")
        tokens = self.batch // per_microbatch * self.sequence
        activation = tokens * self.hidden * self.element_bytes
        layer = (self._attention(parallel, tokens), self._feed_forward(parallel, tokens))
        share = parallel.tensor if parallel.sequence else 1
        first: Layer = (self._table("embedding", parallel, tokens, is_head=False), *layer)
        last: Layer = (*layer, self._table("head", parallel, tokens, is_head=True))
        if self.layers == 1:
            stack: tuple[Layer, ...] = ((first[0], *last),)
        else:
            stack = (first, *[layer] * (self.layers - 2), last)
        return ModelOnRanks(
            "transformer", stack, activation // share, self.element_bytes, self.num_parameters
        )

    def _table(self, name: str, parallel: Parallel, tokens: int, *, is_head: bool) -> Block:
        rows = self.vocabulary * self.hidden // parallel.tensor
        shared = is_head and self.tied and parallel.pipeline == 1
        operations = 2.0 * tokens * rows if is_head else 0.0
        moved = (rows if is_head else 0) + 2 * tokens * self.hidden
        return Block(name, 0 if shared else rows, operations, float(moved * self.element_bytes))

    def _attention(self, parallel: Parallel, tokens: int) -> Block:
        parameters = self.attention_parameters // parallel.tensor
        scores = 4.0 * tokens * self.sequence * self.hidden / parallel.tensor
        moved = parameters + 4 * tokens * self.hidden // parallel.tensor
        return Block(
            "attention",
            parameters,
            2.0 * tokens * parameters + scores,
            float(moved * self.element_bytes),
            **self._tensor_exchanges(parallel, tokens),
        )

    def _feed_forward(self, parallel: Parallel, tokens: int) -> Block:
        one = self.expert_parameters // parallel.tensor
        held = self.experts // parallel.expert * one
        active = tokens * self.top_k
        moved = held + 2 * active * (self.hidden + self.feed_forward // parallel.tensor)
        exchanges = self._tensor_exchanges(parallel, tokens)
        has_experts = self.experts > 1
        if has_experts and parallel.expert > 1:
            share = parallel.tensor if parallel.sequence else 1
            size = active * self.hidden * self.element_bytes // share
            swap = Exchange("alltoall", EXPERT, size)
            exchanges = {
                "before": (swap, *exchanges["before"]),
                "after": (*exchanges["after"], swap),
                "backward_before": (swap, *exchanges["backward_before"]),
                "backward_after": (*exchanges["backward_after"], swap),
            }
        router = self.hidden * self.experts if has_experts else 0
        return Block(
            "experts" if has_experts else "feed-forward",
            held + router,
            2.0 * active * one + 2.0 * tokens * router,
            float(moved * self.element_bytes),
            **exchanges,
            copies=EXPERT_DATA if has_experts and parallel.expert > 1 else "data",
        )

    def _tensor_exchanges(self, parallel: Parallel, tokens: int) -> dict[str, Any]:
        """An allreduce each way; with sequence parallelism an allgather and a reduce-scatter."""
        none: tuple[Exchange, ...] = ()
        names = ("before", "after", "backward_before", "backward_after")
        if parallel.tensor == 1:
            return dict.fromkeys(names, none)
        size = tokens * self.hidden * self.element_bytes
        gather, scatter, whole = (
            (Exchange(name, TENSOR, size),) for name in ("allgather", "reduce-scatter", "allreduce")
        )
        if parallel.sequence:
            return dict(zip(names, (gather, scatter, gather, scatter), strict=True))
        return dict(zip(names, (none, whole, none, whole), strict=True))
