"""Forests built: the optimum, switches split off, trees packed, and their arcs routed again."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from math import gcd, lcm
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.core.compute.cuts import Dissemination, dissemination, scaled
from ocs_codesign.core.plans import Forest
from ocs_codesign.core.topology import before, places, starts_of
from ocs_codesign.schedules.forest.optimum import WholeLinks, optimum
from ocs_codesign.schedules.forest.packing import exchanged_trees, few_trees, pack, tight_groups
from ocs_codesign.schedules.forest.splitting import (
    near_ranks,
    short_set,
    split_off,
    surplus,
    valley_free_arcs,
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
    from ocs_codesign.schedules.forest.splitting import Arcs
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
        for units, whole in whole_trees(forest, tree):
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
    hops = np.array([len(links) for links in known])
    others = replace(
        forest,
        root=forest.root[kept],
        multiplicity=forest.multiplicity[kept],
        tree=place[forest.tree[rest]],
        **{name: getattr(forest, name)[rest] for name in ("tail", "head", "path", "units")},
    )
    again = replace(
        forest,
        root=np.array(roots),
        multiplicity=np.array(times),
        tree=np.array([number for number, _, _ in arcs]),
        tail=np.array([arc[0] for _, arc, _ in arcs]),
        head=np.array([arc[1] for _, arc, _ in arcs]),
        path=np.array([known[arc[2]] for _, arc, _ in arcs]),
        units=np.array([units for _, _, units in arcs]),
        path_start=starts_of(hops),
        link=np.array([link for links in known for link in links]),
    )
    return _stacked([others, again])


def _stacked(forests: Sequence[Forest]) -> Forest:
    """The first forest with the trees of all."""
    rows, trees, paths, links = [], 0, 0, 0
    for forest in forests:
        kept = (forest.root, forest.multiplicity, forest.tail, forest.head, forest.units)
        shifted = (forest.tree + trees, forest.path + paths, forest.path_start[:-1] + links)
        rows.append((*kept, forest.link, *shifted))
        trees += len(forest.root)
        paths += len(forest.path_start) - 1
        links += len(forest.link)
    root, multiplicity, tail, head, units, link, tree, path, path_start = (
        np.concatenate(column) for column in zip(*rows, strict=True)
    )
    return replace(
        forests[0],
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


def whole_trees(forest: Forest, tree: int) -> list[tuple[int, list[_Arc]]]:
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
    if len(forests) == 1:
        return forests[0]
    scale = Fraction(
        lcm(*(forest.scale.numerator for forest in forests)),
        gcd(*(forest.scale.denominator for forest in forests)),
    )
    wide = []
    for forest in forests:
        times = int(scale / forest.scale)
        multiplicity, units = forest.multiplicity * times, forest.units * times
        num_trees = forest.num_trees * times
        wide.append(replace(forest, num_trees=num_trees, multiplicity=multiplicity, units=units))
    all_trees = sum(forest.num_trees for forest in wide)
    return replace(_stacked(wide), num_trees=all_trees, scale=scale)


_FINE = 8
"""Trees that the narrowest arc bears at least where arcs are widened."""

_MOST_TRIED = 100
"""Numbers of trees below those of the optimum that are tried."""


def forests(
    network: NetworkLike,
    collective: Collective | Demand | str,
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
    found: Optimum, num_trees: int | None = None, height: int | None = None
) -> tuple[Forest, ...]:
    """The forest of every group of a known optimum; see ``forests``."""
    is_alone, made = found.shares is None, []
    for at, task in enumerate(found.tasks):
        whole = _fewest(found) if num_trees is None else few_trees(found, num_trees)
        whole = whole or found.whole(at)
        made.append(_forest(found.network, task, whole, height, is_alone=is_alone))
    groups = len(made) // found.num_kinds
    return tuple(joined(made[group::groups]) for group in range(groups))


def _fewest(found: Optimum) -> WholeLinks | None:
    """Less trees than ``found.trees``, where links that nothing has to fill may lose some.

    None if there are not less, as far as was tried, or if links are shared.
    """
    if found.shares is not None:
        return None
    network, task = found.network, found.tasks[0]
    tail, head = task.ends(network)
    is_rank, weight = task.problem.is_rank, task.problem.weight
    for num_trees in range(1, min(found.trees[1], _MOST_TRIED) + 1):
        scale = found.inv_rate * num_trees
        whole = scaled(network.bandwidth, scale.numerator, scale.denominator).astype(np.int64)
        into = np.zeros(network.num_nodes, dtype=np.int64)
        np.add.at(into, head, np.where(tail != head, whole, 0))
        if (into < num_trees * (weight.sum() - weight))[is_rank].any():
            continue
        live = whole > 0
        problem = dissemination(is_rank, weight, tail[live], head[live], whole[live])
        if surplus(problem, problem.capacity).any():
            continue
        if short_set(problem, problem.capacity, num_trees * weight) is None:
            return WholeLinks(num_trees, scale, whole)
    return None


def _forest(
    network: Network, task: GroupTask, whole: WholeLinks, height: int | None, *, is_alone: bool
) -> Forest:
    tail, head = task.ends(network)
    links = replace(task.problem, tail=tail, head=head, capacity=whole.capacity)
    is_host = np.arange(network.num_nodes) < network.num_hosts
    split = valley_free_arcs(links, whole.num_trees, is_host) or split_off(links, whole.num_trees)
    scale = whole.inv_rate * split.num_trees
    pairs = _Pairs(split, task)
    sets = np.concatenate([near_ranks(links)[:, pairs.hosts], tight_groups(pairs.graph)])
    sets = np.unique(sets, axis=0)
    trees = exchanged_trees(pairs.graph, sets, height)
    if trees is None and height is None:
        trees = pack(pairs.graph)
    is_slower = trees is None
    if trees is None:
        pairs, trees, more = _widened(task, split, sets, height)
        scale *= more
    trees = without_idle_switches(trees, pairs.graph.tail, pairs.hosts < network.num_hosts)
    forest = shortened(_routed(network, task, pairs, scale, trees))
    # Whoever has the links alone may use what is over; else all groups get slower alike.
    return _at_its_own_rate(forest) if is_slower and is_alone else forest


def _widened(
    task: GroupTask, split: Arcs, sets: NDArray[np.bool_], height: int | None
) -> tuple[_Pairs, Trees, Fraction]:
    """Arcs wider by as little as lets trees of so little height fit, these, and how much wider.

    The least is found by halving. That wider ones do is tried, not proven: less may be enough.
    """
    finer = -(-_FINE // int(split.capacity[split.capacity > 0].min()))
    split = split.times(finer)
    most = int(split.capacity.max())
    low, high, found = 0, 1, None
    while found is None or high - low > 1:
        more = high if found is None else (low + high) // 2
        capacity = scaled(split.capacity, most + more, most).astype(np.int64)
        pairs = _Pairs(replace(split, capacity=capacity), task)
        trees = exchanged_trees(pairs.graph, sets, height)
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
    """Arcs between the same two ranks taken together; ranks are numbered by ``hosts``.

    ``arc`` lists the arcs pair by pair. ``graph`` is what trees are packed into, and how many.
    """

    def __init__(self, arcs: Arcs, task: GroupTask) -> None:
        self.arcs = arcs
        self.hosts = hosts = np.flatnonzero(task.problem.is_rank)
        rank = np.full(task.problem.num_nodes, -1)
        rank[hosts] = np.arange(len(hosts))
        live = np.flatnonzero((arcs.capacity > 0) & (rank[arcs.tail] >= 0) & (rank[arcs.head] >= 0))
        key = rank[arcs.tail[live]] * len(hosts) + rank[arcs.head[live]]
        order = np.argsort(key, kind="stable")
        self.arc = live[order]
        keys, start = np.unique(key[order], return_index=True)
        capacity = np.add.reduceat(arcs.capacity[self.arc], start)
        wanted = arcs.num_trees * task.problem.weight[hosts]
        ends = np.divmod(keys, len(hosts))
        self.graph = Dissemination(np.ones(len(hosts), bool), wanted, *ends, capacity)


def _routed(
    network: Network, task: GroupTask, pairs: _Pairs, scale: Fraction, trees: Trees
) -> Forest:
    """The trees with the paths of their arcs: every pair's arcs are filled one after the other."""
    arcs, hosts, graph = pairs.arcs, pairs.hosts, pairs.graph
    tree, head = np.nonzero(trees.arc_into >= 0)
    pair = trees.arc_into[tree, head]
    times = trees.multiplicity[tree]
    # All capacities on one line, a pair after the other, so that one search finds the arcs of
    # every use: use number i takes from begin to end, arc number j has from low to high.
    begin = starts_of(graph.capacity)[pair] + before(pair, times)
    end = begin + times
    bounds = starts_of(arcs.capacity[pairs.arc])
    low, high = bounds[:-1], bounds[1:]
    first = np.searchsorted(low, begin, side="right") - 1
    use, arc = places(first, np.searchsorted(low, end, side="left") - first)
    units = np.minimum(end[use], high[arc]) - np.maximum(begin[use], low[arc])
    used, path = np.unique(pairs.arc[arc], return_inverse=True)
    path_start, links = arcs.paths(used)
    return Forest(
        network,
        task.is_sum,
        task.problem.weight[: network.num_hosts],
        task.problem.is_rank[: network.num_hosts],
        arcs.num_trees,
        scale,
        hosts[trees.root],
        trees.multiplicity,
        tree[use],
        hosts[graph.tail[pair[use]]],
        hosts[head[use]],
        path,
        units,
        path_start,
        links,
    )
