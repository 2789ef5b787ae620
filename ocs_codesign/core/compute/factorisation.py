"""Links split over planes: a d-regular topology is d permutations of its nodes.

As a bipartite graph of ports out and ports in, a topology of degree d has its links coloured with d
colours such that no two at one port are alike; every colour is what one plane holds. A regular
bipartite multigraph has a perfect matching, and what is left without it is regular again. Source:
D. Kőnig (1916), Über Graphen und ihre Anwendung auf Determinantentheorie und Mengenlehre.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.core.given import takes_topology

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.core.topology import Topology


NO_LINK = -1


@takes_topology
def factorise(topology: Topology, near: NDArray[np.int32] | None = None) -> NDArray[np.int32]:
    """The plane of every link (int32): a plane has at most one link out of a node and one into it.

    There are ``degree`` planes; where links differ in speed, as many as the links of each speed
    need, the slowest first. The link orbits of a declared symmetry are planes if each is a
    permutation. ``near`` (planes x N, ``plane_heads`` of another topology) asks that links that it
    has stay in their planes, as many as one plane after the other can keep. Raises ValueError if
    ``near`` has another number of planes or nodes.

    >>> from ocs_codesign.core.topology import Topology
    >>> factorise(Topology(3, [0, 0, 1, 1, 2, 2], [1, 2, 2, 0, 1, 0])).tolist()
    [1, 0, 1, 0, 0, 1]
    """
    orbits, speeds = _orbit_planes(topology), topology.speeds()
    groups = [np.flatnonzero(speeds == speed) for speed in np.unique(speeds)]
    widths = [_width(topology, links) for links in groups]
    if near is not None:
        planes = sum(widths)
        if near.shape != (planes, topology.num_nodes):
            raise ValueError(
                f"there are {planes} planes of {topology.num_nodes} nodes to keep links in, "
                f"not {len(near)} of {near.shape[-1]}"
            )
        if orbits is not None:
            return renumbered(orbits, near[:, topology.tail] == topology.head)
    elif orbits is not None:
        return orbits
    plane, done = np.empty(topology.num_links, dtype=np.int32), 0
    for links, width in zip(groups, widths, strict=True):
        wish = None if near is None else near[done : done + width]
        tail, head = topology.tail[links], topology.head[links]
        plane[links] = done + _split(tail, head, topology.num_nodes, width, wish)
        done += width
    return plane


def plane_heads(topology: Topology, plane: NDArray[np.int32]) -> NDArray[np.int32]:
    """Where the circuit of every plane leads from every node, -1 for nowhere; planes x N.

    Raises ValueError if a plane has two links at one port.
    """
    heads = np.full((int(plane.max(initial=-1)) + 1, topology.num_nodes), NO_LINK, dtype=np.int32)
    heads[plane, topology.tail] = topology.head
    tails = np.full_like(heads, NO_LINK)
    tails[plane, topology.head] = topology.tail
    # A second link at a port overwrites the first, which is then not found any more.
    lost = (heads[plane, topology.tail] != topology.head) | (
        tails[plane, topology.head] != topology.tail
    )
    if lost.any() or np.count_nonzero(heads != NO_LINK) != topology.num_links:
        raise ValueError("a plane has two links at one port")
    return heads


def _width(topology: Topology, links: NDArray[np.integer]) -> int:
    """The most of some links that leave or enter one node."""
    ends = topology.tail[links], topology.head[links]
    return max(int(np.bincount(nodes).max(initial=0)) for nodes in ends)


def _orbit_planes(topology: Topology) -> NDArray[np.int32] | None:
    """Link orbits as planes, if links are equal and every orbit is a permutation."""
    symmetry, nodes = topology.symmetry, topology.num_nodes
    if symmetry is None or topology.link_speed is not None or not topology.is_regular:
        return None
    plane, degree = symmetry.link_orbit.astype(np.int32), topology.degree
    if int(plane.max(initial=-1)) + 1 != degree:
        return None
    for ends in (topology.tail, topology.head):
        if len(np.unique(plane.astype(np.int64) * nodes + ends)) < topology.num_links:
            return None
    return plane


def renumbered(plane: NDArray[np.int32], keeps: NDArray[np.bool_]) -> NDArray[np.int32]:
    """The planes renumbered so that most links stay: plane p holds those of ``keeps[p]`` already.

    >>> renumbered(np.array([0, 1, 1]), np.array([[False, True, True], [False] * 3])).tolist()
    [1, 0, 0]
    """
    from scipy.optimize import linear_sum_assignment

    kept = [np.bincount(plane[stays], minlength=len(keeps)) for stays in keeps]
    number: NDArray[np.int32] = linear_sum_assignment(np.transpose(kept), maximize=True)[1]
    return number.astype(np.int32)[plane]


def _split(
    tail: NDArray[np.int32],
    head: NDArray[np.int32],
    nodes: int,
    width: int,
    wish: NDArray[np.int32] | None,
) -> NDArray[np.int32]:
    """The plane of every link, by perfect matchings of what is left of a regular multigraph."""
    links = len(tail)
    everyone = np.arange(nodes)
    # Links that fill up the ports of nodes with fewer make the multigraph regular.
    missing_out = np.repeat(everyone, width - np.bincount(tail, minlength=nodes))
    missing_in = np.repeat(everyone, width - np.bincount(head, minlength=nodes))
    tails, heads = np.concatenate([tail, missing_out]), np.concatenate([head, missing_in])
    key = tails.astype(np.int64) * nodes + heads
    order = np.argsort(key, kind="stable")
    pair, place, left = np.unique(key[order], return_index=True, return_counts=True)
    plane = np.empty(len(key), dtype=np.int32)
    for number in range(width):
        rows, columns = np.divmod(pair[left > 0], nodes)
        partner = _perfect_matching(rows, columns, nodes, None if wish is None else wish[number])
        taken = np.searchsorted(pair, everyone * nodes + partner)
        left[taken] -= 1
        plane[order[place[taken] + left[taken]]] = number
    return plane[:links]


def _perfect_matching(
    rows: NDArray[np.int64], columns: NDArray[np.int64], nodes: int, wish: NDArray[np.int32] | None
) -> NDArray[np.int64]:
    """The column matched with every row, as many as possible those wished for."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import maximum_bipartite_matching, min_weight_full_bipartite_matching

    if wish is None:
        graph = csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(nodes, nodes))
        matched = maximum_bipartite_matching(graph, perm_type="column")
    else:
        weight = 1.0 + (wish[rows] == columns)
        graph = csr_matrix((weight, (rows, columns)), shape=(nodes, nodes))
        matched = min_weight_full_bipartite_matching(graph, maximize=True)[1]
    partner: NDArray[np.int64] = matched.astype(np.int64)
    return partner
