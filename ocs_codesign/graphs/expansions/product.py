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
from math import prod
from typing import TYPE_CHECKING, final

from ocs_codesign.graphs.call import superscript
from ocs_codesign.graphs.expansions.cartesian import cartesian, in_dimension_order
from ocs_codesign.graphs.expansions.weave import Profile, weave, woven
from ocs_codesign.graphs.recipe import Expanded, Recipe, Unary
from ocs_codesign.graphs.shape import Shape, size

if TYPE_CHECKING:
    from ocs_codesign.schedule import Schedule
    from ocs_codesign.topology import Topology


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
