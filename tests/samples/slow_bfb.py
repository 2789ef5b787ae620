"""BFB loads by their definition, slowly: every receiver, step and set of in-links by itself."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING

import networkx as nx

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.core.topology import Topology

Distances = dict[int, dict[int, int]]


def slow_distances(topology: Topology) -> Distances:
    """Hops between all pairs, by networkx."""
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(range(topology.num_nodes))
    graph.add_edges_from(zip(topology.tail.tolist(), topology.head.tolist(), strict=True))
    return dict(nx.all_pairs_shortest_path_length(graph))


def slow_bfb_loads(topology: Topology) -> tuple[Fraction, ...]:
    """Largest over the receivers of the least largest load of every step, by Hall's condition."""
    distances = slow_distances(topology)
    steps = max(max(row.values()) for row in distances.values())
    return tuple(
        max(_receiver_load(topology, distances, node, step) for node in range(topology.num_nodes))
        for step in range(1, steps + 1)
    )


def _receiver_load(topology: Topology, distances: Distances, node: int, step: int) -> Fraction:
    links = [link for link in range(topology.num_links) if topology.head[link] == node]
    sources = [v for v in distances if distances[v][node] == step]
    speeds = topology.speeds().tolist()
    admissible = [
        {link for link in links if distances[v][int(topology.tail[link])] == step - 1}
        for v in sources
    ]
    return max(
        Fraction(sum(choice <= inside for choice in admissible), sum(speeds[i] for i in inside))
        for inside in _sets(links)
    )


def _sets(links: list[int]) -> Iterator[set[int]]:
    for count in range(1, len(links) + 1):
        yield from map(set, combinations(links, count))
