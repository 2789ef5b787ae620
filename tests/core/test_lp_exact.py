"""Exact optima from bases, against enumeration of all vertices."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lp_samples import INF, all_to_all, program

from ocs_codesign.core.lp import (
    SOLVERS,
    BasisStatus,
    ExactSolution,
    Options,
    Status,
    exact_vertex,
    refine,
    solve,
)
from ocs_codesign.core.lp.exact import IntegerMatrix, integers, solve_exactly
from ocs_codesign.graphs.families.dense import Complete
from ocs_codesign.graphs.families.rings import DirectedCirculant, UniRing
from ocs_codesign.graphs.families.shifts import GeneralizedKautz
from ocs_codesign.graphs.text import parse

every_solver = pytest.mark.parametrize("solver", sorted(SOLVERS))


def dense(one):
    return [[Fraction(v) for v in row] for row in one.matrix().toarray().tolist()]


def eliminated(rows, sides):
    """The solution of a square system in fractions, None if it is singular."""
    table = [[*row, side] for row, side in zip(rows, sides, strict=True)]
    for i in range(len(table)):
        pivot = next((r for r in range(i, len(table)) if table[r][i]), None)
        if pivot is None:
            return None
        table[i], table[pivot] = table[pivot], table[i]
        table[i] = [value / table[i][i] for value in table[i]]
        for r in range(len(table)):
            if r != i:
                table[r] = [a - table[r][i] * b for a, b in zip(table[r], table[i], strict=True)]
    return [row[-1] for row in table]


def best_vertex(one):
    """The least cost of all vertices of a bounded program, None if there is none."""
    size = one.num_columns
    rows = dense(one) + [[Fraction(i == j) for i in range(size)] for j in range(size)]
    lower = np.concatenate([one.row_lower, one.col_lower]).tolist()
    upper = np.concatenate([one.row_upper, one.col_upper]).tolist()
    tight = [(i, side) for i in range(len(rows)) for side in {lower[i], upper[i]} - {INF, -INF}]
    best = None
    for chosen in combinations(tight, size):
        x = eliminated([rows[i] for i, _ in chosen], [Fraction(side) for _, side in chosen])
        if x is None:
            continue
        sums = [sum(a * b for a, b in zip(row, x, strict=True)) for row in rows]
        if all(low <= s <= high for low, s, high in zip(lower, sums, upper, strict=True)):
            cost = sum(Fraction(c) * v for c, v in zip(one.cost.tolist(), x, strict=True))
            best = cost if best is None else min(best, cost)
    return best


def check(one, exact):
    """All that makes it an optimum, by other code than the one that found it."""
    cost = [Fraction(c) for c in one.cost.tolist()]
    matrix = dense(one)
    assert exact.objective == sum(c * x for c, x in zip(cost, exact.values, strict=True))
    sums = [sum(a * x for a, x in zip(row, exact.values, strict=True)) for row in matrix]
    bound = Fraction(0)
    for duals, numbers, lower, upper in (
        (exact.row_duals, sums, one.row_lower, one.row_upper),
        (exact.col_duals, exact.values, one.col_lower, one.col_upper),
    ):
        for dual, x, low, high in zip(duals, numbers, lower.tolist(), upper.tolist(), strict=True):
            assert low <= x <= high
            if dual:
                bound += dual * Fraction(low if dual > 0 else high)
    assert bound == exact.objective
    for j, dual in enumerate(exact.col_duals):
        priced = sum(y * row[j] for y, row in zip(exact.row_duals, matrix, strict=True))
        assert cost[j] - priced == dual


@every_solver
@pytest.mark.parametrize("method", ["simplex", "ipx"])
@pytest.mark.parametrize(
    ("topology", "optimum"),
    [
        (Complete(5).topology(), Fraction(1)),
        (UniRing(1, 8).topology(), Fraction(28)),
        (DirectedCirculant(8, (1, 3)).topology(), None),
        (GeneralizedKautz(2, 9).topology(), None),
        (parse("Line(Complete(4))").topology(), None),
    ],
    ids=str,
)
def test_all_to_all(solver, method, topology, optimum):
    one = all_to_all(topology)
    solution = solve(one, solver, Options(method))
    exact = exact_vertex(one, solution)
    check(one, exact)
    assert exact.objective == optimum or optimum is None
    assert float(exact.objective) == pytest.approx(solution.objective)
    assert [float(v) for v in exact.values] == pytest.approx(solution.values)
    assert [float(v) for v in exact.row_duals] == pytest.approx(solution.row_duals)
    assert [float(v) for v in exact.col_duals] == pytest.approx(solution.col_duals)


def test_a_thousand_rows():
    one = all_to_all(GeneralizedKautz(4, 31).topology())
    assert one.num_rows == 31 * 30 + 4 * 31
    solutions = [solve(one, "highs", Options(method)) for method in ("simplex", "ipx")]
    optima = {exact_vertex(one, solution).objective for solution in solutions}
    assert optima == {Fraction(17593, 982)}


numbers = st.integers(-6, 6)


@st.composite
def bounded_programs(draw):
    """Up to 3 columns in a box and 3 rows of any kind, with halves among the numbers."""
    size, num_rows = draw(st.integers(1, 3)), draw(st.integers(0, 3))
    rows = [[draw(numbers) / 2 for _ in range(size)] for _ in range(num_rows)]
    lower = [draw(st.sampled_from([-INF, -2, 0, 1])) for _ in range(num_rows)]
    upper = [max(low, draw(st.sampled_from([-1, 1, 2.5, INF]))) for low in lower]
    col_lower = [draw(st.integers(-3, 0)) for _ in range(size)]
    col_upper = [low + draw(st.integers(0, 5)) for low in col_lower]
    cost = [draw(numbers) for _ in range(size)]
    return program(cost, rows, lower, upper, col_lower, col_upper)


@every_solver
@settings(max_examples=100)
@given(one=bounded_programs())
def test_equals_the_best_of_all_vertices(solver, one):
    best = best_vertex(one)
    for method in ("simplex", "ipx"):
        solution = solve(one, solver, Options(method))
        if best is None:
            assert solution.status is Status.INFEASIBLE
        else:
            exact = refine(one, solution)
            assert isinstance(exact, ExactSolution), exact
            assert exact.objective == best
            check(one, exact)


class TestReasons:
    one = program([1, 2], [[3, 1], [1, 0]], [2, -INF], [INF, 0.5])

    def basis(self, columns, rows):
        solution = solve(self.one)
        parts = {"columns": np.array(columns, np.int8), "rows": np.array(rows, np.int8)}
        return replace(solution, basis=solution.basis._replace(**parts))

    @pytest.mark.parametrize(
        ("columns", "rows", "reason"),
        [
            ([1, 1], [1, 2], "2 columns for 1 rows"),
            ([0, 2], [1, 1], "column 1 is at an infinite bound"),
            ([1, 0], [2, 1], "row 0 is at an infinite bound"),
            ([0, 1], [1, 2], "singular"),
            ([1, 0], [0, 1], "row 1 is out of its bounds"),
            ([0, 0], [1, 1], "row 0 is out of its bounds"),
            ([1, 1], [0, 2], None),
        ],
    )
    def test_bases(self, columns, rows, reason):
        refined = refine(self.one, self.basis(columns, rows))
        if reason is None:
            assert refined.objective == Fraction(3, 2)
        else:
            assert reason in refined.reason
            assert exact_vertex(self.one, self.basis(columns, rows)) is None

    def test_a_vertex_that_is_not_optimal(self):
        one = program([1, 2], [[1, 1]], [2], [INF])
        solution = solve(one)
        dear = solution.basis._replace(columns=np.array([0, 1], np.int8))
        refined = refine(one, replace(solution, basis=dear))
        assert refined.reason == "the dual of column 0 has the wrong sign"

    def test_a_column_at_the_wrong_one_of_two_bounds(self):
        one = program([1], [], [], [], [0], [3])
        wrong = solve(one).basis._replace(columns=np.array([BasisStatus.UPPER], np.int8))
        refined = refine(one, replace(solve(one), basis=wrong))
        assert refined.reason == "the objective exceeds its bound by 3"

    def test_no_basis(self):
        one = all_to_all(GeneralizedKautz(2, 9).topology())
        solution = solve(one, "highs", Options("first-order"))
        assert refine(one, solution).reason == "highs with first-order left no basis"

    def test_numbers_that_floats_round(self):
        one = program([0.1], [[1]], [1], [INF])
        assert refine(one, solve(one)).reason == "0.1 is not a multiple of 2**-20"
        one = program([2.0**-20], [[1]], [2.0**60], [INF])
        assert refine(one, solve(one)).objective == 2**40


def matrix_of(rows):
    table = np.array(rows, dtype=object)
    row, column = np.nonzero(table)
    start = np.searchsorted(row, np.arange(len(rows) + 1))
    return IntegerMatrix(table.shape[1], start, column, integers(table[row, column]))


@settings(max_examples=100)
@given(st.integers(1, 6), st.randoms(use_true_random=False), st.integers(1, 9))
def test_integer_systems(size, random, digits):
    rows = [[random.randint(-(10**digits), 10**digits) for _ in range(size)] for _ in range(size)]
    sides = [random.randint(-(10**9), 10**9) for _ in range(size)]
    expected = eliminated([[Fraction(v) for v in row] for row in rows], map(Fraction, sides))
    if expected is not None:
        matrix = matrix_of(rows)
        factors = matrix.factorised()
        assert solve_exactly(matrix, factors, integers(sides)).fractions() == tuple(expected)
        columns = matrix.transposed()
        exact = solve_exactly(columns, factors, integers(sides), transposed=True)
        assert columns.times(exact.numerators).tolist() == [s * exact.denominator for s in sides]


def test_an_ill_conditioned_system_is_given_up():
    size = 14
    unit = 360360 * 323
    hilbert = [[unit * 29 * 5 // (i + j + 1) for j in range(size)] for i in range(size)]
    matrix = matrix_of(hilbert)
    exact = solve_exactly(matrix, matrix.factorised(), integers([1] * size))
    assert exact is None or (matrix.times(exact.numerators) == exact.denominator).all()


def test_a_product_with_empty_rows():
    matrix = matrix_of([[0, 0], [2, 3], [0, 0], [0, 1]])
    assert matrix.times(integers([1, 10])).tolist() == [0, 32, 0, 10]
    assert matrix.transposed().times(integers([1, 1, 1, 1])).tolist() == [2, 4]
