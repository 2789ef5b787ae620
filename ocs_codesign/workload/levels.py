"""Jobs whose allreduces are divided by the levels of a machine: inside a block, across, inside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.runs import starts_of
from ocs_codesign.workload.issue import members_of
from ocs_codesign.workload.job_graph import JobGraph
from ocs_codesign.workload.prices import priced
from ocs_codesign.workload.rewriting import (
    ALLGATHER,
    ALLREDUCE,
    REDUCE_SCATTER,
    columns_of_parts,
    parts_of,
    with_edges,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.workload.prices import Machine


def by_levels(graph: JobGraph, machine: Machine) -> JobGraph:
    """Allreduces across blocks of a machine as a reduce-scatter inside, one across, an allgather.

    What is inside is the outermost level whose blocks do not hold the group but several of its
    ranks, as many in each. Of M, a block of r ranks sums M/r at every rank with those of the other
    blocks. Allreduces without bytes, and those of a class with others, are left alone.

    >>> from ocs_codesign.cost import CostModel
    >>> from ocs_codesign.workload.job_draft import JobDraft
    >>> from ocs_codesign.workload.prices import Level, Machine
    >>> machine = Machine((Level(2, CostModel(0, 4)), Level(4, CostModel(0, 1))))
    >>> draft = JobDraft(1, [4])
    >>> nodes = draft.collective("allreduce", (0,), 8, {}, num_ranks=4, between=(0, 3))
    >>> (by_levels(draft.graph(), machine).work // 10**9).tolist()
    [1, 4, 1]
    """
    inside = _ranks_inside(graph, machine)
    is_cut = inside > 1
    if not is_cut.any():
        return graph
    parts = np.where(is_cut, 3, 1)
    whole, at = parts_of(parts)
    columns = columns_of_parts(graph, whole, at, parts)
    halved = is_cut[whole]
    kinds = np.array([REDUCE_SCATTER, ALLREDUCE, ALLGATHER])[at]
    columns["kind"] = np.where(halved, kinds, columns["kind"]).astype(np.int8)
    sizes = graph.size_bytes[whole]
    across = halved & (at == 1)
    columns["size_bytes"] = np.where(across, -(-sizes // np.maximum(inside[whole], 1)), sizes)
    groups = _divide(graph, inside, whole, columns)
    first = starts_of(parts)[:-1]
    last = first + parts - 1
    begin, end = graph.edges()
    own = np.flatnonzero(halved & (at > 0))
    waits = np.concatenate(
        [np.stack([last[begin], first[end]], axis=1), np.stack([own - 1, own], axis=1)]
    )
    carried = np.stack([last[graph.carried[:, 0]], first[graph.carried[:, 1]]], axis=1)
    return priced(with_edges(graph, {**columns, **groups}, waits, carried), machine, halved)


def _ranks_inside(graph: JobGraph, machine: Machine) -> NDArray[np.int64]:
    """Of every node how many ranks of its group a block holds, 0 if it is not divided."""
    inside = np.zeros(graph.num_nodes, dtype=np.int64)
    known: dict[tuple[int, ...], int] = {}
    for node in np.flatnonzero((graph.kind == ALLREDUCE) & (graph.size_bytes > 0)).tolist():
        group = int(graph.group[node])
        key = group, int(graph.first_rank[node]), int(graph.last_rank[node])
        if key not in known:
            ranks = ranks_of(graph, *key)
            known[key] = 0 if ranks is None else _most_inside(ranks, machine)
        inside[node] = known[key]
    return inside


def ranks_of(
    graph: JobGraph, group: int, first_rank: int, last_rank: int
) -> NDArray[np.int64] | None:
    """The ranks of a group, or of the first of the groups of a class; None if it is several."""
    owners = graph.group_owner[graph.group_start[group] : graph.group_start[group + 1]]
    size = int(graph.group_size[group])
    if len(owners) == size:
        return starts_of(graph.ranks)[owners]
    apart, rest = divmod(last_rank - first_rank, max(1, size - 1))
    if len(owners) > 1 or rest:
        return None
    return first_rank + apart * np.arange(size)


def _most_inside(ranks: NDArray[np.int64], machine: Machine) -> int:
    """Ranks in each block of the outermost level that divides them evenly, 0 if none does."""
    level = machine.level_of(int(ranks.min()), int(ranks.max()))
    for inner in reversed(machine.levels[:level]):
        count = np.unique(ranks // inner.num_ranks, return_counts=True)[1]
        if len(count) > 1 and (count == count[0]).all() and count[0] > 1:
            return int(count[0])
    return 0


def _divide(
    graph: JobGraph,
    inside: NDArray[np.int64],
    whole: NDArray[np.int64],
    columns: dict[str, NDArray[Any]],
) -> dict[str, NDArray[Any]]:
    """Give the parts of divided nodes their instances, groups and ranks; the groups of all."""
    number: dict[tuple[tuple[int, ...], int], int] = {}
    for one in range(len(graph.group_size)):
        members_there = graph.group_owner[graph.group_start[one] : graph.group_start[one + 1]]
        number[tuple(members_there.tolist()), int(graph.group_size[one])] = one
    start, members = members_of(graph)
    first_part = np.searchsorted(whole, np.arange(graph.num_nodes))
    apart = np.zeros(len(whole), dtype=np.int64)
    group, low, high = (columns[name].copy() for name in ("group", "first_rank", "last_rank"))
    for which in np.unique(graph.instance[inside > 1]).tolist():
        nodes = members[start[which] : start[which + 1]]
        nodes = nodes[np.argsort(graph.owner[nodes])]
        node, each = int(nodes[0]), int(inside[nodes[0]])
        ranks = ranks_of(
            graph,
            int(graph.group[node]),
            *(int(graph.first_rank[node]), int(graph.last_rank[node])),
        )
        if ranks is None:
            raise RuntimeError("ranks that are divided are known")
        blocks = np.sort(ranks).reshape(-1, each)
        for part, rows in enumerate((blocks, blocks.T, blocks)):
            for own, row in enumerate(rows):
                mine = nodes[np.isin(ranks, row)] if len(nodes) > 1 else nodes
                owners = tuple(graph.owner[mine].tolist())
                entries = first_part[mine] + part
                group[entries] = number.setdefault((owners, len(row)), len(number))
                low[entries], high[entries] = int(row.min()), int(row.max())
                apart[entries] = own if len(nodes) > 1 else 0
                if len(nodes) == 1:
                    break  # the others are like the first one
    columns |= {"group": group, "first_rank": low, "last_rank": high}
    instance = columns["instance"].astype(np.int64)
    talks = instance >= 0
    keys = instance * (int(apart.max()) + 1) + apart
    renamed = np.full(len(instance), -1, dtype=np.int32)
    renamed[talks] = np.unique(keys[talks], return_inverse=True)[1]
    columns["instance"] = renamed
    sizes = np.array([len(owners) for owners, _ in number], dtype=np.int64)
    return {
        "group_start": starts_of(sizes).astype(np.int64),
        "group_owner": np.array([one for owners, _ in number for one in owners], dtype=np.int32),
        "group_size": np.array([size for _, size in number], dtype=np.int64),
    }
