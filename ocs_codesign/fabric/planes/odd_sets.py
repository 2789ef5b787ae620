"""Odd sets of nodes with more links than matchings can hold: proofs that more planes are needed.

Among an odd number s of nodes a matching has at most (s - 1) / 2 links. Let every node have k ends,
those without link at one more node; a set with more links than k matchings hold is then an odd one
that fewer than k ends leave. Such a cut is one of a cut tree's. Sources: M. W. Padberg and M. R.
Rao (1982), Odd minimum cut-sets and b-matchings; D. Gusfield (1990), Very simple methods for all
pairs network flow analysis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.topology import Topology


def crowded_odd_set(ends: Topology, num_matchings: int) -> NDArray[np.int64] | None:
    """An odd set with more links than so many matchings hold among it, or None: there is none.

    Each of ``ends`` is a link in both directions; no node may be the end of more of them than there
    are matchings.

    >>> from ocs_codesign.topology import Topology
    >>> triangle = Topology(4, [0, 1, 2], [1, 2, 0])
    >>> crowded_odd_set(triangle, 2).tolist(), crowded_odd_set(triangle, 3)
    ([0, 1, 2], None)
    """
    from scipy.sparse import csr_matrix

    one, other, nodes = ends.tail, ends.head, ends.num_nodes
    spare = num_matchings - np.bincount(np.concatenate([one, other]), minlength=nodes)
    missing = np.flatnonzero(spare)
    more = np.full(len(missing), nodes)
    tails = np.concatenate([one, other, missing, more])
    heads = np.concatenate([other, one, more, missing])
    capacity = np.concatenate([np.ones(2 * len(one)), spare[missing], spare[missing]])
    graph = csr_matrix((capacity.astype(np.int32), (tails, heads)), shape=(nodes + 1, nodes + 1))
    parent, flow = _cut_tree(graph)
    for members in _odd_sides(parent, flow < num_matchings):
        inside = np.isin(one, members) & np.isin(other, members)
        if np.count_nonzero(inside) > num_matchings * (len(members) // 2):
            return members
    return None


def _cut_tree(graph: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The parent of every node in a cut tree rooted at node 0, and the cut between the two."""
    size = graph.shape[0]
    parent, flow = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    for node in range(1, size):
        above = int(parent[node])
        value, near = _minimum_cut(graph, node, above)
        moved = near & (parent == above)
        moved[node] = False
        parent[moved] = node
        flow[node] = value
        if near[parent[above]]:
            parent[node], parent[above] = parent[above], node
            flow[node], flow[above] = flow[above], value
    return parent, flow


def _minimum_cut(graph: Any, source: int, sink: int) -> tuple[int, NDArray[np.bool_]]:
    """The value of a smallest cut between two nodes, and which nodes are on the source's side."""
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    found = maximum_flow(graph, source, sink)
    left = (graph - found.flow).tocsr()
    left.eliminate_zeros()
    near = np.zeros(graph.shape[0], dtype=bool)
    near[breadth_first_order(left, source, return_predecessors=False)] = True
    return int(found.flow_value), near


def _odd_sides(parent: NDArray[np.int64], wanted: NDArray[np.bool_]) -> list[NDArray[np.int64]]:
    """For wanted edges of the tree the side without the last node, where it is odd and not one."""
    size = len(parent)
    below = np.eye(size, dtype=bool)
    ancestor = parent
    while ancestor.any():
        below[ancestor, np.arange(size)] = True
        ancestor = parent[ancestor]
    nodes = np.flatnonzero(wanted & (parent != np.arange(size)))
    sides = (below[node] ^ below[node, -1] for node in nodes)
    return [np.flatnonzero(side) for side in sides if side.sum() % 2 == 1 and side.sum() > 1]
