"""What all-to-all needs to know of a topology: one source an orbit, one capacity a link orbit.

Averaging a routing over a group of automorphisms makes the load of all links of an orbit the same.
The group acts freely, so a link's load is the number of times that the routings from one source of
every orbit use its orbit. Without a declared symmetry every node and link is its own orbit.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ocs_codesign.topology import Topology


@final
@dataclass(frozen=True, slots=True, eq=False)
class Quotient:
    """A topology with its sources (int64, one an orbit), link orbits and the speed of each.

    ``is_useful`` tells the orbits of proper links from those of self-loops.
    """

    topology: Topology
    sources: NDArray[np.int64]
    link_orbit: NDArray[np.int64]
    speed: NDArray[np.int64]
    is_useful: NDArray[np.bool_]

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
    """The quotient by the declared symmetry if it respects link speeds, else the trivial one.

    >>> from ocs_codesign.graphs.families.dense import Complete
    >>> whole = quotient(Complete(5).topology())
    >>> whole.num_orbits, whole.sources.tolist()
    (4, [0])
    """
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
