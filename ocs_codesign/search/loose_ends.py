"""Loose ends: what lost nodes leave to be joined, and in which ways that can be done."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from math import factorial, prod
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.graphs.expansions.splices import loose_links

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from ocs_codesign.topology import Topology

Arrangement = list[list[int]]
"""The ends of every block in an order, which says what is joined with what."""


@final
@dataclass(frozen=True, slots=True)
class EndBlock:
    """Ends that can be joined with one another: each of ``left`` with one of ``right``.

    Without ``right``, those of ``left`` are joined in pairs.
    """

    left: tuple[int, ...]
    right: tuple[int, ...] | None = None

    def num_joinings(self) -> int:
        """In how many ways all ends are joined; 0 if that cannot be.

        >>> EndBlock((0, 1, 2), (0, 1, 2)).num_joinings(), EndBlock((0, 1, 2, 3)).num_joinings()
        (6, 3)
        """
        ends = len(self.left)
        if self.right is not None:
            return factorial(ends) if len(self.right) == ends else 0
        return 0 if ends % 2 else prod(range(1, ends, 2))

    def joinings(self) -> Iterator[list[int]]:
        """Every order of ends that joins them differently."""
        if self.right is None:
            yield from _pairings(list(self.left))
        else:
            yield from map(list, permutations(self.right))


@final
@dataclass(frozen=True, slots=True, eq=False)
class LooseEnds:
    """What lost nodes leave loose: links into them and out of them, by ids, and the blocks.

    One-way links: an end of ``left`` counts in ``into``, one of ``right`` in ``out``. Two-way ones:
    all ends count in ``into``, and ``twin`` has the place in ``out`` of each one's other direction.
    """

    gone: tuple[int, ...]
    into: NDArray[np.int64]
    out: NDArray[np.int64]
    blocks: tuple[EndBlock, ...]
    twin: NDArray[np.int64] | None = None

    def num_joinings(self) -> int:
        """In how many ways all ends are joined."""
        return prod(block.num_joinings() for block in self.blocks)

    @property
    def is_free(self) -> bool:
        """Whether any end can be joined with any other."""
        return len(self.blocks) == 1 and (self.twin is None) == (self.blocks[0].right is not None)

    def order_of(self, joined: Sequence[int]) -> list[int]:
        """The order of the ends, if they are free, that joins them so."""
        if self.twin is None:
            return list(joined)
        end_of = np.argsort(self.twin)
        pairs = ((at, int(end_of[out])) for at, out in enumerate(joined))
        return [end for pair in pairs if pair[0] <= pair[1] for end in pair]

    def joined(self, arrangement: Arrangement) -> tuple[int, ...]:
        """What ``Splice`` is told, for an order of the ends of every block."""
        heads = np.full(len(self.into), -1, dtype=np.int64)
        for block, order in zip(self.blocks, arrangement, strict=True):
            pairs = (
                zip(order[0::2], order[1::2], strict=True)
                if block.right is None
                else zip(block.left, order, strict=True)
            )
            for one, other in pairs:
                if self.twin is None:
                    heads[one] = other
                else:
                    heads[one], heads[other] = self.twin[other], self.twin[one]
        return tuple(heads.tolist())


def loose_ends(topology: Topology, gone: Sequence[int], *, two_way: bool = False) -> LooseEnds:
    """The loose ends of nodes, each of which can be joined with any other.

    ``two_way``: links stay in both directions. ValueError for nodes that are none, no node, a node
    twice, fewer than two nodes left, and one-way links of a topology that is to be two-way.

    >>> from ocs_codesign.graphs.families.rings import BiRing
    >>> ends = loose_ends(BiRing(4, 6).topology(), [0, 3], two_way=True)
    >>> len(ends.into), ends.num_joinings()
    (8, 105)
    """
    nodes = _checked(topology, gone)
    into, out = loose_links(topology.tail, topology.head, nodes)
    everything = tuple(range(len(into)))
    if not two_way:
        return LooseEnds(nodes, into, out, (EndBlock(everything, everything),))
    if not topology.is_undirected():
        raise ValueError(f"{topology} has links without a reverse: they are joined one way")
    stays, lost = topology.tail, topology.head
    of_into = np.lexsort((into, lost[into], stays[into]))
    of_out = np.lexsort((out, stays[out], lost[out]))
    twin = np.empty(len(into), dtype=np.int64)
    twin[of_into] = of_out
    return LooseEnds(nodes, into, out, (EndBlock(everything),), twin)


def _pairings(ends: list[int]) -> Iterator[list[int]]:
    if not ends:
        yield []
        return
    first, *rest = ends
    for at, other in enumerate(rest):
        for pairs in _pairings(rest[:at] + rest[at + 1 :]):
            yield [first, other, *pairs]


def _checked(topology: Topology, gone: Sequence[int]) -> tuple[int, ...]:
    nodes = topology.num_nodes
    bad = [node for node in gone if not 0 <= node < nodes]
    if bad:
        raise ValueError(f"node {bad[0]} is gone: nodes are 0 to {nodes - 1}")
    if not len(gone) or len(set(gone)) < len(gone) or len(gone) > nodes - 2:
        raise ValueError(f"nodes {list(gone)} of {nodes} are gone: they must differ and leave two")
    return tuple(sorted(int(node) for node in gone))
