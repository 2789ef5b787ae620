"""Generalized Kautz, Kautz and de Bruijn digraphs: the smallest diameters for their degree.

The modified de Bruijn digraph has the de Bruijn digraph's loops made a cycle.
"""

from __future__ import annotations

from fractions import Fraction
from math import gcd
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.families.shape import Shape, size
from ocs_codesign.topology import Symmetry, Topology

if TYPE_CHECKING:
    from numpy.typing import NDArray


def generalized_kautz_shape(d: int, m: int) -> Shape:
    """N = m, degree d."""
    return Shape(size(m, "m", 2), size(d, "d", 1))


def generalized_kautz(d: int, m: int) -> Topology:
    """Links from x to -d x - a modulo m, a = 1 .. d; self-loops and parallel links are kept.

    Diameter at most the directed Moore bound plus one (Imase and Itoh, 1981). Symmetric as
    ``generalized_kautz_symmetry`` says.

    >>> generalized_kautz(2, 3).head.tolist()
    [2, 1, 0, 2, 1, 0]
    """
    generalized_kautz_shape(d, m).check_buildable()
    x = np.arange(m, dtype=np.int64)
    heads = (-d * x[:, None] - np.arange(1, d + 1)) % m
    symmetry = generalized_kautz_symmetry(d, m)
    return Topology(m, np.repeat(x, d), heads.ravel(), symmetry=symmetry)


def generalized_kautz_symmetry(d: int, m: int) -> Symmetry | None:
    """Orbits of nodes, and of links a = 1 .. d out of each; None if only the identity is known.

    Adding t is an automorphism if (d + 1) t = 0 modulo m, and so is x -> -1 - x, which takes link a
    to link d + 1 - a. Together they fix no node if m / gcd(d + 1, m) is even; otherwise the first
    alone do not.

    >>> generalized_kautz_symmetry(2, 4).node_orbit.tolist()
    [0, 1, 1, 0]
    """
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


def _numbered(names: NDArray[np.int64]) -> NDArray[np.int32]:
    """Orbits numbered from 0 in the order of their names."""
    return np.unique(names, return_inverse=True)[1].ravel().astype(np.int32)


def kautz_shape(d: int, k: int) -> Shape:
    """N = d^k (d + 1), degree d."""
    size(k, "k", 0, 64)
    return Shape(size(d, "d", 1) ** k * (d + 1), d)


def kautz(d: int, k: int) -> Topology:
    """Words of k + 1 letters over d + 1, neighbours unequal, linked by shifts: Line^k(Complete).

    Built as the generalized Kautz digraph of that size, which is the same graph.

    >>> kautz(2, 1).diameter()
    2
    """
    shape = kautz_shape(d, k)
    shape.check_buildable()
    return generalized_kautz(d, shape.num_nodes)


def kautz_loads(d: int, k: int) -> tuple[Fraction, ...]:
    """d^(t - 1) at step t = 1 .. k + 1, so T_B = d/(d+1) + sum over i < k of 1/(d^i (d+1))."""
    kautz_shape(d, k)
    # With d = 1 the expansions of a pair of nodes are the pair again.
    return tuple(Fraction(d**t) for t in range(k + 1 if d > 1 else 1))


def de_bruijn_shape(d: int, k: int) -> Shape:
    """N = d^k, degree d."""
    size(k, "k", 1, 64)
    return Shape(size(d, "d", 2) ** k, d)


def de_bruijn(d: int, k: int) -> Topology:
    """Links from x to d x + a modulo d^k, a = 0 .. d - 1; d of them are self-loops.

    >>> de_bruijn(2, 2).head.tolist()
    [0, 1, 2, 3, 0, 1, 2, 3]
    """
    shape = de_bruijn_shape(d, k)
    shape.check_buildable()
    x = np.arange(shape.num_nodes, dtype=np.int64)
    heads = (d * x[:, None] + np.arange(d)) % shape.num_nodes
    return Topology(shape.num_nodes, np.repeat(x, d), heads.ravel())


def de_bruijn_loads(d: int, k: int) -> tuple[Fraction, ...]:
    """d^(t - 1) at step t, so T_B = (d/N) (d^k - 1)/(d - 1)."""
    de_bruijn_shape(d, k)
    return tuple(Fraction(d**t) for t in range(k))


def modified_de_bruijn_shape(d: int, n: int) -> Shape:
    """N = d^n, degree d."""
    size(n, "n", 2, 64)
    return Shape(size(d, "d", 2) ** n, d)


def modified_de_bruijn(d: int, n: int) -> Topology:
    """The de Bruijn digraph of d letters and n-letter words, its d self-loops made a cycle.

    The constant words are joined in a cycle in place of their loops. With two letters the 2-cycle
    of the alternating words is opened too and they join in: 00.. -> 1010.. -> 11.. -> 0101.. ->
    00... Without that (2, 4) needs t_b >= 79/80 in 5 steps, while with this cycle (2, 3), (2, 4),
    (3, 2) and (4, 2) have t_b = (N - 1)/N in n + 1 steps, as published for the modified de Bruijn
    digraphs of these sizes (Zhao et al., arXiv 2202.03356), whose definition is not at hand.

    Isomorphic to its transpose for d > 2 (every word reversed and its letters negated), for d = 2
    and even n (every word reversed) and for (2, 3). Declares the symmetry that adds 1 to all
    letters.

    >>> modified_de_bruijn(2, 2).head.tolist()
    [2, 1, 0, 3, 0, 3, 2, 1]
    """
    shape = modified_de_bruijn_shape(d, n)
    shape.check_buildable()
    nodes = np.arange(shape.num_nodes, dtype=np.int64)
    heads = (d * nodes[:, None] + np.arange(d)) % shape.num_nodes
    constant = np.arange(d) * ((shape.num_nodes - 1) // (d - 1))
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
    return Topology(shape.num_nodes, np.repeat(nodes, d), heads.ravel(), symmetry=symmetry)
