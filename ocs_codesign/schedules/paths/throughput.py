"""The least time of an all-to-all when messages may split over paths, by whichever method suits."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.core.compute.symmetry import quotient
from ocs_codesign.core.given import takes_topology
from ocs_codesign.core.lp import DEFAULT_OPTIONS, LinearProgram, Status, exact_vertex, solve
from ocs_codesign.core.lp.program import AUTO, FIRST_ORDER, IPX
from ocs_codesign.schedules.paths.certificates import Throughput, as_prices, at_vertex, certified
from ocs_codesign.schedules.paths.planes import MAX_ORBITS, orbit_throughput
from ocs_codesign.schedules.stepped.time_network import num_arcs, played, routing_network

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_matrix

    from ocs_codesign.core.compute.symmetry import Quotient
    from ocs_codesign.core.lp import Options
    from ocs_codesign.core.topology import Topology


# All-to-all throughput of large topologies without much symmetry: no solver, a certified gap.


MAX_ARCS = 100_000_000
"""About 12 GB: some 3000 nodes of degree 4 without symmetry."""


def soft_throughput(quotient: Quotient, options: Options = DEFAULT_OPTIONS) -> Throughput:
    """A routing over paths of at most diameter + 1 hops, to about a thousandth of the least time.

    Of the options, the time limit and the gap count. The bound counts all paths. Raises ValueError
    if the topology is not strongly connected or has more than MAX_ARCS arcs.
    """
    topology, most = quotient.topology, quotient.topology.diameter() + 1
    distance = topology.distances()[quotient.sources]
    size = num_arcs(quotient, distance, most)
    if size > MAX_ARCS:
        raise ValueError(
            f"all-to-all on {topology!r} has {size:,} arcs of paths of {most} hops: at most "
            f"{MAX_ARCS:,} are supported without more symmetry"
        )
    network = routing_network(quotient, distance, most)
    game = played(network, options)
    arcs = np.flatnonzero(network.row >= 0)
    flow = np.zeros((quotient.num_sources, topology.num_links))
    np.add.at(flow, (network.source[arcs], network.link[arcs]), game.best[arcs])
    return certified(quotient, flow, game.prices, "mirror descent")


# All-to-all throughput of any topology: the linear program with flows grouped by source.
#
# Minimise U over flows f[s, e] >= 0 such that every node v != s keeps one message of source s
# (inflow - outflow = 1) and every link orbit carries at most speed * U over all sources.
# Destinations and paths are a matter of decomposing each source's flow afterwards. What the
# solver returns is only a hint: the time is that of an exact re-routing, the bound is proved by
# integer prices. Source: Basu et al. (arXiv 2309.13541).


MAX_VERTEX_COLUMNS = 20_000
MAX_COLUMNS = 300_000
TOLERANCE = 1e-5
"""Tolerance of the first-order method unless the options or their gap ask for another."""


def master_throughput(quotient: Quotient, options: Options = DEFAULT_OPTIONS) -> Throughput:
    """All-to-all routing by the program: a vertex while it is small, first-order beyond.

    A method that the options name is used instead. What the solver leaves for time or memory, a few
    rounds of mirror descent may better. Raises ValueError if the program is too large,
    SolverUnavailableError if the solver cannot take it.
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
        loads, prices, _ = at_vertex(quotient, vertex, links)
        least = quotient.time(loads)
        return Throughput(
            least, least, "exact vertex", quotient=quotient, prices=prices, loads=loads
        )
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
    how = f"{fastest.proof}; {solution.solver}: {solution.status.value}"
    return replace(fastest, bound=best.bound, prices=best.prices, proof=how)


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


def num_columns(quotient: Quotient) -> int:
    """Columns of the program: a flow a source and link, and U."""
    return quotient.num_sources * quotient.topology.num_links + 1


def master_program(
    quotient: Quotient, layered: Topology | None = None, clock: NDArray[np.int64] | None = None
) -> LinearProgram:
    """The program: column s * links + e is the flow of the s-th source on link e, the last is U.

    Row s * (nodes - 1) + i is the balance of the i-th node but the source, then a row a link orbit.
    Flows may be on a ``layered`` network, whose first links are those of the topology, whose others
    cost nothing, and of which the last N nodes keep a message; ``clock`` (int64, a link orbit) then
    says which of several durations, whose sum is minimised, is an orbit's U.
    """
    topology, sources, orbits = quotient.topology, quotient.sources, quotient.num_orbits
    network = topology if layered is None else layered
    clock = np.zeros(orbits, dtype=np.int64) if clock is None else clock
    nodes, clocks = network.num_nodes, int(clock.max()) + 1
    flow = np.arange(len(sources) * network.num_links).reshape(len(sources), -1)  # the columns
    matrix, flows = _matrix(quotient, network, clock, flow), flow.size
    last = np.arange(nodes) >= nodes - topology.num_nodes
    needed = np.repeat(last[None, :], len(sources), axis=0)
    needed[:, -topology.num_nodes :][np.arange(len(sources)), sources] = False
    needed = needed[np.arange(nodes) != sources[:, None]].astype(np.float64)
    # Nothing crosses a loop or returns to its source, where it might as well have been kept.
    largest = np.where(network.tail == network.head, 0.0, np.full(flow.shape, np.inf))
    largest[:, : topology.num_links][topology.head == sources[:, None]] = 0.0
    return LinearProgram(
        np.repeat([0.0, 1.0], [flows, clocks]),
        matrix.indptr.astype(np.int64),
        matrix.indices.astype(np.int64),
        matrix.data,
        np.concatenate([needed, np.full(orbits, -np.inf)]),
        np.concatenate([needed, np.zeros(orbits)]),
        np.zeros(flows + clocks),
        np.concatenate([largest.ravel(), np.full(clocks, np.inf)]),
    )


def _matrix(
    quotient: Quotient, network: Topology, clock: NDArray[np.int64], flow: NDArray[np.int64]
) -> csr_matrix:
    """Inflow - outflow of every source and node but the source, then the loads of link orbits."""
    from scipy.sparse import csr_matrix

    sources, nodes = quotient.sources, network.num_nodes
    number = np.arange(len(sources))[:, None]
    balance = np.arange(len(sources) * nodes).reshape(len(sources), nodes)
    balance -= number + (np.arange(nodes) > sources[:, None])  # rows, but for those of the sources
    entries = []
    for ends, sign in ((network.head, 1.0), (network.tail, -1.0)):
        kept = (ends != sources[:, None]) & (network.tail != network.head)
        entries.append((balance[:, ends][kept], flow[kept], np.full(kept.sum(), sign)))
    balances, flows = len(sources) * (nodes - 1), flow.size
    loaded = flow[:, : quotient.topology.num_links]
    rows = np.broadcast_to(balances + quotient.link_orbit, loaded.shape)
    entries.append((rows.ravel(), loaded.ravel(), np.ones(loaded.size)))
    orbits = np.arange(quotient.num_orbits)
    entries.append((balances + orbits, flows + clock, -quotient.speed.astype(np.float64)))
    row, column, value = (np.concatenate(part) for part in zip(*entries, strict=True))
    size = (balances + len(orbits), flows + int(clock.max()) + 1)
    return csr_matrix((value, (row, column)), shape=size)


@takes_topology
def throughput(topology: Topology, options: Options = DEFAULT_OPTIONS) -> Throughput:
    """The all-to-all time of a topology, its bound and the routing's link loads.

    Cutting planes where the declared symmetry leaves few link orbits, else a linear program with
    one source an orbit: exact while it is small, with a first-order method beyond, and mirror
    descent to about a thousandth where no solver gets far, or where it is out of time or memory;
    always with a certified gap. Raises ValueError if the topology is not strongly
    connected, SolverUnavailableError if the solver cannot take a program.

    >>> from ocs_codesign.graphs.text import parse
    >>> throughput(parse("CompleteBipartite(4)").topology()).time
    Fraction(5, 4)
    """
    whole = quotient(topology)
    if whole.num_orbits <= MAX_ORBITS:
        return orbit_throughput(whole, options)
    if num_columns(whole) <= MAX_COLUMNS:
        return master_throughput(whole, options)
    return soft_throughput(whole, options)


def columns_to_solve(topology: Topology) -> int:
    """Columns of the program that ``throughput`` solves, 0 for cutting planes, which take no time.

    >>> from ocs_codesign.graphs.text import parse
    >>> columns_to_solve(parse("GeneralizedKautz(4, 16)").topology())
    513
    """
    whole = quotient(topology)
    return 0 if whole.num_orbits <= MAX_ORBITS else num_columns(whole)
