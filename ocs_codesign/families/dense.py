"""Complete, complete bipartite and Hamming graphs: few steps, many ports."""

from __future__ import annotations

from fractions import Fraction
from math import comb

from ocs_codesign.families.cayley import abelian, axis_steps
from ocs_codesign.families.shape import Shape, size
from ocs_codesign.topology import Topology


def complete_shape(n: int) -> Shape:
    """N = n, d = n - 1."""
    return Shape(size(n, "n", 2), n - 1)


def complete(n: int) -> Topology:
    """Every node has a link to every other.

    >>> complete(3).head.tolist()
    [1, 2, 2, 0, 0, 1]
    """
    complete_shape(n)
    return abelian([n], [(offset,) for offset in range(1, n)])


def complete_loads(n: int) -> tuple[Fraction, ...]:
    """One step of load 1."""
    complete_shape(n)
    return (Fraction(1),)


def complete_bipartite_shape(d: int) -> Shape:
    """N = 2d, degree d."""
    return Shape(2 * size(d, "d", 1), d)


def complete_bipartite(d: int) -> Topology:
    """Two sides of d nodes (even and odd), a link each way between any two of different sides.

    >>> complete_bipartite(2).head.tolist()
    [1, 3, 2, 0, 3, 1, 0, 2]
    """
    complete_bipartite_shape(d)
    return abelian([2 * d], [(offset,) for offset in range(1, 2 * d, 2)])


def complete_bipartite_loads(d: int) -> tuple[Fraction, ...]:
    """The other side, then the d - 1 nodes of the own side spread over d links."""
    complete_bipartite_shape(d)
    return (Fraction(1), Fraction(d - 1, d)) if d > 1 else (Fraction(1),)


def hamming_shape(m: int, q: int) -> Shape:
    """N = q^m, d = m (q - 1)."""
    size(m, "m", 1, 64)
    return Shape(size(q, "q", 2) ** m, m * (q - 1))


def hamming(m: int, q: int) -> Topology:
    """Words of m letters over q, linked both ways when they differ in one letter.

    >>> hamming(2, 3).diameter()
    2
    """
    hamming_shape(m, q).check_buildable()
    steps = [step for axis in range(m) for step in axis_steps(m, axis, range(1, q))]
    return abelian([q] * m, steps)


def hamming_loads(m: int, q: int) -> tuple[Fraction, ...]:
    """Distance-regular, so at step t the C(m, t) (q - 1)^t sources spread evenly over d links."""
    degree = hamming_shape(m, q).degree
    return tuple(Fraction(comb(m, t) * (q - 1) ** t, degree) for t in range(1, m + 1))
