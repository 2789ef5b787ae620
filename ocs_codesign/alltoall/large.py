"""All-to-all throughput of large topologies without much symmetry: no solver, a certified gap."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.alltoall.master import certified
from ocs_codesign.alltoall.soft import played
from ocs_codesign.alltoall.time_network import routing_network

if TYPE_CHECKING:
    from ocs_codesign.alltoall.quotient import Quotient
    from ocs_codesign.alltoall.result import Throughput


def soft_throughput(quotient: Quotient, time_limit_s: float | None = None) -> Throughput:
    """A routing over paths of at most diameter + 1 hops, to about a thousandth of the least time.

    The bound counts all paths. Raises ValueError if the topology is not strongly connected.

    >>> from ocs_codesign.alltoall.quotient import quotient
    >>> from ocs_codesign.families.shifts import generalized_kautz
    >>> found = soft_throughput(quotient(generalized_kautz(4, 9)))
    >>> float(found.bound) <= 5 / 3 <= float(found.time) and float(found.gap) < 0.01
    True
    """
    topology = quotient.topology
    network = routing_network(
        quotient, topology.distances()[quotient.sources], topology.diameter() + 1
    )
    game = played(network, time_limit_s)
    arcs = np.flatnonzero(network.row >= 0)
    flow = np.zeros((quotient.num_sources, topology.num_links))
    np.add.at(flow, (network.source[arcs], network.link[arcs]), game.best[arcs])
    return certified(quotient, flow, game.prices, "mirror descent")
