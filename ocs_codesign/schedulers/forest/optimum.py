"""The highest rate at which trees can serve a collective on a network, with its proof."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import gcd
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.cuts.dissemination import Cut, bottleneck
from ocs_codesign.demand import Demand, demands_of
from ocs_codesign.schedulers.forest.group_task import GroupTask, group_tasks
from ocs_codesign.schedulers.forest.shares import SharedLinks, Tenant, best_shares

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.collective import Collective
    from ocs_codesign.network import Network


@final
@dataclass(frozen=True, slots=True, eq=False)
class Optimum:
    """The least time of long messages, over all schedules in which switches forward what they get.

    A unit of demand takes ``inv_rate`` times what a unit of capacity takes for it, in as many
    pieces as one likes. ``tasks`` say what every group asks. Where they need ``shares`` of the
    links, these are the program's exact optimum, else ``cut`` is the narrowest one and attained.
    ``cut.inv_rate`` is never above ``inv_rate``; it is None for more than one group. Where
    ``is_attained`` is false, switches that copy or add up let out more than they let in, and the
    rate is one that nothing exceeds, but perhaps nothing reaches.
    """

    network: Network
    demand: Demand
    tasks: tuple[GroupTask, ...]
    inv_rate: Fraction
    cut: Cut | None
    shares: SharedLinks | None

    @property
    def rate(self) -> Fraction:
        """Units of capacity for every unit of demand."""
        return 1 / self.inv_rate

    @property
    def is_attained(self) -> bool:
        """Whether schedules come as close to the rate as one likes."""
        given = [task.problem.capacity for task in self.tasks]
        used = given if self.shares is None else self.shares.capacity
        return all(
            task.is_balanced(capacity, ~task.problem.is_rank)
            for task, capacity in zip(self.tasks, used, strict=True)
        )

    @property
    def algbw(self) -> Fraction:
        """M over the time it takes, in the network's unit of bandwidth."""
        return self.demand.message_units / self.inv_rate

    @property
    def t_b(self) -> Fraction:
        """The time in M/B, B being the largest bandwidth out of a host."""
        return self.network.host_bandwidth() / self.algbw

    @property
    def trees(self) -> tuple[Fraction, int]:
        """(U, k): U times capacities are integers in which k trees a unit of a root fit; least k.

        Of the shares where there are some, of the first group if there are more.
        """
        shares = self.shares
        given = self.tasks[0].problem.capacity.tolist()
        distinct = set(given if shares is None else shares.capacity[0])
        # U / inv_rate = k and U times every capacity must be whole.
        up, down = self.inv_rate.numerator, self.inv_rate.denominator
        divisor = Fraction(down)
        for value in distinct:
            divisor = _common_divisor(divisor, Fraction(value * up))
        scale = up / divisor
        return scale, int(scale / self.inv_rate)

    def leaving(self) -> NDArray[np.int64]:
        """Ids of the network links that leave the cut: only they can raise the rate, if any."""
        if self.cut is None:
            return np.zeros(0, dtype=np.int64)
        tail, head = self.tasks[0].ends(self.network)
        return np.flatnonzero(self.cut.side[tail] & ~self.cut.side[head])


def _common_divisor(one: Fraction, other: Fraction) -> Fraction:
    """The largest number of which both are whole multiples."""
    numerator = gcd(one.numerator * other.denominator, other.numerator * one.denominator)
    return Fraction(numerator, one.denominator * other.denominator)


def optimum(network: Network, collective: Collective | Demand) -> Optimum:
    """The highest rate of a collective that copies or adds up: allgather, broadcast, reduce, ...

    Shards may be unequal, groups run side by side at one rate, hosts outside of a group pass on
    what they get. An allreduce has no optimum of this kind: its two halves have, and
    ``allreduce_optimum``. Raises ValueError for it and for what moves, such as an all-to-all, and
    if a rank cannot be reached. Source: Edmonds (1973); Zhao et al., ForestColl (2024).

    >>> from ocs_codesign.collective import Collective
    >>> from ocs_codesign.networks.boxes import boxes
    >>> found = optimum(boxes(2, 8, 300, 25, outer=2), Collective.ALLGATHER)
    >>> found.inv_rate, found.trees, (found.cut.weight, found.cut.capacity), found.algbw
    (Fraction(3, 65), (Fraction(3, 5), 13), (15, 325), Fraction(1040, 3))
    """
    demand = collective
    if not isinstance(demand, Demand):
        demand, *second = demands_of(demand, network.num_hosts)
        if second:
            raise ValueError("an allreduce is two demands: ask for each, or for both together")
    tasks = tuple(group_tasks(network, demand))
    if not tasks:
        raise ValueError("nothing is to be sent: no host wants what another has")
    if len(tasks) == 1:
        cut = bottleneck(tasks[0].problem)
        if tasks[0].is_balanced(tasks[0].problem.capacity, tasks[0].must_balance):
            return Optimum(network, demand, tasks, cut.inv_rate, cut, None)
    else:
        cut = None
    tenants = [Tenant(task, *_at_one_rate(task)) for task in tasks]
    shares = best_shares(tenants)
    return Optimum(network, demand, tasks, 1 / shares.total_rate, cut, shares)


def _at_one_rate(task: GroupTask) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    weight = task.problem.weight
    return np.where(weight > 0, 0, -1), weight


def allreduce_optimum(network: Network) -> Fraction:
    """The most that an allreduce can do per time when hosts may be roots of unequal shares.

    Every host u is the root of x_u units, summed up along one forest and then copied along
    another, both at the same time for the next and the last pieces; the sum of x_u over the time,
    in the network's unit of bandwidth, is exact. A reduce-scatter and then an allgather is never
    better. Without switches on links both ways it is the graph's strength (Tutte, Nash-Williams).

    >>> from ocs_codesign.networks.switched import star
    >>> allreduce_optimum(star(4, [10, 10, 10, 1]))
    Fraction(1, 1)
    """
    from ocs_codesign.collective import Collective

    halves = demands_of(Collective.ALLREDUCE, network.num_hosts)
    tasks = [task for half in halves for task in group_tasks(network, half)]
    if not tasks:
        raise ValueError("an allreduce needs at least two hosts")
    rank = tasks[0].problem.is_rank
    rate = np.where(rank, np.cumsum(rank) - 1, -1)
    return best_shares([Tenant(task, rate, rank.astype(np.int64)) for task in tasks]).total_rate
