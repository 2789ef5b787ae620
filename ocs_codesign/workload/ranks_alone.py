"""Jobs of classes of like ranks written out: every rank an owner, every group with its ranks."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.runs import starts_of
from ocs_codesign.workload.issue import members_of
from ocs_codesign.workload.job_draft import JobDraft
from ocs_codesign.workload.job_graph import COLLECTIVES, COMPUTE, FIRST_COLLECTIVE, MAX_NODES

if TYPE_CHECKING:
    from ocs_codesign.workload.job_graph import JobGraph


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
    draft: JobDraft,
    graph: JobGraph,
    nodes: list[int],
    first: list[int],
    made: list[dict[int, int]],
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
    draft: JobDraft,
    graph: JobGraph,
    nodes: list[int],
    first: list[int],
    made: list[dict[int, int]],
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
