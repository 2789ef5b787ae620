"""Arrival steps of graphs with a symmetry: those of one item an orbit, which say all others.

A group that moves nodes freely takes the pair of item s and node v to a pair whose item is the
first node of its orbit, so that a table of as many rows as there are orbits says everything, and
the in-links of a node stand in the columns of those of the first. Of a vertex-transitive graph one
row is left: N times less to search.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ocs_codesign.core.topology import InNeighbours

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.core.topology import Symmetry, Topology


class Orbits(NamedTuple):
    """Nodes by orbit: ``home`` is the first of every one, ``cell[v]`` the orbit of node v.

    Row i of ``alike`` lists the nodes of orbit i.
    """

    home: NDArray[np.int64]
    cell: NDArray[np.int32]
    alike: NDArray[np.int32]


def each_its_own(num_nodes: int) -> Orbits:
    """Orbits of one node each: nothing is alike."""
    nodes = np.arange(num_nodes)
    return Orbits(nodes, nodes.astype(np.int32), nodes.astype(np.int32)[:, None])


def orbits_of(topology: Topology) -> Orbits:
    """The orbits that a topology declares; ValueError if it declares no symmetry."""
    symmetry = _declared(topology)
    cell = symmetry.node_orbit.astype(np.int32)  # a copy: compiled loops know writable arrays
    order = np.argsort(cell, kind="stable").astype(np.int32)
    return Orbits(symmetry.representatives(), cell, order.reshape(int(cell.max()) + 1, -1))


def aligned(topology: Topology, neighbours: InNeighbours) -> InNeighbours:
    """The in-neighbours with links that are alike in the same column: in the order of orbits."""
    nodes, symmetry = topology.num_nodes, _declared(topology)
    key = topology.head.astype(np.int64) * nodes + topology.tail
    order = np.lexsort((symmetry.link_orbit, key))
    key, first = np.unique(key[order], return_index=True)
    orbit = symmetry.link_orbit[order][first]
    wanted = np.arange(nodes)[:, None] * nodes + neighbours.node
    rank = np.full(wanted.shape, len(symmetry.link_orbit))
    proper = neighbours.capacity > 0
    rank[proper] = orbit[np.searchsorted(key, wanted[proper])]
    columns = np.argsort(rank, axis=1, kind="stable")
    node, capacity = neighbours
    return InNeighbours(
        np.take_along_axis(node, columns, axis=1), np.take_along_axis(capacity, columns, axis=1)
    )


def spread(topology: Topology, rows: NDArray[np.int16]) -> NDArray[np.int16]:
    """The whole table of arrivals, N x N, from the rows of the first item of every orbit."""
    orbits, symmetry = orbits_of(topology), _declared(topology)
    order = np.lexsort((symmetry.link_orbit, topology.tail))
    start = np.searchsorted(topology.tail[order], np.arange(topology.num_nodes))
    head = topology.head[order]
    table = np.zeros((topology.num_nodes,) * 2, dtype=np.int16)
    for row, home, items in zip(rows, orbits.home.tolist(), orbits.alike, strict=True):
        # A walk from the first item is taken along: out-links that are alike have the same place.
        taken = np.zeros((len(items), topology.num_nodes), dtype=np.int32)
        taken[:, home] = items
        seen = np.zeros(topology.num_nodes, dtype=bool)
        seen[home] = True
        while not seen.all():
            (links,) = np.nonzero(seen[topology.tail[order]] & ~seen[head])
            links = links[np.unique(head[links], return_index=True)[1]]
            tails = topology.tail[order][links]
            taken[:, head[links]] = head[start[taken[:, tails]] + links - start[tails]]
            seen[head[links]] = True
        table[items[:, None], taken] = row
    return table


def _declared(topology: Topology) -> Symmetry:
    if topology.symmetry is None:
        raise ValueError(f"{topology!r} declares no symmetry: its items cannot arrive alike")
    return topology.symmetry
