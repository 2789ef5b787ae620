"""The order in which messages over circuits follow each other, and what is computed in between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.kernels import for_work
from ocs_codesign.workload.issue import members_of
from ocs_codesign.workload.order_kernels import topological_order

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.workload.job_graph import JobGraph
    from ocs_codesign.workload.period import Steady
    from ocs_codesign.workload.reconfigured.prices import ConfiguredJob


@final
@dataclass(frozen=True, slots=True, eq=False)
class MessageOrder:
    """Messages over circuits (``instances``, int64) as they begin in an iteration.

    ``gaps`` (int64, ticks) are those before each in which none of them was in flight, that before
    the first one since the iteration before. ``is_chain``: whatever the configurations, messages
    and computation follow one after the other, so gaps stay what they are.
    """

    instances: NDArray[np.int64]
    gaps: NDArray[np.int64]
    is_chain: bool


def order_of(job: ConfiguredJob, held: Steady) -> MessageOrder:
    """The order of a late iteration of a job that holds one configuration."""
    graph, times = job.graph, held.num_iterations
    num = held.job_run.graph.num_nodes // times
    turn = max(0, times - 2)
    start, end = (
        times_of.reshape(times, num)[:, : graph.num_nodes]
        for times_of in (held.job_run.start, held.job_run.end)
    )
    begin, first_node = members_of(graph)
    lead = first_node[begin[:-1]]  # the first of its members is a collective's, or the send
    which = np.flatnonzero(job.over_circuits)
    starts, ends = start[:, lead[which]], end[:, lead[which]]
    rank = _topological_rank(graph)[lead[which]]
    by_start = np.lexsort((rank, starts[turn]))
    starts, ends = starts[:, by_start], ends[:, by_start]
    free = np.maximum.accumulate(ends[turn])
    gaps = np.maximum(0, starts[turn] - np.concatenate([[0], free[:-1]]))
    if turn + 1 < times and len(gaps):
        gaps[0] = max(0, int(starts[turn + 1].min()) - int(free[-1]))
    return MessageOrder(which[by_start], gaps, _is_chain(graph))


def gradients_last(job: ConfiguredJob, order: MessageOrder) -> MessageOrder | None:
    """The same messages, gradients after all others; None if that is the same order."""
    graph = job.graph
    late = np.zeros(graph.num_instances, dtype=bool)
    late[graph.instance[graph.is_gradient & (graph.instance >= 0)]] = True
    by_part = np.argsort(late[order.instances], kind="stable")
    if (np.diff(by_part) > 0).all():
        return None
    return MessageOrder(order.instances[by_part], np.zeros_like(order.gaps), is_chain=False)


def _topological_rank(graph: JobGraph) -> NDArray[np.int64]:
    vertex, start, after = graph.meeting_graph()
    waits = np.bincount(after, minlength=len(start) - 1)
    order = for_work(topological_order, len(vertex) + len(after))(start, after, waits)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return rank[vertex]


def _is_chain(graph: JobGraph) -> bool:
    """Whether there is one owner, whose nodes wait for each other in turn, round the iteration."""
    if graph.num_owners > 1:
        return False
    before, node = graph.edges()
    rank = _topological_rank(graph)
    last = graph.num_nodes - 1
    consecutive = np.unique(rank[before[rank[node] == rank[before] + 1]])
    if len(consecutive) < last:
        return False
    ends = np.argsort(rank)[[last, 0]]
    closed = (graph.carried == ends).all(axis=1).any() if len(graph.carried) else True
    return bool(closed)
