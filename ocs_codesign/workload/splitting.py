"""Jobs whose computation is split so that messages begin earlier, or run beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.runs import before, starts_of
from ocs_codesign.workload.job_graph import COMPUTE, JobGraph
from ocs_codesign.workload.period import ready_at
from ocs_codesign.workload.rewriting import (
    ALLGATHER,
    REDUCE_SCATTER,
    columns_of_parts,
    gradients,
    parts_of,
    with_edges,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


def backwards(graph: JobGraph) -> NDArray[np.bool_]:
    """Computations that a gradient waits for: they make it, and what goes on to the layer before.

    >>> from ocs_codesign.workload.layer_times import LayerTimes
    >>> backwards(LayerTimes([1], [1], [7]).graph()).tolist()
    [True, False, False]
    """
    first, second = graph.edges()
    found = np.zeros(graph.num_nodes, dtype=bool)
    found[first[gradients(graph)[second]]] = True
    found &= graph.kind == COMPUTE
    return found


def out_of_order(graph: JobGraph, num_delayed: int) -> JobGraph:
    """Every backward computation as two: the gradient of the input, then that of the weights.

    Each takes half, and ticks become half as long if that is no whole number of them. Gradients
    wait for the second half alone, all else for the first. Of the last ``num_delayed`` computations
    of every owner the second halves come after all first ones, that of the last one first.

    >>> from ocs_codesign.workload.layer_times import LayerTimes
    >>> job = out_of_order(LayerTimes([10] * 2, [20] * 2, [5] * 2).graph(), 2)
    >>> [job.work.tolist()[node] for node in np.argsort(job.priority[:6])]
    [10, 10, 10, 10, 10, 10]
    >>> job.priority[:6].tolist()
    [0, 3, 1, 2, 4, 5]
    """
    split = backwards(graph)
    if (graph.ticks[split] & 1).any():
        graph = graph.changed(
            work=2 * graph.work, latency=2 * graph.latency, tick_s=graph.tick_s / 2
        )
    parts = np.where(split, 2, 1)
    whole, at = parts_of(parts)
    columns = columns_of_parts(graph, whole, at, parts)
    halved = split[whole]
    for name in ("work", "latency"):
        values = getattr(graph, name)[whole]
        columns[name] = np.where(halved, values // 2, values)
    columns["priority"] = _delayed(graph, split, whole, at, num_delayed)
    first = starts_of(parts)[:-1]
    last = first + parts - 1
    begin, end = graph.edges()
    sums = gradients(graph)
    own = np.flatnonzero(split)
    waits = np.concatenate(
        [
            np.stack([np.where(sums[end], last[begin], first[begin]), first[end]], axis=1),
            np.stack([first[own], last[own]], axis=1),
        ]
    )
    carried = np.stack([last[graph.carried[:, 0]], first[graph.carried[:, 1]]], axis=1)
    return with_edges(graph, columns, waits, carried)


def _delayed(
    graph: JobGraph,
    split: NDArray[np.bool_],
    whole: NDArray[np.int64],
    at: NDArray[np.int64],
    num_delayed: int,
) -> NDArray[np.int64]:
    """Priorities of all parts; those of messages keep their order."""
    computes = graph.kind == COMPUTE
    order = np.lexsort((graph.priority, ready_at(graph)))
    rank = np.empty(graph.num_nodes, dtype=np.int64)
    rank[order] = np.arange(graph.num_nodes)
    rank = np.where(computes, rank, graph.num_nodes + graph.priority - graph.priority.min())
    mine = np.flatnonzero(split)
    backward = mine[np.argsort(-rank[mine])]
    behind = before(graph.owner[backward], np.ones(len(backward), dtype=np.int64))
    number = np.zeros(graph.num_nodes, dtype=np.int64)
    number[backward] = behind
    latest = np.full(graph.num_owners, -1, dtype=np.int64)
    np.maximum.at(latest, graph.owner[mine], rank[mine])
    moved = split[whole] & (at == 1) & (number[whole] < num_delayed)
    anchor = np.where(moved, latest[graph.owner[whole]], rank[whole])
    sub = np.where(moved, 1 + number[whole], at)
    priority = np.empty(len(whole), dtype=np.int64)
    priority[np.lexsort((sub, anchor))] = np.arange(len(whole))
    return priority


def interleaved(graph: JobGraph, num_chunks: int) -> JobGraph:
    """Allgathers before a computation, and reduce-scatters after one, in chunks beside its chunks.

    Chunk i of a computation waits for chunk i of what it gathers, and chunk i of what is reduced
    for it; chunks of a node follow each other, each of a message with its own latency. Gradients
    and parameters that policies may cut are left whole.

    >>> from ocs_codesign.workload.job_draft import JobDraft
    >>> draft = JobDraft(1)
    >>> nodes = draft.collective("allgather", (0,), 8, {}, num_ranks=2, work=40)
    >>> node = draft.compute(0, 40, nodes)
    >>> interleaved(draft.graph(), 4).work.tolist()
    [10, 10, 10, 10, 10, 10, 10, 10]
    """
    if num_chunks < 1:
        raise ValueError(f"num_chunks is {num_chunks}: there is at least one")
    begin, end = graph.edges()
    computes = graph.kind == COMPUTE
    free = ~graph.is_gradient
    gathers = (graph.kind == ALLGATHER)[begin] & free[begin] & computes[end]
    reduces = (graph.kind == REDUCE_SCATTER)[end] & free[end] & computes[begin]
    gathers &= _in_all(graph, begin, gathers)[begin]
    reduces &= _in_all(graph, end, reduces)[end]
    beside = gathers | reduces
    is_cut = np.zeros(graph.num_nodes, dtype=bool)
    is_cut[begin[beside]] = is_cut[end[beside]] = True
    parts = np.where(is_cut, num_chunks, 1)
    whole, at = parts_of(parts)
    columns = columns_of_parts(graph, whole, at, parts)
    work, count = graph.work[whole], parts[whole]
    columns["work"] = work * (at + 1) // count - work * at // count
    columns["size_bytes"] = -(-graph.size_bytes[whole] // count)
    first = starts_of(parts)[:-1]
    last = first + parts - 1
    chunk = np.arange(num_chunks)
    follows = np.flatnonzero(at > 0)
    waits = np.concatenate(
        [
            np.stack([last[begin[~beside]], first[end[~beside]]], axis=1),
            np.stack(
                [(first[one[beside]][:, None] + chunk).ravel() for one in (begin, end)], axis=1
            ),
            np.stack([follows - 1, follows], axis=1),
        ]
    )
    carried = np.stack([last[graph.carried[:, 0]], first[graph.carried[:, 1]]], axis=1)
    return with_edges(graph, columns, waits, carried)


def _in_all(
    graph: JobGraph, node: NDArray[np.int64], chosen: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """The nodes of instances whose nodes all are at the chosen ends of edges (nodes,)."""
    has = np.zeros(graph.num_nodes, dtype=bool)
    has[node[chosen]] = True
    lacks = np.zeros(graph.num_instances + 1, dtype=bool)
    lacks[graph.instance[~has]] = True
    found: NDArray[np.bool_] = has & ~lacks[graph.instance]
    return found
