"""What a demand asks of a network: who sends how much to whom, and which nodes only pass it on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.cuts.dissemination import Dissemination, dissemination
from ocs_codesign.demand import MOVE, SUM

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.demand import Demand
    from ocs_codesign.network import Network


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
        surplus = np.zeros(self.problem.num_nodes, dtype=np.int64)
        np.add.at(surplus, self.problem.head, self.problem.capacity)
        np.subtract.at(surplus, self.problem.tail, self.problem.capacity)
        return not surplus[self.must_balance].any()

    def ends(self, network: Network) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Tail and head of every link of the network as the trees go: from the root on."""
        ends = (network.tail.astype(np.int64), network.head.astype(np.int64))
        return ends[::-1] if self.is_sum else ends


def group_tasks(network: Network, demand: Demand) -> list[GroupTask]:
    """A task for every set of hosts that copies or adds up.

    Raises ValueError for a demand that moves items, and for one with a root outside of its group.

    >>> from ocs_codesign.demand import demand_of
    >>> from ocs_codesign.collective import Collective
    >>> from ocs_codesign.networks.switched import star
    >>> groups = Collective("allgather", groups=[(0, 1), (3, 2)], sizes=(1, 2))
    >>> [task.problem.weight.tolist() for task in group_tasks(star(4, 10), demand_of(groups, 4))]
    [[1, 2, 0, 0, 0], [0, 0, 2, 1, 0]]
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
