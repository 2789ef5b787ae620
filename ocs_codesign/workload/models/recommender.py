"""Recommenders: embedding tables divided among ranks, and dense layers with copies (DLRM)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, final

from ocs_codesign.workload.fused import FusedOperator, fused_nodes
from ocs_codesign.workload.job_draft import JobDraft
from ocs_codesign.workload.job_graph import NANOSECOND
from ocs_codesign.workload.rewriting import ALLTOALL

if TYPE_CHECKING:
    from ocs_codesign.workload.fused import Accelerator
    from ocs_codesign.workload.job_graph import JobGraph
    from ocs_codesign.workload.prices import Machine

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
