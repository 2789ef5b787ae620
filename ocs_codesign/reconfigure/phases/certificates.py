"""Proofs about all-to-all over configurations in turn: bounds by prices, loads of exact flows."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.schedulers.alltoall.certificates import UNIT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.reconfigure.phases.network import PhaseNetwork


def phase_price_bound(
    network: PhaseNetwork, prices: NDArray[np.int64]
) -> tuple[Fraction, NDArray[np.int64]]:
    """Least time, in M/B, that prices (int64, a link orbit) prove, and the paths that prove it.

    Every piece pays at least its cheapest path through the phases in order; storing is free. In a
    phase of duration t all links of speed s are paid for at most s * t pieces each, so the sum of
    the cheapest paths is at most the sum over phases of t[p] * W[p], where W[p] is what its links
    cost when all are busy: the time is at least that sum / the largest W[p]. The paths are told by
    the number of times they use each orbit. Source: linear programming duality. Raises ValueError
    for prices that are negative or all 0.

    >>> from ocs_codesign.graphs.families.rings import DirectedCirculant
    >>> from ocs_codesign.reconfigure.phases.network import phase_network
    >>> network = phase_network([DirectedCirculant(8, (offset,)).topology() for offset in (1, 3)])
    >>> phase_price_bound(network, np.array([1, 1]))[0]
    Fraction(7, 4)
    """
    from ocs_codesign.reconfigure.phases.kernels import phase_hops

    union = network.union
    if len(prices) != union.num_orbits or prices.min() < 0 or not prices.any():
        raise ValueError("prices are non-negative integers, one a link orbit, not all of them 0")
    if int(prices.max()) * network.num_nodes**2 * network.num_phases * union.num_sources >= 2**62:
        raise ValueError("the prices are too large to add up in 64 bits")
    layered = network.layered()
    stores = layered.num_links - len(union.link_orbit)
    orbit = np.concatenate([union.link_orbit, np.full(stores, union.num_orbits)])
    hops = np.zeros(union.num_orbits + 1, dtype=np.int64)
    out = layered.links_by_tail()
    total = phase_hops(
        union.sources,
        network.num_nodes,
        layered.tail,
        layered.head,
        out.start,
        out.order,
        np.append(prices, 0)[orbit],
        orbit,
        hops,
    )
    busy = np.zeros(network.num_phases, dtype=object)
    np.add.at(busy, network.phase_of_orbit, (prices.astype(object) * union.speed.astype(object)))
    return network.scale * Fraction(int(total), int(busy.max())), hops[:-1]


def routed_phase_loads(
    network: PhaseNetwork, flow: NDArray[np.float64], prices: NDArray[np.int64], least: float
) -> tuple[Fraction, ...]:
    """Pieces over the links of every orbit when all pairs are served as ``flow`` wishes.

    The flow (sources x layered links) may be approximate, noise up to ``least``: it is re-routed in
    exact units of 1 / UNIT, so the loads are those of a routing that exists. Its cycles are removed
    in place.
    """
    from ocs_codesign.reconfigure.phases.kernels import reroute_phases

    union, layered = network.union, network.layered()
    out, into = layered.links_by_tail(), layered.links_by_head()
    load = np.zeros(layered.num_links, dtype=np.int64)
    links = len(union.link_orbit)
    priced = np.zeros(layered.num_links, dtype=np.int64)
    # One more a link breaks ties between free links by hops.
    priced[:links] = prices[union.link_orbit] * (2 * network.num_nodes * network.num_phases) + 1
    reroute_phases(
        union.sources,
        network.num_nodes,
        layered.tail,
        layered.head,
        out.start,
        out.order,
        into.start,
        into.order,
        priced,
        flow,
        least,
        UNIT,
        load,
    )
    total = np.zeros(union.num_orbits, dtype=np.int64)
    np.add.at(total, union.link_orbit, load[:links])
    return tuple(Fraction(int(value), UNIT) for value in total)
