"""Programs for the solver tests, and what LinearProgram and Options refuse."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import coo_matrix

from ocs_codesign.lp import METHODS, LinearProgram, Options, solve

INF = np.inf


def program(cost, rows, lower, upper, col_lower=None, col_upper=None, integer=None):
    """A program from dense rows; columns are at least 0 unless told otherwise."""
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
        None if integer is None else np.array(integer, dtype=bool),
    )


def all_to_all(topology, integer=None):
    """Least largest link load of an all-to-all: columns f[source, link] and U, minimise U."""
    nodes, links = topology.num_nodes, topology.num_links
    source, link = np.divmod(np.arange(nodes * links), links)
    column, load = np.arange(nodes * links), nodes * nodes + np.arange(links)
    row = [source * nodes + topology.head[link], source * nodes + topology.tail[link], load[link]]
    where = (np.concatenate([*row, load]), np.concatenate([*[column] * 3, [nodes * links] * links]))
    ones = np.ones(nodes * links)
    entries = np.concatenate([ones, -ones, ones, -np.ones(links)])
    matrix = coo_matrix((entries, where)).tocsr()
    kept = np.setdiff1d(np.arange(matrix.shape[0]), np.arange(nodes) * (nodes + 1))
    matrix = matrix[kept]
    matrix.eliminate_zeros()
    matrix.sort_indices()
    demands = np.ones(nodes * (nodes - 1))
    return LinearProgram(
        np.append(np.zeros(nodes * links), 1.0),
        matrix.indptr,
        matrix.indices,
        matrix.data,
        np.concatenate([demands, np.full(links, -INF)]),
        np.concatenate([demands, np.zeros(links)]),
        np.zeros(nodes * links + 1),
        np.full(nodes * links + 1, INF),
        integer,
    )


def market_split(rows=4, columns=40, seed=0):
    """Choose columns so that every row's sum is near half of its total: easy points, hard proof."""
    rng = np.random.default_rng(seed)
    weights = rng.integers(0, 100, (rows, columns))
    matrix = np.hstack([weights, np.eye(rows), -np.eye(rows)])
    size = columns + 2 * rows
    half = weights.sum(axis=1) // 2
    upper = [1] * columns + [INF] * (2 * rows)
    integer = [True] * columns + [False] * (2 * rows)
    cost = [0] * columns + [1] * (2 * rows)
    return program(cost, matrix, half, half, [0] * size, upper, integer)


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
