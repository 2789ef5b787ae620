"""The highest rate at which trees can serve a collective on a network, with its proof."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.compute.cuts import Cut, bottleneck
from ocs_codesign.core.demand import Demand, demands_of
from ocs_codesign.core.network import MAX_BANDWIDTH
from ocs_codesign.core.networks.builders import as_network
from ocs_codesign.core.progress import tell
from ocs_codesign.core.shown import Brief
from ocs_codesign.schedules.forest.shares import (
    SharedLinks,
    at_one_rate,
    best_spanning,
    mixed_spanning,
    shared_at_one_rate,
)
from ocs_codesign.schedules.forest.splitting import short_set, slack
from ocs_codesign.schedules.forest.task import GroupTask, forwarding, group_tasks, relayed_tasks

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

    from ocs_codesign.core.collective import Collective
    from ocs_codesign.core.given import NetworkLike
    from ocs_codesign.core.network import Network


@final
@dataclass(frozen=True, slots=True, eq=False)
class WholeLinks:
    """``num_trees`` trees a unit fit into ``capacity``, at most ``scale`` times that of every link.

    ``capacity`` (int64, links of the network) are whole numbers; a tree takes one of them, so a
    unit of demand takes ``inv_rate`` = scale / num_trees.
    """

    num_trees: int
    scale: Fraction
    capacity: NDArray[np.int64]

    @property
    def inv_rate(self) -> Fraction:
        """Time of a unit of demand, where a unit of capacity carries one in a time of 1."""
        return self.scale / self.num_trees


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Optimum(Brief):
    """The least time of long messages, over all schedules in which switches forward what they get.

    A unit of demand takes ``inv_rate`` times what a unit of capacity takes for it, in as many
    pieces as one likes. ``tasks`` say what every group asks, and which switches that copy or add up
    its trees span. Where they need ``shares`` of the links, these are the program's exact optimum,
    else the trees attain their narrowest cut. Of several rates that shares have each is that of a
    kind of trees, which spans other switches: there are the tasks of one kind after the other.
    ``cut`` is the narrowest around hosts, None for more than one group. No schedule takes less than
    ``least_inv_rate``; that is less than ``inv_rate`` only where it is not known how switches that
    copy or add up could reach it.
    """

    network: Network
    demand: Demand
    tasks: tuple[GroupTask, ...]
    inv_rate: Fraction
    cut: Cut | None
    shares: SharedLinks | None
    least_inv_rate: Fraction

    @property
    def rate(self) -> Fraction:
        """Units of capacity for every unit of demand."""
        return 1 / self.inv_rate

    @property
    def is_attained(self) -> bool:
        """Whether schedules come as close as one likes to a rate that none exceeds."""
        return self.inv_rate == self.least_inv_rate

    @property
    def algbw(self) -> Fraction:
        """M over the time it takes, in the network's unit of bandwidth."""
        return self.demand.message_units / self.inv_rate

    @property
    def most_algbw(self) -> Fraction:
        """The algbw that no schedule exceeds."""
        return self.demand.message_units / self.least_inv_rate

    @property
    def t_b(self) -> Fraction:
        """The time in M/B, B being the largest bandwidth out of a host."""
        return self.network.host_bandwidth() / self.algbw

    @property
    def least_t_b(self) -> Fraction:
        """The t_b that no schedule goes below."""
        return self.network.host_bandwidth() / self.most_algbw

    @property
    def num_kinds(self) -> int:
        """Kinds of trees that have each a rate of their own."""
        return 1 if self.shares is None else len(self.shares.rates)

    @property
    def trees(self) -> tuple[Fraction, int]:
        """(U, k): U times capacities are integers in which k trees a unit of a root fit; least k.

        Of the shares where there are some, of the first group if there are more.
        """
        return self.trees_of(0)

    def trees_of(self, at: int) -> tuple[Fraction, int]:
        """The same of the kind of trees that a task is of, at its rate and of its first group."""
        shares, each = self.shares, len(self.tasks) // self.num_kinds
        kind = at // each
        given = self.tasks[0].problem.capacity.tolist()
        distinct = set(given if shares is None else shares.capacity[kind * each])
        rate = self.rate if shares is None else shares.rates[kind]
        # U * rate = k and U times every capacity must be whole.
        down, up = rate.numerator, rate.denominator
        divisor = Fraction(down)
        for value in distinct:
            divisor = _common_divisor(divisor, Fraction(value * up))
        scale = up / divisor
        return scale, int(scale * rate)

    def whole(self, at: int) -> WholeLinks:
        """The links in whole numbers for the trees of a task: its ``trees_of``, or more."""
        scale, trees = self.trees_of(at)
        exact = [part * scale for part in self.parts(at)]
        factor = lcm(*(value.denominator for value in exact))
        capacity = np.array([int(value * factor) for value in exact])
        return WholeLinks(trees * factor, scale * factor, capacity)

    def parts(self, at: int) -> list[Fraction]:
        """What the trees of a task have of the bandwidth of every link of the network."""
        task, bandwidth = self.tasks[at], self.network.bandwidth.tolist()
        problem = task.problem
        shares = problem.capacity.tolist() if self.shares is None else self.shares.capacity[at]
        # A link takes the part of its bandwidth that its pair of nodes has.
        columns = (problem.tail.tolist(), problem.head.tolist(), shares, problem.capacity.tolist())
        part = {
            (tail, head): Fraction(share) / most
            for tail, head, share, most in zip(*columns, strict=True)
        }
        pairs = zip(*(ends.tolist() for ends in task.ends(self.network)), strict=True)
        return [
            part.get(pair, Fraction(0)) * width
            for pair, width in zip(pairs, bandwidth, strict=True)
        ]

    @property
    def is_sum(self) -> bool:
        """Whether its trees add up, and what leads into its cut is leaving it."""
        return self.tasks[0].is_sum

    @property
    def bottleneck(self) -> Cut | None:
        """The cut if it proves the bound; switches out of balance may do less than any cut says."""
        proves = self.cut is not None and self.cut.inv_rate == self.least_inv_rate
        return self.cut if proves else None

    def leaving(self) -> NDArray[np.int64]:
        """Ids of the links that leave the bottleneck: only they can raise the rate, if any."""
        cut = self.bottleneck
        if cut is None:
            return np.zeros(0, dtype=np.int64)
        tail, head = self.tasks[0].ends(self.network)
        return np.flatnonzero(cut.side[tail] & ~cut.side[head])


def _common_divisor(one: Fraction, other: Fraction) -> Fraction:
    """The largest number of which both are whole multiples."""
    numerator = gcd(one.numerator * other.denominator, other.numerator * one.denominator)
    return Fraction(numerator, one.denominator * other.denominator)


MAX_WORK = 2**31
"""Hosts times links of all the networks that one question asks the optimum of."""


def check_work(network: Network, num_networks: int = 1) -> None:
    """ValueError for more hosts and links than optima are found of, so many times.

    >>> from ocs_codesign.core.networks.builders import star
    >>> check_work(star(1000, 1), 2000)
    Traceback (most recent call last):
    ValueError: 1,000 hosts times 2,000 links times 2,000 cases: at most 2,147,483,648 are solved
    """
    if network.num_hosts * network.num_links * num_networks > MAX_WORK:
        cases = f" times {num_networks:,} cases" if num_networks > 1 else ""
        raise ValueError(
            f"{network.num_hosts:,} hosts times {network.num_links:,} links{cases}: "
            f"at most {MAX_WORK:,} are solved"
        )


MAX_SHARES = 2**14
"""Tasks times links up to which tasks of hosts that do not relay share them."""


def optimum(
    network: NetworkLike,
    collective: Collective | Demand | str,
    relays: Collection[int] | None = None,
) -> Optimum:
    """The highest rate of a collective that copies or adds up: allgather, broadcast, reduce, ...

    Shards may be unequal, groups run side by side at one rate, hosts outside of a group pass on
    what they get. An allreduce is two demands: ``allreduce.allreduce_at_once`` takes both. With
    ``relays`` no other host passes on what is not its own, and switches only forward. Raises
    ValueError for it and for what moves, such as an all-to-all, if a rank cannot be reached, and
    for many hosts that do not relay.
    Source: Edmonds (1973); Zhao et al., ForestColl (2024).

    >>> from ocs_codesign.core.collective import Collective
    >>> from ocs_codesign.core.networks.servers import boxes
    >>> found = optimum(boxes(2, 8, 300, 25, outer=2), Collective.ALLGATHER)
    >>> found.inv_rate, found.trees, (found.cut.weight, found.cut.capacity), found.algbw
    (Fraction(3, 65), (Fraction(3, 5), 13), (15, 325), Fraction(1040, 3))
    """
    network, demand = as_network(network), collective
    check_work(network)
    if not isinstance(demand, Demand):
        demand, *second = demands_of(demand, network.num_hosts)
        if second:
            raise ValueError("an allreduce is two demands: ask for each, or for both at once")
    tasks = tuple(group_tasks(network, demand))
    if not tasks:
        raise ValueError("nothing is to be sent: no host wants what another has")
    if relays is not None:
        return _of_relays(network, demand, forwarding(tasks), relays)
    cut = _narrowest(tasks[0]) if len(tasks) == 1 else None
    plain = forwarding(tasks)
    if cut is not None and plain[0].is_balanced:
        return Optimum(network, demand, plain, cut.inv_rate, cut, None, cut.inv_rate)
    most, shares = at_one_rate(tasks)
    rate = most
    if any(task.able.any() for task in tasks):
        hosts = network.num_hosts
        spanned, reached = best_spanning(tasks, hosts, most)
        tasks, (rate, shares) = mixed_spanning(tasks, spanned, reached, hosts, most)
    return Optimum(network, demand, tasks, 1 / rate, cut, shares, 1 / most)


def _of_relays(
    network: Network, demand: Demand, tasks: Sequence[GroupTask], relays: Collection[int]
) -> Optimum:
    """The optimum where other hosts pass on nothing: tasks of their own, that share the links."""
    limited = tuple(relayed_tasks(network, tasks, relays))
    if len(limited) * network.num_links > MAX_SHARES:
        raise ValueError(
            f"{len(limited):,} tasks of hosts that do not relay times {network.num_links:,} links: "
            f"at most {MAX_SHARES:,} are solved"
        )
    shares = shared_at_one_rate(limited)
    inv_rate = 1 / shares.total_rate
    return Optimum(network, demand, limited, inv_rate, None, shares, inv_rate)


def _narrowest(task: GroupTask) -> Cut:
    try:
        return bottleneck(task.problem)
    except ValueError as error:
        if not task.is_sum:
            raise
        raise ValueError(f"{error}, when links are turned round for the sum") from None


# What a change of the network does to an optimum: upgrades that help, losses that hurt, slack.


@final
@dataclass(frozen=True, slots=True)
class RateLoss:
    """What is left of the rate, from 0 to 1, when ``what`` is lost: 0 if a host is cut off."""

    what: str
    rate_left: Fraction


def helpful_links(found: Optimum) -> list[int]:
    """Links of which one alone, were it wider, would raise the rate; they leave the cut.

    There is often none: where several cuts are as narrow, all have to be widened. Empty where
    there is no cut.
    """
    return [link for link in found.leaving().tolist() if _wider(found, link) < found.inv_rate]


def _wider(found: Optimum, link: int) -> Fraction:
    network = found.network
    bandwidth = network.bandwidth.copy()
    bandwidth[link] = min(MAX_BANDWIDTH, 2 * int(bandwidth.sum()))
    wider = network.changed(bandwidth)
    # Where another cut is as narrow, nothing else needs to be known: no shares are solved for.
    cut = _narrowest(group_tasks(wider, found.demand)[0])
    if cut.inv_rate == found.inv_rate:
        return cut.inv_rate
    return optimum(wider, found.demand).inv_rate


def losses(found: Optimum) -> list[RateLoss]:
    """What is left of the rate when one cable or one switch is lost, the worst first.

    A cable is all links between two nodes, both ways. Hosts stay: a demand is of all of them.
    """
    network = found.network
    check_work(network, network.num_links)
    ends = np.sort([network.tail, network.head], axis=0).T
    cables, cable_of = np.unique(ends, axis=0, return_inverse=True)
    switches = range(network.num_hosts, network.num_nodes)
    lost: list[tuple[str, dict[str, list[int]]]] = [
        (
            f"cable {network.name(one)} - {network.name(other)}",
            {"links": np.flatnonzero(cable_of.ravel() == at).tolist()},
        )
        for at, (one, other) in enumerate(cables.tolist())
    ]
    lost += [(f"switch {network.name(switch)}", {"nodes": [switch]}) for switch in switches]
    told = []
    for done, (what, gone) in enumerate(lost, 1):
        told.append(RateLoss(what, _rate_left(found, network.without(**gone))))
        tell(done, len(lost))
    return sorted(told, key=lambda loss: loss.rate_left)


def _rate_left(found: Optimum, network: Network) -> Fraction:
    try:
        return found.inv_rate / optimum(network, found.demand).inv_rate
    except ValueError:
        return Fraction(0)


def spare_bandwidth(found: Optimum, links: Collection[int]) -> list[Fraction]:
    """How much of the bandwidth of each of these links alone no cut needs at the optimal rate.

    Raises ValueError where links are shared by groups or by unbalanced switches.
    """
    if found.shares is not None:
        raise ValueError("what shared links can spare is not known")
    check_work(found.network, len(links))
    spare = []
    for done, link in enumerate(links, 1):
        spare.append(_spare(found, link))
        tell(done, len(links))
    return spare


def _spare(found: Optimum, link: int) -> Fraction:
    """By Newton's method: the link has what the cuts found so far need, until none is short."""
    network, task = found.network, found.tasks[0]
    problem = task.problem
    tail, head = (int(ends[link]) for ends in task.ends(network))
    width = int(network.bandwidth[link])
    if tail == head:
        return Fraction(width)
    arc = int(np.flatnonzero((problem.tail == tail) & (problem.head == head))[0])
    up, down = found.inv_rate.numerator, found.inv_rate.denominator
    # In parts of 1 / up of the bandwidth, in which all that has to pass is whole.
    capacity, own = problem.capacity.astype(object) * up, problem.weight.astype(object) * down
    full = int(capacity[arc])
    capacity[arc] = full - width * up
    while (short := short_set(problem, capacity, own)) is not None:
        capacity[arc] -= slack(problem, capacity, own, short)
    return Fraction(full - int(capacity[arc]), up)
