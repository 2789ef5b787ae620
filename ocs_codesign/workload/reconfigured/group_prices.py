"""What the messages of a group cost on a topology that they share with other groups, or alone."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.collective import Collective
from ocs_codesign.cost import Cost
from ocs_codesign.design import measure_topology
from ocs_codesign.schedulers.alltoall.throughput import throughput
from ocs_codesign.topology import Topology
from ocs_codesign.workload.codesign.group_loads import (
    MAX_NODES_ROUTED,
    GroupCosts,
    group_costs,
    lone_group_costs,
    pairs_cost,
)

if TYPE_CHECKING:
    from ocs_codesign.cost import CostModel
    from ocs_codesign.reconfigure.hold.options import FabricOption

INSIDE = "inside"
_GATHERS = "direct", "ring", "ring-outward"
"""The classic algorithms whose messages ``GroupCosts.gathers`` count, in that order."""
_ALLREDUCES = ("broadcast", "reduce")
"""Collectives of which an allreduce does all that they do, and costs no less."""


@final
@dataclass(frozen=True, slots=True)
class Reach:
    """Between which nodes of a fabric a message goes: those of a group, or of pairs at once.

    Evenly spaced groups that divide the nodes send at once with all those beside them, others
    alone: ``beside``. ``pairs`` are those of sends, from one node to the other.

    >>> Reach((0, 2)).groups(4), Reach((1, 2)).groups(4)
    (((0, 2), (1, 3)), ((1, 2),))
    """

    nodes: tuple[int, ...] = ()
    pairs: tuple[tuple[int, int], ...] = ()

    def spacing(self, num_nodes: int) -> int | None:
        """How far apart the nodes are if groups like this one divide all nodes, else None."""
        size, first = len(self.nodes), self.nodes[0]
        apart = self.nodes[1] - first if size > 1 else 1
        even = all(node == first + at * apart for at, node in enumerate(self.nodes))
        divides = num_nodes % (size * apart) == 0 and first // apart % size == 0
        return apart if even and divides else None

    def groups(self, num_nodes: int) -> tuple[tuple[int, ...], ...]:
        """This group and those that send beside it, the one of the lowest node first."""
        apart = self.spacing(num_nodes)
        if apart is None:
            return (self.nodes,)
        size = len(self.nodes)
        firsts = (node for node in range(num_nodes) if node // apart % size == 0)
        return tuple(tuple(first + at * apart for at in range(size)) for first in firsts)


def message_cost(
    option: FabricOption, reach: Reach, collective: str, model: CostModel, size_bytes: Fraction
) -> Cost | None:
    """The cost of a message on a configuration; None if circuits do not lead everywhere it goes.

    A group of all nodes takes the design's own schedules, or routing. A smaller one takes the
    fastest of ``group_ways``. A broadcast and a reduction cost what an allreduce does. Raises
    ValueError for groups and sends on more than 512 nodes, and links of different speeds.
    """
    topology = topology_of(option)
    if reach.pairs:
        return _sent(topology, reach.pairs)
    if len(reach.nodes) == topology.num_nodes:
        collective = Collective.ALLREDUCE.name if collective in _ALLREDUCES else collective
        return option.cost(Collective.parse(collective))
    way = fastest_way(option, reach, collective, model, size_bytes)
    return None if way is None else way[1]


def fastest_way(
    option: FabricOption, reach: Reach, collective: str, model: CostModel, size_bytes: Fraction
) -> tuple[str, Cost] | None:
    """The fastest of ``group_ways`` for a message and its cost; None if no way leads everywhere."""
    ways = group_ways(topology_of(option), reach, collective)
    return min(ways.items(), key=lambda way: way[1].time_s(model, size_bytes), default=None)


def group_ways(topology: Topology, reach: Reach, collective: str) -> dict[str, Cost]:
    """What a collective of some nodes costs by the way that it goes; none if not all are joined.

    INSIDE: over the links between nodes of the group, by BFB. Else over all shortest paths evenly,
    by the algorithm of that name. What groups beside this one send is counted.

    >>> from ocs_codesign.graphs.text import parse
    >>> square = parse("BiRing(2, 4)").topology()
    >>> group_ways(square, Reach((0, 1)), "allgather")["inside"]
    Cost(steps=1, t_b=Fraction(1, 1))
    """
    collective = Collective.ALLREDUCE.name if collective in _ALLREDUCES else collective
    costs = _costs_over_paths(topology, reach)
    if costs is None:
        return {}
    inside = _inside(topology, reach.groups(topology.num_nodes), collective)
    ways = {} if inside is None else {INSIDE: inside}
    if collective == Collective.ALLTOALL.name:
        return {**ways, "direct": costs.exchange}
    twice = collective == Collective.ALLREDUCE.name
    for name, half in zip(_GATHERS, costs.gathers, strict=True):
        ways[name] = half + half if twice else half
    return ways


def topology_of(option: FabricOption) -> Topology:
    """The circuits of a configuration; ValueError if they are not known."""
    if option.topology is None:
        raise ValueError(f"{option.name} has no topology: its circuits cannot be held")
    return option.topology


def _sent(topology: Topology, pairs: tuple[tuple[int, int], ...]) -> Cost | None:
    _check_size(topology)
    if (topology.distances()[tuple(np.array(pairs).T)] < 0).any():
        return None
    return pairs_cost(topology, pairs)


def _check_size(topology: Topology) -> None:
    if topology.num_nodes > MAX_NODES_ROUTED:
        raise ValueError(
            f"a configuration has {topology.num_nodes} nodes: messages of groups of some of them "
            f"are priced on at most {MAX_NODES_ROUTED}"
        )


def _costs_over_paths(topology: Topology, reach: Reach) -> GroupCosts | None:
    """Costs over shortest paths, None where a group is not joined."""
    _check_size(topology)
    distances = topology.distances()
    for group in reach.groups(topology.num_nodes):
        if (distances[np.ix_(group, group)] < 0).any():
            return None
    apart = reach.spacing(topology.num_nodes)
    if apart is None:
        return lone_group_costs(topology, reach.nodes)
    return group_costs(topology, len(reach.nodes), apart)


@lru_cache(maxsize=4096)
def _inside(
    topology: Topology, groups: tuple[tuple[int, ...], ...], collective: str
) -> Cost | None:
    """What the links inside groups do, the worst of the groups; None if they do not join one."""
    worst: Cost | None = None
    known: dict[Topology, Cost | None] = {}
    for group in groups:
        own = links_inside(topology, group)
        if own not in known:
            known[own] = _own_cost(own, collective, topology.degree)
        cost = known[own]
        if cost is None:
            return None
        # Groups run side by side, so both the steps and the bytes of the worst of them count.
        if worst is None:
            worst = cost
        worst = Cost(max(worst.steps, cost.steps), max(worst.t_b, cost.t_b))
    return worst


def links_inside(topology: Topology, group: tuple[int, ...]) -> Topology:
    """The nodes of a group, in its order, with the links between them."""
    place = np.full(topology.num_nodes, -1)
    place[list(group)] = np.arange(len(group))
    tail, head = place[topology.tail], place[topology.head]
    keep = (tail >= 0) & (head >= 0) & (tail != head)
    return Topology(len(group), tail[keep], head[keep])


def _own_cost(own: Topology, collective: str, degree: int) -> Cost | None:
    if len(own.tail) == 0 or int(own.distances().min()) < 0:
        return None
    share = Fraction(degree, own.degree)
    if collective == Collective.ALLTOALL.name:
        found = throughput(own)
        return Cost(own.diameter(), found.time * share)
    cost = measure_topology(own, collective).cost
    return Cost(cost.steps, cost.t_b * share)
