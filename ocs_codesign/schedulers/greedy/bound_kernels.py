"""Loops of bounds: the least time in which links can bring so many chunks."""

from __future__ import annotations


def brought(first, last, busy, delay, since, time):
    """Chunks that come over links ``first`` to ``last`` by a time, none before ``since``."""
    total = 0
    for link in range(first, last):
        left = time - delay[link] - busy[link]
        if left >= 0:
            most = left // busy[link] + 1
            if time < since:
                most = 0
            elif (time - since) // busy[link] + 1 < most:
                most = (time - since) // busy[link] + 1
            total += most
    return total


def least_time(first, last, busy, delay, since, need, least):
    """The first time from ``least`` on by which so many chunks may have come."""
    if need <= 0 or brought(first, last, busy, delay, since, least) >= need:
        return least
    step = 1
    while brought(first, last, busy, delay, since, least + step) < need:
        step *= 2
    low, high = least + step // 2, least + step
    while high - low > 1:
        middle = (low + high) // 2
        if brought(first, last, busy, delay, since, middle) < need:
            low = middle
        else:
            high = middle
    return high


def receivers_bound(in_first, busy, delay, travel_first, travel, farther):
    """The worst node: all it wants must come over its in-links, and what is far comes late.

    In-links of node v are ``in_first[v]`` to ``in_first[v + 1]``. Of the chunks that it wants,
    ``farther[i]`` travel for ``travel[i]`` at least; its own entries are ``travel_first[v]`` to
    ``travel_first[v + 1]``.
    """
    least = 0
    for node in range(len(in_first) - 1):
        for at in range(travel_first[node], travel_first[node + 1]):
            least = least_time(
                *(in_first[node], in_first[node + 1], busy, delay, travel[at], farther[at], least)
            )
    return least
