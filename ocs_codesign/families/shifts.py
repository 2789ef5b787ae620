"""Generalized Kautz, Kautz and de Bruijn digraphs: the smallest diameters for their degree."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from ocs_codesign.families.shape import Shape, size
from ocs_codesign.topology import Topology


def generalized_kautz_shape(d: int, m: int) -> Shape:
    """N = m, degree d."""
    return Shape(size(m, "m", 2), size(d, "d", 1))


def generalized_kautz(d: int, m: int) -> Topology:
    """Links from x to -d x - a modulo m, a = 1 .. d; self-loops and parallel links are kept.

    Diameter at most the directed Moore bound plus one (Imase and Itoh, 1981).

    >>> generalized_kautz(2, 3).head.tolist()
    [2, 1, 0, 2, 1, 0]
    """
    generalized_kautz_shape(d, m).check_buildable()
    x = np.arange(m, dtype=np.int64)
    heads = (-d * x[:, None] - np.arange(1, d + 1)) % m
    return Topology(m, np.repeat(x, d), heads.ravel())


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
