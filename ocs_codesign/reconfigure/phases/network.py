"""Configurations held one after the other, as one network with a layer for each of them.

Node v in phase p is the layered node p * N + v. The links of a phase stay in its layer; what a node
holds at the end of a phase it still holds in the next, over a storage link that costs nothing. The
links of all phases are numbered through, storage links follow them.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.symmetry.automorphisms import quotient_and_images
from ocs_codesign.topology import Symmetry, Topology

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ocs_codesign.symmetry.quotient import Quotient

MAX_LAYERED_LINKS = 10_000_000


@final
@dataclass(frozen=True, slots=True, eq=False)
class PhaseNetwork:
    """A sequence of topologies with the sources and link orbits that an all-to-all over it needs.

    ``union`` holds the links of all phases with the symmetry that the whole sequence has: one
    source an orbit of nodes, one capacity an orbit of links. ``phase_of_orbit`` (int64, an orbit)
    is the phase whose links it consists of.
    """

    topologies: tuple[Topology, ...]
    union: Quotient
    phase_of_orbit: NDArray[np.int64]

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.topologies[0].num_nodes

    @property
    def num_phases(self) -> int:
        """C, the configurations held one after the other."""
        return len(self.topologies)

    @property
    def scale(self) -> Fraction:
        """Time in M/B of one piece over a link of speed 1; B is the largest egress of a node."""
        fastest = max(topology.node_speed() for topology in self.topologies)
        return Fraction(fastest, self.num_nodes)

    @property
    def phase(self) -> NDArray[np.int64]:
        """The phase of every link of the union."""
        return np.repeat(np.arange(self.num_phases), [one.num_links for one in self.topologies])

    def layered(self) -> Topology:
        """The network with a layer a phase: the links of the union, then the storage links."""
        nodes, union = self.num_nodes, self.union.topology
        kept = np.arange(nodes * (self.num_phases - 1))
        first = self.phase * nodes
        return Topology(
            nodes * self.num_phases,
            np.concatenate([union.tail + first, kept]),
            np.concatenate([union.head + first, kept + nodes]),
        )

    def durations(self, loads: Sequence[Fraction]) -> tuple[Fraction, ...]:
        """Time in M/B of every phase when so many pieces cross every link of each orbit."""
        busiest = [Fraction(0)] * self.num_phases
        rows = zip(self.phase_of_orbit.tolist(), loads, self.union.speed.tolist(), strict=True)
        for phase, load, speed in rows:
            busiest[phase] = max(busiest[phase], load / speed)
        return tuple(self.scale * time for time in busiest)


def phase_network(topologies: Sequence[Topology]) -> PhaseNetwork:
    """The network of a sequence of topologies, with the symmetry that all of them share.

    Node orbits must be the same in all, and one group must act on all of them: otherwise every node
    is a source. Link speeds of all topologies are in one unit. Raises ValueError for no topology,
    for different numbers of nodes, and if some node cannot reach another one with the
    configurations in this order.

    >>> from ocs_codesign.graphs.families.rings import DirectedCirculant
    >>> network = phase_network([DirectedCirculant(8, (a,)).topology() for a in (1, 3)])
    >>> network.num_phases, network.union.num_sources, network.union.num_orbits
    (2, 1, 2)
    """
    sequence = tuple(topologies)
    _check_sizes(sequence)
    union = Topology(
        sequence[0].num_nodes,
        np.concatenate([one.tail for one in sequence]),
        np.concatenate([one.head for one in sequence]),
        np.concatenate([one.speeds() for one in sequence]),
        _declared(sequence),
    )
    whole, _ = quotient_and_images(union)
    first_link = np.unique(whole.link_orbit, return_index=True)[1]
    network = PhaseNetwork(sequence, whole, np.empty(0, dtype=np.int64))
    network = PhaseNetwork(sequence, whole, network.phase[first_link])
    _check_reach(network)
    return network


def _check_sizes(sequence: tuple[Topology, ...]) -> None:
    if not sequence:
        raise ValueError("a sequence of 0 configurations: there must be at least 1")
    nodes = sequence[0].num_nodes
    if nodes < 2:
        raise ValueError(f"{nodes} node: an all-to-all is between 2 or more")
    for number, topology in enumerate(sequence):
        if topology.num_nodes != nodes:
            raise ValueError(
                f"configuration {number} has {topology.num_nodes} nodes, but the first one "
                f"{nodes}: all configurations connect the same nodes"
            )
        if not topology.num_links:
            raise ValueError(f"configuration {number} has no links: it can carry nothing")
    links = sum(topology.num_links + nodes for topology in sequence)
    if links > MAX_LAYERED_LINKS:
        raise ValueError(
            f"{len(sequence)} configurations with {links} links and stores in all: at most "
            f"{MAX_LAYERED_LINKS} are supported"
        )


def _declared(sequence: tuple[Topology, ...]) -> Symmetry | None:
    """The orbits of all configurations as those of one group, if their node orbits agree.

    Whether one group has them is for whoever recovers its permutations to find out.
    """
    orbits, base = [], 0
    node_orbit: NDArray[np.int32] | None = None
    for topology in sequence:
        symmetry = topology.symmetry
        if symmetry is None:
            return None
        if node_orbit is None:
            node_orbit = symmetry.node_orbit
        elif not np.array_equal(node_orbit, symmetry.node_orbit):
            return None
        orbits.append(symmetry.link_orbit + base)
        base += int(symmetry.link_orbit.max()) + 1
    return None if node_orbit is None else Symmetry(node_orbit, np.concatenate(orbits))


def _check_reach(network: PhaseNetwork) -> None:
    """ValueError unless every source reaches every node, the configurations used in order."""
    from ocs_codesign.reconfigure.phases.kernels import least_hops

    layered = network.layered()
    out = layered.links_by_tail()
    hops = np.where(np.arange(layered.num_links) < network.union.topology.num_links, 1, 0)
    ends = least_hops(
        network.union.sources, network.num_nodes, layered.head, out.start, out.order, hops
    )
    if ends.min() < 0:
        number, node = np.argwhere(ends < 0)[0]
        order = "" if network.num_phases == 1 else ", even over the configurations in their order"
        raise ValueError(
            f"not connected: node {node} is out of node {network.union.sources[number]}'s "
            f"reach{order}"
        )


def fewest_hops(network: PhaseNetwork) -> tuple[int, ...]:
    """Links in a row in every phase, at least one, with which every pair has a path.

    None can be one less. For a single configuration that is the diameter. Later phases are
    shortened first.

    >>> from ocs_codesign.graphs.families.rings import DirectedCirculant
    >>> rings = [DirectedCirculant(8, (offset,)).topology() for offset in (1, 2, 5)]
    >>> fewest_hops(phase_network(rings))
    (2, 1, 1)
    """
    limits = np.ones(network.num_phases, dtype=np.int64)
    while not _suffice(network, limits):
        limits += 1
    for phase in reversed(range(network.num_phases)):
        while limits[phase] > 1:
            limits[phase] -= 1
            if not _suffice(network, limits):
                limits[phase] += 1
                break
    return tuple(limits.tolist())


def _suffice(network: PhaseNetwork, limits: NDArray[np.int64]) -> bool:
    from ocs_codesign.reconfigure.phases.kernels import reaches_all

    union = network.union.topology
    start = np.cumsum([0, *(one.num_links for one in network.topologies)])
    sources, nodes = network.union.sources, network.num_nodes
    return bool(reaches_all(sources, nodes, union.tail, union.head, start, limits))
