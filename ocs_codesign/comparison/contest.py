"""Contest: what is compared, that is a collective on a network for messages of some sizes."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.collective import Collective
from ocs_codesign.comparison.floors import farthest_latency, most_algbw
from ocs_codesign.network import MAX_LATENCY
from ocs_codesign.networks.aggregation_trees import with_aggregation
from ocs_codesign.simulate.rules import TimingRules

if TYPE_CHECKING:
    from ocs_codesign.aggregation import AggregationProfile
    from ocs_codesign.network import Network
    from ocs_codesign.topology import Topology

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
