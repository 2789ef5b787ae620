"""Finite groups for Cayley graphs: small frozen values that multiply whole index arrays.

The elements of a group are numbered from 0, the identity first. An element is written as an int, a
tuple of elements (products, pairs) or a tuple of images (permutations); ``index`` turns it into its
number and ``right_multiply`` maps the numbers of g to those of g * s for one s.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_ORDER = 2**24
_MAX_PERMUTATIONS = 2**20


class Group(ABC):
    """What a Cayley graph needs to know of a group."""

    __slots__ = ()

    @property
    @abstractmethod
    def order(self) -> int:
        """Number of elements."""

    @property
    @abstractmethod
    def is_abelian(self) -> bool:
        """Whether all elements commute."""

    @abstractmethod
    def index(self, element: Any) -> int:
        """Number of an element; ValueError if it is not one."""

    @abstractmethod
    def element(self, number: int) -> Any:
        """The element of a number, as ``index`` reads it."""

    @abstractmethod
    def right_multiply(self, left: NDArray[np.int64], right: int) -> NDArray[np.int64]:
        """Numbers of g * s for the numbers ``left`` of g and ``right`` of s."""

    @abstractmethod
    def label(self) -> str:
        """Short name in the field's notation."""

    def __str__(self) -> str:
        return self.label()


@final
@dataclass(frozen=True, slots=True, repr=False)
class Cyclic(Group):
    """Z_n, the integers modulo n under addition.

    >>> Cyclic(5).right_multiply(np.arange(5), 2).tolist()
    [2, 3, 4, 0, 1]
    """

    n: int

    def __post_init__(self) -> None:
        _check_order(self.n, 1, "Cyclic(n)")

    def __repr__(self) -> str:
        return f"Cyclic({self.n})"

    @property
    def order(self) -> int:
        return self.n

    @property
    def is_abelian(self) -> bool:
        return True

    def index(self, element: Any) -> int:
        return _residue(element, self.n, self)

    def element(self, number: int) -> int:
        return number

    def right_multiply(self, left: NDArray[np.int64], right: int) -> NDArray[np.int64]:
        return (left + right) % self.n

    def label(self) -> str:
        return f"Z{self.n}"


@final
@dataclass(frozen=True, slots=True, repr=False, init=False)
class DirectProduct(Group):
    """Tuples of elements of two or more groups, multiplied coordinate by coordinate.

    >>> DirectProduct(Cyclic(2), Cyclic(3)).index((1, 2))
    5
    """

    factors: tuple[Group, ...]

    def __init__(self, *factors: Group) -> None:
        if len(factors) < 2 or not all(isinstance(factor, Group) for factor in factors):
            raise ValueError("DirectProduct takes two or more groups")
        _check_order(prod(factor.order for factor in factors), 1, "DirectProduct")
        object.__setattr__(self, "factors", factors)

    def __repr__(self) -> str:
        return f"DirectProduct({', '.join(map(repr, self.factors))})"

    @property
    def order(self) -> int:
        return prod(factor.order for factor in self.factors)

    @property
    def is_abelian(self) -> bool:
        return all(factor.is_abelian for factor in self.factors)

    def index(self, element: Any) -> int:
        if not isinstance(element, tuple) or len(element) != len(self.factors):
            raise ValueError(f"{element!r} is not an element of {self!r}: a tuple of one a factor")
        number = 0
        for factor, part in zip(self.factors, element, strict=True):
            number = number * factor.order + factor.index(part)
        return number

    def element(self, number: int) -> tuple[Any, ...]:
        parts = []
        for factor in reversed(self.factors):
            number, part = divmod(number, factor.order)
            parts.append(factor.element(part))
        return tuple(reversed(parts))

    def right_multiply(self, left: NDArray[np.int64], right: int) -> NDArray[np.int64]:
        result = np.zeros_like(left)
        stride = 1
        for factor in reversed(self.factors):
            left, mine = np.divmod(left, factor.order)
            right, other = divmod(right, factor.order)
            result += stride * factor.right_multiply(mine, other)
            stride *= factor.order
        return result

    def label(self) -> str:
        return "×".join(factor.label() for factor in self.factors)


@final
@dataclass(frozen=True, slots=True, repr=False)
class Semidirect(Group):
    """Z_n : Z_m, pairs with (x, y) * (x', y') = (x + action^y x', y + y'); action^m = 1 mod n.

    >>> Semidirect(7, 3, 2).is_abelian
    False
    """

    n: int
    m: int
    action: int

    def __post_init__(self) -> None:
        _check_order(self.n, 1, "Semidirect(n, m, action): n")
        _check_order(self.m, 1, "Semidirect(n, m, action): m")
        _check_order(self.n * self.m, 1, "Semidirect(n, m, action)")
        if not isinstance(self.action, int) or pow(self.action, self.m, self.n) != 1 % self.n:
            raise ValueError(
                f"Semidirect({self.n}, {self.m}, {self.action}): action^m must be 1 modulo n"
            )

    def __repr__(self) -> str:
        return f"Semidirect({self.n}, {self.m}, {self.action})"

    @property
    def order(self) -> int:
        return self.n * self.m

    @property
    def is_abelian(self) -> bool:
        return self.action % self.n == 1 % self.n

    def index(self, element: Any) -> int:
        x, y = _pair(element, self)
        return _residue(x, self.n, self) * self.m + _residue(y, self.m, self)

    def element(self, number: int) -> tuple[int, int]:
        return divmod(number, self.m)

    def right_multiply(self, left: NDArray[np.int64], right: int) -> NDArray[np.int64]:
        x, y = np.divmod(left, self.m)
        other_x, other_y = divmod(right, self.m)
        powers = np.array([pow(self.action, k, self.n) for k in range(self.m)], dtype=np.int64)
        first: NDArray[np.int64] = (x + powers[y] * other_x) % self.n
        second: NDArray[np.int64] = (y + other_y) % self.m
        return first * self.m + second

    def label(self) -> str:
        return f"Z{self.n}⋊Z{self.m}"


@final
@dataclass(frozen=True, slots=True, repr=False)
class Dihedral(Group):
    """Symmetries of the n-gon, order 2n: pairs (rotation modulo n, flip 0 or 1).

    (x, f) * (x', f') = (x + x' or x - x' when f = 1, f + f').

    >>> Dihedral(3).right_multiply(np.arange(6), Dihedral(3).index((0, 1))).tolist()
    [1, 0, 3, 2, 5, 4]
    """

    n: int

    def __post_init__(self) -> None:
        _check_order(self.n, 1, "Dihedral(n)")
        _check_order(2 * self.n, 1, "Dihedral(n)")

    def __repr__(self) -> str:
        return f"Dihedral({self.n})"

    @property
    def order(self) -> int:
        return 2 * self.n

    @property
    def is_abelian(self) -> bool:
        return self.n <= 2

    def index(self, element: Any) -> int:
        x, flip = _pair(element, self)
        return _residue(x, self.n, self) * 2 + _residue(flip, 2, self)

    def element(self, number: int) -> tuple[int, int]:
        return divmod(number, 2)

    def right_multiply(self, left: NDArray[np.int64], right: int) -> NDArray[np.int64]:
        return Semidirect(self.n, 2, -1).right_multiply(left, right)

    def label(self) -> str:
        return f"D{self.n}"


@final
@dataclass(frozen=True, slots=True, repr=False)
class Dicyclic(Group):
    """Order 4n: a^2n = 1, x^2 = a^n, a x = x a^-1; pairs (k, e) stand for a^k x^e.

    >>> Dicyclic(2).label(), Dicyclic(2).order
    ('Dic2', 8)
    """

    n: int

    def __post_init__(self) -> None:
        _check_order(self.n, 1, "Dicyclic(n)")
        _check_order(4 * self.n, 1, "Dicyclic(n)")

    def __repr__(self) -> str:
        return f"Dicyclic({self.n})"

    @property
    def order(self) -> int:
        return 4 * self.n

    @property
    def is_abelian(self) -> bool:
        return self.n == 1

    def index(self, element: Any) -> int:
        k, e = _pair(element, self)
        return _residue(k, 2 * self.n, self) * 2 + _residue(e, 2, self)

    def element(self, number: int) -> tuple[int, int]:
        return divmod(number, 2)

    def right_multiply(self, left: NDArray[np.int64], right: int) -> NDArray[np.int64]:
        k, e = np.divmod(left, 2)
        other_k, other_e = divmod(right, 2)
        k = k + np.where(e == 1, -other_k, other_k) + self.n * (e * other_e)
        power: NDArray[np.int64] = k % (2 * self.n)
        letter: NDArray[np.int64] = (e + other_e) % 2
        return power * 2 + letter

    def label(self) -> str:
        return f"Dic{self.n}"


@final
@dataclass(frozen=True, slots=True, repr=False, init=False)
class Permutations(Group):
    """The group generated by permutations, each the tuple of the images of 0, 1, ...

    g * s applies g first: (g * s)[i] = s[g[i]]. Elements are numbered in lexicographic order of
    their images. At most 2^20 elements.

    >>> Permutations((1, 2, 0), (1, 0, 2)).order
    6
    """

    generators: tuple[tuple[int, ...], ...]
    _elements: NDArray[np.uint8]

    def __init__(self, *generators: tuple[int, ...]) -> None:
        if not generators or not all(isinstance(one, tuple) for one in generators):
            raise ValueError("Permutations takes one or more tuples of images")
        points = len(generators[0])
        if not 1 <= points <= 255:
            raise ValueError(f"permutations of {points} points: from 1 to 255 are supported")
        for one in generators:
            if not all(type(i) is int for i in one) or sorted(one) != list(range(points)):
                raise ValueError(f"{one!r} is not a permutation of 0 to {points - 1}")
        object.__setattr__(self, "generators", generators)
        object.__setattr__(self, "_elements", _closure(generators))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Permutations) and self.generators == other.generators

    def __hash__(self) -> int:
        return hash((Permutations, self.generators))

    def __repr__(self) -> str:
        return f"Permutations({', '.join(map(repr, self.generators))})"

    @property
    def order(self) -> int:
        return len(self._elements)

    @property
    def is_abelian(self) -> bool:
        rows = np.array(self.generators)
        return all(np.array_equal(s[g], g[s]) for g in rows for s in rows)

    def index(self, element: Any) -> int:
        points = self._elements.shape[1]
        if isinstance(element, tuple) and sorted(map(repr, element)) == sorted(
            map(repr, range(points))
        ):
            row = np.array([element], dtype=np.uint8)
            number = int(self._numbers(row)[0])
            if number < self.order and np.array_equal(self._elements[number], row[0]):
                return number
        raise ValueError(f"{element!r} is not an element of {self!r}")

    def element(self, number: int) -> tuple[int, ...]:
        return tuple(self._elements[number].tolist())

    def right_multiply(self, left: NDArray[np.int64], right: int) -> NDArray[np.int64]:
        return self._numbers(self._elements[right][self._elements[left]])

    def _numbers(self, rows: NDArray[np.uint8]) -> NDArray[np.int64]:
        return np.searchsorted(_keys(self._elements), _keys(rows))

    def label(self) -> str:
        return f"Perm{self.order}"


GROUPS: dict[str, type[Group]] = {
    group.__name__: group
    for group in (Cyclic, DirectProduct, Semidirect, Dihedral, Dicyclic, Permutations)
}
"""Every group that a recipe may name."""


def _closure(generators: tuple[tuple[int, ...], ...]) -> NDArray[np.uint8]:
    """All products of the generators, in lexicographic order."""
    steps = np.array(generators, dtype=np.uint8)
    elements = np.arange(steps.shape[1], dtype=np.uint8)[None]
    frontier = elements
    while len(frontier):
        products = np.concatenate([step[frontier] for step in steps])
        known = np.unique(_keys(elements))
        keys, first = np.unique(_keys(products), return_index=True)
        frontier = products[first[~np.isin(keys, known)]]
        elements = np.concatenate([elements, frontier])
        if len(elements) > _MAX_PERMUTATIONS:
            raise ValueError(f"the permutations generate more than {_MAX_PERMUTATIONS} elements")
    return elements[np.argsort(_keys(elements))]


def _keys(rows: NDArray[np.uint8]) -> NDArray[Any]:
    """One comparable value a row; byte strings drop trailing zeros, so images count from 1."""
    shifted = np.ascontiguousarray(rows + np.uint8(1))
    return shifted.view(f"S{rows.shape[1]}")[:, 0]


def _check_order(value: int, least: int, name: str) -> None:
    if type(value) is not int or not least <= value <= MAX_ORDER:
        raise ValueError(f"{name} is {value!r}: an integer from {least} to {MAX_ORDER}")


def _residue(value: Any, modulus: int, group: Group) -> int:
    if type(value) is not int:
        raise ValueError(f"{value!r} is not an element of {group!r}")
    return value % modulus


def _pair(element: Any, group: Group) -> tuple[Any, Any]:
    if not isinstance(element, tuple) or len(element) != 2:
        raise ValueError(f"{element!r} is not an element of {group!r}: a pair of integers")
    return element
