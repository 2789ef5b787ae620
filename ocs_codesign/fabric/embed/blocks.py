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
    """The block of every node's tail copy and head copy (int32, N; -1 where no link is).

    Block b joins ``num_tails[b]`` tails with ``num_heads[b]`` heads by ``num_links[b]`` links;
    ``num_loops`` of all links lead from a node to itself. Blocks are numbered by their first tail.
    """

    tail_block: NDArray[np.int32]
    head_block: NDArray[np.int32]
    num_tails: NDArray[np.int64]
    num_heads: NDArray[np.int64]
    num_links: NDArray[np.int64]
    num_loops: int

    @property
    def num_blocks(self) -> int:
        """How many there are."""
        return len(self.num_tails)

    @property
    def radix(self) -> int:
        """Ports a side of the smallest switch that holds the largest block; 0 without links."""
        return int(max(self.num_tails.max(initial=0), self.num_heads.max(initial=0)))

    def sizes(self) -> dict[tuple[int, int], int]:
        """How many blocks there are of each size (tails, heads), smallest first."""
        pairs = np.stack([self.num_tails, self.num_heads], axis=1)
        size, count = np.unique(pairs, axis=0, return_counts=True)
        return {(int(a), int(b)): int(c) for (a, b), c in zip(size, count, strict=True)}


def double_cover_blocks(topology: Topology, plane: NDArray[np.int32] | None = None) -> Blocks:
    """The blocks of a topology or, with the ``plane`` of every link, of each plane by itself.

    With ``plane`` the copies are those of (plane, node), so that the arrays are planes * N long.
    Raises ValueError if there is not one plane a link.

    >>> from ocs_codesign.topology import Topology
    >>> eight = range(8)
    >>> circulant = Topology(8, [*eight] * 2, [(v + s) % 8 for s in (1, 3) for v in eight])
    >>> double_cover_blocks(circulant).sizes()
    {(4, 4): 2}
    """
    tail, head = topology.tail.astype(np.int64), topology.head.astype(np.int64)
    size = topology.num_nodes
    if plane is not None:
        if plane.shape != tail.shape:
            raise ValueError(f"{len(plane)} planes for {len(tail)} links: every link is in one")
        tail, head = tail + plane.astype(np.int64) * size, head + plane.astype(np.int64) * size
        size *= int(plane.max(initial=-1)) + 1
    label = connected(tail, head + size, 2 * size)
    # Blocks are numbered by their first tail.
    tails = np.unique(tail)
    labels, first = np.unique(label[tails], return_index=True)
    number = np.full(2 * size, NO_BLOCK, dtype=np.int32)
    number[labels[np.argsort(first)]] = np.arange(len(labels))
    of_link = number[label[tail]]
    tail_block = np.full(size, NO_BLOCK, dtype=np.int32)
    head_block = tail_block.copy()
    tail_block[tail], head_block[head] = of_link, of_link
    return Blocks(
        tail_block,
        head_block,
        np.bincount(tail_block[tail_block >= 0], minlength=len(labels)),
        np.bincount(head_block[head_block >= 0], minlength=len(labels)),
        np.bincount(of_link, minlength=len(labels)),
        int(np.count_nonzero(topology.tail == topology.head)),
    )
