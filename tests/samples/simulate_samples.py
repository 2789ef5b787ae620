"""Networks and rules as ASTRA-sim has them, for tests of the simulator."""

from __future__ import annotations

import numpy as np

from ocs_codesign.core.network import Network, Routes, direct_routes, shortest_routes
from ocs_codesign.core.networks.builders import star
from ocs_codesign.core.topology import Topology
from ocs_codesign.schedules.simulate.transfers import TimingRules

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

GATHER, SCATTER, REDUCE, EXCHANGE = "allgather", "reduce-scatter", "allreduce", "alltoall"
KNOWN = [
    # algorithm, options, collective, ranks, network, M in bytes (None: a MiB a rank), ns
    ("ring", {}, GATHER, 4, "FC", None, 60_093),
    ("ring", {}, GATHER, 8, "FC", None, 140_217),
    ("ring", {}, GATHER, 16, "FC", None, 300_465),
    ("ring", {}, GATHER, 16, "R", None, 300_465),
    ("ring", {}, GATHER, 4, "FC", 4 * 1_000_003, 57_378),
    ("ring", {}, GATHER, 64, "FC", None, 1_261_953),
    ("ring", {}, GATHER, 128, "FC", None, 2_543_937),
    ("ring", {}, SCATTER, 8, "FC", None, 140_224),
    ("ring", {}, REDUCE, 8, "FC", MIB, 41_181),
    ("ring", {}, REDUCE, 8, "R", None, 280_441),
    ("ring-outward", {}, GATHER, 8, "FC", None, 70_358),
    ("ring-halves", {}, GATHER, 8, "FC", None, 71_855),
    ("neighbour-exchange", {}, GATHER, 6, "FC", None, 99_155),
    ("recursive-doubling", {"first": "near"}, GATHER, 8, "FC", None, 138_218),
    ("recursive-doubling", {"first": "near"}, GATHER, 8, "R", None, 413_655),
    ("recursive-doubling", {"first": "near"}, GATHER, 8, "SW", None, 276_436),
    ("recursive-doubling", {"first": "far"}, GATHER, 8, "R", None, 237_873),
    ("rabenseifner", {}, REDUCE, 8, "FC", None, 276_439),
    ("rabenseifner", {}, REDUCE, 8, "R", None, 475_749),
    ("rabenseifner", {}, REDUCE, 6, "FC", 4 * MIB, 276_439),
    ("pat", {"aggregation": 2}, GATHER, 8, "FC", None, 138_717),
    ("bruck", {}, GATHER, 6, "FC", None, 59_593),
    ("bruck", {}, GATHER, 6, "R", None, 99_155),
    ("bruck", {}, EXCHANGE, 8, "FC", None, 235_875),
    ("bruck", {}, EXCHANGE, 8, "R", None, 550_375),
    ("swing", {}, REDUCE, 8, "FC", None, 276_439),
    ("swing", {}, REDUCE, 8, "R", None, 356_563),
    ("bucket-multiport", {"dims": (4, 4)}, GATHER, 16, "FC", None, 76_239),
    ("bucket", {"dims": (4, 4), "order": (0, 1)}, REDUCE, 16, "FC", None, 591_942),
    ("double-binary-tree", {"chunks_per_tree": 4}, REDUCE, 8, "FC", None, 180_282),
    ("shift", {}, EXCHANGE, 6, "R", None, 118_186),
    ("direct", {}, EXCHANGE, 6, "R", None, 118_186),
]
"""Nanoseconds of ASTRA-sim."""
