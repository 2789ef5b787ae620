"""A job with changes of circuits in it: nodes that all messages before and after wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.workload.job_graph import COMPUTE, JobGraph
from ocs_codesign.workload.rewriting import with_edges

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.workload.reconfigured.prices import ConfiguredJob

CHANGE = "reconfiguration"
"""The label of the nodes that change circuits."""


def cuts_of(choice: NDArray[np.int64]) -> NDArray[np.int64]:
    """Positions of a round of messages before which the configuration changes, ascending.

    >>> cuts_of(np.array([0, 0, 1, 1, 0])).tolist(), cuts_of(np.array([0, 1])).tolist()
    ([2, 4], [0, 1])
    """
    return np.flatnonzero(choice != np.roll(choice, 1))


def with_changes(
    job: ConfiguredJob, order: NDArray[np.int64], choice: NDArray[np.int64]
) -> JobGraph:
    """The job in which the message ``order[i]`` (an instance) finds configuration ``choice[i]``.

    A last owner stands for the circuits. It is dark for every change, from when all messages over
    circuits before have ended, those of the iteration before included, and all those after wait for
    it; computation does not. A job whose iterations do not wait for each other gets an end that all
    of the next one waits for.
    """
    graph = job.graph
    config = np.zeros(graph.num_instances, dtype=np.int64)
    config[order] = choice
    of_node = np.append(config, 0)[graph.instance]
    every = np.arange(graph.num_nodes)
    cuts = cuts_of(choice)
    first = graph.num_nodes
    dead = job.dead_ticks[choice[cuts - 1], choice[cuts]]
    closes = not len(graph.carried)
    extra = np.append(dead, [0] * closes).astype(np.int64)
    columns = _appended(graph, extra, np.append(np.full(len(cuts), 1), [0] * closes))
    columns["latency"][:first] = job.latency[of_node, every]
    columns["work"][:first] = job.work[of_node, every]
    columns["ranks"] = np.append(graph.ranks, 1)
    columns["labels"] = (*graph.labels, "", CHANGE)
    waits, carried = [np.stack(graph.edges(), axis=1)], [graph.carried]
    if len(cuts):
        inside, around = _around(graph, order, cuts)
        waits.append(inside)
        carried.append(around)
    if closes:
        inside, around = _closed(graph, first + len(cuts))
        waits.append(inside)
        carried.append(around)
    return with_edges(graph, columns, np.concatenate(waits), np.concatenate(carried))


def _appended(
    graph: JobGraph, work: NDArray[np.int64], is_change: NDArray[np.int64]
) -> dict[str, Any]:
    """Columns with computations of an owner after all others at the end."""
    num = len(work)
    values: dict[str, Any] = {
        "kind": COMPUTE,
        "owner": graph.num_owners,
        "work": work,
        "latency": 0,
        "size_bytes": 0,
        "priority": int(graph.priority.max()) + 1,
        "label": len(graph.labels) + is_change,
        "is_gradient": False,
        "instance": -1,
        "group": -1,
        "first_rank": 0,
        "last_rank": 0,
    }
    columns = {}
    for name, value in values.items():
        column = getattr(graph, name)
        more = np.broadcast_to(np.asarray(value), num).astype(column.dtype)
        columns[name] = np.concatenate([column, more])
    return columns


def _around(
    graph: JobGraph, order: NDArray[np.int64], cuts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Who waits for whom because of changes, inside an iteration, and from one to the next."""
    position = np.full(graph.num_instances + 1, -1, dtype=np.int64)
    position[order] = np.arange(len(order))
    nodes = np.flatnonzero(graph.is_communication)
    nodes = nodes[position[graph.instance[nodes]] >= 0]
    stretch = np.searchsorted(cuts, position[graph.instance[nodes]], side="right") - 1
    first, last = graph.num_nodes, len(cuts) - 1
    head, tail = stretch < 0, stretch == last
    begins = np.stack([first + stretch, nodes], axis=1)[~head]
    ends = np.stack([nodes, first + stretch + 1], axis=1)[~tail]
    again = np.stack([nodes[tail], np.full(int(tail.sum()), first)], axis=1)
    held = np.stack([np.full(int(head.sum()), first + last), nodes[head]], axis=1)
    return np.concatenate([begins, ends]), np.concatenate([again, held])


def _closed(graph: JobGraph, end: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """An end that waits for what nothing waits for, and that what waits for nothing waits for."""
    before, node = graph.edges()
    last = np.setdiff1d(np.arange(graph.num_nodes), before)
    first = np.setdiff1d(np.arange(graph.num_nodes), node)
    return (
        np.stack([last, np.full(len(last), end)], axis=1),
        np.stack([np.full(len(first), end), first], axis=1),
    )
