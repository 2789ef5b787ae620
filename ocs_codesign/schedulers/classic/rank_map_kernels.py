"""Annealing of a rank map: swaps of two ranks that shorten what is sent, or not by too much."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
