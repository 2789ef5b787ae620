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
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.expansions.profile import Profile
from ocs_codesign.expansions.weave import weave, woven_loads
from ocs_codesign.families.shape import Shape, size
from ocs_codesign.schedule import Schedule
from ocs_codesign.topology import Symmetry, Topology

if TYPE_CHECKING:
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
    woven = reduce(_woven, forward[1:], forward[0])
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
    profiles = [_profile(schedule) for schedule in forward]
    if reduce(_woven, profiles[1:], profiles[0]) is not None:
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


def _profile(schedule: Schedule) -> Profile:
    topology = schedule.topology
    return Profile(Shape(topology.num_nodes, topology.degree), schedule.max_loads())


def _woven(one: Profile | None, other: Profile) -> Profile | None:
    """Profile of the woven product of two, None if it does not exist."""
    loads = None if one is None else woven_loads(one, other)
    if one is None or loads is None:
        return None
    return Profile(product_shape((one.shape, other.shape)), loads)


def _in_dimension_order(factors: tuple[Schedule, ...], orders: list[list[int]]) -> Schedule:
    """One equal part of every shard an order; in it the dimensions run one after the other.

    In its round a dimension runs its factor's schedule on every line of the grid, for the shards of
    all roots that differ from the line only in dimensions already run.
    """
    chunks = lcm(*(factor.num_chunks for factor in factors))
    factors = tuple(factor.with_chunks(chunks) for factor in factors)
    sides = [factor.topology.num_nodes for factor in factors]
    strides = [prod(sides[axis + 1 :]) for axis in range(len(sides))]
    links = [
        factor.topology.num_links * prod(sides) // side
        for factor, side in zip(factors, sides, strict=True)
    ]
    pieces: list[list[NDArray[np.int64]]] = []
    for part, order in enumerate(orders):
        steps = 0
        for turn, axis in enumerate(order):
            factor = factors[axis]
            others = [i for i in range(len(sides)) if i != axis]
            at = [np.arange(sides[i]) for i in others]
            rank = np.arange(prod(sides[i] for i in others))
            coordinates = np.meshgrid(*at, indexing="ij")
            fixed = sum(
                (
                    grid.ravel() * strides[i]
                    for i, grid in zip(others, coordinates, strict=True)
                    if i not in order[:turn]
                ),
                start=np.zeros(len(rank), dtype=np.int64),
            )
            free = _combinations([np.arange(sides[i]) * strides[i] for i in order[:turn]])
            shape = (factor.num_sends, len(rank), len(free))
            root = (factor.root.astype(np.int64) * strides[axis])[:, None, None]
            root = root + fixed[:, None] + free
            link = sum(links[:axis]) + rank * factor.topology.num_links
            link = (factor.link[:, None] + link)[:, :, None]
            pieces.append(
                [
                    np.broadcast_to(column, shape).ravel()
                    for column in (
                        root,
                        (factor.lo + part * chunks)[:, None, None],
                        (factor.hi + part * chunks)[:, None, None],
                        link,
                        (factor.step + steps)[:, None, None],
                    )
                ]
            )
            steps += factor.num_steps
    columns = [np.concatenate(column) for column in zip(*pieces, strict=True)]
    topology = product(tuple(factor.topology for factor in factors))
    return Schedule(topology, factors[0].collective, chunks * len(orders), *columns)


def _combinations(terms: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """All sums of one entry of every array."""
    sums = np.zeros(1, dtype=np.int64)
    for term in terms:
        sums = (sums[:, None] + term).ravel()
    return sums
