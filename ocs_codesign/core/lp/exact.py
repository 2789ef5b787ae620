"""The exact optimum of a linear program, from the basis that a solver ended with.

The vertex and the duals of the basis are solved in rationals; then feasibility, the signs of the
duals and the equality of the two objectives are checked in integers. Nothing is left to tolerance.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import gcd
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.lp.program import Basis, BasisStatus

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.core.lp.program import LinearProgram, Solution


# Sparse linear systems of integers, solved exactly.
#
# The solution of M x = b is refined from a float factorisation: the residual is kept in integers,
# so every round adds the same number of correct bits. Common denominators are then read off, and
# the result is checked in integers. Source: Wan, An algorithm to solve integer linear systems
# exactly using numerical methods (2006).


BITS_A_ROUND = 24
MAX_BITS = 2**14
"""Bits of the fixed-point solution at which the search for its denominator ends."""
DIVERGENCE_BITS = 256
"""Growth of the residual that shows that the float factors are no inverse."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Rationals:
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
) -> _Rationals | None:
    """The solution of ``matrix @ x = rhs``, or None if MAX_BITS bits do not show its denominator.

    ``factors`` are those of the matrix, or with ``transposed`` those of its transpose.
    """
    direction = "T" if transposed else "N"
    solution, residual = np.zeros(len(rhs), dtype=object), rhs
    diverged = (_largest(rhs) + 1) * 2**DIVERGENCE_BITS
    bits, wanted = 0, 0
    while bits <= MAX_BITS and _largest(residual) < diverged:
        if not residual.any():
            return _lowest_terms(_Rationals(solution, 2**bits))
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


def _solves(matrix: IntegerMatrix, exact: _Rationals, rhs: NDArray[np.object_]) -> bool:
    return bool((matrix.times(exact.numerators) == exact.denominator * rhs).all())


def _largest(numbers: NDArray[np.object_]) -> int:
    return int(abs(numbers).max(initial=0))


def _lowest_terms(numbers: _Rationals) -> _Rationals:
    divisor = gcd(numbers.denominator, *numbers.numerators)
    return _Rationals(numbers.numerators // divisor, numbers.denominator // divisor)


def _reconstructed(solution: NDArray[np.object_], bits: int) -> _Rationals | None:
    """Fractions of one denominator of at most bits / 2 bits near ``solution / 2**bits``, if any."""
    one = 2**bits
    largest = near = 2 ** (bits // 2) // 4
    denominator = 1
    while denominator <= largest:
        scaled = solution * denominator
        whole = (scaled + one // 2) // one
        off = np.flatnonzero(abs(scaled - whole * one) > near)
        if not len(off):
            return _Rationals(whole, denominator)
        part = Fraction(int(scaled[off[0]]) % one, one)
        factor = part.limit_denominator(max(1, largest // denominator)).denominator
        if factor == 1:
            return None
        denominator *= factor
    return None


MAX_SCALE_BITS = 20
"""Numbers of a program must be multiples of 2**-20: others are rounded, as 0.1 is in floats."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class ExactSolution:
    """A proven optimum: ``objective == cost @ values``, and the duals have the same value."""

    objective: Fraction
    values: tuple[Fraction, ...] = field(repr=False)
    row_duals: tuple[Fraction, ...] = field(repr=False)
    col_duals: tuple[Fraction, ...] = field(repr=False)


@final
@dataclass(frozen=True, slots=True)
class NotExact:
    """Why a basis does not prove an exact optimum, as part of a sentence."""

    reason: str


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Bounds:
    """Integer bounds of rows or columns; where ``has_lower`` is false, ``lower`` is 0."""

    kind: str
    lower: NDArray[np.object_]
    upper: NDArray[np.object_]
    has_lower: NDArray[np.bool_]
    has_upper: NDArray[np.bool_]


@final
@dataclass(frozen=True, slots=True, eq=False)
class _IntegerProgram:
    """The program in 2**-scale of its columns: A, cost and column bounds times 2**scale."""

    scale_bits: int
    matrix: IntegerMatrix
    cost: NDArray[np.object_]
    rows: _Bounds
    columns: _Bounds


def exact_vertex(program: LinearProgram, solution: Solution) -> ExactSolution | None:
    """The exact optimum at the solution's basis; None if ``refine`` has a reason against it."""
    refined = refine(program, solution)
    return refined if isinstance(refined, ExactSolution) else None


def refine(program: LinearProgram, solution: Solution) -> ExactSolution | NotExact:
    """The exact optimum at the solution's basis, or the reason why there is none.

    Takes up to some thousand rows. The program is what its floats are, so its numbers must be
    multiples of 2**-20; scale rows of others to integers first.
    """
    if program.is_mixed_integer:
        return NotExact("the program has integer columns, so a basis proves nothing")
    if solution.basis is None:
        return NotExact(f"{solution.solver} with {solution.method} left no basis")
    scaled = _in_integers(program)
    if isinstance(scaled, NotExact):
        return scaled
    found = _solved(scaled, solution.basis)
    return found if isinstance(found, NotExact) else _checked(scaled, *found)


def _in_integers(program: LinearProgram) -> _IntegerProgram | NotExact:
    arrays = (program.cost, program.values, program.row_lower, program.row_upper)
    data = np.concatenate([*arrays, program.col_lower, program.col_upper])
    data = data[np.isfinite(data)]
    for bits in range(MAX_SCALE_BITS + 1):
        fractional = np.ldexp(data, bits) % 1 != 0
        if not fractional.any():
            break
    else:
        number = float(data[fractional][0])
        return NotExact(f"{number!r} is not a multiple of 2**-{MAX_SCALE_BITS}")
    unit = 2**bits
    matrix = IntegerMatrix(
        program.num_columns,
        np.asarray(program.start, dtype=np.int64),
        np.asarray(program.index, dtype=np.int64),
        integers(np.ldexp(program.values, bits)),
    )
    cost = integers(np.ldexp(program.cost, bits))
    rows = _bounds("row", program.row_lower, program.row_upper, bits, unit)
    columns = _bounds("column", program.col_lower, program.col_upper, bits, 1)
    return _IntegerProgram(bits, matrix, cost, rows, columns)


def _bounds(
    kind: str, lower: NDArray[np.float64], upper: NDArray[np.float64], bits: int, factor: int
) -> _Bounds:
    has_lower, has_upper = np.isfinite(lower), np.isfinite(upper)
    low, high = np.where(has_lower, lower, 0.0), np.where(has_upper, upper, 0.0)
    return _Bounds(
        kind,
        integers(np.ldexp(low, bits)) * factor,
        integers(np.ldexp(high, bits)) * factor,
        has_lower,
        has_upper,
    )


def _solved(program: _IntegerProgram, basis: Basis) -> tuple[_Rationals, _Rationals] | NotExact:
    """The values of the columns and the duals of the rows at a basis.

    Rows that are not basic hold with equality; those equations fix the basic columns, and their
    transpose the duals, since reduced costs of basic columns are 0.
    """
    rows = np.flatnonzero(basis.rows != BasisStatus.BASIC)
    columns = np.flatnonzero(basis.columns == BasisStatus.BASIC)
    if len(rows) != len(columns):
        return NotExact(f"the basis has {len(columns)} columns for {len(rows)} rows")
    fixed = _at_bounds(program.columns, basis.columns)
    sides = _at_bounds(program.rows, basis.rows)
    if isinstance(fixed, NotExact):
        return fixed
    if isinstance(sides, NotExact):
        return sides
    values, duals = _Rationals(fixed, 1), _Rationals(integers([0] * len(sides)), 1)
    if not len(rows):
        return values, duals
    square = program.matrix.restricted(rows, columns)
    try:
        factors = square.factorised()
    except RuntimeError:
        return NotExact("the matrix of the basis is singular")
    rhs = (sides - program.matrix.times(fixed))[rows]
    basic = solve_exactly(square, factors, rhs)
    weight = solve_exactly(square.transposed(), factors, program.cost[columns], transposed=True)
    if basic is None or weight is None:
        return NotExact("the basis is too ill-conditioned or its fractions are too long")
    numerators = fixed * basic.denominator
    numerators[columns] = basic.numerators
    duals.numerators[rows] = weight.numerators
    return _Rationals(numerators, basic.denominator), _Rationals(
        duals.numerators, weight.denominator
    )


def _at_bounds(bounds: _Bounds, statuses: NDArray[np.int8]) -> NDArray[np.object_] | NotExact:
    """Each number at the bound that its status names, and 0 where it is basic or free."""
    low, high = statuses == BasisStatus.LOWER, statuses == BasisStatus.UPPER
    bad = np.flatnonzero((low & ~bounds.has_lower) | (high & ~bounds.has_upper))
    if len(bad):
        return NotExact(f"{bounds.kind} {bad[0]} is at an infinite bound")
    return np.where(low, bounds.lower, np.where(high, bounds.upper, 0)).astype(object)


def _checked(
    program: _IntegerProgram, values: _Rationals, duals: _Rationals
) -> ExactSolution | NotExact:
    activity = _Rationals(program.matrix.times(values.numerators), values.denominator)
    priced = program.matrix.transposed().times(duals.numerators)
    reduced = _Rationals(program.cost * duals.denominator - priced, duals.denominator)
    for outside in (_outside(program.columns, values), _outside(program.rows, activity)):
        if outside:
            return outside
    dual_total = 0
    for bounds, prices in ((program.rows, duals), (program.columns, reduced)):
        part = _priced(bounds, prices)
        if isinstance(part, NotExact):
            return part
        dual_total += part
    unit = 2**program.scale_bits
    objective = Fraction(int(program.cost @ values.numerators), values.denominator)
    gap = (objective - Fraction(dual_total, duals.denominator)) / unit**2
    if gap:
        return NotExact(f"the objective exceeds its bound by {float(gap):.3g}")
    return ExactSolution(
        objective / unit**2,
        _Rationals(values.numerators, values.denominator * unit).fractions(),
        duals.fractions(),
        _Rationals(reduced.numerators, reduced.denominator * unit).fractions(),
    )


def _outside(bounds: _Bounds, numbers: _Rationals) -> NotExact | None:
    """The first number that is out of its bounds."""
    n, d = numbers.numerators, numbers.denominator
    low = bounds.has_lower & (n < bounds.lower * d)
    bad = np.flatnonzero(low | (bounds.has_upper & (n > bounds.upper * d)))
    return NotExact(f"{bounds.kind} {bad[0]} is out of its bounds") if len(bad) else None


def _priced(bounds: _Bounds, prices: _Rationals) -> int | NotExact:
    """The dual objective's part, times the denominator; NotExact if a price has no bound."""
    up, down = prices.numerators > 0, prices.numerators < 0
    bad = np.flatnonzero((up & ~bounds.has_lower) | (down & ~bounds.has_upper))
    if len(bad):
        return NotExact(f"the dual of {bounds.kind} {bad[0]} has the wrong sign")
    side: Any = np.where(up, bounds.lower, bounds.upper)
    return int(prices.numerators @ side) if len(side) else 0
