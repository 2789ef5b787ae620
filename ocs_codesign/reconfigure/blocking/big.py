"""Cheapest plans in Python integers of any size, where int64 ticks are too small."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


def cheapest_plan(
    costs: NDArray[Any],
    rows: NDArray[np.int64],
    edges_of: Callable[[int], NDArray[Any] | int],
    entry: NDArray[Any],
    infinite: int,
) -> tuple[NDArray[np.int32], NDArray[Any]]:
    """The cheapest topology of every step, and the costs to go (S, K), not above ``infinite``.

    ``costs`` (R, K) and ``entry`` (K,) hold Python integers; ``edges_of(row)`` says what switches
    cost before a step of that row. Of equals, the topology held is kept, then the first is taken.
    """
    steps, many = len(rows), costs.shape[1]
    to_go = np.empty((steps, many), dtype=object)
    order = rows.tolist()
    rest = np.zeros(many, dtype=object)
    for step in range(steps - 1, -1, -1):
        if step < steps - 1:
            edges = edges_of(order[step + 1])
            away = rest.min() + edges if isinstance(edges, int) else (edges + rest).min(axis=1)
            rest = np.minimum(rest, away)
        rest = np.minimum(rest + costs[order[step]], infinite)
        to_go[step] = rest
    choice = np.empty(steps, dtype=np.int32)
    held = int(np.argmin(entry + to_go[0]))
    choice[0] = held
    for step in range(1, steps):
        edges = edges_of(order[step])
        ways = to_go[step] + (edges if isinstance(edges, int) else edges[held])
        ways[held] = to_go[step, held]
        best = int(np.argmin(ways))
        held = held if ways[held] <= ways[best] else best
        choice[step] = held
    return choice, to_go
