"""Blocks: components of the bipartite double cover, which small switches can hold one by one.

The double cover has a tail copy and a head copy of every node and joins them by links. A plane
whose circuits are links of the topology never joins ports of two blocks, so that a switch of its
own may serve each, whatever the factorisation. The blocks of a line digraph are complete: (d, d).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.fabric.components import connected

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.topology import Topology

NO_BLOCK = -1


@final
@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """What must be on one switch: the block of every node's tail and head (int32, N; -1 for none).

    Block b has ``sizes[b]`` (int64, blocks x 2) tails and heads.
    """

    tail_block: NDArray[np.int32]
    head_block: NDArray[np.int32]
    sizes: NDArray[np.int64]


def double_cover_blocks(topology: Topology, *, has_sides: bool = True) -> Blocks:
    """The blocks of a topology, numbered by their first tail.

    Without sides both ends of a link are tails: blocks are then the components.

    >>> from ocs_codesign.topology import Topology
    >>> eight = range(8)
    >>> circulant = Topology(8, [*eight] * 2, [(v + s) % 8 for s in (1, 3) for v in eight])
    >>> double_cover_blocks(circulant).sizes.tolist()
    [[4, 4], [4, 4]]
    """
    nodes = topology.num_nodes
    tail, head = topology.tail, topology.head + nodes * has_sides
    used = np.unique(np.concatenate([tail, head]))
    block = np.full(2 * nodes, NO_BLOCK, dtype=np.int32)
    labels = connected(tail, head, 2 * nodes)[used]
    block[used] = np.unique(labels, return_inverse=True)[1]
    sides = block.reshape(2, nodes)
    count = int(block.max(initial=-1)) + 1
    sizes = [np.bincount(side[side >= 0], minlength=count) for side in sides]
    return Blocks(sides[0], sides[1], np.stack(sizes, axis=1))
