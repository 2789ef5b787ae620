"""What no schedule on a network is faster than, whoever makes it."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.demand import MOVE, demands_of

if TYPE_CHECKING:
    from ocs_codesign.collective import Collective
    from ocs_codesign.network import Network


def farthest_latency(network: Network) -> int:
    """Ticks of latency between the two hosts that are farthest apart."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import dijkstra

    order = np.lexsort((network.latency, network.head, network.tail))
    tail, head = network.tail[order], network.head[order]
    first = np.any([np.diff(tail, prepend=-1) != 0, np.diff(head, prepend=-1) != 0], axis=0)
    # scipy takes zeros for no link at all: all latencies are raised by the same part of a tick.
    raised = (network.latency[order][first] + 0.5 / network.num_nodes).astype(float)
    shape = (network.num_nodes, network.num_nodes)
    graph = coo_array((raised, (tail[first], head[first])), shape=shape).tocsr()
    far = dijkstra(graph, indices=range(network.num_hosts))[:, : network.num_hosts].max()
    if not np.isfinite(far):
        raise ValueError("a host of the network cannot be reached from another")
    return int(far)


def most_algbw(network: Network, collective: Collective) -> Fraction:
    """M over the time, in units of bandwidth, that no schedule of the collective exceeds.

    An allreduce is both of its halves if vectors are zero but for a shard. N hosts cannot all know
    of all in fewer than 2N - 2 messages one way (Harary and Schwenk, 1974), so every byte leaves a
    host so often. Where switches copy or add up, a host gives and gets all of M at least. Raises
    ValueError for a host that cannot be reached, and for a scatter or gather.

    >>> from ocs_codesign.collective import Collective
    >>> from ocs_codesign.networks.switched import star
    >>> [str(most_algbw(star(4, 10), Collective(name))) for name in ("allgather", "allreduce")]
    ['40/3', '20/3']
    """
    from ocs_codesign.schedulers.classic.in_network import in_network_bound
    from ocs_codesign.schedulers.forest.optimum import optimum

    if collective.name == "alltoall":
        return _most_of_exchange(network)
    demands = demands_of(collective, network.num_hosts)
    if any((demand.kind == MOVE).any() for demand in demands):
        raise ValueError(f"what a {collective.name} takes at least is not known")
    most = min(optimum(network, half).algbw for half in collective.halves())
    if len(demands) > 1 and not (network.multicast.any() or network.aggregate.any()):
        egress = int(network.bandwidth[network.tail < network.num_hosts].sum())
        most = min(most, Fraction(egress, 2 * network.num_hosts - 2))
    elif len(demands) > 1:
        most = min(most, network.host_bandwidth() / in_network_bound(network).t_b)
    return most


def _most_of_exchange(network: Network) -> Fraction:
    """An all-to-all crosses links of all hops, and all of a host's but its own goes out and in."""
    hosts, nodes = network.num_hosts, network.num_nodes
    out, into = (
        np.bincount(end, network.bandwidth, minlength=nodes)[:hosts].min()
        for end in (network.tail, network.head)
    )
    ports = Fraction(int(min(out, into)) * hosts, hosts - 1)
    hops = network.topology().distances()[:hosts, :hosts].sum(dtype=np.int64)
    everything = Fraction(int(network.bandwidth.sum()) * hosts, int(hops))
    return min(ports, everything)
