"""From step flows to whole chunks: a flow of chunks close to a fractional one, as walks.

The number of chunks a piece is the least that makes the flow whole, or else, among a few numbers
with many divisors, the one whose rounded flow has the smallest sum of largest loads.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.kernels import for_work
from ocs_codesign.schedulers.alltoall.stepped_kernels import (
    NOISE,
    conserve,
    drop_detours,
    round_flow,
    trace,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.schedulers.alltoall.time_network import TimeNetwork

_CLOSE = 1e-5
_CUTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 18, 20, 24, 30, 36, 40, 48, 60, 72, 80, 90, 96, 120, 144)
_FINE_CUTS = (180, 240, 360, 480, 720, 1260, 2520, 5040)


@final
@dataclass(frozen=True, slots=True, eq=False)
class ChunkFlow:
    """A flow of ``chunks`` a piece, ``amount`` (int64) over every arc; ``loads`` of its phases.

    Loads are the largest of a link orbit's, in pieces a unit of speed.
    """

    chunks: int
    amount: NDArray[np.int64]
    loads: tuple[Fraction, ...]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Walks:
    """Chunks [lo, hi) of the piece of a source for ``node``, and the way they take together.

    int64 columns; ``via`` (int32, walks x steps) is the link crossed at every step, -1 for none.
    """

    source: NDArray[np.int64]
    node: NDArray[np.int64]
    lo: NDArray[np.int64]
    hi: NDArray[np.int64]
    via: NDArray[np.int32]


def conserved(network: TimeNetwork, wish: NDArray[np.float64]) -> NDArray[np.float64]:
    """The flow that serves every pair and comes over the arcs of a state as ``wish`` is divided."""
    flow = np.zeros(network.num_arcs)
    nodes = network.quotient.topology.num_nodes
    columns = (network.source, network.tail, network.head)
    sizes = (network.quotient.num_sources, nodes)
    wished = np.where(wish > NOISE, wish, 0.0)
    for_work(conserve, 2 * network.num_arcs)(network.arcs_before(), *columns, *sizes, wished, flow)
    return flow


def chunk_flow(network: TimeNetwork, flow: NDArray[np.float64], max_chunks: int) -> ChunkFlow:
    """The best flow of at most ``max_chunks`` chunks a piece that was found by rounding ``flow``.

    >>> from ocs_codesign.symmetry.quotient import quotient
    >>> from ocs_codesign.schedulers.alltoall.time_network import time_network
    >>> from ocs_codesign.graphs.families.rings import BiRing
    >>> ring = BiRing(2, 4).topology()
    >>> network = time_network(quotient(ring), ring.distances()[:1], 2)
    >>> whole = chunk_flow(network, conserved(network, np.zeros(network.num_arcs)), 4)
    >>> whole.chunks, [str(load) for load in whole.loads]
    (2, ['1', '1'])
    """
    last = common_denominator(flow, max_chunks) or max_chunks
    tries = [_rounded(network, flow, cut) for cut in (*_CUTS, *_FINE_CUTS, last) if cut <= last]
    return min(tries, key=lambda found: (sum(found.loads), found.chunks))


def common_denominator(values: NDArray[np.float64], limit: int) -> int | None:
    """The least number up to ``limit`` whose products with all values are nearly whole, or None.

    >>> common_denominator(np.array([0.5, 0.66666667]), 10)
    6
    """
    values = np.unique(np.round(values, 9))
    few = values[:: 1 + len(values) // 100]
    for number in range(1, limit + 1):
        if _is_whole(number * few) and _is_whole(number * values):
            return number
    return None


def _is_whole(values: NDArray[np.float64]) -> bool:
    """Whether all values are integers but for noise."""
    return bool(np.abs(values - np.rint(values)).max(initial=0) < _CLOSE)


def walks_of(network: TimeNetwork, flow: ChunkFlow) -> Walks:
    """The walks that make up a flow, freed of ways that come back to where they were."""
    quotient, amount = network.quotient, flow.amount.copy()
    nodes, pieces = quotient.topology.num_nodes, quotient.num_sources
    most = pieces * (nodes - 1) + int(np.count_nonzero(amount))
    walks = np.empty((4, most), dtype=np.int64)
    via = np.empty((most, network.num_steps), dtype=np.int32)
    count = for_work(trace, most * network.num_steps)(
        network.arcs_before(),
        network.source,
        network.tail,
        network.head,
        nodes,
        network.link,
        quotient.sources,
        flow.chunks,
        amount,
        walks,
        via,
    )
    walks, via = walks[:, :count], via[:count]
    drop = for_work(drop_detours, count * network.num_steps**2)
    drop(quotient.topology.head, quotient.sources, walks[0], via)
    source, node, lo, hi = walks
    return Walks(source, node, lo, hi, via)


def _rounded(network: TimeNetwork, flow: NDArray[np.float64], chunks: int) -> ChunkFlow:
    """A flow of whole chunks close to ``flow``."""
    moves = network.link >= 0
    row, rows, speed = network.row[moves], network.num_rows, network.row_speed()
    load = np.bincount(row, flow[moves], rows)
    peak = (load / speed).reshape(network.num_phases, -1).max(axis=1)
    room = chunks * (np.repeat(peak, network.quotient.num_orbits) * speed - load)
    amount = np.zeros(network.num_arcs, dtype=np.int64)
    for_work(round_flow, 4 * network.num_arcs)(
        network.arcs_before(),
        network.source,
        network.tail,
        network.head,
        network.quotient.num_sources,
        network.quotient.topology.num_nodes,
        network.row,
        speed,
        flow,
        room,
        chunks,
        amount,
    )
    total = np.zeros((network.num_phases, network.quotient.num_orbits), dtype=np.int64)
    np.add.at(total.ravel(), row, amount[moves])
    each = network.quotient.speed
    loads = tuple(
        max(
            Fraction(int(here[each == value].max()), int(value) * chunks)
            for value in np.unique(each)
        )
        for here in total
    )
    return ChunkFlow(chunks, amount, loads)
