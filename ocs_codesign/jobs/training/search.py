"""Divisions of a training step ranked: every one by the model's rules that fits the memory.

A division is estimated unless its kernels alone take longer than what was found: what is left out
is proven to be slower by the same model.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from math import gcd
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.core.compute.integers import divisors
from ocs_codesign.core.progress import tell_phase
from ocs_codesign.jobs.training.counts import stage_counts
from ocs_codesign.jobs.training.division import Division
from ocs_codesign.jobs.training.pipelines import ZERO_BUBBLE
from ocs_codesign.jobs.training.step import ALLOCATOR_SHARE, StepModel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.jobs.training.layer_parts import LayerKinds
    from ocs_codesign.jobs.training.room import Room
    from ocs_codesign.jobs.training.step import StepEstimate, TrainedStep

MICROBATCHES = (1, 2, 4, 8, 16)
MAX_CONTEXT = 64
RANKED = 20


@final
@dataclass(frozen=True, slots=True, eq=False)
class StepRanking:
    """Divisions, the fastest first, beside the one that the job's file has, if it has one.

    ``proof`` says how it is known that nothing in the space is faster, ``advice`` which batch would
    use more accelerators, if one would, ``refused`` why the file's division cannot be there.
    """

    ranked: tuple[StepEstimate, ...]
    given: StepEstimate | None
    num_divisions: int
    num_too_large: int
    num_estimated: int
    proof: str
    advice: str | None = None
    refused: str | None = None


def rank_divisions(trained: TrainedStep, room: Room, top: int = RANKED) -> StepRanking:
    """The ``top`` fastest divisions of a step on accelerators, fully estimated.

    Degrees divide what the model's rules say; ranks may be fewer than accelerators where no
    division uses all. Raises ValueError if none fits.

    >>> from ocs_codesign.jobs.models.layer import Transformer
    >>> from ocs_codesign.jobs.training.constants import chip_named, software_named
    >>> from ocs_codesign.jobs.training.layers import Method
    >>> from ocs_codesign.jobs.training.room import Room
    >>> from ocs_codesign.jobs.training.step import TrainedStep
    >>> small = Transformer(8, 1024, 8, 4096, 32000, 1024, 64)
    >>> job = TrainedStep("j", small, Division(), Method(software_named("megatron")))
    >>> ranking = rank_divisions(job, Room(chip_named("h100"), 1, 8, 450e9, 50e9))
    >>> ranking.ranked[0].division.num_ranks
    8
    """
    search = _Search(trained, room)
    every = list(search.divisions())
    waiting: list[tuple[float, int, Division]] = []
    too_large = 0
    for number, division in enumerate(every):
        if not search.fits(division):
            too_large += 1
            continue
        heappush(waiting, (search.least_s(division), number, division))
    if not waiting:
        raise ValueError(
            f"none of {len(every)} divisions fits: the fullest rank has "
            f"{room.chip.memory_bytes / 1e9:.4g} GB"
        )
    found: list[tuple[float, int, StepEstimate]] = []
    estimated = 0
    while waiting:
        least, number, division = heappop(waiting)
        if len(found) >= top and least >= found[top - 1][0]:
            break
        tell_phase("Estimating divisions", estimated, estimated + len(waiting) + 1)
        step = search.estimate(division)
        estimated += 1
        if step.fits:
            found = sorted([*found, (step.seconds, number, step)], key=lambda each: each[:2])[:top]
        else:
            too_large += 1
    given, refused = None, None
    if trained.division.num_ranks > 1:
        try:
            given = trained.on(room)
        except ValueError as error:
            refused = str(error)
    return StepRanking(
        tuple(step for *_, step in found),
        given,
        len(every),
        too_large,
        estimated,
        "the kernels of all others alone take longer, by the same model",
        _nearest_batch(found[0][2]),
        refused,
    )


def _nearest_batch(step: StepEstimate) -> str | None:
    """The batch next to the job's that the same division with more data ranks has, in words."""
    division, batch = step.division, step.model.batch
    without = division.num_ranks // division.data
    most = step.room.num_accelerators // without
    if most == division.data:
        return None
    each = most * division.microbatch
    near = max(1, round(batch / each)) * each
    return f"a batch of {near} instead of {batch} would use {most * without} accelerators"


@final
class _Search:
    """What divisions of one step have in common."""

    def __init__(self, trained: TrainedStep, room: Room) -> None:
        self.model, self.room, self.method = trained.model, room, trained.method
        self.schedule = trained.division.schedule
        self.kinds: dict[Division, LayerKinds] = {}

    def divisions(self) -> Iterator[Division]:
        """Every division by the rules that uses as many accelerators as it can."""
        model, room = self.model, self.room
        kv = model.kv_heads or model.heads
        for tensor in divisors(model.heads):
            if tensor > room.accelerators_a_server or (kv % tensor and tensor % kv):
                continue
            for context in _powers(min(MAX_CONTEXT, model.sequence // 4096)):
                if model.sequence % (2 * context) or (model.sequence // context) % tensor:
                    continue
                most = room.num_accelerators // (tensor * context)
                for pipeline in range(1, min(model.layers, most) + 1):
                    if room.num_accelerators % pipeline == 0 or pipeline <= 8:
                        yield from self._with_copies(tensor, context, pipeline, most // pipeline)

    def _with_copies(
        self, tensor: int, context: int, pipeline: int, most: int
    ) -> Iterator[Division]:
        """Data, microbatches, experts, ZeRO, chunks and recomputation of these degrees."""
        model = self.model
        for microbatch in MICROBATCHES:
            data = next(
                (d for d in range(most, 0, -1) if model.batch % (d * microbatch) == 0), None
            )
            if data is None or 2 * data <= most:
                continue
            count = model.batch // (data * microbatch)
            ranks = data * context * tensor
            for expert in divisors(model.experts) if model.experts > 1 else (1,):
                if ranks % expert:
                    continue
                for zero in (0,) if data * context == 1 else (1, 2, 3):
                    if zero == 3 and pipeline > 1:
                        continue
                    for chunks in self._chunks(pipeline, count):
                        division = Division(
                            *(data, tensor, pipeline, context, expert),
                            zero=zero,
                            microbatch=microbatch,
                            chunks=chunks,
                            schedule=self.schedule if pipeline > 1 else "1f1b",
                        )
                        for replicas in self._replicas(division):
                            yield from self._recomputed(replace(division, replicas=replicas))

    def _replicas(self, division: Division) -> Iterator[int]:
        """Groups that hold all states: one, and with ZeRO 3 as many as the ranks allow."""
        copies = gcd(division.copies, division.expert_copies)
        most = copies if division.zero == 3 else 1
        yield from (count for count in divisors(most) if count < copies or count == 1)

    def _recomputed(self, division: Division) -> Iterator[Division]:
        """What is computed again: nothing, a part, layers, or as few layers as fit the memory."""
        kinds = ("none",) if self.model.experts == 1 else ("none", "experts")
        kinds = ("none", "attention") if self.method.attends == "unfused" else kinds
        yield from (replace(division, recompute=kind) for kind in kinds)
        full = replace(division, recompute="full")
        yield full
        most = max(full.layers(self.model))
        if self.fits(division) or not self.fits(full) or most == 1:
            return
        layers = bisect_left(
            *(range(1, most), True), key=lambda few: self.fits(replace(full, recompute_layers=few))
        )
        if layers < most - 1:
            yield replace(full, recompute_layers=layers + 1)

    def _chunks(self, pipeline: int, count: int) -> Iterator[int]:
        """Chunks of a stage: one, or what divides its layers, embedding and head as layers."""
        yield 1
        if pipeline == 1 or count < pipeline or self.schedule not in ("1f1b", "breadth-first"):
            return
        even = self.model.layers % pipeline == 0
        each = self.model.layers // pipeline if even else (self.model.layers + 2) // pipeline
        yield from (chunks for chunks in divisors(each) if chunks > 1)

    def fits(self, division: Division) -> bool:
        """Whether the stages that may hold the most hold it, without what is added at the end."""
        try:
            division.check(self.model)
        except ValueError:
            return False
        last = division.pipeline - 1
        ends = sorted({0, min(1, last), last})
        which = range(last + 1) if self.schedule in ZERO_BUBBLE else ends
        held = max(counts.held for counts in stage_counts(self.model, division, which))
        return held * (1 + ALLOCATOR_SHARE) <= self.room.chip.memory_bytes

    def estimate(self, division: Division) -> StepEstimate:
        """The whole step."""
        return self._model(division).estimate()

    def least_s(self, division: Division) -> float:
        """Seconds that kernels and collectives of layers take, shared evenly among stages."""
        return self._model(division).least_s()

    def _model(self, division: Division) -> StepModel:
        """The step with what a layer takes, which few of a division's degrees change."""
        count = division.microbatches(self.model) if self.method.precision == "fp8" else 1
        alike: dict[str, Any] = dict.fromkeys(("data", "pipeline", "replicas", "chunks"), 1)
        alike |= {"zero": 0, "group": count, "stages": None}
        alike |= {"recompute_layers": None, "offload": 0.0}
        key = replace(division, **alike)
        made = StepModel(self.model, division, self.room, self.method, self.kinds.get(key))
        self.kinds.setdefault(key, made.kinds)
        return made


def _powers(most: int) -> Iterator[int]:
    power = 1
    while power <= max(1, most):
        yield power
        power *= 2
