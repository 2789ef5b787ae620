"""Topologies to and from networkx graphs; networkx is imported when a graph is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.files.naming import NamedLinks, speed_of
from ocs_codesign.formats.graphs.edge_list import link_rows

if TYPE_CHECKING:
    import networkx

    from ocs_codesign.topology import Topology


def to_networkx(topology: Topology, name: str = "") -> networkx.MultiDiGraph:
    """A MultiDiGraph on 0 to N - 1 whose edge keys are the link ids, with ``speed`` if they differ.

    >>> from ocs_codesign.topology import Topology
    >>> graph = to_networkx(Topology(2, [0, 1, 0], [1, 0, 1]))
    >>> sorted(graph.edges(keys=True))
    [(0, 1, 0), (0, 1, 2), (1, 0, 1)]
    """
    import networkx

    graph = networkx.MultiDiGraph(name=name) if name else networkx.MultiDiGraph()
    graph.add_nodes_from(range(topology.num_nodes))
    graph.add_edges_from(
        (tail, head, link, {"speed": speeds[0]} if speeds else {})
        for link, (tail, head, *speeds) in enumerate(link_rows(topology))
    )
    return graph


def from_networkx(graph: Any) -> Topology:
    """The topology of any networkx graph: each undirected edge becomes two links.

    Nodes are numbered in ascending order if all are integers, else in the graph's order; links come
    in the graph's order, or in that of their keys if these are exactly 0 to E - 1, as
    ``to_networkx`` makes them. The edge attribute ``speed`` is the relative link speed. Raises
    ValueError for an empty graph, a bad speed or names that are not printable.

    >>> import networkx
    >>> from_networkx(networkx.cycle_graph(4))
    Topology(4 nodes, 8 links, degree 2)
    """
    links = NamedLinks()
    for node in graph:
        links.node(str(node))
    if len(links.number) < len(graph):
        raise ValueError("two nodes of the graph have the same name as text")
    edges = list(graph.edges(data=True))
    if graph.is_multigraph():
        keys = [key for _, _, key in graph.edges(keys=True)]
        if all(type(key) is int for key in keys) and sorted(keys) == list(range(len(keys))):
            edges = [edges[at] for at in np.argsort(keys).tolist()]
    add = links.link if graph.is_directed() else links.edge
    for tail, head, attributes in edges:
        speed = attributes.get("speed", 1)
        value = speed.item() if isinstance(speed, np.generic) else speed
        add(str(tail), str(head), speed_of(value))
    return links.topology()
