"""Random programs: solvers agree with each other and with duality."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lp_samples import INF, program

from ocs_codesign.core.lp import METHODS, SOLVERS, Options, Status, exact_vertex, solve

numbers = st.integers(-5, 5)


@st.composite
def programs(draw, mixed=False):
    """Up to 5 columns and 5 rows of all kinds: free, one-sided, ranges, equalities."""
    size, num_rows = draw(st.integers(1, 5)), draw(st.integers(0, 5))
    rows = [[draw(numbers) for _ in range(size)] for _ in range(num_rows)]

    def bounds(count, lowers):
        lower = [draw(st.sampled_from(lowers)) for _ in range(count)]
        return lower, [max(low, draw(st.sampled_from([0, 3, 8, INF]))) for low in lower]

    lower, upper = bounds(num_rows, [-INF, -4, 0, 1, 2])
    col_lower, col_upper = bounds(size, [0, 0, -3, -INF])
    cost = [draw(numbers) for _ in range(size)]
    integer = [draw(st.booleans()) for _ in range(size)] if mixed else None
    return program(cost, rows, lower, upper, col_lower, col_upper, integer)


@given(programs())
def test_solvers_agree(one):
    solutions = [solve(one, solver) for solver in SOLVERS]
    first = solutions[0]
    assert {solution.status for solution in solutions} == {first.status}
    assert first.status in (Status.OPTIMAL, Status.INFEASIBLE, Status.UNBOUNDED)
    if first.status is Status.OPTIMAL:
        exact = {exact_vertex(one, solution).objective for solution in solutions}
        assert len(exact) == 1
        for solution in solutions:
            assert solution.objective == pytest.approx(float(exact.copy().pop()), abs=1e-6)


@pytest.mark.parametrize("solver", sorted(SOLVERS))
@settings(max_examples=60)
@given(one=programs(), method=st.sampled_from(METHODS))
def test_duality(solver, one, method):
    solution = solve(one, solver, Options(method, time_limit_s=30.0))
    assert solution.has_point == (solution.status is Status.OPTIMAL)
    if solution.has_point:
        scale = 1e-4 * (1 + abs(solution.objective))
        assert solution.violation <= scale
        assert solution.bound <= solution.objective + scale
        assert solution.bound >= solution.objective - scale


@settings(max_examples=100)
@given(programs(mixed=True))
def test_solvers_agree_on_mixed_integer_programs(one):
    first, second = (solve(one, solver, Options(time_limit_s=30.0)) for solver in SOLVERS)
    assert first.status is second.status
    if first.status is Status.OPTIMAL:
        assert first.objective == pytest.approx(second.objective, abs=1e-4)
        assert first.bound <= first.objective + 1e-6
        assert second.bound <= second.objective + 1e-6
