"""The job of a model that is divided among ranks: passes of microbatches, and gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, final

from ocs_codesign.workload.job_draft import JobDraft
from ocs_codesign.workload.job_graph import NANOSECOND
from ocs_codesign.workload.models.passes import SCHEDULES, Pass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ocs_codesign.workload.fused import Accelerator
    from ocs_codesign.workload.job_draft import Written
    from ocs_codesign.workload.job_graph import JobGraph
    from ocs_codesign.workload.models.layer import Block, Exchange, ModelOnRanks
    from ocs_codesign.workload.models.parallel import Parallel

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
