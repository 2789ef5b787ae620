"""Networks and rules as ASTRA-sim has them, for tests of the simulator."""

from __future__ import annotations

import numpy as np

from ocs_codesign.network import Network
from ocs_codesign.networks.switched import star
from ocs_codesign.routes import Routes, direct_routes, shortest_routes
from ocs_codesign.simulate.rules import TimingRules
from ocs_codesign.topology import Topology

MIB = 2**20
ASTRA = TimingRules(unit_Bps=2**30, in_doubles=True)
"""A unit of bandwidth is what ASTRA-sim calls a GB/s."""


def every_pair(num_ranks: int) -> Topology:
    """A link from every rank to every other."""
    source, target = np.divmod(np.arange(num_ranks**2), num_ranks)
    apart = source != target
    return Topology(num_ranks, source[apart], target[apart])


def fully_connected(num_ranks: int, bandwidth: int = 50, latency: int = 500) -> Routes:
    """FullyConnected: one link a pair."""
    pairs = every_pair(num_ranks)
    links = [bandwidth] * pairs.num_links, [latency] * pairs.num_links
    return direct_routes(pairs, Network(num_ranks, num_ranks, pairs.tail, pairs.head, *links))


def ring_ways(num_ranks: int, bandwidth: int = 50, latency: int = 500) -> Routes:
    """Ring: the shorter way round over the ranks between, forward on ties."""
    own = np.arange(num_ranks)
    tail = np.concatenate([own, own])
    head = np.concatenate([(own + 1) % num_ranks, (own - 1) % num_ranks])
    network = Network(
        num_ranks, num_ranks, tail, head, [bandwidth] * len(tail), [latency] * len(tail)
    )
    pairs = every_pair(num_ranks)
    paths = []
    for source, target in zip(pairs.tail.tolist(), pairs.head.tolist(), strict=True):
        ahead = (target - source) % num_ranks
        if ahead <= num_ranks - ahead:
            paths.append([(source + hop) % num_ranks for hop in range(ahead)])
        else:
            back = range(num_ranks - ahead)
            paths.append([num_ranks + (source - hop) % num_ranks for hop in back])
    start = np.cumsum([0, *map(len, paths)])
    return Routes(pairs, network, start, np.concatenate(paths), hosts_forward=True)


def switched(num_ranks: int, bandwidth: int = 50, latency: int = 500) -> Routes:
    """Switch: an up link and a down link a rank."""
    return shortest_routes(every_pair(num_ranks), star(num_ranks, bandwidth, latency))


ROUTES = {"FC": fully_connected, "R": ring_ways, "SW": switched}
