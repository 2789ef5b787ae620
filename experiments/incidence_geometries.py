"""Incidence graphs of small geometries: the points first, then the lines.

The finite fields are GF(3), as integers modulo 3, and GF(4), as polynomials over GF(2) packed in
two bits. Every construction numbers points and lines in lexicographic order, so its edge list is
always the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from itertools import combinations, product
from operator import mul
from typing import TypeVar

Edges = list[tuple[int, int]]
Vector = tuple[int, ...]
T = TypeVar("T", bound=Hashable)


def incidence_edges(points: Sequence[T], lines: Iterable[Collection[T]]) -> Edges:
    """Edges (i, len(points) + j) for point i on line j."""
    number = {point: i for i, point in enumerate(points)}
    return [(number[p], len(points) + j) for j, line in enumerate(lines) for p in line]


def difference_set_incidence(modulus: int, block: Collection[int]) -> Edges:
    """The cyclic design whose lines are the translates of a difference set (Singer, 1938).

    {0, 1, 3} mod 7 gives the Fano plane PG(2,2), and {0, 1, 3, 9} mod 13 the plane PG(2,3).
    """
    lines = [[(x + shift) % modulus for x in block] for shift in range(modulus)]
    return incidence_edges(range(modulus), lines)


def _multiply_gf4(a: int, b: int) -> int:
    """The product in GF(4) = GF(2)[x] / (x^2 + x + 1); bit i is the coefficient of x^i."""
    carryless = (a if b & 1 else 0) ^ (a << 1 if b & 2 else 0)
    return carryless ^ 0b111 if carryless & 0b100 else carryless


def affine_plane_4_minus_class() -> Edges:
    """AG(2,4) without its vertical lines: the 16 points and 16 lines y = m x + b over GF(4).

    Brouwer, Cohen and Neumaier, Distance-Regular Graphs (1989).
    """
    points = list(product(range(4), repeat=2))
    lines = [[(x, _multiply_gf4(m, x) ^ b) for x in range(4)] for m, b in points]
    return incidence_edges(points, lines)


def symplectic_quadrangle_3() -> Edges:
    """The generalized quadrangle W(3) of order (3,3) (Payne and Thas, 1984).

    Its 40 points are those of PG(3,3), its 40 lines the totally isotropic lines of the form
    x0 y1 - x1 y0 + x2 y3 - x3 y2.
    """
    points = _projective_points(4, 3)

    def isotropic(x: Vector, y: Vector) -> bool:
        return (_plucker(x, y, 0, 1) + _plucker(x, y, 2, 3)) % 3 == 0

    return incidence_edges(points, _lines(points, isotropic, 3))


def split_cayley_hexagon_3() -> Edges:
    """The split Cayley generalized hexagon H(3) of order (3,3) (Tits, 1959).

    Its 364 points are those of the parabolic quadric Q(6,3), x0 x4 + x1 x5 + x2 x6 = x3^2, its
    364 lines the lines on the quadric whose Grassmann coordinates satisfy Tits' six equations.
    """
    points = [x for x in _projective_points(7, 3) if _quadric_polar(x, x) % 3 == 0]

    def on_hexagon(x: Vector, y: Vector) -> bool:
        return _quadric_polar(x, y) % 3 == 0 and all(
            (_plucker(x, y, *left) - _plucker(x, y, *right)) % 3 == 0
            for left, right in _TITS_EQUATIONS
        )

    return incidence_edges(points, _lines(points, on_hexagon, 3))


_TITS_EQUATIONS = (
    ((1, 2), (3, 4)),
    ((5, 4), (3, 2)),
    ((2, 0), (3, 5)),
    ((6, 5), (3, 0)),
    ((0, 1), (3, 6)),
    ((4, 6), (3, 1)),
)
"""((i, j), (k, l)) for p_ij = p_kl (Van Maldeghem, Generalized Polygons, 1998)."""


def polarity_quotient(num_nodes: int, pairs: Iterable[tuple[int, int]]) -> Edges:
    """Points joined where one is on the image of the other under a polarity.

    Absolute points, on their own image, would have loops: they are joined in pairs, in order.
    """
    met = set(pairs)
    absolute = [node for node in range(num_nodes) if (node, node) in met]
    edges = [(node, other) for node, other in met if node < other]
    return edges + list(zip(absolute[::2], absolute[1::2], strict=True))


def orthogonal_points(q: int) -> Edges:
    """Brown's graph of PG(2, q), q prime: points with x y = 0 (Brown, 1966).

    With its q + 1 absolute points joined, q odd, it has degree q + 1 and q^2 + q + 1 nodes.
    """
    points = list(enumerate(_projective_points(3, q)))
    products = ((i, j, sum(map(mul, x, y))) for i, x in points for j, y in points)
    return polarity_quotient(len(points), ((i, j) for i, j, value in products if value % q == 0))


def hexagon_quotient_3() -> Edges:
    """The quotient of the hexagon H(3) by a polarity (Delorme, 1985), absolute points joined.

    A point has up to five coordinates. It is on the line that has one coordinate less, and with
    all five on the three lines of Van Maldeghem's four equations, modulo 3; the polarity takes a
    point to the line with the same coordinates.
    """
    points = [point for length in range(6) for point in product(range(3), repeat=length)]
    number = {point: i for i, point in enumerate(points)}
    pairs = [(0, 0)]
    for point in points[1:]:
        pairs += [(number[point[:-1]], number[point]), (number[point], number[point[:-1]])]
    for point in points[-(3**5) :]:
        a, b, c, d, e = point
        for k in range(3):
            line = (k, e - a * k, a * k * k + d - k * b, a * a * k + c + a * e, a * k + b)
            pairs.append((number[point], number[tuple(entry % 3 for entry in line)]))
    return polarity_quotient(len(points), pairs)


def mckay_miller_siran_4() -> Edges:
    """The McKay-Miller-Siran graph of GF(4): points and lines y = m x + c, of which some meet.

    Points of equal x meet if their y differ by 1 or 3, lines of equal m if their c do by 1 or 2:
    powers of the generator 2 with even and with odd exponents (Siagiova, 2001).
    """
    flags = list(product(range(4), repeat=2))
    edges = [
        (4 * x + y, 16 + 4 * m + c)
        for m, c in flags
        for x, y in flags
        if y == _multiply_gf4(m, x) ^ c
    ]
    for column, value in flags:
        edges += [(4 * column + value, 4 * column + (value ^ step)) for step in (1, 3)]
        edges += [(16 + 4 * column + value, 16 + 4 * column + (value ^ step)) for step in (1, 2)]
    return edges


def _quadric_polar(x: Vector, y: Vector) -> int:
    """The polar form of x0 x4 + x1 x5 + x2 x6 - x3^2; at y = x it is twice the quadratic form."""
    return sum(x[i] * y[i + 4] + x[i + 4] * y[i] for i in range(3)) - 2 * x[3] * y[3]


def _plucker(x: Vector, y: Vector, i: int, j: int) -> int:
    """The Grassmann coordinate p_ij of the line through x and y."""
    return x[i] * y[j] - x[j] * y[i]


def _projective_points(dimension: int, q: int) -> list[Vector]:
    """The points of PG(dimension - 1, q), q prime: vectors whose first nonzero entry is 1."""
    vectors = product(range(q), repeat=dimension)
    return [x for x in vectors if next((entry for entry in x if entry), 0) == 1]


def _lines(
    points: Sequence[Vector], accept: Callable[[Vector, Vector], bool], q: int
) -> list[tuple[Vector, ...]]:
    """The lines through two of the points that are accepted, each as its sorted points."""
    return sorted({_span(x, y, q) for x, y in combinations(points, 2) if accept(x, y)})


def _span(x: Vector, y: Vector, q: int) -> tuple[Vector, ...]:
    """The q + 1 points of the line through x and y over GF(q), q prime, sorted."""
    sums = [tuple((a * s + b) % q for a, b in zip(x, y, strict=True)) for s in range(q)]
    return tuple(sorted([x, *(_normalized(vector, q) for vector in sums)]))


def _normalized(vector: Vector, q: int) -> Vector:
    """The multiple of a nonzero vector over GF(q), q prime, whose first nonzero entry is 1."""
    inverse = pow(next(entry for entry in vector if entry), -1, q)
    return tuple(entry * inverse % q for entry in vector)
