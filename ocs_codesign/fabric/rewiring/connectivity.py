"""Proof that links join all nodes, in both directions: a tree out of a node and a tree into it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.fabric.description import PortModel

if TYPE_CHECKING:
    from numpy.typing import NDArray

NO_NODE = -1


@final
@dataclass(frozen=True, slots=True, eq=False)
class Connectivity:
    """Two spanning trees of links: every node is reached from ``root`` and reaches it.

    A link leads from ``before[v]`` to v, and one from v to ``after[v]`` (int32, N; -1 at the root):
    back along the first, and on along the second, every node comes to the root.
    """

    root: int
    before: NDArray[np.int32]
    after: NDArray[np.int32]

    def proves(self, circuits: NDArray[np.int32], port_model: PortModel) -> bool:
        """Whether the trees are of these circuits (rows: plane, A node, B node) and span all.

        Nothing that made the trees is used.
        """
        nodes = len(self.before)
        links = _link_keys(circuits, port_model, nodes)
        others = np.delete(np.arange(nodes), self.root)
        for parent, is_out in ((self.before.astype(np.int64), True), (self.after, False)):
            if len(parent) != nodes or parent[self.root] != NO_NODE:
                return False
            if not ((parent[others] >= 0) & (parent[others] < nodes)).all():
                return False
            tail, head = (parent[others], others) if is_out else (others, parent[others])
            reached = np.where(parent == NO_NODE, self.root, parent)
            # Every chain of parents ends at the root, doubled until it must have.
            for _ in range(nodes.bit_length()):
                reached = reached[reached]
            if (reached != self.root).any() or not np.isin(tail * nodes + head, links).all():
                return False
        return True


def connectivity(
    circuits: NDArray[np.int32], port_model: PortModel, num_nodes: int
) -> Connectivity | None:
    """The trees of circuits (rows: plane, A node, B node), None if some node is cut off.

    >>> ring = np.array([[0, 0, 1], [0, 1, 2], [0, 2, 0]], dtype=np.int32)
    >>> proof = connectivity(ring, PortModel.SIMPLEX, 3)
    >>> proof.before.tolist(), proof.after.tolist(), proof.proves(ring, PortModel.SIMPLEX)
    ([-1, 0, 1], [-1, 2, 0], True)
    >>> connectivity(ring[:2], PortModel.SIMPLEX, 3) is None
    True
    """
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import breadth_first_order

    tail, head = np.divmod(_link_keys(circuits, port_model, num_nodes), num_nodes)
    trees = []
    for ends in ((tail, head), (head, tail)):
        graph = csr_matrix((np.ones(len(tail)), ends), shape=(num_nodes, num_nodes))
        order, parent = breadth_first_order(graph, 0)
        if len(order) < num_nodes:
            return None
        trees.append(np.where(parent < 0, NO_NODE, parent).astype(np.int32))
    return Connectivity(0, *trees)


def is_connected(circuits: NDArray[np.int32], port_model: PortModel, num_nodes: int) -> bool:
    """Whether every node reaches every other one."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components

    ends = (circuits[:, 1], circuits[:, 2])
    graph = csr_matrix((np.ones(len(circuits)), ends), shape=(num_nodes, num_nodes))
    is_one_way = not port_model.is_bidirectional
    count = connected_components(graph, directed=is_one_way, connection="strong")[0]
    return bool(count == 1)


def _link_keys(circuits: NDArray[np.int32], port_model: PortModel, nodes: int) -> NDArray[np.int64]:
    tail, head = circuits[:, 1].astype(np.int64), circuits[:, 2].astype(np.int64)
    if port_model.is_bidirectional:
        tail, head = np.concatenate([tail, head]), np.concatenate([head, tail])
    return tail * nodes + head
