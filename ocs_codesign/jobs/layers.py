"""LayerTimes: a training step as a chain of layers, whose gradients are summed before use."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import lcm
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.quantities import exact_time
from ocs_codesign.core.topology import starts_of
from ocs_codesign.jobs.issue import members_of
from ocs_codesign.jobs.job_draft import JobDraft
from ocs_codesign.jobs.job_graph import (
    COLLECTIVES,
    COMPUTE,
    FIRST_COLLECTIVE,
    MAX_NODES,
    NANOSECOND,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ocs_codesign.circuits.legs.trace import Trace
    from ocs_codesign.jobs.job_graph import JobGraph


MAX_LAYERS = 10_000


@final
@dataclass(frozen=True, slots=True, init=False)
class LayerTimes:
    """Seconds that the layers, the first one first, compute forward and backward, and are summed.

    The gradient of layer i is ready when backward has passed it; the next forward waits at layer i
    until its allreduce of ``allreduce_s[i]``, and of ``latency_s`` more for each part that it is
    cut into, is over. Numbers are exact. Raises ValueError for columns of different lengths, and
    for negative times.

    >>> layers = LayerTimes([10] * 3, [20] * 3, [40, 20, 30])
    >>> layers.num_layers, layers.bound_s
    (3, Fraction(120, 1))
    """

    forward_s: tuple[Fraction, ...]
    backward_s: tuple[Fraction, ...]
    allreduce_s: tuple[Fraction, ...]
    latency_s: Fraction

    def __init__(
        self,
        forward_s: Sequence[Fraction | float],
        backward_s: Sequence[Fraction | float],
        allreduce_s: Sequence[Fraction | float],
        latency_s: Fraction | float = 0,
    ) -> None:
        given = {"forward_s": forward_s, "backward_s": backward_s, "allreduce_s": allreduce_s}
        if len({len(values) for values in given.values()}) > 1 or not forward_s:
            raise ValueError("layers have a time forward, one backward and one of the allreduce")
        if len(forward_s) > MAX_LAYERS:
            raise ValueError(f"{len(forward_s)} layers: at most {MAX_LAYERS} are read")
        for name, values in given.items():
            object.__setattr__(self, name, tuple(exact_time(value, name) for value in values))
        object.__setattr__(self, "latency_s", exact_time(latency_s, "latency_s"))
        if not sum(self.forward_s + self.backward_s + self.allreduce_s):
            raise ValueError("nothing takes time: all layers take 0 s")

    @property
    def num_layers(self) -> int:
        """Number of layers."""
        return len(self.forward_s)

    @property
    def bound_s(self) -> Fraction:
        """Least period of any policy: the computation, or the channel from the first gradient on.

        Whatever is summed last, its layer and those after it are still to come forward.
        """
        computes = sum(self.forward_s + self.backward_s, Fraction(0))
        channel = self.backward_s[-1] + sum(self.allreduce_s, Fraction(0)) + min(self.forward_s)
        return max(computes, channel)

    def graph(self, num_ranks: int = 1, gradient_bytes: Sequence[int] | None = None) -> JobGraph:
        """The job of so many ranks alike, one class of them: backward, allreduces, next forward.

        ``gradient_bytes`` are M of the layers' allreduces, where they are known.
        """
        times = (*self.forward_s, *self.backward_s, *self.allreduce_s, self.latency_s)
        tick_s = Fraction(1, lcm(*(time.denominator for time in times)))
        forward, backward, allreduce = (
            [int(time / tick_s) for time in times]
            for times in (self.forward_s, self.backward_s, self.allreduce_s)
        )
        sizes = [0] * self.num_layers if gradient_bytes is None else gradient_bytes
        draft = JobDraft(1, [num_ranks], tick_s)
        down = [
            draft.compute(0, backward[layer], label="backward", priority=layer)
            for layer in reversed(range(self.num_layers))
        ]
        up = [
            draft.compute(0, ticks, label="forward", priority=layer)
            for layer, ticks in enumerate(forward)
        ]
        draft.in_turn(down + up)
        draft.carry(up[-1], down[0])
        for layer, ticks in enumerate(allreduce):
            (node,) = draft.collective(
                *("allreduce", (0,), sizes[layer], {0: [down[-1 - layer]]}),
                num_ranks=num_ranks,
                label="allreduce",
                priority=layer,
                is_gradient=True,
                work=ticks,
                latency=int(self.latency_s / tick_s),
            )
            draft.wait(up[layer], node)
        return draft.graph()


# Traces as jobs: collectives of all ranks one after the other, with computation between them.


MAX_STEPS = 200_000


def chain_of(trace: Trace, num_ranks: int) -> JobGraph:
    """The job of a trace whose collectives are over so many ranks, one class of them.

    A gap is a computation, in whole picoseconds; M is rounded up to bytes. Raises ValueError for
    more than 200,000 collectives, repetitions counted.

    >>> from ocs_codesign.circuits.legs.trace import Job, Trace
    >>> chain = chain_of(Trace([Job("allreduce", 8, gap_before_s=1)], repeat=2), 4)
    >>> chain.num_nodes, chain.size_bytes.tolist()
    (4, [0, 8, 0, 8])
    """
    if trace.num_jobs > MAX_STEPS:
        raise ValueError(f"{trace.num_jobs} collectives: at most {MAX_STEPS} are simulated")
    steps = trace.legs()
    draft = JobDraft(1, [num_ranks], NANOSECOND / 1000)
    last: list[int] = []
    for row in steps.rows.tolist():
        leg = steps.legs[row]
        if leg.gap_s:
            ticks = round(leg.gap_s / draft.tick_s)
            last = [draft.compute(0, ticks, last, label="computation")]
        name = leg.collective.name
        last = draft.collective(
            *(name, (0,), -(-leg.message_bytes // 1), {0: last}),
            num_ranks=num_ranks,
            between=(0, num_ranks - 1),
            label=name,
        )
    return draft.graph()


# Jobs of classes of like ranks written out: every rank an owner, every group with its ranks.


def has_groups_side_by_side(graph: JobGraph) -> bool:
    """Whether a collective of a class stands for several groups of its ranks."""
    owners = starts_of(graph.ranks[graph.group_owner])[graph.group_start]
    return bool((np.diff(owners) != graph.group_size).any())


def with_ranks_alone(graph: JobGraph) -> JobGraph:
    """The job in which every rank of a class is an owner, in the order of the classes.

    A group of all ranks of its classes stays one. A group of p ranks of one class of which several
    are side by side begins with that between whose first and last rank its messages are, which are
    p ranks in even steps; the others follow in the same steps, such that each rank is in one. A
    send goes from the i-th rank of a class to the i-th of the other. Raises ValueError for groups
    whose ranks are not known, or are not of such a shape, and for more than 2^24 nodes.

    >>> draft = JobDraft(1, [4])
    >>> nodes = draft.collective("allreduce", (0,), 8, {}, num_ranks=2, between=(0, 2))
    >>> alone = with_ranks_alone(draft.graph())
    >>> alone.num_owners, alone.group_owner.tolist()
    (4, [0, 2, 1, 3])
    """
    if (graph.ranks == 1).all():
        return graph
    num = int(graph.ranks[graph.owner].sum())
    if num > MAX_NODES:
        raise ValueError(f"{num:,} nodes of all ranks: at most {MAX_NODES:,} are simulated")
    draft = JobDraft(int(graph.ranks.sum()), tick_s=graph.tick_s)
    first = starts_of(graph.ranks).tolist()
    made: list[dict[int, int]] = [{} for _ in range(graph.num_nodes)]
    for node in np.flatnonzero(graph.kind == COMPUTE).tolist():
        at, many = first[graph.owner[node]], int(graph.ranks[graph.owner[node]])
        label, ticks = graph.labels[graph.label[node]], int(graph.ticks[node])
        for rank in range(at, at + many):
            made[node][rank] = draft.compute(
                rank, ticks, label=label, priority=int(graph.priority[node])
            )
    start, members = members_of(graph)
    for low, high in pairwise(start.tolist()):
        nodes = members[low:high].tolist()
        if graph.kind[nodes[0]] >= FIRST_COLLECTIVE:
            _add_collectives(draft, graph, nodes, first, made)
        else:
            _add_sends(draft, graph, nodes, first, made)
    _add_edges(draft, graph, first, made)
    return draft.graph()


def _add_collectives(
    draft: JobDraft, graph: JobGraph, nodes: list[int], first: list[int], made: list[dict[int, int]]
) -> None:
    """The collectives of all groups side by side that a collective of classes stands for."""
    node = nodes[0]
    of_rank = {
        rank: one
        for one in nodes
        for rank in range(first[graph.owner[one]], first[graph.owner[one] + 1])
    }
    for group in _groups(graph, nodes, sorted(of_rank)):
        alone = draft.collective(
            *(COLLECTIVES[graph.kind[node] - FIRST_COLLECTIVE], group),
            *(int(graph.size_bytes[node]), {}),
            label=graph.labels[graph.label[node]],
            priority=int(graph.priority[node]),
            is_gradient=bool(graph.is_gradient[node]),
            work=int(graph.work[node]),
            latency=int(graph.latency[node]),
        )
        for rank, one in zip(sorted(group), alone, strict=True):
            made[of_rank[rank]][rank] = one


def _groups(graph: JobGraph, nodes: list[int], ranks: list[int]) -> list[list[int]]:
    """The ranks of all groups side by side, ``ranks`` being all of theirs."""
    node = nodes[0]
    size, low = int(graph.group_size[graph.group[node]]), int(graph.first_rank[node])
    if size == len(ranks):
        return [ranks]
    if size == 1:
        return [[rank] for rank in ranks]
    step, rest = divmod(int(graph.last_rank[node]) - low, size - 1)
    begin, span = ranks[0], step * size
    if len(nodes) > 1 or rest or step < 1:
        raise ValueError(
            f"{graph.told(node)} is of a group of {size} of {len(ranks)} like ranks: which ones "
            "they are is not known, or they are not in even steps"
        )
    if low < begin or (low - begin) % span >= step or len(ranks) % span:
        raise ValueError(
            f"{graph.told(node)} is of a group of {size} ranks in steps of {step} from rank {low}: "
            f"such groups do not divide the {len(ranks)} ranks from {begin} on"
        )
    return [
        list(range(at, at + span, step))
        for block in range(begin, begin + len(ranks), span)
        for at in range(block, block + step)
    ]


def _add_sends(
    draft: JobDraft, graph: JobGraph, nodes: list[int], first: list[int], made: list[dict[int, int]]
) -> None:
    sent, received = nodes
    tail, head = int(graph.owner[sent]), int(graph.owner[received])
    if graph.ranks[tail] != graph.ranks[head]:
        raise ValueError(
            f"{graph.told(sent)} goes from a class of {graph.ranks[tail]} ranks to one of "
            f"{graph.ranks[head]}: which rank sends to which is not known"
        )
    for at in range(int(graph.ranks[tail])):
        ends = first[tail] + at, first[head] + at
        made[sent][ends[0]], made[received][ends[1]] = draft.send(
            *(*ends, int(graph.size_bytes[sent])),
            label=graph.labels[graph.label[sent]],
            priority=int(graph.priority[sent]),
            work=int(graph.work[sent]),
            latency=int(graph.latency[sent]),
        )


def _add_edges(
    draft: JobDraft, graph: JobGraph, first: list[int], made: list[dict[int, int]]
) -> None:
    """Every rank waits for its own, or the i-th of a class for the i-th of another."""
    before, node = graph.edges()
    waits = zip(node.tolist(), before.tolist(), strict=True)
    carried = ((one, other) for other, one in graph.carried.tolist())
    for pairs, is_carried in ((waits, False), (carried, True)):
        for one, other in pairs:
            mine, theirs = int(graph.owner[one]), int(graph.owner[other])
            if graph.ranks[mine] != graph.ranks[theirs]:
                raise ValueError(f"{graph.told(one)} waits for one of a class of other ranks")
            for at in range(int(graph.ranks[mine])):
                late, early = made[one][first[mine] + at], made[other][first[theirs] + at]
                if is_carried:
                    draft.carry(early, late)
                else:
                    draft.wait(late, early)
