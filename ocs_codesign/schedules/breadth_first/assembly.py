"""Balanced breadth-first broadcast (BFB): integral schedules that meet the exact loads.

Every shard travels along shortest paths, one hop a step, and every receiver spreads what arrives at
a step over its in-links so that the busiest carries as little as possible. With P = lcm of the
denominators of the loads as chunks a shard, whole chunks lose nothing: the flow of every receiver
and step has integral capacities. Source: Zhao et al. (arXiv 2202.03356).
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.compute.kernels import for_work
from ocs_codesign.core.given import takes_topology
from ocs_codesign.core.progress import tell
from ocs_codesign.core.schedule import Schedule
from ocs_codesign.core.topology import in_neighbours
from ocs_codesign.schedules.breadth_first.kernels import receiver_rows
from ocs_codesign.schedules.breadth_first.loads import bfb_loads, distances_to, num_chunks_for

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    from ocs_codesign.core.topology import Topology


MAX_SENDS = 2**28
"""Largest schedule that is built, and that is read again: 5 GB of columns."""


def loads_of_half(topology: Topology, collective: Collective) -> tuple[Fraction, ...]:
    """The loads of an allgather, or of a reduce-scatter: those of the reversed graph, backwards."""
    if collective == Collective.ALLGATHER:
        return bfb_loads(topology)
    return bfb_loads(topology.transpose())[::-1]


@takes_topology
def bfb(topology: Topology, collective: Collective | str = Collective.ALLGATHER) -> Schedule:
    """The BFB schedule of a collective on a topology, with as few chunks as lose nothing.

    A reduce-scatter is the reversed allgather of the transpose, an allreduce the pair. About N^2
    sends. Raises ValueError for an
    all-to-all, and when the topology has one node, is not strongly connected or the schedule would
    exceed MAX_SENDS.

    >>> from ocs_codesign.core.topology import Topology
    >>> cycle = [0, 1, 2, 3]
    >>> schedule = bfb(Topology(4, cycle * 2, [1, 2, 3, 0, 3, 0, 1, 2]))
    >>> schedule.num_sends, [str(load) for load in schedule.max_loads()]
    (16, ['1', '1/2'])
    """
    collective = Collective.parse_gathering(collective)
    if collective == Collective.ALLGATHER:
        return _allgather(topology)
    reduce_scatter = _allgather(topology.transpose()).reversed()
    if collective == Collective.REDUCE_SCATTER:
        return reduce_scatter
    return reduce_scatter.then(_allgather(topology))


def bfb_of_chunks(topology: Topology, num_chunks: int) -> Schedule:
    """The BFB allgather of shards of so many chunks: each step's load rounded up to whole chunks.

    Shortest paths still, and no balance of whole chunks has a smaller largest load a unit of speed
    at any step if all speeds are equal. Raises as ``bfb``.
    """
    return _allgather(topology, num_chunks)


def _allgather(topology: Topology, num_chunks: int | None = None) -> Schedule:
    if topology.num_nodes**2 > MAX_SENDS:
        raise ValueError(
            f"a schedule on {topology.num_nodes} nodes has about {topology.num_nodes**2:,} sends: "
            f"at most {MAX_SENDS:,} are built (the cost needs no schedule)"
        )
    distance_to = distances_to(topology)
    loads = bfb_loads(topology)
    chunks = num_chunks_for(loads) if num_chunks is None else num_chunks
    return allgather_of_steps(topology, distance_to, loads, chunks)


def allgather_of_steps(
    topology: Topology, arrival: NDArray[Any], loads: Sequence[Fraction], chunks: int
) -> Schedule:
    """The allgather in which source v comes to node u at step ``arrival[u, v]``, within the loads.

    Of ``chunks`` a shard, each step's load rounded up to whole ones. ValueError if they do not fit.
    """
    columns = rows_of(
        topology,
        links_by_ends(topology, np.arange(topology.num_links)),
        in_neighbours(topology).node,
        arrival,
        [ceil(load * chunks) for load in loads],
        chunks,
    )
    return Schedule(topology, Collective.ALLGATHER, chunks, *columns)


def links_by_ends(topology: Topology, links: NDArray[np.int64]) -> NDArray[np.int64]:
    """The proper ones of some links, sorted by (head, tail) as in-neighbours are."""
    proper = links[topology.tail[links] != topology.head[links]]
    by_ends: NDArray[np.int64] = proper[np.lexsort((topology.tail[proper], topology.head[proper]))]
    return by_ends


def rows_of(
    topology: Topology,
    links: NDArray[np.int64],
    neighbours: NDArray[np.int32],
    distance_to: NDArray[np.int16],
    per_speed: Sequence[int],
    chunks: int,
) -> NDArray[np.int32]:
    """The columns root, lo, hi, link, step of sends over links by ends, sorted by (step, link).

    At step t a link of speed s takes at most ``s * per_speed[t - 1]`` chunks. ``neighbours`` (N x
    k) are the rows of ``distance_to`` that a receiver's in-neighbours have. Rows are counted first,
    then written in place. Raises ValueError if the chunks do not fit.
    """
    nodes, speeds = topology.num_nodes, topology.speeds()
    # Parallel links are looked at one by one: a few nodes may have millions.
    rounds = 2 * nodes * (nodes * (2 + neighbours.shape[1]) + len(links))
    write_rows = for_work(receiver_rows, rounds)
    bounds = np.searchsorted(topology.head[links], np.arange(nodes + 1))
    most = np.array(per_speed, dtype=np.int64)[:, None]
    offset = np.zeros((len(most), topology.num_links), dtype=np.int64)
    columns = np.empty((5, 0), dtype=np.int32)
    for count_rows in (True, False):
        for receiver in range(nodes):
            mine = links[bounds[receiver] : bounds[receiver + 1]]
            # Links and in-neighbours both ascend by tail; padding has no links.
            first = np.flatnonzero(np.diff(topology.tail[mine], prepend=-1))
            link_start = np.full(neighbours.shape[1] + 1, len(mine), dtype=np.int64)
            link_start[: len(first)] = first
            fits = write_rows(
                distance_to,
                receiver,
                neighbours[receiver],
                link_start,
                mine,
                most * speeds[mine],
                chunks,
                count_rows,
                offset,
                columns,
            )
            if not fits:
                raise ValueError(f"the loads of node {receiver} do not admit an integral schedule")
            tell(receiver + 1 + (0 if count_rows else nodes), 2 * nodes)
        if count_rows:
            columns = np.empty((5, int(offset.sum())), dtype=np.int32)
            offset = (np.cumsum(offset) - offset.ravel()).reshape(offset.shape)
    return columns
