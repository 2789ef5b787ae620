"""Compiled walks over layered networks: what prices prove, and routings that exist.

A source enters at its node in the first layer; what it sends has to be in the last layer, the last
``num_nodes`` of all layered nodes. Links are given by tail: those out of node u are
``out_link[out_start[u] : out_start[u + 1]]``.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ocs_codesign.schedulers.alltoall.path_kernels import (
    cancel_cycles,
    shortest_tree,
    split_over_in_links,
)

UNREACHED = 1 << 62
"""What ``shortest_tree`` leaves as the distance of a node that it does not reach."""


@njit(cache=True)
def least_hops(sources, num_nodes, head, out_start, out_link, price):
    """Cheapest way from every source to every node in the last layer, -1 where there is none."""
    layered = len(out_start) - 1
    distance = np.empty(layered, dtype=np.int64)
    parent = np.empty(layered, dtype=np.int64)
    order = np.empty(layered, dtype=np.int64)
    heap = np.empty((2, len(head) + 1), dtype=np.int64)
    ends = np.empty((len(sources), num_nodes), dtype=np.int64)
    for number in range(len(sources)):
        shortest_tree(
            sources[number], head, out_start, out_link, price, distance, parent, order, heap
        )
        for node in range(num_nodes):
            near = distance[layered - num_nodes + node]
            ends[number, node] = near if near < UNREACHED else -1
    return ends


@njit(cache=True)
def reroute_phases(
    sources,
    num_nodes,
    tail,
    head,
    out_start,
    out_link,
    in_start,
    in_link,
    price,
    flow,
    least,
    unit,
    load,
):
    """Add to ``load`` (a link, in 1 / ``unit`` pieces) a flow that serves every pair exactly.

    ``flow[i, link]`` of the i-th source is only a wish, taken for 0 up to ``least`` and freed of
    cycles (in place). From the last layer back, what a node needs and passes on comes over its
    in-links in proportion to the wish, or along the cheapest path where there is none.
    """
    layered = len(out_start) - 1
    distance = np.empty(layered, dtype=np.int64)
    parent = np.empty(layered, dtype=np.int64)
    order = np.empty(layered, dtype=np.int64)
    heap = np.empty((2, len(tail) + 1), dtype=np.int64)
    through = np.empty(layered, dtype=np.int64)
    for number in range(len(sources)):
        source = sources[number]
        wish = flow[number]
        for link in range(len(tail)):
            if wish[link] <= least or head[link] == source:
                wish[link] = 0.0
        cancel_cycles(head, out_start, out_link, wish)
        shortest_tree(source, head, out_start, out_link, price, distance, parent, order, heap)
        downstream_last(tail, head, out_start, out_link, wish, order)
        through[:] = 0
        through[layered - num_nodes :] = unit
        through[layered - num_nodes + source] = 0
        for place in range(layered - 1, -1, -1):
            node = order[place]
            if node == source or through[node] == 0:
                continue
            split_over_in_links(node, tail, in_start, in_link, wish, parent, through, load)


@njit(cache=True)
def downstream_last(tail, head, out_start, out_link, flow, order):
    """Fill ``order`` with all nodes, every one before those that it has flow to."""
    nodes = len(out_start) - 1
    pending = np.zeros(nodes, dtype=np.int64)
    for link in range(len(tail)):
        pending[head[link]] += flow[link] > 0
    last = 0
    for node in range(nodes):
        if pending[node] == 0:
            order[last] = node
            last += 1
    for place in range(nodes):
        node = order[place]
        for at in range(out_start[node], out_start[node + 1]):
            link = out_link[at]
            if flow[link] > 0:
                pending[head[link]] -= 1
                if pending[head[link]] == 0:
                    order[last] = head[link]
                    last += 1


@njit(cache=True)
def reaches_all(sources, num_nodes, tail, head, phase_start, limits):
    """Whether every source reaches every node with so many links in a row in each phase.

    Links are sorted by phase: those of phase p are ``phase_start[p]`` to ``phase_start[p + 1]``.
    """
    held = np.empty(num_nodes, dtype=np.bool_)
    for source in sources:
        held[:] = False
        held[source] = True
        count = 1
        for phase in range(len(limits)):
            for _ in range(limits[phase]):
                before, grown = held.copy(), False
                for link in range(phase_start[phase], phase_start[phase + 1]):
                    if before[tail[link]] and not held[head[link]]:
                        held[head[link]] = True
                        count += 1
                        grown = True
                if not grown:
                    break
        if count < num_nodes:
            return False
    return True


@njit(cache=True)
def phase_hops(sources, num_nodes, tail, head, out_start, out_link, price, link_orbit, hops):
    """Sum of the prices of all cheapest paths; ``hops[o]`` is how often they use orbit o.

    -1 if a node is out of a source's reach. Storage links have the orbit len(hops) - 1.
    """
    layered = len(out_start) - 1
    distance = np.empty(layered, dtype=np.int64)
    parent = np.empty(layered, dtype=np.int64)
    order = np.empty(layered, dtype=np.int64)
    heap = np.empty((2, len(tail) + 1), dtype=np.int64)
    beyond = np.empty(layered, dtype=np.int64)
    hops[:] = 0
    total = 0
    for source in sources:
        reached = shortest_tree(
            source, head, out_start, out_link, price, distance, parent, order, heap
        )
        beyond[:] = 0
        for node in range(layered - num_nodes, layered):
            if distance[node] >= UNREACHED:
                return -1
            beyond[node] = 1
            total += distance[node]
        beyond[layered - num_nodes + source] = 0
        for place in range(reached - 1, 0, -1):
            node = order[place]
            link = parent[node]
            beyond[tail[link]] += beyond[node]
            hops[link_orbit[link]] += beyond[node]
    return total
