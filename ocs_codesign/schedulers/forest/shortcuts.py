"""Trees that come back to a switch which copies or adds up branch there instead.

What a tree leads through a switch besides the arcs that branch at others may come by twice in one
step, and would wait for itself. The first time is enough where the switch is able: the tree goes on
from there, and what led back to it is left out, so that no link carries more.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.runs import before, starts_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.forest import Forest

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
