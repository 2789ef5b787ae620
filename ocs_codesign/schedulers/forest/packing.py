"""Spanning trees packed into arcs between ranks, exactly, a tree with its multiplicity at a time.

What is left must serve what is left: in every set of ranks arcs of a capacity enter that is at
least the number of trees whose root is outside. A sweep of flows tells, and names a set where a
tree enters too often; such sets are remembered, and later trees enter them no more often than they
can bear. Sources: Edmonds (1973), Frank (1978); the lazy choice of sets is ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.cuts.dissemination import Dissemination, first_short
from ocs_codesign.kernels import for_work
from ocs_codesign.schedulers.forest.packing_kernels import grow

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


@final
@dataclass(frozen=True, slots=True, eq=False)
class Trees:
    """Spanning trees: ``root`` and ``multiplicity`` (int64, trees), and the arc into every rank.

    ``arc_into`` (int64, trees x ranks) is -1 for the root; arcs are those that were packed.
    """

    root: NDArray[np.int64]
    multiplicity: NDArray[np.int64]
    arc_into: NDArray[np.int64]


def pack(
    num_ranks: int,
    tail: NDArray[np.int64],
    head: NDArray[np.int64],
    capacity: NDArray[np.int64],
    wanted: NDArray[np.int64],
    on_progress: Callable[[int, int], None] | None = None,
) -> Trees:
    """``wanted[r]`` trees from every rank r that together use an arc at most ``capacity`` times.

    Arcs are sorted by tail, one a pair of ranks. Raises ValueError if they cannot bear the trees.
    """
    packing = _Packing(num_ranks, tail, head, capacity, wanted)
    total, size = int(wanted.sum()), 1
    while packing.wanted.any():
        size = packing.add_batch(size)
        if on_progress is not None:
            on_progress(total - int(packing.wanted.sum()), total)
    roots, multiplicity, arcs = zip(*packing.trees, strict=True)
    return Trees(np.array(roots), np.array(multiplicity), np.array(arcs))


_Tree = tuple[int, int, "NDArray[np.int64]"]
"""Root, multiplicity, and the arc into every rank."""


class _Packing:
    """What is left of the arcs and of the trees that are wanted, and the sets known to be tight."""

    def __init__(
        self,
        num_ranks: int,
        tail: NDArray[np.int64],
        head: NDArray[np.int64],
        capacity: NDArray[np.int64],
        wanted: NDArray[np.int64],
    ) -> None:
        self.num_ranks, self.tail, self.head = num_ranks, tail, head
        self.spare, self.wanted = capacity.copy(), wanted.copy()
        self.first = np.searchsorted(tail, np.arange(num_ranks + 1))
        self.inside = np.zeros((0, num_ranks), dtype=bool)
        self.slack = np.zeros(0, dtype=np.int64)
        self.trees: list[_Tree] = []
        # A node beyond the ranks is what a tree that is being grown has reached.
        ranks = np.arange(num_ranks)
        grown = np.full(num_ranks, num_ranks)
        is_rank = np.append(np.ones(num_ranks, dtype=bool), False)
        self.problem = Dissemination(
            is_rank,
            np.zeros(num_ranks + 1, dtype=np.int64),
            np.concatenate([tail, grown]),
            np.concatenate([head, ranks]),
            np.zeros(len(tail) + num_ranks, dtype=np.int64),
        )
        self.ranks = ranks
        if self.violated(self.spare, self.wanted) is not None:
            raise ValueError("the arcs cannot bear the trees that are wanted")

    def violated(
        self,
        spare: NDArray[np.int64],
        wanted: NDArray[np.int64],
        reached: NDArray[np.bool_] | None = None,
    ) -> NDArray[np.bool_] | None:
        """A set that too little enters, if one more tree has ``reached`` these ranks."""
        grown = np.zeros(self.num_ranks, dtype=np.int64)
        if reached is not None:
            grown[reached] = 1
        own = np.append(wanted, 0 if reached is None else 1)
        capacity = np.concatenate([spare, grown])
        position, outside = first_short(self.problem, self.ranks, 0, capacity, own)
        return None if position == self.num_ranks else outside[: self.num_ranks]

    def slack_of(self, inside: NDArray[np.bool_]) -> int:
        """How much more enters a set than has to."""
        enters = ~inside[self.tail] & inside[self.head]
        return int(self.spare[enters].sum()) - int(self.wanted[~inside].sum())

    def learn(self, inside: NDArray[np.bool_]) -> None:
        """Remember a set."""
        self.inside = np.vstack([self.inside, inside])
        self.slack = np.append(self.slack, self.slack_of(inside))

    def add_batch(self, size: int) -> int:
        """Take up to ``size`` trees that leave enough for the others; how many to try next.

        If they do not, a set is learnt from it and nothing taken.
        """
        before = (self.spare.copy(), self.wanted.copy(), self.slack.copy(), len(self.trees))
        stuck = self.take(size)
        if len(self.trees) > before[3]:
            inside = self.violated(self.spare, self.wanted)
            if inside is None:
                return 2 * size
            self.spare, self.wanted, self.slack = before[:3]
            del self.trees[before[3] :]
        elif stuck is not None:
            inside = stuck
        else:
            raise RuntimeError("no arc lets a tree grow: the arcs bear less than was checked")
        self.learn(inside)
        return max(1, size // 2)

    def take(self, size: int) -> NDArray[np.bool_] | None:
        """Take trees that the known sets allow; what kept the first from growing, if anything."""
        for turn in range(size):
            roots = np.flatnonzero(self.wanted)
            if not len(roots):
                return None
            root = int(roots[np.argmax(self.wanted[roots])])
            parent, entered, reached = self.eager_tree(root)
            if len(reached) < self.num_ranks:
                return self.stuck(root, parent, reached) if not turn else None
            self.take_tree(root, parent, entered)
        return None

    def take_tree(self, root: int, parent: NDArray[np.int64], entered: NDArray[np.int64]) -> None:
        """Take a tree as often as the known sets allow."""
        arcs = np.delete(parent, root)
        burden = entered - ~self.inside[:, root]
        limits = self.slack[burden > 0] // burden[burden > 0]
        times = int(min(self.wanted[root], self.spare[arcs].min(), limits.min(initial=2**62)))
        self.spare[arcs] -= times
        self.wanted[root] -= times
        self.slack -= times * burden
        self.trees.append((root, times, parent))

    def eager_tree(
        self, root: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """A tree within the known sets: the arc into every rank, entries to sets, ranks reached."""
        parent, depth, queue = np.zeros((3, self.num_ranks), dtype=np.int64)
        may_enter = self.slack + ~self.inside[:, root]
        left = may_enter.copy()
        loop = for_work(grow, len(self.tail) * (1 + len(self.inside)))
        reached = loop(
            *(self.first, self.tail, self.head, self.spare, root, self.inside, left),
            *(parent, depth, queue),
        )
        return parent, may_enter - left, queue[:reached]

    def stuck(
        self, root: int, parent: NDArray[np.int64], reached: NDArray[np.int64]
    ) -> NDArray[np.bool_] | None:
        """The set that kept a tree from growing on, None if there is none."""
        spare, wanted = self.spare.copy(), self.wanted.copy()
        spare[parent[reached[1:]]] -= 1
        wanted[root] -= 1
        return self.violated(spare, wanted, np.isin(self.ranks, reached))
