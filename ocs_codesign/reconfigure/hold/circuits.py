"""Switching costs of topologies: how many circuits change between any two, and how long that takes.

Node labels are fixed: a circuit is kept if both topologies have a link between the same two nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ocs_codesign.reconfigure.change import ReconfigurationCost
    from ocs_codesign.topology import Topology


def changed_circuits(topologies: Sequence[Topology]) -> NDArray[np.int64]:
    """Circuits of topology b that topology a does not hold, shape (K, K) for [a, b].

    Parallel links count as often as they are, self-loops are circuits too; what is only taken down
    does not count. Raises ValueError for no topologies and unequal numbers of nodes.

    >>> from ocs_codesign.graphs.families.rings import DirectedCirculant
    >>> rings = [DirectedCirculant(8, offsets).topology() for offsets in ((1, 3), (1, 2), (5, 7))]
    >>> changed_circuits(rings).tolist()
    [[0, 8, 16], [8, 0, 16], [16, 16, 0]]
    """
    from scipy.sparse import coo_array

    if not topologies:
        raise ValueError("there is no topology to choose from: at least one is needed")
    size = topologies[0].num_nodes
    for at, topology in enumerate(topologies):
        if topology.num_nodes != size:
            raise ValueError(
                f"topology {at} has {topology.num_nodes} nodes and topology 0 has {size}: circuits "
                "are compared between the same nodes"
            )
    many = len(topologies)
    owner = np.repeat(np.arange(many), [topology.num_links for topology in topologies])
    links = [topology.tail.astype(np.int64) * size + topology.head for topology in topologies]
    circuits, column = np.unique(np.concatenate(links), return_inverse=True)
    ones = np.ones(len(owner), dtype=np.int64)
    shape = (many, max(len(circuits), 1))
    number = coo_array((ones, (owner, column.ravel())), shape=shape).tocsr()
    kept = np.zeros((many, many), dtype=np.int64)
    for parallel in range(1, int(number.max()) + 1):
        has = (number >= parallel).astype(np.int64)
        kept += (has @ has.T).toarray()
    return np.asarray(np.diag(kept)[None, :] - kept)


def dead_times(changed: NDArray[np.int64], reconfiguration: ReconfigurationCost) -> NDArray[Any]:
    """Dead time in seconds for so many circuits changed, Fractions in the same shape.

    >>> from ocs_codesign.reconfigure.change import ReconfigurationCost
    >>> print(*dead_times(np.array([0, 8]), ReconfigurationCost(10, 1)))
    0 18
    """
    numbers, which = np.unique(changed, return_inverse=True)
    times = [reconfiguration.dead_time_s(int(number)) for number in numbers]
    return np.array([*times, None], dtype=object)[which].reshape(changed.shape)
