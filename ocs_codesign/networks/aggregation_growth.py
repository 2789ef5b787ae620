"""Trees that grow from a switch over switches and hosts, each host by the way with most left."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from ocs_codesign.networks.aggregation_tree import of_ways

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    from ocs_codesign.network import Network
    from ocs_codesign.networks.aggregation_tree import AggregationTree


def grown_ways(
    pairs: Mapping[tuple[int, int], int],
    price: Sequence[float],
    root: int,
    hosts: Collection[int],
    num_hosts: int,
    able: NDArray,  # type: ignore[type-arg]
) -> dict[int, tuple[int, ...]] | None:
    """The way of nodes from every host, and every switch that can add up, to what is above it.

    Hosts join one by one, the nearest to what is there already first, at the root, at a host or at
    a switch that is ``able`` to add up: over links ``pairs[tail, head]`` and back, each of its
    ``price``, of equals fewest. What is above is one of these, the last of the way.
    None if a host cannot be reached.

    >>> import numpy as np
    >>> pairs = {(0, 2): 0, (2, 0): 1, (0, 1): 2, (1, 0): 3}
    >>> grown_ways(pairs, [1, 1, 1, 1], 2, [0, 1], 2, np.array([0, 0, 1]))
    {0: (0, 2), 1: (1, 0)}
    """
    beside: dict[int, list[tuple[int, float]]] = {}
    for (tail, head), link in sorted(pairs.items()):
        both = price[link] + price[pairs[head, tail]]
        beside.setdefault(tail, []).append((head, both))
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
        for head, both in beside.get(node, ()):
            there = cost + both, hops + 1
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


def grown_tree(
    pairs: dict[tuple[int, int], int],
    root: int,
    ways: dict[int, tuple[int, ...]],
    network: Network,
    left: list[Fraction],
) -> AggregationTree:
    """The tree of these ways, without sums where a switch has one below it."""
    first, num_hosts = network.num_nodes, network.num_hosts
    below: dict[int, int] = {}
    for way in ways.values():
        below[way[-1]] = below.get(way[-1], 0) + 1
    adds = {node for node, number in below.items() if number > 1 or node < num_hosts} | {root}

    def way_of(node: int) -> tuple[int, ...]:
        way = ways[node]
        while way[-1] not in adds:
            way += ways[way[-1]][1:]
        return way

    def depth(node: int) -> int:
        links = 0
        while node != root:
            node, links = way_of(node)[-1], links + 1
        return links

    hosts = sorted(node for node in ways if node < num_hosts)
    named: dict[int, tuple[int, ...]] = {}
    for host in hosts:
        named[host] = (
            (host, first + host) if host in adds else _ending(way_of(host), first, network)
        )
    for node in sorted(adds - {root}, key=lambda node: (-depth(node), node)):
        name = first + node if node < num_hosts else node
        named[name] = name, *_ending(way_of(node), first, network)[1:]
    return of_ways(pairs, root, named, left, first)


def _ending(way: tuple[int, ...], first: int, network: Network) -> tuple[int, ...]:
    """A way whose last node is named as what adds up there."""
    return (*way[:-1], first + way[-1] if way[-1] < network.num_hosts else way[-1])
