"""Proof that links join all nodes, in both directions: a tree out of a node and a tree into it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.fabric.description import PortModel

if TYPE_CHECKING:
    from numpy.typing import NDArray


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


def connectivity(
    circuits: NDArray[np.int32], port_model: PortModel, num_nodes: int
) -> Connectivity | None:
    """The trees of circuits (rows: plane, A node, B node), None if some node is cut off.

    >>> ring = np.array([[0, 0, 1], [0, 1, 2], [0, 2, 0]], dtype=np.int32)
    >>> proof = connectivity(ring, PortModel.SIMPLEX, 3)
    >>> proof.before.tolist(), proof.after.tolist()
    ([-1, 0, 1], [-1, 2, 0])
    >>> connectivity(ring[:2], PortModel.SIMPLEX, 3) is None
    True
    """
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import breadth_first_order

    tail, head = circuits[:, 1], circuits[:, 2]
    if port_model.is_bidirectional:
        tail, head = np.concatenate([tail, head]), np.concatenate([head, tail])
    trees = []
    for ends in ((tail, head), (head, tail)):
        graph = csr_matrix((np.ones(len(tail)), ends), shape=(num_nodes, num_nodes))
        order, parent = breadth_first_order(graph, 0)
        if len(order) < num_nodes:
            return None
        trees.append(np.maximum(parent, -1).astype(np.int32))
    return Connectivity(0, *trees)
