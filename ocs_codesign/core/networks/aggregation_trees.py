"""Trees of switches that add up what hosts send, and copy the sum back down."""

from __future__ import annotations

from fractions import Fraction
from heapq import heappop, heappush
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.core.network import Network
from ocs_codesign.core.networks.aggregation import MAX_NODES, AggregationTree, of_ways

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray


# Trees that grow from a switch over switches and hosts, each host by the way with most left.


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


MAX_TREES = 64


def aggregating(network: Network) -> NDArray[np.bool_]:
    """Which nodes add up: those that the network says copy and add, or all switches if none."""
    if network.aggregate.any() or network.multicast.any():
        return network.aggregate & network.multicast
    return np.arange(network.num_nodes) >= network.num_hosts


def between_boxes(network: Network) -> NDArray[np.bool_]:
    """Which nodes add up between boxes: those that the network names, or else none inside a box."""
    able = aggregating(network)
    is_said = network.aggregate.any() or network.multicast.any()
    if is_said or network.dimension is None or not network.num_links:
        return able
    outer = network.dimension == network.dimension.max()
    joins = np.zeros(network.num_nodes, dtype=bool)
    joins[network.tail[outer]] = joins[network.head[outer]] = True
    return able & joins


def with_aggregation(network: Network) -> Network:
    """The network whose switches that add up also copy: all of them if it names none.

    >>> from ocs_codesign.core.networks.builders import star
    >>> with_aggregation(star(2, 10)).aggregate.tolist()
    [False, False, True]
    """
    return _declared(network, np.flatnonzero(aggregating(network)).tolist())


def only_forwarding(network: Network) -> Network:
    """The network whose switches neither copy nor add up."""
    return _declared(network, [])


def _declared(network: Network, able: list[int]) -> Network:
    return Network(
        *(network.num_hosts, network.num_nodes, network.tail, network.head),
        *(network.bandwidth, network.latency, network.dimension),
        multicast=able,
        aggregate=able,
        unit=network.unit,
        tick_s=network.tick_s,
        names=network.names,
        chunk_ticks=network.chunk_ticks,
    )


def aggregation_trees(
    network: Network, hosts: Collection[int] | None = None
) -> tuple[AggregationTree, ...]:
    """Trees over these hosts (all of them by default), each of what the ones before leave over.

    The first one is the lowest that there is, of equals that of most bandwidth; then of what its
    links have left the next, as long as there is one. Where switches alone do not join the hosts,
    some add up what others of their box send, and hand the sum to the network; switches inside of
    boxes, of links of the first dimensions, then forward unless the network says that they add up.
    Raises ValueError for fewer than two hosts, and where no switch that adds up joins them.
    """
    wanted = np.unique(np.arange(network.num_hosts) if hosts is None else np.array(list(hosts)))
    if len(wanted) < 2 or wanted[0] < 0 or wanted[-1] >= network.num_hosts:
        raise ValueError(
            f"{len(wanted)} hosts: what is added up comes from at least 2 of the network's "
            f"{network.num_hosts}"
        )
    left = [Fraction(width) for width in network.bandwidth.tolist()]
    ways = (_best_tree, aggregating(network)), (_best_grown_tree, between_boxes(network))
    for best, able in ways:
        found: list[AggregationTree] = []
        while len(found) < MAX_TREES:
            tree = best(network, wanted, able, left)
            if tree is None:
                break
            found.append(tree)
            for link, load in tree.link_loads().items():
                left[link] -= load * tree.bandwidth
        if found:
            return tuple(found)
    raise ValueError(f"no switch that adds up is joined to all of {len(wanted)} hosts")


def _best_tree(
    network: Network, hosts: NDArray[np.int64], able: NDArray[np.bool_], left: list[Fraction]
) -> AggregationTree | None:
    """The lowest tree over links with something left, the widest of these, the first of equals."""
    pairs = cables_with(network, left)
    best: tuple[tuple[int, Fraction], AggregationTree] | None = None
    for root in np.flatnonzero(able).tolist():
        depth, above = _above(network, pairs, root)
        if (depth[hosts] < 0).any() or (best and best[0][0] < int(depth[hosts].max())):
            continue
        tree = _tree(pairs, root, above, hosts, able, left)
        key = int(depth[hosts].max()), -tree.bandwidth
        if best is None or key < best[0]:
            best = key, tree
    return None if best is None else best[1]


def cables_with(network: Network, left: list[Fraction]) -> dict[tuple[int, int], int]:
    """The widest link with something left from every node to every other, where one leads back."""
    widest: dict[tuple[int, int], int] = {}
    ends = zip(network.tail.tolist(), network.head.tolist(), strict=True)
    for link, pair in enumerate(ends):
        if left[link] > 0 and (pair not in widest or left[link] > left[widest[pair]]):
            widest[pair] = link
    return {pair: link for pair, link in widest.items() if pair[::-1] in widest}


def _above(
    network: Network, pairs: dict[tuple[int, int], int], root: int
) -> tuple[NDArray[np.int64], dict[int, int]]:
    """Links from the root to every node, -1 for none, and the node above each on the way."""
    below: dict[int, list[int]] = {}
    for tail, head in sorted(pairs):
        below.setdefault(tail, []).append(head)
    depth = np.full(network.num_nodes, -1)
    depth[root] = 0
    above: dict[int, int] = {}
    front = [root]
    while front:
        reached = []
        for node in front:
            for head in below.get(node, ()) if network.is_switch(node) else ():
                if depth[head] < 0:
                    depth[head] = depth[node] + 1
                    above[head] = node
                    reached.append(head)
        front = reached
    return depth, above


def _tree(
    pairs: dict[tuple[int, int], int],
    root: int,
    above: dict[int, int],
    hosts: NDArray[np.int64],
    able: NDArray[np.bool_],
    left: list[Fraction],
) -> AggregationTree:
    """The ways of the hosts, cut at switches where several come together that can add up."""
    below: dict[int, set[int]] = {}
    for host in hosts.tolist():
        node = host
        while node != root and node not in below.get(above[node], ()):
            below.setdefault(above[node], set()).add(node)
            node = above[node]
    adds = {node for node, under in below.items() if able[node] and len(under) > 1} | {root}
    inner = sorted(adds - {root}, key=lambda node: (-_height(above, node, root), node))
    ways = {}
    for node in [*hosts.tolist(), *inner]:
        way = [node, above[node]]
        while way[-1] not in adds:
            way.append(above[way[-1]])
        ways[node] = tuple(way)
    return of_ways(pairs, root, ways, left, MAX_NODES)


def _best_grown_tree(
    network: Network, hosts: NDArray[np.int64], able: NDArray[np.bool_], left: list[Fraction]
) -> AggregationTree | None:
    """The lowest tree that may go through hosts, the widest of these, the first of equals."""
    pairs = cables_with(network, left)
    price = [1 / float(width) if width else 0.0 for width in left]
    best: tuple[tuple[int, Fraction], AggregationTree] | None = None
    for root in np.flatnonzero(able).tolist():
        ways = grown_ways(pairs, price, root, hosts.tolist(), network.num_hosts, able)
        if ways is None:
            continue
        tree = grown_tree(pairs, root, ways, network, left)
        key = tree.num_steps, -tree.bandwidth
        if best is None or key < best[0]:
            best = key, tree
    return None if best is None else best[1]


def _height(above: dict[int, int], node: int, root: int) -> int:
    depth = 0
    while node != root:
        node, depth = above[node], depth + 1
    return depth
