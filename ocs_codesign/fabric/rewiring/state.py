"""The state of planes as an array: which circuit every port of every plane is in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.fabric.description import PortModel

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from ocs_codesign.fabric.planes.planes import Planes


DARK = -1


def plane_state(planes: Planes, num_planes: int | None = None) -> NDArray[np.int32]:
    """Where the circuit of every node's A port leads, int32 of shape (planes, N); -1 is dark.

    It leads to the B port of the node named; without sides, to the node's port, and back. There
    are ``num_planes`` rows (by default ``planes.num_planes``). Raises ValueError if those are less
    than are used.

    >>> from ocs_codesign.fabric.planes.models import planes_of
    >>> from ocs_codesign.core.topology import Topology
    >>> ring = Topology(4, [0, 1, 2, 3] * 2, [1, 2, 3, 0, 3, 0, 1, 2])
    >>> plane_state(planes_of(ring, PortModel.MATCHING), 3).tolist()
    [[1, 0, 3, 2], [3, 2, 1, 0], [-1, -1, -1, -1]]
    """
    used = int(planes.plane.max(initial=-1)) + 1
    rows = max(planes.num_planes, used) if num_planes is None else num_planes
    if rows < used:
        raise ValueError(f"there are {rows} planes, but the circuits are in {used}")
    state = np.full((rows, planes.topology.num_nodes), DARK, dtype=np.int32)
    state[planes.plane, planes.a_node] = planes.b_node
    if planes.port_model is PortModel.MATCHING:
        state[planes.plane, planes.b_node] = planes.a_node
    return state


def checked_state(
    state: ArrayLike, port_model: PortModel, num_nodes: int | None = None, name: str = "held"
) -> NDArray[np.int32]:
    """A state of planes as int32, or ValueError with the first thing that no switch can hold."""
    table = np.asarray(state)
    if table.ndim != 2 or not table.size or table.dtype.kind not in "iu":
        raise ValueError(f"{name} must be a table of integers, a row a plane and a column a node")
    nodes = table.shape[1]
    if num_nodes is not None and nodes != num_nodes:
        raise ValueError(
            f"{name} has {nodes} nodes and the topology has {num_nodes}: circuits are compared "
            "between the same nodes"
        )
    outside = np.argwhere((table < DARK) | (table >= nodes))
    if len(outside):
        plane, node = outside[0]
        raise ValueError(
            f"{name} leads from node {node} to {table[plane, node]} in plane {plane}: nodes are 0 "
            f"to {nodes - 1}, and -1 is dark"
        )
    for plane, heads in enumerate(table):
        count = np.bincount(heads[heads != DARK], minlength=nodes)
        if count.max() > 1:
            raise ValueError(
                f"{name} has {count.max()} circuits to node {int(count.argmax())} in plane "
                f"{plane}: a port is in one circuit"
            )
        if port_model is PortModel.MATCHING:
            lit = np.flatnonzero(heads != DARK)
            wrong = lit[(heads[heads[lit]] != lit) | (heads[lit] == lit)]
            if len(wrong):
                raise ValueError(
                    f"{name} joins node {wrong[0]} with {heads[wrong[0]]} in plane {plane}, which "
                    "is not joined back: circuits of matching planes join two nodes"
                )
    return table.astype(np.int32)


def state_circuits(state: NDArray[np.int32], port_model: PortModel) -> NDArray[np.int32]:
    """The circuits of a state as rows (plane, A node, B node), int32, in this order.

    Without sides the lower node comes first.

    >>> state_circuits(np.array([[1, 0, -1]], dtype=np.int32), PortModel.SIMPLEX).tolist()
    [[0, 0, 1], [0, 1, 0]]
    """
    plane, node = np.nonzero(state != DARK)
    head = state[plane, node]
    if port_model is PortModel.MATCHING:
        first = node < head
        plane, node, head = plane[first], node[first], head[first]
    return np.stack([plane, node, head], axis=1).astype(np.int32)
