"""Generalized Kautz, Kautz and de Bruijn digraphs: the smallest diameters for their degree."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import gcd
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.topology import Symmetry, Topology
from ocs_codesign.graphs.recipe import Base, Shape, Symmetric, size

if TYPE_CHECKING:
    from numpy.typing import NDArray


@final
@dataclass(frozen=True, slots=True, repr=False)
class GeneralizedKautz(Base):
    """Generalized Kautz digraph: any N = m, fewest steps; not reverse-symmetric.

    Links from x to -d x - a modulo m, a = 1 .. d; self-loops and parallel links are kept. Diameter
    at most the directed Moore bound plus one (Imase and Itoh, 1981).

    >>> recipe = GeneralizedKautz(2, 9)
    >>> str(recipe.predict().t_b), str(recipe.predict("reduce-scatter").t_b)
    ('14/9', '10/9')
    >>> GeneralizedKautz(2, 3).topology().head.tolist()
    [2, 1, 0, 2, 1, 0]
    """

    d: int
    m: int

    notation = "Π({},{})"
    samples = ("2, 2", "2, 3", "2, 8", "2, 9", "3, 7", "4, 9", "5, 4", "3, 40")

    @property
    def shape(self) -> Shape:
        return Shape(size(self.m, "m", 2), size(self.d, "d", 1))

    def build(self) -> Topology:
        d, m = self.d, self.m
        x = np.arange(m, dtype=np.int64)
        heads = (-d * x[:, None] - np.arange(1, d + 1)) % m
        return Topology(m, np.repeat(x, d), heads.ravel(), symmetry=self.symmetry())

    def symmetry(self) -> Symmetry | None:
        """Orbits of nodes, and of links a = 1 .. d out of each; None if only the identity is known.

        Adding t is an automorphism if (d + 1) t = 0 modulo m, and so is x -> -1 - x, which takes
        link a to link d + 1 - a. Together they fix no node if m / gcd(d + 1, m) is even; otherwise
        the first alone do not.

        >>> GeneralizedKautz(2, 4).symmetry().node_orbit.tolist()
        [0, 1, 1, 0]
        """
        d, m = self.d, self.m
        turns = gcd(d + 1, m)
        period = m // turns
        x, a = np.arange(m)[:, None], np.arange(1, d + 1)
        node, link = x % period, (x % period) * d + a
        if period % 2 == 0:
            # -1 - x has the other parity modulo an even period, so it is x for no x.
            back = (-1 - x) % period
            link = np.minimum(link, back * d + d + 1 - a)
            node = np.minimum(node, back)
        elif turns == 1:
            return None
        return Symmetry(_numbered(node), _numbered(link))


@final
@dataclass(frozen=True, slots=True, repr=False)
class Kautz(Symmetric):
    """Kautz digraph Line^k(Complete(d + 1)): N = d^k (d + 1), k + 1 steps.

    Words of k + 1 letters over d + 1, neighbours unequal, linked by shifts. Built as the
    generalized Kautz digraph of that size, which is the same graph.

    >>> Kautz(2, 1).topology().diameter()
    2
    """

    d: int
    k: int

    notation = "Kautz({},{})"
    samples = ("1, 0", "2, 0", "2, 1", "2, 3", "3, 1", "4, 1")

    @property
    def shape(self) -> Shape:
        size(self.k, "k", 0, 64)
        return Shape(size(self.d, "d", 1) ** self.k * (self.d + 1), self.d)

    def build(self) -> Topology:
        return GeneralizedKautz(self.d, self.num_nodes).build()

    def loads(self) -> tuple[Fraction, ...]:
        """T_B = d/(d+1) + sum over i < k of 1/(d^i (d+1))."""
        # With d = 1 the expansions of a pair of nodes are the pair again.
        return tuple(Fraction(self.d**t) for t in range(self.k + 1 if self.d > 1 else 1))

    @property
    def bidirectional(self) -> bool:
        return self.k == 0 or self.d == 1


@final
@dataclass(frozen=True, slots=True, repr=False)
class DeBruijn(Base):
    """De Bruijn digraph: N = d^k, k steps, d self-loops.

    Links from x to d x + a modulo d^k, a = 0 .. d - 1.

    >>> DeBruijn(2, 2).topology().head.tolist()
    [0, 1, 2, 3, 0, 1, 2, 3]
    """

    d: int
    k: int

    notation = "DBJ({},{})"
    samples = ("2, 1", "2, 2", "2, 4", "3, 2", "4, 2")

    reverse_symmetric = True
    has_self_loops = True

    @property
    def shape(self) -> Shape:
        size(self.k, "k", 1, 64)
        return Shape(size(self.d, "d", 2) ** self.k, self.d)

    def build(self) -> Topology:
        nodes, d = self.num_nodes, self.d
        x = np.arange(nodes, dtype=np.int64)
        heads = (d * x[:, None] + np.arange(d)) % nodes
        return Topology(nodes, np.repeat(x, d), heads.ravel())

    def loads(self) -> tuple[Fraction, ...]:
        """T_B = (d/N) (d^k - 1)/(d - 1)."""
        return tuple(Fraction(self.d**t) for t in range(self.k))

    @property
    def bidirectional(self) -> bool:
        return self.k == 1


@final
@dataclass(frozen=True, slots=True, repr=False)
class ModifiedDeBruijn(Base):
    """De Bruijn digraph with its loops made a cycle: N = d^n, n + 1 steps where stored.

    The constant words are joined in a cycle in place of their loops. With two letters the 2-cycle
    of the alternating words is opened too and they join in: 00.. -> 1010.. -> 11.. -> 0101.. ->
    00... Without that (2, 4) needs t_b >= 79/80 in 5 steps, while with this cycle (2, 3), (2, 4),
    (3, 2) and (4, 2) have t_b = (N - 1)/N in n + 1 steps, as published for the modified de Bruijn
    digraphs of these sizes (Zhao et al., arXiv 2202.03356), whose definition is not at hand.

    A solver made the schedules of small sizes; they take routes that are not shortest, which BFB
    cannot. All other sizes have BFB's cost.

    Isomorphic to its transpose for d > 2 (every word reversed and its letters negated), for d = 2
    and even n (every word reversed) and for (2, 3). Declares the symmetry that adds 1 to all
    letters.

    >>> ModifiedDeBruijn(2, 3).predict()
    Cost(steps=4, t_b=Fraction(7, 8))
    >>> ModifiedDeBruijn(2, 2).topology().head.tolist()
    [2, 1, 0, 3, 0, 3, 2, 1]
    """

    d: int
    n: int

    notation = "DBJMod({},{})"
    samples = ("2, 2", "2, 3", "2, 4", "2, 6", "3, 2", "3, 3", "4, 2", "5, 2")

    has_self_loops = False

    @property
    def shape(self) -> Shape:
        size(self.n, "n", 2, 64)
        return Shape(size(self.d, "d", 2) ** self.n, self.d)

    def build(self) -> Topology:
        num_nodes, d, n = self.num_nodes, self.d, self.n
        nodes = np.arange(num_nodes, dtype=np.int64)
        heads = (d * nodes[:, None] + np.arange(d)) % num_nodes
        constant = np.arange(d) * ((num_nodes - 1) // (d - 1))
        heads[constant, np.arange(d)] = np.roll(constant, -1)
        if d == 2:
            zeros, ones = constant.tolist()
            first_one = int("10" * n, 2) >> n
            first_zero = ones - first_one
            heads[zeros, 0], heads[ones, 1] = first_one, first_zero
            heads[first_one, heads[first_one] == first_zero] = ones
            heads[first_zero, heads[first_zero] == first_one] = zeros
        # Words that differ by a constant are an orbit, and so are their links by the same step.
        places = d ** np.arange(n - 1, -1, -1, dtype=np.int64)
        letters = nodes[:, None] // places % d
        orbit = np.unique((letters - letters[:, :1]) % d @ places, return_inverse=True)[1]
        link_orbit = orbit[:, None] * d + (np.arange(d) - letters[:, :1]) % d
        symmetry = Symmetry(orbit.astype(np.int32), link_orbit.ravel().astype(np.int32))
        return Topology(num_nodes, np.repeat(nodes, d), heads.ravel(), symmetry=symmetry)

    @property
    def reverse_symmetric(self) -> bool:
        # Known to be not isomorphic to the transpose for (2, 5) and (2, 7).
        return self.d > 2 or self.n % 2 == 0 or self.n == 3

    @property
    def bidirectional(self) -> bool:
        return self.d == self.n == 2


def _numbered(names: NDArray[np.int64]) -> NDArray[np.int32]:
    """Orbits numbered from 0 in the order of their names."""
    return np.unique(names, return_inverse=True)[1].ravel().astype(np.int32)
