"""Compiled edge colouring by fans and Kempe chains."""

from __future__ import annotations

import numpy as np
from numba import njit

NONE = -1


@njit(cache=True)
def _set(edge, colour, one, other, at, of_edge):
    at[one[edge], colour] = edge
    at[other[edge], colour] = edge
    of_edge[edge] = colour


@njit(cache=True)
def _clear(edge, one, other, at, of_edge):
    colour = of_edge[edge]
    if colour != NONE:
        at[one[edge], colour] = NONE
        at[other[edge], colour] = NONE
        of_edge[edge] = NONE


@njit(cache=True)
def _chain_end(node, a, b, one, other, at):
    """The other end of the path from ``node``, which misses b, whose edges are a, b, a, ..."""
    while at[node, a] != NONE:
        edge = at[node, a]
        node = one[edge] + other[edge] - node
        a, b = b, a
    return node


@njit(cache=True)
def _swap_chain(node, a, b, one, other, at, of_edge, path):
    """Exchange the colours of the path from ``node`` whose edges are a, b, a, ..."""
    length, here, now, then = 0, node, a, b
    while at[here, now] != NONE:
        edge = at[here, now]
        path[length] = edge
        length += 1
        here = one[edge] + other[edge] - here
        now, then = then, now
    for place in range(length):
        _clear(path[place], one, other, at, of_edge)
    for place in range(length):
        _set(path[place], b if place % 2 == 0 else a, one, other, at, of_edge)


@njit(cache=True)
def _shift(place, colour, fan, parent, one, other, at, of_edge):
    """Give the fan's edge a colour, its own to its parent, and so on; -1 takes it away."""
    while place != NONE:
        edge = fan[place]
        before = of_edge[edge]
        _clear(edge, one, other, at, of_edge)
        if colour != NONE:
            _set(edge, colour, one, other, at, of_edge)
        colour, place = before, parent[place]


@njit(cache=True)
def _grow_fan(edge, hub, one, other, at, fan, parent, in_fan):
    """All edges at ``hub`` that can be freed for the uncoloured one; (size, place, colour).

    ``place`` and ``colour`` say which edge can take which colour that the hub misses, if one can.
    """
    fan[0], parent[0], in_fan[edge] = edge, NONE, True
    size, place = 1, 0
    while place < size:
        node = one[fan[place]] + other[fan[place]] - hub
        for colour in range(at.shape[1]):
            if at[node, colour] != NONE:
                continue
            there = at[hub, colour]
            if there == NONE:
                return size, place, colour
            if not in_fan[there] and one[there] != other[there]:
                fan[size], parent[size], in_fan[there] = there, place, True
                size += 1
        place += 1
    return size, NONE, NONE


@njit(cache=True)
def _colour_one(edge, hub, one, other, at, of_edge, fan, parent, in_fan, holder, path):
    """Colour an edge by the fan at one of its ends: (whether done, size of the fan)."""
    size, place, colour = _grow_fan(edge, hub, one, other, at, fan, parent, in_fan)
    for number in range(size):
        in_fan[fan[number]] = False
    if place != NONE:
        _shift(place, colour, fan, parent, one, other, at, of_edge)
        return True, size
    free = NONE
    for colour in range(at.shape[1]):
        holder[colour] = NONE
        if at[hub, colour] == NONE:
            free = colour
    if free == NONE:
        return False, size
    for place in range(size):
        node = one[fan[place]] + other[fan[place]] - hub
        for colour in range(at.shape[1]):
            if at[node, colour] != NONE:
                continue
            # Of two nodes that miss a colour, the chain from the hub ends at one at most. The
            # ancestors of the first such node, and of the second, miss neither colour.
            first = holder[colour] == NONE
            if not first:
                before = fan[holder[colour]]
                if one[before] + other[before] - hub == node:
                    continue
            holder[colour] = place
            if _chain_end(node, free, colour, one, other, at) != hub:
                _swap_chain(node, free, colour, one, other, at, of_edge, path)
                _shift(place, free, fan, parent, one, other, at, of_edge)
                return True, size
    return False, size


@njit(cache=True)
def colour_edges(one, other, num_nodes, num_colours, max_moves, random):
    """A colour for every edge, such that none meet at a node: (colours, whether all have one).

    Where neither end's fan helps, an edge of the fan gives its place, and the search goes on with
    that one, ``max_moves`` times at most. With D + mu colours (mu parallel edges) it never comes
    to that: V. G. Vizing (1964). Edges join two different nodes.
    """
    edges = len(one)
    at = np.full((num_nodes, num_colours), NONE, dtype=np.int64)
    of_edge = np.full(edges, NONE, dtype=np.int64)
    fan, parent = np.empty(edges + 1, dtype=np.int64), np.empty(edges + 1, dtype=np.int64)
    in_fan, holder = np.zeros(edges, dtype=np.bool_), np.empty(num_colours, dtype=np.int64)
    path = np.empty(edges + 1, dtype=np.int64)
    moves = 0
    for start in range(edges):
        edge = start
        while True:
            hub = one[edge] if random.random() < 0.5 else other[edge]
            done, size = _colour_one(
                edge, hub, one, other, at, of_edge, fan, parent, in_fan, holder, path
            )
            if done:
                break
            hub = one[edge] + other[edge] - hub
            done, size = _colour_one(
                edge, hub, one, other, at, of_edge, fan, parent, in_fan, holder, path
            )
            if done:
                break
            if moves >= max_moves:
                return of_edge, False
            moves += 1
            if size > 1:
                place = 1 + int(random.random() * (size - 1))
                freed = fan[place]
                _shift(place, NONE, fan, parent, one, other, at, of_edge)
                edge = freed
            node = int(random.random() * num_nodes)
            a = int(random.random() * num_colours)
            b = int(random.random() * num_colours)
            if a != b and at[node, b] == NONE:
                _swap_chain(node, a, b, one, other, at, of_edge, path)
    return of_edge, True
