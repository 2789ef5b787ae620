"""BFB loads of topologies with many in-neighbours: classes of sources and flows between them."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.kernels import for_work
from ocs_codesign.reach import all_distances
from ocs_codesign.schedulers.bfb.kernels import all_least_loads

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.reach import InNeighbours
    from ocs_codesign.topology import Topology


def loads_by_classes(topology: Topology, neighbours: InNeighbours) -> tuple[Fraction, ...]:
    """Largest link load of every BFB step; any number of in-neighbours, N^2 distances in memory."""
    distance_to = distances_to(topology)
    receivers = np.arange(topology.num_nodes)
    if topology.symmetry is not None:
        receivers = topology.symmetry.representatives()
    steps, rounds = int(distance_to.max()), neighbours.node.size * len(receivers)
    best = for_work(all_least_loads, rounds)(
        distance_to, neighbours.node, neighbours.capacity, receivers, steps
    )
    return tuple(Fraction(int(top), int(bottom)) for top, bottom in best)


def distances_to(topology: Topology) -> NDArray[Any]:
    """dist(v, u) at row u, column v; ValueError if one node or not strongly connected."""
    if topology.num_nodes < 2:
        raise ValueError("a collective needs at least two nodes")
    distances = all_distances(topology.transpose())
    if distances.min() < 0:
        receiver, source = np.argwhere(distances < 0)[0]
        raise ValueError(f"not strongly connected: node {receiver} is out of node {source}'s reach")
    return distances
