"""Mixed-integer programs: every solver under one contract."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from folders import ROOT
from lp_samples import INF, all_to_all, market_split, out_of_time, program

from ocs_codesign.core.lp import METHODS, SOLVERS, Options, Status, exact_vertex, refine, solve
from ocs_codesign.graphs.families.shifts import DeBruijn

every_solver = pytest.mark.parametrize("solver", sorted(SOLVERS))


def knapsack():
    """Value 15 and 20 for weights 5 and 4 of 14: the best is (1, 2), its relaxation (0, 3.5)."""
    return program([-15, -18], [[5, 4]], [-INF], [14], [0, 0], [1, 3], [True, True])


@every_solver
class TestMixedIntegerContract:
    def test_optimal_where_the_relaxation_is_fractional(self, solver):
        one = knapsack()
        solution = solve(one, solver)
        assert solution.status is Status.OPTIMAL
        assert (solution.solver, solution.method) == (solver, "branch-and-bound")
        assert solution.objective == solution.bound == pytest.approx(-54)
        assert solution.values == pytest.approx([0, 3])
        assert solution.violation < 1e-6
        assert solution.relative_gap < 1e-6
        assert solution.row_duals is solution.col_duals is solution.basis is None
        relaxed = program([-15, -18], [[5, 4]], [-INF], [14], [0, 0], [1, 3])
        assert solve(relaxed, solver).objective < -54 - 1

    def test_only_some_columns_are_integer(self, solver):
        one = program([1, 1], [[2, 2]], [3], [INF], integer=[True, False])
        assert solve(one, solver).objective == pytest.approx(1.5)
        one = program([1, 2], [[2, 2]], [3], [INF], integer=[True, False])
        solution = solve(one, solver)
        assert solution.objective == pytest.approx(2)

    def test_no_integer_column_is_a_linear_program(self, solver):
        one = program([1], [[2]], [3], [INF], integer=[False])
        solution = solve(one, solver, Options("simplex"))
        assert solution.method == "simplex"
        assert solution.row_duals == pytest.approx([0.5])

    def test_infeasible_where_the_relaxation_is_not(self, solver):
        one = program([1], [[2]], [1], [1], integer=[True])
        solution = solve(one, solver)
        assert solution.status is Status.INFEASIBLE
        assert not solution.has_point

    def test_unbounded_or_infeasible(self, solver):
        rows = [[0, 2], [1, 1]]
        ray = program([-1, 0], rows, [2, 0], [2, INF], integer=[True, True])
        assert solve(ray, solver).status is Status.UNBOUNDED
        no_point = program([-1, 0], rows, [1, 0], [1, INF], integer=[True, True])
        assert solve(no_point, solver).status is Status.INFEASIBLE

    def test_the_flow_program_in_integers(self, solver):
        one = all_to_all(DeBruijn(2, 3).topology())
        whole = all_to_all(DeBruijn(2, 3).topology(), np.ones(one.num_columns, dtype=bool))
        relaxed, solution = solve(one, solver), solve(whole, solver)
        assert solution.objective >= solution.bound - 1e-6 >= relaxed.objective - 1e-5
        assert solution.values == pytest.approx(np.rint(solution.values))

    def test_node_limit_ends_at_the_same_point(self, solver):
        one = market_split()
        first, second = (solve(one, solver, Options(node_limit=20)) for _ in range(2))
        assert first.status is second.status is Status.NODE_LIMIT
        assert "limit of nodes" in first.message
        assert solve(one, solver, Options(node_limit=2000)).objective < first.objective
        assert (first.values == second.values).all()
        assert first.violation < 1e-5

    def test_time_limit_with_an_incumbent(self, solver):
        one = market_split()
        solution = out_of_time(one, solver, "bound")
        assert solution.status is Status.TIME_LIMIT
        assert solution.violation < 1e-5
        assert solution.objective == pytest.approx(one.cost @ solution.values)
        assert solution.bound < solution.objective
        assert solution.relative_gap > 0
        assert "time limit" in solution.message
        assert f"bound {solution.bound:.9g}" in solution.message

    def test_time_limit_without_an_incumbent(self, solver):
        solution = solve(market_split(), solver, Options(time_limit_s=0.0))
        assert solution.status is Status.TIME_LIMIT
        assert not solution.has_point
        assert solution.objective is solution.relative_gap is None

    def test_a_gap_is_enough_if_asked_for(self, solver):
        # A gap of 100 % lets any incumbent of a nonnegative objective pass for optimal.
        whole = market_split(rows=2, columns=25)
        solution = solve(whole, solver, Options(relative_gap=1.0, time_limit_s=60.0))
        assert solution.status is Status.OPTIMAL
        assert solution.objective - solution.bound <= abs(solution.objective) + 1e-9

    @pytest.mark.parametrize("method", METHODS[1:])
    def test_methods_are_for_linear_programs(self, solver, method):
        solution = solve(knapsack(), solver, Options(method))
        assert solution.status is Status.REFUSED
        assert f"integer columns need branch-and-bound, not {method}" in solution.message

    def test_tolerance(self, solver):
        assert solve(knapsack(), solver, Options(tolerance=1e-8)).status is Status.OPTIMAL
        assert solve(knapsack(), solver, Options(tolerance=1e-30)).status is Status.REFUSED

    def test_threads(self, solver):
        for threads in (2, 1):
            assert solve(knapsack(), solver, Options(threads=threads)).objective == -54

    def test_no_rows(self, solver):
        one = program([1, -1], [], [], [], [0.5, 0], [3, 2.5], [True, True])
        assert solve(one, solver).values == pytest.approx([1, 2])

    def test_an_integer_optimum_has_no_exact_vertex(self, solver):
        one = knapsack()
        assert exact_vertex(one, solve(one, solver)) is None
        assert "integer columns" in refine(one, solve(one, solver)).reason

    def test_interrupted(self, solver):
        script = (
            "import os, signal, threading\n"
            "from lp_samples import market_split\n"
            "from ocs_codesign.core.lp import Options, solve\n"
            # One that comes before there is a point says little: the next comes later.
            "for after in range(12):\n"
            "    stop = threading.Timer(0.2 * 2**after, os.kill, (os.getpid(), signal.SIGINT))\n"
            "    try:\n"
            "        stop.start()\n"
            f"        s = solve(market_split(), {solver!r}, Options())\n"
            "        if s.has_point and s.bound is not None:\n"
            "            break\n"
            "    except KeyboardInterrupt:\n"
            "        pass\n"
            "print(s.status.name, s.has_point, s.bound < s.objective)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", script],
            cwd=ROOT / "tests" / "samples",
            capture_output=True,
            text=True,
            check=True,
        )
        # Gurobi writes a line of its own, before or after.
        assert "INTERRUPTED True True" in done.stdout.splitlines()
