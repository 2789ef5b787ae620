"""Seconds of a training step by division: kernels, wires, pipeline, gradients, optimizer, memory.

It is a model with constants fitted on published runs; what it cannot know, a release of the
software, moves published speeds of one division by 5 % and more, with experts by 20 % and more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import log2
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.jobs.training.constants import constants
from ocs_codesign.jobs.training.counts import stage_counts, step_operations
from ocs_codesign.jobs.training.layer_parts import ZERO, LayerKinds, layer_kinds
from ocs_codesign.jobs.training.layers import Kernels, Method, Pair
from ocs_codesign.jobs.training.pipelines import ZERO_BUBBLE, dualpipe_seconds, pipeline_seconds
from ocs_codesign.jobs.training.routing import skew_of

if TYPE_CHECKING:
    from ocs_codesign.jobs.models.layer import Transformer
    from ocs_codesign.jobs.training.counts import StageCounts
    from ocs_codesign.jobs.training.division import Division
    from ocs_codesign.jobs.training.room import Room

PARTS = (
    *("forward", "backward", "recompute", "tensor", "context", "expert", "offload", "head"),
    *("bubble", "stragglers", "data", "optimizer", "jitter"),
)
"""What a step's seconds are made of."""

ALLOCATOR_SHARE = 0.07
"""What allocator and buffers of collectives take beside what is held; 5 to 10 % reported."""
NEARLY_FULL = 0.9
RELATIVE_ERRORS = {"dense": 0.07, "experts": 0.2}
"""Median error to expect of a kind of model on software that constants were fitted on."""


@final
@dataclass(frozen=True, slots=True)
class StepEstimate:
    """A step of a division: seconds, their parts, the stage that holds most, and what to know.

    ``memory`` are bytes by kind of the rank that holds the most. ``notes`` are sentences.
    """

    model: Transformer
    division: Division
    room: Room
    method: Method
    seconds: float
    parts: dict[str, float]
    memory: dict[str, float]
    notes: tuple[str, ...]

    @property
    def tokens_per_second_per_accelerator(self) -> float:
        """Tokens a second over all accelerators of the division."""
        tokens = self.model.batch * self.model.sequence
        return tokens / self.seconds / self.division.num_ranks

    def utilisation(self, kind: str = "model_causal") -> float:
        """Operations of a kind (of ``StepOperations``) over what the products' peak could do."""
        again = self.division.again_share(self.model)
        done = getattr(step_operations(self.model, self.division.recompute, again), kind)
        peak = self.room.chip.rate(self.method.precision)[0] * self.division.num_ranks
        return float(done) / (self.seconds * peak)

    @property
    def memory_bytes(self) -> float:
        """Bytes of the rank that holds the most."""
        return sum(self.memory.values())

    @property
    def fits(self) -> bool:
        """Whether the fullest rank holds it."""
        return self.memory_bytes <= self.room.chip.memory_bytes

    @property
    def relative_error(self) -> float:
        """Median error to expect where software is of a kind that constants were fitted on."""
        return RELATIVE_ERRORS["experts" if self.model.experts > 1 else "dense"]


@final
@dataclass(frozen=True, slots=True)
class TrainedStep:
    """A step as a job file has it: what is trained, how it is divided, and what computes it."""

    name: str
    model: Transformer
    division: Division
    method: Method

    def on(self, room: Room) -> StepEstimate:
        """What it takes on accelerators; ValueError if they are too few."""
        return estimate_step(self.model, self.division, room, self.method)


def estimate_step(
    model: Transformer, division: Division, room: Room, method: Method
) -> StepEstimate:
    """What a step takes; ValueError for what cannot be divided so or does not have the ranks.

    >>> from ocs_codesign.jobs.models.layer import Transformer
    >>> from ocs_codesign.jobs.training.constants import chip_named, software_named
    >>> from ocs_codesign.jobs.training.division import Division
    >>> from ocs_codesign.jobs.training.room import Room
    >>> llama = Transformer(32, 4096, 32, 14336, 128256, 8192, 128, 8, gated=True, tied=False)
    >>> room = Room(chip_named("h100"), 1, 8, 450e9, 50e9)
    >>> found = estimate_step(llama, Division(8, zero=3), room, Method(software_named("nemo")))
    >>> 0.3 < found.utilisation() < 0.6
    True
    """
    if division.num_ranks > room.num_accelerators:
        raise ValueError(
            f"{division.num_ranks} ranks are asked for: there are {room.num_accelerators} "
            "accelerators"
        )
    return StepModel(model, division, room, method).estimate()


@final
class StepModel:
    """One estimate in the making; ``kinds`` are what layers take, if they are known."""

    def __init__(
        self,
        model: Transformer,
        division: Division,
        room: Room,
        method: Method,
        kinds: LayerKinds | None = None,
    ) -> None:
        self.model, self.division, self.room, self.method = model, division, room, method
        self.microbatches = division.microbatches(model)
        self.kernels = Kernels(model, division, room.chip, method, self.microbatches)
        self.tokens = division.tokens(model)
        self.kinds = kinds or layer_kinds(self.kernels, room)
        self.head = self.kernels.head()

    @cached_property
    def counts(self) -> tuple[StageCounts, ...]:
        """What a rank of every stage has and sends."""
        return stage_counts(self.model, self.division)

    @cached_property
    def layers(self) -> tuple[dict[bool, tuple[int, int]], ...]:
        """Of every stage, of layers with experts and without: how many, and computed again."""
        division, first, every = self.division, 0, []
        for layers in division.layers(self.model):
            sparse = self.model.expert_layers(first, layers)
            plain, again = layers - sparse, division.again(layers)
            every.append({False: (plain, min(plain, again)), True: (sparse, max(0, again - plain))})
            first += layers
        return tuple(every)

    def layer(self, *, sparse: bool, again: bool = True) -> Pair:
        """All of a layer, with what is computed again if it is."""
        total = ZERO
        for name, part in self.kinds[sparse].items():
            if again or name != "again":
                total = total.plus(part)
        return total

    def body(self, stage: int) -> Pair:
        """A microbatch through the layers of a stage."""
        total = ZERO
        for sparse, (layers, again) in self.layers[stage].items():
            if layers:
                total = total.plus(self.layer(sparse=sparse, again=False), layers)
                total = total.plus(self.kinds[sparse]["again"], again)
        return total

    def _offload(self, stage: int, body: Pair) -> Pair:
        """What is not over when the kernels are, of activations on their way to the host."""
        if not self.division.offload:
            return ZERO
        counts, kept = self.counts[stage], 1 - self.division.offload
        chunks = self.division.chunks
        if kept:
            whole = counts.activations * chunks / counts.in_flight / kept
        else:
            whole = float(self._whole_activations[stage])
        moved = whole * self.division.offload / self.room.chip.host_Bps
        return Pair(max(0.0, moved - body.forward), max(0.0, moved - body.backward))

    @cached_property
    def _whole_activations(self) -> tuple[float, ...]:
        """Bytes that a microbatch leaves at every stage before any are moved to the host."""
        whole = stage_counts(self.model, replace(self.division, offload=0.0))
        return tuple(each.activations * self.division.chunks / each.in_flight for each in whole)

    def least_s(self) -> float:
        """Seconds that no pipeline, wire or optimizer undercuts: kernels, shared evenly."""
        total = self.head.total
        for stage in range(self.division.pipeline):
            total += self.body(stage).total
        return total * self.microbatches / self.division.pipeline

    def estimate(self) -> StepEstimate:
        """All of it."""
        model, division = self.model, self.division
        bodies = [self.body(stage) for stage in range(division.pipeline)]
        waits = [self._offload(stage, body) for stage, body in enumerate(bodies)]
        stages = [body.plus(wait) for body, wait in zip(bodies, waits, strict=True)]
        parts = dict.fromkeys(PARTS, 0.0)
        per_stage = self.microbatches / division.pipeline
        for sparse, kind in self.kinds.items():
            layers = sum(each[sparse][0] for each in self.layers) * per_stage
            again = sum(each[sparse][1] for each in self.layers) * per_stage
            parts["forward"] += layers * kind["work"].forward
            parts["backward"] += layers * kind["work"].backward
            parts["recompute"] += again * kind["again"].backward
            for name in ("tensor", "context", "expert"):
                parts[name] += layers * kind[name].total
        parts["offload"] = sum(wait.total for wait in waits) * per_stage
        parts["head"] = self.head.total * per_stage
        whole_s = self.pipeline_s(stages)
        own_s = whole_s + self._messages_s() - sum(parts.values())
        parts["bubble"] = max(own_s, 0.0)  # what sums of floats leave may be below
        if self.room.slow_speed < 1:
            parts["stragglers"] = self.pipeline_s(self._with_slow_host(stages)) - whole_s
        last = division.pipeline - 1
        whole = [pair.plus(self.head) if at == last else pair for at, pair in enumerate(stages)]
        parts["data"] = max(self._data(stage, pair) for stage, pair in enumerate(whole))
        parts["optimizer"] = max(self._optimizer(counts) for counts in self.counts)
        servers = max(1.0, division.num_ranks / 8)
        parts["jitter"] = constants()["jitter"] * log2(servers) * sum(parts.values())
        memory = self._memory()
        return StepEstimate(
            *(model, division, self.room, self.method, sum(parts.values()), parts),
            memory,
            self._notes(sum(memory.values()), parts["stragglers"] / sum(parts.values())),
        )

    def pipeline_s(self, stages: list[Pair]) -> float:
        """Passes of all microbatches through stages whose layers take so much, and the head."""
        division, count = self.division, self.microbatches
        last, chunks = division.pipeline - 1, division.chunks
        if not last:
            return count * (stages[0].total + self.head.total)
        splits = division.schedule in ZERO_BUBBLE
        times = np.array([[_kinds_of(pair, splits=splits)] * chunks for pair in stages]) / chunks
        times[last, -1] += _kinds_of(self.head, splits=splits)
        if division.schedule == "dualpipe":
            weights = [pair.weights for pair in (*stages[:-1], stages[-1].plus(self.head))]
            return dualpipe_seconds(times[:, 0], np.array(weights), count)
        if chunks > 1 and division.schedule == "1f1b":
            return pipeline_seconds(times, count, "interleaved", division.turn(self.model))
        return pipeline_seconds(times, count, division.schedule)

    def _with_slow_host(self, stages: list[Pair]) -> list[Pair]:
        """The stages where kernels of the one that takes longest are those of a slow host.

        All copies of it wait for each other once a step, so that one slow host is as bad as many.
        """
        slow = max(range(len(stages)), key=lambda stage: stages[stage].total)
        kernels = ZERO
        for sparse, (layers, again) in self.layers[slow].items():
            if layers:
                kernels = kernels.plus(self.kinds[sparse]["work"], layers)
                kernels = kernels.plus(self.kinds[sparse]["again"], again)
        slower = list(stages)
        slower[slow] = stages[slow].plus(kernels, 1 / self.room.slow_speed - 1)
        return slower

    def _messages_s(self) -> float:
        """Messages between stages that nothing hides."""
        division, count, last = self.division, self.microbatches, self.division.pipeline - 1
        if not last:
            return 0.0
        hop = 2 * self.tokens * self.model.hidden / division.tensor
        message = self.room.wire_s(hop, 2, self.room.accelerators_a_server)
        if division.chunks == 1 and division.directions == 1:
            return 2 * message * (count + last)
        return self.method.software.pipeline_exposed * 2 * message * division.chunks * count

    def _data(self, stage: int, pair: Pair) -> float:
        """What gradients and parameters leave exposed at a stage."""
        division, software, counts = self.division, self.method.software, self.counts[stage]
        if division.copies == 1 and division.expert_copies == 1:
            return 0.0
        if division.zero >= 2 and not (division.zero == 3 and self._gathers_once()):
            return self._data_a_microbatch(stage, pair)
        each = division.gradient_bytes
        gradients = self._reduced_s(counts, each * (1 if division.zero else 2), across=2 * each)
        parameters = self._reduced_s(counts, 2) if division.zero else 0.0
        if division.zero == 3:  # gathered once, layer by layer, while a microbatch runs
            both = gradients + parameters
            return max(0.0, both - software.data_hidden[0] * pair.total) + software.data_exposed * (
                both
            )
        if software.data_all_exposed:
            return gradients + parameters
        hidden = [share * pair.total for share in software.data_hidden]
        return max(software.data_exposed * gradients, gradients - hidden[0]) + max(
            software.data_exposed * parameters, parameters - hidden[1]
        )

    def _gathers_once(self) -> bool:
        """Whether parameters stay gathered for a step, as a pipeline asks."""
        return self.division.pipeline > 1

    def _data_a_microbatch(self, stage: int, pair: Pair) -> float:
        """ZeRO 2 and 3: layer by layer, beside the kernels, which both slow down."""
        division, counts, known = self.division, self.counts[stage], constants()
        layers = counts.layers
        forward, backward = pair.forward / layers, pair.backward / layers
        if stage == division.pipeline - 1:
            forward -= self.head.forward / layers
            backward -= self.head.backward / layers
        each = division.gradient_bytes
        sliced = self._reduced_s(counts, each, layers, across=2 * each)
        gathered = self._reduced_s(counts, 2, layers)

        def exposed(traffic: float, work: float) -> float:
            return max(0.0, traffic - work) + known["contention"] * min(traffic, work)

        if division.zero == 2:
            left = self.microbatches * exposed(sliced, backward)
            return layers * (left + exposed(gathered, forward))
        left = exposed(gathered, forward) + exposed(gathered + sliced, backward)
        return layers * left * self.microbatches

    def gradients_s(self, stage: int) -> float:
        """Seconds of all gradients and parameters of a stage on wires that are free."""
        tables_s, layer_s = self.gradients_by_layer_s(stage)
        return self.counts[stage].layers * layer_s + tables_s

    def gradients_by_layer_s(self, stage: int) -> tuple[float, float]:
        """The same of embedding and head, and of a layer."""
        division, counts = self.division, self.counts[stage]
        each = division.gradient_bytes + (2 if division.zero else division.gradient_bytes)
        sent = each * division.directions * counts.tables * (division.copies - 1) / division.copies
        tables_s = self.room.wire_s(sent, division.copies, division.tensor)
        whole = counts if counts.layers > 1 else replace(counts, dense=counts.dense - counts.tables)
        across = 2 * division.gradient_bytes
        return tables_s, self._reduced_s(whole, each, counts.layers, across=across)

    def _reduced_s(
        self, counts: StageCounts, each_bytes: int, layers: int = 1, *, across: int = 0
    ) -> float:
        """Seconds to scatter or gather so many bytes of a stage's parameters, or of a layer.

        Of a shard ``across`` bytes more of each go round the replicas.
        """
        division, software = self.division, self.method.software
        # Embedding and head are gathered once, beside the layers.
        tables = counts.tables if layers > 1 else 0
        groups = (
            (counts.dense - tables, division.copies, division.tensor),
            (counts.expert, division.expert_copies, division.expert * division.expert_tensor),
        )
        total, replicas = 0.0, division.replicas
        for parameters, copies, stride in groups:
            shards = division.shards(copies)
            held = division.directions * parameters / layers
            sent = each_bytes * held * (shards - 1) / shards
            if software.flat_ring_share is not None:
                total += sent / (software.flat_ring_share * self.room.outside_Bps)
                continue
            total += self.room.wire_s(sent, shards, stride)
            summed = across * held * (replicas - 1) / replicas / shards
            total += self.room.wire_s(summed, replicas, stride * shards)
        return total

    def _optimizer(self, counts: StageCounts) -> float:
        """Reading and writing states of the rank's share, and zeroing what gradients it holds."""
        division = self.division
        divided = division.zero >= 1
        share = counts.dense / (division.shards(division.copies) if divided else 1)
        share += counts.expert / (division.shards(division.expert_copies) if divided else 1)
        held = counts.gradients / division.gradient_bytes
        moved = self.kernels.memory_s(30 * share + 8 * held)
        return constants()["optimizer"] * moved + constants()["step_s"]

    def _memory(self) -> dict[str, float]:
        """Bytes by kind of the rank that holds the most."""
        model, division = self.model, self.division
        most: dict[str, float] = {}
        for stage, counts in enumerate(self.counts):
            logits = (
                self.tokens * model.vocabulary / division.tensor * self.method.software.logit_bytes
            )
            kinds = {
                "weights": float(counts.weights),
                "gradients": float(counts.gradients),
                "optimizer": float(counts.optimizer),
                "activations": float(counts.activations),
                "logits": logits if stage == division.pipeline - 1 else 0.0,
            }
            kinds["allocator"] = ALLOCATOR_SHARE * sum(kinds.values())
            if sum(kinds.values()) > sum(most.values()):
                most = kinds
        return most

    def _notes(self, held: float, waits: float) -> tuple[str, ...]:
        """What to know, where the fullest rank holds so many bytes, and slow hosts cost a share."""
        chip, precision = self.room.chip, self.method.precision
        notes = []
        if not chip.is_fitted(precision):
            notes.append(
                f"{chip.name}: not fitted; what {precision} products sustain is assumed from a "
                "micro-benchmark"
            )
        most = chip.memory_bytes
        if held > most:
            notes.append(f"the fullest rank needs {held / 1e9:.4g} GB of {most / 1e9:.4g}")
        elif held > NEARLY_FULL * most:
            notes.append(
                f"the fullest rank needs {held / 1e9:.4g} GB of {most / 1e9:.4g}: so full a memory "
                "has cost published runs up to 40 % of their speed"
            )
        if waits:
            notes.append(
                f"a host of {self.room.slow_speed:.4g} of the others' speed takes {waits:.1%} of "
                "the step, however few there are: every step waits for it"
            )
        model = self.model
        skew = skew_of(model, self.division.expert)
        if skew.median_rows > 1:
            low, middle, high = skew.rows
            spare = model.spare_experts
            placed = "" if spare is None else " and placed by it"
            placed += f", {spare} with copies" if spare else ""
            notes.append(
                f"experts are {model.routing}{placed}: the busiest rank has {middle:.3g} times the "
                f"mean of tokens in the median step, {low:.3g} to {high:.3g} in eight of ten, and "
                "every rank waits for it"
            )
        if self.division.offload:
            notes.append(
                f"offload: not fitted; the host is reached at {chip.host_Bps / 1e9:.4g} GB/s"
            )
        idle = self.room.num_accelerators - self.division.num_ranks
        if idle:
            notes.append(
                f"{idle} of {self.room.num_accelerators} accelerators are idle: the division has "
                f"{self.division.num_ranks} ranks"
            )
        return tuple(notes)


def _kinds_of(pair: Pair, *, splits: bool) -> list[float]:
    """Seconds backward and forward, and those of gradients of weights apart if they are split."""
    if splits:
        return [pair.backward - pair.weights, pair.forward, pair.weights]
    return [pair.backward, pair.forward]
