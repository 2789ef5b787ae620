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
"""Trees of a root, on average, beyond which another method is better where height matters less."""


def exchanged_trees(
    num_ranks: int,
    tail: NDArray[np.int64],
    head: NDArray[np.int64],
    capacity: NDArray[np.int64],
    wanted: NDArray[np.int64],
    sets: NDArray[np.bool_],
    height: int | None = None,
) -> Trees | None:
    """``wanted[r]`` trees from every rank r that together use an arc at most ``capacity`` times.

    None if such trees were not found, or none of at most ``height``; that of the distances is tried
    first, and trees that enter each of the ``sets`` (rows, bool over ranks) just once. Arcs are
    sorted by tail, one a pair of ranks. Raises ValueError if ranks are farther apart than
    ``height``.
    """
    exchange = _Exchange(num_ranks, tail, head, wanted)
    if height is not None:
        exchange.most_trees = int(wanted.sum())
    for entered in (sets, sets[:0]) if len(sets) else (sets,):
        if not exchange.plant(capacity, entered):
            continue
        lowest = exchange.height
        highest = 2 * lowest + 2 if height is None else height
        for limit in (0, *range(lowest, highest + 1)) if lowest <= highest else ():
            if exchange.relieved(limit):
                return exchange.trees()
        if height is not None and lowest > height and not len(entered):
            raise ValueError(f"height {height}: there are hosts that are {lowest} hops apart")
    return None


def tight_groups(
    num_ranks: int,
    tail: NDArray[np.int64],
    head: NDArray[np.int64],
    capacity: NDArray[np.int64],
    wanted: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Sets of ranks (rows, bool) into which no more leads than every tree from outside once."""
    problem = Dissemination(np.ones(num_ranks, bool), wanted, tail, head, capacity)
    sets = tight_sets(problem, np.arange(num_ranks), capacity, wanted)
    sizes = sets.sum(axis=1)
    return np.unique(sets[(sizes > 1) & (sizes < num_ranks)], axis=0)


@final
class _Exchange:
    """The trees there are, and what arcs still take."""

    def __init__(
        self,
        num_ranks: int,
        tail: NDArray[np.int64],
        head: NDArray[np.int64],
        wanted: NDArray[np.int64],
    ) -> None:
        self.ends, self.num_ranks = (tail, head), num_ranks
        self.root = np.flatnonzero(wanted)
        self.times = wanted[self.root]
        self.most_trees = _MOST_COPIES * len(self.root)

    def plant(self, capacity: NDArray[np.int64], sets: NDArray[np.bool_]) -> bool:
        """Begin with trees of the least depth that enter sets once, if there are such."""
        self.count = len(self.root)
        shape = (self.count, self.num_ranks)
        small = np.int16 if self.num_ranks < 2**15 else np.int32
        self.hung = HungTrees(
            self.times.copy(),
            np.zeros(shape, np.int32),
            *(np.zeros(shape, small) for _ in range(2)),
        )
        self.arcs = _rank_arcs(self.num_ranks, *self.ends, sets)
        self.room = capacity.copy()
        spare = (np.zeros(len(sets), bool), np.zeros(self.num_ranks, np.int64))
        return bool(self._run(plant, self.arcs, self.hung, self.room, self.root, *spare))

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
                if self.count > self.most_trees:
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
