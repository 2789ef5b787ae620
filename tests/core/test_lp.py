"""Linear programs: every solver and method under one contract."""

from __future__ import annotations

import numpy as np
import pytest
from lp_samples import INF, all_to_all, program

from ocs_codesign.core.lp import METHODS, SOLVERS, BasisStatus, Options, Status, solve
from ocs_codesign.core.lp.program import FIRST_ORDER
from ocs_codesign.graphs.families.shifts import DeBruijn

VERTEX = METHODS[:3]

every_solver = pytest.mark.parametrize("solver", sorted(SOLVERS))
every_method = pytest.mark.parametrize("method", METHODS)


@every_solver
@every_method
class TestLinearContract:
    def solved(self, one, solver, method):
        """The solution, after the checks that every optimum must pass."""
        solution = solve(one, solver, Options(method, time_limit_s=60.0))
        assert solution.status is Status.OPTIMAL, solution.message
        assert solution.solver == solver
        assert solution.method == Options(method).method_for(one)
        assert solution.has_point
        assert solution.violation == one.violation(solution.values) < 1e-5
        assert solution.objective == pytest.approx(one.cost @ solution.values)
        assert solution.bound == pytest.approx(solution.objective, rel=1e-5, abs=1e-5)
        assert solution.relative_gap < 1e-5 or abs(solution.objective) < 1e-5
        priced = one.cost - one.matrix().T @ solution.row_duals
        assert solution.col_duals == pytest.approx(priced)
        if method in VERTEX:
            basic = [np.sum(part == BasisStatus.BASIC) for part in self.parts(solution)]
            assert sum(basic) == one.num_rows
        return solution

    def parts(self, solution):
        assert solution.basis.columns.dtype == solution.basis.rows.dtype == np.int8
        return solution.basis.columns, solution.basis.rows

    def test_optimal_with_duals(self, solver, method):
        # min x + 2y, x + y >= 3, x <= 2 as a row, y free of rows: optimum x = 2, y = 1.
        one = program([1, 2], [[1, 1], [1, 0]], [3, -INF], [INF, 2])
        solution = self.solved(one, solver, method)
        assert solution.objective == pytest.approx(4, rel=1e-5)
        assert solution.values == pytest.approx([2, 1], abs=1e-5)
        assert solution.row_duals == pytest.approx([2, -1], abs=1e-5)
        assert solution.col_duals == pytest.approx([0, 0], abs=1e-5)
        if method in VERTEX:
            assert self.parts(solution)[0].tolist() == [BasisStatus.BASIC] * 2
            assert self.parts(solution)[1].tolist() == [BasisStatus.LOWER, BasisStatus.UPPER]

    def test_equality_and_range_rows(self, solver, method):
        # The first range row ends at its lower, the second at its upper bound; a free row is idle.
        rows = [[1, -1, 0], [1, 1, 0], [0, 0, 1], [1, 1, 1]]
        one = program([1, 1, -1], rows, [1, 2, 0, -INF], [1, 5, 4, INF])
        solution = self.solved(one, solver, method)
        assert solution.objective == pytest.approx(-2, rel=1e-5)
        assert solution.values == pytest.approx([1.5, 0.5, 4], abs=1e-4)
        assert solution.row_duals == pytest.approx([0, 1, -1, 0], abs=1e-5)
        if method in VERTEX:
            assert self.parts(solution)[1].tolist()[1:] == [
                BasisStatus.LOWER,
                BasisStatus.UPPER,
                BasisStatus.BASIC,
            ]

    def test_free_and_upper_columns(self, solver, method):
        one = program(
            [1, 1, -1], [[1, 1, 0], [1, -1, 0]], [2, -1], [INF, 1], [-INF, -INF, 0], [INF, INF, 7]
        )
        solution = self.solved(one, solver, method)
        assert solution.objective == pytest.approx(-5, rel=1e-5)
        assert solution.col_duals == pytest.approx([0, 0, -1], abs=1e-5)

    def test_degenerate(self, solver, method):
        rows = [[1, 1]] * 5 + [[2, 2]] * 5
        one = program([1, 1], rows, [1] * 5 + [2] * 5, [INF] * 10)
        assert self.solved(one, solver, method).objective == pytest.approx(1, rel=1e-5)

    def test_badly_scaled(self, solver, method):
        one = program([1e-4, 1], [[1e-5, 1e4]], [1], [INF])
        assert self.solved(one, solver, method).objective == pytest.approx(1e-4, rel=1e-5)

    def test_tiny_entries_are_not_dropped(self, solver, method):
        one = program([1e-6, 1], [[1e-10, 0], [0, 1]], [1e-5, 1], [INF, INF])
        solution = solve(one, solver, Options(method, tolerance=1e-9))
        assert solution.values == pytest.approx([1e5, 1], rel=1e-3)

    def test_no_rows(self, solver, method):
        one = program([1, -1], [], [], [], [1, 2], [3, 4])
        assert self.solved(one, solver, method).objective == pytest.approx(-3)

    def test_nothing_at_all(self, solver, method):
        assert self.solved(program([], [], [], []), solver, method).objective == 0

    def test_all_methods_find_the_same_optimum(self, solver, method):
        one = all_to_all(DeBruijn(2, 3).topology())
        assert self.solved(one, solver, method).objective == pytest.approx(9, rel=1e-5)

    @pytest.mark.parametrize(
        "one",
        [
            program([1], [[1], [1]], [2, -INF], [INF, 1]),
            program([1], [[1]], [2], [1]),
            program([1], [[1]], [0], [1], [3], [2]),
            program([0, 0], [[1, 1], [1, -1], [1, 0]], [2, 0, -INF], [2, 0, 0.5]),
            # A ray that improves the objective, but no point to start from.
            program([-1, 0], [[0, 1], [0, 1], [1, 1]], [2, -INF, 0], [INF, 1, INF]),
        ],
        ids=["rows", "crossed row", "crossed column", "no cost", "with a ray"],
    )
    def test_infeasible(self, solver, method, one):
        solution = solve(one, solver, Options(method, time_limit_s=60.0))
        assert solution.status is Status.INFEASIBLE
        assert not solution.has_point
        assert solution.objective is solution.bound is solution.relative_gap is None
        assert "no point satisfies all constraints" in solution.message

    @pytest.mark.parametrize(
        "one",
        [
            program([-1], [[1]], [0], [INF]),
            program([-1], [], [], []),
            program([-1, -1], [[1, -1]], [-1], [1]),
            program([1, 1], [[1, -1]], [0], [0], [-INF, -INF]),
        ],
        ids=["ray", "no rows", "diagonal", "free"],
    )
    def test_unbounded(self, solver, method, one):
        solution = solve(one, solver, Options(method, time_limit_s=60.0))
        assert solution.status is Status.UNBOUNDED
        assert not solution.has_point

    def test_a_tolerance_that_is_too_fine_is_refused(self, solver, method):
        one = program([1], [[1]], [2], [INF])
        assert solve(one, solver, Options(method, tolerance=1e-8)).status is Status.OPTIMAL
        solution = solve(one, solver, Options(method, tolerance=1e-30))
        if (solver, method) != ("gurobi", FIRST_ORDER):  # which takes it, and reaches it
            assert solution.status is Status.REFUSED
            assert "1e-30" in solution.message

    def test_no_time(self, solver, method):
        one = all_to_all(DeBruijn(2, 4).topology())
        solution = solve(one, solver, Options(method, time_limit_s=0.0))
        assert solution.status in (Status.TIME_LIMIT, Status.OPTIMAL)
        assert solution.has_point == (solution.objective is not None)
        if solution.status is Status.TIME_LIMIT and solution.bound is not None:
            assert solution.bound <= 77 / 3 + 1e-6

    def test_more_threads_and_then_one_without_presolve(self, solver, method):
        one = all_to_all(DeBruijn(2, 3).topology())
        for threads in (1, 2, 1):
            options = Options(method, threads=threads, presolve=threads > 1)
            assert solve(one, solver, options).objective == pytest.approx(9, rel=1e-5)

    def test_from_where_another_ended(self, solver, method):
        """A basis of fewer rows, of all, or of another program changes no optimum."""
        costs, matrix = [-3, -2, -1], [[1, 1, 1], [1, 1, 0], [1, 0, 0]]
        few = program(costs, matrix[:2], [-INF] * 2, [6, 4])
        more = program(costs, matrix, [-INF] * 3, [6, 4, 1])
        basis = solve(few, solver, Options("simplex")).basis
        for one, least in ((few, -14), (more, -11)):
            for start in (basis, solve(more, solver, Options("simplex")).basis):
                solution = solve(one, solver, Options(method, start=start))
                assert solution.objective == pytest.approx(least, abs=1e-4)
        other = solve(program([1], [[1]], [2], [3]), solver, Options(method, start=basis))
        assert other.objective == pytest.approx(2, abs=1e-4)
