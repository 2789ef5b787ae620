"""The job of a model that is divided among ranks: passes of microbatches, and gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, final

from ocs_codesign.jobs.job_draft import JobDraft
from ocs_codesign.jobs.job_graph import NANOSECOND
from ocs_codesign.jobs.models.layer import DATA, EXPERT, EXPERT_DATA, TENSOR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ocs_codesign.jobs.fused import Accelerator
    from ocs_codesign.jobs.job_draft import Written
    from ocs_codesign.jobs.job_graph import JobGraph
    from ocs_codesign.jobs.models.layer import Block, Exchange, ModelOnRanks
    from ocs_codesign.jobs.prices import Machine


# Pipelines: in which order a stage passes microbatches forward and backward.


class Pass(NamedTuple):
    """A microbatch through a chunk of a stage."""

    is_forward: bool
    microbatch: int
    chunk: int


def gpipe(stage: int, num_stages: int, num_microbatches: int, chunks: int) -> list[Pass]:
    """All forward, then all backward.

    >>> [each.microbatch for each in gpipe(0, 2, 2, 1)]
    [0, 1, 0, 1]
    """
    return breadth_first(stage, num_stages, num_microbatches, chunks)


def breadth_first(stage: int, num_stages: int, num_microbatches: int, chunks: int) -> list[Pass]:
    """All microbatches through a chunk before the next one (Lamy-Poirier)."""
    del stage, num_stages
    numbers = range(num_microbatches)
    forward = [Pass(True, number, chunk) for chunk in range(chunks) for number in numbers]
    backward = [
        Pass(False, number, chunk) for chunk in reversed(range(chunks)) for number in numbers
    ]
    return forward + backward


def one_forward_one_backward(
    stage: int, num_stages: int, num_microbatches: int, chunks: int
) -> list[Pass]:
    """Backward as soon as it can be, so that few microbatches are held (PipeDream-Flush).

    >>> "".join("BF"[each.is_forward] for each in one_forward_one_backward(0, 3, 4, 1))
    'FFFBFBBB'
    """
    del chunks
    first = min(num_microbatches, _warm_up_of_one(stage, num_stages, 1))
    return _alternating(
        [Pass(True, number, 0) for number in range(num_microbatches)],
        [Pass(False, number, 0) for number in range(num_microbatches)],
        first,
    )


def interleaved(
    stage: int, num_stages: int, num_microbatches: int, chunks: int, group: int | None = None
) -> list[Pass]:
    """One forward, one backward over several chunks; ``group`` microbatches in turn, or as stages.

    >>> [each.chunk for each in interleaved(1, 2, 2, 2) if each.is_forward]
    [0, 0, 1, 1]
    """
    turn = num_stages if group is None else group
    turns = [
        (chunk, number)
        for first in range(0, num_microbatches, turn)
        for chunk in range(chunks)
        for number in range(first, min(first + turn, num_microbatches))
    ]
    first = 2 * (num_stages - 1 - stage) + (chunks - 1) * turn
    return _alternating(
        [Pass(True, number, chunk) for chunk, number in turns],
        [Pass(False, number, chunks - 1 - chunk) for chunk, number in turns],
        min(len(turns), first),
    )


def _alternating(forward: list[Pass], backward: list[Pass], first: int) -> list[Pass]:
    passes = forward[:first]
    for one, other in zip(forward[first:], backward, strict=False):
        passes += [one, other]
    return passes + backward[len(forward) - first :]


SCHEDULES: dict[str, Callable[[int, int, int, int], list[Pass]]] = {
    "gpipe": gpipe,
    "1f1b": one_forward_one_backward,
    "interleaved": interleaved,
    "breadth-first": breadth_first,
}
"""Passes of (stage, stages, microbatches, chunks)."""


def most_held(
    schedule: str, stage: int, num_stages: int, num_microbatches: int, chunks: int
) -> int:
    """Passes of chunks that a stage holds the activations of at once, the most there are.

    >>> most_held("1f1b", 1, 4, 8, 1), most_held("gpipe", 1, 4, 8, 1)
    (3, 8)
    >>> most_held("interleaved", 0, 4, 8, 2)
    11
    """
    every = num_microbatches * chunks
    if schedule not in _WARM_UPS:  # all forward, then all backward
        return every
    return min(every, _WARM_UPS[schedule](stage, num_stages, chunks) + 1)


def _warm_up_of_one(stage: int, num_stages: int, chunks: int) -> int:
    """Passes forward before the first one backward, if there are so many."""
    del chunks
    return num_stages - 1 - stage


def _warm_up_of_several(stage: int, num_stages: int, chunks: int) -> int:
    return 2 * (num_stages - 1 - stage) + (chunks - 1) * num_stages


_WARM_UPS = {"1f1b": _warm_up_of_one, "interleaved": _warm_up_of_several}


MAX_RANKS_ALONE = 4096
MAX_COMPUTATIONS = 1_000_000
_LAST_PRIORITY = 2**40

Nodes = dict[int, int]
"""A node of every owner of a stage."""


def job_of(
    model: ModelOnRanks, parallel: Parallel, accelerator: Accelerator, *, ranks_alone: bool = False
) -> JobGraph:
    """The iteration of a model as a job graph, a class of like ranks a stage.

    ``ranks_alone``: every rank is an owner. Passes follow each other in the order of the pipeline's
    schedule; messages have sizes, but no times yet. Gradients are cut and merged by policies. With
    ZeRO 3 the parameters of a block are gathered while the block before it computes. Times are
    rounded to nanoseconds.
    """
    if ranks_alone and parallel.num_ranks > MAX_RANKS_ALONE:
        raise ValueError(f"{parallel.num_ranks} ranks alone: at most {MAX_RANKS_ALONE}")
    blocks = sum(map(len, model.layers)) * (parallel.ranks_of_stage if ranks_alone else 1)
    if 2 * parallel.microbatches * blocks > MAX_COMPUTATIONS:
        raise ValueError(
            f"{parallel.microbatches} microbatches through {blocks} blocks: at most "
            f"{MAX_COMPUTATIONS} computations are simulated"
        )
    builder = _Building(model, parallel, accelerator, ranks_alone=ranks_alone)
    for stage in range(parallel.pipeline):
        builder.add_stage(stage)
    builder.join()
    return builder.draft.graph()


class _WrittenPass(NamedTuple):
    """A pass in the draft: from where to where, the two computations before it, and its own."""

    first: Written
    last: Written
    before: tuple[Nodes, ...]
    computed: list[Nodes]
    received: Nodes | None


@final
class _Building:
    """The draft, and what its parts wait for."""

    def __init__(
        self,
        model: ModelOnRanks,
        parallel: Parallel,
        accelerator: Accelerator,
        *,
        ranks_alone: bool,
    ) -> None:
        self.model, self.parallel, self.accelerator = model, parallel, accelerator
        self.ranks_alone = ranks_alone
        each = parallel.ranks_of_stage
        owners = parallel.num_ranks if ranks_alone else parallel.pipeline
        self.draft = JobDraft(owners, None if ranks_alone else [each] * owners, NANOSECOND)
        per = len(model.layers) // (parallel.pipeline * parallel.chunks)
        self.blocks = [
            [
                (virtual * per + place, block)
                for place, layer in enumerate(model.layers[virtual * per : (virtual + 1) * per])
                for block in layer
            ]
            for virtual in range(parallel.pipeline * parallel.chunks)
        ]
        self.received: dict[tuple[bool, int, int], Nodes] = {}
        self.waiting: dict[tuple[bool, int, int], Nodes] = {}
        self.computed: list[Nodes] = []
        self.ticks: dict[tuple[int, int], int] = {}
        self.written: dict[tuple[int, bool], _WrittenPass] = {}
        self.first_use: dict[tuple[int, int], Nodes] = {}
        self.renewed: dict[tuple[int, int], Nodes] = {}

    def owners(self, stage: int) -> range:
        """The owners of a stage."""
        each = self.parallel.ranks_of_stage
        return (
            range(stage * each, (stage + 1) * each) if self.ranks_alone else range(stage, stage + 1)
        )

    def groups(self, stage: int, name: str) -> list[tuple[list[int], tuple[int, int]]]:
        """The groups of a stage: owners, and the first and the last rank."""
        size, stride = self.parallel.size(name), self.parallel.stride(name)
        base = stage * self.parallel.ranks_of_stage
        if not self.ranks_alone:
            return [([stage], (base, base + (size - 1) * stride))]
        span = size * stride
        starts = [
            block + offset
            for block in range(base, base + self.parallel.ranks_of_stage, span)
            for offset in range(stride)
        ]
        groups = [[start + stride * place for place in range(size)] for start in starts]
        return [(group, (group[0], group[-1])) for group in groups]

    def add_stage(self, stage: int) -> None:
        """All passes of a stage, one after the other."""
        parallel = self.parallel
        passes = SCHEDULES[parallel.schedule](
            stage, parallel.pipeline, parallel.microbatches, parallel.chunks
        )
        self.computed = []
        for each in passes:
            virtual = each.chunk * parallel.pipeline + stage
            self._add_or_repeat(stage, virtual, each)
        for owner in self.owners(stage):
            self.draft.carry(self.computed[-1][owner], self.computed[0][owner])

    def _add_or_repeat(self, stage: int, virtual: int, each: Pass) -> None:
        """Write a pass, as the one before it was if only its microbatch is another.

        Those of ranks alone, of the last microbatch, and those that begin a stage are not repeated.
        """
        is_last = each.microbatch == self.parallel.microbatches - 1
        if self.ranks_alone or is_last or len(self.computed) < 2:
            self._add_pass(stage, virtual, each)
            return
        before = tuple(self.computed[-2:])
        known = self.written.get((virtual, each.is_forward))
        if known is not None:
            self._repeat(stage, virtual, each, known, before)
            return
        first, begin = self.draft.written, len(self.computed)
        self._add_pass(stage, virtual, each)
        received = self.received.get((each.is_forward, each.microbatch, _next(virtual, each)))
        self.written[virtual, each.is_forward] = _WrittenPass(
            *(first, self.draft.written, before, self.computed[begin:], received)
        )

    def _repeat(
        self, stage: int, virtual: int, each: Pass, known: _WrittenPass, before: tuple[Nodes, ...]
    ) -> None:
        renamed = {old[stage]: new[stage] for old, new in zip(known.before, before, strict=True)}
        shift = self.draft.again(known.first, known.last, renamed)
        self.computed += [_moved(nodes, shift) for nodes in known.computed]
        self.waiting[each.is_forward, each.microbatch, virtual] = _moved(known.computed[0], shift)
        if known.received is not None:
            target = each.is_forward, each.microbatch, _next(virtual, each)
            self.received[target] = _moved(known.received, shift)

    def _add_pass(self, stage: int, virtual: int, each: Pass) -> None:
        blocks = list(enumerate(self.blocks[virtual]))
        at: Nodes = {}
        begin = len(self.computed)
        for number, (layer, block) in blocks if each.is_forward else reversed(blocks):
            key = virtual, number
            for exchange in block.before if each.is_forward else block.backward_before:
                at = self._exchange(stage, exchange, at or self._last())
            at = self._compute(stage, key, block, each, at)
            if not each.is_forward:
                self._sum_gradient(stage, key, (layer, block), each, at)
            for exchange in block.after if each.is_forward else block.backward_after:
                at = self._exchange(stage, exchange, at)
        self.waiting[each.is_forward, each.microbatch, virtual] = self.computed[begin]
        self._hand_on(stage, virtual, each, at)

    def _last(self) -> Nodes:
        return self.computed[-1] if self.computed else {}

    def _compute(
        self, stage: int, key: tuple[int, int], block: Block, each: Pass, at: Nodes
    ) -> Nodes:
        """The computation of a block, backward twice as long, after all before it."""
        ticks = self._ticks(block, 1 if each.is_forward else 2)
        gathered = self._gathered(stage, block)
        nodes = {}
        for owner in self.owners(stage):
            waits = [node[owner] for node in (at, self._last(), gathered) if owner in node]
            nodes[owner] = self.draft.compute(owner, ticks, waits, label=block.name)
        self.computed.append(nodes)
        if key not in self.first_use:
            self.first_use[key] = gathered or nodes
        return nodes

    def _ticks(self, block: Block, times: int) -> int:
        """Nanoseconds of a block, once or twice, worked out once for layers that are one object."""
        key = id(block), times
        if key not in self.ticks:
            self.ticks[key] = self.accelerator.nanoseconds(
                times * block.operations, times * block.moved_bytes
            )
        return self.ticks[key]

    def _gathered(self, stage: int, block: Block) -> Nodes:
        """With ZeRO 3 the gather of a block's parameters, when the block before it begins."""
        parallel = self.parallel
        if parallel.zero < 3 or not block.num_parameters or parallel.size(block.copies) == 1:
            return {}
        after = self.computed[-2] if len(self.computed) > 1 else {}
        return self._collective(
            stage, "allgather", block.copies, self._parameter_bytes(block), after, "parameters"
        )

    def _sum_gradient(
        self, stage: int, key: tuple[int, int], where: tuple[int, Block], each: Pass, at: Nodes
    ) -> None:
        """The gradient of a block, after its last microbatch, or with ZeRO 3 after each."""
        parallel, (layer, block) = self.parallel, where
        last = each.microbatch == parallel.microbatches - 1
        if not block.num_parameters or parallel.size(block.copies) == 1:
            return
        if not last and parallel.zero < 3:
            return
        size = self._parameter_bytes(block)
        name = "reduce-scatter" if parallel.zero else "allreduce"
        nodes = self._collective(stage, name, block.copies, size, at, "gradients", layer)
        if parallel.zero in (1, 2):
            nodes = self._collective(
                stage, "allgather", block.copies, size, nodes, "parameters", layer
            )
        if last:
            self.renewed[key] = nodes

    def _parameter_bytes(self, block: Block) -> int:
        return block.num_parameters * self.model.element_bytes

    def _exchange(self, stage: int, exchange: Exchange, after: Nodes) -> Nodes:
        size = exchange.size_bytes
        return self._collective(
            stage, exchange.collective, exchange.group, size, after, exchange.group
        )

    def _collective(
        self,
        stage: int,
        name: str,
        group: str,
        size_bytes: int,
        after: Nodes,
        label: str,
        layer: int | None = None,
    ) -> Nodes:
        nodes: Nodes = {}
        for owners, between in self.groups(stage, group):
            made = self.draft.collective(
                *(name, owners, size_bytes, _lists(after)),
                num_ranks=self.parallel.size(group),
                between=between,
                label=label,
                priority=None if layer is None else _LAST_PRIORITY + layer,
                is_gradient=layer is not None,
            )
            nodes.update(zip(sorted(owners), made, strict=True))
        return nodes

    def _hand_on(self, stage: int, virtual: int, each: Pass, at: Nodes) -> None:
        """The activations, or their gradients, to the next stage, or the one before."""
        target = _next(virtual, each)
        if not 0 <= target < len(self.blocks):
            return
        other = target % self.parallel.pipeline
        nodes: Nodes = {}
        width = self.parallel.ranks_of_stage
        for owner, node in at.items():
            if other == stage:
                nodes[owner] = node
                continue
            shift = (other - stage) * (width if self.ranks_alone else 1)
            ends = (owner, owner + shift) if self.ranks_alone else (stage * width, other * width)
            _, received = self.draft.send(
                *(owner, owner + shift, self.model.handed_bytes, [node]),
                between=(min(ends), max(ends)),
                label="pipeline",
            )
            nodes[owner + shift] = received
        self.received[each.is_forward, each.microbatch, target] = nodes

    def join(self) -> None:
        """Let passes wait for what they receive, and the next iteration for its parameters."""
        for key, nodes in self.waiting.items():
            for owner, before in self.received.get(key, {}).items():
                self.draft.wait(nodes[owner], before)
        for block, nodes in self.renewed.items():
            for owner, before in nodes.items():
                self.draft.carry(before, self.first_use[block][owner])


def _next(virtual: int, each: Pass) -> int:
    """The part of the model that a pass hands on to."""
    return virtual + (1 if each.is_forward else -1)


def _moved(nodes: Nodes, shift: int) -> Nodes:
    return {owner: node + shift for owner, node in nodes.items()}


def _lists(nodes: Mapping[int, int]) -> dict[int, Iterable[int]]:
    return {owner: [node] for owner, node in nodes.items()}


# How ranks divide a model: data, tensor, pipeline and expert parallelism, and ZeRO.


MAX_DEGREE = 2**20


@final
@dataclass(frozen=True, slots=True)
class Parallel:
    """Degrees of parallelism. Rank = (stage * data + copy) * tensor + part: tensors are innermost.

    ``expert`` consecutive copies share the experts. ``zero``: 1 and 2 reduce-scatter gradients and
    gather parameters, 3 (FSDP) gathers them for every microbatch, forward and backward.
    ``sequence`` divides activations among tensor ranks. ``schedule`` is one of SCHEDULES; a stage
    holds ``chunks`` parts of the model. Raises ValueError for what does not go together.

    >>> Parallel(data=4, tensor=2, pipeline=3).num_ranks
    24
    """

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    expert: int = 1
    zero: int = 0
    sequence: bool = False
    schedule: str = "1f1b"
    microbatches: int = 1
    chunks: int = 1

    def __post_init__(self) -> None:
        degrees = ("data", "tensor", "pipeline", "expert", "microbatches", "chunks")
        for name in degrees:
            if not 1 <= getattr(self, name) <= MAX_DEGREE:
                raise ValueError(f"{name} is {getattr(self, name)}: it is from 1 to {MAX_DEGREE}")
        if not 0 <= self.zero <= 3:
            raise ValueError(f"zero is {self.zero}: it is from 0 to 3")
        if self.data % self.expert:
            raise ValueError(f"expert is {self.expert}: it divides data, which is {self.data}")
        if self.schedule not in SCHEDULES:
            raise ValueError(f"schedule is {self.schedule!r}: one of {', '.join(SCHEDULES)}")
        if self.chunks > 1 and self.schedule not in ("interleaved", "breadth-first"):
            raise ValueError(f"{self.schedule} has one chunk a stage, not {self.chunks}")
        if self.schedule == "interleaved" and self.microbatches % self.pipeline:
            raise ValueError(
                f"interleaved needs a multiple of {self.pipeline} microbatches, one for every "
                f"stage: not {self.microbatches}"
            )

    @property
    def num_ranks(self) -> int:
        """All ranks."""
        return self.data * self.tensor * self.pipeline

    @property
    def ranks_of_stage(self) -> int:
        """Ranks of a pipeline stage."""
        return self.data * self.tensor

    def size(self, group: str) -> int:
        """Ranks of a group of that name."""
        return {
            TENSOR: self.tensor,
            EXPERT: self.expert,
            DATA: self.data,
            EXPERT_DATA: self.data // self.expert,
        }[group]

    def stride(self, group: str) -> int:
        """How far consecutive ranks of a group of that name are apart."""
        outer = self.tensor * self.expert
        return {TENSOR: 1, EXPERT: self.tensor, DATA: self.tensor, EXPERT_DATA: outer}[group]

    def check_alike(self, machine: Machine) -> None:
        """ValueError unless the groups of a kind all lie alike on the levels of a machine."""
        if self.num_ranks > machine.num_ranks:
            raise ValueError(
                f"{self.num_ranks} ranks are asked for: the machine has {machine.num_ranks}"
            )
        spans = {name: self.size(name) * self.stride(name) for name in (TENSOR, EXPERT, DATA)}
        for level in machine.levels[:-1]:
            for name, span in spans.items():
                if level.num_ranks % span and span % level.num_ranks:
                    raise ValueError(
                        f"blocks of {level.num_ranks} ranks cut groups of {name} ranks unevenly: "
                        f"{span} consecutive ranks hold one"
                    )
