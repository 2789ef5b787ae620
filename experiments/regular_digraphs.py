"""All connected 2-regular digraphs of a few nodes up to isomorphism, and a code that tells them.

Two links leave and enter every node; parallel links are allowed, self-loops are not: a loop is a
pair of ports that serves nobody. Such a graph is two permutations without fixed points, of which
the first may be taken as any of its cycle type. Connected ones are strongly connected.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from ocs_codesign import Topology

Heads = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, order=True)
class Digraph:
    """A 2-regular digraph by the heads of every node's links, in the least of its numberings.

    Numberings are by breadth first search: node 0 is the root, and heads are numbered as they are
    met. The code of one lists the two heads of every node; the least over all roots and orders of
    two new heads names the graph. ``num_roots`` counts the roots that lead to it: an orbit.
    """

    heads: Heads
    num_roots: int

    @property
    def num_nodes(self) -> int:
        """How many nodes there are."""
        return len(self.heads)

    @property
    def is_vertex_transitive(self) -> bool:
        """Whether all nodes look the same."""
        return self.num_roots == self.num_nodes

    def topology(self) -> Topology:
        """The graph with the links of node after node."""
        tail = np.repeat(np.arange(self.num_nodes), 2)
        return Topology(self.num_nodes, tail, np.ravel(self.heads))

    def transpose(self) -> Digraph:
        """The graph with every link reversed."""
        heads: list[list[int]] = [[] for _ in self.heads]
        for tail, pair in enumerate(self.heads):
            for head in pair:
                heads[head].append(tail)
        return named([(one, other) for one, other in heads])

    def __str__(self) -> str:
        """The heads of node after node, as in ``12 20 01``."""
        return " ".join(f"{one}{other}" for one, other in self.heads)


def named(heads: Sequence[tuple[int, int]]) -> Digraph:
    """The digraph of any numbering, which must be connected."""
    codes = [min(_numberings(heads, root)) for root in range(len(heads))]
    best = min(codes)
    return Digraph(best, codes.count(best))


def of_topology(topology: Topology) -> Digraph:
    """The digraph of a connected 2-regular topology; ValueError if it is none."""
    if not topology.is_regular or topology.degree != 2 or topology.has_self_loops():
        raise ValueError(f"{topology!r} is no 2-regular digraph without loops")
    heads = topology.head[np.argsort(topology.tail, kind="stable")].reshape(-1, 2).tolist()
    return named([(one, other) for one, other in heads])


def two_regular_digraphs(num_nodes: int) -> list[Digraph]:
    """All connected ones of so many nodes, in the order of their codes.

    Their numbers are OEIS A306827: 1, 2, 5, 13, 59, 285, 1987 for 2 to 8 nodes.
    """
    found: set[Digraph] = set()
    seen: set[Heads] = set()
    every = np.array(list(permutations(range(num_nodes))))
    for first in _one_of_each_cycle_type(num_nodes):
        for second in _one_of_each_kind(every, first).tolist():
            pairs = zip(first.tolist(), second, strict=True)
            heads = tuple((min(pair), max(pair)) for pair in pairs)
            if heads not in seen and _is_connected(heads):
                found.add(named(heads))
            seen.add(heads)
    return sorted(found)


def _one_of_each_cycle_type(num_nodes: int) -> Iterator[NDArray[np.int64]]:
    """A permutation of every cycle type without fixed points."""
    for lengths in _partitions(num_nodes, num_nodes):
        ends = np.cumsum(lengths)
        image = np.arange(1, num_nodes + 1)
        image[ends - 1] = ends - lengths
        yield image


def _partitions(total: int, most: int) -> Iterator[list[int]]:
    """The ways to write a number as a sum of numbers from 2 to ``most``, descending."""
    if total == 0:
        yield []
    for first in range(min(total, most), 1, -1):
        for rest in _partitions(total - first, first):
            yield [first, *rest]


def _one_of_each_kind(every: NDArray[np.int64], first: NDArray[np.int64]) -> NDArray[np.int64]:
    """Permutations without fixed points, one of those that are alike when ``first`` stays.

    Relabelling by a permutation that commutes with ``first`` leaves it as it is: the least of the
    relabelled ones is kept.
    """
    nodes = np.arange(len(first))
    second: NDArray[np.int64] = every[(every != nodes).all(axis=1)]
    place = len(first) ** nodes[::-1]
    code = second @ place
    is_least = np.ones(len(second), dtype=bool)
    for new in every[(every[:, first] == first[every]).all(axis=1)]:
        is_least &= code <= new[second[:, np.argsort(new)]] @ place
    return second[is_least]


def _is_connected(heads: Heads) -> bool:
    reached, pending = {0}, [0]
    while pending:
        new = set(heads[pending.pop()]) - reached
        reached |= new
        pending += new
    return len(reached) == len(heads)


def _numberings(heads: Sequence[tuple[int, int]], root: int) -> Iterator[Heads]:
    """The codes of all breadth first numberings from a root."""
    pending = [[root]]
    while pending:
        order = pending.pop()
        number = {node: at for at, node in enumerate(order)}
        at = 0
        while at < len(order):
            new = [head for head in dict.fromkeys(heads[order[at]]) if head not in number]
            if len(new) == 2:
                pending.append([*order, *reversed(new)])
            for head in new:
                number[head] = len(order)
                order.append(head)
            at += 1
        pairs = ([number[head] for head in heads[node]] for node in order)
        yield tuple((min(pair), max(pair)) for pair in pairs)
