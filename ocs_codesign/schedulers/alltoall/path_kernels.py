"""Shortest paths with integer prices, and what the certificates of all-to-all sum over.

Links are given by tail: those out of node u are ``out_link[out_start[u] : out_start[u + 1]]``.
"""

from __future__ import annotations

import numpy as np


def shortest_tree(source, head, out_start, out_link, price, distance, parent, order, heap):
    """Cheapest paths from a source: fills distance, parent link and settling order.

    Returns the number of nodes reached. ``heap`` is an int64 workspace of shape (2, links + 1); a
    binary heap with stale entries, ties in the order of discovery, so that every run is the same.
    """
    unreached = np.int64(1 << 62)
    distance[:] = unreached
    parent[:] = -1
    distance[source] = 0
    heap[0, 0], heap[1, 0] = 0, source
    size, settled = 1, 0
    while size:
        near, node = heap[0, 0], heap[1, 0]
        size -= 1
        _sift_down(heap, size, heap[0, size], heap[1, size])
        if near > distance[node]:
            continue
        order[settled] = node
        settled += 1
        for at in range(out_start[node], out_start[node + 1]):
            link = out_link[at]
            far = near + price[link]
            if far < distance[head[link]]:
                distance[head[link]] = far
                parent[head[link]] = link
                _sift_up(heap, size, far, head[link])
                size += 1
    return settled


def _sift_up(heap, place, key, value):
    while place:
        above = (place - 1) >> 1
        if heap[0, above] <= key:
            break
        heap[0, place], heap[1, place] = heap[0, above], heap[1, above]
        place = above
    heap[0, place], heap[1, place] = key, value


def _sift_down(heap, size, key, value):
    place = 0
    while 2 * place + 1 < size:
        below = 2 * place + 1
        if below + 1 < size and heap[0, below + 1] < heap[0, below]:
            below += 1
        if heap[0, below] >= key:
            break
        heap[0, place], heap[1, place] = heap[0, below], heap[1, below]
        place = below
    heap[0, place], heap[1, place] = key, value


def tree_hops(sources, tail, head, out_start, out_link, price, link_orbit, hops):
    """Whether the sources reach all nodes; ``hops[o]`` is how often their trees use orbit o.

    A tree counts a link once for every node beyond it.
    """
    nodes = len(out_start) - 1
    distance = np.empty(nodes, dtype=np.int64)
    parent = np.empty(nodes, dtype=np.int64)
    order = np.empty(nodes, dtype=np.int64)
    beyond = np.empty(nodes, dtype=np.int64)
    heap = np.empty((2, len(tail) + 1), dtype=np.int64)
    hops[:] = 0
    for source in sources:
        reached = shortest_tree(
            source, head, out_start, out_link, price, distance, parent, order, heap
        )
        if reached < nodes:
            return False
        beyond[:] = 1
        for place in range(nodes - 1, 0, -1):
            node = order[place]
            link = parent[node]
            beyond[tail[link]] += beyond[node]
            hops[link_orbit[link]] += beyond[node]
    return True


def reroute(
    sources,
    tail,
    head,
    out_start,
    out_link,
    in_start,
    in_link,
    price,
    flow,
    least,
    kept,
    load,
):
    """Add to ``load`` (per link) a flow that brings every node what it keeps of every source.

    ``flow[i, link]`` of the i-th source is only a wish, taken for 0 up to ``least`` and freed of
    cycles (in place): node after node, each after those it has flow to, what a node needs and
    passes on comes over its in-links in proportion to the wish, or along the cheapest path where
    there is none. Everything is counted in integers.
    """
    nodes = len(out_start) - 1
    distance = np.empty(nodes, dtype=np.int64)
    parent = np.empty(nodes, dtype=np.int64)
    order = np.empty(nodes, dtype=np.int64)
    heap = np.empty((2, len(tail) + 1), dtype=np.int64)
    ready = np.empty(nodes, dtype=np.int64)
    pending = np.empty(nodes, dtype=np.int64)
    through = np.empty(nodes, dtype=np.int64)
    for number in range(len(sources)):
        source = sources[number]
        wish = flow[number]
        for link in range(len(tail)):
            if wish[link] <= least or head[link] == source:
                wish[link] = 0.0
        cancel_cycles(head, out_start, out_link, wish)
        shortest_tree(source, head, out_start, out_link, price, distance, parent, order, heap)
        pending[:] = 0
        for link in range(len(tail)):
            pending[tail[link]] += wish[link] > 0
        last = 0
        for node in range(nodes):
            if pending[node] == 0:
                ready[last] = node
                last += 1
        for node in range(nodes):
            through[node] = kept[node]
        for first in range(nodes):
            node = ready[first]
            if node != source:
                split_over_in_links(node, tail, in_start, in_link, wish, parent, through, load)
            for at in range(in_start[node], in_start[node + 1]):
                before = tail[in_link[at]]
                if wish[in_link[at]] > 0:
                    pending[before] -= 1
                    if pending[before] == 0:
                        ready[last] = before
                        last += 1


def split_over_in_links(node, tail, in_start, in_link, wish, parent, through, load):
    """Split what passes a node over its in-links."""
    wished = 0.0
    for at in range(in_start[node], in_start[node + 1]):
        wished += wish[in_link[at]]
    left = through[node]
    for at in range(in_start[node], in_start[node + 1]):
        link = in_link[at]
        if wish[link] > 0:
            part = min(left, np.int64(np.rint(through[node] * (wish[link] / wished))))
            load[link] += part
            through[tail[link]] += part
            left -= part
    while left and parent[node] >= 0:
        load[parent[node]] += left
        node = tail[parent[node]]


def cancel_cycles(head, out_start, out_link, flow):
    """Lower a flow (float, a link) in place until its links with flow form no cycle."""
    nodes = len(out_start) - 1
    at = out_start[:-1].copy()
    place = np.empty(nodes, dtype=np.int64)  # on the path, or -1 before that and -2 after it
    path = np.empty(nodes, dtype=np.int64)
    via = np.empty(nodes + 1, dtype=np.int64)
    place[:] = -1
    for start in range(nodes):
        if place[start] == -2:
            continue
        path[0], place[start], depth = start, 0, 1
        while depth:
            node = path[depth - 1]
            while at[node] < out_start[node + 1] and (
                flow[out_link[at[node]]] <= 0 or place[head[out_link[at[node]]]] == -2
            ):
                at[node] += 1
            if at[node] == out_start[node + 1]:
                place[node] = -2
                depth -= 1
                continue
            link = out_link[at[node]]
            onto = head[link]
            via[depth] = link
            if place[onto] == -1:
                path[depth], place[onto] = onto, depth
                depth += 1
                continue
            smallest = flow[link]
            for step in range(place[onto] + 1, depth):
                smallest = min(smallest, flow[via[step]])
            for step in range(place[onto] + 1, depth + 1):
                flow[via[step]] -= smallest
            while path[depth - 1] != onto:
                place[path[depth - 1]] = -1
                depth -= 1
