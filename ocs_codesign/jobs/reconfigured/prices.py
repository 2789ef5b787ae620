"""A job on circuits that can hold one of several configurations: what messages take on each."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.circuits.legs.options import (
    FabricOption,
    changed_circuits,
    check_alike,
    dead_times,
    recipe_option,
)
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.cost import Cost
from ocs_codesign.core.progress import counted
from ocs_codesign.core.topology import Topology, starts_of
from ocs_codesign.graphs.text import as_recipe
from ocs_codesign.jobs.cluster_design.group_loads import (
    MAX_NODES_ROUTED,
    GroupCosts,
    group_costs,
    lone_group_costs,
    pairs_cost,
)
from ocs_codesign.jobs.job_graph import COLLECTIVES, FIRST_COLLECTIVE, SEND, JobGraph
from ocs_codesign.jobs.policies import ranks_of
from ocs_codesign.jobs.prices import tick_of
from ocs_codesign.schedules.design import measure_topology
from ocs_codesign.schedules.paths.throughput import throughput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ocs_codesign.circuits.change import Change
    from ocs_codesign.core.cost import CostModel
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.jobs.prices import Machine


# What the messages of a group cost on a topology that they share with other groups, or alone.


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


MAX_CONFIGURATIONS = 16


@final
@dataclass(frozen=True, slots=True, eq=False)
class ConfiguredJob:
    """A job whose messages between blocks of ranks go over circuits that hold one of ``options``.

    ``latency`` and ``work`` (int64, configurations times nodes) are the ticks of every node on each
    of them, in the ticks of ``graph``; ``over_circuits`` (bool, instances): those that need them;
    ``serves`` (bool, configurations times instances): whether it leads everywhere that they go.
    ``dead_ticks`` (int64, K times K) are those of a change from one to another.
    """

    graph: JobGraph
    options: tuple[FabricOption, ...]
    latency: NDArray[np.int64]
    work: NDArray[np.int64]
    over_circuits: NDArray[np.bool_]
    serves: NDArray[np.bool_]
    dead_ticks: NDArray[np.int64]

    @property
    def num_configurations(self) -> int:
        """K."""
        return len(self.options)

    def __repr__(self) -> str:
        return f"ConfiguredJob({self.graph!r}, {self.num_configurations} configurations)"

    def with_delay(self, dead_s: Fraction) -> ConfiguredJob:
        """The same where every change takes so long, to the nearest tick."""
        ticks = round(dead_s / self.graph.tick_s)
        dead = np.where(np.eye(self.num_configurations, dtype=bool), 0, ticks)
        return ConfiguredJob(
            *(self.graph, self.options, self.latency, self.work, self.over_circuits),
            *(self.serves, dead.astype(np.int64)),
        )


def configured(
    graph: JobGraph, machine: Machine, recipes: Sequence[Recipe | str], change: Change
) -> ConfiguredJob:
    """The job on circuits with these configurations, whose nodes are its ranks or their blocks.

    Messages that stay in a block of an inner level of the machine do not need circuits; what
    reaches further takes the model of the outermost level, and where a group has several ranks in
    each block it first works inside, at the next level. Messages without bytes take their own time
    on every configuration. Raises ValueError for configurations of unequal size, fewer than two of
    them, a number of nodes that is neither that of ranks nor of blocks, groups that are not known
    or lie unevenly in blocks, switches that add up, and messages that no configuration serves.
    """
    distinct = tuple(
        dict.fromkeys(
            as_recipe(one, "a configuration of a job is named by its recipe") for one in recipes
        )
    )
    fabric = _Fabric(machine, distinct, int(graph.ranks.sum()))
    nodes, rows, number = _rows(graph)
    asked = [fabric.asked(graph, *row) for row in rows.tolist()]
    options = fabric.options([one for one in asked if one is not None])
    parts = [None if one is None else [fabric.parts_s(at, one) for at in options] for one in asked]
    often = np.bincount(number, minlength=len(parts)).tolist()
    times = [
        (count, time)
        for count, each in zip(often, parts, strict=True)
        if each
        for found in each
        if found
        for time in found
    ]
    dead_s = dead_times(changed_circuits([topology_of(one) for one in options]), change)
    pauses = dead_s.ravel().tolist()  # at most one a message, and none longer than the longest
    changes = [(0, pause) for pause in pauses] + [(graph.num_instances, max(pauses))]
    tick_s = tick_of(graph, times + changes)
    finer = int(graph.tick_s / tick_s)
    shape = len(options), graph.num_nodes
    latency, work = (
        np.broadcast_to(column * finer, shape).copy() for column in (graph.latency, graph.work)
    )
    serves = np.ones((len(options), graph.num_instances), dtype=bool)
    over = np.zeros(graph.num_instances, dtype=bool)
    for row, each in enumerate(parts):
        mine = nodes[number == row]
        if each is None:
            continue
        over[graph.instance[mine]] = True
        _check_served(graph, int(mine[0]), [found is not None for found in each])
        for at, found in enumerate(each):
            if found is None:
                serves[at, graph.instance[mine]] = False
            elif graph.size_bytes[mine[0]]:
                latency[at, mine], work[at, mine] = (round(part / tick_s) for part in found)
    dead = np.array([[round(one / tick_s) for one in row] for row in dead_s.tolist()], np.int64)
    finest = graph.changed(latency=latency[0].copy(), work=work[0].copy(), tick_s=tick_s)
    return ConfiguredJob(finest, tuple(options), latency, work, over, serves, dead)


def _check_served(graph: JobGraph, node: int, served: list[bool]) -> None:
    if not any(served):
        raise ValueError(
            f"{graph.told(node)} cannot be sent: no configuration leads to all of its ranks"
        )


def _rows(graph: JobGraph) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Nodes that send, the different messages, and which of them each one is.

    Columns: a node of it, whether it has bytes, then what tells messages apart: kind, group, bytes,
    first and last rank, and of sends both owners.
    """
    talks = np.flatnonzero(graph.is_communication)
    head = np.full(graph.num_nodes, -1, dtype=np.int64)
    sends, receives = graph.pairs()
    head[sends] = graph.owner[receives]
    tail = np.where(graph.kind == SEND, graph.owner, -1)
    columns = graph.kind, graph.group, graph.size_bytes, graph.first_rank, graph.last_rank
    table = np.stack([*(column[talks].astype(np.int64) for column in columns)], axis=1)
    table = np.column_stack([table, tail[talks], head[talks]])
    different, number = np.unique(table, axis=0, return_inverse=True)
    number = number.reshape(-1)
    first = np.zeros(len(different), dtype=np.int64)
    first[number[::-1]] = talks[::-1]
    return talks, np.column_stack([first, different]), number


@final
@dataclass(frozen=True, slots=True)
class _Asked:
    """A message over circuits: between which nodes, how many of its ranks are in each, its M."""

    collective: str
    reach: Reach
    inside: int
    size_bytes: Fraction


@final
class _Fabric:
    """Circuits between the ranks, or the blocks of ranks, of a machine."""

    def __init__(self, machine: Machine, recipes: tuple[Recipe, ...], num_ranks: int) -> None:
        if not 2 <= len(recipes) <= MAX_CONFIGURATIONS:
            raise ValueError(
                f"{len(recipes)} different configurations: from 2 to {MAX_CONFIGURATIONS} are "
                "compared"
            )
        check_alike(recipes)
        if any(level.aggregation is not None for level in machine.levels[-1:]):
            raise ValueError("circuits have no switches that add up: leave out the aggregation")
        self.machine, self.recipes = machine, recipes
        self.num_nodes, self.num_ranks = recipes[0].num_nodes, num_ranks
        blocks = {1} | {level.num_ranks for level in machine.levels[-2:-1]}
        fitting = [each for each in blocks if each * self.num_nodes == num_ranks]
        if not fitting:
            known = " or ".join(
                str(num_ranks // each) for each in sorted(blocks) if num_ranks % each == 0
            )
            raise ValueError(
                f"{recipes[0]!r} has {self.num_nodes} nodes: circuits of this job of {num_ranks} "
                f"ranks join {known}"
            )
        self.block = fitting[0]
        self.model = machine.levels[-1].model

    def asked(
        self,
        graph: JobGraph,
        node: int,
        kind: int,
        group: int,
        size_bytes: int,
        first: int,
        last: int,
        tail: int,
        head: int,
    ) -> _Asked | None:
        """The message of a node, None if it needs no circuits."""
        outermost = len(self.machine.levels) - 1
        if outermost and self.machine.level_of(first, last) < outermost:
            return None
        size = Fraction(size_bytes)
        if kind == SEND:
            pairs = self._pairs(graph, first, last, tail, head)
            return _Asked("send", Reach(pairs=pairs), 1, size) if pairs else None
        ranks = ranks_of(graph, group, first, last)
        if ranks is None:
            raise ValueError(
                f"{graph.told(node)} is of several classes of like ranks: which of them form a "
                "group, and so which circuits it needs, is not known"
            )
        nodes, counts = np.unique(np.asarray(ranks) // self.block, return_counts=True)
        if len(nodes) == 1:
            return None
        if (counts != counts[0]).any():
            raise ValueError(
                f"{graph.told(node)} has {counts.min()} ranks in one block of {self.block} and "
                f"{counts.max()} in another: groups lie evenly in blocks"
            )
        name = COLLECTIVES[kind - FIRST_COLLECTIVE]
        return _Asked(name, Reach(tuple(nodes.tolist())), int(counts[0]), size)

    def _pairs(
        self, graph: JobGraph, first: int, last: int, tail: int, head: int
    ) -> tuple[tuple[int, int], ...]:
        """Both ends of a send, and of those that like ranks send at once, as nodes."""
        begin = starts_of(graph.ranks)
        many = int(graph.ranks[tail])
        if tail == head:
            found = {(first, last), (last, first)}
        elif many == int(graph.ranks[head]):
            found = {(int(begin[tail]) + one, int(begin[head]) + one) for one in range(many)}
        else:
            raise ValueError(
                f"{many} like ranks send to {int(graph.ranks[head])}: who to whom is not known"
            )
        nodes = {(one // self.block, other // self.block) for one, other in found}
        return tuple(sorted(pair for pair in nodes if pair[0] != pair[1]))

    def options(self, asked: list[_Asked]) -> list[FabricOption]:
        """The configurations, measured for the collectives of all nodes; some are not joined."""
        whole = {one.collective for one in asked if len(one.reach.nodes) == self.num_nodes}
        wanted = set()
        if Collective.ALLTOALL.name in whole:
            wanted.add(Collective.ALLTOALL)
        if whole - {Collective.ALLTOALL.name}:
            wanted.add(Collective.ALLREDUCE)
        found = []
        for recipe in counted(self.recipes):
            topology = recipe.topology()
            if wanted and int(topology.distances().min()) >= 0:
                found.append(recipe_option(recipe, wanted))
            else:
                found.append(FabricOption(repr(recipe), topology=topology, recipe=recipe))
        return found

    def parts_s(self, option: FabricOption, asked: _Asked) -> tuple[Fraction, Fraction] | None:
        """Seconds that every part of a message takes, and that are divided; None if not served."""
        is_exchange = asked.collective == Collective.ALLTOALL.name
        size = asked.size_bytes if is_exchange else asked.size_bytes / asked.inside
        cost = message_cost(option, asked.reach, asked.collective, self.model, size)
        if cost is None:
            return None
        latency, work = self.model.parts_s(cost.steps, cost.t_b, size)
        if asked.inside > 1:
            inner = self.machine.levels[-2]
            own = inner.cost(asked.collective, asked.inside)
            moved = inner.model.parts_s(own.steps, own.t_b, asked.size_bytes)
            latency, work = latency + moved[0], work + moved[1]
        return latency, work
