"""Flows of one root's shard through the time-expanded graph, and the cuts that limit them.

Node v after step t is vertex v * (T + 1) + t; it leads to v after step t + 1 without limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.topology import Topology

_NO_LIMIT = 2**30


@final
@dataclass(frozen=True, slots=True, eq=False)
class TimeExpanded:
    """What leads where, whatever it carries: arcs for links x steps, then for staying."""

    num_nodes: int
    num_steps: int
    tail: NDArray[np.int64]
    head: NDArray[np.int64]

    @classmethod
    def of(cls, topology: Topology, num_steps: int) -> TimeExpanded:
        """The graph of a topology over so many steps."""
        width = num_steps + 1
        before = np.arange(num_steps)
        stay = (np.arange(topology.num_nodes)[:, None] * width + before).ravel()
        tail = (topology.tail.astype(np.int64)[:, None] * width + before).ravel()
        head = (topology.head.astype(np.int64)[:, None] * width + before + 1).ravel()
        return cls(topology.num_nodes, num_steps, np.append(tail, stay), np.append(head, stay + 1))

    def violated_cuts(
        self, root: int, carried: NDArray[np.int64], demand: int
    ) -> list[NDArray[np.int64]]:
        """Cuts that less than ``demand`` crosses, as the step after which every node is inside.

        ``carried`` (links x steps) are integers. For each receiver the smallest and the largest set
        with a least cut: with both, fewer rounds find all that matter.
        """
        from scipy.sparse import csr_matrix
        from scipy.sparse.csgraph import maximum_flow

        width = self.num_steps + 1
        stay = np.full(len(self.tail) - carried.size, _NO_LIMIT)
        limit = np.append(carried.ravel(), stay).astype(np.int32)
        capacity = csr_matrix((limit, (self.tail, self.head)), shape=(self.num_nodes * width,) * 2)
        cuts: dict[bytes, NDArray[np.int64]] = {}
        for node in range(self.num_nodes):
            if node == root:
                continue
            sink = node * width + self.num_steps
            found = maximum_flow(capacity, root * width, sink)
            if found.flow_value >= demand:
                continue
            for inside in _least_cuts(capacity - found.flow, root * width, sink):
                # Who is inside stays inside, so the steps spent outside say when it came in.
                since = width - inside.reshape(-1, width).sum(axis=1)
                cuts[since.tobytes()] = since
        return list(cuts.values())


def _least_cuts(residual: Any, source: int, sink: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """The smallest and the largest set of vertices, as booleans, that no more flow can leave."""
    from scipy.sparse.csgraph import breadth_first_order

    residual.data = np.maximum(residual.data, 0)
    residual.eliminate_zeros()
    reached = np.zeros(residual.shape[0], dtype=bool)
    reached[breadth_first_order(residual, source, return_predecessors=False)] = True
    is_open = np.zeros(residual.shape[0], dtype=bool)
    backwards = residual.T.tocsr()
    is_open[breadth_first_order(backwards, sink, return_predecessors=False)] = True
    return reached, ~is_open
