"""All-to-all throughput of large topologies without much symmetry: no solver, a certified gap."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.lp import DEFAULT_OPTIONS
from ocs_codesign.schedulers.alltoall.certificates import certified
from ocs_codesign.schedulers.alltoall.soft import played
from ocs_codesign.schedulers.alltoall.time_network import num_arcs, routing_network

if TYPE_CHECKING:
    from ocs_codesign.lp import Options
    from ocs_codesign.schedulers.alltoall.result import Throughput
    from ocs_codesign.symmetry.quotient import Quotient

MAX_ARCS = 100_000_000
"""About 12 GB: some 3000 nodes of degree 4 without symmetry."""


def soft_throughput(quotient: Quotient, options: Options = DEFAULT_OPTIONS) -> Throughput:
    """A routing over paths of at most diameter + 1 hops, to about a thousandth of the least time.

    Of the options, the time limit and the gap count. The bound counts all paths. Raises ValueError
    if the topology is not strongly connected or has more than MAX_ARCS arcs.

    >>> from ocs_codesign.symmetry.quotient import quotient
    >>> from ocs_codesign.graphs.families.shifts import GeneralizedKautz
    >>> found = soft_throughput(quotient(GeneralizedKautz(4, 9).topology()))
    >>> float(found.bound) <= 5 / 3 <= float(found.time) and float(found.gap) < 0.01
    True
    """
    topology, most = quotient.topology, quotient.topology.diameter() + 1
    distance = topology.distances()[quotient.sources]
    size = num_arcs(quotient, distance, most)
    if size > MAX_ARCS:
        raise ValueError(
            f"all-to-all on {topology!r} has {size:,} arcs of paths of {most} hops: at most "
            f"{MAX_ARCS:,} are supported without more symmetry"
        )
    network = routing_network(quotient, distance, most)
    game = played(network, options)
    arcs = np.flatnonzero(network.row >= 0)
    flow = np.zeros((quotient.num_sources, topology.num_links))
    np.add.at(flow, (network.source[arcs], network.link[arcs]), game.best[arcs])
    return certified(quotient, flow, game.prices, "mirror descent")
