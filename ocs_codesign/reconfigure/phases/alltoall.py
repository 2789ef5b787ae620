"""All-to-all over a sequence of configurations, with the least time that their order allows.

Each topology is held for a while, pieces wait at nodes between the phases, and how long each phase
lasts is part of the optimum. What the solver returns is only a hint: the time is that of an exact
vertex or of an exact re-routing, the bound is proved by integer prices.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import comb
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.bounds import hop_sum
from ocs_codesign.cost import Cost
from ocs_codesign.given import as_topology
from ocs_codesign.lp import DEFAULT_OPTIONS, exact_vertex, solve
from ocs_codesign.lp.options import AUTO, FIRST_ORDER
from ocs_codesign.reconfigure.phases.network import (
    fewest_hops,
    num_columns,
    phase_network,
)
from ocs_codesign.schedulers.alltoall.certificates import as_prices, at_vertex, routed_loads
from ocs_codesign.schedulers.alltoall.master import master_program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ocs_codesign.given import TopologyLike
    from ocs_codesign.lp import Options
    from ocs_codesign.reconfigure.phases.network import PhaseNetwork

MAX_VERTEX_COLUMNS = 60_000
MAX_COLUMNS = 300_000
TOLERANCE = 1e-5
"""Tolerance of the first-order method unless the options ask for another."""
_NOISE = 1e-7
_FAR = 2**62


@final
@dataclass(frozen=True, slots=True, eq=False)
class PhasedAlltoall:
    """An all-to-all over configurations in turn; times are in M/B and leave out dead times.

    ``durations`` are the times of the phases, ``time`` their sum, ``bound`` what no routing over
    these configurations in this order can beat; all are exact, and time and bound are equal when
    the routing is optimal. ``prices`` (int64, a link orbit) prove the bound. ``loads`` are the
    pieces of M/N that cross every link of each orbit. ``hops`` are links in a row in each phase
    with which every pair has a path, of one configuration the diameter. ``method`` says how the
    routing was found.
    """

    network: PhaseNetwork
    durations: tuple[Fraction, ...]
    bound: Fraction
    prices: NDArray[np.int64]
    loads: tuple[Fraction, ...]
    hops: tuple[int, ...]
    method: str

    @property
    def time(self) -> Fraction:
        """Transmission time in M/B."""
        return sum(self.durations, Fraction(0))

    @property
    def gap(self) -> Fraction:
        """How far the time may be above the least possible, relative to the bound."""
        return self.time / self.bound - 1

    @property
    def is_optimal(self) -> bool:
        """Whether the routing is proven to be the best for this sequence."""
        return self.time == self.bound

    @property
    def time_in_pieces(self) -> Fraction:
        """The time in units of one piece over a link of speed 1."""
        return self.time / self.network.scale

    @property
    def cost(self) -> Cost:
        """Steps, the hops of all phases, and t_b."""
        return Cost(sum(self.hops), self.time)


def phased_alltoall(
    topologies: Sequence[TopologyLike], options: Options = DEFAULT_OPTIONS
) -> PhasedAlltoall:
    """The least all-to-all time over these topologies in turn, pieces stored between the phases.

    A linear program with one source an orbit of the symmetry that all configurations share, so of
    circulants, or Cayley graphs of one group, a tiny one. It is exact while it is small, and solved
    with a first-order method beyond unless the options name another, always with a certified gap.
    Raises ValueError for no topology, different numbers of nodes, pairs without a path in this
    order, and programs that are too large; RuntimeError if the solver has no point in time.

    >>> from ocs_codesign.graphs.families.rings import DirectedCirculant
    >>> rings = [DirectedCirculant(8, (offset,)).topology() for offset in (1, 2, 5)]
    >>> found = phased_alltoall(rings)
    >>> found.time, found.time_in_pieces, found.gap
    (Fraction(11, 8), Fraction(11, 1), Fraction(0, 1))
    """
    network = phase_network([as_topology(each) for each in topologies])
    columns = num_columns(network)
    if columns > MAX_COLUMNS:
        raise ValueError(
            f"all-to-all over {network.num_phases} configurations of {network.num_nodes} nodes is "
            f"a program of {columns} columns: at most {MAX_COLUMNS} are supported"
        )
    union, layered = network.union, network.layered()
    program = master_program(union, layered, network.phase_of_orbit)
    is_small = columns <= MAX_VERTEX_COLUMNS
    if options.method == AUTO and not is_small:
        tolerance = TOLERANCE if options.tolerance is None else options.tolerance
        options = replace(options, method=FIRST_ORDER, tolerance=tolerance)
    solution = solve(program, options=options)
    values, duals = solution.point_and_duals()
    vertex, is_proof = exact_vertex(program, solution) if is_small else None, True
    if vertex is not None:
        method = "exact vertex"
        loads, prices, is_proof = at_vertex(union, vertex, layered.num_links)
    else:
        method = solution.method
        flow = values[: -network.num_phases].reshape(union.num_sources, -1)
        prices = as_prices(-duals[-union.num_orbits :])
        loads = routed_loads(union, flow, prices, _NOISE, layered)
    if vertex is None or is_proof:
        bound = phase_price_bound(network, prices)
    else:
        bound = network.scale * vertex.objective
    durations, hops = network.durations(loads), fewest_hops(network)
    return PhasedAlltoall(network, durations, bound, prices, loads, hops, method)


def phase_price_bound(network: PhaseNetwork, prices: NDArray[np.int64]) -> Fraction:
    """Least time, in M/B, that prices (int64, a link orbit) prove.

    Every piece pays at least its cheapest path through the phases in order; storing is free. In a
    phase of duration t all links of speed s are paid for at most s * t pieces each, so the sum of
    the cheapest paths is at most the sum over phases of t[p] * W[p], where W[p] is what its links
    cost when all are busy: the time is at least that sum / the largest W[p]. Source: linear
    programming duality. Raises ValueError for prices that are negative or all 0.

    >>> from ocs_codesign.graphs.families.rings import DirectedCirculant
    >>> network = phase_network([DirectedCirculant(8, (offset,)).topology() for offset in (1, 3)])
    >>> phase_price_bound(network, np.array([1, 1]))
    Fraction(7, 4)
    """
    union = network.union
    if len(prices) != union.num_orbits or prices.min() < 0 or not prices.any():
        raise ValueError("prices are non-negative integers, one a link orbit, not all of them 0")
    if int(prices.max()) * network.num_nodes**2 * network.num_phases * union.num_sources >= _FAR:
        raise ValueError("the prices are too large to add up in 64 bits")
    busy = np.zeros(network.num_phases, dtype=object)
    np.add.at(busy, network.phase_of_orbit, (prices.astype(object) * union.speed.astype(object)))
    cheapest = _cheapest_paths(network, prices[union.link_orbit])
    return network.scale * Fraction(int(cheapest.sum()), int(busy.max()))


def _cheapest_paths(network: PhaseNetwork, price: NDArray[np.int64]) -> NDArray[np.int64]:
    """Prices of the cheapest paths to every node (row) from every source, a phase at a time."""
    sources, links = network.union.sources, network.union.topology
    cheapest = np.full((network.num_nodes, len(sources)), _FAR)
    cheapest[sources, np.arange(len(sources))] = 0
    for phase in range(network.num_phases):
        mine = np.flatnonzero(network.phase == phase)
        mine = mine[np.argsort(links.head[mine], kind="stable")]
        node, first = np.unique(links.head[mine], return_index=True)
        while True:
            offered = cheapest[links.tail[mine]] + price[mine][:, None]
            best = np.minimum.reduceat(offered, first, axis=0)
            if not (best < cheapest[node]).any():
                break
            cheapest[node] = np.minimum(cheapest[node], best)
    return cheapest


def sequence_bound(num_nodes: int, degree: int, num_configurations: int) -> Fraction:
    """Least all-to-all time, in M/B, over any C topologies of degree d in turn.

    Within h hops a node reaches at most as many others as there are walks: h hops fall into phases
    in order in C(h + C - 1, h) ways, with d ports to choose from at each. The pieces' hops of the
    resulting tree, shared by all ports, take t_b >= hops / N. At least ``tree_bound``.

    >>> sequence_bound(8, 1, 2) * 8, sequence_bound(9, 2, 3) * Fraction(9, 2)
    (Fraction(14, 1), Fraction(5, 1))
    """
    _check_configurations(num_configurations)
    if num_configurations == 1:
        return Fraction(hop_sum(num_nodes, degree), num_nodes)
    total, hops, left = 0, 0, num_nodes - 1
    while left > 0:
        hops += 1
        layer = min(left, comb(hops + num_configurations - 1, hops) * degree**hops)
        total += hops * layer
        left -= layer
    return Fraction(total, num_nodes)


def tree_bound(num_nodes: int, degree: int, num_configurations: int) -> Fraction:
    """The hops of a full (C d)-ary tree shared by all ports: D(N, C d) / N, in M/B.

    >>> tree_bound(64, 4, 4)
    Fraction(55, 32)
    """
    _check_configurations(num_configurations)
    return Fraction(hop_sum(num_nodes, num_configurations * degree), num_nodes)


def _check_configurations(number: int) -> None:
    if number < 1:
        raise ValueError(f"{number} configurations: there must be at least 1")
