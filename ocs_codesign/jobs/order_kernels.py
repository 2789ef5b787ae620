"""Compiled loops over directed graphs without circles: an order, and longest paths along it."""

from __future__ import annotations

import numpy as np


def topological_order(after_start, after, waits):
    """Vertices so that each comes after all it waits for; shorter if there is a circle.

    ``after[after_start[v] : after_start[v + 1]]`` wait for v, ``waits`` is changed.
    """
    num = len(waits)
    order = np.empty(num, dtype=np.int64)
    size = 0
    for vertex in range(num):
        if waits[vertex] == 0:
            order[size] = vertex
            size += 1
    done = 0
    while done < size:
        vertex = order[done]
        done += 1
        for entry in range(after_start[vertex], after_start[vertex + 1]):
            other = after[entry]
            waits[other] -= 1
            if waits[other] == 0:
                order[size] = other
                size += 1
    return order[:size]


def longest_between(order, after_start, after, weight, source):
    """Of every vertex the largest sum of weights on a way from the source to it, its own left out.

    -1 where no way leads; from all vertices that wait for nothing if the source is -1.
    """
    longest = np.full(len(weight), -1, dtype=np.int64)
    if source >= 0:
        longest[source] = 0
    for place in range(len(order)):
        vertex = order[place]
        if longest[vertex] < 0:
            if source >= 0:
                continue
            longest[vertex] = 0
        until = longest[vertex] + weight[vertex]
        for entry in range(after_start[vertex], after_start[vertex + 1]):
            other = after[entry]
            longest[other] = max(longest[other], until)
    return longest
