"""The automorphisms behind a declared symmetry, recovered from its orbits.

The group fixes no node unless it fixes all, so at most one link of an orbit leaves a node, and an
automorphism is known by where it takes one node: it takes the link of orbit o out of u to the link
of orbit o out of the image of u. Walking breadth first from that node finds the image of every
other.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


# What all-to-all needs to know of a topology: one source an orbit, one capacity a link orbit.
#
# Averaging a routing over a group of automorphisms makes the load of all links of an orbit the
# same. The group acts freely, so a link's load is the number of times that the routings from one
# source of every orbit use its orbit. Without a declared symmetry every node and link is its own
# orbit.


@final
@dataclass(frozen=True, slots=True, eq=False)
class Quotient:
    """A topology with its sources (int64, one an orbit), link orbits and the speed of each.

    ``is_useful`` tells the orbits of proper links from those of self-loops. Of a group that fixes
    some nodes ``weight`` (int64) are the sizes of the nodes' orbits, and ``speed`` is that of all
    links of an orbit together: what all sources load it with, so often, is what all its links have.
    """

    topology: Topology
    sources: NDArray[np.int64]
    link_orbit: NDArray[np.int64]
    speed: NDArray[np.int64]
    is_useful: NDArray[np.bool_]
    weight: NDArray[np.int64] | None = None

    def weights(self) -> NDArray[np.int64]:
        """How often each source counts."""
        return np.ones(self.num_sources, dtype=np.int64) if self.weight is None else self.weight

    @property
    def num_orbits(self) -> int:
        """Orbits of links."""
        return len(self.speed)

    @property
    def num_sources(self) -> int:
        """Orbits of nodes."""
        return len(self.sources)

    @property
    def scale(self) -> Fraction:
        """Time in M/B of one message over a link of speed 1."""
        return Fraction(self.topology.node_speed(), self.topology.num_nodes)

    def time(self, loads: Sequence[Fraction]) -> Fraction:
        """Time in M/B when so many messages cross every link of each orbit."""
        speeds = self.speed.tolist()
        busiest: Fraction = max(load / speed for load, speed in zip(loads, speeds, strict=True))
        return self.scale * busiest


def quotient(topology: Topology) -> Quotient:
    """The quotient by the declared symmetry if it respects link speeds, else the trivial one."""
    symmetry, speeds = topology.symmetry, topology.speeds()
    is_proper = topology.tail != topology.head
    if symmetry is not None:
        first = np.unique(symmetry.link_orbit, return_index=True)[1]
        orbit = symmetry.link_orbit.astype(np.int64)
        if (speeds == speeds[first][orbit]).all():
            sources = symmetry.representatives()
            return Quotient(topology, sources, orbit, speeds[first], is_proper[first])
    every_node, every_link = np.arange(topology.num_nodes), np.arange(topology.num_links)
    return Quotient(topology, every_node, every_link, speeds, is_proper)


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
    """The automorphisms that spread each source over its orbit, None if the orbits are of none."""
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


# The automorphisms behind a declared symmetry, for copying one root's sends to its orbit.


def automorphisms(topology: Topology, node: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Where nodes and links go when ``node`` goes to each node of its orbit, the orbit ascending.

    ``node`` is the first of its orbit; shapes (orbit, N) and (orbit, links). Raises ValueError if
    the topology declares no symmetry or the orbits are not those of a group that acts freely.
    """
    if topology.symmetry is None:
        raise ValueError("the topology declares no symmetry")
    whole = quotient(topology)
    found = images(whole)
    if found is None:
        raise ValueError("the declared symmetry does not map the links onto each other")
    moved = found[whole.sources.tolist().index(node)]
    return moved.nodes, moved.links(np.arange(topology.num_links))
