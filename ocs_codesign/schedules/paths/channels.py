"""Virtual channels: any paths become free of deadlock where a link has a few separate buffers.

A path keeps its channel or goes on in the next ones, never back. So dependencies in a cycle would
all be of one channel, and it is enough that those of every channel have none. In the lowest
channel as much is kept as some order of the links allows: a path leaves it where the order falls.
Then the next one takes what is left. Paths that came to the last channel count for more in another
round. Source: Dally and Seitz (1987); as paths of layers, Skeie,
Lysne and Theiss (2002) and Domke, Hoefler and Nagel (2011).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.compute.kernels import for_work
from ocs_codesign.core.compute.symmetry import quotient
from ocs_codesign.core.given import takes_topology
from ocs_codesign.core.lp import DEFAULT_OPTIONS, LinearProgram, Status, solve
from ocs_codesign.core.topology import Topology
from ocs_codesign.schedules.paths.kernels import insert_links, least_falling, walk_order
from ocs_codesign.schedules.paths.tables import (
    MAX_PARTS,
    balanced_table,
    check_pairs,
    dependency_cycle,
    disjoint_choices,
)
from ocs_codesign.verification.messages import check_channels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from scipy.sparse import csr_matrix

    from ocs_codesign.core.lp import Options
    from ocs_codesign.schedules.paths.certificates import PathTable


SEED = 1
_ORDERS = 24
"""Orders of the links that are tried for a channel, fewer for many dependencies."""
_ROUNDS, _POLISHES = 24, 8
"""Rounds over all channels, and improvements of an order in one, fewer of many links."""
_MAX_WORK, _MAX_ROWS = 2**26, 5000
LIMIT_S = 20.0


@final
@dataclass(frozen=True, slots=True, eq=False)
class Channelled:
    """A table whose hops have channels, and how few channels there can be at least."""

    table: PathTable
    num_channels: int
    least: int

    @property
    def is_fewest(self) -> bool:
        """Whether fewer are proven not to do."""
        return self.num_channels == self.least


def with_channels(table: PathTable, options: Options = DEFAULT_OPTIONS) -> Channelled:
    """The table with a channel for every hop, such that no dependencies form a cycle.

    One is enough exactly where the paths have no cycle. Where orders of the links need more than
    two, an integer program says whether two are enough, if it is small and ends in time: within
    LIMIT_S unless the options have a limit.
    """
    if dependency_cycle(table) is None:
        return Channelled(replace(table, channel=np.zeros_like(table.link)), 1, 1)
    channel = _fewest(table)
    least = 2
    if channel.max() > 1:
        two, is_possible = _on_two(table, options)
        channel, least = (channel if two is None else two), 2 if is_possible else 3
    witness = check_channels(table.topology, table.start, table.link, channel)
    if witness is not None:
        raise RuntimeError(f"the virtual channels are wrong: {witness}")
    return Channelled(replace(table, channel=channel), int(channel.max()) + 1, least)


def _followed(table: PathTable) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The path of every hop, and the hops that a further one follows."""
    owner = np.repeat(np.arange(table.num_paths), table.hops())
    return owner, np.flatnonzero(owner[1:] == owner[:-1])


def _on_two(table: PathTable, options: Options) -> tuple[NDArray[np.int64] | None, bool]:
    """Two channels for the hops, None if none are found; and whether two may do.

    Every dependency may be allowed in the first channel, where the links have an order, and in the
    second. A path that has left the first for one that is not allowed there needs all that follow
    in the second.
    """
    links = table.topology.num_links
    owner, here = _followed(table)
    key, number = np.unique(table.link[here] * links + table.link[here + 1], return_inverse=True)
    num, path = len(key), owner[here]
    later = [
        (number[:-gap] * num + number[gap:])[path[:-gap] == path[gap:]]
        for gap in range(1, int(table.hops().max(initial=1)) - 1)
    ]
    left, then = np.divmod(np.unique(np.concatenate([np.empty(0, dtype=np.int64), *later])), num)
    if num + len(left) > _MAX_ROWS:
        return None, True
    matrix, lower = _orders_program(links, key, left, then)
    columns = 2 * (num + links)
    is_whole = np.arange(columns) < 2 * num
    program = LinearProgram(
        np.zeros(columns),
        matrix.indptr.astype(np.int64),
        matrix.indices.astype(np.int64),
        matrix.data,
        lower,
        np.full(len(lower), np.inf),
        np.zeros(columns),
        np.where(is_whole, 1.0, links - 1.0),
        is_whole,
    )
    limit_s = LIMIT_S if options.time_limit_s is None else options.time_limit_s
    solution = solve(program, options=replace(options, time_limit_s=limit_s)).taken()
    if solution.values is None or solution.status is not Status.OPTIMAL:
        return None, solution.status is not Status.INFEASIBLE
    refused = here[solution.values[number] < 0.5] + 1
    first = np.full(table.num_paths, len(table.link))
    np.minimum.at(first, owner[refused], refused)
    channel = (np.arange(len(table.link)) >= first[owner]).astype(np.int64)
    witness = check_channels(table.topology, table.start, table.link, channel)
    return (channel if witness is None else None), True


def _orders_program(
    links: int, key: NDArray[np.int64], left: NDArray[np.int64], then: NDArray[np.int64]
) -> tuple[csr_matrix, NDArray[np.float64]]:
    """Rows: ``left`` allowed in the first or ``then`` in the second; what is allowed ascends.

    Columns: whether each dependency is allowed in the first and in the second channel, then the
    places of all links in the first and in the second.
    """
    from scipy.sparse import csr_matrix

    num, pairs = len(key), np.arange(len(left))
    before, after = np.divmod(key, links)
    rows, columns, values = [pairs, pairs], [left, num + then], [np.ones(len(pairs))] * 2
    for lane in range(2):
        row = len(pairs) + lane * num + np.arange(num)
        place = 2 * num + lane * links
        rows += [row] * 3
        columns += [place + after, place + before, lane * num + np.arange(num)]
        values += [np.ones(num), -np.ones(num), np.full(num, -float(links))]
    lower = np.concatenate([np.ones(len(pairs)), np.full(2 * num, 1.0 - links)])
    entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    return csr_matrix(entries, shape=(len(lower), 2 * (num + links))), lower


def _fewest(table: PathTable) -> NDArray[np.int64]:
    """The channel of every hop, in the round with the fewest channels."""
    owner, _ = _followed(table)
    random, orders = np.random.default_rng(SEED), dict[int, "NDArray[np.int64]"]()
    counts = np.ones(table.num_paths, dtype=np.int64)
    work = 8 * table.topology.num_links**2 + 4 * len(table.link)
    found: list[NDArray[np.int64]] = []
    for _ in range(max(1, min(_ROUNDS, _MAX_WORK // work))):
        found.append(_assigned(table, counts, orders, random))
        if found[-1].max() < 2:
            break
        counts[np.unique(owner[found[-1] == found[-1].max()])] *= 2
    return min(found, key=lambda one: (int(one.max()), int(one.sum())))


def _assigned(
    table: PathTable,
    counts: NDArray[np.int64],
    orders: dict[int, NDArray[np.int64]],
    random: np.random.Generator,
) -> NDArray[np.int64]:
    """The channel of every hop, channel by channel; every hop of a path counts for so many.

    ``orders`` of the links in the channels are those to begin with, and change.
    """
    owner, here = _followed(table)
    channel = np.zeros(len(table.link), dtype=np.int64)
    lane = 0
    while len(here):
        kept = _Dependencies(
            table.topology.num_links, table.link[here], table.link[here + 1], owner[here], counts
        )
        order = kept.improved(orders[lane] if lane in orders else kept.first(random))
        orders[lane], lane = order, lane + 1
        falls = order[kept.before] > order[kept.after]
        first = np.full(table.num_paths, len(table.link))  # the first hop of every path to go on
        np.minimum.at(first, owner[here[falls]], here[falls] + 1)
        goes_on = np.arange(len(table.link)) >= first[owner]
        channel += goes_on
        here = here[goes_on[here]]
    return channel


@final
class _Dependencies:
    """Pairs of links that paths take one after the other, by path, and orders of the links."""

    def __init__(
        self,
        links: int,
        before: NDArray[np.int64],
        after: NDArray[np.int64],
        owner: NDArray[np.int64],
        counts: NDArray[np.int64],
    ) -> None:
        self.before, self.after, self.owner, self.links = before, after, owner, links
        self.counts = counts[: int(owner.max()) + 1]
        self.to_go = np.searchsorted(owner, owner, "right") - np.arange(len(owner))
        key, self.number = np.unique(before * links + after, return_inverse=True)
        self.tail, self.head = np.divmod(key, links)
        self.back = np.argsort(self.head, kind="stable")

    def arrays(self, weight: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        """The pairs with their weights as the loops over them take them, from both ends."""
        total = np.zeros(len(self.tail), dtype=np.int64)
        np.add.at(total, self.number, weight)
        ends, back = np.arange(self.links + 1), self.back
        start, back_start = np.searchsorted(self.tail, ends), np.searchsorted(self.head[back], ends)
        return start, self.head, total, back_start, self.tail[back], total[back]

    def left(self, order: NDArray[np.int64]) -> NDArray[np.int64]:
        """Hops of every path that are left to go on from where the order first falls."""
        falls = order[self.before] > order[self.after]
        left = np.zeros(len(self.counts), dtype=np.int64)
        np.maximum.at(left, self.owner[falls], self.to_go[falls])
        return left

    def cost(self, order: NDArray[np.int64]) -> int:
        """All hops that are left, each as often as its path counts."""
        return int(self.left(order) @ self.counts)

    def first(self, random: np.random.Generator) -> NDArray[np.int64]:
        """The best of several orders.

        Of walks along the dependencies from several links on, and the greedy one of Eades, Lin and
        Smyth (1993).
        """
        arrays = self.arrays(np.ones(len(self.owner), dtype=np.int64))
        rounds = self.links**2 + len(self.tail)
        orders = []
        for turn in range(max(1, min(_ORDERS, _MAX_WORK // rounds))):
            orders.append(np.empty(self.links, dtype=np.int64))
            if turn == 0:
                for_work(least_falling, rounds)(*arrays, orders[-1])
            else:
                roots = random.permutation(self.links)
                for_work(walk_order, len(self.tail))(*arrays[:2], roots, orders[-1])
        return min(orders, key=self.cost)

    def improved(self, order: NDArray[np.int64]) -> NDArray[np.int64]:
        """The order after moves of single links; of places where a path falls the first counts."""
        best, weight = order, 4 * self.to_go * self.counts[self.owner]
        for _ in range(min(_POLISHES, 4 * _MAX_WORK // self.links**2)):
            order = order.copy()
            for_work(insert_links, self.links**2)(*self.arrays(weight), order)
            best = min(best, order, key=self.cost)
            falls = order[self.before] > order[self.after]
            is_later = falls & (self.to_go < self.left(order)[self.owner])
            weight = np.where(is_later, 1, 4) * self.to_go * self.counts[self.owner]
        return best


# Up*/down* routing: paths to lower nodes first and to higher ones last, which never deadlock.
#
# Any order of the nodes that lets all pairs be served will do, and how fast the paths are depends
# on it: numbering nodes depth first spreads the load, breadth first gathers it at the root. So
# several orders are tried. Source: Schroeder et al. (1991); Sancho, Robles and Duato (2004) for
# depth first.


NO_ORDER = (
    "no order of the nodes serves all pairs by links to lower nodes first and to higher ones last"
)
MAX_ORDERS = 16
_MAX_PAIRS = 2**20
"""Pairs of nodes in all orders that are tried, but one order always is."""


def up_down_order(topology: Topology, root: int = 0) -> NDArray[np.int64] | None:
    """Rank of every node, 0 for the root, such that all but it have links to and from a lower one.

    By rounds from the root, in node order. None if some node cannot be placed: then no order with
    this root serves all pairs by going to lower nodes first and to higher ones last.
    """
    placed = np.zeros(topology.num_nodes, dtype=bool)
    rank = np.zeros(topology.num_nodes, dtype=np.int64)
    placed[root] = True
    while not placed.all():
        reached, reaching = np.zeros_like(placed), np.zeros_like(placed)
        reached[topology.head[placed[topology.tail]]] = True
        reaching[topology.tail[placed[topology.head]]] = True
        ready = np.flatnonzero(reached & reaching & ~placed)
        if not len(ready):
            return None
        rank[ready] = placed.sum() + np.arange(len(ready))
        placed[ready] = True
    return rank


def depth_first_order(
    topology: Topology, root: int, random: np.random.Generator
) -> NDArray[np.int64] | None:
    """The same with every node placed as soon as it can be next to the one placed last.

    Neighbours are taken in random order. A node that cannot be placed before one of its neighbours
    is becomes possible next to that one, so the walk misses none.
    """
    out, into = topology.links_by_tail(), topology.links_by_head()
    reached, reaching = (np.zeros(topology.num_nodes, dtype=bool) for _ in range(2))
    rank = np.full(topology.num_nodes, -1, dtype=np.int64)
    walk, count = [root], 1
    rank[root] = 0
    while walk:
        node = walk[-1]
        heads = topology.head[out.order[out.start[node] : out.start[node + 1]]]
        tails = topology.tail[into.order[into.start[node] : into.start[node + 1]]]
        reached[heads], reaching[tails] = True, True
        near = np.unique(np.append(heads, tails))
        near = near[reached[near] & reaching[near] & (rank[near] < 0)]
        if not len(near):
            walk.pop()
            continue
        walk.append(int(random.choice(near)))
        rank[walk[-1]] = count
        count += 1
    return rank if count == topology.num_nodes else None


def has_up_down_order(topology: Topology) -> bool:
    """Whether some node allows an order."""
    return next(_roots(topology), None) is not None


@takes_topology
def up_down_table(
    topology: Topology,
    num_paths: int = 4,
    max_parts: int = MAX_PARTS,
    options: Options = DEFAULT_OPTIONS,
    num_orders: int = MAX_ORDERS,
) -> PathTable:
    """A table free of deadlock: disjoint up*/down* paths of every pair, in the best parts.

    Of up to ``num_orders`` orders of the nodes, fewer for large topologies, the one whose busiest
    link carries least when all paths of a pair carry the same. The bound is for all parts over
    these paths. Raises ValueError if there is no order, as on a one-way ring, where every routing
    has a cycle, and otherwise as ``disjoint_path_table``.

    >>> from ocs_codesign.schedules.paths.tables import dependency_cycle
    >>> from ocs_codesign.graphs.families.rings import BiRing
    >>> table = up_down_table(BiRing(2, 5).topology())
    >>> table.time, dependency_cycle(table) is None
    (Fraction(8, 5), True)
    """
    if num_orders < 1:
        raise ValueError(f"{num_orders} orders: at least one is tried")
    plain = Topology(topology.num_nodes, topology.tail, topology.head, topology.link_speed)
    whole = quotient(plain)
    check_pairs(whole, num_paths)
    topology.diameter()
    most = max(1, min(num_orders, _MAX_PAIRS // topology.num_nodes**2))
    downs = [rank[topology.head] > rank[topology.tail] for rank in _orders(topology, most)]
    if not downs:
        raise ValueError(f"{topology!r}: {NO_ORDER}")

    def even_load(is_down: NDArray[np.bool_]) -> float:
        choices = disjoint_choices(whole, is_down, num_paths)
        return float(choices.busy(choices.even_shares()).max())

    best = min(downs, key=even_load) if len(downs) > 1 else downs[0]
    return balanced_table(topology, whole, (), best, num_paths, max_parts, options)


def _roots(topology: Topology) -> Iterator[int]:
    """The nodes that allow an order, where any kind of order shows it."""
    nodes = range(topology.num_nodes)
    return (root for root in nodes if up_down_order(topology, root) is not None)


def _orders(topology: Topology, most: int) -> Iterator[NDArray[np.int64]]:
    """Depth first ones from several roots, and at last one breadth first; all in all ``most``."""
    random = np.random.default_rng(SEED)
    roots = list(_roots(topology))
    spread = [roots[at * len(roots) // most] for at in range(most)] if roots else []
    for number, root in enumerate(spread):
        if number and number == most - 1:
            order = up_down_order(topology, root)
        else:
            order = depth_first_order(topology, root, random)
        if order is not None:
            yield order
