"""The steady period of a job whose iterations follow each other, and what it is at least."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.kernels import for_work
from ocs_codesign.workload.issue import Discipline, JobRun, run
from ocs_codesign.workload.job_graph import COMPUTE, MAX_NODES, JobGraph, csr
from ocs_codesign.workload.order_kernels import longest_between, topological_order

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

_FIRST_TIMES, _MOST_TIMES = 4, 32
_MAX_CIRCLES = 64


@final
@dataclass(frozen=True, slots=True, eq=False)
class Steady:
    """Seconds from one iteration to the next, and the run of several that shows it.

    ``is_steady``: the last two iterations took the same; else the period is the mean of the last
    half of them. The run is of ``num_iterations``.
    """

    period_s: Fraction
    is_steady: bool
    job_run: JobRun
    num_iterations: int

    @property
    def exposed_s(self) -> Fraction:
        """Seconds an iteration in which an owner, in the mean, only waits for its channel."""
        graph = self.job_run.graph
        ticks = int((self.job_run.exposed_ticks() * graph.ranks).sum())
        return Fraction(ticks, self.num_iterations * int(graph.ranks.sum())) * graph.tick_s


def steady(
    graph: JobGraph,
    discipline: Discipline | None = None,
    run_once: Callable[[JobGraph, Discipline | None], JobRun] = run,
    unrolled: Callable[[int], JobGraph] | None = None,
) -> Steady:
    """The period of iterations one after the other, exact where it repeats.

    ``run_once`` puts several of them, as one graph, on the clock. ``unrolled`` makes that graph;
    one that remembers serves a job with several disciplines.

    >>> from ocs_codesign.workload.layer_times import LayerTimes
    >>> job = LayerTimes([10] * 3, [20] * 3, [40, 20, 30]).graph()
    >>> steady(job).period_s, steady(job, Discipline(exclusive=True)).period_s
    (Fraction(140, 1), Fraction(180, 1))
    """
    times = _FIRST_TIMES if len(graph.carried) else 1
    while True:
        done = run_once((unrolled or graph.unrolled)(times), discipline)
        ends = _ends(done, graph, times)
        lasts = np.diff(ends, prepend=0)
        is_steady = times == 1 or lasts[-1] == lasts[-2]
        if is_steady or 2 * times > _MOST_TIMES or 2 * times * graph.num_nodes > MAX_NODES:
            break
        times *= 2
    half = max(1, times // 2)
    span = int(lasts[-1]) * half if is_steady else int(ends[-1] - ends[half - 1])
    return Steady(Fraction(span, half) * graph.tick_s, bool(is_steady), done, times)


def period_bound_s(graph: JobGraph) -> Fraction:
    """Seconds that an iteration takes at least, in whatever order gradients are sent.

    The computation of an owner, the work of its channel, and what lies on a circle of an iteration
    and what it hands on: the longest path, and all the work of a channel after the least that comes
    before and before the least that comes after. Latencies of messages are left out, for messages
    may be merged.

    >>> from ocs_codesign.workload.layer_times import LayerTimes
    >>> period_bound_s(LayerTimes([10] * 3, [20] * 3, [10, 10, 90]).graph())
    Fraction(140, 1)
    """
    talks = graph.is_communication
    computes = graph.kind == COMPUTE
    weight = np.where(computes, graph.ticks, np.where(talks, graph.work, 0))
    loads = [
        np.bincount(graph.owner[which], weight[which].astype(float), graph.num_owners).max(
            initial=0
        )
        for which in (computes, talks)
    ]
    if max(loads) >= 2**53:
        raise ValueError("the job takes 2^53 ticks or more: coarser ticks are needed")
    bound = int(max(loads))
    if not len(graph.carried):
        return max(bound, _longest(graph, weight)) * graph.tick_s
    vertex, start, after, order = _meeting_order(graph)
    weights = np.zeros(len(start) - 1, dtype=np.int64)
    np.maximum.at(weights, vertex, weight)
    reverse = _reversed(start, after)
    for last, first in graph.carried[:_MAX_CIRCLES].tolist():
        between = for_work(longest_between, len(after))
        down = between(order, start, after, weights, vertex[first])
        if down[vertex[last]] < 0:
            continue
        up = between(order[::-1].copy(), *reverse, weights, vertex[last])
        bound = max(bound, int(down[vertex[last]]) + int(weights[vertex[last]]))
        mine = talks & (graph.owner == graph.owner[first])
        mine &= (down[vertex] >= 0) & (up[vertex] >= 0)
        if mine.any():
            around = int(down[vertex[mine]].min() + up[vertex[mine]].min())
            bound = max(bound, around + int(weight[mine].sum()))
    return bound * graph.tick_s


def needed_at(graph: JobGraph) -> NDArray[np.int64]:
    """When the first that waits for a node would begin if messages took no time (int64, nodes).

    What the next iteration waits for counts; what nothing waits for is needed last.
    """
    times = 2 if len(graph.carried) else 1
    two = graph.unrolled(times)
    vertex, start, after, order = _meeting_order(two)
    weights = np.zeros(len(start) - 1, dtype=np.int64)
    np.maximum.at(weights, vertex, np.where(two.kind == COMPUTE, two.ticks, 0))
    begin = _before(order, start, after, weights)
    before, node = (np.concatenate(ends) for ends in zip(two.edges(), two.pairs(), strict=True))
    needed = np.full(two.num_nodes, np.iinfo(np.int64).max)
    uses = two.kind[node] == COMPUTE
    np.minimum.at(needed, before[uses], begin[vertex[node[uses]]])
    for _ in range(3):  # a message that only another message waits for
        np.minimum.at(needed, before[~uses], needed[node[~uses]])
    return needed[: graph.num_nodes]


def ready_at(graph: JobGraph) -> NDArray[np.int64]:
    """When every node would begin if messages took no time (int64, nodes)."""
    vertex, start, after, order = _meeting_order(graph)
    weights = np.zeros(len(start) - 1, dtype=np.int64)
    np.maximum.at(weights, vertex, np.where(graph.kind == COMPUTE, graph.ticks, 0))
    return _before(order, start, after, weights)[vertex]


def _meeting_order(graph: JobGraph) -> tuple[NDArray[np.int64], ...]:
    vertex, start, after = graph.meeting_graph()
    waits = np.bincount(after, minlength=len(start) - 1)
    order = for_work(topological_order, len(vertex) + len(after))(start, after, waits)
    return vertex, start, after, order


def _before(
    order: NDArray[np.int64],
    start: NDArray[np.int64],
    after: NDArray[np.int64],
    weights: NDArray[np.int64],
) -> NDArray[np.int64]:
    longest: NDArray[np.int64] = for_work(longest_between, len(after))(
        order, start, after, weights, -1
    )
    return longest


def _longest(graph: JobGraph, weight: NDArray[np.int64]) -> int:
    vertex, start, after, order = _meeting_order(graph)
    weights = np.zeros(len(start) - 1, dtype=np.int64)
    np.maximum.at(weights, vertex, weight)
    return int((_before(order, start, after, weights) + weights).max())


def _reversed(
    start: NDArray[np.int64], after: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    before = np.repeat(np.arange(len(start) - 1), np.diff(start))
    return csr(after, before, len(start) - 1)


def _ends(done: JobRun, graph: JobGraph, times: int) -> NDArray[np.int64]:
    """When the computation of every iteration ended; all of it where nothing follows."""
    end = done.end.reshape(times, graph.num_nodes)
    computes = graph.kind == COMPUTE
    follows = times > 1 and bool(computes.any())
    ends: NDArray[np.int64] = (end[:, computes] if follows else end).max(axis=1)
    return ends
