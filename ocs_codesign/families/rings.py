"""Rings, circulants, tori and hypercubes: Cayley graphs of abelian groups with few generators."""

from __future__ import annotations

from fractions import Fraction
from math import comb, prod

from ocs_codesign.families.cayley import abelian, axis_steps
from ocs_codesign.families.shape import Shape, checked_steps, size, sizes
from ocs_codesign.topology import Topology


def circulant_shape(n: int, offsets: tuple[int, ...]) -> Shape:
    """N = n; an offset gives two links a node, one if it is n / 2."""
    size(n, "n", 2)
    sizes(offsets, "offsets", 1, n - 1)
    return Shape(n, len(_both_ways(n, offsets)))


def circulant(n: int, offsets: tuple[int, ...]) -> Topology:
    """Undirected circulant: v is linked with v + a and v - a modulo n for every offset a.

    With d = 4 bandwidth-optimal under BFB for all n <= 120 (recomputed in exact arithmetic).

    >>> circulant(5, (1,)).head.tolist()
    [1, 4, 2, 0, 3, 1, 4, 2, 0, 3]
    """
    circulant_shape(n, offsets)
    return abelian([n], [(shift,) for shift in _both_ways(n, offsets)])


def directed_circulant_shape(n: int, offsets: tuple[int, ...]) -> Shape:
    """N = n, d the number of offsets."""
    size(n, "n", 2)
    return Shape(n, len(sizes(offsets, "offsets", 1, n - 1)))


def directed_circulant(n: int, offsets: tuple[int, ...]) -> Topology:
    """Directed circulant: a link from v to v + a modulo n for every offset a.

    >>> directed_circulant(4, (1, 2)).head.tolist()
    [1, 2, 2, 3, 3, 0, 0, 1]
    """
    directed_circulant_shape(n, offsets)
    return abelian([n], [(offset,) for offset in offsets])


def uni_ring_shape(d: int, m: int) -> Shape:
    """N = m, degree d."""
    return Shape(size(m, "m", 2), size(d, "d", 1))


def uni_ring(d: int, m: int) -> Topology:
    """One-way ring of m nodes with d parallel links from each to the next.

    >>> uni_ring(2, 3).head.tolist()
    [1, 1, 2, 2, 0, 0]
    """
    uni_ring_shape(d, m).check_buildable()
    return abelian([m], [(1,)] * d)


def uni_ring_loads(d: int, m: int) -> tuple[Fraction, ...]:
    """One shard a step over d parallel links."""
    uni_ring_shape(d, m)
    return (Fraction(1, d),) * checked_steps(m - 1)


def bi_ring_shape(d: int, m: int) -> Shape:
    """N = m, degree d (even)."""
    if size(d, "d", 2) % 2:
        raise ValueError(f"d is {d}: a BiRing has d/2 links each way, so d must be even")
    return Shape(size(m, "m", 2), d)


def bi_ring(d: int, m: int) -> Topology:
    """Ring of m nodes with d/2 parallel links each way (m = 2: d parallel links).

    >>> bi_ring(2, 3).head.tolist()
    [1, 2, 2, 0, 0, 1]
    """
    bi_ring_shape(d, m).check_buildable()
    return abelian([m], [(1,)] * (d // 2) + [(-1,)] * (d // 2))


def bi_ring_loads(d: int, m: int) -> tuple[Fraction, ...]:
    """Two shards a step over d links, one in the last step of an even ring."""
    bi_ring_shape(d, m)
    return tuple(Fraction(count, d) for count in _ring_profile(m)[1:])


def torus_shape(sides: tuple[int, ...]) -> Shape:
    """N = product of the sides; two ports a side, one for side 2."""
    sizes(sides, "sides", 2)
    return Shape(prod(sides), sum(1 if side == 2 else 2 for side in sides))


def torus(sides: tuple[int, ...]) -> Topology:
    """Grid with wrap-around links both ways in every dimension; a side of 2 has one link each way.

    >>> torus((3, 2)).degree, torus((3, 2)).diameter()
    (3, 2)
    """
    torus_shape(sides).check_buildable()
    steps = []
    for axis, side in enumerate(sides):
        steps += axis_steps(len(sides), axis, (1,) if side == 2 else (1, -1))
    return abelian(sides, steps)


def torus_loads(sides: tuple[int, ...]) -> tuple[Fraction, ...]:
    """Bandwidth-optimal for any sides: the nodes at every distance spread evenly over d links."""
    degree = torus_shape(sides).degree
    profile = [1]
    for side in sides:
        ring = _ring_profile(side)
        grown = [0] * (len(profile) + len(ring) - 1)
        for i, count in enumerate(profile):
            for j, more in enumerate(ring):
                grown[i + j] += count * more
        profile = grown
    return tuple(Fraction(count, degree) for count in profile[1:])


def hypercube_shape(n: int) -> Shape:
    """N = 2^n, d = n."""
    return Shape(2 ** size(n, "n", 1, 64), n)


def hypercube(n: int) -> Topology:
    """The torus with n sides of 2.

    >>> hypercube(3).num_links
    24
    """
    hypercube_shape(n).check_buildable()
    return torus((2,) * n)


def hypercube_loads(n: int) -> tuple[Fraction, ...]:
    """C(n, t) sources at distance t over n links."""
    hypercube_shape(n)
    return tuple(Fraction(comb(n, t), n) for t in range(1, n + 1))


def _both_ways(n: int, offsets: tuple[int, ...]) -> list[int]:
    shifts = []
    for offset in offsets:
        shifts += [offset] if 2 * offset == n else [offset, -offset]
    return shifts


def _ring_profile(side: int) -> list[int]:
    """Number of nodes at every distance on a two-way ring."""
    return [1] + [2] * checked_steps((side - 1) // 2) + [1] * (side % 2 == 0)
