"""Where all-to-all data may be after every step: the time-expanded network and its program.

A node forwards only what an earlier step brought, and may keep data as long as it likes. So the
data of a source walks a network whose nodes are (node, step) pairs: a link leads from its tail
after one step to its head after the next, waiting from a node to itself. The network has no cycle;
hence a flow of all that a source sends, which leaves one piece at every other node after the last
step, is a mix of walks that each bring a piece to its node. Grouping by source loses nothing.

Minimise the sum over steps of U_t over flows f[s, arc] >= 0 that leave a piece of every source s at
every node, where every link orbit carries at most speed * U_t in step t. Source: Basu et al. (arXiv
2309.13541), time-stepped multi-commodity flow.

Where packets are routed without steps, the same network with a single U for all steps describes the
paths of at most so many links; then nothing waits but what has not left its source.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.lp import LinearProgram

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.symmetry.quotient import Quotient

WAIT = -1
_UNREACHED = np.int64(1 << 61)


@final
@dataclass(frozen=True, slots=True, eq=False)
class TimeNetwork:
    """Arcs that the data of the quotient's sources may take, int64 columns by (step, source, head).

    At ``step`` (from 1) data of source number ``source`` goes from ``tail`` to ``head`` over
    ``link``, or waits there if that is WAIT. No arc leaves a node before the source's data can be
    there, none enters a source, and waiting at the source is free of arcs. ``row`` says whose load
    an arc counts in, (step - 1) * num_orbits + orbit in a network of ``num_phases`` = num_steps,
    the orbit in one of a single phase, and is WAIT for waiting. ``state`` numbers the groups of
    arcs into one node with the data of one source at one step.
    """

    quotient: Quotient
    num_steps: int
    num_phases: int
    step: NDArray[np.int64]
    source: NDArray[np.int64]
    tail: NDArray[np.int64]
    head: NDArray[np.int64]
    link: NDArray[np.int64]
    row: NDArray[np.int64]
    state: NDArray[np.int64]

    @property
    def num_arcs(self) -> int:
        """Arcs of all sources and steps."""
        return len(self.step)

    @property
    def num_rows(self) -> int:
        """Pairs of a phase and a link orbit."""
        return self.num_phases * self.quotient.num_orbits

    def row_speed(self) -> NDArray[np.int64]:
        """Speed of the links of every row."""
        return np.tile(self.quotient.speed, self.num_phases)

    def arcs_before(self) -> NDArray[np.int64]:
        """Arcs of the steps before each step and in all, shape (num_steps + 1,)."""
        return np.searchsorted(self.step, np.arange(1, self.num_steps + 2))


def num_arcs(quotient: Quotient, distance: NDArray[Any], num_steps: int) -> int:
    """Arcs of the time network, before it is built; ``distance`` is that from each source."""
    outs = quotient.topology.out_degrees() + 1
    steps_left = np.maximum(num_steps - distance.astype(np.int64), 0)
    return int((steps_left * outs).sum())


def time_network(quotient: Quotient, distance: NDArray[Any], num_steps: int) -> TimeNetwork:
    """The time network of so many steps; ``distance`` (sources x N) is in hops from each source.

    >>> from ocs_codesign.symmetry.quotient import quotient
    >>> from ocs_codesign.graphs.families.rings import UniRing
    >>> ring = UniRing(1, 3).topology()
    >>> network = time_network(quotient(ring), ring.distances()[:1], 2)
    >>> [column.tolist() for column in (network.step, network.tail, network.head, network.link)]
    [[1, 2, 2, 2], [0, 0, 1, 1], [1, 1, 1, 2], [0, 0, -1, 1]]
    """
    return _network(quotient, distance, num_steps, num_steps)


def routing_network(quotient: Quotient, distance: NDArray[Any], max_hops: int) -> TimeNetwork:
    """The network of a single phase for paths of at most ``max_hops`` links."""
    return _network(quotient, distance, max_hops, 1)


def _network(
    quotient: Quotient, distance: NDArray[Any], num_steps: int, num_phases: int
) -> TimeNetwork:
    topology = quotient.topology
    is_source = np.arange(topology.num_nodes) == quotient.sources[:, None]
    moves = (topology.tail != topology.head) & ~is_source[:, topology.head]
    parts = []
    for step in range(1, num_steps + 1):
        there = distance < step
        source, link = np.nonzero(moves & there[:, topology.tail])
        keeper, kept = np.nonzero(there & ~is_source & (num_phases == num_steps))
        column = np.empty((5, len(source) + len(keeper)), dtype=np.int64)
        column[0] = step
        column[1] = np.concatenate([source, keeper])
        column[2] = np.concatenate([topology.tail[link], kept])
        column[3] = np.concatenate([topology.head[link], kept])
        column[4] = np.concatenate([link, np.full(len(kept), WAIT)])
        parts.append(column[:, np.lexsort((column[4] == WAIT, column[3], column[1]))])
    step, source, tail, head, link = np.concatenate(parts, axis=1)
    phase = step - 1 if num_phases == num_steps else np.zeros_like(step)
    row = np.where(link == WAIT, WAIT, phase * quotient.num_orbits + quotient.link_orbit[link])
    code = (step * quotient.num_sources + source) * topology.num_nodes + head
    state = np.cumsum(np.diff(code, prepend=code[:1]) != 0)
    return TimeNetwork(quotient, num_steps, num_phases, step, source, tail, head, link, row, state)


def stepped_program(network: TimeNetwork) -> LinearProgram:
    """The program: a column an arc, then U of every phase; a row a state, then ``network.row``.

    >>> from ocs_codesign.symmetry.quotient import quotient
    >>> from ocs_codesign.graphs.families.rings import UniRing
    >>> ring = UniRing(1, 3).topology()
    >>> program = stepped_program(time_network(quotient(ring), ring.distances()[:1], 2))
    >>> program.num_rows, program.num_columns
    (5, 6)
    """
    from scipy.sparse import csr_matrix

    quotient, arcs, phases = network.quotient, network.num_arcs, network.num_phases
    topology, states = quotient.topology, int(network.state[-1]) + 1
    first = np.flatnonzero(np.diff(network.state, prepend=-1))
    shape = (network.num_steps + 1, quotient.num_sources, topology.num_nodes)
    state_at = np.full(shape, WAIT)
    state_at[network.step[first], network.source[first], network.head[first]] = np.arange(states)
    left = state_at[network.step - 1, network.source, network.tail]
    out, over = np.flatnonzero(left != WAIT), np.flatnonzero(network.row != WAIT)
    rows = np.arange(network.num_rows)
    entries = (
        (network.state, np.arange(arcs), np.ones(arcs)),
        (left[out], out, -np.ones(len(out))),
        (states + network.row[over], over, np.ones(len(over))),
        (states + rows, arcs + rows // quotient.num_orbits, -network.row_speed()),
    )
    row, column, value = (np.concatenate(part) for part in zip(*entries, strict=True))
    size = (states + len(rows), arcs + phases)
    matrix = csr_matrix((value, (row, column)), shape=size)
    piece = (network.step[first] == network.num_steps).astype(float)
    return LinearProgram(
        np.repeat([0.0, 1.0], [arcs, phases]),
        matrix.indptr.astype(np.int64),
        matrix.indices.astype(np.int64),
        matrix.data,
        np.concatenate([piece, np.full(len(rows), -np.inf)]),
        np.concatenate([piece, np.zeros(len(rows))]),
        np.zeros(arcs + phases),
        np.full(arcs + phases, np.inf),
    )


def stepped_bound(network: TimeNetwork, prices: NDArray[np.int64]) -> Fraction:
    """Sum of the phases' largest loads that prices (non-negative int64, a row) prove necessary.

    A piece pays at least its cheapest walk, and the links of a phase have been paid for at most
    U * (sum of price * speed): cheapest walks of all pieces / the dearest phase. Source: duality
    of the linear program above. Raises ValueError for prices that prove nothing or are too large.

    >>> from ocs_codesign.symmetry.quotient import quotient
    >>> from ocs_codesign.graphs.families.rings import UniRing
    >>> ring = UniRing(1, 3).topology()
    >>> network = time_network(quotient(ring), ring.distances()[:1], 2)
    >>> stepped_bound(network, np.ones(2, dtype=np.int64))
    Fraction(3, 1)
    """
    quotient = network.quotient
    if len(prices) != network.num_rows or prices.min() < 0 or not prices.any():
        raise ValueError("prices are non-negative integers, one a row, not all of them 0")
    shape = (quotient.num_sources, quotient.topology.num_nodes)
    if int(prices.max()) * network.num_steps * shape[0] * shape[1] >= 2**61:
        raise ValueError("the prices are too large to add up in 64 bits")
    price = np.where(network.row == WAIT, 0, prices[network.row])
    cheapest = np.full(shape, _UNREACHED)
    numbers = np.arange(shape[0])
    cheapest[numbers, quotient.sources] = 0
    before = network.arcs_before()
    for first, last in pairwise(before.tolist()):
        source, head = network.source[first:last], network.head[first:last]
        paid = cheapest[source, network.tail[first:last]] + price[first:last]
        start = np.flatnonzero(np.diff(network.state[first:last], prepend=-1))
        cheapest[source[start], head[start]] = np.minimum.reduceat(paid, start)
    dearest = (prices * network.row_speed()).reshape(network.num_phases, -1).sum(axis=1).max()
    return Fraction(int(cheapest.sum()), int(dearest))
