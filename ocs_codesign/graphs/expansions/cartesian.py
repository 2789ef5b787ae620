"""Cartesian products of graphs, and of allgathers in dimension order.

Nodes are tuples, a link changes one coordinate along a factor. The last coordinate counts fastest.
The links of dimension i come after those of the dimensions before it; there, link e of the factor
at the other coordinates with rank x is number x * (links of the factor) + e.
"""

from __future__ import annotations

from math import lcm, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.schedule import Schedule
from ocs_codesign.topology import Symmetry, Topology

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def cartesian(parts: Sequence[Topology]) -> Topology:
    """The Cartesian product of the factors.

    >>> pair = Topology(2, [0, 1], [1, 0])
    >>> cartesian((pair, pair)).head.tolist()
    [2, 0, 3, 1, 1, 0, 3, 2]
    """
    nodes = prod(part.num_nodes for part in parts)
    grid = np.arange(nodes).reshape([part.num_nodes for part in parts])
    tails, heads, orbits = [], [], []
    symmetric = all(part.symmetry is not None for part in parts)
    next_orbit = 0
    for axis, part in enumerate(parts):
        lines = np.moveaxis(grid, axis, -1).reshape(-1, part.num_nodes)
        tails.append(lines[:, part.tail].ravel())
        heads.append(lines[:, part.head].ravel())
        if symmetric:
            others = _orbit_grid([p for i, p in enumerate(parts) if i != axis]).ravel()
            links = part.symmetry.link_orbit  # type: ignore[union-attr]
            count = int(links.max()) + 1
            orbits.append((next_orbit + others[:, None] * count + links).ravel())
            next_orbit += (int(others.max()) + 1) * count
    symmetry = None
    if symmetric:
        symmetry = Symmetry(
            _orbit_grid(parts).ravel().astype(np.int32), np.concatenate(orbits).astype(np.int32)
        )
    return Topology(nodes, np.concatenate(tails), np.concatenate(heads), symmetry=symmetry)


def in_dimension_order(factors: Sequence[Schedule], orders: list[list[int]]) -> Schedule:
    """One equal part of every shard an order; in it the dimensions run one after the other."""
    chunks = lcm(*(factor.num_chunks for factor in factors))
    factors = [factor.with_chunks(chunks) for factor in factors]
    rounds = []
    for part, order in enumerate(orders):
        steps = 0
        for turn, axis in enumerate(order):
            rounds.append(_round(factors, axis, order[:turn], part * chunks, steps))
            steps += factors[axis].num_steps
    columns = [np.concatenate(column) for column in zip(*rounds, strict=True)]
    topology = cartesian([factor.topology for factor in factors])
    return Schedule(topology, factors[0].collective, chunks * len(orders), *columns)


def _orbit_grid(parts: Sequence[Topology]) -> NDArray[np.int64]:
    """Node orbit of every tuple of nodes under the product of the groups."""
    grid = np.zeros((), dtype=np.int64)
    for part in parts:
        orbit = part.symmetry.node_orbit  # type: ignore[union-attr]
        grid = grid[..., None] * (int(orbit.max()) + 1) + orbit
    return grid


def _round(
    factors: Sequence[Schedule], axis: int, done: list[int], first_chunk: int, steps: int
) -> list[NDArray[Any]]:
    """Columns of one dimension's factor schedule on every line of the grid.

    It runs for the shards of all roots that differ from the line only in dimensions already done.
    """
    factor = factors[axis]
    sides = [each.topology.num_nodes for each in factors]
    strides = [prod(sides[i + 1 :]) for i in range(len(sides))]
    grid = np.arange(prod(sides)).reshape(sides)
    lines = np.moveaxis(grid, axis, -1)[..., 0].ravel()
    coordinates = np.unravel_index(lines, sides)
    fixed = lines - sum(coordinates[i] * strides[i] for i in done)
    free = _combinations([np.arange(sides[i]) * strides[i] for i in done])
    links_before = sum(
        each.topology.num_links * (grid.size // side)
        for each, side in zip(factors[:axis], sides[:axis], strict=True)
    )
    line_links = links_before + np.arange(len(lines)) * factor.topology.num_links
    root = (factor.root.astype(np.int64) * strides[axis])[:, None, None] + fixed[:, None] + free
    columns: list[NDArray[Any]] = [
        root,
        (factor.lo + first_chunk)[:, None, None],
        (factor.hi + first_chunk)[:, None, None],
        (factor.link[:, None] + line_links)[:, :, None],
        (factor.step + steps)[:, None, None],
    ]
    return [np.broadcast_to(column, root.shape).ravel() for column in columns]


def _combinations(terms: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """All sums of one entry of every array."""
    sums = np.zeros(1, dtype=np.int64)
    for term in terms:
        sums = (sums[:, None] + term).ravel()
    return sums
