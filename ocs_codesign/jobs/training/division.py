"""Division: how ranks divide a decoder for a step, and the layers of every pipeline stage.

Attention's grid is tensor x context x data x pipeline; the experts' grid lies on the same ranks as
expert-tensor x expert x expert-data x pipeline, so that only the pipeline is common (folding, as
Megatron-LM does it).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from ocs_codesign.jobs.models.layer import Transformer

SCHEDULES = ("1f1b", "gpipe", "breadth-first", "zb-h1", "zb-h2", "dualpipe")
"""Orders of a pipeline: interleaved is 1f1b with chunks; zero bubble with gradients of weights
apart (Qi et al., 2023), at 1f1b's memory or twice that; DualPipe (DeepSeek-V3, 2024)."""
RECOMPUTE = ("none", "attention", "second", "full", "experts")
"""What is computed again in backward: nothing, attention, every second matmul, layers, experts."""


@final
@dataclass(frozen=True, slots=True)
class Division:
    """Degrees of parallelism of a training step, and what a rank keeps.

    ``microbatch`` sequences are together; ``chunks`` more than 1 is an interleaved pipeline, of
    ``group`` microbatches a turn (the fewest that do not deadlock if None). ``stages`` are the
    layers of every stage, as even as embedding and head allow if None. ``expert_tensor`` divides
    experts' matrices, 1 with experts that are whole. ``zero`` is ZeRO's stage, ``gradient_bytes``
    those of a gradient on the wire and in memory. ``recompute_layers`` is how many layers of every
    stage are computed again, all if None; ``offload`` the share of activations that waits in the
    host's memory. ``replicas`` (HSDP) are groups that hold all states among them, each once:
    gradients are scattered inside a group and summed across, parameters gathered inside alone.
    Raises ValueError for degrees below 1 and unknown recomputation or schedules.

    >>> Division(data=4, tensor=2, pipeline=3).num_ranks
    24
    """

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    expert: int = 1
    expert_tensor: int = 1
    zero: int = 0
    microbatch: int = 1
    chunks: int = 1
    group: int | None = None
    stages: tuple[int, ...] | None = None
    recompute: str = "none"
    gradient_bytes: int = 4
    schedule: str = "1f1b"
    recompute_layers: int | None = None
    offload: float = 0.0
    replicas: int = 1

    def __post_init__(self) -> None:
        for name in (
            *("data", "tensor", "pipeline", "context", "expert", "expert_tensor"),
            *("microbatch", "chunks", "gradient_bytes", "replicas"),
        ):
            if not 1 <= getattr(self, name) <= 2**20:
                raise ValueError(f"{name} is {getattr(self, name)}: it is from 1 to {2**20}")
        if not 0 <= self.zero <= 3:
            raise ValueError(f"zero is {self.zero}: it is from 0 to 3")
        if self.recompute not in RECOMPUTE:
            raise ValueError(f"recompute is {self.recompute!r}: one of {', '.join(RECOMPUTE)}")
        if self.schedule not in SCHEDULES:
            raise ValueError(f"schedule is {self.schedule!r}: one of {', '.join(SCHEDULES)}")
        if self.recompute_layers is not None and self.recompute_layers < 1:
            raise ValueError(f"recompute_layers is {self.recompute_layers}: it is 1 or more")
        if not 0 <= self.offload <= 1:
            raise ValueError(f"offload is {self.offload}: it is a share, from 0 to 1")

    @property
    def num_ranks(self) -> int:
        """All ranks."""
        return self.data * self.tensor * self.pipeline * self.context

    @property
    def copies(self) -> int:
        """Ranks that hold the same parameters of attention: data times context."""
        return self.data * self.context

    @property
    def expert_copies(self) -> int:
        """Ranks that hold the same experts."""
        return self.copies * self.tensor // (self.expert * self.expert_tensor)

    def shards(self, copies: int) -> int:
        """Ranks that divide states among them, of so many that hold the same parameters."""
        return copies // self.replicas

    def tokens(self, model: Transformer) -> int:
        """Tokens of a microbatch on a rank of the context."""
        return self.microbatch * model.sequence // self.context

    def microbatches(self, model: Transformer) -> int:
        """Microbatches of a step; ValueError with the nearest batch if they are not whole."""
        each = self.data * self.microbatch
        if model.batch % each:
            near = max(each, round(model.batch / each) * each)
            raise ValueError(
                f"batch is {model.batch}: {self.data} data ranks of {self.microbatch} sequences "
                f"each do not divide it; the nearest that they do is {near}"
            )
        return model.batch // each

    def layers(self, model: Transformer) -> tuple[int, ...]:
        """Layers of every stage; embedding and head count as one each where it is not even.

        >>> from ocs_codesign.jobs.models.layer import Transformer
        >>> Division(pipeline=4).layers(Transformer(14, 64, 4, 256, 1000, 16, 4))
        (3, 4, 4, 3)
        """
        if self.stages is not None:
            return self.stages
        if model.layers % self.pipeline == 0:
            return (model.layers // self.pipeline,) * self.pipeline
        least, longer = divmod(model.layers + 2, self.pipeline)
        # Shorter stages are the last but one: the last has the head, the first most in flight.
        places = [least + (stage < longer - 1) for stage in range(self.pipeline - 1)]
        places.append(least + (longer > 0))
        places[0] -= 1
        places[-1] -= 1
        return tuple(places)

    def turn(self, model: Transformer) -> int:
        """Microbatches that an interleaved pipeline passes a chunk in turn.

        Fewer than stages are left over by no turn, which would deadlock (Megatron-LM's rule).
        """
        count = self.microbatches(model)
        if self.group is not None:
            return self.group
        return next(
            turn
            for turn in range(min(self.pipeline, count), count + 1)
            if count % turn == 0 or count % turn >= self.pipeline
        )

    def in_flight(self, model: Transformer, stage: int) -> int:
        """Passes of chunks that a stage holds at once, the most there are."""
        count = self.microbatches(model)
        held = {
            "gpipe": count,
            "breadth-first": count * self.chunks,
            "zb-h1": self.pipeline,
            "zb-h2": 2 * self.pipeline - 1,
            "dualpipe": self.pipeline + 1,
        }
        if self.schedule in held:
            return min(count * self.chunks, held[self.schedule])
        if self.chunks == 1:
            return min(count, self.pipeline - stage)
        warm_up = 2 * (self.pipeline - 1 - stage) + (self.chunks - 1) * self.turn(model)
        return min(count * self.chunks, warm_up + 1)

    def check(self, model: Transformer) -> None:
        """Raise ValueError, with the numbers and the rule, for what a model does not allow."""
        heads, kv = model.heads, model.kv_heads or model.heads
        if heads % self.tensor:
            raise ValueError(f"heads is {heads}: tensor, {self.tensor}, does not divide it")
        if kv % self.tensor and self.tensor % kv:
            raise ValueError(
                f"kv_heads is {kv}: tensor, {self.tensor}, is neither a part nor a multiple of it"
            )
        halves = 2 * self.context if self.context > 1 else 1
        if model.sequence % halves or (model.sequence // self.context) % self.tensor:
            raise ValueError(
                f"sequence is {model.sequence}: it is cut in {halves} parts for the context, and "
                f"each rank's in {self.tensor} for tensor"
            )
        count = self.microbatches(model)
        stages = self.layers(model)
        if len(stages) != self.pipeline or sum(stages) != model.layers:
            raise ValueError(
                f"stages is {list(stages)}: {self.pipeline} stages have {model.layers} layers"
            )
        parts = list(stages)  # embedding and head fill a chunk as a layer does
        parts[0] += 1
        parts[-1] += 1
        if min(stages) < 1 or (self.chunks > 1 and min(parts) < self.chunks):
            raise ValueError(
                f"layers is {model.layers}: {self.pipeline} stages of {self.chunks} chunks need "
                "one each"
            )
        if self.chunks > 1 and (self.pipeline == 1 or count < self.pipeline):
            raise ValueError(
                f"chunks is {self.chunks}: an interleaved pipeline has 2 stages or more and as "
                f"many microbatches, not {count}"
            )
        if self.chunks > 1:
            left = count % self.turn(model)
            if self.turn(model) < min(self.pipeline, count) or 0 < left < self.pipeline:
                raise ValueError(
                    f"group is {self.turn(model)}: {count} microbatches in turns of so many leave "
                    f"{left}, fewer than the {self.pipeline} stages, and the order deadlocks"
                )
        self._check_schedule(count)
        if self.replicas > 1 and not (self.zero and self._has_whole_shards()):
            raise ValueError(
                f"replicas is {self.replicas}: with zero 1 to 3 it divides {self.copies} copies, "
                f"and {self.expert_copies} of experts"
            )
        self._check_experts(model)

    @property
    def directions(self) -> int:
        """Stages that a rank has for microbatches from either end: 2 with DualPipe."""
        return 2 if self.schedule == "dualpipe" and self.pipeline > 1 else 1

    def again_share(self, model: Transformer) -> float:
        """The share of the layers that is computed again."""
        return sum(self.again(layers) for layers in self.layers(model)) / model.layers

    def again(self, layers: int) -> int:
        """Layers that are computed again of so many of a stage."""
        if self.recompute == "none":
            return 0
        return layers if self.recompute_layers is None else min(layers, self.recompute_layers)

    def _has_whole_shards(self) -> bool:
        return all(copies % self.replicas == 0 for copies in (self.copies, self.expert_copies))

    def _check_schedule(self, count: int) -> None:
        alone = self.schedule not in ("1f1b", "breadth-first")
        if self.chunks > 1 and alone:
            raise ValueError(
                f"chunks is {self.chunks}: stages of a {self.schedule} pipeline are not cut"
            )
        few = self.pipeline % 2 or count % 2 or count < 2 * self.pipeline
        if self.directions == 2 and few:
            raise ValueError(
                f"schedule is dualpipe: stages, {self.pipeline}, and microbatches, {count}, are "
                "even, and there are twice as many microbatches or more"
            )

    def _check_experts(self, model: Transformer) -> None:
        ranks = self.copies * self.tensor
        if self.expert > model.experts or model.experts % self.expert:
            raise ValueError(f"experts is {model.experts}: expert, {self.expert}, does not divide")
        if ranks % (self.expert * self.expert_tensor):
            raise ValueError(
                f"a stage has {ranks} ranks: expert_tensor times expert, "
                f"{self.expert_tensor} x {self.expert}, does not divide them"
            )
