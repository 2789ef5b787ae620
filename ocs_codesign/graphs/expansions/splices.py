"""Splice: nodes taken out at once, and what led to any of them joined to what led from any."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.graphs.expansions.edits import Edited
from ocs_codesign.graphs.shape import Shape, sizes
from ocs_codesign.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ocs_codesign.graphs.expansions.edits import Links
    from ocs_codesign.graphs.recipe import Recipe


@final
@dataclass(frozen=True, slots=True, repr=False)
class Splice(Edited):
    """Nodes taken out together, and their loose links joined. N - k nodes, d stays.

    The i-th link that leads from a node that stays into one that is ``gone``, in the order of link
    ids, leads to the head of the ``joined[i]``-th link from one that is gone to one that stays.
    Links among those that are gone go with them. The nodes that are left are numbered anew, in
    their order, and links that stay keep theirs. Joining the ends of several nodes freely reaches
    what cutting out one after the other (Excise) does, and more, for as many ports.

    >>> from ocs_codesign.graphs.families.rings import UniRing
    >>> Splice(UniRing(1, 5), (1, 2), (0,)).topology().head.tolist()
    [1, 2, 0]
    """

    g: Recipe
    gone: tuple[int, ...]
    joined: tuple[int, ...]

    samples = (
        "UniRing(1, 5), (1, 2), (0,)",
        "DirectedCirculant(8, (1, 3)), (0, 4), (3, 0, 1, 2)",
        "DeBruijn(2, 3), (0,), (0,)",
        "Circulant(9, (1, 2)), (2, 3), (5, 4, 3, 2, 1, 0)",
        "Line(Complete(4)), (5,), (2, 1, 0)",
    )

    @property
    def shape(self) -> Shape:
        base = self.g.shape
        gone = sizes(self.gone, "gone", 0, base.num_nodes - 1)
        if len(set(gone)) < len(gone) or len(gone) > base.num_nodes - 2:
            raise ValueError(
                f"nodes {list(gone)} of {base.num_nodes} are gone: they must differ and leave two"
            )
        joined = sizes(self.joined, "joined", 0, len(gone) * base.degree - 1)
        if sorted(joined) != list(range(len(joined))):
            raise ValueError(f"joined is {joined}: it must be a permutation of the loose links")
        return Shape(base.num_nodes - len(gone), base.degree)

    def edited(self, tail: NDArray[np.int64], head: NDArray[np.int64]) -> Links:
        return _joined(tail, head, self.gone, self.joined)

    def label(self) -> str:
        return f"{self.g.bracketed_label()}-{len(self.gone)}"


def loose_links(
    tail: NDArray[np.integer], head: NDArray[np.integer], gone: Sequence[int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Links from nodes that stay into nodes that are gone, and those back out, by their ids.

    >>> into, out = loose_links(np.array([0, 1, 2]), np.array([1, 2, 0]), [1, 2])
    >>> into.tolist(), out.tolist()
    ([0], [2])
    """
    from_gone, to_gone = np.isin(tail, gone), np.isin(head, gone)
    return np.flatnonzero(~from_gone & to_gone), np.flatnonzero(from_gone & ~to_gone)


def spliced_topology(topology: Topology, gone: Sequence[int], joined: Sequence[int]) -> Topology:
    """Any topology of equal link speeds without nodes, their loose links joined as in Splice.

    >>> from ocs_codesign.topology import Topology
    >>> spliced_topology(Topology(3, [0, 1, 2], [1, 2, 0]), [1], [0]).head.tolist()
    [1, 0]
    """
    ends = topology.tail.astype(np.int64), topology.head.astype(np.int64)
    return Topology(topology.num_nodes - len(gone), *_joined(*ends, gone, joined))


def _joined(
    tail: NDArray[np.int64], head: NDArray[np.int64], gone: Sequence[int], joined: Sequence[int]
) -> Links:
    into, out = loose_links(tail, head, gone)
    if len(joined) != len(into):
        raise ValueError(
            f"joined has {len(joined)} entries: {len(into)} links lead to the nodes that are gone"
        )
    stays = np.isin(tail, gone, invert=True)
    head = head.copy()
    head[into] = head[out[list(joined)]]
    lost = np.sort(gone)
    tail, head = tail[stays], head[stays]
    return tail - np.searchsorted(lost, tail), head - np.searchsorted(lost, head)
