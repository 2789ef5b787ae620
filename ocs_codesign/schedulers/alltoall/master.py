"""All-to-all throughput of any topology: the linear program with flows grouped by source.

Minimise U over flows f[s, e] >= 0 such that every node v != s keeps one message of source s
(inflow - outflow = 1) and every link orbit carries at most speed * U over all sources. Destinations
and paths are a matter of decomposing each source's flow afterwards. What the solver returns is only
a hint: the time is that of an exact re-routing, the bound is proved by integer prices. Source: Basu
et al. (arXiv 2309.13541).
"""

from __future__ import annotations

import time
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.lp import DEFAULT_OPTIONS, LinearProgram, Status, exact_vertex, solve
from ocs_codesign.lp.options import AUTO, FIRST_ORDER, IPX
from ocs_codesign.schedulers.alltoall.certificates import (
    as_prices,
    certified,
    integer_prices,
)
from ocs_codesign.schedulers.alltoall.large import soft_throughput
from ocs_codesign.schedulers.alltoall.result import Throughput

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.lp import ExactSolution, Options
    from ocs_codesign.symmetry.quotient import Quotient

MAX_VERTEX_COLUMNS = 20_000
MAX_COLUMNS = 300_000
TOLERANCE = 1e-5
"""Tolerance of the first-order method unless the options or their gap ask for another."""


def master_throughput(quotient: Quotient, options: Options = DEFAULT_OPTIONS) -> Throughput:
    """All-to-all routing by the program: a vertex while it is small, first-order beyond.

    A method that the options name is used instead. What the solver leaves for time or memory, a few
    rounds of mirror descent may better. Raises ValueError if the program is too large,
    SolverUnavailableError if the solver cannot take it.

    >>> from ocs_codesign.symmetry.quotient import quotient
    >>> from ocs_codesign.graphs.families.shifts import GeneralizedKautz
    >>> master_throughput(quotient(GeneralizedKautz(4, 9).topology())).time
    Fraction(5, 3)
    """
    links, columns = quotient.topology.num_links, num_columns(quotient)
    if columns > MAX_COLUMNS:
        raise ValueError(
            f"all-to-all on {quotient.topology!r} is a program of {columns} columns: at most "
            f"{MAX_COLUMNS} are supported here"
        )
    began = time.monotonic()
    program, is_small = master_program(quotient), columns <= MAX_VERTEX_COLUMNS
    solution = solve(program, options=_suited(options, is_small)).taken()
    vertex = exact_vertex(program, solution) if is_small else None
    if vertex is not None:
        return _at_vertex(quotient, vertex)
    found = []
    if solution.status is not Status.OPTIMAL:
        left = options.after(time.monotonic() - began)
        found.append(soft_throughput(quotient, left))
    if solution.values is not None and solution.row_duals is not None:
        flow = solution.values[:-1].reshape(quotient.num_sources, links)
        prices = as_prices(-solution.row_duals[-quotient.num_orbits :])
        found.append(certified(quotient, flow, prices, solution.method))
    fastest = min(found, key=lambda one: one.time)
    if solution.status is Status.OPTIMAL:
        return fastest
    best = max(found, key=lambda one: one.bound)
    how = f"{fastest.method}; {solution.solver}: {solution.status.value}"
    return replace(fastest, bound=best.bound, prices=best.prices, method=how)


def _suited(options: Options, is_small: bool) -> Options:
    """The options with the method for this size, and a tolerance that the gap calls for."""
    if options.method != AUTO:
        return options
    if is_small:
        return replace(options, method=IPX)
    gap, tolerance = options.relative_gap, options.tolerance
    if tolerance is None:
        tolerance = TOLERANCE if gap is None else min(max(gap / 10, 1e-7), 100 * TOLERANCE)
    return replace(options, method=FIRST_ORDER, tolerance=tolerance)


def _at_vertex(quotient: Quotient, vertex: ExactSolution) -> Throughput:
    """What an exact optimum of the program says."""
    loads = [Fraction(0)] * quotient.num_orbits
    orbits = quotient.link_orbit.tolist() * quotient.num_sources
    for orbit, flow in zip(orbits, vertex.values[:-1], strict=True):
        loads[orbit] += flow
    weights = [-dual for dual in vertex.row_duals[-quotient.num_orbits :]]
    prices = integer_prices(weights)
    if prices is None:  # the duals are a proof all the same, only not one in 64 bits
        prices = as_prices(np.array(weights, dtype=float))
    least = quotient.time(loads)
    return Throughput(quotient, least, least, prices, tuple(loads), "exact vertex")


def num_columns(quotient: Quotient) -> int:
    """Columns of the program: a flow a source and link, and U."""
    return quotient.num_sources * quotient.topology.num_links + 1


def master_program(quotient: Quotient) -> LinearProgram:
    """The program: column s * links + e is the flow of the s-th source on link e, the last is U.

    Row s * (N - 1) + i is the balance of the i-th node but the source, then a row a link orbit.

    >>> from ocs_codesign.symmetry.quotient import quotient
    >>> from ocs_codesign.graphs.families.shifts import GeneralizedKautz
    >>> program = master_program(quotient(GeneralizedKautz(2, 5).topology()))
    >>> len(program.cost), len(program.row_lower)
    (51, 30)
    """
    topology, sources = quotient.topology, quotient.num_sources
    nodes, links = topology.num_nodes, topology.num_links
    start, index, values = _balances(quotient)
    by_orbit = np.argsort(quotient.link_orbit, kind="stable")
    per_orbit = np.bincount(quotient.link_orbit, minlength=quotient.num_orbits)
    # An orbit's row: its links in every source's flow, then U.
    width = per_orbit * sources + 1
    capacity_start = np.cumsum(width)
    member_orbit = np.repeat(quotient.link_orbit[by_orbit], sources)
    member = np.repeat(by_orbit, sources) + np.tile(np.arange(sources), links) * links
    place = np.arange(links * sources) + member_orbit
    capacity_index = np.full(int(width.sum()), sources * links)
    capacity_values = np.empty(len(capacity_index))
    capacity_values[capacity_start - 1] = -quotient.speed
    capacity_index[place] = member
    capacity_values[place] = 1.0
    upper = np.full((sources, links), np.inf)
    upper[:, topology.tail == topology.head] = 0.0
    upper[topology.head == quotient.sources[:, None]] = 0.0  # nothing returns to its source
    cost = np.zeros(sources * links + 1)
    cost[-1] = 1.0
    balances = sources * (nodes - 1)
    return LinearProgram(
        cost,
        np.concatenate([start, start[-1] + capacity_start]),
        np.concatenate([index, capacity_index]),
        np.concatenate([values, capacity_values]),
        np.concatenate([np.ones(balances), np.full(quotient.num_orbits, -np.inf)]),
        np.concatenate([np.ones(balances), np.zeros(quotient.num_orbits)]),
        np.zeros(sources * links + 1),
        np.append(upper.ravel(), np.inf),
    )


def _balances(
    quotient: Quotient,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Rows inflow - outflow of every source and node but the source: start, index, values."""
    topology, sources = quotient.topology, quotient.num_sources
    nodes, links = topology.num_nodes, topology.num_links
    proper = np.flatnonzero(topology.tail != topology.head)
    node = np.concatenate([topology.head[proper], topology.tail[proper]]).astype(np.int64)
    by_node = np.argsort(node, kind="stable")
    node = np.tile(node[by_node], sources)
    link = np.tile(np.concatenate([proper, proper])[by_node], sources)
    sign = np.repeat([1.0, -1.0], len(proper))[by_node]
    number = np.repeat(np.arange(sources), 2 * len(proper))
    source = quotient.sources[number]
    kept = node != source
    rows = (number * (nodes - 1) + node - (node > source))[kept]
    start = np.searchsorted(rows, np.arange(sources * (nodes - 1) + 1))
    return start, (link + number * links)[kept], np.tile(sign, sources)[kept]
