"""The best rate with a given number of trees a unit, where the optimum needs too many."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.cuts.dissemination import Dissemination, first_short
from ocs_codesign.schedulers.forest.rounding import balanced_within

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ocs_codesign.schedulers.forest.optimum import Optimum


@final
@dataclass(frozen=True, slots=True, eq=False)
class FewTrees:
    """``num_trees`` trees a unit fit into ``capacity``, at most ``scale`` times that of every link.

    ``capacity`` (int64, links of the network) are whole numbers; a tree takes one of them, so a
    unit of demand takes ``inv_rate`` = scale / num_trees.
    """

    num_trees: int
    scale: Fraction
    capacity: NDArray[np.int64]

    @property
    def inv_rate(self) -> Fraction:
        """Time of a unit of demand, where a unit of capacity carries one in a time of 1."""
        return self.scale / self.num_trees


def few_trees(found: Optimum, num_trees: int) -> FewTrees:
    """The best of 1 to ``num_trees`` trees a unit; of equally good ones that with the fewest.

    It takes at most 1 / (num_trees * the least capacity) more than the optimum, but where rounded
    capacities cannot be balanced at a switch. More trees can be worse than fewer. Raises ValueError
    where links are shared by groups, and for less than one tree.

    >>> from ocs_codesign.collective import Collective
    >>> from ocs_codesign.networks.boxes import boxes
    >>> from ocs_codesign.schedulers.forest.optimum import optimum
    >>> few = few_trees(optimum(boxes(2, 8, 300, 25, outer=2), Collective.ALLGATHER), 4)
    >>> few.num_trees, few.scale
    (1, Fraction(7, 150))
    """
    if num_trees < 1:
        raise ValueError(f"{num_trees} trees a unit: there must be one")
    if len(found.tasks) > 1:
        raise ValueError(
            "trees of links that groups share or kinds of trees do cannot be limited in number"
        )
    each = (exactly(found, number) for number in range(1, min(num_trees, found.trees[1]) + 1))
    return min(each, key=lambda few: (few.inv_rate, few.num_trees))


def exactly(found: Optimum, num_trees: int) -> FewTrees:
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
    return FewTrees(num_trees, scale, capacity)


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
        none = np.zeros(len(self.ids), dtype=np.int64)
        self.problem = Dissemination(problem.is_rank, problem.weight, tail, head, none)
        self.own = num_trees * problem.weight
        self.ranks = np.flatnonzero(problem.is_rank)

    def rounded(self, scale: Fraction) -> NDArray[np.int64]:
        """Capacities times a scale, rounded down."""
        whole = {part: int(part * scale) for part in self.distinct}
        return np.array([whole[part] for part in self.part], dtype=np.int64)

    def fits(self, scale: Fraction) -> bool:
        """Whether capacities rounded down serve all ranks, in the sense of cuts."""
        short = first_short(self.problem, self.ranks, 0, self.rounded(scale), self.own)
        return short[0] == len(self.ranks)

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
