"""The automorphisms behind a declared symmetry, for copying one root's sends to its orbit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.symmetry.automorphisms import images
from ocs_codesign.symmetry.quotient import quotient

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.topology import Topology


def automorphisms(topology: Topology, node: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Where nodes and links go when ``node`` goes to each node of its orbit, the orbit ascending.

    ``node`` is the first of its orbit; shapes (orbit, N) and (orbit, links). Raises ValueError if
    the topology declares no symmetry or the orbits are not those of a group that acts freely.

    >>> from ocs_codesign.graphs.families.rings import UniRing
    >>> automorphisms(UniRing(1, 3).topology(), 0)[0].tolist()
    [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
    """
    if topology.symmetry is None:
        raise ValueError("the topology declares no symmetry")
    whole = quotient(topology)
    found = images(whole)
    if found is None:
        raise ValueError("the declared symmetry does not map the links onto each other")
    moved = found[whole.sources.tolist().index(node)]
    return moved.nodes, moved.links(np.arange(topology.num_links))
