"""Topologies to and from networkx graphs; networkx is imported when a graph is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.files.naming import numbers, speed_of
from ocs_codesign.topology import Topology

if TYPE_CHECKING:
    import networkx


def to_networkx(topology: Topology, name: str = "") -> networkx.MultiDiGraph:
    """A MultiDiGraph on 0 to N - 1 whose edge keys are the link ids, with ``speed`` if they differ.

    >>> graph = to_networkx(Topology(2, [0, 1, 0], [1, 0, 1]))
    >>> sorted(graph.edges(keys=True))
    [(0, 1, 0), (0, 1, 2), (1, 0, 1)]
    """
    import networkx

    graph = networkx.MultiDiGraph(name=name) if name else networkx.MultiDiGraph()
    graph.add_nodes_from(range(topology.num_nodes))
    ends = zip(topology.tail.tolist(), topology.head.tolist(), strict=True)
    if topology.link_speed is None:
        graph.add_edges_from((tail, head, link, {}) for link, (tail, head) in enumerate(ends))
    else:
        speeds = topology.link_speed.tolist()
        graph.add_edges_from(
            (tail, head, link, {"speed": speeds[link]}) for link, (tail, head) in enumerate(ends)
        )
    return graph


def from_networkx(graph: Any) -> Topology:
    """The topology of any networkx graph: each undirected edge becomes two links.

    Nodes are numbered in ascending order if all are integers, else in the graph's order; links come
    in the graph's order, or in that of their keys if these are exactly 0 to E - 1, as
    ``to_networkx`` makes them. The edge attribute ``speed`` is the relative link speed. Raises
    ValueError for an empty graph or a bad speed.

    >>> import networkx
    >>> from_networkx(networkx.cycle_graph(4))
    Topology(4 nodes, 8 links, degree 2)
    """
    if not len(graph):
        raise ValueError("the graph has no nodes")
    number = dict(zip(graph, numbers([str(node) for node in graph]).tolist(), strict=True))
    edges = list(graph.edges(data=True))
    if graph.is_multigraph():
        keys = [key for _, _, key in graph.edges(keys=True)]
        if all(type(key) is int for key in keys) and sorted(keys) == list(range(len(keys))):
            edges = [edges[at] for at in np.argsort(keys).tolist()]
    tail = [number[edge[0]] for edge in edges]
    head = [number[edge[1]] for edge in edges]
    speed = [speed_of(_plain(edge[2].get("speed", 1))) for edge in edges]
    if not graph.is_directed():
        tail, head = _alternate(tail, head), _alternate(head, tail)
        speed = _alternate(speed, speed)
    return Topology(len(graph), np.array(tail, dtype=int), np.array(head, dtype=int), speed or None)


def _alternate(first: list[int], second: list[int]) -> list[int]:
    return [value for pair in zip(first, second, strict=True) for value in pair]


def _plain(value: Any) -> Any:
    """A numpy scalar as the Python number it stands for."""
    return value.item() if isinstance(value, np.generic) else value
