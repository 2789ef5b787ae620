"""Passes over the time network of an all-to-all, from the last step back to the first.

Arcs are sorted by (step, source, head); those of step t are ``before[t - 1] : before[t]``. Going
back, what a node has after a step is split over the arcs that may have brought it.
"""

from __future__ import annotations

import math

import numpy as np

NOISE = 1e-7


def conserve(before, source, tail, head, sources, nodes, wish, flow):
    """Fill ``flow`` (float, an arc) with one that leaves a piece at every node after all steps.

    What is at a node comes over its arcs in proportion to the wish, or evenly if that is 0.
    """
    need = np.empty((sources, nodes))
    earlier = np.empty((sources, nodes))
    need[:] = 1.0
    for step in range(len(before) - 1, 0, -1):
        earlier[:] = 0.0
        first = before[step - 1]
        while first < before[step]:
            last = _end(source, head, first, before[step])
            wished = 0.0
            for arc in range(first, last):
                wished += wish[arc]
            needed = need[source[first], head[first]]
            for arc in range(first, last):
                if wished > NOISE:
                    flow[arc] = needed * (wish[arc] / wished)
                else:
                    flow[arc] = needed / (last - first)
                earlier[source[arc], tail[arc]] += flow[arc]
            first = last
        need, earlier = earlier, need


def round_flow(before, source, tail, head, sources, nodes, row, speed, flow, room, chunks, amount):
    """Fill ``amount`` (int64, an arc) with a flow of ``chunks`` a piece that is close to ``flow``.

    At every node whole parts of its share go over each arc, and what is left, a chunk an arc, where
    the busiest row is helped most: ``room[row]`` (float, changed) is how much more than ``flow`` a
    row could take, in chunks, and then what is left of it.
    """
    need = np.empty((sources, nodes), dtype=np.int64)
    earlier = np.empty((sources, nodes), dtype=np.int64)
    need[:] = chunks
    for step in range(len(before) - 1, 0, -1):
        earlier[:] = 0
        first = before[step - 1]
        while first < before[step]:
            last = _end(source, head, first, before[step])
            needed = need[source[first], head[first]]
            _split(first, last, row, speed, flow, room, chunks, needed, amount)
            for arc in range(first, last):
                earlier[source[arc], tail[arc]] += amount[arc]
            first = last
        need, earlier = earlier, need


def _split(first, last, row, speed, flow, room, chunks, needed, amount):
    """Split what a node needs over its arcs, and book it in their rows."""
    total = 0.0
    for arc in range(first, last):
        total += flow[arc]
    left = needed
    for arc in range(first, last):
        share = needed * (flow[arc] / total) if total > NOISE else 0.0
        amount[arc] = min(left, np.int64(np.floor(share + 1e-5)))
        left -= amount[arc]
        if row[arc] >= 0:
            room[row[arc]] += chunks * flow[arc] - amount[arc]
    while left:
        best, best_room = -1, -np.inf
        for arc in range(first, last):
            if total > NOISE and flow[arc] <= NOISE:
                continue
            share = needed * (flow[arc] / total) if total > NOISE else 0.0
            here = share - amount[arc]
            if row[arc] >= 0:
                here = room[row[arc]] / speed[row[arc]]
            if here > best_room:
                best, best_room = arc, here
        amount[best] += 1
        left -= 1
        if row[best] >= 0:
            room[row[best]] -= 1


def _end(source, head, first, last):
    """End of the arcs into one node with the data of one source."""
    end = first + 1
    while end < last and head[end] == head[first] and source[end] == source[first]:
        end += 1
    return end


def trace(before, source, tail, head, nodes, link, sources, chunks, amount, walks, via):
    """Split a flow of whole chunks (``amount``, used up) into walks, and return their number.

    Column i of ``walks`` becomes source number, node that it is for, lo and hi of its chunks in
    the piece; ``via[i, step - 1]`` the link crossed at a step, -1 where the walk waits.
    """
    number, steps = len(sources), len(before) - 1
    count = 0
    at = np.empty(walks.shape[1], dtype=np.int64)
    for one in range(number):
        for node in range(nodes):
            if node != sources[one]:
                walks[0, count], walks[1, count] = one, node
                walks[2, count], walks[3, count] = 0, chunks
                at[count] = node
                count += 1
    via[:] = -1
    cursor = np.empty((number, nodes), dtype=np.int64)
    for step in range(steps, 0, -1):
        for arc in range(before[step] - 1, before[step - 1] - 1, -1):
            cursor[source[arc], head[arc]] = arc
        walk = 0
        while walk < count:
            one, node = walks[0, walk], at[walk]
            if node != sources[one]:
                arc = cursor[one, node]
                while amount[arc] == 0:
                    arc += 1
                cursor[one, node] = arc
                size = walks[3, walk] - walks[2, walk]
                if amount[arc] < size:
                    for part in range(4):
                        walks[part, count] = walks[part, walk]
                    walks[3, walk] = walks[2, walk] + amount[arc]
                    walks[2, count] = walks[3, walk]
                    for crossed in range(steps):
                        via[count, crossed] = via[walk, crossed]
                    at[count] = node
                    count += 1
                    size = amount[arc]
                amount[arc] -= size
                via[walk, step - 1] = link[arc]
                at[walk] = tail[arc]
            walk += 1
    return count


def drop_detours(head, sources, source, via):
    """Let walks wait (-1 in ``via``, in place) instead of coming back to a node they were at.

    Returns the number of moves saved.
    """
    saved = 0
    steps = via.shape[1]
    for walk in range(len(via)):
        node, step = sources[source[walk]], 0
        while step < steps:
            here, back = node, step
            for later in range(step, steps):
                if via[walk, later] >= 0:
                    here = head[via[walk, later]]
                    if here == node:
                        back = later + 1
            for later in range(step, back):
                saved += via[walk, later] >= 0
                via[walk, later] = -1
            if back < steps and via[walk, back] >= 0:
                node = head[via[walk, back]]
            step = back + 1
    return saved


def soft_walks(before, source, tail, head, row, sources, nodes, price, wish):
    """Fill ``wish`` with how walks divide that are exp(-what their rows cost) times as likely.

    Over the arcs into one state the largest wish is 1.
    """
    weight = np.empty((len(sources), nodes))
    later = np.empty((len(sources), nodes))
    for one in range(len(sources)):
        for node in range(nodes):
            weight[one, node] = later[one, node] = 0.0 if node == sources[one] else -np.inf
    for step in range(1, len(before)):
        first = before[step - 1]
        while first < before[step]:
            last = _end(source, head, first, before[step])
            best = -np.inf
            for arc in range(first, last):
                wish[arc] = weight[source[arc], tail[arc]]
                if row[arc] >= 0:
                    wish[arc] -= price[row[arc]]
                best = max(best, wish[arc])
            total = 0.0
            for arc in range(first, last):
                wish[arc] = math.exp(wish[arc] - best)
                total += wish[arc]
            later[source[first], head[first]] = best + math.log(total)
            first = last
        for one in range(len(sources)):
            for node in range(nodes):
                weight[one, node] = later[one, node]
