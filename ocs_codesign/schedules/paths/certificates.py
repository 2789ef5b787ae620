"""Proofs about all-to-all routings, in integers: bounds by link prices, loads of exact flows."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from operator import mul
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.compute.kernels import for_work
from ocs_codesign.core.proven import Proven
from ocs_codesign.core.shown import Brief
from ocs_codesign.schedules.paths.kernels import reroute, tree_hops

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ocs_codesign.core.compute.symmetry import Quotient
    from ocs_codesign.core.lp import ExactSolution
    from ocs_codesign.core.topology import Topology


# What all-to-all is found to take: a throughput between two proofs, or a table of paths.


@final
@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class Throughput(Brief, Proven[Fraction]):
    """All-to-all time of a topology when flows may split over paths, in units of M/B.

    ``value``, its ``time``, is that of a routing, ``bound`` what no routing can beat. ``prices``
    (int64, a link orbit) prove the bound: any routing pays at least the cheapest path of every
    pair. ``loads`` are the messages of M/N that cross every link of each orbit.
    """

    quotient: Quotient
    prices: NDArray[np.int64]
    loads: tuple[Fraction, ...]

    @property
    def time(self) -> Fraction:
        """That of the routing."""
        return self.value

    def link_loads(self) -> list[Fraction]:
        """Messages that cross every link, in link order."""
        return [self.loads[orbit] for orbit in self.quotient.link_orbit.tolist()]


@final
@dataclass(frozen=True, slots=True, eq=False)
class PathTable:
    """Paths of every pair and the parts of its message that they carry, sorted by (source, node).

    Path i takes ``part[i]`` of ``num_parts`` equal parts of the message of ``source[i]`` for
    ``node[i]`` over the links ``link[start[i] : start[i + 1]]``; all columns are int64. ``bound``
    is the time, in M/B, that no routing of the same kind can beat. ``channel`` numbers the virtual
    channel of every link of a path from 0 on, None without any.
    """

    topology: Topology
    num_parts: int
    source: NDArray[np.int64]
    node: NDArray[np.int64]
    part: NDArray[np.int64]
    start: NDArray[np.int64]
    link: NDArray[np.int64]
    bound: Fraction
    channel: NDArray[np.int64] | None = None

    @property
    def num_paths(self) -> int:
        """Paths of all pairs."""
        return len(self.part)

    def hops(self) -> NDArray[np.int64]:
        """Links of every path."""
        return np.diff(self.start)

    def link_loads(self) -> NDArray[np.int64]:
        """Parts that cross every link, shape (links,)."""
        load = np.zeros(self.topology.num_links, dtype=np.int64)
        np.add.at(load, self.link, np.repeat(self.part, self.hops()))
        return load

    def busiest_link(self) -> int:
        """The link that is busy for longest, the first of equals."""
        loads, speeds = self.link_loads(), self.topology.speeds()
        of_speed = [np.flatnonzero(speeds == speed) for speed in np.unique(speeds)]
        tops = [int(links[np.argmax(loads[links])]) for links in of_speed]
        return max(sorted(tops), key=lambda link: Fraction(int(loads[link]), int(speeds[link])))

    @property
    def worst_load(self) -> Fraction:
        """Messages of M/N that cross the busiest link."""
        return Fraction(int(self.link_loads()[self.busiest_link()]), self.num_parts)

    @property
    def time(self) -> Fraction:
        """All-to-all time in M/B over these paths, exact."""
        speed = int(self.topology.speeds()[self.busiest_link()])
        return self.topology.t_b(self.worst_load / speed)

    def paths(self, source: int, node: int) -> list[tuple[Fraction, list[int]]]:
        """The paths of one pair: the share of its message and the links."""
        found = np.flatnonzero((self.source == source) & (self.node == node)).tolist()
        ends = [(self.start[at], self.start[at + 1]) for at in found]
        links = [self.link[first:last].tolist() for first, last in ends]
        parts = [Fraction(part, self.num_parts) for part in self.part[found].tolist()]
        return list(zip(parts, links, strict=True))


_NOISE = 1e-7
PRICE_SCALE = 2**30
UNIT = 2**16 * 3**4 * 5**2 * 7 * 11 * 13
"""Parts a message is counted in: flows of small denominators are whole numbers of them."""


def price_bound(
    quotient: Quotient, prices: NDArray[np.int64]
) -> tuple[Fraction, NDArray[np.int64]]:
    """Least time, in M/B, that prices (int64, a link orbit) prove, and the paths that prove it.

    Every message pays at least its cheapest path, and a link of speed s that is busy for the whole
    time has been paid for s messages a unit: sum of cheapest paths / sum of price * speed. The
    paths are told by the number of times they use each orbit. Source: linear programming duality,
    Basu et al. (arXiv 2309.13541). Raises ValueError for prices that are negative or all 0, and if
    the topology is not strongly connected.
    """
    hops = quotient.weights() @ cheapest_trees(quotient, prices)
    return quotient.scale * Fraction(dot(prices, hops), dot(prices, quotient.speed)), hops


def cheapest_trees(quotient: Quotient, prices: NDArray[np.int64]) -> NDArray[np.int64]:
    """How often the cheapest paths from every source use each orbit, shape (sources, orbits).

    Raises ValueError as ``price_bound`` does.
    """
    if len(prices) != quotient.num_orbits or prices.min() < 0 or not prices.any():
        raise ValueError("prices are non-negative integers, one a link orbit, not all of them 0")
    topology = quotient.topology
    if int(prices.max()) * topology.num_nodes >= 2**62:  # the dearest path there could be
        raise ValueError("the prices are too large to add up in 64 bits")
    hops = np.zeros((quotient.num_sources, quotient.num_orbits), dtype=np.int64)
    find_hops = for_work(tree_hops, 2 * quotient.num_sources * topology.num_links)
    if not find_hops(
        quotient.sources,
        topology.tail,
        topology.head,
        *_out_links(topology),
        prices[quotient.link_orbit],
        quotient.link_orbit,
        hops,
    ):
        raise ValueError("not strongly connected: some pair has no path")
    return hops


def routed_loads(
    quotient: Quotient,
    flow: NDArray[np.float64],
    prices: NDArray[np.int64],
    least: float,
    layered: Topology | None = None,
) -> tuple[Fraction, ...]:
    """Messages over the links of every orbit when all pairs are served as ``flow`` wishes.

    The flow (sources x links) may be approximate, noise up to ``least``: it is re-routed in exact
    units of 1 / UNIT, so the loads are those of a routing that exists. It may be on a ``layered``
    network, whose first links are those of the topology and of which the last N nodes keep what
    they get: what a source keeps is stored on its way, at no cost.
    """
    links = quotient.topology.num_links
    network = quotient.topology if layered is None else layered
    load = np.zeros(network.num_links, dtype=np.int64)
    into = network.links_by_head()
    # One more a link breaks ties between free links by hops.
    priced = np.zeros(network.num_links, dtype=np.int64)
    priced[:links] = prices[quotient.link_orbit] * (2 * network.num_nodes) + 1
    kept = np.zeros(network.num_nodes, dtype=np.int64)
    kept[-quotient.topology.num_nodes :] = UNIT
    for_work(reroute, 4 * len(flow) * network.num_links)(
        quotient.sources,
        network.tail,
        network.head,
        *_out_links(network),
        into.start,
        into.order,
        priced,
        flow.copy(),
        least,
        kept,
        load,
    )
    total = np.zeros(quotient.num_orbits, dtype=np.int64)
    np.add.at(total, quotient.link_orbit, load[:links])
    return tuple(Fraction(int(value), UNIT) for value in total)


def at_vertex(
    quotient: Quotient, vertex: ExactSolution, num_links: int
) -> tuple[tuple[Fraction, ...], NDArray[np.int64], bool]:
    """The loads of an exact optimum, flows on so many links, and prices; whether they prove it.

    The duals prove it in any case, only perhaps not in 64 bits.
    """
    loads = [Fraction(0)] * quotient.num_orbits
    orbits = quotient.link_orbit.tolist()
    for first in range(0, quotient.num_sources * num_links, num_links):
        flows = vertex.values[first : first + len(orbits)]
        for orbit, flow in zip(orbits, flows, strict=True):
            loads[orbit] += flow
    weights = [-dual for dual in vertex.row_duals[-quotient.num_orbits :]]
    prices = integer_prices(weights)
    if prices is not None:
        return tuple(loads), prices, True
    return tuple(loads), as_prices(np.array(weights, dtype=float)), False


def certified(
    quotient: Quotient, flow: NDArray[np.float64], prices: NDArray[np.int64], method: str
) -> Throughput:
    """What an approximate flow (sources x links) and prices (a link orbit) prove."""
    loads = routed_loads(quotient, flow, prices, _NOISE)
    bound, _ = price_bound(quotient, prices)
    time = quotient.time(loads)
    return Throughput(time, bound, method, quotient=quotient, prices=prices, loads=loads)


def as_prices(weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """Float weights as integer prices of at most PRICE_SCALE, ones if none is positive."""
    weights = np.maximum(weights, 0)
    top = weights.max(initial=0)
    if not top > 0:
        return np.ones(len(weights), dtype=np.int64)
    prices: NDArray[np.int64] = np.rint(weights * (PRICE_SCALE / top)).astype(np.int64)
    return prices


def integer_prices(weights: Sequence[Fraction]) -> NDArray[np.int64] | None:
    """The smallest integers in the ratio of the weights, None if they are too large to add up."""
    unit = lcm(*(weight.denominator for weight in weights))
    values = [int(weight * unit) for weight in weights]
    return np.array(values, dtype=np.int64) if max(values) <= PRICE_SCALE else None


def _out_links(topology: Topology) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Start of every node's out-links in the list of links by tail, and that list."""
    index = topology.links_by_tail()
    return index.start, index.order


def dot(one: NDArray[np.int64], other: NDArray[np.int64]) -> int:
    """The sum of products, which 64 bits need not hold."""
    return sum(map(mul, one.tolist(), other.tolist()))
