"""Rounds: the messages of a step as permutations, in which each rank sends and receives once."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

Pair = tuple[int, int]


def rounds_of(pairs: Iterable[Pair]) -> list[list[Pair]]:
    """Pairs of source and target, all different, in as few rounds as the busiest rank has pairs.

    Koenig's way: an edge takes a colour that is free at its source; where another is free at its
    target, both colours change places along the path that begins there.

    >>> rounds_of([(0, 1), (0, 2), (1, 2), (2, 1)])
    [[(0, 2), (2, 1)], [(0, 1), (1, 2)]]
    """
    edges = sorted(pairs)
    busiest = max(
        (Counter(pair[end] for pair in edges).most_common(1)[0][1] for end in (0, 1) if edges),
        default=0,
    )
    sent: dict[int, dict[int, int]] = {source: {} for source, _ in edges}
    got: dict[int, dict[int, int]] = {target: {} for _, target in edges}
    for source, target in edges:
        free = next(colour for colour in range(busiest) if colour not in sent[source])
        other = next(colour for colour in range(busiest) if colour not in got[target])
        if free in got[target]:
            _swap(sent, got, target, free, other)
        sent[source][free] = target
        got[target][free] = source
    return [
        [(source, there[colour]) for source, there in sent.items() if colour in there]
        for colour in range(busiest)
    ]


def _swap(
    sent: dict[int, dict[int, int]],
    got: dict[int, dict[int, int]],
    target: int,
    one: int,
    other: int,
) -> None:
    """Exchange two colours along the path that comes into a target with the first of them."""
    path, node, into, colour = [], target, True, one
    while (following := (got if into else sent)[node].get(colour)) is not None:
        path.append((following, node, colour) if into else (node, following, colour))
        node, into, colour = following, not into, one + other - colour
    for source, end, colour in path:
        del sent[source][colour], got[end][colour]
    for source, end, colour in path:
        sent[source][one + other - colour] = end
        got[end][one + other - colour] = source
