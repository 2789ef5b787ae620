"""Topologies as node-link JSON, as networkx has it, and to and from its graphs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ocs_codesign.core.networks.attributed import of_networkx
from ocs_codesign.graphs.formats.edge_list import link_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import networkx

    from ocs_codesign.core.topology import Topology


def write_node_link(
    topology: Topology, name: str, cubes: Sequence[int] = (), switches: Sequence[str] = ()
) -> str:
    """A directed multigraph as ``networkx.node_link_data(graph, edges="edges")`` has it.

    Edges are in link order and their keys are the link ids; ``speed`` is given if speeds differ,
    the ``cube`` of every node and the ``switch`` of an edge, unless it is "", as they are told.

    >>> from ocs_codesign.core.topology import Topology
    >>> print(write_node_link(Topology(2, [0, 1], [1, 0]), "pair"), end="")
    {"directed": true, "multigraph": true, "graph": {"name": "pair"},
    "nodes": [{"id": 0},
    {"id": 1}],
    "edges": [{"source": 0, "target": 1, "key": 0},
    {"source": 1, "target": 0, "key": 1}]}
    """
    edges: list[dict[str, Any]] = [
        {"source": tail, "target": head, "key": link, **({"speed": speeds[0]} if speeds else {})}
        for link, (tail, head, *speeds) in enumerate(link_rows(topology))
    ]
    for edge, switch in zip(edges, switches, strict=bool(switches)):
        edge.update({"switch": switch} if switch else {})
    of_cube = [f', "cube": {cube}' for cube in cubes] or [""] * topology.num_nodes
    head = json.dumps({"directed": True, "multigraph": True, "graph": {"name": name}})
    nodes = ",\n".join(f'{{"id": {node}{told}}}' for node, told in enumerate(of_cube))
    links = ",\n".join(map(json.dumps, edges))
    return f'{head[:-1]},\n"nodes": [{nodes}],\n"edges": [{links}]}}\n'


# Topologies to and from networkx graphs; networkx is imported when a graph is asked for.


def to_networkx(topology: Topology, name: str = "") -> networkx.MultiDiGraph:
    """A MultiDiGraph on 0 to N - 1; edge keys are link ids, with ``speed`` if speeds differ."""
    import networkx

    graph = networkx.MultiDiGraph(name=name) if name else networkx.MultiDiGraph()
    graph.add_nodes_from(range(topology.num_nodes))
    graph.add_edges_from(
        (tail, head, link, {"speed": speeds[0]} if speeds else {})
        for link, (tail, head, *speeds) in enumerate(link_rows(topology))
    )
    return graph


def from_networkx(graph: Any, speed_attribute: str | None = None) -> Topology:
    """The topology of any networkx graph: each undirected edge becomes two links.

    Nodes are numbered in ascending order if all are integers, else in the graph's order; links come
    in the graph's order, or in that of their keys if these are exactly 0 to E - 1, as
    ``to_networkx`` makes them. ``speed_attribute`` names the attribute that is the speed of edges,
    or "none" if they are alike; without it, it is bandwidth, capacity, speed or LinkSpeedRaw.
    Raises ValueError for an empty graph, a bad speed, edges that differ in what may be meant as a
    speed, nodes that are switches, and names that are not printable.

    >>> import networkx
    >>> from_networkx(networkx.cycle_graph(4))
    Topology(4 nodes, 8 links, degree 2)
    """
    return of_networkx(graph).topology(speed_attribute)
