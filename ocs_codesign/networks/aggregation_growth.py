"""Trees that grow from a switch over switches and hosts, each host by the way with most left."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from fractions import Fraction

    from numpy.typing import NDArray


def grown_ways(
    pairs: Mapping[tuple[int, int], int],
    left: list[Fraction],
    root: int,
    hosts: Collection[int],
    num_hosts: int,
    able: NDArray,  # type: ignore[type-arg]
) -> dict[int, tuple[int, ...]] | None:
    """The way of nodes from every host, and every switch that can add up, to what is above it.

    Hosts join one by one, the nearest to what is there already first, at the root, at a host or at
    a switch that is ``able`` to add up: over links ``pairs[tail, head]`` that each cost 1 over what
    is ``left`` of them, of equals fewest. What is above is one of these, the last of the way.
    None if a host cannot be reached.

    >>> pairs = {(0, 2): 0, (2, 0): 1, (0, 1): 2, (1, 0): 3}
    >>> grown_ways(pairs, [1, 1, 1, 1], 2, [0, 1], 2, [False, False, True])
    {0: (0, 2), 1: (1, 0)}
    """
    beside: dict[int, list[tuple[int, float]]] = {}
    for (tail, head), link in sorted(pairs.items()):
        price = 1 / float(min(left[link], left[pairs[head, tail]]))
        beside.setdefault(tail, []).append((head, price))
    label, back = {root: (0.0, 0)}, dict[int, int]()
    heap = [(0.0, 0, root)]
    joined, missing = {root}, set(hosts)
    found: dict[int, tuple[int, ...]] = {}
    while heap and missing:
        cost, hops, node = heappop(heap)
        if label[node] != (cost, hops):
            continue
        if node in missing:
            missing.remove(node)
            for way in _ways(node, back, joined, able):
                found[way[0]] = way
                joined.add(way[0])
                label[way[0]] = 0.0, 0
                heappush(heap, (0.0, 0, way[0]))
            continue
        if node < num_hosts and node not in joined:
            continue
        for head, price in beside.get(node, ()):
            there = cost + price, hops + 1
            if head not in label or there < label[head]:
                label[head], back[head] = there, node
                heappush(heap, (*there, head))
    return None if missing else found


def _ways(
    host: int,
    back: Mapping[int, int],
    joined: Collection[int],
    able: NDArray,  # type: ignore[type-arg]
) -> list[tuple[int, ...]]:
    """The way of a host to what has joined, cut at switches that can add up."""
    ways, way = [], [host]
    while True:
        way.append(back[way[-1]])
        is_there = way[-1] in joined
        if is_there or able[way[-1]]:
            ways.append(tuple(way))
            way = way[-1:]
        if is_there:
            return ways
