"""Configurations held one after the other, as one network with a layer for each of them.

Node v in phase p is the layered node p * N + v. The links of a phase stay in its layer; what a node
holds at the end of a phase it still holds in the next, over a storage link that costs nothing. The
links of all phases are numbered through, storage links follow them.

The program of an all-to-all over them: minimise the sum of the phases' durations t over flows
f[s, e] >= 0 of every source s on the links and stores e of the layered network, such that every
node v != s keeps one piece of source s in the last layer and every link orbit of phase p carries at
most speed * t[p] over all sources. Destinations and paths are a matter of decomposing each source's
flow afterwards. Within a phase flow may go several hops.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.reconfigure.in_turn import least, neighbour_tables, reached, union
from ocs_codesign.symmetry.automorphisms import quotient_and_images
from ocs_codesign.topology import Topology

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
    source an orbit of nodes, one capacity an orbit of links. ``phase`` (int64, a link) and
    ``phase_of_orbit`` (int64, an orbit) say to which phase they belong.
    """

    topologies: tuple[Topology, ...]
    union: Quotient
    phase: NDArray[np.int64]
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
    whole, _ = quotient_and_images(union(sequence))
    phase = np.repeat(np.arange(len(sequence)), [top.num_links for top in sequence])
    first_link = np.unique(whole.link_orbit, return_index=True)[1]
    tables, nodes = neighbour_tables(sequence), sequence[0].num_nodes
    held = reached(tables, [nodes] * len(tables), whole.sources)
    if not held.all():
        number, node = np.argwhere(~held.T)[0]
        order = "" if len(sequence) == 1 else ", even over the configurations in their order"
        raise ValueError(
            f"not connected: node {node} is out of node {whole.sources[number]}'s reach{order}"
        )
    return PhaseNetwork(sequence, whole, phase, phase[first_link])


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


def fewest_hops(network: PhaseNetwork) -> tuple[int, ...]:
    """Links in a row in every phase, at least one, with which every pair has a path.

    None can be one less. For a single configuration that is the diameter. Later phases are
    shortened first.

    >>> from ocs_codesign.graphs.families.rings import DirectedCirculant
    >>> rings = [DirectedCirculant(8, (offset,)).topology() for offset in (1, 2, 5)]
    >>> fewest_hops(phase_network(rings))
    (2, 1, 1)
    """
    tables, sources = neighbour_tables(network.topologies), network.union.sources

    def suffice(phases: slice, hops: int) -> bool:
        tried = limits.copy()
        tried[phases] = hops
        return bool(reached(tables, tried.tolist(), sources).all())

    limits = np.ones(network.num_phases, dtype=np.int64)
    limits[:] = least(network.num_nodes, lambda hops: suffice(slice(None), hops))
    for phase in reversed(range(network.num_phases)):
        this = slice(phase, phase + 1)
        limits[phase] = least(int(limits[phase]), partial(suffice, this))
    return tuple(limits.tolist())


def num_columns(network: PhaseNetwork) -> int:
    """Columns of the program: a flow a source and layered link, and a duration a phase."""
    stores = network.num_nodes * (network.num_phases - 1)
    per_source = network.union.topology.num_links + stores
    return network.union.num_sources * per_source + network.num_phases
