"""Components: which points are joined, by pairs in either direction or along links both ways."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def connected(one: NDArray[np.integer], other: NDArray[np.integer], size: int) -> NDArray[np.int32]:
    """The component of every one of ``size`` points that pairs join.

    >>> connected(np.array([0, 3]), np.array([2, 1]), 4).tolist()
    [0, 1, 0, 1]
    """
    label: NDArray[np.int32] = _components(one, other, size, "weak")
    return label


def strong_components(
    tail: NDArray[np.integer], head: NDArray[np.integer], size: int
) -> NDArray[np.int32]:
    """The strongly connected component of every one of ``size`` points that links join."""
    label: NDArray[np.int32] = _components(tail, head, size, "strong")
    return label


def _components(tail: Any, head: Any, size: int, connection: str) -> Any:
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components

    graph = csr_matrix((np.ones(len(tail)), (tail, head)), shape=(size, size))
    return connected_components(graph, connection=connection)[1]
