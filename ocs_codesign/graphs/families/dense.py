"""Complete, complete bipartite and Hamming graphs: few steps, many ports."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import comb
from typing import TYPE_CHECKING, final

from ocs_codesign.graphs.families.rings import abelian, axis_steps
from ocs_codesign.graphs.recipe import Shape, Undirected, size

if TYPE_CHECKING:
    from ocs_codesign.core.topology import Topology


@final
@dataclass(frozen=True, slots=True, repr=False)
class Complete(Undirected):
    """Complete graph on n nodes: d = n - 1, one step, bandwidth-optimal.

    >>> Complete(3).topology().head.tolist(), Complete(3).predict()
    ([1, 2, 2, 0, 0, 1], Cost(steps=1, t_b=Fraction(2, 3)))
    """

    n: int

    notation = "K{}"
    samples = ("2", "3", "7", "12")

    @property
    def shape(self) -> Shape:
        return Shape(size(self.n, "n", 2), self.n - 1)

    def build(self) -> Topology:
        return abelian([self.n], [(offset,) for offset in range(1, self.n)])

    def loads(self) -> tuple[Fraction, ...]:
        """One step of load 1."""
        return (Fraction(1),)


@final
@dataclass(frozen=True, slots=True, repr=False)
class CompleteBipartite(Undirected):
    """Complete bipartite graph on 2d nodes: two steps, bandwidth-optimal.

    The sides are the even and the odd nodes.

    >>> CompleteBipartite(2).topology().head.tolist()
    [1, 3, 2, 0, 3, 1, 0, 2]
    """

    d: int

    notation = "K{0},{0}"
    samples = ("1", "2", "5")

    @property
    def shape(self) -> Shape:
        return Shape(2 * size(self.d, "d", 1), self.d)

    def build(self) -> Topology:
        return abelian([2 * self.d], [(offset,) for offset in range(1, 2 * self.d, 2)])

    def loads(self) -> tuple[Fraction, ...]:
        """The other side, then the d - 1 nodes of the own side spread over d links."""
        d = self.d
        return (Fraction(1), Fraction(d - 1, d)) if d > 1 else (Fraction(1),)


@final
@dataclass(frozen=True, slots=True, repr=False)
class Hamming(Undirected):
    """Hamming graph H(m, q): N = q^m, d = m (q - 1), m steps, bandwidth-optimal.

    Words of m letters over q, linked both ways when they differ in one letter.

    >>> Hamming(2, 3).topology().diameter()
    2
    """

    m: int
    q: int

    notation = "H({},{})"
    samples = ("1, 2", "1, 5", "2, 3", "3, 3", "2, 6")

    @property
    def shape(self) -> Shape:
        size(self.m, "m", 1, 64)
        return Shape(size(self.q, "q", 2) ** self.m, self.m * (self.q - 1))

    def build(self) -> Topology:
        axes = range(self.m)
        steps = [step for axis in axes for step in axis_steps(self.m, axis, range(1, self.q))]
        return abelian([self.q] * self.m, steps)

    def loads(self) -> tuple[Fraction, ...]:
        """Distance-regular: at step t the C(m, t) (q - 1)^t sources spread evenly over d links."""
        m, q, degree = self.m, self.q, self.degree
        return tuple(Fraction(comb(m, t) * (q - 1) ** t, degree) for t in range(1, m + 1))
