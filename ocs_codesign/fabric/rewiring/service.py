"""What a stage leaves to traffic: circuits of the node that has least, and what may not fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.fabric.rewiring.connectivity import connectivity

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.fabric.wiring import Configuration


def circuits_of_node(configuration: Configuration, up: NDArray[np.int32] | None) -> int:
    """Circuits of the node that has fewest: one-way ones that leave it, two-way ones at it.

    ``up`` are circuits as rows (plane, A node, B node); None for all of the configuration.
    """
    topology = configuration.topology
    if up is None:
        link = configuration.link[configuration.link[:, 0] >= 0, 0]
        ends = np.stack([topology.tail[link], topology.head[link]], axis=1)
    else:
        ends = up[:, 1:]
    if not configuration.cabling.fabric.port_model(0).is_bidirectional:
        ends = ends[:, :1]
    return int(np.bincount(ends.ravel(), minlength=topology.num_nodes).min())


def planes_that_cut(configuration: Configuration, up: NDArray[np.int32]) -> list[int]:
    """The planes without which the circuits that are up do not join all nodes."""
    model = configuration.cabling.fabric.port_model(0)
    nodes = configuration.topology.num_nodes
    planes = np.unique(up[:, 0]).tolist()
    return [p for p in planes if connectivity(up[up[:, 0] != p], model, nodes) is None]
