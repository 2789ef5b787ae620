"""Circulants, rings, tori and hypercubes: Cayley graphs of abelian groups with few generators."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import comb, prod
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.topology import Symmetry, Topology
from ocs_codesign.graphs.recipe import Shape, Symmetric, Undirected, checked_steps, size, sizes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


# Topologies on which a group acts regularly: one orbit of nodes, one of links a port.
#
# One receiver then tells the cost of all.


def transitive(heads: list[NDArray[np.int64]] | NDArray[np.int64]) -> Topology:
    """Topology whose i-th link out of node v leads to heads[i][v], a regular group action."""
    nodes, degree = len(heads[0]), len(heads)
    return Topology(
        nodes,
        np.repeat(np.arange(nodes, dtype=np.int32), degree),
        np.asarray(heads, dtype=np.int32).T.ravel(),
        symmetry=Symmetry(
            np.zeros(nodes, dtype=np.int32), np.tile(np.arange(degree, dtype=np.int32), nodes)
        ),
    )


def abelian(moduli: Sequence[int], steps: Sequence[Sequence[int]]) -> Topology:
    """The Cayley digraph of Z_m1 x Z_m2 x ...; nodes count with the last coordinate fastest.

    >>> abelian((2, 2), [(0, 1), (1, 0)]).head.tolist()
    [1, 2, 0, 3, 3, 0, 2, 1]
    """
    shape = Shape(prod(moduli), len(steps))
    shape.check_buildable()
    coordinates = np.unravel_index(np.arange(shape.num_nodes), tuple(moduli))
    shifts = np.array(steps, dtype=np.int64).reshape(len(steps), len(moduli)).T
    heads = np.zeros((len(steps), shape.num_nodes), dtype=np.int64)
    for coordinate, shift, modulus in zip(coordinates, shifts, moduli, strict=True):
        heads = heads * modulus + (coordinate + shift[:, None]) % modulus
    return transitive(heads)


def axis_steps(num_axes: int, axis: int, shifts: Sequence[int]) -> list[tuple[int, ...]]:
    """Vectors that are zero but for one axis, one a shift."""
    return [tuple(shift if i == axis else 0 for i in range(num_axes)) for shift in shifts]


@final
@dataclass(frozen=True, slots=True, repr=False)
class Circulant(Undirected):
    """Undirected circulant graph: v is linked with v + a and v - a for every offset a.

    An offset gives two links a node, one if it is n / 2. With d = 4 bandwidth-optimal under BFB for
    all n <= 120 (recomputed in exact arithmetic).

    >>> Circulant(5, (1,)).topology().head.tolist()
    [1, 4, 2, 0, 3, 1, 4, 2, 0, 3]
    """

    n: int
    offsets: tuple[int, ...]

    samples = ("2, (1,)", "6, (3, 1)", "9, (2, 3)", "7, (2, 5)", "12, (1, 1)", "30, (4, 9, 10)")

    @property
    def shape(self) -> Shape:
        size(self.n, "n", 2)
        sizes(self.offsets, "offsets", 1, self.n - 1)
        return Shape(self.n, len(self._shifts()))

    def build(self) -> Topology:
        return abelian([self.n], [(shift,) for shift in self._shifts()])

    def _shifts(self) -> list[int]:
        shifts = []
        for offset in self.offsets:
            shifts += [offset] if 2 * offset == self.n else [offset, -offset]
        return shifts

    def label(self) -> str:
        return f"C({self.n},{_set(self.offsets)})"


@final
@dataclass(frozen=True, slots=True, repr=False)
class DirectedCirculant(Symmetric):
    """Directed circulant graph: a link from v to v + a for every offset a.

    >>> DirectedCirculant(4, (1, 2)).topology().head.tolist()
    [1, 2, 2, 3, 3, 0, 0, 1]
    >>> DirectedCirculant(8, (1, 3)).predict()
    Cost(steps=3, t_b=Fraction(7, 8))
    """

    n: int
    offsets: tuple[int, ...]

    samples = ("2, (1,)", "5, (1, 1, 2)", "8, (1, 3)", "16, (1, 4, 5)", "20, (3, 11)")

    @property
    def shape(self) -> Shape:
        size(self.n, "n", 2)
        return Shape(self.n, len(sizes(self.offsets, "offsets", 1, self.n - 1)))

    def build(self) -> Topology:
        return abelian([self.n], [(offset,) for offset in self.offsets])

    @property
    def bidirectional(self) -> bool:
        return sorted(self.offsets) == sorted(self.n - offset for offset in self.offsets)

    def label(self) -> str:
        return f"DiC({self.n},{_set(self.offsets)})"


@final
@dataclass(frozen=True, slots=True, repr=False)
class UniRing(Symmetric):
    """One-way ring of m nodes, d parallel links: m - 1 steps, bandwidth-optimal.

    >>> UniRing(2, 3).topology().head.tolist()
    [1, 1, 2, 2, 0, 0]
    """

    d: int
    m: int

    notation = "UniRing({},{})"
    samples = ("1, 2", "1, 5", "3, 4", "2, 9")

    @property
    def shape(self) -> Shape:
        return Shape(size(self.m, "m", 2), size(self.d, "d", 1))

    def build(self) -> Topology:
        return abelian([self.m], [(1,)] * self.d)

    def loads(self) -> tuple[Fraction, ...]:
        """One shard a step over d parallel links."""
        return (Fraction(1, self.d),) * checked_steps(self.m - 1)

    @property
    def bidirectional(self) -> bool:
        return self.m == 2


@final
@dataclass(frozen=True, slots=True, repr=False)
class BiRing(Undirected):
    """Two-way ring of m nodes, d/2 parallel links each way: floor(m/2) steps, bandwidth-optimal.

    With m = 2 there are d parallel links each way.

    >>> BiRing(2, 3).topology().head.tolist()
    [1, 2, 2, 0, 0, 1]
    """

    d: int
    m: int

    notation = "BiRing({},{})"
    samples = ("2, 2", "2, 3", "4, 5", "2, 8", "6, 4")

    @property
    def shape(self) -> Shape:
        if size(self.d, "d", 2) % 2:
            raise ValueError(f"d is {self.d}: a BiRing has d/2 links each way, so d must be even")
        return Shape(size(self.m, "m", 2), self.d)

    def build(self) -> Topology:
        return abelian([self.m], [(1,)] * (self.d // 2) + [(-1,)] * (self.d // 2))

    def loads(self) -> tuple[Fraction, ...]:
        """Two shards a step over d links, one in the last step of an even ring."""
        counts = _nodes_at_distances(self.m)[1:]
        loads = {count: Fraction(count, self.d) for count in set(counts)}  # two in a thousand
        return tuple(loads[count] for count in counts)


@final
@dataclass(frozen=True, slots=True, repr=False)
class Torus(Undirected):
    """Torus with the given sides: floor(side/2) steps a side, bandwidth-optimal for any sides.

    A grid with wrap-around links both ways in every dimension; a side of 2 has one link each way.

    >>> Torus((3, 2)).degree, Torus((3, 2)).topology().diameter()
    (3, 2)
    """

    sides: tuple[int, ...]

    samples = ("(2,)", "(5,)", "(3, 2)", "(2, 2, 4)", "(5, 4)", "(3, 3, 2)")

    @property
    def shape(self) -> Shape:
        sizes(self.sides, "sides", 2)
        return Shape(prod(self.sides), sum(1 if side == 2 else 2 for side in self.sides))

    def build(self) -> Topology:
        steps = []
        for axis, side in enumerate(self.sides):
            steps += axis_steps(len(self.sides), axis, (1,) if side == 2 else (1, -1))
        return abelian(self.sides, steps)

    def loads(self) -> tuple[Fraction, ...]:
        """The nodes at every distance spread evenly over d links."""
        spheres = np.array([1], dtype=object)
        checked_steps(sum(side // 2 for side in self.sides))
        for side in self.sides:
            if len(spheres) * (side // 2 + 1) > _MAX_PRODUCTS:
                raise ValueError(f"{self!r} has sides too long to count what is at every distance")
            spheres = np.convolve(spheres, np.array(_nodes_at_distances(side), dtype=object))
        degree = self.degree
        return tuple(Fraction(count, degree) for count in spheres[1:])

    def label(self) -> str:
        return "Torus " + "×".join(map(str, self.sides))


@final
@dataclass(frozen=True, slots=True, repr=False)
class Hypercube(Undirected):
    """Hypercube of dimension n: N = 2^n, n steps, bandwidth-optimal; the torus with n sides of 2.

    >>> Hypercube(3).topology().num_links
    24
    """

    n: int

    notation = "Q{}"
    samples = ("1", "2", "4", "6")

    @property
    def shape(self) -> Shape:
        return Shape(2 ** size(self.n, "n", 1, 64), self.n)

    def build(self) -> Topology:
        return Torus((2,) * self.n).build()

    def loads(self) -> tuple[Fraction, ...]:
        """C(n, t) sources at distance t over n links."""
        return tuple(Fraction(comb(self.n, t), self.n) for t in range(1, self.n + 1))


_MAX_PRODUCTS = 2**23
"""Products of whole numbers that counting nodes at a distance may take for a side: a second."""


def _set(values: tuple[int, ...]) -> str:
    return "{" + ",".join(map(str, values)) + "}"


def _nodes_at_distances(side: int) -> list[int]:
    """Number of nodes at every distance on a two-way ring."""
    return [1] + [2] * checked_steps((side - 1) // 2) + [1] * (side % 2 == 0)
