"""Jobs with their gradients communicated otherwise: cut, merged, or in two halves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.core.topology import before, places, starts_of
from ocs_codesign.jobs.issue import ready_at
from ocs_codesign.jobs.job_graph import COLLECTIVES, COMPUTE, FIRST_COLLECTIVE, JobGraph, csr

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


ALLGATHER, REDUCE_SCATTER, ALLREDUCE, ALLTOALL = (
    FIRST_COLLECTIVE + COLLECTIVES.index(name)
    for name in ("allgather", "reduce-scatter", "allreduce", "alltoall")
)
MAX_PARTS = 2**22


def gradients(graph: JobGraph) -> NDArray[np.bool_]:
    """The collectives that may be cut, merged and delayed (nodes,)."""
    return graph.is_gradient & (graph.kind >= FIRST_COLLECTIVE)


def cut(graph: JobGraph, slice_ticks: int) -> JobGraph:
    """Every gradient in slices of so much work, the last one shorter, each with its own latency.

    >>> from ocs_codesign.jobs.layers import LayerTimes
    >>> job = cut(LayerTimes([1], [1], [7], 1).graph(), 5)
    >>> job.work.tolist(), job.latency.tolist()
    ([1, 1, 5, 2], [0, 0, 1, 1])
    """
    if slice_ticks < 1:
        raise ValueError(f"slices of {slice_ticks} ticks: they take at least one")
    parts = np.where(gradients(graph), -(-graph.work // slice_ticks), 1)
    parts = np.maximum(parts, 1)
    if int(parts.sum()) > MAX_PARTS:
        raise ValueError(f"{int(parts.sum())} slices: at most {MAX_PARTS} are scheduled")
    whole, at = parts_of(parts)
    work = np.minimum(slice_ticks, graph.work[whole] - at * slice_ticks)
    work = np.where(parts[whole] > 1, work, graph.work[whole])
    size = -(-graph.size_bytes[whole] // parts[whole])
    columns = columns_of_parts(graph, whole, at, parts)
    start = starts_of(parts)
    waits, carried = (
        _all_to_all_parts(pairs, start, parts)
        for pairs in (np.stack(graph.edges(), axis=1), graph.carried)
    )
    return with_edges(graph, {**columns, "work": work, "size_bytes": size}, waits, carried)


def decoupled(graph: JobGraph, *, gathers_last: bool = False) -> JobGraph:
    """Every allreduce of a gradient as a reduce-scatter, and an allgather that waits for it.

    ``gathers_last``: an allgather waits for all reduce-scatters of its ranks. Ticks become half as
    long if half an allreduce is no whole number of them.

    >>> from ocs_codesign.jobs.layers import LayerTimes
    >>> job = decoupled(LayerTimes([1], [1], [7]).graph())
    >>> job.work.tolist(), job.tick_s
    ([2, 2, 7, 7], Fraction(1, 2))
    """
    is_cut = gradients(graph) & (graph.kind == ALLREDUCE)
    if ((graph.work | graph.latency)[is_cut] & 1).any():
        graph = graph.changed(
            work=2 * graph.work, latency=2 * graph.latency, tick_s=graph.tick_s / 2
        )
    parts = np.where(is_cut, 2, 1)
    whole, at = parts_of(parts)
    columns = columns_of_parts(graph, whole, at, parts)
    halved = is_cut[whole]
    columns["kind"] = np.where(
        halved, np.where(at == 0, REDUCE_SCATTER, ALLGATHER), columns["kind"]
    ).astype(np.int8)
    for name in ("work", "latency"):
        values = getattr(graph, name)[whole]
        columns[name] = np.where(halved, values // 2, values)
    first = starts_of(parts)[:-1]
    last = first + parts - 1
    before, node = graph.edges()
    gathers = last[is_cut]
    waits = [
        np.stack([last[before], first[node]], axis=1),
        np.stack([gathers - 1, gathers], axis=1),
    ]
    if gathers_last:
        waits.append(_gathers_after(graph, is_cut, first))
    carried = np.stack([last[graph.carried[:, 0]], first[graph.carried[:, 1]]], axis=1)
    return with_edges(graph, columns, np.concatenate(waits), carried)


def merged(graph: JobGraph, bucket: NDArray[np.int64]) -> JobGraph:
    """The instances of every bucket as one; ``bucket`` (instances,), -1 for those left alone.

    It has the work and the bytes of all, the largest latency and the best priority. Raises
    ValueError if they are not gradients of one kind and group, or wait for each other.
    """
    if not len(bucket):
        return graph
    number = np.where(bucket < 0, graph.num_instances + np.arange(len(bucket)), bucket)
    talks = graph.instance >= 0
    key = np.full((graph.num_nodes, 2), -1, dtype=np.int64)
    key[talks, 0] = number[graph.instance[talks]]
    key[talks, 1] = graph.owner[talks]
    alone = ~talks | (graph.kind < FIRST_COLLECTIVE)
    key[alone, 0] = -1
    key[alone, 1] = np.flatnonzero(alone)
    _, first, place = np.unique(key, axis=0, return_index=True, return_inverse=True)
    place = place.reshape(-1)
    lead = first[place]
    for name in ("kind", "group", "is_gradient"):
        if (getattr(graph, name) != getattr(graph, name)[lead]).any():
            raise ValueError(f"only gradients of one kind and group are merged: {name} differs")
    order = np.argsort(first)
    position = np.empty(len(first), dtype=np.int64)
    position[order] = np.arange(len(first))
    place, first = position[place], first[order]
    columns = columns_of_parts(graph, first, np.zeros(len(first), dtype=np.int64), None)
    for name, ufunc in (
        ("work", np.add),
        ("size_bytes", np.add),
        ("latency", np.maximum),
        ("priority", np.minimum),
    ):
        values = np.zeros(len(first), dtype=np.int64)
        values[:] = getattr(graph, name)[first] if ufunc is np.minimum else 0
        ufunc.at(values, place, getattr(graph, name))
        columns[name] = values
    old = np.where(talks, number[np.maximum(graph.instance, 0)], -1)
    old[talks & alone] = graph.instance[talks & alone] + 2 * graph.num_instances
    _, renamed = np.unique(old, return_inverse=True)
    columns["instance"] = (renamed - int((old < 0).any()))[first].astype(np.int32)
    waits = place[np.stack(graph.edges(), axis=1)]
    return with_edges(graph, columns, waits, place[graph.carried])


def parts_of(parts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The node of every part, and its number in it."""
    return places(np.zeros(len(parts), dtype=np.int64), parts)


def columns_of_parts(
    graph: JobGraph,
    whole: NDArray[np.int64],
    at: NDArray[np.int64],
    parts: NDArray[np.int64] | None,
) -> dict[str, NDArray[Any]]:
    """Columns of parts of nodes; the parts of an instance are instances."""
    names = (
        *("kind", "owner", "work", "latency", "size_bytes", "priority", "label", "is_gradient"),
        *("instance", "group", "first_rank", "last_rank"),
    )
    columns = {name: getattr(graph, name)[whole] for name in names}
    if parts is not None:
        talks = graph.instance >= 0
        counts = np.zeros(graph.num_instances, dtype=np.int64)
        np.maximum.at(counts, graph.instance[talks], parts[talks])
        first = starts_of(counts)
        mine = graph.instance[whole]
        columns["instance"] = np.where(mine < 0, -1, first[mine] + at).astype(np.int32)
    return columns


def _all_to_all_parts(
    pairs: NDArray[np.int64], start: NDArray[np.int64], parts: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Edges between all parts of both ends of edges."""
    edge, head = places(start[pairs[:, 1]], parts[pairs[:, 1]])
    row, tail = places(start[pairs[edge, 0]], parts[pairs[edge, 0]])
    return np.stack([tail, head[row]], axis=1)


def _gathers_after(
    graph: JobGraph, is_cut: NDArray[np.bool_], first: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Edges from all reduce-scatters of an owner to all its allgathers."""
    rows = []
    for owner in np.unique(graph.owner[is_cut]).tolist():
        halves = first[is_cut & (graph.owner == owner)]
        rows.append(np.stack(np.meshgrid(halves, halves + 1), axis=-1).reshape(-1, 2))
    return np.concatenate(rows) if rows else np.zeros((0, 2), dtype=np.int64)


def with_edges(
    graph: JobGraph,
    columns: dict[str, NDArray[Any]],
    waits: NDArray[np.int64],
    carried: NDArray[np.int64],
) -> JobGraph:
    """The job with other columns and pairs of who is waited for and who waits."""
    waits = waits[waits[:, 0] != waits[:, 1]]
    start, wait_for = csr(waits[:, 1], waits[:, 0], len(columns["kind"]))
    carried = np.unique(carried.reshape(-1, 2), axis=0)
    return graph.changed(**columns, wait_start=start, wait_for=wait_for, carried=carried)


# Jobs whose computation is split so that messages begin earlier, or run beside it.


def backwards(graph: JobGraph) -> NDArray[np.bool_]:
    """Computations that a gradient waits for: they make it, and what goes on to the layer before.

    >>> from ocs_codesign.jobs.layers import LayerTimes
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

    >>> from ocs_codesign.jobs.layers import LayerTimes
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

    >>> from ocs_codesign.jobs.job_draft import JobDraft
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


# Buckets: which gradients are sent together, in the order in which they become ready.


MAX_IN_A_RUN = 2000


def buckets_of_work(graph: JobGraph, most_ticks: int) -> NDArray[np.int64]:
    """The bucket of every instance, -1 for those alone: full when one more would be too much.

    A gradient of more than ``most_ticks`` is a bucket of its own.

    >>> from ocs_codesign.jobs.layers import LayerTimes
    >>> buckets_of_work(LayerTimes([1] * 4, [1] * 4, [4, 3, 2, 1]).graph(), 6).tolist()
    [-1, 0, 0, 0]
    """
    bucket = np.full(graph.num_instances, -1, dtype=np.int64)
    number = 0
    for instances, _, work, _ in _runs(graph):
        first, filled = 0, 0
        for at in range(len(instances) + 1):
            if at == len(instances) or (at > first and filled + work[at] > most_ticks):
                if at - first > 1:
                    bucket[instances[first:at]] = number
                    number += 1
                first, filled = at, 0
            if at < len(instances):
                filled += int(work[at])
    return bucket


def cheapest_buckets(graph: JobGraph) -> NDArray[np.int64]:
    """The buckets with which all gradients of a group are sent soonest, one after the other.

    Dynamic programming over where a bucket ends: it begins when its last gradient is ready and the
    bucket before it is sent, and takes one latency and all the work. Exact for a channel alone; of
    runs of more than 2000 gradients nothing is merged.

    >>> from ocs_codesign.jobs.layers import LayerTimes
    >>> cheapest_buckets(LayerTimes([1] * 3, [1] * 3, [1] * 3, 10).graph()).tolist()
    [0, 0, 0]
    """
    bucket = np.full(graph.num_instances, -1, dtype=np.int64)
    number = 0
    for instances, ready, work, latency in _runs(graph):
        num = len(instances)
        if num > MAX_IN_A_RUN:
            continue
        total = np.concatenate([[0], np.cumsum(work)])
        sent = np.zeros(num + 1, dtype=np.int64)
        first = np.zeros(num + 1, dtype=np.int64)
        for until in range(1, num + 1):
            begin = np.maximum(sent[:until], ready[until - 1])
            # The largest latency of the gradients from each place to here.
            largest = np.maximum.accumulate(latency[:until][::-1])[::-1]
            ends = begin + largest + total[until] - total[:until]
            first[until] = until - 1 - int(np.argmin(ends[::-1]))  # the smallest bucket of equals
            sent[until] = ends[first[until]]
        until = num
        while until:
            if until - first[until] > 1:
                bucket[instances[first[until] : until]] = number
                number += 1
            until = int(first[until])
    return bucket


def _runs(graph: JobGraph) -> Iterator[tuple[NDArray[np.int64], ...]]:
    """Gradients of one kind and group: instances as they become ready, when, work, latency."""
    nodes = np.flatnonzero(gradients(graph) & (graph.kind >= FIRST_COLLECTIVE))
    _, first = np.unique(graph.instance[nodes], return_index=True)
    nodes = nodes[first]
    ready = ready_at(graph)[nodes]
    keys = np.stack([graph.kind[nodes], graph.group[nodes]], axis=1)
    for key in np.unique(keys, axis=0):
        mine = np.flatnonzero((keys == key).all(axis=1))
        mine = mine[np.lexsort((graph.priority[nodes[mine]], ready[mine]))]
        chosen = nodes[mine]
        yield (
            graph.instance[chosen].astype(np.int64),
            ready[mine],
            graph.work[chosen],
            graph.latency[chosen],
        )
