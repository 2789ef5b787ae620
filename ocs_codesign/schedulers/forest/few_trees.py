"""The best rate with a given number of trees a unit, where the optimum needs too many."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.cuts.dissemination import Dissemination, first_short, scaled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.schedulers.forest.optimum import Optimum


@final
@dataclass(frozen=True, slots=True)
class FewTrees:
    """``num_trees`` trees a unit fit into capacities times ``scale`` rounded down.

    A tree takes one of them, so a unit of demand takes ``inv_rate`` = scale / num_trees.
    """

    num_trees: int
    scale: Fraction

    @property
    def inv_rate(self) -> Fraction:
        """Time of a unit of demand, where a unit of capacity carries one in a time of 1."""
        return self.scale / self.num_trees


def few_trees(found: Optimum, num_trees: int) -> FewTrees:
    """The best of 1 to ``num_trees`` trees a unit; of equally good ones that with the fewest.

    It takes at most 1 / (num_trees * the least capacity) more than the optimum. More trees can be
    worse than fewer. Raises ValueError where links are shared by groups or by unbalanced switches,
    and for less than one tree.

    >>> from ocs_codesign.collective import Collective
    >>> from ocs_codesign.networks.boxes import boxes
    >>> from ocs_codesign.schedulers.forest.optimum import optimum
    >>> few_trees(optimum(boxes(2, 8, 300, 25, outer=2), Collective.ALLGATHER), 4)
    FewTrees(num_trees=1, scale=Fraction(7, 150))
    """
    if num_trees < 1:
        raise ValueError(f"{num_trees} trees a unit: there must be one")
    if found.shares is not None:
        raise ValueError("trees of shared links cannot be limited in number")
    each = (exactly(found, number) for number in range(1, min(num_trees, found.trees[1]) + 1))
    return min(each, key=lambda few: (few.inv_rate, few.num_trees))


def exactly(found: Optimum, num_trees: int) -> FewTrees:
    """The least scale at which so many trees a unit fit: a bisection for every capacity.

    Rounded capacities grow only where the scale passes a multiple of 1 / capacity.
    """
    problem = _each_link(found)
    best = found.inv_rate * num_trees
    highest = best + Fraction(1, int(problem.capacity.min()))
    if _fits(problem, num_trees, best):
        return FewTrees(num_trees, best)
    for capacity in np.unique(problem.capacity).tolist():
        low, high = int(best * capacity), int(highest * capacity)
        if not _fits(problem, num_trees, Fraction(high, capacity)):
            continue
        while high - low > 1:
            middle = (low + high) // 2
            if _fits(problem, num_trees, Fraction(middle, capacity)):
                high = middle
            else:
                low = middle
        highest = min(highest, Fraction(high, capacity))
    return FewTrees(num_trees, highest)


def _each_link(found: Optimum) -> Dissemination:
    """The problem with parallel links apart: a tree takes one of them, not parts of several."""
    network, task = found.network, found.tasks[0]
    tail, head = task.ends(network)
    proper, problem = tail != head, task.problem
    links = (tail[proper], head[proper], network.bandwidth[proper])
    return Dissemination(problem.is_rank, problem.weight, *links)


def _fits(problem: Dissemination, num_trees: int, scale: Fraction) -> bool:
    """Whether capacities rounded down serve all ranks, in the sense of cuts."""
    ranks: NDArray[np.int64] = np.flatnonzero(problem.is_rank)
    capacity = scaled(problem.capacity, scale.numerator, scale.denominator)
    return first_short(problem, ranks, 0, capacity, num_trees * problem.weight)[0] == len(ranks)
