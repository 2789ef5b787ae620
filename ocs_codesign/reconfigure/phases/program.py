"""The program of an all-to-all over configurations in turn: flows by source, durations as columns.

Minimise the sum of the phases' durations t over flows f[s, e] >= 0 of every source s on the links
and stores e of the layered network, such that every node v != s keeps one piece of source s in the
last layer and every link orbit of phase p carries at most speed * t[p] over all sources.
Destinations and paths are a matter of decomposing each source's flow afterwards. Within a phase
flow may go several hops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.lp import LinearProgram

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.reconfigure.phases.network import PhaseNetwork
    from ocs_codesign.topology import Topology


def num_columns(network: PhaseNetwork) -> int:
    """Columns of the program: a flow a source and layered link, and a duration a phase."""
    stores = network.num_nodes * (network.num_phases - 1)
    per_source = network.union.topology.num_links + stores
    return network.union.num_sources * per_source + network.num_phases


def phase_program(network: PhaseNetwork, layered: Topology) -> LinearProgram:
    """The program: column s * links + e is the flow of the s-th source on layered link e.

    The last columns are the durations, in the time of one piece over a link of speed 1. Row
    s * (layered nodes - 1) + i is the balance of the i-th layered node but the source, then there
    is a row a link orbit.

    >>> from ocs_codesign.graphs.families.rings import DirectedCirculant
    >>> from ocs_codesign.lp import solve
    >>> from ocs_codesign.reconfigure.phases.network import phase_network
    >>> rings = [DirectedCirculant(8, (offset,)).topology() for offset in (1, 3)]
    >>> network = phase_network(rings)
    >>> round(solve(phase_program(network, network.layered())).objective, 9)
    14.0
    """
    union, sources = network.union, network.union.sources
    phases, links = network.num_phases, layered.num_links
    flows, balances = len(sources) * links, len(sources) * (layered.num_nodes - 1)
    rows, columns, values = (
        np.concatenate(part)
        for part in zip(_balances(network, layered), _capacities(network, layered), strict=True)
    )
    order = np.argsort(rows, kind="stable")
    num_rows = balances + union.num_orbits
    cost = np.zeros(flows + phases)
    cost[flows:] = 1.0
    needed = _needed(network, layered)
    return LinearProgram(
        cost,
        np.searchsorted(rows[order], np.arange(num_rows + 1)),
        columns[order],
        values[order],
        np.concatenate([needed, np.full(union.num_orbits, -np.inf)]),
        np.concatenate([needed, np.zeros(union.num_orbits)]),
        np.zeros(flows + phases),
        np.concatenate([_largest_flows(network, layered).ravel(), np.full(phases, np.inf)]),
    )


def _needed(network: PhaseNetwork, layered: Topology) -> NDArray[np.float64]:
    """Pieces that every layered node but the source keeps, source by source."""
    nodes, last = layered.num_nodes, layered.num_nodes - network.num_nodes
    sources = network.union.sources
    kept = np.zeros((len(sources), nodes))
    kept[:, last:] = 1.0
    every = np.arange(len(sources))
    kept[every, last + sources] = 0.0
    is_balanced = np.ones((len(sources), nodes), dtype=bool)
    is_balanced[every, sources] = False
    return kept[is_balanced]


def _balances(
    network: PhaseNetwork, layered: Topology
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Entries inflow - outflow of every source and layered node but the source."""
    proper = np.flatnonzero(layered.tail != layered.head)
    node = np.concatenate([layered.head[proper], layered.tail[proper]]).astype(np.int64)
    link = np.concatenate([proper, proper])
    sign = np.repeat([1.0, -1.0], len(proper))
    sources = network.union.sources
    number = np.repeat(np.arange(len(sources)), len(node))
    node, link = np.tile(node, len(sources)), np.tile(link, len(sources))
    source = sources[number]
    kept = node != source
    rows = number * (layered.num_nodes - 1) + node - (node > source)
    columns = number * layered.num_links + link
    return rows[kept], columns[kept], np.tile(sign, len(sources))[kept]


def _capacities(
    network: PhaseNetwork, layered: Topology
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Entries of the rows of link orbits: their links in every source's flow, then a duration."""
    union = network.union
    sources, links = union.num_sources, union.topology.num_links
    first_row = sources * (layered.num_nodes - 1)
    number = np.repeat(np.arange(sources), links)
    orbits = np.arange(union.num_orbits)
    rows = np.concatenate([first_row + np.tile(union.link_orbit, sources), first_row + orbits])
    flows = number * layered.num_links + np.tile(np.arange(links), sources)
    columns = np.concatenate([flows, sources * layered.num_links + network.phase_of_orbit])
    values = np.concatenate([np.ones(len(flows)), -union.speed.astype(np.float64)])
    return rows, columns, values


def _largest_flows(network: PhaseNetwork, layered: Topology) -> NDArray[np.float64]:
    """Nothing crosses a loop or returns to its source, where it might as well have been kept."""
    links = network.union.topology.num_links
    upper = np.full((network.union.num_sources, layered.num_links), np.inf)
    upper[:, layered.tail == layered.head] = 0.0
    heads = network.union.topology.head
    upper[:, :links][heads == network.union.sources[:, None]] = 0.0
    return upper
