"""What messages of a job take on a cluster, whose servers are joined in one of several ways.

A group that lies in servers and beyond them works in levels: an allreduce is a reduce-scatter
inside, an allreduce of what is left over each optical span, and an allgather inside; an all-to-all
goes inside first, then over the rails. Levels follow each other and do not overlap.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING, Protocol, final

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.cost import Cost, CostModel
from ocs_codesign.jobs.cluster_design.group_loads import (
    DIMENSIONS_OF,
    PIPELINE,
    group_costs,
    group_of,
    least_group_costs,
)
from ocs_codesign.jobs.job_graph import COLLECTIVES, FIRST_COLLECTIVE, SEND
from ocs_codesign.jobs.prices import direct_cost

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ocs_codesign.circuits.legs.options import FabricOption
    from ocs_codesign.core.topology import Topology
    from ocs_codesign.jobs.cluster_design.cluster import JobCluster
    from ocs_codesign.jobs.cluster_design.group_loads import GroupCosts, RankPlacement, Span
    from ocs_codesign.jobs.models.building import Parallel


Seconds = tuple[Fraction, Fraction]
"""What every part of a message takes, and what is divided among parts."""


Rates = dict[tuple[object, ...], tuple[float, float]]
"""Latencies and seconds a byte that were worked out once, by what they depend on."""


class Outside(Protocol):
    """What joins servers: seconds of a collective over a span, and of a message to a neighbour."""

    def rate_key(self, span: Span, *, sends: bool = False) -> tuple[object, ...] | None:
        """What rates of a span, or of messages along it, depend on; None if bytes change them."""
        ...

    def collective_s(self, span: Span, collective: str, size_bytes: Fraction) -> Seconds:
        """Seconds of a collective of M = ``size_bytes`` among the servers of a span."""
        ...

    def send_s(self, span: Span, size_bytes: int) -> Seconds:
        """Seconds of a message to the next server of a span, or to the one before."""
        ...


@final
@dataclass(frozen=True, slots=True)
class JobPrices:
    """What the messages of a division take when it lies so on a cluster that is joined so.

    ``rates`` of one cluster may be shared by all its prices.
    """

    cluster: JobCluster
    parallel: Parallel
    placement: RankPlacement
    outside: Outside
    rates: Rates = field(default_factory=dict, repr=False, compare=False)

    def parts_s(
        self, kind: int, num_ranks: int, size_bytes: int, first_rank: int, last_rank: int
    ) -> Seconds:
        """Seconds of a message between ranks as the job numbers them."""
        if kind == SEND:
            return self._send_s(size_bytes, first_rank, last_rank)
        name = COLLECTIVES[kind - FIRST_COLLECTIVE]
        if num_ranks == 1:
            return Fraction(0), Fraction(0)
        group = group_of(self.parallel, num_ranks, (last_rank - first_rank) // (num_ranks - 1))
        return self.group_s(name, group, size_bytes)

    def asked_s(self, collective: str, group: str, size_bytes: int) -> tuple[float, float]:
        """The latency and the transfer of a collective of a group, in floats for bounds.

        Where times are linear in bytes, as of no design and no protocols in particular, from rates.
        """
        spans = self._spans(group)
        keys = [self.outside.rate_key(span) for span in spans if span.outside > 1]
        if None in keys or self.cluster.machine is not None:
            return self._bounded(*self.group_s(collective, group, size_bytes))
        key = collective, prod(span.inside for span in spans), *keys
        rates = self.rates.get(key)
        if rates is None:
            latency, work = self.group_s(collective, group, 1)
            rates = self.rates[key] = float(latency), float(work)
        return rates[0], rates[1] * size_bytes

    def handed_s(self, stage: int, other: int, size_bytes: int) -> tuple[float, float]:
        """The latency and the transfer of a message between stages, in floats for bounds."""
        span, width = self.placement.span(PIPELINE), self.parallel.ranks_of_stage
        if self.cluster.machine is not None:
            return self._bounded(*self._send_s(size_bytes, stage * width, other * width))
        key = SEND, self._stays_inside(stage, other), self.outside.rate_key(span, sends=True)
        rates = self.rates.get(key)
        if rates is None:
            latency, work = self._send_s(1, stage * width, other * width)
            rates = self.rates[key] = float(latency), float(work)
        return rates[0], rates[1] * size_bytes

    def _bounded(self, latency: Fraction, work: Fraction) -> tuple[float, float]:
        """Parts for bounds: another protocol may have less to transfer, though not less in all."""
        machine = self.cluster.machine
        least = work * (1 if machine is None else machine.least_of_rates)
        return float(latency + work - least), float(least)

    def group_s(self, collective: str, group: str, size_bytes: int) -> Seconds:
        """Seconds of a collective of a group, level after level."""
        spans = self._spans(group)
        inside = prod(span.inside for span in spans)
        size = Fraction(size_bytes)
        latency, work = self._inside_s(collective, inside, size)
        size = size if collective == Collective.ALLTOALL.name else size / inside
        for span in spans:
            if span.outside > 1:
                more = self.outside.collective_s(span, collective, size)
                latency, work = latency + more[0], work + more[1]
                size = size if collective == Collective.ALLTOALL.name else size / span.outside
        return latency, work

    def _spans(self, group: str) -> list[Span]:
        """The spans of a group, the innermost first."""
        spans = [self.placement.span(name) for name in DIMENSIONS_OF[group]]
        return sorted(spans, key=lambda span: span.stride)

    def _inside_s(self, collective: str, inside: int, size_bytes: Fraction) -> Seconds:
        model = self.cluster.scale_up
        if inside == 1 or model is None:
            return Fraction(0), Fraction(0)
        return seconds_of(direct_cost(collective, inside), model, size_bytes)

    def _send_s(self, size_bytes: int, first_rank: int, last_rank: int) -> Seconds:
        width = self.parallel.ranks_of_stage
        inside = self.cluster.scale_up
        if inside and self._stays_inside(first_rank // width, last_rank // width):
            return seconds_of(Cost(1, Fraction(1)), inside, size_bytes)
        return self.outside.send_s(self.placement.span(PIPELINE), size_bytes)

    def _stays_inside(self, stage: int, other: int) -> bool:
        """Whether two stages share servers."""
        inside = self.placement.span(PIPELINE).inside
        return stage // inside == other // inside


def seconds_of(cost: Cost, model: CostModel, size_bytes: Fraction | int) -> Seconds:
    """The latency and the transfer of a cost."""
    return model.parts_s(cost.steps, cost.t_b, size_bytes)


@final
@dataclass(frozen=True, slots=True)
class OwnCircuits:
    """Every span has ports of its own, in circuits that no other span uses.

    ``designs`` are those of the spans with collectives; a span without one costs what no topology
    of its size and ports is below. Stages of a pipeline hang on a two-way ring. Where circuits
    change, spans without ports send on the other configuration, so here they take no time.
    """

    cluster: JobCluster
    ports: Mapping[str, int]
    designs: Mapping[str, FabricOption]

    def rate_key(self, span: Span, *, sends: bool = False) -> tuple[object, ...] | None:
        """The servers and the ports of the span, as long as no design sends."""
        if not sends and span.dimension in self.designs:
            return None
        return "own", span.outside, self.ports.get(span.dimension)

    def collective_s(self, span: Span, collective: str, size_bytes: Fraction) -> Seconds:
        """The time of the design, or the bound."""
        num_ports = self.ports.get(span.dimension)
        if num_ports is None:
            return Fraction(0), Fraction(0)
        model = self.cluster.ports_model(num_ports)
        option = self.designs.get(span.dimension)
        if option is None:
            return seconds_of(least_cost(collective, span.outside, num_ports), model, size_bytes)
        cost = option.fastest(Collective.parse(collective), model, size_bytes)[0]
        if cost is None:
            raise ValueError(f"{option.name} has no cost of {collective}")
        return seconds_of(cost, model, size_bytes)

    def send_s(self, span: Span, size_bytes: int) -> Seconds:
        """Half of the ports lead to the next stage, all of them if there are two."""
        num_ports = self.ports.get(span.dimension)
        if num_ports is None:
            return Fraction(0), Fraction(0)
        each = num_ports if span.outside == 2 else num_ports // 2
        return seconds_of(Cost(1, Fraction(1)), self.cluster.ports_model(each), size_bytes)


def least_cost(collective: str, num_nodes: int, degree: int) -> Cost:
    """What no topology of so many nodes of a degree is below.

    Bytes that must arrive, and for an all-to-all hops that no tree of the degree can save.

    >>> least_cost("alltoall", 6, 2)
    Cost(steps=2, t_b=Fraction(4, 3))
    """
    hops, reached, level, steps = 0, 1, 1, 0
    while reached < num_nodes:
        steps += 1
        level = min(level * degree, num_nodes - reached)
        hops += steps * level
        reached += level
    if collective == Collective.ALLTOALL.name:
        return Cost(steps, Fraction(hops, num_nodes))
    half = Cost(steps, Fraction(num_nodes - 1, num_nodes))
    return half + half if collective == Collective.ALLREDUCE.name else half


@final
@dataclass(frozen=True, slots=True)
class BestConceivable:
    """What no circuits are below: every span has all ports, in the best topology there could be."""

    cluster: JobCluster

    def rate_key(self, span: Span, *, sends: bool = False) -> tuple[object, ...]:
        """The servers of the span."""
        del sends
        return "conceivable", span.outside

    def collective_s(self, span: Span, collective: str, size_bytes: Fraction) -> Seconds:
        """The bound of all topologies, whose rails may each have circuits of their own."""
        cluster = self.cluster
        cost = least_cost(
            collective, span.outside, cluster.accelerators_a_server * cluster.num_ports
        )
        return seconds_of(cost, cluster.ports_model(cluster.num_ports), size_bytes)

    def send_s(self, span: Span, size_bytes: int) -> Seconds:
        """One step over all ports."""
        del span
        model = self.cluster.ports_model(self.cluster.num_ports)
        return seconds_of(Cost(1, Fraction(1)), model, size_bytes)


@final
@dataclass(frozen=True, slots=True)
class OneTopology:
    """One topology of all servers in use with all ports, whose links all groups share.

    A span of all servers takes the design's own schedules; others what their messages load the
    links with, all groups of the span at once. ``is_bound``: as if all links shared these evenly.
    """

    cluster: JobCluster
    option: FabricOption
    topology: Topology
    is_bound: bool = False

    def rate_key(self, span: Span, *, sends: bool = False) -> tuple[object, ...] | None:
        """How the span lies on the topology; which schedule is best depends on bytes."""
        lies = "one", self.option.name, self.is_bound, span.outside, span.stride
        return lies if sends else None

    def collective_s(self, span: Span, collective: str, size_bytes: Fraction) -> Seconds:
        """The time of the design for all servers, of routed messages for fewer."""
        model = self.cluster.ports_model(self.topology.degree)
        kind = Collective.parse(collective)
        if span.outside == self.topology.num_nodes:
            cost = self.option.fastest(kind, model, size_bytes)[0]
            if cost is not None:
                return seconds_of(cost, model, size_bytes)
        costs = self._group_costs(span)
        if kind == Collective.ALLTOALL:
            return seconds_of(costs.exchange, model, size_bytes)
        half = min(costs.gathers, key=lambda one: one.time_s(model, size_bytes))
        whole = half + half if kind == Collective.ALLREDUCE else half
        return seconds_of(whole, model, size_bytes)

    def send_s(self, span: Span, size_bytes: int) -> Seconds:
        """All stages hand on at once."""
        costs = self._group_costs(span)
        return seconds_of(costs.hand_on, self.cluster.ports_model(self.topology.degree), size_bytes)

    def _group_costs(self, span: Span) -> GroupCosts:
        costs = least_group_costs if self.is_bound else group_costs
        return costs(self.topology, span.outside, span.stride)


@final
@dataclass(frozen=True, slots=True)
class PacketTree:
    """What no fat tree is below whose bandwidth is a share of that of the optical ports."""

    cluster: JobCluster
    share: Fraction

    def rate_key(self, span: Span, *, sends: bool = False) -> tuple[object, ...]:
        """The servers of the span."""
        del sends
        return "packets", span.outside

    def collective_s(self, span: Span, collective: str, size_bytes: Fraction) -> Seconds:
        """Every byte crosses the ports once."""
        return seconds_of(direct_cost(collective, span.outside), self._model(), size_bytes)

    def send_s(self, span: Span, size_bytes: int) -> Seconds:
        """One step over all ports."""
        del span
        return seconds_of(Cost(1, Fraction(1)), self._model(), size_bytes)

    def _model(self) -> CostModel:
        return self.cluster.ports_model(self.cluster.num_ports * self.share)


# Servers joined by a design that has the ports of all their accelerators, other ones on each
# rail.
#
# Rails that are alike give a server as many neighbours as an accelerator has ports. Where rails
# have other circuits each, a server has as many as all its accelerators have together, and
# messages go to the accelerator whose port leads on: they change rail inside servers, for a time
# that counts.


@final
@dataclass(frozen=True, slots=True)
class AcrossRails:
    """One span on a design of servers; without a design it costs what none is below.

    A byte that crosses a circuit is moved inside a server before it and after its last one, so that
    an accelerator sends at most twice as much inside as outside. Between these moves an exchange
    needs no first one if its group holds whole servers: it begins inside anyway.
    """

    cluster: JobCluster
    num_ports: int
    option: FabricOption | None = None

    def rate_key(self, span: Span, *, sends: bool = False) -> tuple[object, ...] | None:
        """The servers, the accelerators inside and the ports, as long as no design sends."""
        if self.option is not None and not sends:
            return None
        return "across", span.outside, span.inside, self.num_ports

    def collective_s(self, span: Span, collective: str, size_bytes: Fraction) -> Seconds:
        """The time of the design, or the bound, and of the moves inside."""
        option = self.option
        if option is None:
            model = server_model(self.cluster, self.num_ports)
            cost = least_cost(collective, span.outside, self.num_ports)
        else:
            model = option_model(self.cluster, option)
            found = option.fastest(Collective.parse(collective), model, size_bytes)[0]
            if found is None:
                raise ValueError(f"{option.name} has no cost of {collective}")
            cost = found
        inside = self.cluster.scale_up
        if inside is None:
            raise ValueError("servers of one accelerator have one rail")
        latency, work = seconds_of(cost, model, size_bytes)
        moved = seconds_of(self._moves(span, collective, cost), inside, size_bytes)
        return latency + moved[0], work + moved[1]

    def _moves(self, span: Span, collective: str, cost: Cost) -> Cost:
        if collective != Collective.ALLTOALL.name:
            return Cost(cost.steps + 1 + (collective == Collective.ALLREDUCE.name), 2 * cost.t_b)
        if span.inside == self.cluster.accelerators_a_server:
            return cost
        return Cost(cost.steps + 1, 2 * cost.t_b)

    def send_s(self, span: Span, size_bytes: int) -> Seconds:
        """Nothing: stages are inside servers."""
        del span, size_bytes
        return Fraction(0), Fraction(0)


def server_model(cluster: JobCluster, num_ports: int) -> CostModel:
    """What messages cost by what an accelerator sends, if its server has so many ports."""
    return cluster.ports_model(Fraction(num_ports, cluster.accelerators_a_server))


def option_model(cluster: JobCluster, option: FabricOption) -> CostModel:
    """The same of the ports that a design uses."""
    if option.recipe is None:
        raise ValueError(f"{option.name} has no recipe")
    return server_model(cluster, option.recipe.degree)
