"""Cartesian products and powers: N multiplies, d and steps add.

Two ways to make a schedule of the factors' schedules:

* in dimension order: all of one dimension, then all of the next with what has been gathered. A
  power cuts the shard into n parts, and part j starts at dimension j, so all links are always busy;
* woven: when every factor is bandwidth-optimal, what both dimensions could deliver at a step is
  split between them such that all links carry the same.

Source: Zhao et al. (arXiv 2202.03356), Cartesian power and product.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from math import lcm, prod
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.cost import total
from ocs_codesign.core.schedule import Schedule
from ocs_codesign.core.topology import Symmetry, Topology
from ocs_codesign.graphs.recipe import Expanded, Recipe, Shape, Unary, size, superscript

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


# Cartesian products of graphs, and of allgathers in dimension order.
#
# Nodes are tuples, a link changes one coordinate along a factor. The last coordinate counts
# fastest. The links of dimension i come after those of the dimensions before it; there, link e of
# the factor at the other coordinates with rank x is number x * (links of the factor) + e.


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


# Woven product of two bandwidth-optimal allgathers: bandwidth-optimal again, without solving.
#
# In a bandwidth-optimal BFB schedule every node receives exactly n_t = d U_t shards at step t,
# spread evenly over its links. At step t of the product the sources at distances (t, 0) and (0,
# t) must come along their dimension; of each source at distances (t1, t2), both positive, t1 + t2
# = t, the first f_t of the shard comes along dimension 1 exactly as dimension 1 delivers it, the
# rest along dimension 2. All links carry the same if
#
#     f_t = (d1/(d1 + d2) * (all shards of step t) - n1_t) / (shards with both distances positive),
#
# a number that must lie in [0, 1].


_MAX_CHUNKS = 2**31 - 1


@final
@dataclass(frozen=True, slots=True)
class Profile:
    """Shape of a factor and the largest link load, in shards, of every step of its allgather.

    All links have equal speed and all nodes ``shape.degree`` of them.

    >>> Profile(Shape(4, 3), (Fraction(1),)).is_bw_optimal
    True
    """

    shape: Shape
    loads: tuple[Fraction, ...]

    @classmethod
    def of(cls, schedule: Schedule) -> Profile:
        """Profile of an allgather that has been made."""
        topology = schedule.topology
        return cls(Shape(topology.num_nodes, topology.degree), schedule.max_loads())

    @property
    def is_bw_optimal(self) -> bool:
        """Whether the loads add up to (N - 1)/d, the least that any allgather can do."""
        return total(self.loads) * self.shape.degree == self.shape.num_nodes - 1

    @property
    def chunks(self) -> int:
        """Chunks of a shard of which every step carries whole ones, if all links carry the same."""
        return lcm(*{load.denominator for load in self.loads})

    def arrivals(self) -> NDArray[np.object_]:
        """``chunks`` that every node receives at step 0 (its own), 1, ..., as Python integers."""
        whole = self.chunks
        loads = [load.numerator * (whole // load.denominator) for load in self.loads]
        return np.array([whole, *(load * self.shape.degree for load in loads)], dtype=object)


def woven(profiles: Sequence[Profile]) -> tuple[Fraction, ...] | None:
    """Loads of the woven product of two or more factors, or None if a step cannot be balanced."""
    product = profiles[0]
    for factor in profiles[1:]:
        if _shares(product, factor) is None:
            return None
        degree = product.shape.degree + factor.shape.degree
        shape = Shape(product.shape.num_nodes * factor.shape.num_nodes, degree)
        arrivals = _product_of_sums(product.arrivals(), factor.arrivals())
        whole = product.chunks * factor.chunks * degree
        product = Profile(shape, tuple(Fraction(chunks, whole) for chunks in arrivals[1:].tolist()))
    return product.loads


def _product_of_sums(one: NDArray[np.object_], other: NDArray[np.object_]) -> NDArray[Any]:
    """Their convolution, exactly: in 64 bits where no sum can be larger."""
    fits = sum(one.tolist()) * sum(other.tolist()) < 2**63
    kind = np.int64 if fits else object
    return np.convolve(one.astype(kind), other.astype(kind)).astype(object)


def weave(one: Schedule, other: Schedule) -> Schedule:
    """The woven allgather on the product of two topologies, ``other``'s coordinate fastest.

    Both must be BFB allgathers whose profiles ``woven`` accepts; ValueError otherwise.
    """
    shares = _shares(Profile.of(one), Profile.of(other))
    if shares is None:
        raise ValueError("the two schedules cannot be woven: a step cannot be balanced")
    chunks = _num_chunks(shares, one.num_chunks, other.num_chunks)
    cut = np.array([share.numerator * (chunks // share.denominator) for share in shares])
    side = other.topology.num_nodes
    halves = (
        _along(one, other, (side, 1), np.zeros_like(cut), cut, chunks),
        _along(other, one, (1, side), cut, chunks - cut, chunks),
    )
    root, lo, hi, link, step = (np.concatenate(pair) for pair in zip(*halves, strict=True))
    link[len(halves[0][0]) :] += one.topology.num_links * side
    product = cartesian((one.topology, other.topology))
    return Schedule(product, one.collective, chunks, root, lo, hi, link, step)


def _along(
    moving: Schedule,
    resting: Schedule,
    strides: tuple[int, int],
    start: NDArray[np.int64],
    length: NDArray[np.int64],
    chunks: int,
) -> list[NDArray[np.int64]]:
    """Columns of the sends along one factor's links, which are numbered from 0.

    At step t the factor delivers chunks [start[t], start[t] + length[t]) of the shards that both
    factors could, and all chunks of those whose resting coordinate is already right. The strides
    are those of the moving and of the resting coordinate in the numbers of nodes.
    """
    arrival = _arrival_steps(resting)
    step = moving.step[:, None, None] + arrival  # send, resting coordinates of root and of here
    own = arrival == 0
    first, width = np.where(own, 0, start[step]), np.where(own, chunks, length[step])
    lo, hi = (
        first + column.astype(np.int64)[:, None, None] * width // moving.num_chunks
        for column in (moving.lo, moving.hi)
    )
    nodes = np.arange(resting.topology.num_nodes)
    moving_root = moving.root.astype(np.int64)[:, None, None] * strides[0]
    link = moving.link[:, None, None] + nodes * moving.topology.num_links
    columns = (moving_root + nodes[:, None] * strides[1], lo, hi, link, step)
    return [np.broadcast_to(column, step.shape)[lo < hi] for column in columns]


def _arrival_steps(schedule: Schedule) -> NDArray[np.int64]:
    """Step at which root's shard (row) arrives at a node (column), 0 for its own."""
    nodes = schedule.topology.num_nodes
    steps = np.zeros((nodes, nodes), dtype=np.int64)
    steps[schedule.root, schedule.topology.head[schedule.link]] = schedule.step
    return steps


def _shares(one: Profile, other: Profile) -> list[Fraction] | None:
    """f_t for t = 0 .. last step, or None if the product cannot be balanced."""
    if not (one.is_bw_optimal and other.is_bw_optimal):
        return None
    first, second = one.arrivals(), other.arrivals()
    degree = one.shape.degree + other.shape.degree
    arrived = _product_of_sums(first, second)
    n1, n2 = np.zeros_like(arrived), np.zeros_like(arrived)
    n1[: len(first)], n2[: len(second)] = first * other.chunks, second * one.chunks
    mixed, missing = degree * (arrived - n1 - n2), one.shape.degree * arrived - degree * n1
    if not all((missing[1:] >= 0) & (missing[1:] <= mixed[1:])):
        return None
    pairs = zip(missing[1:].tolist(), mixed[1:].tolist(), strict=True)
    shares = [
        Fraction(0),
        *(Fraction(part, whole) if whole else Fraction(0) for part, whole in pairs),
    ]
    # The chunks of both factors' shards are not known here; loads' denominators stand for them.
    return shares if _num_chunks(shares, one.chunks, other.chunks) <= _MAX_CHUNKS else None


def _num_chunks(shares: list[Fraction], first_chunks: int, second_chunks: int) -> int:
    """Fewest chunks in which every share cuts into the chunks of both factors.

    Where they are more than _MAX_CHUNKS, a number that is too.
    """
    fewest = 1
    for share in set(shares):
        parts = (share / first_chunks, (1 - share) / second_chunks, share)
        fewest = lcm(fewest, *(part.denominator for part in parts))
        if fewest > _MAX_CHUNKS:
            break
    return fewest


@final
@dataclass(frozen=True, slots=True, repr=False, init=False)
class Product(Expanded):
    """Cartesian product of two or more factors: N multiplies, d and steps add.

    The factors' loads and schedules are those of BFB, in which every shard arrives at a node in a
    single step: weaving needs that.

    >>> from ocs_codesign.graphs.families.rings import UniRing
    >>> Product(UniRing(1, 4), UniRing(1, 8)).predict()
    Cost(steps=10, t_b=Fraction(31, 32))
    """

    factors: tuple[Recipe, ...]

    samples = (
        "Complete(3), UniRing(1, 3)",
        "UniRing(1, 3), UniRing(1, 4), Complete(2)",
        "DirectedCirculant(8, (1, 3)), UniRing(2, 4)",
        "GeneralizedKautz(2, 5), Complete(3)",
        "DeBruijn(2, 2), UniRing(1, 3)",
        "ModifiedDeBruijn(2, 3), UniRing(1, 3)",
        "Line(Complete(3)), BiRing(2, 5)",
        "Degree(Complete(2), 2), Circulant(7, (2, 3))",
        "Power(GeneralizedKautz(2, 4), 2), Complete(2)",
        "Cayley(Dicyclic(2), ((1, 0), (0, 1))), Torus((3, 2))",
    )

    def __init__(self, *factors: Recipe) -> None:
        object.__setattr__(self, "factors", factors)
        self.__post_init__()

    def arguments(self) -> tuple[Recipe, ...]:
        return self.factors

    @property
    def parts(self) -> tuple[Recipe, ...]:
        return self.factors

    @property
    def shape(self) -> Shape:
        if len(self.factors) < 2:
            raise ValueError("a product takes two or more factors")
        parts = [factor.shape for factor in self.factors]
        return Shape(prod(part.num_nodes for part in parts), sum(part.degree for part in parts))

    def build(self) -> Topology:
        return cartesian([factor.topology() for factor in self.factors])

    def loads(self, transposed: bool) -> tuple[Fraction, ...]:
        """Woven loads, bandwidth-optimal, if every factor allows it; else in dimension order."""
        profiles = self._profiles(transposed)
        loads = woven(profiles)
        if loads is not None:
            return loads
        done, in_order = 1, []
        for profile in profiles:
            in_order += [done * load for load in profile.loads]
            done *= profile.shape.num_nodes
        return tuple(in_order)

    def schedule(self, transposed: bool) -> Schedule:
        """The woven schedule if every factor allows it, else the one in dimension order."""
        forward = [factor.bfb_gather_schedule(transposed=transposed) for factor in self.factors]
        if woven(self._profiles(transposed)) is not None:
            return reduce(weave, forward)
        return in_dimension_order(forward, [list(range(len(forward)))])

    def _profiles(self, transposed: bool) -> list[Profile]:
        return [
            Profile(factor.shape, factor.bfb_gather_loads(transposed=transposed))
            for factor in self.factors
        ]

    def label(self) -> str:
        return "□".join(factor.bracketed_label() for factor in self.factors)


@final
@dataclass(frozen=True, slots=True, repr=False)
class Power(Unary):
    """Cartesian power: N^n, n d, n times the steps, T_B * N/(N - 1) * (N^n - 1)/N^n.

    >>> from ocs_codesign.graphs.families.rings import DirectedCirculant
    >>> Power(DirectedCirculant(8, (1, 3)), 2).predict()
    Cost(steps=6, t_b=Fraction(63, 64))
    """

    g: Recipe
    n: int

    samples = (
        "Complete(3), 2",
        "UniRing(2, 3), 2",
        "GeneralizedKautz(2, 8), 2",
        "GeneralizedKautz(2, 3), 3",
        "DirectedCirculant(8, (1, 3)), 2",
        "Line(Complete(3)), 2",
        "DeBruijn(2, 2), 2",
        "ModifiedDeBruijn(2, 3), 2",
        'Named("diamond"), 1',
    )

    @property
    def shape(self) -> Shape:
        part, n = self.g.shape, size(self.n, "n", 1, 64)
        return Shape(part.num_nodes**n, part.degree * n)

    def build(self) -> Topology:
        return cartesian([self.g.topology()] * self.n)

    def loads(self, transposed: bool) -> tuple[Fraction, ...]:
        """N^k / n times the loads of G in round k = 0 .. n - 1."""
        nodes, part = self.g.num_nodes, self.g.gather_loads(transposed=transposed)
        return tuple(Fraction(nodes**k, self.n) * load for k in range(self.n) for load in part)

    def schedule(self, transposed: bool) -> Schedule:
        """Part j of n parts of the shard runs the dimensions cyclically from j."""
        orders = [[(j + k) % self.n for k in range(self.n)] for j in range(self.n)]
        return in_dimension_order([self.g.gather_schedule(transposed=transposed)] * self.n, orders)

    def label(self) -> str:
        exponent = superscript(self.n) if self.n > 1 else ""
        return f"{self.g.bracketed_label()}□{exponent}"
