"""Buckets: which gradients are sent together, in the order in which they become ready."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.workload.job_graph import FIRST_COLLECTIVE, JobGraph
from ocs_codesign.workload.period import ready_at
from ocs_codesign.workload.rewriting import gradients

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

MAX_IN_A_RUN = 2000


def buckets_of_work(graph: JobGraph, most_ticks: int) -> NDArray[np.int64]:
    """The bucket of every instance, -1 for those alone: full when one more would be too much.

    A gradient of more than ``most_ticks`` is a bucket of its own.

    >>> from ocs_codesign.workload.layer_times import LayerTimes
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

    >>> from ocs_codesign.workload.layer_times import LayerTimes
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
