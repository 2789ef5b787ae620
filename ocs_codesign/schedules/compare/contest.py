"""Contest: what is compared, that is a collective on a network for messages of some sizes."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.demand import MOVE, demands_of
from ocs_codesign.core.network import MAX_LATENCY
from ocs_codesign.core.networks.aggregation_trees import with_aggregation
from ocs_codesign.schedules.simulate.transfers import TimingRules

if TYPE_CHECKING:
    from ocs_codesign.core.network import Network
    from ocs_codesign.core.networks.aggregation import AggregationProfile
    from ocs_codesign.core.topology import Topology


# What no schedule on a network is faster than, whoever makes it.


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

    >>> from ocs_codesign.core.collective import Collective
    >>> from ocs_codesign.core.networks.builders import star
    >>> [str(most_algbw(star(4, 10), Collective(name))) for name in ("allgather", "allreduce")]
    ['40/3', '20/3']
    """
    from ocs_codesign.schedules.classic.alltoall import in_network_bound
    from ocs_codesign.schedules.forest.optimum import optimum

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


COMPARED = ("allgather", "reduce-scatter", "allreduce", "alltoall", "broadcast", "reduce")
FINE_TICK_S = Fraction(1, 10**14)
"""What a byte takes is many of these."""

MAX_TRANSFERS = 2**23
"""Transfers of one schedule up to which it is simulated."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Contest:
    """A collective on a network called ``name``, for messages of these sizes.

    A unit of the network's bandwidth is ``unit_Bps`` bytes a second. ``recipe`` is that of a
    network of links between hosts that has one. ``seed`` is given to makers that draw. With
    ``barriers`` a step waits for all of the step before, else for its data alone. With an
    ``aggregation`` the switches add up an allreduce as well, packet by packet.
    """

    name: str
    network: Network
    collective: Collective
    sizes_bytes: tuple[int, ...]
    unit_Bps: Fraction  # noqa: N815 - units keep their case
    recipe: Any = None
    seed: int = 1
    barriers: bool = False
    aggregation: AggregationProfile | None = None

    def __post_init__(self) -> None:
        if self.collective.name not in COMPARED:
            raise ValueError(f"compared are {', '.join(COMPARED)}, not {self.collective.name}")
        if not self.sizes_bytes or min(self.sizes_bytes) < 1:
            raise ValueError("compared are messages of at least a byte")
        if self.aggregation is not None and self.collective.name != "allreduce":
            raise ValueError(f"switches add up an allreduce, not {self.collective.text}")

    @property
    def num_hosts(self) -> int:
        """Hosts of the network, all of which take part."""
        return self.network.num_hosts

    @property
    def has_switches(self) -> bool:
        """Whether there is more than links between hosts."""
        return self.network.num_nodes > self.network.num_hosts

    @property
    def sides(self) -> tuple[int, ...]:
        """Sides of the grid that the hosts are in, none if that is not known."""
        return tuple(getattr(self.recipe, "sides", None) or ())

    def clocked(self) -> Network:
        """The network with ticks so fine that cutting off what is less does not matter."""
        network = self.network
        factor = ceil(network.tick_s / FINE_TICK_S)
        factor = max(1, min(factor, MAX_LATENCY // max(1, int(network.latency.max(initial=0)))))
        return network.changed(latency=network.latency * factor, tick_s=network.tick_s / factor)

    @property
    def rules(self) -> TimingRules:
        """The clock: latency flies, links are queues, switches pass on at once."""
        return TimingRules(unit_Bps=self.unit_Bps, pipelined=True, cut_through=self.has_switches)

    def topology(self) -> Topology:
        """Hosts, switches and links for makers of schedules."""
        if self.recipe is not None:
            built: Topology = self.recipe.topology()
            return built
        return self.network.topology()

    def busbw_factor(self) -> Fraction:
        """What nccl-tests multiplies M over the time with, to compare with the links' bandwidth."""
        hosts, name = self.num_hosts, self.collective.name
        if name in ("broadcast", "reduce"):
            return Fraction(1)
        return Fraction((2 if name == "allreduce" else 1) * (hosts - 1), hosts)

    def floor_s(self) -> tuple[Fraction, Fraction]:
        """Seconds that nothing is faster than, for an empty message and for every byte of one.

        What takes both takes at least the larger. The first is the latency between the two hosts
        that are farthest apart, the second that of the narrowest cut.
        """
        latency = farthest_latency(self.network) * self.network.tick_s
        network = self.network if self.aggregation is None else with_aggregation(self.network)
        return latency, 1 / (self.unit_Bps * most_algbw(network, self.collective))
