"""Facts of a graph: what decides whether and how well it can carry a collective."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.compute.components import strong_components

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.core.topology import Topology


MAX_DIAMETER_NODES = 2**14


@final
@dataclass(frozen=True, slots=True)
class GraphFacts:
    """What decides whether and how well a graph can carry a collective.

    ``parallel_links`` counts the links beyond the first between the same two nodes,
    ``one_way_links`` those without a link back. ``diameter`` is None if the graph is not strongly
    connected or has more than MAX_DIAMETER_NODES nodes.
    """

    num_nodes: int
    num_links: int
    degree: int
    regular: bool
    undirected: bool
    one_way_links: int
    self_loops: int
    parallel_links: int
    strongly_connected: bool
    diameter: int | None
    link_speeds: tuple[int, ...]


def graph_facts(topology: Topology) -> GraphFacts:
    """The facts of a topology."""
    pairs = topology.tail.astype(np.int64) * topology.num_nodes + topology.head
    label = strong_components(topology.tail, topology.head, topology.num_nodes)
    connected = not label.any()
    small = topology.num_nodes <= MAX_DIAMETER_NODES
    return GraphFacts(
        topology.num_nodes,
        topology.num_links,
        topology.degree,
        topology.is_regular,
        topology.is_undirected(),
        _one_way(pairs, topology),
        int((topology.tail == topology.head).sum()),
        topology.num_links - len(np.unique(pairs)),
        connected,
        topology.diameter() if connected and small else None,
        tuple(np.unique(topology.speeds()).tolist()),
    )


def _one_way(pairs: NDArray[np.int64], topology: Topology) -> int:
    """Links beyond those that lead back between the same two nodes."""
    there, times = np.unique(pairs, return_counts=True)
    back = there % topology.num_nodes * topology.num_nodes + there // topology.num_nodes
    at = np.minimum(np.searchsorted(there, back), len(there) - 1)
    returning = np.where(there[at] == back, times[at], 0)
    return int(np.maximum(times - returning, 0).sum())
