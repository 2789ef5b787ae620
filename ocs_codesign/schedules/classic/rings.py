"""Rings side by side: Hamiltonian cycles that share no link, and what goes round all of them.

A ring uses one port a host; a host with d ports takes part in up to d rings, every link in one
of them. They are searched for: links are cut into permutations of the hosts, which trade links
until each is one cycle. Tori have as many as ports (A. Kotzig 1973 for two dimensions); a graph
may have none, and on a grid of an odd number of hosts there is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.core.compute.factorisation import factorise
from ocs_codesign.core.compute.kernels import for_work
from ocs_codesign.core.schedule import Schedule
from ocs_codesign.core.topology import Topology
from ocs_codesign.schedules.classic import kernels

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from ocs_codesign.core.collective import Collective

    Links = NDArray[np.int64]

MAX_HOSTS = 1024
_TRIES_A_HOST, _MOST_WORK = 1000, 2**26
_FACTORISATIONS = 8
_WARMTHS = 3 * ((2.0, 0.05), (0.5, 0.05))
"""By how many cycles a trade may be worse, at first and in the end; a search each."""


def rings_of(topology: Topology, seed: int = 0) -> Links:
    """Links of Hamiltonian cycles without a link in common, rings x N: that out of every node.

    As many as were found, at most the fewest links at a host; none of a graph without any. Links
    are alike whatever their speed. Raises ValueError for more than 1024 hosts.
    """
    nodes = topology.num_nodes
    if nodes > MAX_HOSTS:
        raise ValueError(f"{nodes} hosts: rings are searched for up to {MAX_HOSTS}")
    chosen = _regular_part(topology)
    factors = len(chosen) // nodes
    if factors == 0 or nodes == 1:
        return np.empty((0, nodes), dtype=np.int64)
    rng = np.random.default_rng(seed)
    best = np.empty((0, nodes), dtype=np.int64)
    for warmth in _WARMTHS:
        found = _closed(topology, _merged(topology, _factors(topology, chosen, rng), warmth, rng))
        best = found if len(found) > len(best) else best
        if len(best) == factors:
            break
    return best


def _regular_part(topology: Topology) -> Links:
    """Most links of which as many leave as enter every node, the same number at all of them."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    nodes, tail, head = topology.num_nodes, topology.tail, topology.head
    links = np.flatnonzero(tail != head)
    ends = [np.bincount(end[links], minlength=nodes) for end in (tail, head)]
    width = int(min(ends[0].min(), ends[1].min()))
    if all((end == width).all() for end in ends):
        return links
    key = tail[links].astype(np.int64) * nodes + head[links]
    pair, number = np.unique(key, return_counts=True)
    everyone, source, sink = np.arange(nodes), 2 * nodes, 2 * nodes + 1
    rows = np.concatenate([np.full(nodes, source), pair // nodes, nodes + everyone])
    columns = np.concatenate([everyone, nodes + pair % nodes, np.full(nodes, sink)])
    for degree in range(width, 0, -1):
        room = np.concatenate([np.full(nodes, degree), number, np.full(nodes, degree)])
        capacity = csr_array((room.astype(np.int32), (rows, columns)), shape=(sink + 1, sink + 1))
        found = maximum_flow(capacity, source, sink)
        if found.flow_value == nodes * degree:
            used = np.asarray(found.flow.tocsr()[pair // nodes, nodes + pair % nodes]).ravel()
            order = np.argsort(key, kind="stable")
            place = np.arange(len(key)) - np.repeat(np.cumsum(number) - number, number)
            return np.sort(links[order[place < np.repeat(used, number)]])
    return links[:0]


def _factors(topology: Topology, chosen: Links, rng: np.random.Generator) -> Links:
    """The links of a regular part as permutations of the nodes, of a sign that cycles can have.

    A trade changes the signs of both permutations or of none, so that their product stays.
    """
    nodes, factors = topology.num_nodes, len(chosen) // topology.num_nodes
    found = np.empty((factors, nodes), dtype=np.int64)
    for _ in range(_FACTORISATIONS):
        out, into = rng.permutation(nodes), rng.permutation(nodes)
        drawn = Topology(nodes, out[topology.tail[chosen]], into[topology.head[chosen]])
        found[factorise(drawn), topology.tail[chosen]] = chosen
        excess = sum(_num_cycles(topology.head[links]) - 1 for links in found)
        if excess % 2 == 0:
            break
    return found


def _num_cycles(image: NDArray[np.integer]) -> int:
    """Cycles of a permutation."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    nodes = len(image)
    graph = coo_array((np.ones(nodes), (np.arange(nodes), image)), shape=(nodes, nodes))
    return int(connected_components(graph.tocsr(), directed=False)[0])


def _merged(
    topology: Topology, first: Links, warmth: tuple[float, float], rng: np.random.Generator
) -> Links:
    """The factors after trades."""
    factors, nodes = first.shape
    tries = min(_TRIES_A_HOST * nodes, _MOST_WORK // nodes)
    merge = for_work(kernels.merge_cycles, 3 * tries * nodes)
    found = first.copy()
    merge(
        found,
        topology.tail.astype(np.int64),
        topology.head.astype(np.int64),
        rng.integers(0, factors, tries),
        rng.integers(0, factors, tries),
        rng.integers(0, nodes, tries),
        rng.exponential(np.geomspace(*warmth, tries)),
    )
    return found


def _closed(topology: Topology, factors: Links) -> Links:
    """Those that are one cycle through all nodes."""
    return factors[[len(_around(topology, links)) == topology.num_nodes for links in factors]]


def _around(topology: Topology, links: Links) -> list[int]:
    """Nodes in the order of the cycle from node 0."""
    order, node = [0], int(topology.head[links[0]])
    while node != 0:
        order.append(node)
        node = int(topology.head[links[node]])
    return order


def rings_schedule(
    topology: Topology, collective: Collective, options: Mapping[str, Any] | None = None
) -> Schedule:
    """An allgather or reduce-scatter of as many parts of every shard as there are rings.

    ``options`` may have the ``seed`` of the search. Raises ValueError for another option, and where
    no ring is found.
    """
    given = dict(options or {})
    seed = given.pop("seed", 0)
    if given:
        raise ValueError(f"rings have no option {next(iter(given))}: their only one is seed")
    rings = rings_of(topology, seed)
    if not len(rings):
        raise ValueError("a ring takes a Hamiltonian cycle of links: none was found")
    gathers = collective.name == "allgather"
    made = _gathered(topology, rings) if gathers else _gathered(topology, rings, backwards=True)
    return made if gathers else made.reversed()


def _gathered(topology: Topology, rings: Links, *, backwards: bool = False) -> Schedule:
    """Part j of every shard goes round ring j, on the transpose the other way round."""
    from ocs_codesign.core.collective import Collective

    nodes, parts = topology.num_nodes, len(rings)
    columns = []
    for part, links in enumerate(rings):
        order = np.array(_around(topology, links))
        if backwards:
            # Link ids stay; a link into a node leaves it on the transpose.
            leaving, order = (
                links[order[np.arange(-1, -nodes - 1, -1)]],
                order[np.arange(0, -nodes, -1)],
            )
        else:
            leaving = links[order]
        step, place = np.divmod(np.arange(nodes * (nodes - 1)), nodes)
        item = order[(place - step) % nodes]
        lo = np.full(len(step), part)
        columns.append(np.array([item, lo, lo + 1, leaving[place], step + 1]))
    graph = topology.transpose() if backwards else topology
    return Schedule(graph, Collective.ALLGATHER, parts, *np.concatenate(columns, axis=1))
