"""Jobs with their gradients communicated otherwise: cut, merged, or in two halves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.runs import places, starts_of
from ocs_codesign.workload.job_graph import COLLECTIVES, FIRST_COLLECTIVE, JobGraph, csr

if TYPE_CHECKING:
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

    >>> from ocs_codesign.workload.layer_times import LayerTimes
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

    >>> from ocs_codesign.workload.layer_times import LayerTimes
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
