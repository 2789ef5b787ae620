"""Layers of a model on one rank: operations, memory, parameters and what is sent around them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.jobs.fused import FusedOperator, fused_nodes
from ocs_codesign.jobs.job_draft import JobDraft
from ocs_codesign.jobs.job_graph import NANOSECOND
from ocs_codesign.jobs.rewriting import ALLTOALL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.jobs.fused import Accelerator
    from ocs_codesign.jobs.job_graph import JobGraph
    from ocs_codesign.jobs.models.building import Parallel
    from ocs_codesign.jobs.prices import Machine


TENSOR, EXPERT, DATA, EXPERT_DATA = "tensor", "expert", "data", "expert-data"
"""Groups of ranks of a stage: those that share a tensor, the experts, and those with copies."""


@final
@dataclass(frozen=True, slots=True)
class Exchange:
    """A collective of M = ``size_bytes`` over a group."""

    collective: str
    group: str
    size_bytes: int


@final
@dataclass(frozen=True, slots=True)
class Block:
    """What a rank does with a microbatch between two exchanges: forward once, backward twice.

    ``operations`` and ``moved_bytes`` are of the forward pass, ``num_parameters`` what the rank
    holds, with copies in the group ``copies`` (DATA or EXPERT_DATA). Exchanges come before and
    after it forward; backward those of ``backward_before`` and ``backward_after``.
    """

    name: str
    num_parameters: int
    operations: float
    moved_bytes: float
    before: tuple[Exchange, ...] = ()
    after: tuple[Exchange, ...] = ()
    backward_before: tuple[Exchange, ...] = ()
    backward_after: tuple[Exchange, ...] = ()
    copies: str = DATA


Layer = tuple[Block, ...]


def like_parts(
    layers: tuple[Layer, ...], num_parts: int
) -> tuple[tuple[tuple[Block, ...], ...], tuple[int, ...]]:
    """The different parts of a stack, as blocks in order, and which of them each part is.

    Layers are alike where they are one object, as those that a model repeats are.

    >>> layer, last = (Block("a", 1, 1.0, 1.0),), (Block("b", 1, 1.0, 1.0),)
    >>> parts, which = like_parts((layer, layer, layer, layer, layer, last), 3)
    >>> [[block.name for block in part] for part in parts], which
    ([['a', 'a'], ['a', 'b']], (0, 0, 1))
    """
    each = len(layers) // num_parts
    known: dict[tuple[int, ...], int] = {}
    parts: list[tuple[Block, ...]] = []
    which: list[int] = []
    for first in range(0, each * num_parts, each):
        part = layers[first : first + each]
        key = tuple(map(id, part))
        if key not in known:
            known[key] = len(parts)
            parts.append(tuple(block for layer in part for block in layer))
        which.append(known[key])
    return tuple(parts), tuple(which)


@final
@dataclass(frozen=True, slots=True)
class ModelOnRanks:
    """The layers that a rank sees, in order, and what a stage hands to the next.

    ``whole_parameters`` counts the model's parameters once.
    """

    name: str
    layers: tuple[Layer, ...]
    handed_bytes: int
    element_bytes: int
    whole_parameters: int


# Transformers: parameters and operations of their layers, dense or with experts.


# Spelled out, since importing the generator of tokens takes long.
ROUTINGS = (*("even", "zipf", "hot_rank", "hot_spread", "ragged", "silent", "moving", "burst"),)


@final
@dataclass(frozen=True, slots=True)
class Transformer:
    """A decoder of ``layers`` alike; ``batch`` sequences an iteration of all ranks together.

    ``kv_heads`` (as many as ``heads`` if None) have keys and values of ``head_dim`` (hidden / heads
    if None); ``gated`` layers have three matrices instead of two. Every token goes to ``top_k`` of
    ``experts`` of width ``expert_feed_forward`` (``feed_forward`` if None) and to all of the
    ``shared_experts``, in all but the first ``dense_layers``; a token's experts are on at most
    ``expert_servers`` servers, if given. ``latent`` are the ranks and widths of multi-head latent
    attention: q rank, kv rank, and of a head what has no position, what has one, and values.
    ``window`` is the share of the scores that is computed. ``routing`` is how popular experts are,
    one of KINDS of ``schedules.exchange.experts``; ``spare_experts``: they are placed by it, with
    so many copies. ``tied``: the head uses the embedding's matrix. Raises ValueError for others.

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
    head_dim: int | None = None
    expert_feed_forward: int | None = None
    shared_experts: int = 0
    dense_layers: int = 0
    expert_servers: int | None = None
    latent: tuple[int, int, int, int, int] | None = None
    window: float = 1.0
    routing: str = "even"
    spare_experts: int | None = None

    def __post_init__(self) -> None:
        free = (
            "routing",
            "spare_experts",
            "shared_experts",
            "dense_layers",
            "latent",
            "window",
            "tied",
            "gated",
        )
        for name in self.__slots__:
            value = getattr(self, name)
            if name not in free and value is not None and not 1 <= value <= 2**40:
                raise ValueError(f"{name} is {value}: it is at least 1")
        if not 0 < self.window <= 1:
            raise ValueError(f"window is {self.window}: it is above 0 and at most 1")
        if not 0 <= self.dense_layers <= self.layers or not 0 <= self.shared_experts <= 2**10:
            raise ValueError(
                f"dense_layers is {self.dense_layers} and shared_experts {self.shared_experts}: "
                f"there are {self.layers} layers, and neither is negative"
            )
        if self.latent is not None and min(self.latent) < 1:
            raise ValueError(f"latent is {list(self.latent)}: each is at least 1")
        if self.head_dim is None and self.hidden % self.heads:
            raise ValueError(f"heads is {self.heads}: it divides hidden, which is {self.hidden}")
        if self.heads % (self.kv_heads or self.heads):
            raise ValueError(f"kv_heads is {self.kv_heads}: it divides heads, {self.heads}")
        if self.routing not in ROUTINGS:
            raise ValueError(f"routing is {self.routing!r}: one of {', '.join(ROUTINGS)}")
        if self.spare_experts is not None and not 0 <= self.spare_experts <= 2**20:
            raise ValueError(f"spare_experts is {self.spare_experts}: it is 0 to 2^20")
        if self.top_k > self.experts:
            raise ValueError(f"top_k is {self.top_k}: there are {self.experts} experts")

    @property
    def attention_parameters(self) -> int:
        """Parameters of the four projections of a layer."""
        if self.latent is not None:
            queries, kept, plain, turned, values = self.latent
            wide = queries * (plain + turned) + kept * (plain + values) + values * self.hidden
            return self.hidden * (queries + kept + turned) + self.heads * wide
        return 2 * self.hidden * self.size_of_head * (self.heads + (self.kv_heads or self.heads))

    @property
    def size_of_head(self) -> int:
        """Numbers of a head's query."""
        return self.head_dim or self.hidden // self.heads

    @property
    def expert_width(self) -> int:
        """Feed-forward numbers of an expert."""
        return self.expert_feed_forward or self.feed_forward

    @property
    def expert_parameters(self) -> int:
        """Parameters of one expert, or of the feed-forward part of a layer without experts."""
        width = self.expert_width if self.experts > 1 else self.feed_forward
        return (3 if self.gated else 2) * self.hidden * width

    @property
    def dense_parameters(self) -> int:
        """Parameters of the feed-forward part of a layer without experts."""
        return (3 if self.gated else 2) * self.hidden * self.feed_forward

    @property
    def num_expert_layers(self) -> int:
        """Layers with experts."""
        return self.expert_layers(0, self.layers)

    def expert_layers(self, first: int, layers: int) -> int:
        """Layers with experts among so many from ``first`` on.

        >>> Transformer(8, 64, 4, 256, 1000, 16, 4, experts=4, dense_layers=3).expert_layers(2, 4)
        3
        """
        return max(0, first + layers - max(first, self.dense_layers)) if self.experts > 1 else 0

    @property
    def num_parameters(self) -> int:
        """All parameters; norms, biases and positions are left out."""
        return self._parameters(self.experts)

    @property
    def active_parameters(self) -> int:
        """Parameters that a token meets, its embedding and head included."""
        return self._parameters(self.top_k)

    def _parameters(self, experts: int) -> int:
        """All parameters of a model of whose experts so many count."""
        sparse = self.num_expert_layers
        router = self.hidden * self.experts
        routed = (experts + self.shared_experts) * self.expert_parameters + router
        layers = self.layers * self.attention_parameters + sparse * routed
        layers += (self.layers - sparse) * self.dense_parameters
        return layers + (1 if self.tied else 2) * self.vocabulary * self.hidden

    def on_ranks(self, parallel: Parallel) -> ModelOnRanks:
        """What a rank of every stage computes and sends; ValueError if it cannot be divided so."""
        if self.latent or self.dense_layers or self.shared_experts or self.window != 1:
            raise ValueError(
                "latent attention, windows, shared experts and dense layers are for a step on a "
                "cluster: give a file of the cluster too"
            )
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
        width = self.heads * self.size_of_head
        scores = 4.0 * tokens * self.sequence * width / parallel.tensor
        moved = parameters + 4 * tokens * width // parallel.tensor
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
        width = self.expert_width if self.experts > 1 else self.feed_forward
        moved = held + 2 * active * (self.hidden + width // parallel.tensor)
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


# Residual networks of bottleneck blocks: parameters and operations of their convolutions.


_EXPANSION = 4


@final
@dataclass(frozen=True, slots=True)
class ResidualNetwork:
    """Bottleneck blocks, so many in each of four stages, on square images (He et al., 2016).

    ``batch`` images an iteration of all ranks together. Normalisations count as parameters.

    >>> resnet50 = ResidualNetwork((3, 4, 6, 3), 224, 1000, 256)
    >>> resnet50.num_parameters, round(resnet50.multiplications / 1e9, 2)
    (25557032, 4.09)
    """

    blocks: tuple[int, ...]
    image: int
    classes: int
    batch: int
    element_bytes: int = 2

    def __post_init__(self) -> None:
        if not self.blocks or min(self.blocks) < 1 or max(self.blocks) > 1000:
            raise ValueError(f"blocks is {list(self.blocks)}: every stage has from 1 to 1000")
        for name in ("image", "classes", "batch", "element_bytes"):
            if not 1 <= getattr(self, name) <= 2**30:
                raise ValueError(f"{name} is {getattr(self, name)}: it is at least 1")
        if self.image % (4 * 2 ** (len(self.blocks) - 1)):
            raise ValueError(f"image is {self.image}: every stage halves its sides once more")

    @property
    def num_parameters(self) -> int:
        """All parameters."""
        return sum(parameters for _, parameters, _, _ in self._convolutions())

    @property
    def multiplications(self) -> int:
        """Multiplications and additions, a pair counted once, of one image forward."""
        return sum(products for _, _, products, _ in self._convolutions())

    def on_ranks(self, parallel: Parallel) -> ModelOnRanks:
        """What a rank computes and sends; ValueError unless only copies and ZeRO divide it."""
        if parallel.tensor * parallel.expert * parallel.pipeline * parallel.chunks > 1:
            raise ValueError("a residual network is divided by data alone")
        per_microbatch = parallel.data * parallel.microbatches
        if self.batch % per_microbatch:
            raise ValueError(
                f"batch is {self.batch}: data times microbatches, {per_microbatch}, does not divide"
            )
        images = self.batch // per_microbatch
        layers = tuple(
            (
                Block(
                    name,
                    parameters,
                    2.0 * products * images,
                    float((parameters + moved * images) * self.element_bytes),
                ),
            )
            for name, parameters, products, moved in self._convolutions()
        )
        return ModelOnRanks("residual network", layers, 0, self.element_bytes, self.num_parameters)

    def _convolutions(self) -> Iterator[tuple[str, int, int, int]]:
        """Name, parameters, multiplications, and numbers moved, of an image, layer by layer."""
        side = self.image // 2
        yield "stem", 7 * 7 * 3 * 64 + 2 * 64, 7 * 7 * 3 * 64 * side * side, 64 * side * side
        side //= 2
        channels = 64
        for stage, count in enumerate(self.blocks):
            width = 64 * 2**stage
            for number in range(count):
                stride = 2 if stage and not number else 1
                name = f"stage {stage + 1}"
                yield _one(name, 1, channels, width, side)
                side //= stride
                yield _one(name, 3, width, width, side)
                yield _one(name, 1, width, width * _EXPANSION, side)
                if not number:
                    yield _one(name, 1, channels, width * _EXPANSION, side)
                channels = width * _EXPANSION
        yield "classes", (channels + 1) * self.classes, channels * self.classes, channels


def _one(name: str, kernel: int, inner: int, outer: int, side: int) -> tuple[str, int, int, int]:
    """A convolution and its normalisation, by the side of what comes out."""
    weights = kernel * kernel * inner * outer
    return name, weights + 2 * outer, weights * side * side, (inner + outer) * side * side


# Recommenders: embedding tables divided among ranks, and dense layers with copies (DLRM).


_SAMPLES_OF_WORKGROUP = 16
_LAST_PRIORITY = 2**40


@final
@dataclass(frozen=True, slots=True)
class Recommender:
    """A DLRM: ``tables`` of ``rows`` in all, of which a sample pools ``pooling`` each.

    ``bottom`` and ``top`` are the widths of the dense layers, inputs first; ``batch`` samples an
    iteration of all ranks. ``fused``: pooling and its all-to-all forward are one kernel, which
    needs a machine. Raises ValueError for what is no such model.

    >>> model = Recommender(26, 1000, 128, 1, (13, 512, 128), (479, 1024, 1), 2048)
    >>> model.dense_parameters
    565377
    """

    tables: int
    rows: int
    dimension: int
    pooling: int
    bottom: tuple[int, ...]
    top: tuple[int, ...]
    batch: int
    element_bytes: int = 4
    fused: bool = False

    def __post_init__(self) -> None:
        for name in ("tables", "rows", "dimension", "pooling", "batch", "element_bytes"):
            if not 1 <= getattr(self, name) <= 2**50:
                raise ValueError(f"{name} is {getattr(self, name)}: it is at least 1")
        for name in ("bottom", "top"):
            widths = getattr(self, name)
            if len(widths) < 2 or min(widths) < 1:
                raise ValueError(f"{name} is {list(widths)}: it has a width in and one out")
        if self.bottom[-1] != self.dimension:
            raise ValueError(
                f"bottom ends with {self.bottom[-1]}: its width is the dimension, {self.dimension}"
            )

    @property
    def dense_parameters(self) -> int:
        """Weights and biases of the dense layers."""
        return sum(
            (inner + 1) * outer
            for widths in (self.bottom, self.top)
            for inner, outer in pairwise(widths)
        )

    @property
    def num_parameters(self) -> int:
        """All parameters."""
        return self.dense_parameters + self.rows * self.dimension

    def job(self, num_ranks: int, accelerator: Accelerator, machine: Machine | None) -> JobGraph:
        """The iteration of one class of all ranks; ValueError if they do not divide the batch."""
        if self.batch % num_ranks:
            raise ValueError(f"batch is {self.batch}: {num_ranks} ranks do not divide it")
        return _Recommending(self, num_ranks, accelerator, machine).graph()


@final
class _Recommending:
    """The draft of one iteration."""

    def __init__(
        self, model: Recommender, num_ranks: int, accelerator: Accelerator, machine: Machine | None
    ) -> None:
        self.model, self.num_ranks = model, num_ranks
        self.accelerator, self.machine = accelerator, machine
        self.draft = JobDraft(1, [num_ranks])
        self.samples = model.batch // num_ranks

    def graph(self) -> JobGraph:
        model, draft = self.model, self.draft
        pooled_bytes = model.batch * model.tables * model.dimension * model.element_bytes
        read_s = self.accelerator.seconds(0, pooled_bytes * model.pooling / self.num_ranks)
        first, came = self._pooled(read_s, pooled_bytes // self.num_ranks)
        bottom, bottom_nodes = self._forward("bottom", model.bottom, [])
        pairs = (model.tables + 1) ** 2 * model.dimension * self.samples
        interaction = self._compute("interaction", float(pairs), 0.0, [bottom[-1], *came])
        top, top_nodes = self._forward("top", model.top, [interaction])
        back, top_sums = self._backward("top", model.top, top[-1])
        back = self._compute("interaction", 2.0 * pairs, 0.0, [back])
        (returned,) = self._swap(pooled_bytes // self.num_ranks, [back])
        last, bottom_sums = self._backward("bottom", model.bottom, back)
        ticks = round(2 * read_s / NANOSECOND)
        update = draft.compute(0, ticks, [returned, last], label="embedding")
        draft.carry(update, first)
        for nodes, sums in ((bottom_nodes, bottom_sums), (top_nodes, top_sums)):
            for node, summed in zip(nodes, sums, strict=True):
                draft.carry(summed, node)
        return draft.graph()

    def _pooled(self, read_s: Fraction, size_bytes: int) -> tuple[int, list[int]]:
        """The first node of pooling, and what its results wait for."""
        if self.model.fused and self.num_ranks > 1:
            nodes = fused_nodes(self.draft, 0, self._operator(read_s, size_bytes), self.num_ranks)
            return 0, nodes
        ticks = round(read_s / NANOSECOND)
        first = self.draft.compute(0, ticks, label="embedding")
        return first, self._swap(size_bytes, [first])

    def _operator(self, read_s: Fraction, size_bytes: int) -> FusedOperator:
        if self.machine is None:
            raise ValueError("a fused kernel needs a machine: what its slices cost")
        latency_s, send_s = self.machine.parts_s(
            ALLTOALL, self.num_ranks, size_bytes, 0, self.num_ranks - 1
        )
        groups = -(-self.model.batch // _SAMPLES_OF_WORKGROUP)
        at_a_time = min(groups, self.accelerator.num_at_a_time)
        remote = -(-groups * (self.num_ranks - 1) // self.num_ranks)
        waves = -(-groups // at_a_time)
        slice_s = send_s / remote
        return FusedOperator(
            groups, at_a_time, read_s / waves, slice_s, latency_s, num_remote=remote
        )

    def _swap(self, size_bytes: int, after: list[int]) -> list[int]:
        return self.draft.collective(
            *("alltoall", (0,), size_bytes, {0: after}),
            num_ranks=self.num_ranks,
            between=(0, self.num_ranks - 1),
            label="alltoall",
        )

    def _compute(self, name: str, operations: float, moved: float, after: list[int]) -> int:
        ticks = round(self.accelerator.seconds(operations, moved) / NANOSECOND)
        return self.draft.compute(0, ticks, after, label=name)

    def _layer(self, name: str, inner: int, outer: int, times: int, after: list[int]) -> int:
        moved = (inner * outer + self.samples * (inner + outer)) * self.model.element_bytes
        operations = 2.0 * inner * outer * self.samples
        return self._compute(name, times * operations, float(times * moved), after)

    def _forward(
        self, name: str, widths: tuple[int, ...], after: list[int]
    ) -> tuple[list[int], list[int]]:
        nodes: list[int] = []
        for inner, outer in pairwise(widths):
            nodes.append(self._layer(name, inner, outer, 1, after))
            after = [nodes[-1]]
        return nodes, list(nodes)

    def _backward(self, name: str, widths: tuple[int, ...], after: int) -> tuple[int, list[int]]:
        """The last node of the pass, and the sums of all gradients, the first layer first."""
        sums: list[int] = []
        for layer, (inner, outer) in reversed(list(enumerate(pairwise(widths)))):
            after = self._layer(name, inner, outer, 2, [after])
            (summed,) = self.draft.collective(
                *("allreduce", (0,), (inner + 1) * outer * self.model.element_bytes, {0: [after]}),
                num_ranks=self.num_ranks,
                between=(0, self.num_ranks - 1),
                label="gradients",
                priority=_LAST_PRIORITY + layer + (len(widths) if name == "top" else 0),
                is_gradient=True,
            )
            sums.append(summed)
        return after, sums[::-1]
