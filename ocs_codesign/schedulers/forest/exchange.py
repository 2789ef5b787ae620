"""Trees that start on shortest paths and are hung elsewhere where arcs carry too much.

What an arc carries concerns only the rank it leads into: that rank may take a tree over another
arc, as long as this does not come from a rank that hangs on it. All other ranks' arcs carry what
they did, and all trees stay trees. So one rank after the other settles what comes over which of its
arcs, by a flow of its own, at first where no rank gets deeper, then up to a height that rises. Sets
that nothing spare leads into are entered once by every tree from the start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.cuts.dissemination import Dissemination, tight_sets
from ocs_codesign.kernels import for_work
from ocs_codesign.schedulers.forest.exchange_kernels import plant, relieve
from ocs_codesign.schedulers.forest.hanging_kernels import HungTrees, RankArcs
from ocs_codesign.schedulers.forest.packing import Trees

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

_MOST_COPIES = 16
"""Trees of a root, on average, beyond which another method is better."""


def exchanged_trees(
    num_ranks: int,
    tail: NDArray[np.int64],
    head: NDArray[np.int64],
    capacity: NDArray[np.int64],
    wanted: NDArray[np.int64],
    height: int | None = None,
) -> Trees | None:
    """``wanted[r]`` trees from every rank r that together use an arc at most ``capacity`` times.

    None if such trees were not found, or none of at most ``height``; that of the distances is tried
    first. Arcs are sorted by tail, one a pair of ranks.
    """
    exchange = _Exchange(num_ranks, tail, head, capacity, wanted)
    if not exchange.is_planted:
        return None
    lowest = exchange.height
    highest = 2 * lowest + 2 if height is None else height
    if lowest > highest:
        return None
    for limit in (0, *range(lowest, highest + 1)):
        if exchange.relieved(limit):
            return exchange.trees()
    return None


@final
class _Exchange:
    """The trees there are, and what arcs still take."""

    def __init__(
        self,
        num_ranks: int,
        tail: NDArray[np.int64],
        head: NDArray[np.int64],
        capacity: NDArray[np.int64],
        wanted: NDArray[np.int64],
    ) -> None:
        problem = Dissemination(np.ones(num_ranks, bool), wanted, tail, head, capacity)
        sets = tight_sets(problem, np.arange(num_ranks), capacity, wanted)
        sizes = sets.sum(axis=1)
        sets = np.unique(sets[(sizes > 1) & (sizes < num_ranks)], axis=0)
        self.root = np.flatnonzero(wanted)
        self.count = len(self.root)
        shape = (self.count, num_ranks)
        self.hung = HungTrees(
            wanted[self.root],
            np.zeros(shape, np.int32),
            *(np.zeros(shape, np.int16 if num_ranks < 2**15 else np.int32) for _ in range(2)),
        )
        self.is_planted = False
        for entered in (sets, sets[:0]):
            self.arcs = _rank_arcs(num_ranks, tail, head, entered)
            self.room = capacity.copy()
            room = (np.zeros(len(entered), bool), np.zeros(num_ranks, np.int64))
            if self._run(plant, self.arcs, self.hung, self.room, self.root, *room):
                self.is_planted = True
                return

    @property
    def height(self) -> int:
        """The height of the tallest tree."""
        return int(self.hung.depth[: self.count].max())

    def _run(self, loop: Callable[..., Any], *given: Any) -> Any:
        return for_work(loop, self.count * len(self.arcs.tail))(*given)

    def relieved(self, height: int) -> bool:
        """Whether no arc carries too much after ranks have done what they can at a height."""
        over = -1
        while (left := int(-np.minimum(self.room, 0).sum())) != over:
            over = left
            while True:
                given = (self.arcs, self.hung, self.room, self.count, height)
                self.count = int(self._run(relieve, *given))
                if self.count >= 0:
                    break
                self.count = -self.count - 1
                if self.count > _MOST_COPIES * len(self.root):
                    return False
                self.hung = HungTrees(*(np.concatenate([col, col]) for col in self.hung))
        return left == 0

    def trees(self) -> Trees:
        """The trees as they are."""
        into = self.hung.into[: self.count].astype(np.int64)
        return Trees(np.argmin(into, axis=1), self.hung.times[: self.count], into)


def _rank_arcs(
    num_ranks: int, tail: NDArray[np.int64], head: NDArray[np.int64], sets: NDArray[np.bool_]
) -> RankArcs:
    ranks = np.arange(num_ranks + 1)
    into_arc = np.argsort(head, kind="stable")
    into_first = np.searchsorted(head[into_arc], ranks)
    place = np.empty(len(tail), dtype=np.int64)
    place[into_arc] = np.arange(len(tail)) - into_first[head[into_arc]]
    rank, set_of = np.nonzero(sets.T)
    return RankArcs(
        *(np.searchsorted(tail, ranks), tail, head, into_first, into_arc, place),
        *(np.searchsorted(rank, ranks), set_of, sets),
    )
