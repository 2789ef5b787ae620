"""A few paths that every pair may choose from, and the best shares of them.

Small choices are a linear program: Basu et al. (arXiv 2309.13541), path-based multi-commodity flow.
Large ones are the same game of routing and prices as in ``soft``.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.kernels import for_work
from ocs_codesign.lp import LinearProgram
from ocs_codesign.schedulers.alltoall.certificates import as_prices
from ocs_codesign.schedulers.alltoall.route_kernels import disjoint_paths
from ocs_codesign.schedulers.alltoall.soft import PRICE_RATE, ROUTE_RATE, play_out

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.lp import Options
    from ocs_codesign.symmetry.quotient import Quotient

MAX_PATH_LINKS = 100_000_000
"""Most links of all paths together: 800 MB of link numbers."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Choices:
    """Paths of every pair, int64 columns sorted by (source number, node).

    Path i leads from source number ``source[i]`` to ``node[i]`` over the links
    ``link[start[i] : start[i + 1]]``; ``pair`` numbers the pairs from 0.
    """

    whole: Quotient
    source: NDArray[np.int64]
    node: NDArray[np.int64]
    pair: NDArray[np.int64]
    start: NDArray[np.int64]
    link: NDArray[np.int64]

    @property
    def num_paths(self) -> int:
        """Paths of all pairs."""
        return len(self.pair)

    @property
    def num_pairs(self) -> int:
        """Pairs that have a path."""
        return int(self.pair[-1]) + 1 if self.num_paths else 0

    def hops(self) -> NDArray[np.int64]:
        """Links of every path."""
        return np.diff(self.start)

    def even_shares(self) -> NDArray[np.float64]:
        """The same share for all paths of a pair."""
        return 1 / np.bincount(self.pair)[self.pair]

    def busy(self, share: NDArray[np.float64]) -> NDArray[np.float64]:
        """Messages a unit of speed that cross the links of every orbit."""
        orbit = self.whole.link_orbit[self.link]
        load = np.bincount(orbit, np.repeat(share, self.hops()), self.whole.num_orbits)
        busy: NDArray[np.float64] = load / self.whole.speed
        return busy

    def bound(self, prices: NDArray[np.int64]) -> Fraction:
        """The load a unit of speed that prices (an orbit) prove necessary.

        What the cheapest path of every pair costs / what all speed together costs.
        """
        total = int(self.cheapest(prices).sum())
        return Fraction(total, int((prices * self.whole.speed).sum()))

    def cheapest(self, prices: NDArray[np.int64]) -> NDArray[np.int64]:
        """What the cheapest path of every pair costs."""
        cost = np.add.reduceat(prices[self.whole.link_orbit[self.link]], self.start[:-1])
        return np.minimum.reduceat(cost, np.flatnonzero(np.diff(self.pair, prepend=-1)))

    def program(self) -> LinearProgram:
        """Minimise U: a column a path, then U; a row a pair (its shares are 1), then an orbit."""
        from scipy.sparse import csr_matrix

        whole, paths, pairs = self.whole, self.num_paths, self.num_pairs
        orbits = whole.num_orbits
        path, orbit = np.repeat(np.arange(paths), self.hops()), whole.link_orbit[self.link]
        row = np.concatenate([self.pair, pairs + orbit, pairs + np.arange(orbits)])
        column = np.concatenate([np.arange(paths), path, np.full(orbits, paths)])
        value = np.concatenate([np.ones(paths + len(path)), -whole.speed])
        matrix = csr_matrix((value, (row, column)), shape=(pairs + orbits, paths + 1))
        matrix.sum_duplicates()
        return LinearProgram(
            np.append(np.zeros(paths), 1.0),
            matrix.indptr.astype(np.int64),
            matrix.indices.astype(np.int64),
            matrix.data,
            np.concatenate([np.ones(pairs), np.full(orbits, -np.inf)]),
            np.concatenate([np.ones(pairs), np.zeros(orbits)]),
            np.zeros(paths + 1),
            np.full(paths + 1, np.inf),
        )


def disjoint_choices(whole: Quotient, is_down: NDArray[np.bool_], num_paths: int) -> Choices:
    """Up to so many short link-disjoint paths of every pair, links of ``is_down`` last in each.

    Raises ValueError if some pair has none, or if they are too many.

    >>> from ocs_codesign.symmetry.quotient import quotient
    >>> from ocs_codesign.graphs.families.rings import BiRing
    >>> choices = disjoint_choices(quotient(BiRing(2, 4).topology()), np.zeros(8, dtype=bool), 2)
    >>> choices.num_pairs, choices.hops().tolist()
    (3, [1, 3, 2, 2, 1, 3])
    """
    topology = whole.topology
    out = topology.links_by_tail()
    ends = (topology.head, topology.tail, out.start, out.order)
    given = (whole.sources, *ends, is_down, num_paths)
    none = np.empty((2, 0), dtype=np.int64)
    rounds = num_paths * len(whole.sources) * topology.num_nodes * topology.num_links
    find = for_work(disjoint_paths, rounds)
    paths, links = find(*given, none, none[0], none[0])
    if links > MAX_PATH_LINKS:
        raise ValueError(f"a table of {links:,} links: at most {MAX_PATH_LINKS:,} are made")
    ends_of, start = np.empty((2, paths), dtype=np.int64), np.zeros(paths + 1, dtype=np.int64)
    link = np.empty(links, dtype=np.int64)
    find(*given, ends_of, start, link)
    source, node = ends_of
    pair = np.cumsum((np.diff(source, prepend=source[:1]) != 0) | (np.diff(node, prepend=-1) != 0))
    choices = Choices(whole, source, node, pair - pair[:1], start, link)
    if choices.num_pairs < whole.num_sources * (topology.num_nodes - 1):
        raise ValueError("some pair has no path")
    return choices


@final
@dataclass(frozen=True, slots=True, eq=False)
class Shares:
    """A share of every path, and weights (an orbit) that tell what is scarce."""

    share: NDArray[np.float64]
    weights: NDArray[np.float64]


def soft_shares(choices: Choices, options: Options) -> Shares:
    """Shares close to the best without a solver: optimistic mirror descent, as in ``soft``.

    Ends within the gap of the options (default a thousandth), after some rounds, or out of time.

    >>> from ocs_codesign.symmetry.quotient import quotient
    >>> from ocs_codesign.graphs.families.rings import BiRing
    >>> from ocs_codesign.lp import Options
    >>> choices = disjoint_choices(quotient(BiRing(2, 5).topology()), np.zeros(10, dtype=bool), 2)
    >>> shares = soft_shares(choices, Options())
    >>> round(float(choices.busy(shares.share).max()), 1)
    3.0
    """
    game = _Game(choices)
    play_out(game, options)
    return Shares(game.best, game.weights)


class _Game:
    """What shares and prices have done so far, and the best of either."""

    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        self.first = np.flatnonzero(np.diff(choices.pair, prepend=-1))
        self.speed = choices.whole.speed.astype(float)
        self.orbit = choices.whole.link_orbit[choices.link]
        self.best = self.share = choices.even_shares()
        self.last_busy = choices.busy(self.share)
        self.least = self.scale = float(self.last_busy.max())
        self.weights = np.ones(len(self.speed))
        self.bound = choices.bound(as_prices(self.weights))
        self.last_price = self.weights / len(self.speed)
        self.busy, self.price = np.zeros_like(self.speed), np.zeros_like(self.speed)
        self.share_sum, self.price_sum = np.zeros_like(self.share), np.zeros_like(self.speed)
        self.rounds = 0

    def play(self, weight: int) -> None:
        """One round; it counts so much in the averages."""
        power = PRICE_RATE / self.scale * (self.busy + self.last_busy)
        price = np.exp(power - power.max())
        price /= price.sum()
        dear = ROUTE_RATE * len(self.speed) * (self.price + self.last_price) / self.speed
        cost = np.add.reduceat(dear[self.orbit], self.choices.start[:-1])
        pair = self.choices.pair
        wish = np.exp(np.minimum.reduceat(cost, self.first)[pair] - cost)
        self.share = wish / np.bincount(pair, wish)[pair]
        self.last_busy, self.last_price = self.choices.busy(self.share), price
        self.busy += self.last_busy
        self.price += price
        self.share_sum += weight * self.share
        self.price_sum += weight * price
        self.rounds += weight

    def weigh(self) -> None:
        """Keep the better of the best so far, the averages and the last round."""
        for share in (self.share_sum / self.rounds, self.share):
            least = float(self.choices.busy(share).max())
            if least < self.least:
                self.best, self.least = share.copy(), least
        for price in (self.price_sum, self.last_price):
            proof = self.choices.bound(as_prices(price / self.speed))
            if proof > self.bound:
                self.bound, self.weights = proof, price / self.speed
