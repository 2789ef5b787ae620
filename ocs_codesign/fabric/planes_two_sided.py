"""Planes of two-way circuits between an A port and a B port: half the degree is enough.

Circuits are oriented along closed trails, so that every node has as many that leave as arrive, up
to one; every plane then takes one of each. Source: J. Petersen (1891), Die Theorie der regulären
Graphs, for even degrees.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.planes import (
    NO_LINK,
    Planes,
    check_equal_speeds,
    degree_certificate,
    two_way_circuits,
)
from ocs_codesign.factorisation import factorise
from ocs_codesign.topology import Topology

if TYPE_CHECKING:
    from numpy.typing import NDArray


def two_sided_planes(topology: Topology, _states: NDArray[np.int32] | None = None) -> Planes:
    """Half the largest degree of planes, rounded up, the fewest that exist.

    Raises InfeasibleError (ONE_WAY) if a link has no reverse.
    """
    check_equal_speeds(topology)
    link = oriented(topology, two_way_circuits(topology))
    tail, head = topology.tail[link[:, 0]], topology.head[link[:, 0]]
    certificate = degree_certificate(topology, PortModel.TWO_SIDED)
    plane = factorise(Topology(topology.num_nodes, tail, head))
    return Planes(PortModel.TWO_SIDED, topology, link, plane, certificate.num_planes, certificate)


def oriented(topology: Topology, link: NDArray[np.int32]) -> NDArray[np.int32]:
    """The circuits turned so that a node of degree D has at most D / 2, rounded up, at either end.

    Ends at a node are paired, which cuts the circuits into trails; each is walked in one direction.
    """
    circuits, nodes = len(link), topology.num_nodes
    ends = np.stack([topology.tail[link[:, 0]], topology.head[link[:, 0]]], axis=1).ravel()
    odd = np.flatnonzero(np.bincount(ends, minlength=nodes) % 2)
    # One more node joined with all of odd degree leaves none of odd degree.
    more = np.stack([odd, np.full(len(odd), nodes)], axis=1).ravel()
    every = np.concatenate([ends, more])
    at_node = np.argsort(every, kind="stable")
    mate = np.empty(len(every), dtype=np.int64)
    mate[at_node[0::2]], mate[at_node[1::2]] = at_node[1::2], at_node[0::2]
    # From the end where a circuit is entered to the end where the next one is.
    following = mate[np.arange(len(every)) ^ 1]
    trail = _orbits(following)
    forward = trail[0::2] < trail[1::2]
    turn = ~forward[:circuits] & (link[:, 1] != NO_LINK)
    out = link.copy()
    out[turn] = link[turn, ::-1]
    return out


def _orbits(following: NDArray[np.int64]) -> NDArray[np.int32]:
    """The number of the orbit of a permutation that every element is in."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components

    size = len(following)
    if not size:
        return np.empty(0, dtype=np.int32)
    graph = csr_matrix((np.ones(size), (np.arange(size), following)), shape=(size, size))
    label: NDArray[np.int32] = connected_components(graph, directed=False)[1]
    return label
