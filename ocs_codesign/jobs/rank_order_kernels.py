"""Which host every rank is on: loads of links by class, swaps, and all orders of few ranks."""

from __future__ import annotations

import numpy as np


def put(loads, rank, sign, node, flows, way):
    """Add (1) or take off (-1) all flows at a rank, those within the placed ranks alone.

    ``flows`` is (start, of, source, target, size, kind), the flows at a rank and what they are;
    ``way`` is (start, link, hosts), the links between two hosts by source * hosts + target.
    """
    start, of, source, target, size, kind = flows
    pair_start, pair_link, hosts = way
    for place in range(start[rank], start[rank + 1]):
        flow = of[place]
        one, other = node[source[flow]], node[target[flow]]
        if one < 0 or other < 0 or one == other:
            continue
        pair = one * hosts + other
        for at in range(pair_start[pair], pair_start[pair + 1]):
            loads[kind[flow], pair_link[at]] += sign * size[flow]


TIE = 1e-9
"""What all links take counts so much, beside what the busiest do: of equal orders the shorter."""


def total_time(loads, width):
    """The sum over classes of what their busiest link takes."""
    total, every = 0.0, 0.0
    for one in range(len(loads)):
        worst = 0.0
        for link in range(len(width)):
            here = loads[one, link] / width[link]
            worst = max(worst, here)
            every += here
        total += worst
    return total + TIE * every / len(width)


def swap_down(node, pairs, flows, way, width, loads):
    """Swap the hosts of pairs of ranks while that takes no longer; the time in the end."""
    best = total_time(loads, width)
    for at in range(len(pairs)):
        one, other = pairs[at]
        if one == other:
            continue
        move(loads, one, other, -1, node, flows, way)
        node[one], node[other] = node[other], node[one]
        move(loads, one, other, 1, node, flows, way)
        now = total_time(loads, width)
        if now <= best:
            best = now
            continue
        move(loads, one, other, -1, node, flows, way)
        node[one], node[other] = node[other], node[one]
        move(loads, one, other, 1, node, flows, way)
    return best


def move(loads, one, other, sign, node, flows, way):
    """Add or take off what two ranks send and get, flows between them once."""
    put(loads, one, sign, node, flows, way)
    start, of, source, target, size, kind = flows
    pair_start, pair_link, hosts = way
    for place in range(start[other], start[other + 1]):
        flow = of[place]
        if source[flow] == one or target[flow] == one:
            continue
        first, last = node[source[flow]], node[target[flow]]
        if first == last:
            continue
        pair = first * hosts + last
        for at in range(pair_start[pair], pair_start[pair + 1]):
            loads[kind[flow], pair_link[at]] += sign * size[flow]


def all_orders(order, twin, flows, way, width, num_classes, best, best_node, most):
    """The best of all orders, ranks placed one by one; twins of a free host are tried once.

    ``best`` is a time to beat, ``best_node`` gets what does. What is placed only adds to loads, so
    that no order whose part takes as long is followed. Returns the time, and whether all were seen
    within ``most`` placements.
    """
    ranks, hosts = len(order), len(twin)
    node = np.full(ranks, -1, dtype=np.int64)
    used = np.zeros(hosts, dtype=np.bool_)
    loads = np.zeros((ranks + 1, num_classes, len(width)))
    tried = np.zeros(ranks + 1, dtype=np.int64)
    depth, count = 0, 0
    while depth >= 0:
        if depth == ranks:
            best = total_time(loads[depth], width)
            best_node[:] = node
            depth -= 1
            used[node[order[depth]]] = False
            node[order[depth]] = -1
            continue
        host = next_host(tried[depth], used, twin)
        if host == hosts:
            tried[depth] = 0
            depth -= 1
            if depth >= 0:
                used[node[order[depth]]] = False
                node[order[depth]] = -1
            continue
        tried[depth] = host + 1
        count += 1
        if count > most:
            return best, False
        node[order[depth]] = host
        loads[depth + 1] = loads[depth]
        put(loads[depth + 1], order[depth], 1, node, flows, way)
        if total_time(loads[depth + 1], width) * (1 + 1e-14) >= best:
            node[order[depth]] = -1
            continue
        used[host] = True
        depth += 1
        tried[depth] = 0
    return best, True


def next_host(first, used, twin):
    """The first free host from a number on that has no free twin before it."""
    for host in range(first, len(used)):
        if used[host]:
            continue
        is_first = True
        for other in range(host):
            if twin[other] == twin[host] and not used[other]:
                is_first = False
                break
        if is_first:
            return host
    return len(used)


def grow_cycle(start, after, path, at_place, choices):
    """A cycle over all nodes by turning round the ends of a path, if one is found; its length.

    ``path`` begins with a node and is filled; ``choices`` are random numbers, one a step.
    """
    nodes = len(start) - 1
    length = 1
    at_place[:] = -1
    at_place[path[0]] = 0
    for step in range(len(choices)):
        end = path[length - 1]
        first, last = start[end], start[end + 1]
        free = -1
        fewest = 1 << 30
        for at in range(first, last):
            other = after[at]
            if at_place[other] < 0:
                open_ends = 0
                for way in range(start[other], start[other + 1]):
                    if at_place[after[way]] < 0:
                        open_ends += 1
                if open_ends < fewest:
                    free, fewest = other, open_ends
        if free >= 0:
            path[length] = free
            at_place[free] = length
            length += 1
            continue
        if length == nodes:
            for at in range(first, last):
                if after[at] == path[0]:
                    return length
        other = after[first + choices[step] % (last - first)]
        low, high = at_place[other] + 1, length - 1
        while low < high:
            path[low], path[high] = path[high], path[low]
            at_place[path[low]], at_place[path[high]] = low, high
            low, high = low + 1, high - 1
    return -length
