"""A job on circuits that can hold one of several configurations: what messages take on each."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.collective import Collective
from ocs_codesign.graphs.text import as_recipe
from ocs_codesign.reconfigure.hold.circuits import changed_circuits, dead_times
from ocs_codesign.reconfigure.hold.options import FabricOption, check_alike, recipe_option
from ocs_codesign.runs import starts_of
from ocs_codesign.workload.job_graph import COLLECTIVES, FIRST_COLLECTIVE, SEND, JobGraph
from ocs_codesign.workload.levels import ranks_of
from ocs_codesign.workload.prices import tick_of
from ocs_codesign.workload.reconfigured.group_prices import Reach, message_cost

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.reconfigure.change import ReconfigurationCost
    from ocs_codesign.workload.prices import Level, Machine

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
    graph: JobGraph,
    machine: Machine,
    recipes: Sequence[Recipe | str],
    change: ReconfigurationCost,
    on_progress: Callable[[int, int], None] | None = None,
) -> ConfiguredJob:
    """The job on circuits with these configurations, whose nodes are its ranks or their blocks.

    Messages that stay in a block of an inner level of the machine do not need circuits; what
    reaches further takes the model of the outermost level, and where a group has several ranks in
    each block it first works inside, at the next level. Messages without bytes take their own time
    on every configuration. Raises ValueError for configurations of unequal size, fewer than two of
    them, a number of nodes that is neither that of ranks nor of blocks, groups that are not known
    or lie unevenly in blocks, switches that add up, and messages that no configuration serves.

    >>> from ocs_codesign.cost import CostModel
    >>> from ocs_codesign.graphs.text import parse
    >>> from ocs_codesign.reconfigure.change import ReconfigurationCost
    >>> from ocs_codesign.workload.job_draft import JobDraft
    >>> from ocs_codesign.workload.prices import Level, Machine
    >>> draft = JobDraft(1, [8])
    >>> nodes = draft.collective("allreduce", (0,), 800, {}, num_ranks=8, between=(0, 7))
    >>> rings = [parse(f"DirectedCirculant(8, ({step},))") for step in (1, 3)]
    >>> machine = Machine((Level(8, CostModel(0, 1)),))
    >>> configured(draft.graph(), machine, rings, ReconfigurationCost(1)).work[:, 0].tolist()
    [1400000000000, 1400000000000]
    """
    distinct = tuple(
        dict.fromkeys(
            as_recipe(one, "a configuration of a job is named by its recipe") for one in recipes
        )
    )
    fabric = _Fabric(machine, distinct, int(graph.ranks.sum()))
    nodes, rows, number = _rows(graph)
    asked = [fabric.asked(graph, *row) for row in rows.tolist()]
    options = fabric.options([one for one in asked if one is not None], on_progress)
    parts = [None if one is None else [fabric.parts_s(at, one) for at in options] for one in asked]
    times = [time for each in parts if each for found in each if found for time in found]
    dead_s = dead_times(changed_circuits([_circuits(one) for one in options]), change)
    tick_s = tick_of(graph, [*times, *dead_s.ravel().tolist()])
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


def _circuits(option: FabricOption) -> Any:
    return option.topology


def _check_served(graph: JobGraph, node: int, served: list[bool]) -> None:
    if not any(served):
        raise ValueError(
            f"{graph.told(node)} cannot be sent: no configuration leads to all of its ranks"
        )


def _rows(
    graph: JobGraph,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
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

    def options(
        self, asked: list[_Asked], on_progress: Callable[[int, int], None] | None
    ) -> list[FabricOption]:
        """The configurations, measured for the collectives of all nodes; some are not joined."""
        whole = {one.collective for one in asked if len(one.reach.nodes) == self.num_nodes}
        wanted = set()
        if Collective.ALLTOALL.name in whole:
            wanted.add(Collective.ALLTOALL)
        if whole - {Collective.ALLTOALL.name}:
            wanted.add(Collective.ALLREDUCE)
        found = []
        for done, recipe in enumerate(self.recipes):
            if on_progress is not None:
                on_progress(done, len(self.recipes))
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
        latency, work = self.model.time_s(cost.steps, Fraction(0), 0), Fraction(0)
        work += self.model.time_s(0, cost.t_b, size)
        if asked.inside > 1:
            inner = self._inner()
            own = inner.cost(asked.collective, asked.inside)
            latency += inner.model.time_s(own.steps, Fraction(0), 0)
            work += inner.model.time_s(0, own.t_b, asked.size_bytes)
        return latency, work

    def _inner(self) -> Level:
        return self.machine.levels[-2]
