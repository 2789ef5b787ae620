"""Forests as schedules: data cut into parts that follow each other up and down the trees."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import gcd, isqrt, lcm
from typing import TYPE_CHECKING, final

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.cost import Cost, total
from ocs_codesign.core.demand import demands_of
from ocs_codesign.core.given import as_topology
from ocs_codesign.core.networks.builders import as_network
from ocs_codesign.core.quantities import exact
from ocs_codesign.core.schedule import Schedule
from ocs_codesign.core.topology import before
from ocs_codesign.schedules.forest.building import forests_of
from ocs_codesign.schedules.forest.optimum import Optimum, optimum
from ocs_codesign.schedules.forest.shares import (
    SharedLinks,
    Tenant,
    at_one_rate,
    best_shares,
    best_spanning,
    mixed_spanning,
)
from ocs_codesign.schedules.forest.task import group_tasks
from ocs_codesign.schedules.simulate.clocked import fewest_parts
from ocs_codesign.verification.forests import check_forests

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from ocs_codesign.core.cost import CostModel
    from ocs_codesign.core.demand import Demand
    from ocs_codesign.core.given import NetworkLike, TopologyLike
    from ocs_codesign.core.network import Network
    from ocs_codesign.core.plans import Forest
    from ocs_codesign.schedules.forest.task import GroupTask, Tasks


MAX_PARTS = 4096
MAX_CHUNKS = 2**31 - 1
"""Chunks that a schedule can count."""

MAX_SENDS = 2**21
"""Sends up to which parts are added."""


@final
class Pipeline:
    """The sends of one part of all data: part p makes them p steps later.

    Sums go up their trees, and then, in an allreduce, copies go down theirs, while the next parts
    are summed up. A path makes all its hops in one step where it leads through switches; a host of
    another group that it leads through passes on in the next step.
    """

    def __init__(self, forests: Sequence[Forest], collective: Collective) -> None:
        """The forests are those of the groups of a collective that copies, adds up, or both."""
        self.forests, self.collective = tuple(forests), collective
        self.network = forests[0].network
        self.trees_a_unit = lcm(*(forest.num_trees for forest in forests))
        sends = [self._sends(forest) for forest in forests]
        columns = (np.concatenate(column) for column in zip(*sends, strict=True))
        self.root, self.first, self.units, self.link, self.step, self.is_sum = columns
        # Sums were taken from the root on as well: time goes the other way, and then come copies.
        summing = int(self.step[self.is_sum].max(initial=-1)) + 1
        self.step = np.where(self.is_sum, summing - 1 - self.step, summing + self.step)
        self._totals: dict[int, Fraction] = {}

    def _sends(self, forest: Forest) -> tuple[NDArray[np.int64], ...]:
        """Root, first unit, units, link, step from 0 and whether it sums up, of every hop."""
        part, link = forest.hops()
        ends = (self.network.tail, self.network.head)
        tail = ends[forest.is_sum][link]
        starts = np.zeros(len(part), dtype=bool)
        starts[np.flatnonzero(np.diff(part, prepend=-1))] = True
        passed = np.cumsum(~starts & (tail < self.network.num_hosts))
        runs = np.diff(np.append(np.flatnonzero(starts), len(part)))
        relayed: NDArray[np.int64] = passed - np.repeat(passed[starts], runs)
        most = np.zeros(len(forest.tree), dtype=np.int64)
        # A switch at which a tree branches passes on in the step in which it gets.
        begins = forest.from_hosts().astype(np.int64)
        np.maximum.at(most, part, relayed + begins[part])
        step = forest.hops_before(most)[part] + relayed + begins[part] - 1
        arc = forest.tree * self.network.num_nodes + forest.head
        tree, factor = forest.tree[part], self.trees_a_unit // forest.num_trees
        first = before(forest.root, forest.multiplicity)[tree] + before(arc, forest.units)[part]
        is_sum = np.full(len(part), forest.is_sum)
        units = forest.units[part]
        return forest.root[tree], factor * first, factor * units, link, step, is_sum

    @cached_property
    def num_steps(self) -> int:
        """Steps of one part."""
        return int(self.step.max()) + 1

    @cached_property
    def _carried(self) -> tuple[NDArray[np.int64], NDArray[np.int64], list[int]]:
        """Units of one part that links have carried before every step and after the last.

        Shape (steps + 1, links), links sorted by bandwidth; then where a bandwidth begins, and all.
        """
        order = np.argsort(self.network.bandwidth, kind="stable")
        widths, begins = np.unique(self.network.bandwidth[order], return_index=True)
        column = np.empty_like(order)
        column[order] = np.arange(len(order))
        units = np.zeros((self.num_steps + 1, len(order)), dtype=np.int64)
        np.add.at(units, (self.step + 1, column[self.link]), self.units)
        return np.cumsum(units, axis=0), begins, widths.tolist()

    def _total(self, num_parts: int) -> Fraction:
        """Units over bandwidth of the busiest link of every step, summed up.

        From as many parts as one has steps, each more adds a step with every link in it.
        """
        steps, (until, begins, widths) = self.num_steps, self._carried
        known = self._totals.get(num_parts)
        if known is not None:
            return known
        if num_parts > steps:
            return self._total(steps) + (num_parts - steps) * self._total(0)
        step = np.arange(1, steps + num_parts)
        sent = until[np.minimum(step, steps)] - until[np.maximum(step - num_parts, 0)]
        busiest = np.maximum.reduceat(sent if num_parts else until[-1:], begins, axis=1)
        each = (max(map(Fraction, row, widths)) for row in busiest.tolist())
        return self._totals.setdefault(num_parts, total(each))

    def cost(self, num_parts: int) -> Cost:
        """Steps and exact t_b in so many parts when every step waits for the one before."""
        units = self._message_units * num_parts
        t_b = self._total(num_parts) * self.network.host_bandwidth() / units
        return Cost(self.num_steps + num_parts - 1, t_b)

    @property
    def steady_state_t_b(self) -> Fraction:
        """What t_b comes near to in many parts: the time of the busiest link's bytes."""
        return self._total(0) * self.network.host_bandwidth() / self._message_units

    @cached_property
    def _message_units(self) -> int:
        return self._demand.message_units * self.trees_a_unit

    @cached_property
    def _demand(self) -> Demand:
        """What is demanded, of an allreduce either half: they have the same items."""
        return demands_of(self.collective, self.network.num_hosts)[0]

    def num_chunks(self, num_parts: int) -> int:
        """Chunks of the largest item of a schedule in so many parts."""
        largest = int(self._demand.item_weight().max())
        return largest * self.trees_a_unit * num_parts

    def chunk_bytes(self, message_bytes: Fraction | float, num_parts: int = 1) -> Fraction:
        """What a chunk of a message has in so many parts: no send is of less."""
        return exact(message_bytes, "message_bytes") / (self._message_units * num_parts)

    def most_parts(self, message_bytes: Fraction | float, min_chunk_bytes: Fraction | float) -> int:
        """Parts of a message whose chunks are not smaller and sends not too many; at least 1."""
        chunks = int(self.chunk_bytes(message_bytes) / exact(min_chunk_bytes, "min_chunk_bytes"))
        return max(1, min(chunks, MAX_SENDS // len(self.link), MAX_PARTS))

    def best_parts(self, model: CostModel, message_bytes: Fraction | float, max_parts: int) -> int:
        """The fewest of the numbers of parts up to ``max_parts`` with which a message takes least.

        From num_steps parts on the time is that of so many steps, of the fullest step as often, and
        of filling and draining, which is the same divided by the parts: its least is a square root.
        Below, ranges are halved as long as they may hold a better number.
        """
        if model.others:
            ways = {self.best_parts(each, message_bytes, max_parts) for each in model.protocols}
            return min(sorted(ways), key=lambda num: self.cost(num).time_s(model, message_bytes))
        steps, full = self.num_steps, self._total(0)
        unit_s = self.network.host_bandwidth() * self.chunk_bytes(message_bytes)
        unit_s /= model.node_bandwidth_Bps * model.share

        many = max_parts
        if model.alpha_s:
            fill = self._total(steps) - steps * full
            many = isqrt(int(fill * unit_s / model.alpha_s))
        few = min(steps, max_parts)
        known: dict[int, Fraction] = {}
        for parts in (1, few, max(few, min(many, max_parts)), max(few, min(many + 1, max_parts))):
            known[parts] = self.cost(parts).time_s(model, message_bytes)
        ranges = [(1, few)]
        while ranges:
            low, high = ranges.pop()
            if high - low < 2:
                continue
            # More parts send no less in all, and every part no less than the fullest link carries.
            sent = max(self._total(low) / (high - 1), full)
            if model.alpha_s * (steps + low) + sent * unit_s <= min(known.values()):
                middle = (low + high) // 2
                known[middle] = self.cost(middle).time_s(model, message_bytes)
                ranges += [(low, middle), (middle, high)]
        return min(sorted(known), key=lambda parts: known[parts])

    def parts_within(self, over: Fraction) -> int:
        """The fewest parts, a power of 2, with which t_b is at most ``over`` times that of many.

        That is by steps, and among switches by the clock as well, but for an allreduce: where its
        halves meet, finer parts gain little. Fewer where that takes more than MAX_SENDS.
        """
        t_b, most = over * self.steady_state_t_b, min(MAX_PARTS, MAX_CHUNKS // self.num_chunks(1))
        return fewest_parts(
            *(self.network, len(self.link), self.schedule, lambda num: self.cost(num).t_b <= t_b),
            *(None if self.collective.name == "allreduce" else float(t_b), MAX_SENDS, most),
        )

    def schedule(self, num_parts: int, topology: TopologyLike | None = None) -> Schedule:
        """The schedule in so many parts, on a topology that has the network's links or on its own.

        Raises ValueError if that makes more chunks than a schedule can have.
        """
        columns = (self.root, self.first, self.units, self.link, self.step, self.is_sum)
        root, first, units, link, step, is_sum = (np.tile(each, num_parts) for each in columns)
        parts = np.repeat(np.arange(num_parts), len(self.link))
        hosts = self.network.num_hosts
        item = np.full(hosts, -1)
        item[self._demand.root] = np.arange(self._demand.num_items)
        low = parts * self._demand.item_weight()[item[root]] * self.trees_a_unit + first
        return Schedule(
            self.network.topology() if topology is None else as_topology(topology),
            self.collective,
            self.num_chunks(num_parts),
            item[root],
            low,
            low + units,
            link,
            step + parts + 1,
            (~is_sum).astype(np.int32) if self.collective.name == "allreduce" else None,
            num_hosts=hosts,
        )


# Allreduces by forests whose sums and copies share the links at the same time.
#
# A reduce-scatter and then an allgather wait for each other: what one half leaves idle is lost.
# Here links are divided between the trees that sum up and those that copy out, so that parts of
# the data are copied while later ones are still summed up. Hosts may be roots of unequal shares.


FORESTS_OF_HALVES, SHARED_FORESTS = "forests of both halves", "forests that share the links"
"""What makes allreduces: forests that could each have all links, or that cannot."""

MAX_LINKS = 400
"""Links of a network up to which the program of both halves is solved without being asked for."""

_MAX_WIDTHS = 64
"""Different bandwidths, the largest, that are tried to divide a network by."""

_MAX_SIZE = 2**20
"""The largest of unequal shards: a schedule counts its chunks in 31 bits."""


def allreduce_optimum(network: NetworkLike) -> Fraction:
    """The most that an allreduce can do per time when hosts may be roots of unequal shares.

    Every host u is the root of x_u units, summed up along one forest and then copied along
    another, both at the same time for the next and the last pieces; the sum of x_u over the time,
    in the network's unit of bandwidth, is exact. A reduce-scatter and then an allgather is never
    better. Without switches on links both ways it is the graph's strength (Tutte, Nash-Williams).
    Where switches copy or add up it is a rate that nothing exceeds. Raises ValueError for fewer
    than two hosts, and if one cannot be reached.

    >>> from ocs_codesign.core.networks.builders import star
    >>> allreduce_optimum(star(4, [10, 10, 10, 1]))
    Fraction(1, 1)
    """
    network = as_network(network)
    tasks = _tasks(network, Collective.ALLREDUCE)
    halves = [optimum(network, half) for half in Collective.ALLREDUCE.halves()]
    in_turn = _algbw_in_turn(halves)
    return in_turn if in_turn == partition_bound(network) else _with_any_roots(tasks)[0]


def _algbw_in_turn(halves: Sequence[Optimum]) -> Fraction:
    return 1 / sum((1 / half.algbw for half in halves), Fraction(0))


def partition_bound(network: Network) -> Fraction | None:
    """A rate that no allreduce exceeds: what leads into parts of the network, shared by all.

    All but one part needs what is copied, and all but one gives away what is summed up, so of m
    parts all links into them, or out of them, carry 2 (m - 1) times the data (Tutte,
    Nash-Williams). Parts are hosts and switches that links faster than some join; of all such the
    least. None where switches copy or add up.
    """
    if network.multicast.any() or network.aggregate.any() or network.num_hosts < 2:
        return None
    return min(parts.capacity / (2 * (parts.num_parts - 1)) for parts in parts_by_width(network))


def allreduce_bound(network: Network, halves: Sequence[Optimum]) -> Fraction:
    """A rate that no allreduce exceeds, from the optima of its halves and from cuts.

    Whatever hosts are on a side of a cut, all of the sum depends on what they give, and they need
    all of it: M leaves them and M reaches them, also where switches copy or add up. The cuts are
    those around every host and those that bind a half; beside them ``partition_bound``.

    >>> from ocs_codesign.core.networks.builders import star
    >>> network = star(4, [10, 10, 10, 1])
    >>> allreduce_bound(network, [optimum(network, h) for h in Collective.ALLREDUCE.halves()])
    Fraction(1, 1)
    """
    hosts = network.num_hosts
    around = (network.tail, network.head)
    widths = [np.bincount(ends, network.bandwidth, network.num_nodes)[:hosts] for ends in around]
    rates = [Fraction(int(min(each.min() for each in widths)))]
    rates += [half.most_algbw for half in halves]
    rates += [Fraction(half.cut.capacity) for half in halves if half.cut is not None]
    shared = partition_bound(network)
    return min(rates if shared is None else [*rates, shared])


@final
@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """Parts of a network that hold hosts: ``is_part`` of a node's ``label`` says which are.

    ``capacity`` is the bandwidth out of them, or into them if that is less.
    """

    label: NDArray[np.int32]
    is_part: NDArray[np.bool_]
    capacity: Fraction

    @property
    def num_parts(self) -> int:
        """How many there are: at least 2."""
        return int(self.is_part.sum())


def parts_by_width(network: Network) -> Iterator[Parts]:
    """Hosts and switches that links faster than some join; with the widest width, hosts alone.

    >>> from ocs_codesign.core.networks.servers import boxes
    >>> network = boxes(2, 4, 100, 25, outer=2)
    >>> [(parts.num_parts, str(parts.capacity)) for parts in parts_by_width(network)]
    [(2, '200'), (8, '1000')]
    """
    for width in np.unique(network.bandwidth)[-_MAX_WIDTHS:].tolist():
        fast = network.bandwidth > width
        links = (np.ones(int(fast.sum())), (network.tail[fast], network.head[fast]))
        graph = coo_array(links, shape=(network.num_nodes, network.num_nodes))
        label = connected_components(graph, directed=False)[1]
        is_part = np.zeros(int(label.max()) + 1, dtype=bool)
        is_part[label[: network.num_hosts]] = True
        if is_part.sum() < 2:
            continue
        crosses = label[network.tail] != label[network.head]
        most = min(
            int(network.bandwidth[crosses & is_part[label[ends]]].sum())
            for ends in (network.tail, network.head)
        )
        yield Parts(label, is_part, Fraction(most))


def allreduce_at_once(
    network: Network, collective: Collective = Collective.ALLREDUCE
) -> tuple[Collective, Optimum]:
    """The best shares of the links for both halves of an allreduce at the same time.

    The collective that is returned is the given one, but for the sizes of its shards where it
    leaves them open and unequal ones do better; its largest is then as small as that allows. The
    optimum has the tasks of the sums first. Raises ValueError for what is no allreduce, and as
    ``optimum`` does.
    """
    tasks, hosts = _tasks(network, collective), network.num_hosts
    demand = demands_of(collective, hosts)[1]
    units = demand.message_units
    is_open = collective.sizes is None and collective.groups is None
    most = _with_any_roots(tasks)[0] / units if is_open else at_one_rate(tasks)[0]
    spanned, reached = best_spanning(tasks, hosts, most)
    made, (rate, shares) = mixed_spanning(tasks, spanned, reached, hosts, most)
    if rate < most and is_open:
        total, _ = _with_any_roots(spanned)
        sized = _sized(network, spanned, most * units) if total > rate * units else None
        if sized is not None:
            return sized
    return collective, Optimum(network, demand, made, 1 / rate, None, shares, 1 / most)


def _tasks(network: Network, collective: Collective) -> Tasks:
    if collective.name != "allreduce":
        raise ValueError(f"{collective.name} has no two halves: this is for an allreduce")
    halves = demands_of(collective, network.num_hosts)
    tasks = tuple(task for half in halves for task in group_tasks(network, half))
    if not tasks:
        raise ValueError("an allreduce needs at least two hosts")
    return tasks


def _any_roots(tasks: Sequence[GroupTask]) -> list[Tenant]:
    is_root = tasks[0].problem.weight > 0
    rate = np.where(is_root, np.cumsum(is_root) - 1, -1)
    return [Tenant(task, rate, is_root.astype(np.int64)) for task in tasks]


def _with_any_roots(tasks: Tasks) -> tuple[Fraction, SharedLinks]:
    shares = best_shares(_any_roots(tasks))
    return shares.total_rate, shares


def _sized(network: Network, tasks: Tasks, most: Fraction) -> tuple[Collective, Optimum] | None:
    """The allreduce of the shards that hosts are best the roots of, None if they are too uneven."""
    shares = best_shares(_any_roots(tasks), levelled=True)
    common = lcm(*(rate.denominator for rate in shares.rates))
    whole = [int(rate * common) for rate in shares.rates]
    sizes = [size // gcd(*whole) for size in whole]
    if max(sizes) > _MAX_SIZE:
        return None
    collective = Collective("allreduce", sizes=sizes)
    demand = demands_of(collective, network.num_hosts)[1]
    weight = np.zeros(network.num_nodes, dtype=np.int64)
    weight[: network.num_hosts] = sizes
    weighted = tuple(task.weighted(weight) for task in tasks)
    units, total = sum(sizes), shares.total_rate
    one_rate = SharedLinks((total / units,), shares.capacity)
    return collective, Optimum(
        network, demand, weighted, units / total, None, one_rate, units / most
    )


def allreduce_pipelines(
    network: NetworkLike,
    collective: Collective | str = Collective.ALLREDUCE,
    num_trees: int | None = None,
    height: int | None = None,
) -> tuple[dict[str, Pipeline], Fraction]:
    """An allreduce by the forests of its halves, and by forests that share the links if better.

    Then the t_b that nothing goes below: that of the halves in turn where a partition proves it;
    for at most MAX_LINKS links and any number of trees that of the best shares; else that of
    ``allreduce_bound``. Raises ValueError as ``optimum`` does.
    """
    network, collective = as_network(network), Collective.parse(collective)
    found = [optimum(network, half) for half in collective.halves()]
    made = [forests_of(half, num_trees, height) for half in found]
    inv_rate = sum((max(forest.inv_rate for forest in half) for half in made), Fraction(0))
    _check([forest for half in made for forest in half], inv_rate)
    pipelines = {FORESTS_OF_HALVES: Pipeline([*made[0], *made[1]], collective)}
    in_turn = _algbw_in_turn(found)
    if collective == Collective.ALLREDUCE and in_turn == partition_bound(network):
        return pipelines, network.host_bandwidth() / in_turn
    if num_trees is not None or network.num_links > MAX_LINKS:
        if collective.groups is not None:
            return pipelines, max(half.least_t_b for half in found)
        return pipelines, network.host_bandwidth() / allreduce_bound(network, found)
    sized, joint = allreduce_at_once(network, collective)
    if joint.algbw > in_turn:
        shared = forests_of(joint, None, height)
        _check(shared, max(forest.inv_rate for forest in shared))
        if not any(forest.is_sum and forest.passes_twice() for forest in shared):
            pipelines[SHARED_FORESTS] = Pipeline(shared, sized)
    return pipelines, joint.least_t_b


def _check(forests: Sequence[Forest], inv_rate: Fraction) -> None:
    witness = check_forests(forests, inv_rate)
    if witness is not None:
        raise RuntimeError(f"the forests are wrong: {witness}")
