"""Groups of pairs of residues: semidirect products, dihedral and dicyclic groups."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.graphs.groups.group import Group, check_order, pair, residue

if TYPE_CHECKING:
    from ocs_codesign.graphs.groups.group import Numbers


class PairGroup(Group):
    """A group of pairs of residues, the second of which counts fastest."""

    __slots__ = ()

    @property
    @abstractmethod
    def moduli(self) -> tuple[int, int]:
        """What the two parts of an element are taken modulo."""

    @property
    def order(self) -> int:
        first, second = self.moduli
        return first * second

    def index(self, element: Any) -> int:
        x, y = pair(element, self)
        first, second = self.moduli
        return residue(x, first, self) * second + residue(y, second, self)

    def element(self, number: int) -> tuple[int, int]:
        return divmod(number, self.moduli[1])


@final
@dataclass(frozen=True, slots=True, repr=False)
class Semidirect(PairGroup):
    """Z_n : Z_m, pairs with (x, y) * (x', y') = (x + action^y x', y + y'); action^m = 1 mod n.

    >>> Semidirect(7, 3, 2).is_abelian
    False
    """

    n: int
    m: int
    action: int

    notation = "Z{}⋊Z{}"
    samples = (
        "Semidirect(7, 3, 2), ((1, 0), (0, 1))",
        "Semidirect(8, 2, 3), ((1, 1), (0, 1))",
        "Semidirect(5, 4, 2), ((1, 0), (0, 1))",
        "Semidirect(1, 4, 0), ((0, 1),)",
    )

    def __post_init__(self) -> None:
        check_order(self.n, 1, "Semidirect(n, m, action): n")
        check_order(self.m, 1, "Semidirect(n, m, action): m")
        check_order(self.n * self.m, 1, "Semidirect(n, m, action)")
        if type(self.action) is not int or pow(self.action, self.m, self.n) != 1 % self.n:
            raise ValueError(
                f"Semidirect({self.n}, {self.m}, {self.action}): action^m must be 1 modulo n"
            )

    @property
    def moduli(self) -> tuple[int, int]:
        return self.n, self.m

    @property
    def is_abelian(self) -> bool:
        return self.action % self.n == 1 % self.n

    def right_multiply(self, left: Numbers, right: int | Numbers) -> Numbers:
        x, y = np.divmod(left, self.m)
        other_x, other_y = np.divmod(right, self.m)
        powers = np.array([pow(self.action, k, self.n) for k in range(self.m)], dtype=np.int64)
        first: Numbers = (x + powers[y] * other_x) % self.n
        second: Numbers = (y + other_y) % self.m
        return first * self.m + second


@final
@dataclass(frozen=True, slots=True, repr=False)
class Dihedral(PairGroup):
    """Symmetries of the n-gon, order 2n: pairs (rotation modulo n, flip 0 or 1).

    (x, f) * (x', f') = (x + x' or x - x' when f = 1, f + f').

    >>> Dihedral(3).right_multiply(np.arange(6), Dihedral(3).index((0, 1))).tolist()
    [1, 0, 3, 2, 5, 4]
    """

    n: int

    notation = "D{}"
    samples = (
        "Dihedral(1), ((0, 1),)",
        "Dihedral(2), ((1, 0), (0, 1))",
        "Dihedral(5), ((0, 1), (1, 1))",
        "Dihedral(8), ((1, 0), (0, 1))",
    )

    def __post_init__(self) -> None:
        check_order(self.n, 1, "Dihedral(n)")
        check_order(2 * self.n, 1, "Dihedral(n)")

    @property
    def moduli(self) -> tuple[int, int]:
        return self.n, 2

    @property
    def is_abelian(self) -> bool:
        return self.n <= 2

    def right_multiply(self, left: Numbers, right: int | Numbers) -> Numbers:
        return Semidirect(self.n, 2, -1).right_multiply(left, right)


@final
@dataclass(frozen=True, slots=True, repr=False)
class Dicyclic(PairGroup):
    """Order 4n: a^2n = 1, x^2 = a^n, a x = x a^-1; pairs (k, e) stand for a^k x^e.

    >>> Dicyclic(2).label(), Dicyclic(2).order
    ('Dic2', 8)
    """

    n: int

    notation = "Dic{}"
    samples = (
        "Dicyclic(1), ((0, 1),)",
        "Dicyclic(2), ((1, 0), (0, 1))",
        "Dicyclic(3), ((1, 0), (0, 1))",
    )

    def __post_init__(self) -> None:
        check_order(self.n, 1, "Dicyclic(n)")
        check_order(4 * self.n, 1, "Dicyclic(n)")

    @property
    def moduli(self) -> tuple[int, int]:
        return 2 * self.n, 2

    @property
    def is_abelian(self) -> bool:
        return self.n == 1

    def right_multiply(self, left: Numbers, right: int | Numbers) -> Numbers:
        k, e = np.divmod(left, 2)
        other_k, other_e = np.divmod(right, 2)
        k = k + np.where(e == 1, -other_k, other_k) + self.n * (e * other_e)
        power: Numbers = k % (2 * self.n)
        letter: Numbers = (e + other_e) % 2
        return power * 2 + letter
