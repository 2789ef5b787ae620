"""Trees of shortest paths: no forest is lower, and often none is faster.

Every rank takes the data of a root over arcs from ranks that are one hop nearer to the root, part
over one and part over another. Each rank's choice is a flow of its own, independent of all others:
the parts of a root between two places where some rank's choice changes make a tree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.kernels import for_work
from ocs_codesign.reach import all_distances, in_neighbours
from ocs_codesign.schedulers.forest.packing import Trees
from ocs_codesign.schedulers.forest.shallow_kernels import assign
from ocs_codesign.topology import Topology

if TYPE_CHECKING:
    from numpy.typing import NDArray


def shallow_trees(
    num_ranks: int,
    tail: NDArray[np.int64],
    head: NDArray[np.int64],
    capacity: NDArray[np.int64],
    wanted: NDArray[np.int64],
) -> Trees | None:
    """``wanted[r]`` trees of shortest paths from every rank r; None if arcs cannot bear them.

    None as well if a rank does not reach another. Arcs are sorted by tail, one a pair of ranks.
    """
    graph = Topology(num_ranks, tail, head)
    distance_to = all_distances(graph.transpose())
    if distance_to.min() < 0:
        return None
    neighbours = in_neighbours(graph)
    arcs = _arc_table(graph, neighbours.node)
    capacities = capacity[arcs] * (neighbours.capacity > 0)
    most = num_ranks * (num_ranks + neighbours.node.shape[1] ** 2)
    root, node, start, arc = np.zeros((4, most), dtype=np.int64)
    loop = for_work(assign, num_ranks * len(tail))
    filled = loop(distance_to, neighbours.node, arcs, capacities, wanted, root, node, start, arc)
    if filled == -1:
        return None
    return _trees(wanted, root[:filled], node[:filled], start[:filled], arc[:filled])


def _arc_table(graph: Topology, neighbours: NDArray[np.int32]) -> NDArray[np.int64]:
    """The arc from every in-neighbour; some arc in the padding."""
    nodes = graph.num_nodes
    key = graph.tail.astype(np.int64) * nodes + graph.head
    wanted = neighbours.astype(np.int64) * nodes + np.arange(nodes)[:, None]
    return np.minimum(np.searchsorted(key, wanted), len(key) - 1)


def _trees(
    wanted: NDArray[np.int64],
    root: NDArray[np.int64],
    node: NDArray[np.int64],
    start: NDArray[np.int64],
    arc: NDArray[np.int64],
) -> Trees:
    """A tree for every piece of a root's units in which no rank changes its arc."""
    num_ranks = len(wanted)
    order = np.lexsort([start, node, root])
    node, start, arc = node[order], start[order], arc[order]
    bounds = np.searchsorted(root[order], np.arange(num_ranks + 1))
    roots, multiplicity, arc_into = [], [], []
    for source in np.flatnonzero(wanted).tolist():
        mine = slice(bounds[source], bounds[source + 1])
        cuts = np.unique(start[mine])
        # The last run of a rank that starts at or before a cut is the one it is in.
        span = int(wanted[source])
        runs = np.searchsorted(
            node[mine] * span + start[mine],
            np.arange(num_ranks)[:, None] * span + cuts,
            side="right",
        )
        into = arc[mine][np.maximum(runs - 1, 0)].T.copy()
        into[:, source] = -1
        roots.append(np.full(len(cuts), source))
        multiplicity.append(np.diff(cuts, append=span))
        arc_into.append(into)
    return Trees(np.concatenate(roots), np.concatenate(multiplicity), np.concatenate(arc_into))
