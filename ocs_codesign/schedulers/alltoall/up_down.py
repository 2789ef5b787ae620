"""Up*/down* routing: paths to lower nodes first and to higher ones last, which never deadlock.

Any order of the nodes that lets all pairs be served will do, and how fast the paths are depends on
it: numbering nodes depth first spreads the load, breadth first gathers it at the root. So several
orders are tried. Source: Schroeder et al. (1991); Sancho, Robles and Duato (2004) for depth first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.given import takes_topology
from ocs_codesign.lp import DEFAULT_OPTIONS
from ocs_codesign.schedulers.alltoall.choices import disjoint_choices
from ocs_codesign.schedulers.alltoall.paths import MAX_PARTS, balanced_table
from ocs_codesign.symmetry.quotient import quotient
from ocs_codesign.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ocs_codesign.lp import Options
    from ocs_codesign.schedulers.alltoall.result import PathTable

NO_ORDER = (
    "no order of the nodes serves all pairs by links to lower nodes first and to higher ones last"
)
SEED = 1
MAX_ORDERS = 16
_MAX_PAIRS = 2**20
"""Pairs of nodes in all orders that are tried, but one order always is."""


def up_down_order(topology: Topology, root: int = 0) -> NDArray[np.int64] | None:
    """Rank of every node, 0 for the root, such that all but it have links to and from a lower one.

    By rounds from the root, in node order. None if some node cannot be placed: then no order with
    this root serves all pairs by going to lower nodes first and to higher ones last.

    >>> from ocs_codesign.graphs.families.rings import BiRing, UniRing
    >>> up_down_order(BiRing(2, 5).topology()).tolist(), up_down_order(UniRing(1, 5).topology())
    ([0, 1, 3, 4, 2], None)
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
    """Whether some node allows an order.

    >>> from ocs_codesign.graphs.families.rings import BiRing, UniRing
    >>> has_up_down_order(BiRing(2, 5).topology()), has_up_down_order(UniRing(1, 5).topology())
    (True, False)
    """
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

    >>> from ocs_codesign.schedulers.alltoall.deadlock import dependency_cycle
    >>> from ocs_codesign.graphs.families.rings import BiRing
    >>> table = up_down_table(BiRing(2, 5).topology())
    >>> table.time, dependency_cycle(table) is None
    (Fraction(8, 5), True)
    """
    if num_orders < 1:
        raise ValueError(f"{num_orders} orders: at least one is tried")
    topology.diameter()
    most = max(1, min(num_orders, _MAX_PAIRS // topology.num_nodes**2))
    downs = [rank[topology.head] > rank[topology.tail] for rank in _orders(topology, most)]
    if not downs:
        raise ValueError(f"{topology!r}: {NO_ORDER}")
    plain = Topology(topology.num_nodes, topology.tail, topology.head, topology.link_speed)
    whole = quotient(plain)

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
