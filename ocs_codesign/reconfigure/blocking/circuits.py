"""Switching costs of topologies: how many circuits change between any two, and how long that takes.

Node labels are fixed: a circuit is kept if both topologies have a link between the same two nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from ocs_codesign.reconfigure.change import ReconfigurationCost
    from ocs_codesign.topology import Topology


def changed_circuits(
    topologies: Sequence[Topology], link_planes: Sequence[ArrayLike] | None = None
) -> NDArray[np.int64]:
    """Circuits of topology b that topology a does not hold, shape (planes, K, K) for [:, a, b].

    Parallel links count as often as they are, self-loops are circuits too; what is only taken down
    does not count. ``link_planes`` gives the plane of every link of each topology; circuits are
    kept only within their plane. Without it all are on one. Raises ValueError for no topologies,
    unequal numbers of nodes, and planes that do not fit.

    >>> from ocs_codesign.graphs.families.rings import DirectedCirculant
    >>> rings = [DirectedCirculant(8, offsets).topology() for offsets in ((1, 3), (1, 2), (5, 7))]
    >>> changed_circuits(rings)[0].tolist()
    [[0, 8, 16], [8, 0, 16], [16, 16, 0]]
    """
    from scipy.sparse import coo_array

    _check_nodes(topologies)
    planes = _planes(topologies, link_planes)
    num_planes = max(int(plane.max(initial=0)) for plane in planes) + 1
    owner = np.repeat(np.arange(len(planes)), [len(plane) for plane in planes])
    plane = np.concatenate(planes)
    size = topologies[0].num_nodes
    circuit = np.concatenate([one.tail.astype(np.int64) * size + one.head for one in topologies])
    # The i-th of parallel circuits is kept if the other topology has an i-th one too.
    order = np.lexsort((circuit, plane, owner))
    copy = _copies(owner[order], plane[order], circuit[order])
    keys = np.stack([circuit[order], copy])
    _, column = np.unique(keys, axis=1, return_inverse=True)
    changed = np.empty((num_planes, len(planes), len(planes)), dtype=np.int64)
    for at in range(num_planes):
        mine = plane[order] == at
        rows, columns = owner[order][mine], column.ravel()[mine]
        shape = (len(planes), int(column.max(initial=0)) + 1)
        holds = coo_array((np.ones(len(rows), dtype=np.int64), (rows, columns)), shape=shape)
        holds = holds.tocsr()
        kept = (holds @ holds.T).toarray()
        changed[at] = np.diag(kept)[None, :] - kept
    return changed


def switching_costs(
    topologies: Sequence[Topology],
    reconfiguration: ReconfigurationCost,
    link_planes: Sequence[ArrayLike] | None = None,
) -> NDArray[Any]:
    """Dead time in seconds of every switch, Fractions of shape (K, K), as ``SwitchProblem`` wants.

    Planes change side by side, and the slowest decides; without ``reconfiguration.overlap`` the
    circuits of all of them are changed in one go.

    >>> from ocs_codesign.graphs.families.rings import DirectedCirculant
    >>> from ocs_codesign.reconfigure import ReconfigurationCost
    >>> rings = [DirectedCirculant(8, (1,)).topology(), DirectedCirculant(8, (3,)).topology()]
    >>> print(switching_costs(rings, ReconfigurationCost(10, 1))[0, 1])
    18
    """
    changed = changed_circuits(topologies, link_planes)
    return dead_times(
        changed.max(axis=0) if reconfiguration.overlap else changed.sum(axis=0), reconfiguration
    )


def first_costs(
    topologies: Sequence[Topology],
    reconfiguration: ReconfigurationCost,
    link_planes: Sequence[ArrayLike] | None = None,
) -> NDArray[Any]:
    """Dead time in seconds of making each topology from nothing, Fractions of shape (K,).

    Zeros unless the start is cold.
    """
    _check_nodes(topologies)
    if not reconfiguration.cold_start:
        return dead_times(np.zeros(len(topologies), dtype=np.int64), reconfiguration)
    sizes = [np.bincount(plane) for plane in _planes(topologies, link_planes)]
    made = [size.max(initial=0) if reconfiguration.overlap else size.sum() for size in sizes]
    return dead_times(np.array(made), reconfiguration)


def dead_times(changed: NDArray[np.int64], reconfiguration: ReconfigurationCost) -> NDArray[Any]:
    """Dead time in seconds for so many circuits changed, Fractions in the same shape."""
    numbers, which = np.unique(changed, return_inverse=True)
    times = [reconfiguration.dead_time_s(int(number)) for number in numbers]
    return np.array([*times, None], dtype=object)[which].reshape(changed.shape)


def _check_nodes(topologies: Sequence[Topology]) -> None:
    if not topologies:
        raise ValueError("there is no topology to choose from: at least one is needed")
    sizes = [topology.num_nodes for topology in topologies]
    if len(set(sizes)) > 1:
        other = next(at for at, size in enumerate(sizes) if size != sizes[0])
        raise ValueError(
            f"topology {other} has {sizes[other]} nodes and topology 0 has {sizes[0]}: circuits "
            "are compared between the same nodes"
        )


def _planes(
    topologies: Sequence[Topology], link_planes: Sequence[ArrayLike] | None
) -> list[NDArray[np.int64]]:
    if link_planes is None:
        return [np.zeros(topology.num_links, dtype=np.int64) for topology in topologies]
    planes = [np.asarray(plane) for plane in link_planes]
    if len(planes) != len(topologies):
        raise ValueError(f"planes of {len(planes)} topologies for {len(topologies)}")
    for at, (plane, topology) in enumerate(zip(planes, topologies, strict=True)):
        fits = plane.shape == (topology.num_links,) and plane.dtype.kind in "iu"
        if not fits or (plane.size and plane.min() < 0):
            raise ValueError(
                f"link_planes[{at}] must be {topology.num_links} integers of at least 0, the plane "
                "of every link"
            )
    return [plane.astype(np.int64) for plane in planes]


def _copies(*columns: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many equal rows come before each, in sorted rows."""
    new = np.ones(len(columns[0]), dtype=bool)
    new[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    begin = np.flatnonzero(new)
    return np.arange(len(new)) - np.repeat(begin, np.diff(np.append(begin, len(new))))
