"""Annealing of a rank map: swaps of two ranks that shorten what is sent, or not by too much."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]


def anneal(
    start: NDArray[Any],
    peer: NDArray[Any],
    out: NDArray[Any],
    back: NDArray[Any],
    hops: NDArray[Any],
    node: NDArray[Any],
    one: NDArray[Any],
    other: NDArray[Any],
    allowed: NDArray[Any],
) -> None:
    """Swap the nodes of ranks ``one[t]`` and ``other[t]`` unless that costs more than is allowed.

    Rank r sends ``out[e]`` to and gets ``back[e]`` from rank ``peer[e]`` for e from ``start[r]`` to
    ``start[r + 1]``. ``node`` is changed.
    """
    for t in range(len(one)):
        a, b = one[t], other[t]
        u, v = node[a], node[b]
        cost = 0
        for e in range(start[a], start[a + 1]):
            if peer[e] == b:
                cost += (out[e] - back[e]) * (hops[v, u] - hops[u, v])
            else:
                x = node[peer[e]]
                cost += out[e] * (hops[v, x] - hops[u, x]) + back[e] * (hops[x, v] - hops[x, u])
        for e in range(start[b], start[b + 1]):
            if peer[e] != a:
                x = node[peer[e]]
                cost += out[e] * (hops[u, x] - hops[v, x]) + back[e] * (hops[x, u] - hops[x, v])
        if a != b and cost <= allowed[t]:
            node[a], node[b] = v, u


# Factors of a graph searched for Hamiltonian cycles, in plain loops; see ``kernels.for_work``.


def merge_cycles(
    link_out: Ints, tail: Ints, head: Ints, factor: Ints, other: Ints, start: Ints, patience: Floats
) -> int:
    """Trade links between factors until each is one cycle, or all tries are used; cycles left over.

    ``link_out`` (factors x nodes) is the link of every factor out of every node and is changed. Try
    t trades the links of two factors out of the nodes from ``start[t]`` on: the next node is where
    the link of one into the head of the link of the other comes from, until that is the first one.
    Both stay permutations. Trades that leave no more cycles are kept, and others while they leave
    at most ``patience[t]`` more.
    """
    factors, nodes = link_out.shape
    link_in = np.empty((factors, nodes), dtype=np.int64)
    cycles = np.zeros(factors, dtype=np.int64)
    seen = np.zeros(nodes, dtype=np.int64)
    stamp = 0
    for f in range(factors):
        for node in range(nodes):
            link_in[f, head[link_out[f, node]]] = link_out[f, node]
        stamp += 1
        cycles[f] = _count_from(link_out, head, f, seen, stamp)
    total = 0
    for f in range(factors):
        total += int(cycles[f])
    for t in range(len(factor)):
        if total == factors:
            break
        f, g = factor[t], other[t]
        if f == g or (cycles[f] == 1 and cycles[g] == 1):
            continue
        _trade(link_out, link_in, tail, head, f, g, start[t])
        stamp += 2
        first = _count_from(link_out, head, f, seen, stamp - 1)
        second = _count_from(link_out, head, g, seen, stamp)
        if first + second - cycles[f] - cycles[g] <= patience[t]:
            total += int(first + second - cycles[f] - cycles[g])
            cycles[f], cycles[g] = first, second
        else:
            _trade(link_out, link_in, tail, head, f, g, start[t])
    left: int = total - factors
    return left


def _trade(
    link_out: Ints, link_in: Ints, tail: Ints, head: Ints, f: int, g: int, start: int
) -> None:
    """Trade two factors' links out of the nodes that hang together with one; undone by itself."""
    node = start
    while True:
        mine, theirs = link_out[f, node], link_out[g, node]
        # The link of g into the head of mine leaves the next node.
        after = tail[link_in[g, head[mine]]]
        link_out[f, node], link_out[g, node] = theirs, mine
        link_in[g, head[mine]] = mine
        link_in[f, head[theirs]] = theirs
        node = after
        if node == start:
            return


def _count_from(link_out: Ints, head: Ints, f: int, seen: Ints, stamp: int) -> int:
    """Cycles of a factor; what was seen before has other stamps."""
    count = 0
    for first in range(link_out.shape[1]):
        if seen[first] == stamp:
            continue
        count += 1
        node = first
        while seen[node] != stamp:
            seen[node] = stamp
            node = head[link_out[f, node]]
    return count
