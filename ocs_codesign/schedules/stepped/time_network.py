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

import time
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, final

import numpy as np

from ocs_codesign.core.compute.kernels import for_work
from ocs_codesign.core.lp import DEFAULT_OPTIONS, LinearProgram
from ocs_codesign.schedules.paths.certificates import as_prices
from ocs_codesign.schedules.stepped.kernels import (
    NOISE,
    conserve,
    drop_detours,
    round_flow,
    soft_walks,
    trace,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.core.compute.symmetry import Quotient
    from ocs_codesign.core.lp import Options


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
    """The time network of so many steps; ``distance`` (sources x N) is in hops from each source."""
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
    """The program: a column an arc, then U of every phase; a row a state, then ``network.row``."""
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


# From step flows to whole chunks: a flow of chunks close to a fractional one, as walks.
#
# The number of chunks a piece is the least that makes the flow whole, or else, among a few
# numbers with many divisors, the one whose rounded flow has the smallest sum of largest loads.


_CLOSE = 1e-5
_CUTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 18, 20, 24, 30, 36, 40, 48, 60, 72, 80, 90, 96, 120, 144)
_FINE_CUTS = (180, 240, 360, 480, 720, 1260, 2520, 5040)


@final
class _ChunkFlow(NamedTuple):
    """A flow of ``chunks`` a piece, ``amount`` (int64) over every arc; ``loads`` of its phases.

    Loads are the largest of a link orbit's, in pieces a unit of speed.
    """

    chunks: int
    amount: NDArray[np.int64]
    loads: tuple[Fraction, ...]


@final
class Walks(NamedTuple):
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


def chunk_flow(network: TimeNetwork, flow: NDArray[np.float64], max_chunks: int) -> _ChunkFlow:
    """The best flow of at most ``max_chunks`` chunks a piece found by rounding ``flow``."""
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


def walks_of(network: TimeNetwork, flow: _ChunkFlow) -> Walks:
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


def _rounded(network: TimeNetwork, flow: NDArray[np.float64], chunks: int) -> _ChunkFlow:
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
    return _ChunkFlow(chunks, amount, loads)


# The time-stepped program without a solver, for large networks: a game of routing and prices.
#
# In every round the routing spreads each piece over all its walks, exp(-what they have cost so
# far) times as likely, and every step prices its links by exp(what they have carried so far).
# Both count the last round twice, which keeps them from chasing each other; their averages
# approach an optimal flow and optimal prices. Source: Rakhlin and Sridharan (2013), optimistic
# mirror descent.


MAX_ROUNDS = 1250
CLOSE = 8e-4
CHECKS = 20
MOST_PATIENT = 20.0
PRICE_RATE, ROUTE_RATE = 0.5, 0.3


@final
class _Goal(NamedTuple):
    """How close to the bound is close enough, and how many rounds are played for it at most."""

    gap: float
    rounds: int


def goal(options: Options) -> _Goal:
    """The gap of the options, CLOSE by default; the gap shrinks about as the rounds grow."""
    gap = CLOSE if options.relative_gap is None else options.relative_gap
    patience = min(max(CLOSE / gap, 1.0), MOST_PATIENT) if gap else MOST_PATIENT
    return _Goal(gap, round(MAX_ROUNDS * patience))


def soft_optimum(
    network: TimeNetwork, options: Options = DEFAULT_OPTIONS
) -> tuple[NDArray[np.float64], Fraction]:
    """A flow over the arcs whose loads are close to least, and a bound that its prices prove.

    Ends when the two are within the gap of the options (default CLOSE), after MAX_ROUNDS, more for
    a smaller gap, or out of time.
    """
    game = played(network, options)
    return game.best, game.bound


def played(network: TimeNetwork, options: Options = DEFAULT_OPTIONS) -> Game:
    """The game at its end: ``best`` flow, ``bound`` and the ``prices`` (int64, a row) behind it."""
    game = Game(network)
    play_out(game, options)
    return game


class Playable(Protocol):
    """A game of routing and prices: ``least`` is what the best routing found so far takes."""

    least: float
    bound: Fraction

    def play(self, weight: int) -> None:
        """One round; it counts so much in the averages."""

    def weigh(self) -> None:
        """Keep the better of the best so far, the averages and the last round."""


def play_out(game: Playable, options: Options) -> None:
    """Rounds until the routing is within the gap of the options, their time is up, or enough."""
    began, target = time.monotonic(), goal(options)
    for number in range(1, target.rounds + 1):
        game.play(number)
        if number % CHECKS == 0:
            game.weigh()
            is_late = options.after(time.monotonic() - began).time_limit_s == 0
            if is_late or game.least <= float(game.bound) * (1 + target.gap):
                break


class Game:
    """What routing and prices have done so far, and the best of either."""

    def __init__(self, network: TimeNetwork) -> None:
        self.network = network
        self.speed = network.row_speed().astype(float)
        self.moves = network.row >= 0
        self.columns = (network.arcs_before(), network.source, network.tail, network.head)
        self.shape = (network.num_phases, network.quotient.num_orbits)
        self.best = self.flow = conserved(network, _eager(network))
        self.last_load = self.loads(self.flow)
        self.scale = self.last_load.max(axis=1).mean()
        self.least = self.last_load.max(axis=1).sum()
        self.prices = np.ones(network.num_rows, dtype=np.int64)
        self.bound = stepped_bound(network, self.prices)
        self.last_price = np.full(self.shape, 1 / self.shape[1])
        self.load, self.price = np.zeros(self.shape), np.zeros(self.shape)
        self.flow_sum, self.price_sum = np.zeros(network.num_arcs), np.zeros(self.shape)
        self.rounds = 0

    def loads(self, flow: NDArray[np.float64]) -> NDArray[np.float64]:
        """Load / speed of every row (steps x orbits)."""
        row = self.network.row[self.moves]
        load = np.bincount(row, flow[self.moves], self.network.num_rows)
        busy: NDArray[np.float64] = (load / self.speed).reshape(self.shape)
        return busy

    def play(self, weight: int) -> None:
        """One round; it counts so much in the averages."""
        network, quotient = self.network, self.network.quotient
        power = PRICE_RATE / self.scale * (self.load + self.last_load)
        price = np.exp(power - power.max(axis=1, keepdims=True))
        price /= price.sum(axis=1, keepdims=True)
        cost = ROUTE_RATE * self.shape[1] * (self.price + self.last_price).ravel() / self.speed
        wish = np.empty(network.num_arcs)
        nodes = quotient.topology.num_nodes
        walk = for_work(soft_walks, 2 * network.num_arcs)
        walk(*self.columns, network.row, quotient.sources, nodes, cost, wish)
        self.flow = conserved(network, wish)
        self.last_load, self.last_price = self.loads(self.flow), price
        self.load += self.last_load
        self.price += price
        self.flow_sum += weight * self.flow
        self.price_sum += weight * price
        self.rounds += weight

    def weigh(self) -> None:
        """Keep the better of the best so far, the averages and the last round."""
        for flow in (self.flow_sum / self.rounds, self.flow):
            total = self.loads(flow).max(axis=1).sum()
            if total < self.least:
                self.best, self.least = flow.copy(), total
        for price in (self.price_sum, self.last_price):
            prices = as_prices(price.ravel() / self.speed)
            proof = stepped_bound(self.network, prices)
            if proof > self.bound:
                self.bound, self.prices = proof, prices


def _eager(network: TimeNetwork) -> NDArray[np.float64]:
    """The wish to take shortest paths, in a network of steps without a stop on the way."""
    topology, sources = network.quotient.topology, network.quotient.sources
    arrival = np.full((len(sources), topology.num_nodes), network.num_steps + 1)
    arrival[np.arange(len(sources)), sources] = 0
    np.minimum.at(arrival, (network.source, network.head), network.step)
    near = arrival[network.source, network.head]
    nearer = arrival[network.source, network.tail] < near
    if network.num_phases == network.num_steps:
        nearer = (near == network.step) | (network.row < 0)
    return nearer.astype(float)
