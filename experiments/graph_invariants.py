"""Invariants of small graphs, exact and by exhaustive computation: distances, girth, BFB cost."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Links = list[tuple[int, int]]
Distances = NDArray[np.int64]
Adjacency = NDArray[np.float32]


def adjacency_of(nodes: int, links: Links) -> Adjacency:
    """The matrix with 1 at [tail, head] of each link; float, so that products run in BLAS."""
    matrix = np.zeros((nodes, nodes), dtype=np.float32)
    for tail, head in links:
        matrix[tail, head] = 1
    return matrix


def distances_of(adjacency: Adjacency) -> Distances:
    """Hop counts from row to column node. ValueError unless strongly connected."""
    nodes = len(adjacency)
    distances = np.full((nodes, nodes), -1, dtype=np.int64)
    reached = np.eye(nodes, dtype=bool)
    step = 0
    while reached.any():
        distances[reached] = step
        reached = (reached.astype(np.float32) @ adjacency > 0) & (distances < 0)
        step += 1
    if (distances < 0).any():
        raise ValueError("some node cannot reach another")
    return distances


def girth_of(adjacency: Adjacency, distances: Distances) -> int:
    """The length of the shortest cycle of an undirected graph which is not a tree.

    Seen from a node on it, the cycle closes at distance r either along an edge between two nodes
    there (length 2 r + 1) or at a node there with two predecessors (length 2 r).
    """
    for radius in range(1, int(distances.max()) + 1):
        sphere = distances == radius
        if (_neighbours_at(adjacency, distances, radius - 1)[sphere] > 1).any():
            return 2 * radius
        if _neighbours_at(adjacency, distances, radius)[sphere].any():
            return 2 * radius + 1
    raise ValueError("the graph has no cycle")


def intersection_array_of(adjacency: Adjacency, distances: Distances) -> str | None:
    """The array "b0,b1,...;c1,c2,..." of a distance-regular graph, None for any other graph."""
    diameter = int(distances.max())
    farther: list[int] = []
    nearer: list[int] = []
    for radius in range(diameter + 1):
        sphere = distances == radius
        b = np.unique(_neighbours_at(adjacency, distances, radius + 1)[sphere])
        c = np.unique(_neighbours_at(adjacency, distances, radius - 1)[sphere])
        if len(b) > 1 or len(c) > 1:
            return None
        farther.append(int(b[0]))
        nearer.append(int(c[0]))
    return ";".join(",".join(map(str, numbers)) for numbers in (farther[:-1], nearer[1:]))


def _neighbours_at(adjacency: Adjacency, distances: Distances, radius: int) -> Adjacency:
    """At [v, u] the number of neighbours of u at that distance from v (undirected graphs)."""
    counts: Adjacency = (distances == radius).astype(np.float32) @ adjacency
    return counts


def bfb_cost_of(adjacency: Adjacency, distances: Distances) -> Fraction:
    """t_b of the best breadth-first broadcast allgather (Zhao et al., 2025), for small degrees.

    In step t each node u receives the shards of the nodes at distance t, each over links from
    in-neighbours one hop nearer to its owner. The most loaded link then carries at least
    U_{u,t} = max |shards available from W only| / |W| over nonempty sets W of in-neighbours, and
    by max-flow min-cut no more; t_b = (d / N) * sum over t of max over u of U_{u,t}.
    """
    nodes = len(adjacency)
    degree = int(adjacency[0].sum())
    subsets = np.arange(1 << degree)
    inside = (subsets[:, None] & ~subsets[None, :]) == 0  # [S, W]: S is a subset of W
    sizes = np.array([int(subset).bit_count() for subset in subsets])
    loads = [Fraction(0)] * (int(distances.max()) + 1)
    for node in range(nodes):
        senders = np.flatnonzero(adjacency[:, node])
        hops = distances[:, node]
        offers = (distances[:, senders] == hops[:, None] - 1) @ (1 << np.arange(degree))
        for step in range(1, len(loads)):
            shards = np.bincount(offers[hops == step], minlength=len(subsets)) @ inside
            load = max(Fraction(int(shards[sizes == k].max()), k) for k in range(1, degree + 1))
            loads[step] = max(loads[step], load)
    return Fraction(degree, nodes) * sum(loads)
