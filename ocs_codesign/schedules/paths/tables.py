"""Path tables: where fabrics route in the network card, which paths a message takes in what parts.

``path_table`` routes an optimal flow, ``disjoint_path_table`` balances a few disjoint short paths
of every pair by a linear program. Both come with a bound. Source: Basu et al. (arXiv 2309.13541),
link-based and path-based multi-commodity flow.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from ocs_codesign.core.compute.kernels import for_work
from ocs_codesign.core.compute.symmetry import quotient, quotient_and_images
from ocs_codesign.core.given import takes_topology
from ocs_codesign.core.lp import DEFAULT_OPTIONS, LinearProgram, Options, Status, solve
from ocs_codesign.schedules.paths.certificates import PathTable, as_prices
from ocs_codesign.schedules.paths.kernels import disjoint_paths, find_cycle
from ocs_codesign.schedules.stepped.alltoall import (
    by_vertex,
    check_least,
    checked_size,
    likely_prices,
    optimal_flow,
)
from ocs_codesign.schedules.stepped.time_network import (
    PRICE_RATE,
    ROUTE_RATE,
    chunk_flow,
    common_denominator,
    play_out,
    routing_network,
    walks_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ocs_codesign.core.compute.symmetry import Images, Quotient
    from ocs_codesign.core.topology import Topology
    from ocs_codesign.schedules.stepped.time_network import Walks


# A few paths that every pair may choose from, and the best shares of them.
#
# Small choices are a linear program: Basu et al. (arXiv 2309.13541), path-based multi-commodity
# flow. Large ones are the same game of routing and prices as in ``soft``.


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
    """
    topology = whole.topology
    out = topology.links_by_tail()
    ends = (topology.head, topology.tail, out.start, out.order)
    given = (whole.sources, *ends, is_down, num_paths)
    none = np.empty((2, 0), dtype=np.int64)
    rounds = num_paths * len(whole.sources) * topology.num_nodes * topology.num_links
    find = for_work(disjoint_paths, rounds)
    paths, links = find(*given, none, none[0], none[0])
    check_links(links)
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
class Shares(NamedTuple):
    """A share of every path, and weights (an orbit) that tell what is scarce."""

    share: NDArray[np.float64]
    weights: NDArray[np.float64]


def soft_shares(choices: Choices, options: Options) -> Shares:
    """Shares close to the best without a solver: optimistic mirror descent, as in ``soft``.

    Ends within the gap of the options (default a thousandth), after some rounds, or out of time.
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


MAX_PARTS = 720
MAX_LP_PATHS = 200_000
"""Paths to choose from up to which the best shares are a linear program's."""


@takes_topology
def path_table(
    topology: Topology,
    max_hops: int | None = None,
    max_parts: int = MAX_PARTS,
    options: Options = DEFAULT_OPTIONS,
) -> PathTable:
    """Paths of at most ``max_hops`` links (default: diameter + 1) that make up an optimal flow.

    The bound is for all routings over such paths. Raises as ``stepped_plan`` does.

    >>> from ocs_codesign.graphs.families.dense import CompleteBipartite
    >>> table = path_table(CompleteBipartite(4).topology())
    >>> table.time, table.bound
    (Fraction(5, 4), Fraction(5, 4))
    """
    check_least(topology)
    most = topology.diameter() + 1 if max_hops is None else max_hops
    whole, group, distance = checked_size(topology, most, max_parts, "max_hops")
    network = routing_network(whole, distance, most)
    smooth, bound = optimal_flow(network, options)
    flow = chunk_flow(network, smooth, max_parts)
    rows = _path_rows(walks_of(network, flow))
    return _table(topology, whole, group, flow.chunks, rows, topology.t_b(bound))


def _path_rows(walks: Walks) -> tuple[NDArray[Any], ...]:
    """Source number, node, part, hops and links of the paths that walks take, each path once."""
    link = np.take_along_axis(walks.via, np.argsort(walks.via < 0, axis=1, kind="stable"), axis=1)
    keys = np.column_stack([walks.source, walks.node, link])
    keys, number = np.unique(keys, axis=0, return_inverse=True)
    part = np.zeros(len(keys), dtype=np.int64)
    np.add.at(part, number.ravel(), walks.hi - walks.lo)
    link = keys[:, 2:]
    return keys[:, 0], keys[:, 1], part, (link >= 0).sum(axis=1), link[link >= 0]


@takes_topology
def disjoint_path_table(
    topology: Topology,
    num_paths: int = 4,
    max_parts: int = MAX_PARTS,
    options: Options = DEFAULT_OPTIONS,
) -> PathTable:
    """Up to ``num_paths`` short link-disjoint paths of every pair, in the best parts.

    Each path is a shortest one that avoids the links of those before it. The bound is for all parts
    over these paths. Large tables, and those that the solver leaves unfinished for time or memory,
    are close to the best parts, and the bound says how close. Raises ValueError if the topology is
    not strongly connected or too large, SolverUnavailableError if the solver cannot take the
    program.

    >>> from ocs_codesign.graphs.families.rings import BiRing
    >>> table = disjoint_path_table(BiRing(2, 6).topology(), 2)
    >>> table.time, [links for _, links in table.paths(0, 2)]
    (Fraction(3, 2), [[0, 2]])
    """
    check_pairs(quotient(topology), num_paths)
    topology.diameter()
    whole, group = quotient_and_images(topology)
    is_down = np.zeros(topology.num_links, dtype=bool)
    return balanced_table(topology, whole, group, is_down, num_paths, max_parts, options)


def balanced_table(
    topology: Topology,
    whole: Quotient,
    group: Sequence[Images],
    is_down: NDArray[np.bool_],
    num_paths: int,
    max_parts: int,
    options: Options,
) -> PathTable:
    """The table of disjoint paths that take links of ``is_down`` last, in the best parts."""
    if topology.num_nodes < 2:
        raise ValueError("an all-to-all needs at least two nodes")
    if num_paths < 1 or max_parts < 1:
        raise ValueError(f"{num_paths} paths in {max_parts} parts: at least one of each is needed")
    choices = disjoint_choices(whole, is_down, num_paths)
    found = _best_shares(choices, options)
    tries = likely_prices(found.weights)
    bound = topology.t_b(max(choices.bound(prices) for prices in tries))
    parts = common_denominator(found.share, max_parts) or max_parts
    part = _whole_parts(found.share, choices.pair, parts)
    rows = (choices.source, choices.node, part, choices.hops(), choices.link)
    return _table(topology, whole, group, parts, rows, bound)


def _best_shares(choices: Choices, options: Options) -> Shares:
    """Those of the program while it is small and the solver finishes, else close ones."""
    began = time.monotonic()
    if choices.num_paths <= MAX_LP_PATHS:
        solution = solve(choices.program(), options=by_vertex(options)).taken()
        finished = solution.status is Status.OPTIMAL
        if finished and solution.values is not None and solution.row_duals is not None:
            share = np.maximum(solution.values[:-1], 0.0)
            share /= np.bincount(choices.pair, share)[choices.pair]
            return Shares(share, -solution.row_duals[choices.num_pairs :])
    return soft_shares(choices, options.after(time.monotonic() - began))


def _whole_parts(
    share: NDArray[np.float64], pair: NDArray[np.int64], parts: int
) -> NDArray[np.int64]:
    """Shares as whole numbers of parts, rounded so that those of a pair sum to all."""
    share = share * parts
    part = np.floor(share + 1e-5).astype(np.int64)
    left = parts - np.bincount(pair, part).astype(np.int64)
    by_rest = np.lexsort((part - share, pair))
    first = np.searchsorted(pair, np.arange(pair[-1] + 1))
    rank = np.empty(len(pair), dtype=np.int64)
    rank[by_rest] = np.arange(len(pair))
    return part + (rank - first[pair] < left[pair])


def _table(
    topology: Topology,
    whole: Quotient,
    group: Sequence[Images],
    num_parts: int,
    rows: tuple[NDArray[Any], ...],
    bound: Fraction,
) -> PathTable:
    """The rows (source number, node, part, hops, links) for all sources, empty ones left out."""
    number, node, part, hops, link = rows
    used = part > 0
    link = link[np.repeat(used, hops)].astype(np.int64)
    number, node, part, hops = (column[used] for column in (number, node, part, hops))
    source = whole.sources[number]
    if group:
        owner = np.repeat(number, hops)
        copies = np.array([len(one.nodes) for one in group])
        check_links(int(copies[owner].sum()))
        parts = []
        for at, one in enumerate(group):
            mine, times = number == at, len(one.nodes)
            ends = [one.nodes[:, column[mine]].ravel() for column in (source, node)]
            numbers = [np.tile(column[mine], times) for column in (part, hops)]
            parts.append([*ends, *numbers, one.links(link[owner == at]).ravel()])
        source, node, part, hops, link = (
            np.concatenate(column).astype(np.int64) for column in zip(*parts, strict=True)
        )
    return sorted_table(topology, num_parts, (source, node, part, hops, link), bound)


def check_pairs(whole: Quotient, num_paths: int) -> None:
    """ValueError for pairs whose paths, of a link at least, are more than are kept."""
    pairs = whole.num_sources * (whole.topology.num_nodes - 1)
    check_links(pairs * max(1, min(num_paths, whole.topology.degree)))


def check_links(number: int) -> None:
    """ValueError for a table of more links than are kept."""
    if number > MAX_PATH_LINKS:
        raise ValueError(f"a table of {number:,} links: at most {MAX_PATH_LINKS:,} are made")


def sorted_table(
    topology: Topology, num_parts: int, rows: tuple[NDArray[Any], ...], bound: Fraction
) -> PathTable:
    """The rows (source, node, part, hops, links) as a table, by source and node."""
    source, node, part, hops, link = rows
    start = np.concatenate([[0], np.cumsum(hops)])
    order = np.lexsort((node, source))
    place = np.repeat(start[order] - np.cumsum(hops[order]) + hops[order], hops[order])
    link = link[place + np.arange(len(link))]
    start = np.concatenate([[0], np.cumsum(hops[order])])
    return PathTable(
        topology, num_parts, source[order], node[order], part[order], start, link, bound
    )


# Deadlock: which paths may wait for each other in a ring.
#
# Where packets move hop by hop between finite buffers, links are channels, and a path makes each
# of its links depend on the next. If these dependencies form no cycle, no set of packets can
# block each other for ever. Source: Dally and Seitz (1987).


def dependency_cycle(table: PathTable) -> list[int] | None:
    """Links around a cycle of channel dependencies, each followed by the next in some path.

    None if there is no cycle: then the paths are free of deadlock.

    >>> from ocs_codesign.schedules.paths.tables import path_table
    >>> from ocs_codesign.graphs.families.rings import UniRing
    >>> dependency_cycle(path_table(UniRing(1, 3).topology()))
    [0, 1, 2]
    >>> dependency_cycle(path_table(UniRing(1, 2).topology())) is None
    True
    """
    links = table.topology.num_links
    is_last = np.zeros(len(table.link), dtype=bool)
    is_last[table.start[1:] - 1] = True
    here = np.flatnonzero(~is_last)
    before, after = np.divmod(np.unique(table.link[here] * links + table.link[here + 1]), links)
    start = np.searchsorted(before, np.arange(links + 1))
    cycle = np.empty(links + 1, dtype=np.int64)
    length = for_work(find_cycle, len(after))(start, after, cycle)
    return cycle[:length].tolist() if length else None
