"""The automorphisms behind a declared symmetry, recovered from its orbits.

The group fixes no node unless it fixes all, so at most one link of an orbit leaves a node, and an
automorphism is known by where it takes one node: it takes the link of orbit o out of u to the link
of orbit o out of the image of u. Walking breadth first from that node finds the image of every
other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.symmetry.quotient import quotient
from ocs_codesign.topology import Topology

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.symmetry.quotient import Quotient


@final
@dataclass(frozen=True, slots=True, eq=False)
class Images:
    """What the automorphisms make of nodes and links: ``nodes[i, v]`` is where number i takes v.

    There is one for every node in the orbit of a source, which is taken to that node.
    """

    nodes: NDArray[np.int32]
    _order: NDArray[np.int64]
    _start: NDArray[np.int64]
    _rank: NDArray[np.int64]
    _tail: NDArray[np.int32]

    def links(self, link: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """Where every automorphism takes these links, shape (automorphisms, len(link))."""
        tail: NDArray[np.int32] = self.nodes[:, self._tail[link]]
        moved: NDArray[np.int64] = self._order[self._start[tail] + self._rank[link]]
        return moved


def quotient_and_images(topology: Topology) -> tuple[Quotient, tuple[Images, ...]]:
    """The quotient by the declared symmetry and its automorphisms.

    If the orbits are those of no group, or of the trivial one, every node is a source and there are
    no images.
    """
    whole = quotient(topology)
    group = images(whole) if whole.num_sources < topology.num_nodes else ()
    if group is not None:
        return whole, group
    plain = Topology(topology.num_nodes, topology.tail, topology.head, topology.link_speed)
    return quotient(plain), ()


def images(whole: Quotient) -> tuple[Images, ...] | None:
    """The automorphisms that spread each source over its orbit, None if the orbits are of none.

    >>> from ocs_codesign.graphs.families.rings import UniRing
    >>> images(quotient(UniRing(1, 4).topology()))[0].nodes.tolist()
    [[0, 1, 2, 3], [1, 2, 3, 0], [2, 3, 0, 1], [3, 0, 1, 2]]
    """
    topology, orbit = whole.topology, whole.link_orbit
    order = np.lexsort((orbit, topology.tail))
    start = np.searchsorted(topology.tail[order], np.arange(topology.num_nodes + 1))
    rank = np.empty(topology.num_links, dtype=np.int64)
    rank[order] = np.arange(topology.num_links) - start[topology.tail[order]]
    found = []
    for source, targets in zip(whole.sources.tolist(), _node_orbits(whole), strict=True):
        nodes = np.full((len(targets), topology.num_nodes), -1, dtype=np.int32)
        nodes[:, source] = targets
        one = Images(nodes, order, start, rank, topology.tail)
        if not (_spread(topology, one, source) and _is_automorphic(whole, one)):
            return None
        found.append(one)
    return tuple(found)


def _node_orbits(whole: Quotient) -> list[NDArray[np.int64]]:
    """The nodes of every source's orbit, the source first."""
    symmetry = whole.topology.symmetry
    if symmetry is None or whole.num_sources == whole.topology.num_nodes:
        return [np.array([source]) for source in whole.sources]
    number = symmetry.node_orbit
    return [np.flatnonzero(number == number[source]) for source in whole.sources]


def _spread(topology: Topology, found: Images, source: int) -> bool:
    """Fill the images of all nodes from those of the source; False if degrees do not fit."""
    nodes, degrees = found.nodes, topology.out_degrees()
    front = np.array([source])
    while len(front):
        if not (degrees[nodes[:, front]] == degrees[front]).all():
            return False
        ahead = np.isin(topology.tail, front) & (nodes[0, topology.head] < 0)
        link = np.flatnonzero(ahead)
        front, first = np.unique(topology.head[link], return_index=True)
        nodes[:, front] = topology.head[found.links(link[first])]
    return True


def _is_automorphic(whole: Quotient, found: Images) -> bool:
    """Whether the images are permutations that take every link to one of its orbit and speed."""
    topology, orbit = whole.topology, whole.link_orbit
    every, block = np.arange(topology.num_links), max(1, 2**24 // topology.num_links)
    if not (np.sort(found.nodes, axis=1) == np.arange(topology.num_nodes)).all():
        return False
    if not (topology.out_degrees()[found.nodes] == topology.out_degrees()).all():
        return False
    for first in range(0, len(found.nodes), block):
        part = Images(
            found.nodes[first : first + block], found._order, found._start, found._rank, found._tail
        )
        link = part.links(every)
        if not (
            (topology.head[link] == part.nodes[:, topology.head]).all()
            and (orbit[link] == orbit).all()
        ):
            return False
    return True
