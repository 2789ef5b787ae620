"""The automorphisms behind a declared symmetry, of which it stores only the orbits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.topology import Topology


def automorphisms(topology: Topology, node: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where nodes and links go when ``node`` goes to each node of its orbit, the orbit ascending.

    Shapes (orbit, N) and (orbit, links). The group fixes no node, so a node has at most one link
    out of every orbit; along these links everything follows from where ``node`` goes. Raises
    ValueError if the topology declares no symmetry, is not strongly connected, or the orbits are
    not those of such a group.

    >>> from ocs_codesign.families.rings import uni_ring
    >>> automorphisms(uni_ring(1, 3), 0)[0].tolist()
    [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
    """
    symmetry = topology.symmetry
    if symmetry is None:
        raise ValueError("the topology declares no symmetry")
    tail, head, orbit = topology.tail, topology.head, symmetry.link_orbit
    out_link = np.full((topology.num_nodes, int(orbit.max()) + 1), -1)
    out_link[tail, orbit] = np.arange(topology.num_links)
    goes_to = np.flatnonzero(symmetry.node_orbit == symmetry.node_orbit[node])
    node_image = np.full((len(goes_to), topology.num_nodes), -1)
    link_image = np.full((len(goes_to), topology.num_links), -1)
    node_image[:, node] = goes_to
    index, queue = topology.links_by_tail(), [node]
    for at in queue:
        links = index.order[index.start[at] : index.start[at + 1]]
        link_image[:, links] = out_link[node_image[:, at][:, None], orbit[links]]
        if (link_image[:, links] < 0).any():
            raise ValueError(f"the declared symmetry does not map the links of node {at}")
        for link in links.tolist():
            if node_image[0, head[link]] < 0:
                node_image[:, head[link]] = head[link_image[:, link]]
                queue.append(int(head[link]))
    if not (
        len(queue) == topology.num_nodes
        and np.array_equal(node_image[:, tail], tail[link_image])
        and np.array_equal(node_image[:, head], head[link_image])
        and np.array_equal(
            np.sort(node_image, axis=1), np.sort(node_image[:1], axis=1).repeat(len(goes_to), 0)
        )
    ):
        raise ValueError("the declared symmetry is not that of a group that acts freely")
    return node_image, link_image
