"""Cyclic groups and direct products of any groups."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.graphs.groups.group import Group, check_order, residue

if TYPE_CHECKING:
    from ocs_codesign.graphs.groups.group import Numbers


@final
@dataclass(frozen=True, slots=True, repr=False)
class Cyclic(Group):
    """Z_n, the integers modulo n under addition.

    >>> Cyclic(5).right_multiply(np.arange(5), 2).tolist()
    [2, 3, 4, 0, 1]
    """

    n: int

    notation = "Z{}"
    samples = ("Cyclic(1), (0,)", "Cyclic(2), (1,)", "Cyclic(9), (2,)", "Cyclic(12), (3, 4)")

    def __post_init__(self) -> None:
        check_order(self.n, 1, "Cyclic(n)")

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

    def right_multiply(self, left: Numbers, right: int | Numbers) -> Numbers:
        return (left + right) % self.n


@final
@dataclass(frozen=True, slots=True, repr=False, init=False)
class DirectProduct(Group):
    """Tuples of elements of two or more groups, multiplied coordinate by coordinate.

    >>> DirectProduct(Cyclic(2), Cyclic(3)).index((1, 2))
    5
    """

    factors: tuple[Group, ...]

    samples = (
        "DirectProduct(Cyclic(2), Cyclic(2)), ((1, 0), (0, 1))",
        "DirectProduct(Cyclic(3), Cyclic(4)), ((1, 1),)",
        "DirectProduct(Dihedral(3), Cyclic(2)), (((1, 0), 1), ((0, 1), 0))",
        "DirectProduct(Cyclic(2), Cyclic(3), Cyclic(2)), ((1, 1, 0), (0, 0, 1))",
    )

    def __init__(self, *factors: Group) -> None:
        if len(factors) < 2 or not all(isinstance(factor, Group) for factor in factors):
            raise ValueError("DirectProduct takes two or more groups")
        check_order(prod(factor.order for factor in factors), 1, "DirectProduct")
        object.__setattr__(self, "factors", factors)

    def arguments(self) -> tuple[Group, ...]:
        return self.factors

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

    def right_multiply(self, left: Numbers, right: int | Numbers) -> Numbers:
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
