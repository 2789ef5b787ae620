"""Spanning trees packed into arcs between ranks, exactly, a tree with its multiplicity at a time.

What is left must serve what is left: in every set of ranks arcs of a capacity enter that is at
least the number of trees whose root is outside. A sweep of flows tells, and names a set where a
tree enters too often; such sets are remembered, and later trees enter them no more often than they
can bear. Sources: Edmonds (1973), Frank (1978); the lazy choice of sets is ours.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from ocs_codesign.core.compute.cuts import Dissemination, tight_sets
from ocs_codesign.core.compute.kernels import for_work
from ocs_codesign.core.progress import tell
from ocs_codesign.schedules.forest.kernels import HungTrees, RankArcs, grow, plant, relieve
from ocs_codesign.schedules.forest.optimum import WholeLinks
from ocs_codesign.schedules.forest.splitting import balanced_within, short_set, slack

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ocs_codesign.schedules.forest.optimum import Optimum


@final
class Trees(NamedTuple):
    """Spanning trees: ``root`` and ``multiplicity`` (int64, trees), and the arc into every rank.

    ``arc_into`` (int64, trees x ranks) is -1 for the root; arcs are those that were packed.
    """

    root: NDArray[np.int64]
    multiplicity: NDArray[np.int64]
    arc_into: NDArray[np.int64]


def pack(graph: Dissemination) -> Trees:
    """``weight[r]`` trees from every rank r that together use an arc at most ``capacity`` times.

    The graph has ranks alone; its arcs are sorted by tail, one a pair of ranks. Raises ValueError
    if they cannot bear the trees.
    """
    packing = _Packing(graph)
    size = 1
    while packing.wanted.any():
        size = packing.add_batch(size)
        tell(graph.total_weight - int(packing.wanted.sum()), graph.total_weight)
    roots, multiplicity, arcs = zip(*packing.trees, strict=True)
    return Trees(np.array(roots), np.array(multiplicity), np.array(arcs))


_Tree = tuple[int, int, "NDArray[np.int64]"]
"""Root, multiplicity, and the arc into every rank."""


class _Packing:
    """What is left of the arcs and of the trees that are wanted, and the sets known to be tight."""

    def __init__(self, graph: Dissemination) -> None:
        self.graph, self.num_ranks = graph, graph.num_nodes
        self.spare, self.wanted = graph.capacity.copy(), graph.weight.copy()
        self.first = np.searchsorted(graph.tail, np.arange(self.num_ranks + 1))
        self.inside = np.zeros((0, self.num_ranks), dtype=bool)
        self.slack = np.zeros(0, dtype=np.int64)
        self.trees: list[_Tree] = []
        # A node beyond the ranks is what a tree that is being grown has reached.
        ranks = np.arange(self.num_ranks)
        self.growing = Dissemination(
            np.append(graph.is_rank, False),
            np.append(graph.weight, 0),
            np.append(graph.tail, np.full(self.num_ranks, self.num_ranks)),
            np.append(graph.head, ranks),
            np.append(graph.capacity, 0 * ranks),
        )
        if short_set(graph, self.spare, self.wanted) is not None:
            raise ValueError("the arcs cannot bear the trees that are wanted")

    def learn(self, inside: NDArray[np.bool_]) -> None:
        """Remember a set."""
        self.inside = np.vstack([self.inside, inside])
        self.slack = np.append(self.slack, slack(self.graph, self.spare, self.wanted, inside))

    def add_batch(self, size: int) -> int:
        """Take up to ``size`` trees that leave enough for the others; how many to try next.

        If they do not, a set is learnt from it and nothing taken.
        """
        before = (self.spare.copy(), self.wanted.copy(), self.slack.copy(), len(self.trees))
        stuck = self.take(size)
        if len(self.trees) > before[3]:
            inside = short_set(self.graph, self.spare, self.wanted)
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
        tail, head = self.graph.tail, self.graph.head
        loop = for_work(grow, len(tail) * (1 + len(self.inside)))
        reached = loop(
            *(self.first, tail, head, self.spare, root, self.inside, left, parent, depth, queue)
        )
        return parent, may_enter - left, queue[:reached]

    def stuck(
        self, root: int, parent: NDArray[np.int64], reached: NDArray[np.int64]
    ) -> NDArray[np.bool_] | None:
        """The set that kept a tree from growing on, None if there is none."""
        spare, wanted = self.spare.copy(), np.append(self.wanted, 1)
        spare[parent[reached[1:]]] -= 1
        wanted[root] -= 1
        grown = np.isin(np.arange(self.num_ranks), reached).astype(np.int64)
        inside = short_set(self.growing, np.append(spare, grown), wanted)
        return None if inside is None else inside[:-1]


# Trees that start on shortest paths and are hung elsewhere where arcs carry too much.
#
# What an arc carries concerns only the rank it leads into: that rank may take a tree over another
# arc, as long as this does not come from a rank that hangs on it. All other ranks' arcs carry
# what they did, and all trees stay trees. So one rank after the other settles what comes over
# which of its arcs, by a flow of its own, at first where no rank gets deeper, then up to a height
# that rises. Sets that nothing spare leads into are entered once by every tree from the start.


_MOST_COPIES = 16
"""Trees of a root, on average, beyond which another method is better where height matters less."""


def exchanged_trees(
    graph: Dissemination, sets: NDArray[np.bool_], height: int | None = None
) -> Trees | None:
    """Trees as those of ``pack``, but none of more than ``height``.

    None if such trees were not found; the height of the distances is tried first, and trees that
    enter each of the ``sets`` (rows, bool over ranks) just once. Raises ValueError if ranks are
    farther apart than ``height``.
    """
    exchange = _Exchange(graph)
    if height is not None:
        exchange.most_trees = graph.total_weight
    for entered in (sets, sets[:0]) if len(sets) else (sets,):
        if not exchange.plant(entered):
            continue
        lowest = exchange.height
        highest = 2 * lowest + 2 if height is None else height
        for limit in (0, *range(lowest, highest + 1)) if lowest <= highest else ():
            if exchange.relieved(limit):
                return exchange.trees()
        if height is not None and lowest > height and not len(entered):
            raise ValueError(f"height {height}: there are hosts that are {lowest} hops apart")
    return None


def tight_groups(graph: Dissemination) -> NDArray[np.bool_]:
    """Sets of ranks (rows, bool) into which no more leads than every tree from outside once."""
    ranks = np.arange(graph.num_nodes)
    sets = tight_sets(graph, ranks, graph.capacity, graph.weight)
    sizes = sets.sum(axis=1)
    return np.unique(sets[(sizes > 1) & (sizes < len(ranks))], axis=0)


@final
class _Exchange:
    """The trees there are, and what arcs still take."""

    def __init__(self, graph: Dissemination) -> None:
        self.graph = graph
        self.root = np.flatnonzero(graph.weight)
        self.most_trees = _MOST_COPIES * len(self.root)

    def plant(self, sets: NDArray[np.bool_]) -> bool:
        """Begin with trees of the least depth that enter sets once, if there are such."""
        self.count, num_ranks = len(self.root), self.graph.num_nodes
        shape = (self.count, num_ranks)
        small = np.int16 if num_ranks < 2**15 else np.int32
        self.hung = HungTrees(
            self.graph.weight[self.root],
            np.zeros(shape, np.int32),
            *(np.zeros(shape, small) for _ in range(2)),
        )
        self.arcs = _rank_arcs(self.graph, sets)
        spare = (np.zeros(len(sets), bool), np.zeros(num_ranks, np.int64))
        return bool(self._run(plant, self.arcs, self.hung, self.root, *spare))

    @property
    def height(self) -> int:
        """The height of the tallest tree."""
        return int(self.hung.depth[: self.count].max())

    def _run(self, loop: Callable[..., Any], *given: Any) -> Any:
        return for_work(loop, self.count * len(self.arcs.tail))(*given)

    def relieved(self, height: int) -> bool:
        """Whether no arc carries too much after ranks have done what they can at a height."""
        over = -1
        while (left := int(-np.minimum(self.arcs.room, 0).sum())) != over:
            over = left
            while True:
                given = (self.arcs, self.hung, self.count, height)
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


def _rank_arcs(graph: Dissemination, sets: NDArray[np.bool_]) -> RankArcs:
    ranks, tail, head = np.arange(graph.num_nodes + 1), graph.tail, graph.head
    into_arc = np.argsort(head, kind="stable")
    into_first = np.searchsorted(head[into_arc], ranks)
    place = np.empty(len(tail), dtype=np.int64)
    place[into_arc] = np.arange(len(tail)) - into_first[head[into_arc]]
    rank, set_of = np.nonzero(sets.T)
    return RankArcs(
        *(np.searchsorted(tail, ranks), tail, head, into_first, into_arc, place),
        *(np.searchsorted(rank, ranks), set_of, sets, graph.capacity.copy()),
    )


# The best rate with a given number of trees a unit, where the optimum needs too many.


def few_trees(found: Optimum, num_trees: int) -> WholeLinks:
    """The best of 1 to ``num_trees`` trees a unit; of equally good ones that with the fewest.

    It takes at most 1 / (num_trees * the least capacity) more than the optimum, but where rounded
    capacities cannot be balanced at a switch. More trees can be worse than fewer. Raises ValueError
    where links are shared by groups, and for less than one tree.
    """
    if num_trees < 1:
        raise ValueError(f"{num_trees} trees a unit: there must be one")
    if len(found.tasks) > 1:
        raise ValueError(
            "trees of links that groups share or kinds of trees do cannot be limited in number"
        )
    each = (exactly(found, number) for number in range(1, min(num_trees, found.trees[1]) + 1))
    return min(each, key=lambda few: (few.inv_rate, few.num_trees))


def exactly(found: Optimum, num_trees: int) -> WholeLinks:
    """The least scale that is found at which so many trees a unit fit.

    Rounded capacities grow only where the scale passes a multiple of 1 / capacity, so a bisection
    for every capacity finds the least in the sense of cuts. If capacities rounded at that cannot be
    balanced, the bisections are asked that too; from where all are whole they need no rounding.
    """
    links = _Links(found, num_trees)
    best = found.inv_rate * num_trees
    scale = links.least(best, best + Fraction(1) / min(links.distinct), links.fits)
    whole = links.balanced(scale)
    if whole is None:
        highest = best + Fraction(1) / min(links.distinct)
        if links.balanced(highest) is None:
            up, down = found.trees
            highest = up * -(-num_trees // down)
        scale = links.least(scale, highest, lambda at: links.balanced(at) is not None)
        whole = links.balanced(scale)
    if whole is None:
        raise RuntimeError("capacities that are whole at this scale are not balanced there")
    capacity = np.zeros(found.network.num_links, dtype=np.int64)
    capacity[links.ids] = whole
    return WholeLinks(num_trees, scale, capacity)


class _Links:
    """Links of an optimum one by one: a tree takes one of parallel ones, not parts of several.

    ``part`` is what the optimum has of every link's bandwidth, ``ids`` are the links that it needs.
    """

    def __init__(self, found: Optimum, num_trees: int) -> None:
        part = found.parts(0)
        self.ids = np.flatnonzero([value > 0 for value in part])
        self.part = [part[link] for link in self.ids.tolist()]
        self.distinct = sorted(set(self.part))
        tail, head = (ends[self.ids] for ends in found.tasks[0].ends(found.network))
        problem = found.tasks[0].problem
        self.problem = replace(problem, tail=tail, head=head, capacity=0 * tail)
        self.own = num_trees * problem.weight

    def rounded(self, scale: Fraction) -> NDArray[np.int64]:
        """Capacities times a scale, rounded down."""
        whole = {part: int(part * scale) for part in self.distinct}
        return np.array([whole[part] for part in self.part], dtype=np.int64)

    def fits(self, scale: Fraction) -> bool:
        """Whether capacities rounded down serve all ranks, in the sense of cuts."""
        return short_set(self.problem, self.rounded(scale), self.own) is None

    def balanced(self, scale: Fraction) -> NDArray[np.int64] | None:
        """Capacities rounded down, and less until relays let out what they let in, if possible."""
        return balanced_within(self.problem, self.rounded(scale), self.own)

    def least(
        self, lowest: Fraction, highest: Fraction, holds: Callable[[Fraction], bool]
    ) -> Fraction:
        """The least scale in a range at which what then stays so holds, or the highest."""
        if holds(lowest):
            return lowest
        for part in self.distinct:
            low, high = int(lowest * part), int(highest * part)
            if not holds(high / part):
                continue
            while high - low > 1:
                middle = (low + high) // 2
                if holds(middle / part):
                    high = middle
                else:
                    low = middle
            highest = min(highest, high / part)
        return highest
