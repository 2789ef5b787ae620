"""Cartesian products and powers: nodes are tuples, a link changes one coordinate along a factor.

N multiplies, d and steps add. The last coordinate counts fastest. The links of dimension i come
after those of the dimensions before it; there, link e of the factor at the other coordinates with
rank x is number x * (links of the factor) + e.

Two ways to make a schedule of the factors' schedules:

* in dimension order: all of one dimension, then all of the next with what has been gathered. A
  power cuts the shard into n parts, and part j starts at dimension j, so all links are always busy;
* woven: when every factor is bandwidth-optimal, what both dimensions could deliver at a step is
  split between them such that all links carry the same.

Source: Zhao et al. (arXiv 2202.03356), Cartesian power and product.
"""

from __future__ import annotations

from fractions import Fraction
from functools import reduce
from math import lcm, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.expansions.profile import Profile, profile_of
from ocs_codesign.expansions.weave import weave, woven_loads
from ocs_codesign.families.shape import Shape, size
from ocs_codesign.schedule import Schedule
from ocs_codesign.topology import Symmetry, Topology

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def product_shape(parts: tuple[Shape, ...]) -> Shape:
    """N multiplies, d adds."""
    if len(parts) < 2:
        raise ValueError("a product takes two or more factors")
    return Shape(prod(part.num_nodes for part in parts), sum(part.degree for part in parts))


def product(parts: tuple[Topology, ...]) -> Topology:
    """The Cartesian product of the factors.

    >>> pair = Topology(2, [0, 1], [1, 0])
    >>> product((pair, pair)).head.tolist()
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


def product_loads(
    forward: tuple[Profile, ...], backward: tuple[Profile, ...]
) -> tuple[Fraction, ...]:
    """Woven loads, bandwidth-optimal, if every factor allows it; else those in dimension order."""
    del backward
    woven = _woven(forward)
    if woven is not None:
        return woven.loads
    done, loads = 1, []
    for part in forward:
        loads += [done * load for load in part.loads]
        done *= part.shape.num_nodes
    return tuple(loads)


def product_schedule(forward: tuple[Schedule, ...], backward: tuple[Schedule, ...]) -> Schedule:
    """The woven schedule if every factor allows it, else the one in dimension order."""
    del backward
    if _woven([profile_of(schedule) for schedule in forward]) is not None:
        woven = reduce(weave, forward)
        return woven.on_links_of(product(tuple(schedule.topology for schedule in forward)))
    return _in_dimension_order(forward, [list(range(len(forward)))])


def power_shape(parts: tuple[Shape], n: int) -> Shape:
    """N -> N^n, d -> n d."""
    (part,) = parts
    size(n, "n", 1, 64)
    return Shape(part.num_nodes**n, part.degree * n)


def power(parts: tuple[Topology], n: int) -> Topology:
    """The product of n copies."""
    return product(parts * n) if n > 1 else parts[0]


def power_loads(forward: tuple[Profile], backward: tuple[Profile], n: int) -> tuple[Fraction, ...]:
    """N^k / n times the loads of G in round k = 0 .. n - 1: T_B * N/(N - 1) * (N^n - 1)/N^n."""
    del backward
    (part,) = forward
    nodes = part.shape.num_nodes
    return tuple(Fraction(nodes**k, n) * load for k in range(n) for load in part.loads)


def power_schedule(forward: tuple[Schedule], backward: tuple[Schedule], n: int) -> Schedule:
    """Part j of n parts of the shard runs the dimensions cyclically from j."""
    del backward
    if n == 1:
        return forward[0]
    orders = [[(j + k) % n for k in range(n)] for j in range(n)]
    return _in_dimension_order(forward * n, orders)


def _orbit_grid(parts: list[Topology] | tuple[Topology, ...]) -> NDArray[np.int64]:
    """Node orbit of every tuple of nodes under the product of the groups."""
    grid = np.zeros((), dtype=np.int64)
    for part in parts:
        orbit = part.symmetry.node_orbit  # type: ignore[union-attr]
        grid = grid[..., None] * (int(orbit.max()) + 1) + orbit
    return grid


def _woven(profiles: Sequence[Profile]) -> Profile | None:
    """Profile of the woven product, None if it does not exist."""
    result = profiles[0]
    for profile in profiles[1:]:
        loads = woven_loads(result, profile)
        if loads is None:
            return None
        result = Profile(product_shape((result.shape, profile.shape)), loads)
    return result


def _in_dimension_order(factors: tuple[Schedule, ...], orders: list[list[int]]) -> Schedule:
    """One equal part of every shard an order; in it the dimensions run one after the other."""
    chunks = lcm(*(factor.num_chunks for factor in factors))
    factors = tuple(factor.with_chunks(chunks) for factor in factors)
    rounds = []
    for part, order in enumerate(orders):
        steps = 0
        for turn, axis in enumerate(order):
            rounds.append(_round(factors, axis, order[:turn], part * chunks, steps))
            steps += factors[axis].num_steps
    columns = [np.concatenate(column) for column in zip(*rounds, strict=True)]
    topology = product(tuple(factor.topology for factor in factors))
    return Schedule(topology, factors[0].collective, chunks * len(orders), *columns)


def _round(
    factors: tuple[Schedule, ...], axis: int, done: list[int], first_chunk: int, steps: int
) -> list[NDArray[Any]]:
    """Columns of one dimension's factor schedule on every line of the grid.

    It runs for the shards of all roots that differ from the line only in dimensions already done.
    """
    factor = factors[axis]
    sides = [one.topology.num_nodes for one in factors]
    strides = [prod(sides[i + 1 :]) for i in range(len(sides))]
    grid = np.arange(prod(sides)).reshape(sides)
    lines = np.moveaxis(grid, axis, -1)[..., 0].ravel()
    coordinates = np.unravel_index(lines, sides)
    fixed = lines - sum(coordinates[i] * strides[i] for i in done)
    free = _combinations([np.arange(sides[i]) * strides[i] for i in done])
    links_before = sum(
        one.topology.num_links * (grid.size // side)
        for one, side in zip(factors[:axis], sides[:axis], strict=True)
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
