"""Allreduces by forests whose sums and copies share the links at the same time.

A reduce-scatter and then an allgather wait for each other: what one half leaves idle is lost. Here
links are divided between the trees that sum up and those that copy out, so that parts of the data
are copied while later ones are still summed up. Hosts may be roots of unequal shares.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm
from typing import TYPE_CHECKING, final

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ocs_codesign.collective import Collective
from ocs_codesign.demand import demands_of
from ocs_codesign.networks.direct import as_network
from ocs_codesign.schedulers.forest.building import forests_of
from ocs_codesign.schedulers.forest.group_task import group_tasks
from ocs_codesign.schedulers.forest.mixing import mixed_spanning
from ocs_codesign.schedulers.forest.optimum import Optimum, at_one_rate, optimum
from ocs_codesign.schedulers.forest.pipeline import Pipeline
from ocs_codesign.schedulers.forest.shares import SharedLinks, Tenant, best_shares
from ocs_codesign.schedulers.forest.spanning import best_spanning
from ocs_codesign.verification.forests import check_forests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from ocs_codesign.forest import Forest
    from ocs_codesign.given import NetworkLike
    from ocs_codesign.network import Network
    from ocs_codesign.schedulers.forest.group_task import GroupTask
    from ocs_codesign.schedulers.forest.spanning import Tasks

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

    >>> from ocs_codesign.networks.switched import star
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

    >>> from ocs_codesign.networks.products import a100
    >>> partition_bound(a100(8))
    Fraction(800, 7)
    """
    if network.multicast.any() or network.aggregate.any() or network.num_hosts < 2:
        return None
    return min(parts.capacity / (2 * (parts.num_parts - 1)) for parts in parts_by_width(network))


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

    >>> from ocs_codesign.networks.boxes import boxes
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

    >>> from ocs_codesign.networks.direct import mesh
    >>> collective, found = allreduce_at_once(mesh((4, 4), 1))
    >>> collective, found.algbw
    (Collective('allreduce'), Fraction(8, 5))
    """
    tasks, hosts = _tasks(network, collective), network.num_hosts
    demand = demands_of(collective, hosts)[1]
    units = demand.message_units
    is_open = collective.sizes is None and collective.groups is None
    most = _with_any_roots(tasks)[0] / units if is_open else at_one_rate(tasks)[0]
    spanned, reached = best_spanning(tasks, hosts, at_one_rate, most)
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
    collective: Collective = Collective.ALLREDUCE,
    num_trees: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    height: int | None = None,
) -> tuple[dict[str, Pipeline], Fraction]:
    """An allreduce by the forests of its halves, and by forests that share the links if better.

    Then the t_b that nothing goes below: that of the halves in turn where a partition proves it;
    for at most MAX_LINKS links and any number of trees that of the best shares; else that of
    either half alone. Raises ValueError as ``optimum`` does.
    """
    network = as_network(network)
    found = [optimum(network, half) for half in collective.halves()]
    made = [forests_of(half, num_trees, on_progress, height) for half in found]
    inv_rate = sum((max(forest.inv_rate for forest in half) for half in made), Fraction(0))
    _check([forest for half in made for forest in half], inv_rate)
    pipelines = {FORESTS_OF_HALVES: Pipeline([*made[0], *made[1]], collective)}
    in_turn = _algbw_in_turn(found)
    if collective == Collective.ALLREDUCE and in_turn == partition_bound(network):
        return pipelines, network.host_bandwidth() / in_turn
    if num_trees is not None or network.num_links > MAX_LINKS:
        return pipelines, max(half.least_t_b for half in found)
    sized, joint = allreduce_at_once(network, collective)
    if joint.algbw > in_turn:
        shared = forests_of(joint, None, on_progress, height)
        _check(shared, max(forest.inv_rate for forest in shared))
        if not any(forest.is_sum and forest.passes_twice() for forest in shared):
            pipelines[SHARED_FORESTS] = Pipeline(shared, sized)
    return pipelines, joint.least_t_b


def _check(forests: Sequence[Forest], inv_rate: Fraction) -> None:
    witness = check_forests(forests, inv_rate)
    if witness is not None:
        raise RuntimeError(f"the forests are wrong: {witness}")
