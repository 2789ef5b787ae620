"""What a demand asks of a network: who sends how much to whom, and which nodes only pass it on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.compute.cuts import Dissemination, dissemination
from ocs_codesign.core.demand import MOVE, SUM
from ocs_codesign.core.network import who_relays
from ocs_codesign.schedules.forest.splitting import surplus

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

    from ocs_codesign.core.demand import Demand
    from ocs_codesign.core.network import Network
    from ocs_codesign.schedules.forest.packing import Trees


@final
@dataclass(frozen=True, slots=True, eq=False)
class GroupTask:
    """What the hosts of one group copy to each other, or add up from each other.

    ``problem`` is the dissemination; for a sum it is over reversed links, with its links in the
    same order, for the trees of a sum are those of a copy turned round. ``able`` (bool, nodes)
    tells the switches that copy (add up). The ranks of the problem are the hosts of the group, and
    switches that every tree spans.
    """

    problem: Dissemination
    able: NDArray[np.bool_]
    is_sum: bool

    @property
    def must_balance(self) -> NDArray[np.bool_]:
        """The nodes (bool) that let out as much as they let in: no ranks, and not able."""
        return ~self.problem.is_rank & ~self.able

    def spanning(self, switches: NDArray[np.bool_]) -> GroupTask:
        """The task whose trees span those of these nodes that are able; others only forward."""
        is_rank = self.problem.is_rank | (self.able & switches)
        return GroupTask(
            replace(self.problem, is_rank=is_rank), np.zeros_like(self.able), self.is_sum
        )

    def weighted(self, weight: NDArray[np.int64]) -> GroupTask:
        """The task whose nodes send so much."""
        return GroupTask(replace(self.problem, weight=weight), self.able, self.is_sum)

    @property
    def is_balanced(self) -> bool:
        """Whether as much leads into every node that must balance as out."""
        more = surplus(self.problem, self.problem.capacity)
        return not more[self.must_balance].any()

    def ends(self, network: Network) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Tail and head of every link of the network as the trees go: from the root on."""
        ends = (network.tail.astype(np.int64), network.head.astype(np.int64))
        return ends[::-1] if self.is_sum else ends


def group_tasks(network: Network, demand: Demand) -> list[GroupTask]:
    """A task for every set of hosts that copies or adds up.

    Raises ValueError for a demand that moves items, and for one with a root outside of its group.
    """
    if demand.num_hosts != network.num_hosts:
        raise ValueError(
            f"the demand is of {demand.num_hosts} hosts, the network has {network.num_hosts}"
        )
    if (demand.kind == MOVE).any():
        raise ValueError("trees copy or add up: this demand moves items, as an all-to-all does")
    item = demand.item_of_piece()
    kind, root = demand.kind[item], demand.root[item]
    weights: dict[tuple[bool, tuple[int, ...]], NDArray[np.int64]] = {}
    for group in np.unique(demand.group).tolist():
        members = demand.member[demand.group_start[group] : demand.group_start[group + 1]]
        hosts = tuple(np.unique(members).tolist())
        for is_sum in (False, True):
            mine = (demand.group == group) & ((kind == SUM) == is_sum)
            _check_roots(root[mine], hosts)
            weight = weights.setdefault((is_sum, hosts), np.zeros(network.num_nodes, np.int64))
            np.add.at(weight, root[mine], demand.weight[mine])
    return [
        _task(network, is_sum, list(hosts), weight)
        for (is_sum, hosts), weight in weights.items()
        if weight.any() and len(hosts) > 1
    ]


def relayed_tasks(
    network: Network, tasks: Sequence[GroupTask], relays: Collection[int]
) -> list[GroupTask]:
    """Tasks in which hosts that are no ``relays`` pass on nothing that is not their own.

    What relays have is one task, what every other host has one of its own, in which alone it sends:
    links out of those that do not lead back to where they begin. Links keep their order.
    """
    passes_on = np.ones(network.num_nodes, dtype=bool)
    passes_on[: network.num_hosts] = who_relays(network.num_hosts, relays)
    made = []
    for task in tasks:
        problem, roots = task.problem, np.flatnonzero(task.problem.weight)
        of_relays = passes_on[roots]
        for mine in (roots[of_relays], *roots[~of_relays, None]):
            if not len(mine):
                continue
            sends = passes_on.copy()
            sends[mine] = True
            head = np.where(sends[problem.tail], problem.head, problem.tail)
            weight = np.zeros_like(problem.weight)
            weight[mine] = problem.weight[mine]
            limited = replace(problem, head=head, weight=weight)
            made.append(GroupTask(limited, task.able, task.is_sum))
    return made


def _check_roots(roots: NDArray[np.int32], hosts: tuple[int, ...]) -> None:
    outside = roots[~np.isin(roots, hosts)]
    if len(outside):
        raise ValueError(f"host {outside[0]} is the root of what a group without it wants")


def _task(network: Network, is_sum: bool, hosts: list[int], weight: NDArray[np.int64]) -> GroupTask:
    is_rank = np.zeros(network.num_nodes, dtype=bool)
    is_rank[hosts] = True
    links = (network.tail, network.head, network.bandwidth)
    problem = dissemination(is_rank, weight, *links)
    able = network.aggregate if is_sum else network.multicast
    return GroupTask(problem.reversed() if is_sum else problem, able, is_sum)


# Switches that copy or add up, used: trees span them as they span ranks, with no root there.
#
# A tree enters such a switch once and leaves it as often as it likes. To reach a switch costs a
# tree an arc, so spanning one that trees need not may lower the rate: which to span is tried.


Tasks = tuple["GroupTask", ...]


def forwarding(tasks: Sequence[GroupTask]) -> Tasks:
    """Tasks in which no switch copies or adds up."""
    return tuple(task.spanning(np.zeros_like(task.able)) for task in tasks)


def comes_back(task: GroupTask, switches: NDArray[np.bool_]) -> bool:
    """Whether a tree that branches at these switches may lead to one that only forwards twice.

    That is where such a one is among switches that can reach each other through switches, and it
    joins more than two nodes: what comes back to it in the same step would wait for itself.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    problem, nodes = task.problem, task.problem.num_nodes
    spanned = task.able & switches
    dumb = ~problem.is_rank & ~task.able & (_neighbours(task) > 2)
    between = ~problem.is_rank[problem.tail] & ~problem.is_rank[problem.head]
    ends = (problem.tail[between], problem.head[between])
    graph = coo_array((np.ones(len(ends[0])), ends), shape=(nodes, nodes))
    label = connected_components(graph, connection="strong")[1]
    return bool(np.isin(label[dumb], label[spanned]).any())


def _neighbours(task: GroupTask) -> NDArray[np.int64]:
    """Number of nodes that every node has a link with."""
    ends = np.sort(np.stack([task.problem.tail, task.problem.head]), axis=0)
    pairs = np.unique(ends, axis=1)
    return np.bincount(pairs.ravel(), minlength=task.problem.num_nodes)


def switch_kinds(tasks: Sequence[GroupTask]) -> list[NDArray[np.bool_]]:
    """The switches (bool, nodes) at which trees could branch, by number and capacity of links."""
    useful = np.zeros_like(tasks[0].able)
    for task in tasks:
        problem, nodes = task.problem, task.problem.num_nodes
        neighbours = _neighbours(task)
        leaving = np.bincount(problem.tail, minlength=nodes)
        useful |= task.able & (leaving >= 2) & (neighbours >= 3)
    width = np.zeros((2, len(useful)), dtype=np.int64)
    np.add.at(width[0], problem.tail, problem.capacity)
    np.add.at(width[1], problem.head, problem.capacity)
    alike = np.stack([neighbours, *np.sort(width, axis=0)])
    of_kind = np.unique(alike[:, useful], axis=1)
    return [useful & (alike == kind[:, None]).all(axis=0) for kind in of_kind.T]


def without_idle_switches(
    trees: Trees, tail: NDArray[np.int64], is_host: NDArray[np.bool_]
) -> Trees:
    """Trees without the switches at which they end; arcs are those of a ``tail`` each."""
    arc_into = trees.arc_into.copy()
    while True:
        tree, node = np.nonzero(arc_into >= 0)
        goes_on = np.zeros(arc_into.shape, dtype=bool)
        goes_on[tree, tail[arc_into[tree, node]]] = True
        idle = ~is_host & ~goes_on & (arc_into >= 0)
        if not idle.any():
            return trees._replace(arc_into=arc_into)
        arc_into[idle] = -1
