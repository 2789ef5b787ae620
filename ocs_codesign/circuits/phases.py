"""All-to-all over a sequence of configurations, with the least time that their order allows.

Each topology is held for a while, pieces wait at nodes between the phases, and how long each phase
lasts is part of the optimum. What the solver returns is only a hint: the time is that of an exact
vertex or of an exact re-routing, the bound is proved by integer prices.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from math import comb
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.circuits.change import OpenRange, least, neighbour_tables, reached, union
from ocs_codesign.core.bounds import hop_sum
from ocs_codesign.core.compute.symmetry import quotient_and_images
from ocs_codesign.core.cost import Cost
from ocs_codesign.core.given import as_topology
from ocs_codesign.core.lp import DEFAULT_OPTIONS, exact_vertex, solve
from ocs_codesign.core.lp.program import AUTO, FIRST_ORDER
from ocs_codesign.core.quantities import exact_time
from ocs_codesign.core.topology import Topology
from ocs_codesign.schedules.paths.certificates import as_prices, at_vertex, routed_loads
from ocs_codesign.schedules.paths.throughput import master_program

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from ocs_codesign.core.compute.symmetry import Quotient
    from ocs_codesign.core.cost import CostModel
    from ocs_codesign.core.given import TopologyLike
    from ocs_codesign.core.lp import Options


# Configurations held one after the other, as one network with a layer for each of them.
#
# Node v in phase p is the layered node p * N + v. The links of a phase stay in its layer; what a
# node holds at the end of a phase it still holds in the next, over a storage link that costs
# nothing. The links of all phases are numbered through, storage links follow them.
#
# The program of an all-to-all over them: minimise the sum of the phases' durations t over flows
# f[s, e] >= 0 of every source s on the links and stores e of the layered network, such that every
# node v != s keeps one piece of source s in the last layer and every link orbit of phase p
# carries at most speed * t[p] over all sources. Destinations and paths are a matter of
# decomposing each source's flow afterwards. Within a phase flow may go several hops.


MAX_LAYERED_LINKS = 10_000_000


@final
@dataclass(frozen=True, slots=True, eq=False)
class PhaseNetwork:
    """A sequence of topologies with the sources and link orbits that an all-to-all over it needs.

    ``union`` holds the links of all phases with the symmetry that the whole sequence has: one
    source an orbit of nodes, one capacity an orbit of links. ``phase`` (int64, a link) and
    ``phase_of_orbit`` (int64, an orbit) say to which phase they belong.
    """

    topologies: tuple[Topology, ...]
    union: Quotient
    phase: NDArray[np.int64]
    phase_of_orbit: NDArray[np.int64]

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.topologies[0].num_nodes

    @property
    def num_phases(self) -> int:
        """C, the configurations held one after the other."""
        return len(self.topologies)

    @property
    def scale(self) -> Fraction:
        """Time in M/B of one piece over a link of speed 1; B is the largest egress of a node."""
        fastest = max(topology.node_speed() for topology in self.topologies)
        return Fraction(fastest, self.num_nodes)

    def layered(self) -> Topology:
        """The network with a layer a phase: the links of the union, then the storage links."""
        nodes, union = self.num_nodes, self.union.topology
        kept = np.arange(nodes * (self.num_phases - 1))
        first = self.phase * nodes
        return Topology(
            nodes * self.num_phases,
            np.concatenate([union.tail + first, kept]),
            np.concatenate([union.head + first, kept + nodes]),
        )

    def durations(self, loads: Sequence[Fraction]) -> tuple[Fraction, ...]:
        """Time in M/B of every phase when so many pieces cross every link of each orbit."""
        busiest = [Fraction(0)] * self.num_phases
        rows = zip(self.phase_of_orbit.tolist(), loads, self.union.speed.tolist(), strict=True)
        for phase, load, speed in rows:
            busiest[phase] = max(busiest[phase], load / speed)
        return tuple(self.scale * time for time in busiest)


def phase_network(topologies: Sequence[Topology]) -> PhaseNetwork:
    """The network of a sequence of topologies, with the symmetry that all of them share.

    Node orbits must be the same in all, and one group must act on all of them: otherwise every node
    is a source. Link speeds of all topologies are in one unit. Raises ValueError for no topology,
    for different numbers of nodes, and if some node cannot reach another one with the
    configurations in this order.
    """
    sequence = tuple(topologies)
    _check_sizes(sequence)
    whole, _ = quotient_and_images(union(sequence))
    phase = np.repeat(np.arange(len(sequence)), [top.num_links for top in sequence])
    first_link = np.unique(whole.link_orbit, return_index=True)[1]
    tables, nodes = neighbour_tables(sequence), sequence[0].num_nodes
    held = reached(tables, [nodes] * len(tables), whole.sources)
    if not held.all():
        number, node = np.argwhere(~held.T)[0]
        order = "" if len(sequence) == 1 else ", even over the configurations in their order"
        raise ValueError(
            f"not connected: node {node} is out of node {whole.sources[number]}'s reach{order}"
        )
    return PhaseNetwork(sequence, whole, phase, phase[first_link])


def _check_sizes(sequence: tuple[Topology, ...]) -> None:
    if not sequence:
        raise ValueError("a sequence of 0 configurations: there must be at least 1")
    nodes = sequence[0].num_nodes
    if nodes < 2:
        raise ValueError(f"{nodes} node: an all-to-all is between 2 or more")
    for number, topology in enumerate(sequence):
        if topology.num_nodes != nodes:
            raise ValueError(
                f"configuration {number} has {topology.num_nodes} nodes, but the first one "
                f"{nodes}: all configurations connect the same nodes"
            )
        if not topology.num_links:
            raise ValueError(f"configuration {number} has no links: it can carry nothing")
    links = sum(topology.num_links + nodes for topology in sequence)
    if links > MAX_LAYERED_LINKS:
        raise ValueError(
            f"{len(sequence)} configurations with {links} links and stores in all: at most "
            f"{MAX_LAYERED_LINKS} are supported"
        )


def fewest_hops(network: PhaseNetwork) -> tuple[int, ...]:
    """Links in a row in every phase, at least one, with which every pair has a path.

    None can be one less. For a single configuration that is the diameter. Later phases are
    shortened first.
    """
    tables, sources = neighbour_tables(network.topologies), network.union.sources

    def suffice(phases: slice, hops: int) -> bool:
        tried = limits.copy()
        tried[phases] = hops
        return bool(reached(tables, tried.tolist(), sources).all())

    limits = np.ones(network.num_phases, dtype=np.int64)
    limits[:] = least(network.num_nodes, lambda hops: suffice(slice(None), hops))
    for phase in reversed(range(network.num_phases)):
        this = slice(phase, phase + 1)
        limits[phase] = least(int(limits[phase]), partial(suffice, this))
    return tuple(limits.tolist())


def num_columns(network: PhaseNetwork) -> int:
    """Columns of the program: a flow a source and layered link, and a duration a phase."""
    stores = network.num_nodes * (network.num_phases - 1)
    per_source = network.union.topology.num_links + stores
    return network.union.num_sources * per_source + network.num_phases


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
    """The hops of a full (C d)-ary tree shared by all ports: D(N, C d) / N, in M/B."""
    _check_configurations(num_configurations)
    return Fraction(hop_sum(num_nodes, num_configurations * degree), num_nodes)


def _check_configurations(number: int) -> None:
    if number < 1:
        raise ValueError(f"{number} configurations: there must be at least 1")


# What collectives with several configurations take, and from when on changing circuits pays.


def break_even_delta_s(
    static: Iterable[Cost], switched: Cost, model: CostModel, message_bytes: Fraction | float
) -> Fraction:
    """The dead time below which ``switched`` is faster than all of ``static``; never if negative.

    All of ``static`` have fewer configurations; whether the start is cold is the same to all.
    Raises ValueError if one has not, or for a message that is negative or not finite.
    """
    own = switched.time_s(model, message_bytes)
    deltas = []
    for other in static:
        more = switched.num_configurations - other.num_configurations
        if more < 1:
            raise ValueError(
                f"{switched.num_configurations} configurations against "
                f"{other.num_configurations}: only more of them have a break-even dead time"
            )
        deltas.append((other.time_s(model, message_bytes) - own) / more)
    if not deltas:
        raise ValueError("there is nothing to compare with: at least one other cost is needed")
    return min(deltas)


def paying_messages(
    static: Iterable[Cost], switched: Cost, model: CostModel, delta_s: Fraction | float
) -> OpenRange | None:
    """Messages for which ``switched`` is faster than all of ``static``; None if there are none.

    Raises ValueError for a dead time that is negative or not finite.
    """
    delta = exact_time(delta_s, "delta_s")
    begin, end = Fraction(0), None
    for other in static:
        # Faster where the time lost in steps and dead times is less than rate * M.
        lost = model.alpha_s * (switched.steps - other.steps)
        lost += delta * (switched.num_configurations - other.num_configurations)
        rate = (other.t_b - switched.t_b) / model.node_bandwidth_Bps
        if rate > 0:
            begin = max(begin, lost / rate)
        elif lost >= 0:
            return None
        elif rate < 0:
            end = lost / rate if end is None else min(end, lost / rate)
    return OpenRange(begin, end) if end is None or begin < end else None
