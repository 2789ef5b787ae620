"""Forests built: the optimum, switches split off, trees packed, and their arcs routed again."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from math import gcd, lcm
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.core.compute.cuts import dissemination, first_short, scaled
from ocs_codesign.core.plans import Forest
from ocs_codesign.core.topology import before, places, starts_of
from ocs_codesign.schedules.forest.optimum import optimum
from ocs_codesign.schedules.forest.packing import exchanged_trees, few_trees, pack, tight_groups
from ocs_codesign.schedules.forest.splitting import (
    Split,
    near_ranks,
    split_off,
    without_common_divisor,
)
from ocs_codesign.schedules.forest.task import without_idle_switches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ocs_codesign.core.collective import Collective
    from ocs_codesign.core.demand import Demand
    from ocs_codesign.core.given import NetworkLike
    from ocs_codesign.core.network import Network
    from ocs_codesign.schedules.forest.optimum import Optimum
    from ocs_codesign.schedules.forest.packing import Trees
    from ocs_codesign.schedules.forest.task import GroupTask


# Trees that come back to a switch which copies or adds up branch there instead.
#
# What a tree leads through a switch besides the arcs that branch at others may come by twice in
# one step, and would wait for itself. The first time is enough where the switch is able: the tree
# goes on from there, and what led back to it is left out, so that no link carries more.


_Arc = tuple[int, int, tuple[int, ...]]
"""Tail, head and links of an arc of a tree."""


def shortened(forest: Forest) -> Forest:
    """The forest with trees that lead through no switch twice that is able; others stay as is."""
    trees = _coming_back(forest)
    if not len(trees):
        return forest
    rest = ~np.isin(forest.tree, trees)
    arcs: list[tuple[int, _Arc, int]] = []
    roots: list[int] = []
    times: list[int] = []
    for tree in trees.tolist():
        for units, whole in _whole_trees(forest, tree):
            number = len(roots)
            roots.append(int(forest.root[tree]))
            times.append(units)
            arcs += [(number, arc, units) for arc in _one_visit(forest, roots[-1], whole)]
    kept = np.setdiff1d(np.arange(len(forest.root)), trees)
    place = np.full(len(forest.root), -1)
    place[kept] = np.arange(len(kept))
    known = {
        links: number for number, links in enumerate(dict.fromkeys(arc[2] for _, arc, _ in arcs))
    }
    paths, hops = len(forest.path_start) - 1, [len(links) for links in known]

    def column(name: str, more: list[int]) -> NDArray[np.int64]:
        return np.append(getattr(forest, name)[rest], np.array(more, dtype=np.int64))

    return replace(
        forest,
        root=np.append(forest.root[kept], roots),
        multiplicity=np.append(forest.multiplicity[kept], times),
        tree=np.append(place[forest.tree[rest]], [len(kept) + number for number, _, _ in arcs]),
        tail=column("tail", [arc[0] for _, arc, _ in arcs]),
        head=column("head", [arc[1] for _, arc, _ in arcs]),
        path=column("path", [paths + known[arc[2]] for _, arc, _ in arcs]),
        units=column("units", [units for _, _, units in arcs]),
        path_start=np.append(
            forest.path_start, forest.path_start[-1] + starts_of(np.array(hops))[1:]
        ),
        link=np.append(forest.link, [link for links in known for link in links]),
    )


def _able(forest: Forest) -> NDArray[np.bool_]:
    network = forest.network
    return network.aggregate if forest.is_sum else network.multicast


def _heads(forest: Forest) -> NDArray[np.int32]:
    """Where every link of the network leads as the trees go: from the root on."""
    return forest.network.tail if forest.is_sum else forest.network.head


def _coming_back(forest: Forest) -> NDArray[np.int64]:
    """The trees that branch at switches and reach one that is able by more than one arc."""
    nodes = forest.network.num_nodes
    part, link = forest.hops()
    node = _heads(forest)[link].astype(np.int64)
    here = _able(forest)[node]
    arc = forest.tree[part] * nodes + forest.head[part]
    visits = np.unique(np.stack([arc[here], node[here]]), axis=1)
    place, often = np.unique(visits[0] // nodes * nodes + visits[1], return_counts=True)
    branching = np.unique(forest.tree[~forest.from_hosts()])
    return np.intersect1d(place[often > 1] // nodes, branching)


def _whole_trees(forest: Forest, tree: int) -> list[tuple[int, list[_Arc]]]:
    """A tree as trees of which every arc has one path, with how often each is taken."""
    parts = np.flatnonzero(forest.tree == tree)
    units = forest.units[parts]
    begin = before(forest.head[parts], units)
    bounds = np.unique(np.append(begin, forest.multiplicity[tree])).tolist()
    found = []
    for low, high in pairwise(bounds):
        mine = parts[(begin <= low) & (low < begin + units)]
        first, last = forest.path_start[forest.path[mine]], forest.path_start[forest.path[mine] + 1]
        columns = (forest.tail[mine].tolist(), forest.head[mine].tolist(), first, last)
        arcs = [
            (tail, head, tuple(forest.link[a:b].tolist()))
            for tail, head, a, b in zip(*columns, strict=True)
        ]
        found.append((high - low, arcs))
    return found


def _one_visit(forest: Forest, root: int, arcs: list[_Arc]) -> list[_Arc]:
    """The arcs of a tree, in which switches that are able are nodes, each entered once."""
    able, heads, hosts = _able(forest), _heads(forest), forest.network.num_hosts
    below: dict[int, list[_Arc]] = {}
    for arc in arcs:
        below.setdefault(arc[0], []).append(arc)
    into: dict[int, _Arc] = {}
    rest = [root]
    for node in rest:
        for _, head, links in below.get(node, []):
            rest.append(head)
            tail, begin = node, 0
            for at, link in enumerate(links, 1):
                reached = int(heads[link])
                if reached == head or able[reached]:
                    into.setdefault(reached, (tail, reached, links[begin:at]))
                    tail, begin = reached, at
    while True:
        goes_on = {tail for tail, _, _ in into.values()}
        idle = [node for node in into if node >= hosts and node not in goes_on]
        if not idle:
            return list(into.values())
        for node in idle:
            del into[node]


# Forests of the same group that share the links, taken for one.


def joined(forests: Sequence[Forest]) -> Forest:
    """The trees of all, each forest so often that its links bear it in the same time.

    Links of which every forest keeps to a part then bear all, and the rates add up.
    """
    first = forests[0]
    if len(forests) == 1:
        return first
    scale = Fraction(
        lcm(*(forest.scale.numerator for forest in forests)),
        gcd(*(forest.scale.denominator for forest in forests)),
    )
    num_trees = trees = paths = links = 0
    rows = []
    for forest in forests:
        times = int(scale / forest.scale)
        rows.append(
            (
                *(forest.root, forest.multiplicity * times),
                *(forest.tree + trees, forest.tail, forest.head),
                *(forest.path + paths, forest.units * times),
                *(forest.path_start[:-1] + links, forest.link),
            )
        )
        num_trees += forest.num_trees * times
        trees += len(forest.root)
        paths += len(forest.path_start) - 1
        links += len(forest.link)
    root, multiplicity, tree, tail, head, path, units, path_start, link = (
        np.concatenate(column) for column in zip(*rows, strict=True)
    )
    return replace(
        first,
        num_trees=num_trees,
        scale=scale,
        root=root,
        multiplicity=multiplicity,
        tree=tree,
        tail=tail,
        head=head,
        path=path,
        units=units,
        path_start=np.append(path_start, links),
        link=link,
    )


_FINE = 8
"""Trees that the narrowest arc bears at least where arcs are widened."""

_MOST_TRIED = 100
"""Numbers of trees below those of the optimum that are tried."""


def forests(
    network: NetworkLike,
    collective: Collective | Demand,
    num_trees: int | None = None,
    height: int | None = None,
) -> tuple[Forest, ...]:
    """The forest of every group that is as fast as the optimum, or as ``num_trees`` trees can be.

    Trees are as low as distances where that rate allows it, else a little taller; with ``height``
    they have at most so many arcs from root to leaf, and are slower where they must be, as far as
    was found: ``inv_rate`` of a forest against that of the optimum tells. Raises ValueError for
    what ``optimum`` and ``few_trees`` refuse, and where hosts are farther apart than ``height``.

    >>> from ocs_codesign.core.collective import Collective
    >>> from ocs_codesign.core.networks.servers import boxes
    >>> forest, = forests(boxes(4, 8, 300, 25, outer=2), Collective.ALLGATHER)
    >>> forest.inv_rate, forest.height
    (Fraction(3, 25), 2)
    """
    return forests_of(optimum(network, collective), num_trees, height)


def forests_of(
    found: Optimum,
    num_trees: int | None = None,
    height: int | None = None,
) -> tuple[Forest, ...]:
    """The forest of every group of a known optimum; see ``forests``."""
    made = []
    for at, task in enumerate(found.tasks):
        capacity, trees, scale = _capacities(found, at, num_trees)
        limits = (height, found.shares is None)
        made.append(_forest(found.network, task, capacity, trees, scale, *limits))
    groups = len(made) // found.num_kinds
    return tuple(joined(made[group::groups]) for group in range(groups))


def _capacities(
    found: Optimum, at: int, num_trees: int | None
) -> tuple[NDArray[np.int64], int, Fraction]:
    """Whole capacities of the network's links for trees of a task, their number, and the scale."""
    if num_trees is not None:
        few = few_trees(found, num_trees)
        return few.capacity, few.num_trees, few.scale
    fewest = _fewest(found)
    if fewest is not None:
        return fewest
    scale, trees = found.trees_of(at)
    exact = [part * scale for part in found.parts(at)]
    factor = lcm(*(value.denominator for value in exact))
    return np.array([int(value * factor) for value in exact]), trees * factor, scale * factor


def _fewest(found: Optimum) -> tuple[NDArray[np.int64], int, Fraction] | None:
    """The same with less than ``found.trees``, where links that nothing has to fill may lose some.

    None if there are not less, as far as was tried, or if links are shared.
    """
    if found.shares is not None:
        return None
    network, task = found.network, found.tasks[0]
    ends = task.ends(network)
    ranks = np.flatnonzero(task.problem.is_rank)
    weight = task.problem.weight
    for num_trees in range(1, min(found.trees[1], _MOST_TRIED) + 1):
        scale = found.inv_rate * num_trees
        whole = scaled(network.bandwidth, scale.numerator, scale.denominator).astype(np.int64)
        into = np.zeros(network.num_nodes, dtype=np.int64)
        np.add.at(into, ends[1], np.where(ends[0] != ends[1], whole, 0))
        if (into[ranks] < num_trees * (weight.sum() - weight[ranks])).any():
            continue
        live = whole > 0
        problem = dissemination(
            task.problem.is_rank, weight, ends[0][live], ends[1][live], whole[live]
        )
        if not replace(task, problem=problem, able=np.zeros_like(task.able)).is_balanced:
            continue
        if first_short(problem, ranks, 0, problem.capacity, num_trees * weight)[0] == len(ranks):
            return whole, num_trees, scale
    return None


def _forest(
    network: Network,
    task: GroupTask,
    capacity: NDArray[np.int64],
    num_trees: int,
    scale: Fraction,
    height: int | None,
    is_alone: bool,
) -> Forest:
    ends = task.ends(network)
    split = split_off(task.problem, *ends, capacity, num_trees)
    scale *= Fraction(split.num_trees, num_trees)
    smaller = without_common_divisor(split)
    scale *= Fraction(smaller.num_trees, split.num_trees)
    pairs = _Pairs(smaller, task)
    near = near_ranks(task.problem, *ends, capacity)[:, pairs.hosts]
    sets = np.unique(np.concatenate([near, tight_groups(*pairs.graph)]), axis=0)
    trees = exchanged_trees(*pairs.graph, sets, height)
    if trees is None and height is None:
        trees = pack(*pairs.graph)
    is_slower = trees is None
    if trees is None:
        pairs, trees, more = _widened(task, smaller, sets, height)
        scale *= more
    trees = without_idle_switches(trees, pairs.tail, pairs.hosts < network.num_hosts)
    forest = shortened(_routed(network, task, pairs, scale, trees))
    # Whoever has the links alone may use what is over; else all groups get slower alike.
    return _at_its_own_rate(forest) if is_slower and is_alone else forest


def _widened(
    task: GroupTask, split: Split, sets: NDArray[np.bool_], height: int | None
) -> tuple[_Pairs, Trees, Fraction]:
    """Arcs wider by as little as lets trees of so little height fit, these, and how much wider.

    The least is found by halving. That wider ones do is tried, not proven: less may be enough.
    """
    arcs = split.arcs
    finer = -(-_FINE // int(arcs.capacity[arcs.capacity > 0].min()))
    split = Split(arcs.with_capacity(arcs.capacity * finer), split.num_trees * finer)
    most = int(split.arcs.capacity.max())
    low, high, found = 0, 1, None
    while found is None or high - low > 1:
        more = high if found is None else (low + high) // 2
        capacity = scaled(split.arcs.capacity, most + more, most).astype(np.int64)
        pairs = _Pairs(Split(split.arcs.with_capacity(capacity), split.num_trees), task)
        trees = exchanged_trees(*pairs.graph, sets, height)
        if trees is not None:
            high, found = more, (pairs, trees, finer * Fraction(most + more, most))
        elif found is None:
            low, high = more, 2 * more
        else:
            low = more
    return found


def _at_its_own_rate(forest: Forest) -> Forest:
    """The forest with the scale that its loads need."""
    part, link = forest.hops()
    loads = np.zeros(forest.network.num_links, dtype=np.int64)
    np.add.at(loads, link, forest.units[part])
    pairs = np.unique(np.stack([loads, forest.network.bandwidth], axis=1), axis=0)
    return replace(forest, scale=max(Fraction(load, width) for load, width in pairs.tolist()))


class _Pairs:
    """Arcs of a split between the same two ranks taken together; ranks are numbered by ``hosts``.

    ``arc`` lists the arcs pair by pair, those of pair i are ``arc[start[i] : start[i + 1]]``.
    ``graph`` is what trees are packed into, and how many.
    """

    def __init__(self, split: Split, task: GroupTask) -> None:
        self.split, arcs = split, split.arcs
        self.hosts = hosts = np.flatnonzero(task.problem.is_rank)
        rank = np.full(task.problem.num_nodes, -1)
        rank[hosts] = np.arange(len(hosts))
        live = np.flatnonzero((arcs.capacity > 0) & (rank[arcs.tail] >= 0) & (rank[arcs.head] >= 0))
        key = rank[arcs.tail[live]] * len(hosts) + rank[arcs.head[live]]
        order = np.argsort(key, kind="stable")
        self.arc = live[order]
        keys, self.start = np.unique(key[order], return_index=True)
        self.start = np.append(self.start, len(live))
        self.tail, self.head = np.divmod(keys, len(hosts))
        self.capacity = np.add.reduceat(arcs.capacity[self.arc], self.start[:-1])
        wanted = split.num_trees * task.problem.weight[hosts]
        self.graph = (len(hosts), self.tail, self.head, self.capacity, wanted)


def _routed(
    network: Network, task: GroupTask, pairs: _Pairs, scale: Fraction, trees: Trees
) -> Forest:
    """The trees with the paths of their arcs: every pair's arcs are filled one after the other."""
    split, hosts = pairs.split, pairs.hosts
    tree, head = np.nonzero(trees.arc_into >= 0)
    pair = trees.arc_into[tree, head]
    times = trees.multiplicity[tree]
    # All capacities on one line, a pair after the other, so that one search finds the arcs of
    # every use: use number i takes from begin to end, arc number j has from low to high.
    begin = starts_of(pairs.capacity)[pair] + before(pair, times)
    end = begin + times
    bounds = starts_of(split.arcs.capacity[pairs.arc])
    low, high = bounds[:-1], bounds[1:]
    first = np.searchsorted(low, begin, side="right") - 1
    use, arc = places(first, np.searchsorted(low, end, side="left") - first)
    units = np.minimum(end[use], high[arc]) - np.maximum(begin[use], low[arc])
    used, path = np.unique(pairs.arc[arc], return_inverse=True)
    path_start, links = split.arcs.paths(used)
    return Forest(
        network,
        task.is_sum,
        task.problem.weight[: network.num_hosts],
        task.problem.is_rank[: network.num_hosts],
        split.num_trees,
        scale,
        hosts[trees.root],
        trees.multiplicity,
        tree[use],
        hosts[pairs.tail[pair[use]]],
        hosts[head[use]],
        path,
        units,
        path_start,
        links,
    )
