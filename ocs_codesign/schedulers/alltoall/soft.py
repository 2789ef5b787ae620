"""The time-stepped program without a solver, for large networks: a game of routing and prices.

In every round the routing spreads each piece over all its walks, exp(-what they have cost so far)
times as likely, and every step prices its links by exp(what they have carried so far). Both count
the last round twice, which keeps them from chasing each other; their averages approach an optimal
flow and optimal prices. Source: Rakhlin and Sridharan (2013), optimistic mirror descent.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol, final

import numpy as np

from ocs_codesign.kernels import for_work
from ocs_codesign.lp import DEFAULT_OPTIONS
from ocs_codesign.schedulers.alltoall.certificates import as_prices
from ocs_codesign.schedulers.alltoall.chunks import conserved
from ocs_codesign.schedulers.alltoall.stepped_kernels import soft_walks
from ocs_codesign.schedulers.alltoall.time_network import stepped_bound

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.lp import Options
    from ocs_codesign.schedulers.alltoall.time_network import TimeNetwork

MAX_ROUNDS = 1250
CLOSE = 8e-4
CHECKS = 20
MOST_PATIENT = 20.0
PRICE_RATE, ROUTE_RATE = 0.5, 0.3


@final
@dataclass(frozen=True, slots=True)
class Goal:
    """How close to the bound is close enough, and how many rounds are played for it at most."""

    gap: float
    rounds: int


def goal(options: Options) -> Goal:
    """The gap of the options, CLOSE by default; the gap shrinks about as the rounds grow.

    >>> from ocs_codesign.lp import Options
    >>> goal(Options()), goal(Options(relative_gap=3e-4)).rounds, goal(Options(relative_gap=0)).gap
    (Goal(gap=0.0008, rounds=1250), 3333, 0)
    """
    gap = CLOSE if options.relative_gap is None else options.relative_gap
    patience = min(max(CLOSE / gap, 1.0), MOST_PATIENT) if gap else MOST_PATIENT
    return Goal(gap, round(MAX_ROUNDS * patience))


def soft_optimum(
    network: TimeNetwork, options: Options = DEFAULT_OPTIONS
) -> tuple[NDArray[np.float64], Fraction]:
    """A flow over the arcs whose loads are close to least, and a bound that its prices prove.

    Ends when the two are within the gap of the options (default CLOSE), after MAX_ROUNDS, more for
    a smaller gap, or out of time.

    >>> from ocs_codesign.symmetry.quotient import quotient
    >>> from ocs_codesign.schedulers.alltoall.time_network import time_network
    >>> from ocs_codesign.graphs.families.rings import Hypercube
    >>> cube = Hypercube(3).topology()
    >>> flow, bound = soft_optimum(time_network(quotient(cube), cube.distances()[:1], 3))
    >>> round(float(flow.sum()), 6), bound
    (21.0, Fraction(4, 1))
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
