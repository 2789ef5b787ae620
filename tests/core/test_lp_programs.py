"""What LinearProgram and Options refuse."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from lp_samples import INF, program

from ocs_codesign.core.lp import METHODS, Options, solve


@pytest.mark.parametrize(
    "change",
    [
        {"row_upper": np.zeros(3)},
        {"start": np.array([0])},
        {"start": np.array([1, 1])},
        {"index": np.array([7])},
        {"values": np.zeros(2)},
        {"col_upper": np.zeros(0)},
        {"integer": np.ones(2, dtype=bool)},
    ],
)
def test_arrays_that_do_not_fit(change):
    with pytest.raises(ValueError, match="do not fit"):
        replace(program([1], [[1]], [0], [1]), **change)


def test_starts_must_not_fall():
    with pytest.raises(ValueError, match="do not fit"):
        replace(program([1], [[1], [1]], [0, 0], [1, 1]), start=np.array([0, 3, 2]))


@pytest.mark.parametrize("name", ["cost", "values"])
@pytest.mark.parametrize("number", [np.nan, INF])
def test_costs_and_entries_are_finite(name, number):
    with pytest.raises(ValueError, match=f"{name} of a program must be finite"):
        replace(program([1], [[1]], [0], [1]), **{name: np.array([number])})


@pytest.mark.parametrize(
    "change",
    [{"row_lower": INF}, {"row_upper": -INF}, {"col_lower": np.nan}, {"col_upper": np.nan}],
)
def test_bounds_are_numbers(change):
    arrays = {name: np.array([number]) for name, number in change.items()}
    with pytest.raises(ValueError, match=r"(row|col) bounds must be numbers"):
        replace(program([1], [[1]], [0], [1]), **arrays)


def test_violation_is_the_worst_of_all_conditions():
    one = program([1, 1], [[1, 1]], [2], [3], [0, 0], [2, 2])
    assert one.violation(np.array([1.0, 1.0])) == 0
    assert one.violation(np.array([0.5, 1.0])) == 0.5
    assert one.violation(np.array([2.0, 2.0])) == 1
    assert one.violation(np.array([2.25, 0.0])) == 0.25
    assert one.violation(np.array([2.0, -0.125])) == 0.125
    assert replace(one, integer=np.array([True, False])).violation(np.array([0.75, 1.5])) == 0.25
    assert not one.is_mixed_integer
    assert not replace(one, integer=np.zeros(2, dtype=bool)).is_mixed_integer


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "ipm"}, "unknown method 'ipm'"),
        ({"time_limit_s": -1.0}, r"time limit of -1.0 s"),
        ({"time_limit_s": np.nan}, r"time limit of nan s"),
        ({"relative_gap": -0.1}, "relative gap -0.1"),
        ({"node_limit": 0}, "limit of 0 nodes"),
        ({"tolerance": 0.0}, "tolerance 0.0"),
        ({"threads": 0}, "0 threads"),
    ],
)
def test_options_that_no_solver_could_honour(options, message):
    with pytest.raises(ValueError, match=message):
        Options(**options)


def test_what_auto_means():
    small, large = program([1], [], [], []), program([1] * 2500, [], [], [])
    whole = replace(small, integer=np.array([True]))
    assert [Options().method_for(p) for p in (small, large, whole)] == [
        "simplex",
        "ipx",
        "branch-and-bound",
    ]
    for method in METHODS[1:]:
        assert Options(method).method_for(large) == method
    assert Options().after(1.0) == Options()
    assert Options(time_limit_s=1.0).after(2.0).time_limit_s == 0


@pytest.mark.parametrize("names", [("cplex", None), ("highs", "cplex")])
def test_unknown_solver(names):
    with pytest.raises(ValueError, match="unknown solver 'cplex'"):
        solve(program([1], [], [], []), names[0], Options(fallback=names[1]))
