"""Recipes of expansions: one frozen class each, named as in ``expansions.EXPANSIONS``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from ocs_codesign.families.shape import size
from ocs_codesign.recipe.core import Expanded, Recipe

_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_MAX_NESTING = 64


class _Unary(Expanded):
    """An expansion of one recipe, called ``g``."""

    __slots__ = ()

    g: Recipe

    @property
    def parts(self) -> tuple[Recipe, ...]:
        return (self.g,)


class _Repeated(_Unary):
    """An expansion of one recipe with a number ``n``."""

    __slots__ = ()

    n: int

    def _sizes(self) -> tuple[int, ...]:
        return (self.n,)


@final
@dataclass(frozen=True, slots=True, repr=False, init=False)
class Line(_Unary):
    """Line digraph: N -> d N, steps + 1, T_B + 1/N at most. ``Line(g, 3)`` nests three times.

    >>> from ocs_codesign.recipe.bases import CompleteBipartite
    >>> Line(CompleteBipartite(4), 2)
    Line(Line(CompleteBipartite(4)))
    >>> Line(CompleteBipartite(4), 2).predict()
    Cost(steps=4, t_b=Fraction(33, 32))
    """

    g: Recipe

    def __init__(self, g: Recipe, times: int = 1) -> None:
        for _ in range(size(times, "the number of nestings", 1, _MAX_NESTING) - 1):
            g = Line(g)
        object.__setattr__(self, "g", g)
        self.__post_init__()

    @property
    def bidirectional(self) -> bool:
        # (u, v) leads to every (v, w); the way back exists only if w = u, so G is a pair of nodes.
        return self.g.num_nodes == 2 and not self.g.has_self_loops

    def label(self) -> str:
        times, inner = 1, self.g
        while isinstance(inner, Line):
            times, inner = times + 1, inner.g
        return f"L{_power(times)}({inner.label()})"


@final
@dataclass(frozen=True, slots=True, repr=False)
class Degree(_Repeated):
    """Degree expansion: n copies of every node; N -> n N, d -> n d, steps + 1, T_B + (n - 1)/(n N).

    >>> from ocs_codesign.recipe.bases import Complete
    >>> Degree(Complete(3), 2).predict()
    Cost(steps=2, t_b=Fraction(5, 6))
    """

    g: Recipe
    n: int

    def __post_init__(self) -> None:
        _Repeated.__post_init__(self)
        if self.g.has_self_loops:
            raise ValueError(f"Degree needs a graph without self-loops: {self.g!r} has some")

    def label(self) -> str:
        return f"{_bracketed(self.g)}*{self.n}"


@final
@dataclass(frozen=True, slots=True, repr=False)
class Power(_Repeated):
    """Cartesian power: N^n, n d, n times the steps, T_B * N/(N - 1) * (N^n - 1)/N^n.

    >>> from ocs_codesign.recipe.bases import DirectedCirculant
    >>> Power(DirectedCirculant(8, (1, 3)), 2).predict()
    Cost(steps=6, t_b=Fraction(63, 64))
    """

    g: Recipe
    n: int

    def label(self) -> str:
        return f"{_bracketed(self.g)}□{_power(self.n)}"


@final
@dataclass(frozen=True, slots=True, repr=False, init=False)
class Product(Expanded):
    """Cartesian product of two or more factors: N multiplies, d and steps add.

    >>> from ocs_codesign.recipe.bases import UniRing
    >>> Product(UniRing(1, 4), UniRing(1, 8)).predict()
    Cost(steps=10, t_b=Fraction(31, 32))
    """

    factors: tuple[Recipe, ...]

    def __init__(self, *factors: Recipe) -> None:
        object.__setattr__(self, "factors", factors)
        self.__post_init__()

    @property
    def parts(self) -> tuple[Recipe, ...]:
        return self.factors

    def __repr__(self) -> str:
        return f"Product({', '.join(map(repr, self.factors))})"

    def label(self) -> str:
        return "□".join(_bracketed(factor) for factor in self.factors)


@final
@dataclass(frozen=True, slots=True, repr=False)
class Transpose(_Unary):
    """Every link reversed: allgather and reduce-scatter change places.

    >>> from ocs_codesign.recipe.bases import GeneralizedKautz
    >>> str(Transpose(GeneralizedKautz(2, 9)).predict().t_b)
    '10/9'
    """

    g: Recipe

    def label(self) -> str:
        return f"{_bracketed(self.g)}ᵀ"


@final
@dataclass(frozen=True, slots=True, repr=False)
class Bidirected(_Unary):
    """A graph united with its transpose: every link in both directions, d -> 2d.

    >>> from ocs_codesign.recipe.bases import DirectedCirculant
    >>> Bidirected(DirectedCirculant(8, (1, 3))).predict()
    Cost(steps=3, t_b=Fraction(7, 8))
    """

    g: Recipe

    @property
    def reverse_symmetric(self) -> bool:
        return True

    @property
    def bidirectional(self) -> bool:
        return True

    def label(self) -> str:
        return f"Bi({self.g.label()})"


EXPANDED: dict[str, type[Expanded]] = {
    expanded.__name__: expanded
    for expanded in (Line, Degree, Power, Product, Transpose, Bidirected)
}
"""Every expansion recipe by its name."""


def _power(times: int) -> str:
    return "" if times == 1 else str(times).translate(_SUPERSCRIPTS)


def _bracketed(recipe: Recipe) -> str:
    atomic = not isinstance(recipe, Expanded) or isinstance(recipe, Line | Bidirected)
    return recipe.label() if atomic else f"({recipe.label()})"
