"""Trees of one phase: how hosts that have pieces spread them over a set of links to their groups.

Of several ways the fastest that is known: straight to every host where that meets the hosts' own
links, else the forest of the optimum, else trees of fewest hops, for links one way as well.
"""

from __future__ import annotations

from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ocs_codesign.core.demand import COPY, Demand
from ocs_codesign.core.network import Network
from ocs_codesign.core.topology import starts_of
from ocs_codesign.schedules.forest.building import forests_of, whole_trees
from ocs_codesign.schedules.forest.optimum import optimum

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ocs_codesign.core.plans import Forest

    Arc = tuple[int, int, tuple[int, ...]]


class PhaseTrees(NamedTuple):
    """Trees of a phase: tree t is of ``source[t]`` and taken ``units[t]`` times, in this order.

    Every source has as many units as its weight times ``trees``. Arc a is of ``tree[a]``, sorted,
    from host ``tail[a]`` to ``head[a]`` over ``link[start[a] : start[a + 1]]``; all int64.
    """

    trees: int
    source: NDArray[np.int64]
    units: NDArray[np.int64]
    tree: NDArray[np.int64]
    tail: NDArray[np.int64]
    head: NDArray[np.int64]
    start: NDArray[np.int64]
    link: NDArray[np.int64]

    def loads(self, num_links: int) -> NDArray[np.int64]:
        """Units that every link carries."""
        each = np.repeat(self.units[self.tree], np.diff(self.start))
        found = np.zeros(num_links, dtype=np.int64)
        np.add.at(found, self.link, each)
        return found

    def placed(self, node: NDArray[np.int64], link: NDArray[np.int64]) -> PhaseTrees:
        """The same on nodes and links that are called otherwise."""
        ends = {name: node[getattr(self, name)] for name in ("source", "tail", "head")}
        return self._replace(**ends, link=link[self.link])


def spread(
    network: Network,
    group: NDArray[np.int64],
    weight: NDArray[np.int64],
    relays: NDArray[np.bool_] | None = None,
    *,
    one_way: bool,
) -> PhaseTrees:
    """Trees from every host with a weight to all of its ``group`` (-1: none) that it reaches.

    ``one_way``: hosts of a group may not reach each other. Of ``relays`` (bool, hosts) None are
    all; others pass on nothing that comes to them.

    >>> from ocs_codesign.core.networks.builders import star
    >>> found = spread(star(3, 2), np.zeros(3, np.int64), np.ones(3, np.int64), one_way=False)
    >>> found.trees, found.units.tolist(), found.loads(6).tolist()
    (1, [1, 1, 1], [2, 2, 2, 2, 2, 2])
    """
    through = np.ones(len(group), dtype=bool) if relays is None else relays
    if one_way:
        return _by_hops(network, group, weight, through)
    straight = _by_hops(network, group, weight, 0 * through)
    reached = np.bincount(straight.source[straight.tree], minlength=len(group))
    size = np.bincount(group[group >= 0])[group]
    is_whole = (reached == np.where((weight > 0) & (group >= 0), size - 1, 0)).all()
    if is_whole and _time(network, straight) <= _least(network, group, weight):
        return straight
    ways = [_of_optimum(network, group, weight, relays), straight if is_whole else None]
    ways.append(_by_hops(network, group, weight, through))
    return min((way for way in ways if way), key=lambda way: _time(network, way))


def _time(network: Network, found: PhaseTrees) -> Fraction:
    """Of the busiest link, of a unit of weight."""
    loads = np.unique([found.loads(network.num_links), network.bandwidth], axis=1).T.tolist()
    return max((Fraction(load, found.trees * width) for load, width in loads), default=Fraction(0))


def _least(network: Network, group: NDArray[np.int64], weight: NDArray[np.int64]) -> Fraction:
    """What hosts' own links take at least: all of the group goes in, what is its own goes out."""
    hosts = np.flatnonzero(group >= 0)
    of_group = np.bincount(group[hosts], weight[hosts]).astype(np.int64)[group[hosts]]
    needs = [(network.head, of_group - weight[hosts]), (network.tail, weight[hosts])]
    times = [Fraction(0)]
    for ends, need in needs:
        width = np.bincount(ends, network.bandwidth, network.num_nodes)[hosts].astype(np.int64)
        pairs = np.unique([need, width], axis=1)
        times += [Fraction(*pair) for pair in pairs.T.tolist() if pair[1]]
    return max(times)


def _by_hops(
    network: Network,
    group: NDArray[np.int64],
    weight: NDArray[np.int64],
    through: NDArray[np.bool_] | NDArray[np.int64],
) -> PhaseTrees:
    """A tree a source, of paths with fewest links: over those hosts of its group."""
    trees: list[tuple[int, int, list[Arc]]] = []
    out: list[list[tuple[int, int]]] = [[] for _ in range(network.num_nodes)]
    for link, ends in enumerate(zip(network.tail.tolist(), network.head.tolist(), strict=True)):
        out[ends[0]].append((ends[1], link))
    of, hosts, passes_on = group.tolist(), network.num_hosts, through.tolist()
    for source in np.flatnonzero((weight > 0) & (group >= 0)).tolist():
        way: dict[int, tuple[int, tuple[int, ...]]] = {source: (source, ())}
        arcs: list[Arc] = []
        for node in (queue := [source]):
            tail, links = way[node]
            for head, link in out[node]:
                if head in way or (head < hosts and of[head] != of[source]):
                    continue
                way[head] = (tail, (*links, link))
                if head >= hosts:
                    queue.append(head)
                    continue
                arcs.append((tail, head, way[head][1]))
                if passes_on[head]:
                    way[head] = (head, ())
                    queue.append(head)
        if arcs:
            trees.append((source, int(weight[source]), arcs))
    return _as_columns(1, trees)


def _of_optimum(
    network: Network,
    group: NDArray[np.int64],
    weight: NDArray[np.int64],
    relays: NDArray[np.bool_] | None,
) -> PhaseTrees | None:
    """The forest of the optimum, None where it leads over hosts of other groups, or is none."""
    roots = np.flatnonzero((weight > 0) & (group >= 0))
    members = np.argsort(group, kind="stable")[(group < 0).sum() :]
    sizes = np.bincount(group[group >= 0])
    once = np.ones(len(roots), dtype=np.int64)
    demand = Demand(
        *(len(group), COPY * once, roots, starts_of(once), weight[roots], group[roots]),
        *(starts_of(sizes), members, 1),
    )
    try:
        of_relays = None if relays is None else np.flatnonzero(relays).tolist()
        forests = forests_of(optimum(network, demand, of_relays))
    except ValueError:
        return None
    part_of = [forest.hops() for forest in forests]
    inside = [np.diff(part, prepend=-1) == 0 for part, _ in part_of]
    ways = zip(part_of, inside, strict=True)
    if any((network.tail[link[more]] < network.num_hosts).any() for (_, link), more in ways):
        return None
    trees = lcm(*(forest.num_trees for forest in forests))
    rows = [row for forest in forests for row in _rows(forest, trees // forest.num_trees)]
    return _as_columns(trees, sorted(rows, key=lambda row: row[0]))


def _rows(forest: Forest, times: int) -> Iterator[tuple[int, int, list[Arc]]]:
    for tree, root in enumerate(forest.root.tolist()):
        for units, arcs in whole_trees(forest, tree):
            yield root, times * units, arcs


def _as_columns(trees: int, rows: list[tuple[int, int, list[Arc]]]) -> PhaseTrees:
    """Trees and their arcs as columns, arcs from the root on."""
    sizes = np.array([len(arcs) for _, _, arcs in rows], dtype=np.int64)
    arcs = [arc for _, _, each in rows for arc in each]
    source, units = np.array([row[:2] for row in rows], dtype=np.int64).reshape(-1, 2).T
    tail, head = np.array([arc[:2] for arc in arcs], dtype=np.int64).reshape(-1, 2).T
    tree = np.repeat(np.arange(len(sizes)), sizes)
    start = starts_of(np.array([len(links) for _, _, links in arcs], dtype=np.int64))
    link = np.array([link for _, _, links in arcs for link in links], dtype=np.int64)
    return PhaseTrees(trees, source, units, tree, tail, head, start, link)
