"""Cyclic, dihedral and dicyclic groups, direct and semidirect products, by arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.groups.base import Group, check_order, pair, residue

if TYPE_CHECKING:
    from numpy.typing import NDArray


@final
@dataclass(frozen=True, slots=True, repr=False)
class Cyclic(Group):
    """Z_n, the integers modulo n under addition.

    >>> Cyclic(5).right_multiply(np.arange(5), 2).tolist()
    [2, 3, 4, 0, 1]
    """

    n: int

    def __post_init__(self) -> None:
        check_order(self.n, 1, "Cyclic(n)")

    def __repr__(self) -> str:
        return f"Cyclic({self.n})"

    @property
    def order(self) -> int:
        return self.n

    @property
    def is_abelian(self) -> bool:
        return True

    def index(self, element: Any) -> int:
        return residue(element, self.n, self)

    def element(self, number: int) -> int:
        return number

    def right_multiply(
        self, left: NDArray[np.int64], right: int | NDArray[np.int64]
    ) -> NDArray[np.int64]:
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
        check_order(prod(factor.order for factor in factors), 1, "DirectProduct")
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

    def right_multiply(
        self, left: NDArray[np.int64], right: int | NDArray[np.int64]
    ) -> NDArray[np.int64]:
        result = np.zeros(np.broadcast_shapes(left.shape, np.shape(right)), dtype=np.int64)
        stride = 1
        for factor in reversed(self.factors):
            left, mine = np.divmod(left, factor.order)
            right, other = np.divmod(right, factor.order)
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
        check_order(self.n, 1, "Semidirect(n, m, action): n")
        check_order(self.m, 1, "Semidirect(n, m, action): m")
        check_order(self.n * self.m, 1, "Semidirect(n, m, action)")
        if type(self.action) is not int or pow(self.action, self.m, self.n) != 1 % self.n:
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
        x, y = pair(element, self)
        return residue(x, self.n, self) * self.m + residue(y, self.m, self)

    def element(self, number: int) -> tuple[int, int]:
        return divmod(number, self.m)

    def right_multiply(
        self, left: NDArray[np.int64], right: int | NDArray[np.int64]
    ) -> NDArray[np.int64]:
        x, y = np.divmod(left, self.m)
        other_x, other_y = np.divmod(right, self.m)
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
        check_order(self.n, 1, "Dihedral(n)")
        check_order(2 * self.n, 1, "Dihedral(n)")

    def __repr__(self) -> str:
        return f"Dihedral({self.n})"

    @property
    def order(self) -> int:
        return 2 * self.n

    @property
    def is_abelian(self) -> bool:
        return self.n <= 2

    def index(self, element: Any) -> int:
        x, flip = pair(element, self)
        return residue(x, self.n, self) * 2 + residue(flip, 2, self)

    def element(self, number: int) -> tuple[int, int]:
        return divmod(number, 2)

    def right_multiply(
        self, left: NDArray[np.int64], right: int | NDArray[np.int64]
    ) -> NDArray[np.int64]:
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
        check_order(self.n, 1, "Dicyclic(n)")
        check_order(4 * self.n, 1, "Dicyclic(n)")

    def __repr__(self) -> str:
        return f"Dicyclic({self.n})"

    @property
    def order(self) -> int:
        return 4 * self.n

    @property
    def is_abelian(self) -> bool:
        return self.n == 1

    def index(self, element: Any) -> int:
        k, e = pair(element, self)
        return residue(k, 2 * self.n, self) * 2 + residue(e, 2, self)

    def element(self, number: int) -> tuple[int, int]:
        return divmod(number, 2)

    def right_multiply(
        self, left: NDArray[np.int64], right: int | NDArray[np.int64]
    ) -> NDArray[np.int64]:
        k, e = np.divmod(left, 2)
        other_k, other_e = np.divmod(right, 2)
        k = k + np.where(e == 1, -other_k, other_k) + self.n * (e * other_e)
        power: NDArray[np.int64] = k % (2 * self.n)
        letter: NDArray[np.int64] = (e + other_e) % 2
        return power * 2 + letter

    def label(self) -> str:
        return f"Dic{self.n}"
