"""Solvers under one contract, and the LP twin of the BFB closed form."""

from __future__ import annotations

import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ocs_codesign.lp import SOLVERS, LinearProgram, Status, as_fractions, solve
from ocs_codesign.recipe import parse
from ocs_codesign.schedulers.bfb_loads import bfb_loads
from ocs_codesign.schedulers.bfb_lp import FORMULATIONS, bfb_lp_loads
from ocs_codesign.topology import Topology

INF = np.inf


def program(cost, rows, lower, upper, col_lower=None, col_upper=None):
    matrix = np.array(rows, dtype=float).reshape(len(lower), len(cost))
    where = [np.flatnonzero(row) for row in matrix]
    size = len(cost)
    return LinearProgram(
        np.array(cost, dtype=float),
        np.cumsum([0] + [len(w) for w in where]),
        np.concatenate([*where, np.empty(0, dtype=np.int64)]).astype(np.int64),
        np.concatenate([row[w] for row, w in zip(matrix, where, strict=True)] or [np.empty(0)]),
        np.array(lower, dtype=float),
        np.array(upper, dtype=float),
        np.zeros(size) if col_lower is None else np.array(col_lower, dtype=float),
        np.full(size, INF) if col_upper is None else np.array(col_upper, dtype=float),
    )


@pytest.mark.parametrize("solver", sorted(SOLVERS))
class TestSolverContract:
    def test_optimal_with_duals(self, solver):
        # min x + 2y, x + y >= 3, x <= 2 as a row, y free of rows: optimum x = 2, y = 1.
        solution = solve(program([1, 2], [[1, 1], [1, 0]], [3, -INF], [INF, 2]), solver)
        assert solution.status is Status.OPTIMAL
        assert solution.objective == pytest.approx(4)
        assert solution.bound == pytest.approx(4)
        assert solution.values == pytest.approx([2, 1])
        assert solution.row_duals == pytest.approx([2, -1])
        assert solution.solver == solver

    def test_equality_and_range_rows(self, solver):
        solution = solve(program([1, 1], [[1, -1], [1, 1]], [1, 2], [1, 5]), solver)
        assert solution.objective == pytest.approx(2)
        assert solution.values == pytest.approx([1.5, 0.5])

    def test_infeasible(self, solver):
        solution = solve(program([1], [[1], [1]], [2, -INF], [INF, 1]), solver)
        assert solution.status is Status.INFEASIBLE
        assert solution.values is None
        assert solution.objective is None

    def test_unbounded(self, solver):
        solution = solve(program([-1], [[1]], [0], [INF]), solver)
        assert solution.status is Status.UNBOUNDED

    def test_degenerate(self, solver):
        rows = [[1, 1]] * 5 + [[2, 2]] * 5
        solution = solve(program([1, 1], rows, [1] * 5 + [2] * 5, [INF] * 10), solver)
        assert solution.objective == pytest.approx(1)

    def test_badly_scaled(self, solver):
        solution = solve(program([1e-4, 1], [[1e-5, 1e4]], [1], [INF]), solver)
        assert solution.objective == pytest.approx(1e-4, rel=1e-6)

    def test_no_rows(self, solver):
        solution = solve(program([1, 1], [], [], [], [1, 2], [3, 4]), solver)
        assert solution.objective == pytest.approx(3)

    def test_time_limit_is_accepted(self, solver):
        one = program([1], [[1]], [2], [INF])
        assert solve(one, solver, time_limit_s=10).objective == pytest.approx(2)


def test_every_status_is_a_sentence():
    assert all(len(status.value.split()) >= 5 for status in Status)


def test_gurobi_says_when_its_licence_is_too_small():
    size = 2500
    big = program([1] * size, np.eye(size), [1] * size, [INF] * size)
    solution = solve(big, "gurobi")
    if os.environ.get("GRB_LICENSE_FILE") is None:
        assert solution.status is Status.LICENCE_TOO_SMALL
    assert solve(big, "highs").objective == pytest.approx(size)


def test_gurobi_prints_no_banner():
    script = (
        "import numpy as np\n"
        "from ocs_codesign.lp import LinearProgram, solve\n"
        "one = np.ones(1)\n"
        "p = LinearProgram(one, np.array([0, 1]), np.array([0]), one, one, one, one * 0, one)\n"
        "assert solve(p, 'gurobi').objective == 1.0\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == ""


def test_unknown_solver():
    with pytest.raises(ValueError, match="unknown solver 'cplex'"):
        solve(program([1], [], [], []), "cplex")


@pytest.mark.parametrize(
    "change",
    [
        {"row_upper": np.zeros(3)},
        {"start": np.array([0])},
        {"index": np.array([7])},
        {"values": np.zeros(2)},
        {"col_upper": np.zeros(0)},
    ],
)
def test_arrays_that_do_not_fit(change):
    good = program([1], [[1]], [0], [1])
    arrays = {name: getattr(good, name) for name in LinearProgram.__slots__}
    with pytest.raises(ValueError, match="do not fit"):
        LinearProgram(**{**arrays, **change})


def test_as_fractions_checks_the_residual():
    assert as_fractions(np.array([0.25, 7 / 3]), 4) == [Fraction(1, 4), Fraction(7, 3)]
    with pytest.raises(ValueError, match="not within"):
        as_fractions(np.array([0.123456]), 4)


RECIPES = [
    "GeneralizedKautz(4, 9)",
    "GeneralizedKautz(3, 20)",
    "DirectedCirculant(16, (1, 4, 5))",
    "Circulant(12, (2, 3))",
    'Named("desargues")',
    "DeBruijn(2, 4)",
    "UniRing(2, 5)",
    "Torus((3, 3, 2))",
    "Line(DirectedCirculant(8, (1, 3)))",
]


@pytest.mark.parametrize("text", RECIPES)
@pytest.mark.parametrize("solver", sorted(SOLVERS))
@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_lp_equals_closed_form(text, solver, formulation):
    topology = parse(text).topology()
    assert bfb_lp_loads(topology, solver, formulation) == bfb_loads(topology)


@st.composite
def multigraphs(draw):
    """Strongly connected: a ring and random further links of random speeds, loops included."""
    nodes = draw(st.integers(2, 9))
    extra = draw(
        st.lists(st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1)), max_size=20)
    )
    links = [(i, (i + 1) % nodes) for i in range(nodes)] + extra
    speeds = draw(st.lists(st.integers(1, 4), min_size=len(links), max_size=len(links)))
    tail, head = zip(*links, strict=True)
    return Topology(nodes, tail, head, speeds)


@settings(max_examples=40, deadline=None)
@given(multigraphs())
def test_lp_equals_closed_form_with_unequal_speeds(topology):
    for formulation in FORMULATIONS:
        assert bfb_lp_loads(topology, "highs", formulation) == bfb_loads(topology)


def test_unknown_formulation_and_unsolved_program():
    topology = parse("Complete(3)").topology()
    with pytest.raises(ValueError, match="unknown formulation"):
        bfb_lp_loads(topology, formulation="dual")
    large = parse("GeneralizedKautz(4, 700)").topology()
    if os.environ.get("GRB_LICENSE_FILE") is None:
        with pytest.raises(RuntimeError, match="licence"):
            bfb_lp_loads(large, "gurobi", FORMULATIONS[2])
