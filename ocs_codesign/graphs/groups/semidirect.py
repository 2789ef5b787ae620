"""Groups of pairs of residues: semidirect products, dihedral and dicyclic groups."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.graphs.groups.group import Group, check_order, pair, residue
from ocs_codesign.graphs.recipe import superscript

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


# Split extensions Z_n^k : Z_m: affine groups, wreath products and Heisenberg groups.


_MAX_ROWS = 24  # 2^24 is MAX_ORDER


@final
@dataclass(frozen=True, slots=True, repr=False)
class Affine(Group):
    """Z_n^k : Z_m, pairs with (x, i) * (y, j) = (x + matrix^i y, i + j); matrix^m = 1 modulo n.

    x is the tuple of the k entries of a column vector, and the matrix the tuple of its k rows. A
    power of the companion matrix of a primitive polynomial gives an affine group of a finite field,
    the cyclic shift of the coordinates a wreath product, a Jordan block a Heisenberg group.

    >>> a4 = Affine(2, ((0, 1), (1, 1)), 3)
    >>> a4.order, a4.label(), a4.is_abelian
    (12, 'Z2²⋊Z3', False)
    """

    n: int
    matrix: tuple[tuple[int, ...], ...]
    m: int

    samples = (
        "Affine(2, ((0, 1), (1, 1)), 3), (((1, 0), 0), ((0, 0), 1))",
        "Affine(2, ((0, 0, 1), (1, 0, 1), (0, 1, 0)), 7), (((1, 0, 0), 1), ((0, 0, 0), 3))",
        "Affine(3, ((0, 1), (1, 1)), 8), (((0, 2), 0), ((0, 0), 1))",
        "Affine(2, ((0, 1, 0), (0, 0, 1), (1, 0, 0)), 3), (((1, 0, 0), 0), ((0, 0, 0), 1))",
        "Affine(3, ((0, 1, 0), (0, 0, 1), (1, 0, 0)), 3), (((1, 0, 0), 1), ((0, 0, 0), 1))",
        "Affine(3, ((1, 1), (0, 1)), 3), (((0, 1), 0), ((0, 0), 1))",
        "Affine(4, ((1, 2), (0, -1)), 2), (((1, 0), 0), ((0, 1), 0), ((0, 0), 1))",
        "Affine(2, ((1, 0), (0, 1)), 2), (((1, 0), 0), ((0, 1), 0), ((0, 0), 1))",
    )

    def __post_init__(self) -> None:
        check_order(self.n, 2, "Affine(n, matrix, m): n")
        check_order(self.m, 1, "Affine(n, matrix, m): m")
        _check_matrix(self.matrix)
        check_order(self.order, 1, "Affine(n, matrix, m)")
        reduced = tuple(tuple(entry % self.n for entry in row) for row in self.matrix)
        object.__setattr__(self, "matrix", reduced)
        one = np.eye(len(reduced), dtype=np.int64)
        if not np.array_equal(matrix_power(np.array(reduced), self.m, self.n), one):
            raise ValueError(f"{self!r}: matrix^m must be the identity modulo n")

    @property
    def order(self) -> int:
        return prod(self.n for _ in self.matrix) * self.m

    @property
    def is_abelian(self) -> bool:
        return np.array_equal(self.matrix, np.eye(len(self.matrix)))

    def index(self, element: Any) -> int:
        x, i = pair(element, self)
        if not isinstance(x, tuple) or len(x) != len(self.matrix):
            raise ValueError(
                f"{element!r} is not an element of {self!r}: a tuple of {len(self.matrix)} integers"
                " and an integer"
            )
        number = 0
        for entry in x:
            number = number * self.n + residue(entry, self.n, self)
        return number * self.m + residue(i, self.m, self)

    def element(self, number: int) -> tuple[tuple[int, ...], int]:
        vector, i = divmod(number, self.m)
        entries = []
        for _ in self.matrix:
            vector, entry = divmod(vector, self.n)
            entries.append(entry)
        return tuple(reversed(entries)), i

    def right_multiply(self, left: Numbers, right: int | Numbers) -> Numbers:
        x, i = np.divmod(left, self.m)
        y, j = np.divmod(right, self.m)
        vectors, which = np.unique(y, return_inverse=True)
        # one lookup in a table of all matrix^i y: a matrix product for every pair would be slow
        where = i * len(vectors) + which.reshape(np.shape(y))
        vector: Numbers = np.zeros(where.shape, dtype=np.int64)
        for entry, images in zip(self._entries(x), self._images(vectors), strict=True):
            total = entry + images.ravel().take(where)
            total %= self.n
            vector *= self.n
            vector += total
        exponent: Numbers = (i + j) % self.m
        return vector * self.m + exponent

    def _images(self, vectors: Numbers) -> Numbers:
        """Entry c of matrix^i y at [c, i, y], for all i below m and the vectors y numbered."""
        step = np.array(self.matrix)
        images = np.stack(self._entries(vectors))[:, None]
        while images.shape[1] < self.m:
            more = np.tensordot(step, images, axes=1) % self.n
            images = np.concatenate([images, more], axis=1)
            step = step @ step % self.n
        return images[:, : self.m]

    def _entries(self, vectors: Numbers) -> tuple[Numbers, ...]:
        return np.unravel_index(vectors, (self.n,) * len(self.matrix))

    def label(self) -> str:
        return f"Z{self.n}{superscript(len(self.matrix))}⋊Z{self.m}"


def matrix_power(matrix: Numbers, exponent: int, n: int) -> Numbers:
    """The power of a square matrix, its entries modulo n.

    >>> matrix_power(np.array([[1, 1], [0, 1]]), 7, 5).tolist()
    [[1, 2], [0, 1]]
    """
    result = np.eye(len(matrix), dtype=np.int64)
    while exponent:
        if exponent % 2:
            result = result @ matrix % n
        matrix = matrix @ matrix % n
        exponent //= 2
    return result


def _check_matrix(matrix: Any) -> None:
    """ValueError unless it is a tuple of 2 to 24 rows, tuples of as many ints."""
    if not isinstance(matrix, tuple) or not all(
        isinstance(row, tuple) and len(row) == len(matrix) and all(type(a) is int for a in row)
        for row in matrix
    ):
        raise ValueError(
            f"Affine(n, matrix, m): matrix is {matrix!r}: a square tuple of tuples of integers"
        )
    if len(matrix) < 2:
        raise ValueError(
            "Affine(n, matrix, m): matrix needs two rows or more, one row is"
            " Semidirect(n, m, action)"
        )
    if len(matrix) > _MAX_ROWS:
        raise ValueError(
            f"Affine(n, matrix, m): matrix has {len(matrix)} rows: at most {_MAX_ROWS}"
        )
