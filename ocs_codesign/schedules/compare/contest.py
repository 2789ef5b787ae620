"""Contest: what is compared, that is a collective on a network for messages of some sizes."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.compute.components import connected
from ocs_codesign.core.demand import MOVE, demands_of
from ocs_codesign.core.networks.aggregation_trees import with_aggregation
from ocs_codesign.schedules.simulate.clocked import usual_rules
from ocs_codesign.schedules.simulate.transfers import with_fine_ticks

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from ocs_codesign.core.compute.cuts import Cut
    from ocs_codesign.core.machines.machine import RealMachine
    from ocs_codesign.core.network import Network
    from ocs_codesign.core.networks.aggregation import AggregationProfile
    from ocs_codesign.core.topology import Topology
    from ocs_codesign.schedules.simulate.machine_clock import MachineClock, ProtocolClock
    from ocs_codesign.schedules.simulate.transfers import TimingRules


# What no schedule on a network is faster than, whoever makes it.


def farthest_latency(network: Network) -> int:
    """Ticks of latency between the two hosts that are farthest apart."""
    from scipy.sparse.csgraph import dijkstra

    far = dijkstra(_latency_graph(network), indices=range(network.num_hosts))
    most = far[:, : network.num_hosts].max()
    if not np.isfinite(most):
        raise ValueError("a host of the network cannot be reached from another")
    return int(most)


def _latency_graph(network: Network, *, backwards: bool = False) -> csr_array:
    """The least latency of every pair of nodes that a link joins, or on the way back."""
    from scipy.sparse import coo_array

    ends = (network.tail, network.head)
    tail, head = ends[::-1] if backwards else ends
    order = np.lexsort((network.latency, head, tail))
    tail, head = tail[order], head[order]
    first = np.any([np.diff(tail, prepend=-1) != 0, np.diff(head, prepend=-1) != 0], axis=0)
    # scipy takes zeros for no link at all: all latencies are raised by the same part of a tick.
    raised = (network.latency[order][first] + 0.5 / network.num_nodes).astype(float)
    shape = (network.num_nodes, network.num_nodes)
    return coo_array((raised, (tail[first], head[first])), shape=shape).tocsr()


class Floor(NamedTuple):
    """Seconds that nothing is faster than: of an empty message, of a byte, and over a cut.

    A link out of the cut carries from when the first byte is there until the last can still arrive:
    of every ``delay_s``, the least from host to host over such links, they are ``width_Bps`` wide,
    and ``share`` of M crosses them.
    """

    latency_s: Fraction
    byte_s: Fraction
    share: Fraction = Fraction(0)
    delay_s: tuple[Fraction, ...] = ()
    width_Bps: tuple[Fraction, ...] = ()  # noqa: N815 - units keep their case

    def at(self, message_bytes: Fraction | int) -> Fraction:
        """Of a message of so many bytes.

        >>> Floor(Fraction(2), Fraction(1), Fraction(1, 2), (Fraction(3),), (Fraction(1),)).at(8)
        Fraction(8, 1)
        """
        least, width, sent = (
            max(self.latency_s, self.byte_s * message_bytes),
            Fraction(0),
            Fraction(0),
        )
        filled = least
        for delay, wide in zip(self.delay_s, self.width_Bps, strict=True):
            if width and filled <= delay:
                break
            width, sent = width + wide, sent + wide * delay
            filled = (self.share * message_bytes + sent) / width
        return max(least, filled)


def _filled(network: Network, cut: Cut, *, is_sum: bool) -> tuple[tuple[int, int], ...]:
    """Delay in ticks and bandwidth of the links out of a cut, the least delay first."""
    from scipy.sparse.csgraph import dijkstra

    ends = (network.tail, network.head)
    tail, head = ends[::-1] if is_sum else ends
    out = cut.side[tail] & ~cut.side[head]
    hosts = np.arange(network.num_hosts)
    before, after = (
        dijkstra(_latency_graph(network, backwards=way), indices=hosts[side], min_only=True)
        for way, side in ((is_sum, cut.side[hosts]), (not is_sum, ~cut.side[hosts]))
    )
    delay = (before[tail[out]] + network.latency[out] + after[head[out]]).astype(np.int64)
    each, number = np.unique(delay, return_inverse=True)
    width = np.bincount(number, network.bandwidth[out]).astype(np.int64)
    return tuple(zip(each.tolist(), width.tolist(), strict=True))


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
    return _narrowest(network, collective)[0]


class _Narrowest(NamedTuple):
    """The most M over the time, a cut that bounds it if there is one, and units of M."""

    algbw: Fraction
    cut: Cut | None = None
    message_units: int = 1
    is_sum: bool = False


def _narrowest(network: Network, collective: Collective) -> _Narrowest:
    from ocs_codesign.schedules.classic.alltoall import in_network_bound
    from ocs_codesign.schedules.forest.optimum import optimum
    from ocs_codesign.schedules.forest.pipeline import allreduce_bound

    if collective.name == "alltoall":
        return _most_of_exchange(network)
    demands = demands_of(collective, network.num_hosts)
    if any((demand.kind == MOVE).any() for demand in demands):
        raise ValueError(f"what a {collective.name} takes at least is not known")
    halves = [optimum(network, half) for half in collective.halves()]
    worst = min(halves, key=lambda half: half.most_algbw)
    most = worst.most_algbw
    if len(demands) > 1:
        most = allreduce_bound(network, halves)
        if network.multicast.any() or network.aggregate.any():
            most = min(most, network.host_bandwidth() / in_network_bound(network).t_b)
    return _Narrowest(most, worst.bottleneck, worst.demand.message_units, worst.is_sum)


def _most_of_exchange(network: Network) -> _Narrowest:
    """Of the optimum where rails or a small program have it, else of cuts and of prices."""
    from ocs_codesign.schedules.exchange.cuts import cut_bound
    from ocs_codesign.schedules.exchange.optimum import balanced_exchange, exchange_optimum
    from ocs_codesign.schedules.exchange.program import weighed_bound

    hosts, over_rails = network.num_hosts, balanced_exchange(network, None)
    found = None if over_rails is None else over_rails.optimum
    if found is None and hosts * (network.num_nodes + network.num_links) <= _MAX_CELLS:
        with suppress(ValueError):
            found = exchange_optimum(network)
    if found is not None:
        return _Narrowest(hosts / found.bound, found.bottleneck, hosts)
    least, cut = weighed_bound(network), cut_bound(network)
    return _Narrowest(hosts / (least if cut is None else max(least, cut.inv_rate)), cut, hosts)


_MAX_CELLS = 2**24
"""Hosts times nodes and links of a network up to which an exchange's optimum is found."""

COMPARED = ("allgather", "reduce-scatter", "allreduce", "alltoall", "broadcast", "reduce")
MAX_TRANSFERS = 2**23
"""Transfers of one schedule up to which it is simulated."""
MAX_TURN = 2**27
"""Hops that one entrant is simulated for, over all sizes, orders and protocols: a minute's work."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Contest:
    """A collective on a network called ``name``, for messages of these sizes.

    A unit of the network's bandwidth is ``unit_Bps`` bytes a second. ``recipe`` is that of a
    network of links between hosts that has one. ``seed`` is given to makers that draw. With
    ``barriers`` a step waits for all of the step before, else for its data alone. With an
    ``aggregation`` the switches add up an allreduce as well, packet by packet. ``of_designs``,
    only schedules play, which build can save, and whose parts are of ``min_chunk_bytes`` or more.
    With a ``machine`` the clock has its overheads, latencies and rates in the fastest protocol, and
    the network's bandwidths are peaks; without one bytes and latencies of links are all.
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
    of_designs: bool = False
    min_chunk_bytes: float = 0
    machine: RealMachine | None = None
    clock: MachineClock | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        if self.collective.name not in COMPARED:
            raise ValueError(f"compared are {', '.join(COMPARED)}, not {self.collective.name}")
        if not self.sizes_bytes or min(self.sizes_bytes) < 1:
            raise ValueError("compared are messages of at least a byte")
        from ocs_codesign.schedules.forest.optimum import check_work

        check_work(self.network)
        if self.aggregation is not None and self.collective.name != "allreduce":
            raise ValueError(f"switches add up an allreduce, not {self.collective.text}")
        if self.machine is not None:
            from ocs_codesign.schedules.simulate.machine_clock import MachineClock

            clock = MachineClock.of(self.machine, self.network, self.rules)
            object.__setattr__(self, "clock", clock)

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

    @property
    def boxes(self) -> tuple[int, ...]:
        """How many boxes there are and hosts of one; none unless they are alike and in order.

        >>> from ocs_codesign.core.networks.products import h100_rail
        >>> Contest("", h100_rail(4), Collective.ALLTOALL, (1,), Fraction(1)).boxes
        (4, 8)
        """
        network = self.network
        if not self.has_switches or network.dimension is None or not network.num_links:
            return ()
        inner = network.dimension == network.dimension.min()
        ends = network.tail[inner], network.head[inner]
        part = connected(*ends, network.num_nodes)[: self.num_hosts]
        boxes, size = len(np.unique(part)), int((part == part[0]).sum())
        if boxes * size != self.num_hosts or min(boxes, size) < 2:
            return ()
        rows = part.reshape(boxes, size)
        return (boxes, size) if (rows == rows[:, :1]).all() else ()

    def clocked(self) -> Network:
        """The network with ticks so fine that cutting off what is less does not matter."""
        return with_fine_ticks(self.network)

    @property
    def rules(self) -> TimingRules:
        """The usual clock, in the contest's unit of bandwidth."""
        return usual_rules(self.unit_Bps, has_switches=self.has_switches)

    def protocols(self) -> tuple[ProtocolClock, ...]:
        """The clocks of the machine's protocols, none without a machine."""
        return () if self.clock is None else self.clock.protocols

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

    def floor_s(self) -> Floor:
        """Seconds that nothing is faster than.

        What takes latency and bytes takes at least the larger: the latency between the two hosts
        that are farthest apart, and the bytes over the narrowest cut, with the latency to and from
        it.
        """
        network, tick_s = self.network, self.network.tick_s
        latency = farthest_latency(network) * tick_s
        if self.aggregation is not None:
            most = most_algbw(with_aggregation(network), self.collective)
            return Floor(latency, 1 / (self.unit_Bps * most))
        found = _narrowest(network, self.collective)
        floor = Floor(latency, 1 / (self.unit_Bps * found.algbw))
        if found.cut is None or not network.latency.any():
            return floor
        filled = _filled(network, found.cut, is_sum=found.is_sum)
        return floor._replace(
            share=Fraction(found.cut.weight, found.message_units),
            delay_s=tuple(delay * tick_s for delay, _ in filled),
            width_Bps=tuple(width * self.unit_Bps for _, width in filled),
        )
