"""Programs for the tests of solvers."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_matrix

from ocs_codesign.core.lp import LinearProgram, Options, solve

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


def out_of_time(one, solver, needed, **options):
    """The solution at the first of ever longer time limits that leaves what is needed."""
    limits = (2.0**power for power in range(-6, 12))
    ended = (solve(one, solver, Options(**options, time_limit_s=limit)) for limit in limits)
    return next(each for each in ended if getattr(each, needed) is not None and each.has_point)
