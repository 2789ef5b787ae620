"""A job on the links of several configurations, of which one is held at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.collective import GATHERING, Collective
from ocs_codesign.core.network import Network
from ocs_codesign.core.networks.builders import direct
from ocs_codesign.core.quantities import exact_time
from ocs_codesign.core.topology import starts_of
from ocs_codesign.jobs.job_graph import COLLECTIVES, FIRST_COLLECTIVE, SEND
from ocs_codesign.jobs.on_links import (
    PlacedMessages,
    alone_ticks,
    in_ticks,
    on_clock,
    placed,
    steady_on_links,
)
from ocs_codesign.jobs.patterns import algorithm_pattern, message_pattern, plan_pattern
from ocs_codesign.jobs.reconfigured.clock import with_changes
from ocs_codesign.jobs.reconfigured.prices import (
    INSIDE,
    Reach,
    fastest_way,
    links_inside,
    topology_of,
)
from ocs_codesign.schedules.design import build, build_topology
from ocs_codesign.schedules.simulate.transfers import TimingRules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ocs_codesign.circuits.legs.options import FabricOption
    from ocs_codesign.core.cost import CostModel
    from ocs_codesign.jobs.issue import Steady
    from ocs_codesign.jobs.patterns import GroupPattern
    from ocs_codesign.jobs.prices import Machine
    from ocs_codesign.jobs.reconfigured.prices import ConfiguredJob


# Which transfers messages become on a configuration: those of the ways that the formula counts.


_DIRECT, _RING, _SCHEDULE = "direct", "ring", "schedule"


@final
@dataclass(frozen=True, slots=True)
class _WayPlans:
    """What sends on a configuration, rank r at node r; the schedules of its recipe for all ranks.

    Smaller groups go the fastest way of the formula: by BFB over the links between them, directly,
    or round a ring. An all-to-all is direct. What is not between neighbours takes a shortest path,
    where the formula divides it evenly among all of them. A broadcast and a reduction are chains.
    """

    option: FabricOption
    model: CostModel

    def name(
        self,
        kind: int,
        ranks: tuple[int, ...],
        size_bytes: int,
        label: str = "",  # noqa: ARG002  (the formula does not ask it either)
    ) -> tuple[str, ...]:
        """What the transfers of a message are of, in words."""
        if kind == SEND:
            return ("send",)
        collective = COLLECTIVES[kind - FIRST_COLLECTIVE]
        if collective == Collective.ALLTOALL.name:
            return collective, _DIRECT
        if collective not in {one.name for one in GATHERING}:
            return collective, _RING
        if len(ranks) == topology_of(self.option).num_nodes:
            return collective, _SCHEDULE
        way = fastest_way(self.option, Reach(ranks), collective, self.model, Fraction(size_bytes))
        if way is None:
            raise ValueError(f"{self.option.name} does not lead to all of the ranks {ranks[:20]}")
        return (collective, INSIDE, *map(str, ranks)) if way[0] == INSIDE else (collective, way[0])

    def pattern(
        self,
        name: tuple[str, ...],
        num_ranks: int,
        network: Network | None = None,  # noqa: ARG002  (no links of its own)
    ) -> GroupPattern:
        """The transfers of that name, for so many ranks."""
        if name[0] == "send":
            return message_pattern()
        collective, way, *ranks = name
        if way == _SCHEDULE:
            return plan_pattern(build(self.option.name, collective).schedule)
        if way == INSIDE:
            own = links_inside(topology_of(self.option), tuple(map(int, ranks)))
            return plan_pattern(build_topology(own, collective).schedule)
        return algorithm_pattern(way, collective, num_ranks)


@final
@dataclass(frozen=True, slots=True, eq=False)
class JobOnNetworks:
    """A job and its messages on the links of each configuration, over the same ranks.

    ``job`` has the ticks of the links, and prices messages at what they take alone there; ``least``
    at what their busiest link sends, which none is below. All links are in one network, those of
    configuration k before those of k + 1; shape ``first_shape[k] + i`` is shape i on k.
    """

    job: ConfiguredJob
    least: ConfiguredJob
    by_configuration: tuple[PlacedMessages, ...]
    together: PlacedMessages
    first_shape: NDArray[np.int64]

    def clock(
        self, job: ConfiguredJob, order: NDArray[np.int64], choice: NDArray[np.int64]
    ) -> Steady:
        """The steady state where messages are transfers that queue at the links."""
        chosen = replace(self.together, shape_of=self.shapes_of(job, order, choice))
        return steady_on_links(with_changes(job, order, choice), chosen)[0]

    def shapes_of(
        self, job: ConfiguredJob, order: NDArray[np.int64], choice: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The shape of every instance where ``order[i]`` finds configuration ``choice[i]``."""
        config = np.zeros(job.graph.num_instances, dtype=np.int64)
        config[order] = choice
        shape_of = np.full(len(config), -1, dtype=np.int64)
        for at, one in enumerate(self.by_configuration):
            mine = (config == at) & (one.shape_of >= 0)
            shape_of[mine] = one.shape_of[mine] + self.first_shape[at]
        return shape_of


def on_networks(
    job: ConfiguredJob, machine: Machine, latency_s: Fraction | float | None, *, cut_through: bool
) -> JobOnNetworks:
    """The messages of a job on the links of its configurations, rank r at node r.

    A link has an even share of what leaves a rank at the machine's only level, and its latency that
    of a step, unless ``latency_s`` is given, to the nearest tick. Messages go the ways that the
    formula counts. Raises ValueError for machines of several levels, whose inner ones have other
    links, and for classes of like ranks.
    """
    if len(machine.levels) > 1:
        raise ValueError(
            f"the machine has {len(machine.levels)} levels: over the links of configurations it "
            "has one, whose messages all go over circuits"
        )
    level = machine.levels[0]
    degree = max(topology_of(one).degree for one in job.options)
    rules = TimingRules(unit_Bps=level.model.node_bandwidth_Bps / degree, cut_through=cut_through)
    lasts_s = level.model.alpha_s if latency_s is None else exact_time(latency_s, "latency_s")
    networks = [_network(one, lasts_s) for one in job.options]
    tick_s = networks[0].tick_s
    graph = on_clock(job.graph, tick_s)
    each = tuple(
        placed(graph, network, rules, _WayPlans(option, level.model), job.serves[at])
        for at, (network, option) in enumerate(zip(networks, job.options, strict=True))
    )
    together, first_shape = side_by_side(each)
    latency, work, dead = (
        in_ticks(column, job.graph.tick_s, tick_s)
        for column in (job.latency, job.work, job.dead_ticks)
    )
    priced = replace(job, graph=graph, latency=latency, work=work, dead_ticks=dead)
    alone, busiest = [alone_ticks(one) for one in each], [one.busiest for one in each]
    return JobOnNetworks(
        _repriced(priced, each, alone),
        _repriced(priced, each, busiest),
        each,
        together,
        first_shape,
    )


def _network(option: FabricOption, latency_s: Fraction) -> Network:
    network = direct(topology_of(option), 1)
    return network.with_latency(round(latency_s / network.tick_s))


def _repriced(
    job: ConfiguredJob, each: Sequence[PlacedMessages], ticks: Sequence[NDArray[np.int64]]
) -> ConfiguredJob:
    """The job whose messages on links take so many ticks, by configuration and shape."""
    latency, work = job.latency.copy(), job.work.copy()
    instance = job.graph.instance
    for at, (one, lasts) in enumerate(zip(each, ticks, strict=True)):
        shape = np.append(one.shape_of, -1)[instance]
        mine = (shape >= 0) & job.graph.is_communication
        latency[at, mine], work[at, mine] = 0, lasts[shape[mine]]
    return replace(job, latency=latency, work=work)


def side_by_side(each: Sequence[PlacedMessages]) -> tuple[PlacedMessages, NDArray[np.int64]]:
    """Messages placed on several networks over the same hosts, as on one that has all the links.

    The shapes of every network follow each other: where each begins. No instance has a shape.
    """
    networks = [one.network for one in each]
    first = networks[0]
    network = Network(
        *(first.num_hosts, first.num_nodes),
        *(
            np.concatenate([getattr(one, name) for one in networks])
            for name in ("tail", "head", "bandwidth", "latency")
        ),
        tick_s=first.tick_s,
    )
    links = starts_of(np.array([one.num_links for one in networks]))
    shapes = starts_of(np.array([len(one.column) for one in each]))
    column = np.concatenate([one.column for one in each])
    owner = np.repeat(np.arange(len(each)), np.diff(shapes))
    rows, paths, ticks = (
        starts_of(np.array([len(one.columns[which]) - less for one in each]))
        for which, less in ((0, 0), (7, 1), (10, 0))
    )
    column[:, 0] = starts_of(column[:, 1])[:-1]
    for place, moved in ((2, rows), (3, paths), (4, ticks)):
        column[:, place] += moved[:-1][owner]
    return (
        PlacedMessages(
            *(network, each[0].rules, np.zeros(0, dtype=np.int64)),
            tuple(name for one in each for name in one.names),
            _numbered([one.group_of for one in each]),
            column,
            _joined(each, links),
            np.concatenate([one.busiest for one in each]),
            _chained([one.used_start for one in each]),
            _moved([one.used_link for one in each], links),
            *(
                np.concatenate([getattr(one, name) for one in each])
                for name in ("used", "used_hops")
            ),
        ),
        shapes,
    )


def _joined(
    each: Sequence[PlacedMessages], links: NDArray[np.int64]
) -> tuple[NDArray[np.int64], ...]:
    """The columns of the loop of events, one network after the other."""

    def all_of(which: int) -> list[NDArray[np.int64]]:
        return [one.columns[which] for one in each]

    plain = {which: np.concatenate(all_of(which)) for which in (0, 1, 2, 3, 4, 6)}
    classes = starts_of(np.array([one.columns[10].shape[1] for one in each]))
    tables = []
    for which in (10, 11):
        parts = all_of(which)
        table = np.zeros((sum(len(part) for part in parts), int(classes[-1])), dtype=np.int64)
        row = 0
        for at, part in enumerate(parts):
            table[row : row + len(part), classes[at] : classes[at + 1]] = part
            row += len(part)
        tables.append(table)
    return (
        *(plain[which] for which in range(5)),
        _chained(all_of(5)),
        plain[6],
        _chained(all_of(7)),
        _moved(all_of(8), links),
        _moved(all_of(9), classes),
        *tables,
    )


def _moved(parts: list[NDArray[np.int64]], by: NDArray[np.int64]) -> NDArray[np.int64]:
    """All parts, the numbers of each moved up."""
    return np.concatenate([part + up for part, up in zip(parts, by, strict=False)])


def _chained(starts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Where the runs of all parts begin, and where the last ends."""
    sizes = np.concatenate([np.diff(part) for part in starts])
    return starts_of(sizes).astype(np.int64)


def _numbered(groups: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Numbers of groups of ranks, those of each network apart."""
    up = starts_of(np.array([int(part.max(initial=-1)) + 1 for part in groups]))
    return _moved(groups, up)
