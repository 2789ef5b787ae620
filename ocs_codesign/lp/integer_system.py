"""Sparse linear systems of integers, solved exactly.

The solution of M x = b is refined from a float factorisation: the residual is kept in integers, so
every round adds the same number of correct bits. Common denominators are then read off, and the
result is checked in integers. Source: Wan, An algorithm to solve integer linear systems exactly
using numerical methods (2006).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import gcd
from typing import TYPE_CHECKING, Any, final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

BITS_A_ROUND = 24
MAX_BITS = 2**14
"""Bits of the fixed-point solution at which the search for its denominator ends."""
DIVERGENCE_BITS = 256
"""Growth of the residual that shows that the float factors are no inverse."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Rationals:
    """The numbers ``numerators / denominator``, as Python integers in an object array."""

    numerators: NDArray[np.object_]
    denominator: int

    def fractions(self) -> tuple[Fraction, ...]:
        """Each number in lowest terms."""
        return tuple(Fraction(value, self.denominator) for value in self.numerators)


@final
@dataclass(frozen=True, slots=True, eq=False)
class IntegerMatrix:
    """A sparse matrix by rows; ``values`` are Python integers, so products are exact."""

    num_columns: int
    start: NDArray[np.int64]
    index: NDArray[np.int64]
    values: NDArray[np.object_]

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return len(self.start) - 1

    def row_of_entry(self) -> NDArray[np.int64]:
        """The row of every entry."""
        return np.repeat(np.arange(self.num_rows), np.diff(self.start))

    def times(self, vector: NDArray[np.object_]) -> NDArray[np.object_]:
        """The exact product with a vector of integers.

        >>> matrix = IntegerMatrix(2, np.array([0, 1, 3]), np.array([1, 0, 1]), integers([5, 1, 1]))
        >>> matrix.times(integers([3, 10**20])).tolist()
        [500000000000000000000, 100000000000000000003]
        """
        product = np.zeros(self.num_rows, dtype=object)
        used = np.diff(self.start) > 0
        if used.any():
            terms = self.values * vector[self.index]
            product[used] = np.add.reduceat(terms, self.start[:-1][used])
        return product

    def transposed(self) -> IntegerMatrix:
        """The same entries by columns."""
        order = np.argsort(self.index, kind="stable")
        start = np.searchsorted(self.index[order], np.arange(self.num_columns + 1))
        return IntegerMatrix(self.num_rows, start, self.row_of_entry()[order], self.values[order])

    def restricted(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> IntegerMatrix:
        """The matrix of some rows and columns, both in ascending order."""
        new_row, new_column = np.full(self.num_rows, -1), np.full(self.num_columns, -1)
        new_row[rows], new_column[columns] = np.arange(len(rows)), np.arange(len(columns))
        row, column = new_row[self.row_of_entry()], new_column[self.index]
        kept = (row >= 0) & (column >= 0)
        start = np.searchsorted(row[kept], np.arange(len(rows) + 1))
        return IntegerMatrix(len(columns), start, column[kept], self.values[kept])

    def factorised(self) -> Any:
        """A float LU factorisation of a square matrix; RuntimeError if it is singular."""
        from scipy.sparse import csr_matrix
        from scipy.sparse.linalg import splu

        parts = (self.values.astype(np.float64), self.index, self.start)
        return splu(csr_matrix(parts, shape=(self.num_rows, self.num_columns)).tocsc())


def integers(numbers: Any) -> NDArray[np.object_]:
    """Integral numbers as Python integers in an object array."""
    array = np.empty(len(numbers), dtype=object)
    array[:] = [int(number) for number in numbers]
    return array


def solve_exactly(
    matrix: IntegerMatrix, factors: Any, rhs: NDArray[np.object_], *, transposed: bool = False
) -> Rationals | None:
    """The solution of ``matrix @ x = rhs``, or None if MAX_BITS bits do not show its denominator.

    ``factors`` are those of the matrix, or with ``transposed`` those of its transpose.
    """
    direction = "T" if transposed else "N"
    solution, residual = np.zeros(len(rhs), dtype=object), rhs
    diverged = (_largest(rhs) + 1) * 2**DIVERGENCE_BITS
    bits, wanted = 0, 0
    while bits <= MAX_BITS and _largest(residual) < diverged:
        if not residual.any():
            return _lowest_terms(Rationals(solution, 2**bits))
        if bits >= wanted:
            exact = _reconstructed(solution, bits)
            if exact is not None and _solves(matrix, exact, rhs):
                return exact
            wanted = 2 * bits
        solution, residual = solution * 2**BITS_A_ROUND, residual * 2**BITS_A_ROUND
        bits += BITS_A_ROUND
        # Scaling by the largest entry keeps floats in range whatever the data.
        scale = max(1, _largest(residual) >> 512)
        step = factors.solve((residual // scale).astype(np.float64), trans=direction)
        if not np.isfinite(step).all():
            return None
        rounded = integers(np.rint(step)) * scale
        solution = solution + rounded
        residual = residual - matrix.times(rounded)
    return None


def _solves(matrix: IntegerMatrix, exact: Rationals, rhs: NDArray[np.object_]) -> bool:
    return bool((matrix.times(exact.numerators) == exact.denominator * rhs).all())


def _largest(numbers: NDArray[np.object_]) -> int:
    return int(abs(numbers).max(initial=0))


def _lowest_terms(numbers: Rationals) -> Rationals:
    divisor = gcd(numbers.denominator, *numbers.numerators)
    return Rationals(numbers.numerators // divisor, numbers.denominator // divisor)


def _reconstructed(solution: NDArray[np.object_], bits: int) -> Rationals | None:
    """Fractions of one denominator of at most bits / 2 bits near ``solution / 2**bits``, if any."""
    one = 2**bits
    largest = near = 2 ** (bits // 2) // 4
    denominator = 1
    while denominator <= largest:
        scaled = solution * denominator
        whole = (scaled + one // 2) // one
        off = np.flatnonzero(abs(scaled - whole * one) > near)
        if not len(off):
            return Rationals(whole, denominator)
        part = Fraction(int(scaled[off[0]]) % one, one)
        factor = part.limit_denominator(max(1, largest // denominator)).denominator
        if factor == 1:
            return None
        denominator *= factor
    return None
