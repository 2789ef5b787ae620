"""Compiled loop over sources: what messages inside groups load links with, by shortest paths."""

from __future__ import annotations

import numpy as np

MANY_PATHS = 2.0**500
"""Numbers of paths that are scaled down, for only their ratios count."""


def all_hops(start, link, head, hops):
    """Fill in the hops from every node to every other; ``hops`` is -1 before."""
    num = len(start) - 1
    order = np.empty(num, dtype=np.int64)
    for source in range(num):
        order[0], hops[source, source] = source, 0
        found = 1
        for at in range(num):
            if at == found:
                break
            node = order[at]
            for entry in range(start[node], start[node + 1]):
                other = head[link[entry]]
                if hops[source, other] < 0:
                    hops[source, other] = hops[source, node] + 1
                    order[found] = other
                    found += 1


def walk_messages(start, link, head, first, target, loads, most_hops):
    """Add what messages load links with, where each takes all shortest paths evenly.

    Links ``link[start[v] : start[v + 1]]`` leave node v. It sends to the nodes
    ``target[first[v] : first[v + 1]]``, the next of its group first and the one before last.
    Messages are of three kinds: to all of them, to the next one, and to the one before. ``loads``
    (3, links), and ``most_hops`` (3,) are those of the message that goes furthest.
    """
    num = len(start) - 1
    order = np.empty(num, dtype=np.int64)
    distance = np.empty(num, dtype=np.int64)
    paths, into = np.empty(num), np.empty(num)
    carried = np.empty((3, num))
    for source in range(num):
        for node in range(num):
            distance[node] = -1
            into[node] = 0.0
        order[0], distance[source], into[source] = source, 0, 1.0
        found, level_end = 1, 0
        for at in range(num):
            if at == found:
                break
            if at == level_end:  # all ways into the nodes of a level are counted, scaled alike
                level_end, most = found, 0.0
                for other in range(at, found):
                    most = max(most, into[order[other]])
                scale = 1.0 if most < MANY_PATHS else 1.0 / MANY_PATHS
                for other in range(at, found):
                    paths[order[other]] = into[order[other]] * scale
            node = order[at]
            for entry in range(start[node], start[node + 1]):
                other = head[link[entry]]
                if distance[other] < 0:
                    distance[other] = distance[node] + 1
                    order[found] = other
                    found += 1
                if distance[other] == distance[node] + 1:
                    into[other] += paths[node]
        for kind in range(3):
            for node in range(num):
                carried[kind, node] = 0.0
        for message in range(first[source], first[source + 1]):
            other = target[message]
            for kind in range(3):
                if (
                    kind == 0
                    or (kind == 1 and message == first[source])
                    or (kind == 2 and message == first[source + 1] - 1)
                ):
                    carried[kind, other] = 1.0
                    most_hops[kind] = max(most_hops[kind], distance[other])
        for at in range(found - 1, -1, -1):
            node = order[at]
            for entry in range(start[node], start[node + 1]):
                one = link[entry]
                other = head[one]
                if distance[other] != distance[node] + 1:
                    continue
                share = paths[node] / into[other]
                for kind in range(3):
                    flow = carried[kind, other] * share
                    loads[kind, one] += flow
                    carried[kind, node] += flow
