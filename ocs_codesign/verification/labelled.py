"""How many regular digraphs there are on labelled nodes: what an enumeration has to add up to.

Counted node by node, by how many links each node still has to get, which takes no graph at all.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from math import comb, factorial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


State = tuple[tuple[tuple[bool, int], int], ...]
"""How many nodes there are of every kind: whether their own links are drawn, and those missing."""


def connected_digraphs(
    num_nodes: int, degree: int, *, bidirectional: bool = False, simple: bool = False
) -> int:
    """Strongly connected digraphs of so many labelled nodes with d links in and out of each.

    ``bidirectional``: every link has one in the other direction, and there are no loops; ``simple``
    ones have neither loops nor parallel links. Of all digraphs those in which node 0 is in a part
    of k nodes are C(N - 1, k - 1) times the connected ones of k nodes times all of the rest.

    >>> [connected_digraphs(nodes, 3, bidirectional=True, simple=True) for nodes in (4, 6, 8)]
    [1, 70, 19320]
    """
    alike = (degree, bidirectional, simple)
    connected: list[int] = [0]
    for nodes in range(1, num_nodes + 1):
        apart = sum(
            comb(nodes - 1, part - 1) * connected[part] * all_digraphs(nodes - part, *alike)
            for part in range(1, nodes)
        )
        connected.append(all_digraphs(nodes, *alike) - apart)
    return connected[num_nodes]


def all_digraphs(num_nodes: int, degree: int, bidirectional: bool, simple: bool) -> int:
    """The same without regard to whether they are connected.

    >>> [all_digraphs(nodes, 2, False, True) for nodes in (3, 4, 5, 6)]
    [1, 9, 216, 7570]
    """

    @cache
    def two_way(state: State) -> int:
        if not state:
            return 1
        (_, missing), _ = state[0]
        rest = _moved(state, state[0][0], None)
        return sum(ways * two_way(after) for ways, after in _dealt(rest, missing, simple))

    @cache
    def one_way(state: State) -> int:
        waiting = [kind for kind, _ in state if not kind[0]]
        if not waiting:
            return 1
        rest = _moved(state, waiting[0], None)
        found = 0
        for loops in range(0 if simple else min(waiting[0][1], degree), -1, -1):
            for ways, dealt in _dealt(rest, degree - loops, simple):
                found += ways * one_way(_moved(dealt, None, (True, waiting[0][1] - loops)))
        return found

    if not num_nodes:
        return 1
    return (two_way if bidirectional else one_way)((((False, degree), num_nodes),))


def _moved(state: State, old: tuple[bool, int] | None, new: tuple[bool, int] | None) -> State:
    """With one node less of a kind and one more of another."""
    counts = Counter(dict(state))
    if old is not None:
        counts[old] -= 1
    if new is not None:
        counts[new] += 1
    return tuple(sorted((kind, count) for kind, count in counts.items() if count))


def _dealt(state: State, links: int, simple: bool) -> Iterator[tuple[int, State]]:
    """All ways in which so many links lead to nodes of every kind, and what is missing then."""
    if not state:
        if not links:
            yield 1, ()
        return
    ((is_drawn, missing), count), *others = state
    most = min(missing, links, 1 if simple else links)
    for shares in _shares(count, most, links):
        used = sum(size * number for size, number in enumerate(shares))
        ways = factorial(count)
        for number in shares:
            ways //= factorial(number)
        for more, rest in _dealt(tuple(others), links - used, simple):
            counts = Counter(dict(rest))
            for size, number in enumerate(shares):
                counts[is_drawn, missing - size] += number
            yield ways * more, tuple(sorted((kind, n) for kind, n in counts.items() if n))


def _shares(count: int, most: int, links: int) -> Iterator[tuple[int, ...]]:
    """How many of ``count`` nodes get 0, 1, ... up to ``most`` of at most so many links."""
    if most <= 0:
        yield (count,)
        return
    for number in range(min(count, links // most) + 1):
        for rest in _shares(count - number, most - 1, links - number * most):
            yield (*rest, number)
