"""Compiled search for the plan that is cheapest at one factor of all switching costs.

A plan costs base + factor * slope. Both are sums of int64 that are kept apart: for a factor p / q
plans are compared by q * base + p * slope, exactly, although that may not fit in 64 bits. Floats
come first, and say which comparisons are close enough to need that.

``ways`` (3, K) holds for every topology the base, the slope and the number of switches of the
cheapest way from there to the end; ``about`` (K,) its float value, infinite if there is none.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True)
def cheapest_line(
    cost,
    row,
    gap,
    gap_of_row,
    slope,
    delta,
    first,
    start,
    since,
    regime,
    weights,
    margin,
    infinite,
    choice,
):
    """Fill ``choice`` (int32, S) with the cheapest plan by ``weights``; tell whether there is one.

    ``weights`` (2, 2) are q, p and those that decide between equals; then the fewest switches win,
    then keeping. ``delta`` (K, K), or (1, 1), and ``first`` (K,) give the class of a switch, -1 for
    an impossible one; at a factor of 1 it costs ``slope[class]``. Before a step whose gap is
    ``gap[i]`` it is free unless ``since[i, class] <= regime``, and then so much cheaper. ``start``
    is -1 where nothing is held. ``margin`` is more than floats of values can be wrong by.
    """
    steps, many = row.shape[0], cost.shape[1]
    then = np.empty((steps, many), dtype=np.int32)
    ways, about = np.zeros((3, many), dtype=np.int64), np.zeros(many)
    after, about_after = ways.copy(), about.copy()
    edges = np.zeros((2, *delta.shape), dtype=np.int64)
    about_edges = np.zeros(delta.shape)
    known = -1
    for step in range(steps - 1, -1, -1):
        if step < steps - 1:
            wait = gap_of_row[row[step + 1]]
            if wait != known:
                known = wait
                seen = since[wait] <= regime
                _set_edges(gap[wait], slope, delta, seen, weights, edges, about_edges)
            after[:], about_after[:] = ways, about
            for held in range(many):
                then[step, held] = held
            _relax(after, about_after, edges, about_edges, margin, weights, ways, about, then[step])
        for held in range(many):
            if cost[row[step], held] >= infinite:
                about[held] = np.inf
            ways[0, held] += cost[row[step], held]
        _set_about(ways, weights, about)
    wait = gap_of_row[row[0]]
    for to in range(many):
        kind = first[to]
        if kind < 0:
            about[to] = np.inf
        elif since[wait, kind] <= regime:
            ways[0, to] -= gap[wait]
            ways[1, to] += slope[kind]
        if start >= 0 and to != start:
            ways[2, to] += 1
    _set_about(ways, weights, about)
    held = _best(ways, about, margin, weights)
    if about[held] == np.inf:
        return False
    for step in range(steps):
        choice[step] = held
        if step < steps - 1:
            held = then[step, held]
    return True


@njit(cache=True)
def _set_edges(gap, slope, delta, seen, weights, edges, about_edges):
    """What every switch adds to base and slope, and about how much that is, by (to, held)."""
    for held in range(delta.shape[0]):
        for to in range(delta.shape[0]):
            kind = delta[held, to]
            base, lean = 0, 0
            if kind >= 0 and seen[kind]:
                base, lean = -gap, slope[kind]
            edges[0, to, held], edges[1, to, held] = base, lean
            about_edges[to, held] = _value(base, lean, weights[0, 0], weights[0, 1])
            if kind < 0 or (held == to and delta.shape[0] > 1):
                about_edges[to, held] = np.inf


@njit(cache=True)
def _set_about(ways, weights, about):
    for held in range(about.shape[0]):
        if about[held] < np.inf:
            about[held] = _value(ways[0, held], ways[1, held], weights[0, 0], weights[0, 1])


@njit(cache=True)
def _value(base, lean, q, p):
    return float(q) * float(base) + float(p) * float(lean)


@njit(cache=True)
def _relax(after, about_after, edges, about_edges, margin, weights, ways, about, then):
    """Let every topology switch where that is cheaper than keeping it, or than other switches."""
    uniform = edges.shape[1] == 1
    start, end = 0, about.shape[0]
    if uniform:
        start = _best(after, about_after, margin, weights)
        end = start + 1
    for to in range(start, end):
        if about_after[to] == np.inf:
            continue
        line = 0 if uniform else to
        for held in range(about.shape[0]):
            column = 0 if uniform else held
            value = about_after[to] + about_edges[line, column]
            if value > about[held] + margin or value == np.inf or held == to:
                continue
            base = after[0, to] + edges[0, line, column]
            lean = after[1, to] + edges[1, line, column]
            switches = after[2, to] + 1
            if about[held] == np.inf or _less(
                base - ways[0, held], lean - ways[1, held], switches - ways[2, held], weights
            ):
                ways[0, held], ways[1, held], ways[2, held] = base, lean, switches
                about[held], then[held] = value, to


@njit(cache=True)
def _best(ways, about, margin, weights):
    """The topology from which the way is cheapest, the first of equals."""
    best = 0
    for to in range(1, about.shape[0]):
        if about[to] > about[best] + margin or about[to] == np.inf:
            continue
        if about[best] == np.inf or _less(
            ways[0, to] - ways[0, best],
            ways[1, to] - ways[1, best],
            ways[2, to] - ways[2, best],
            weights,
        ):
            best = to
    return best


@njit(cache=True)
def _less(base, lean, switches, weights):
    """Whether a difference of two ways is in favour of the first."""
    sign = _sign(base, lean, weights[0, 0], weights[0, 1])
    if sign == 0:
        sign = _sign(base, lean, weights[1, 0], weights[1, 1])
    return sign < 0 or (sign == 0 and switches < 0)


@njit(cache=True)
def _sign(base, lean, q, p):
    """The sign of q * base + p * lean, exact while the two parts are below 2^109.

    Where floats cannot tell, the sum is below 2^63, and arithmetic modulo 2^64 is exact.
    """
    one, other = float(q) * float(base), float(p) * float(lean)
    both = one + other
    if abs(both) > (abs(one) + abs(other)) * 2.0**-49:
        return 1 if both > 0 else -1
    whole = np.int64(np.uint64(q) * np.uint64(base) + np.uint64(p) * np.uint64(lean))
    return 1 if whole > 0 else (-1 if whole < 0 else 0)
