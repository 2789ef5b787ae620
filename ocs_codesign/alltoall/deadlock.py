"""Deadlock: which paths may wait for each other in a ring, and path tables that never do.

Where packets move hop by hop between finite buffers, links are channels, and a path makes each of
its links depend on the next. If these dependencies form no cycle, no set of packets can block each
other for ever. Source: Dally and Seitz (1987). Up*/down* routing orders the nodes and takes links
to lower nodes first and to higher ones last, which leaves none: Schroeder et al. (1991).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.alltoall.paths import MAX_PARTS, PathTable, balanced_table
from ocs_codesign.alltoall.quotient import quotient
from ocs_codesign.topology import Topology

if TYPE_CHECKING:
    from numpy.typing import NDArray


def dependency_cycle(table: PathTable) -> list[int] | None:
    """Links around a cycle of channel dependencies, each followed by the next in some path.

    None if there is no cycle: then the paths are free of deadlock.

    >>> from ocs_codesign.alltoall.paths import path_table
    >>> from ocs_codesign.families.rings import uni_ring
    >>> dependency_cycle(path_table(uni_ring(1, 3)))
    [0, 1, 2]
    >>> dependency_cycle(path_table(uni_ring(1, 2))) is None
    True
    """
    from ocs_codesign.alltoall.route_kernels import find_cycle

    links = table.topology.num_links
    is_last = np.zeros(len(table.link), dtype=bool)
    is_last[table.start[1:] - 1] = True
    here = np.flatnonzero(~is_last)
    before, after = np.divmod(np.unique(table.link[here] * links + table.link[here + 1]), links)
    start = np.searchsorted(before, np.arange(links + 1))
    cycle = np.empty(links + 1, dtype=np.int64)
    length = find_cycle(start, after, cycle)
    return cycle[:length].tolist() if length else None


def up_down_order(topology: Topology, root: int = 0) -> NDArray[np.int64] | None:
    """Rank of every node, 0 for the root, such that all but it have links to and from a lower one.

    By rounds from the root, in node order. None if some node cannot be placed: then no order with
    this root serves all pairs by going to lower nodes first and to higher ones last.

    >>> from ocs_codesign.families.rings import bi_ring, uni_ring
    >>> up_down_order(bi_ring(2, 5)).tolist(), up_down_order(uni_ring(1, 5))
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


def up_down_table(
    topology: Topology,
    num_paths: int = 4,
    max_parts: int = MAX_PARTS,
    time_limit_s: float | None = None,
) -> PathTable:
    """A table free of deadlock: disjoint up*/down* paths of every pair, in the best parts.

    The root is the first node that allows an order of the nodes. The bound is for all parts over
    these paths. Raises ValueError if there is no such root, as on a one-way ring, where every
    routing has a cycle, and RuntimeError if the solver does not finish in ``time_limit_s``.

    >>> from ocs_codesign.families.rings import bi_ring
    >>> table = up_down_table(bi_ring(2, 5))
    >>> table.time, dependency_cycle(table) is None
    (Fraction(8, 5), True)
    """
    topology.diameter()
    orders = (up_down_order(topology, root) for root in range(topology.num_nodes))
    rank = next((order for order in orders if order is not None), None)
    if rank is None:
        raise ValueError(
            f"no order of the nodes of {topology!r} serves all pairs by links to lower nodes first "
            "and to higher ones last"
        )
    plain = Topology(topology.num_nodes, topology.tail, topology.head, topology.link_speed)
    is_down = rank[topology.head] > rank[topology.tail]
    whole = quotient(plain)
    return balanced_table(topology, whole, (), is_down, num_paths, max_parts, time_limit_s)
