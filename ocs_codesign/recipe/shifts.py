"""Recipes of shift digraphs: generalized Kautz, Kautz, de Bruijn and modified de Bruijn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from ocs_codesign.recipe.base import Base


class _ReverseSymmetric(Base):
    """A base that is isomorphic to its transpose."""

    __slots__ = ()

    @property
    def reverse_symmetric(self) -> bool:
        return True


@final
@dataclass(frozen=True, slots=True, repr=False)
class GeneralizedKautz(Base):
    """Generalized Kautz digraph (Imase and Itoh): any N = m, fewest steps; not reverse-symmetric.

    >>> recipe = GeneralizedKautz(2, 9)
    >>> str(recipe.predict().t_b), str(recipe.predict("reduce-scatter").t_b)
    ('14/9', '10/9')
    """

    d: int
    m: int

    def label(self) -> str:
        return f"Π({self.d},{self.m})"


@final
@dataclass(frozen=True, slots=True, repr=False)
class Kautz(_ReverseSymmetric):
    """Kautz digraph Line^k(Complete(d + 1)): N = d^k (d + 1), k + 1 steps."""

    d: int
    k: int

    @property
    def has_self_loops(self) -> bool:
        return False

    @property
    def bidirectional(self) -> bool:
        return self.k == 0 or self.d == 1

    def label(self) -> str:
        return f"Kautz({self.d},{self.k})"


@final
@dataclass(frozen=True, slots=True, repr=False)
class DeBruijn(_ReverseSymmetric):
    """De Bruijn digraph: N = d^k, k steps, d self-loops."""

    d: int
    k: int

    @property
    def has_self_loops(self) -> bool:
        return True

    @property
    def bidirectional(self) -> bool:
        return self.k == 1

    def label(self) -> str:
        return f"DBJ({self.d},{self.k})"


@final
@dataclass(frozen=True, slots=True, repr=False)
class ModifiedDeBruijn(Base):
    """De Bruijn digraph with its loops made a cycle: N = d^n, n + 1 steps where stored.

    A solver made the schedules of small sizes; they take routes that are not shortest, which BFB
    cannot. All other sizes have BFB's cost.

    >>> ModifiedDeBruijn(2, 3).predict()
    Cost(steps=4, t_b=Fraction(7, 8))
    """

    d: int
    n: int

    @property
    def reverse_symmetric(self) -> bool:
        # Known to be not isomorphic to the transpose for (2, 5) and (2, 7).
        return self.d > 2 or self.n % 2 == 0 or self.n == 3

    @property
    def has_self_loops(self) -> bool:
        return False

    @property
    def bidirectional(self) -> bool:
        return self.d == self.n == 2

    def label(self) -> str:
        return f"DBJMod({self.d},{self.n})"
