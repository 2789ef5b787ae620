"""Covers: several plans of one demand side by side, and the greedy ways to make them.

Plan b makes ``permutations[b, k]`` (a column for every row) for ``times[b, k]`` ticks; those of no
time are not made. Times are integers, in floats that are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_bipartite_matching

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.reconfigure.demand.ticks import DemandTicks

_POWERS, _ALL_POWERS_UP_TO = (8.0, 4.0, 16.0, 32.0), 128
_LEVELS, _ALL_LEVELS_UP_TO = 24, 32
"""Nodes up to which every configuration is tried with all levels, not those next to the last."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Covers:
    """Plans with their cost: the total, and on several switches as often the makespan as well."""

    permutations: NDArray[np.int64]
    times: NDArray[np.float64]
    cost: NDArray[np.float64]

    @classmethod
    def of(
        cls,
        ticks: DemandTicks,
        num_switches: int,
        permutations: NDArray[np.int64],
        times: NDArray[np.float64],
    ) -> Covers:
        """Plans that serve the demand, longest configurations first, without what is not needed.

        Each is shortened as far as the others serve the demand, short ones first.
        """
        permutations, times = _descending(permutations, times)
        demand = ticks.demand.astype(float)
        spare = np.where(demand > 0, served(permutations, times) - demand, np.inf)
        plans, rows = np.arange(len(times))[:, None], np.arange(len(demand))
        for at in range(times.shape[1] - 1, -1, -1):
            circuits = permutations[:, at]
            less = np.minimum(times[:, at], spare[plans, rows, circuits].min(1))
            times[:, at] -= less
            spare[plans, rows, circuits] -= less[:, None]
        permutations, times = _descending(permutations, times)
        return cls(permutations, times, _cost(times, ticks.setup, num_switches))

    def chosen(self, plans: NDArray[np.int64]) -> Covers:
        """Some of the plans, in this order."""
        return Covers(self.permutations[plans], self.times[plans], self.cost[plans])

    def best(self) -> Covers:
        """The cheapest plan alone, the first of equals."""
        return self.chosen(np.array([self.cost.argmin()]))

    def or_else(self, others: Covers, mine: NDArray[np.bool_]) -> Covers:
        """The own plans where ``mine`` is true, else the others at the same places."""
        width = max(self.times.shape[1], others.times.shape[1])
        permutations, times = [], []
        for part in (self, others):
            more = (0, width - part.times.shape[1])
            permutations.append(np.pad(part.permutations, ((0, 0), more, (0, 0)), "edge"))
            times.append(np.pad(part.times, ((0, 0), more)))
        return Covers(
            np.where(mine[:, None, None], *permutations),
            np.where(mine[:, None], *times),
            np.where(mine, self.cost, others.cost),
        )


def served(permutations: NDArray[np.int64], times: NDArray[np.float64]) -> NDArray[np.float64]:
    """How long every plan has a circuit from each node to each node."""
    plans, _, nodes = permutations.shape
    entry = (np.arange(plans)[:, None, None] * nodes + np.arange(nodes)) * nodes + permutations
    long = np.bincount(entry.ravel(), np.repeat(times.ravel(), nodes), plans * nodes**2)
    return np.asarray(long.reshape(plans, nodes, nodes), dtype=np.float64)


def heaviest(weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """The columns of the heaviest perfect matching of every matrix."""
    nodes = weights.shape[-1]
    matched = [linear_sum_assignment(one, True)[1] for one in weights.reshape(-1, nodes, nodes)]
    return np.array(matched).reshape(weights.shape[:-1])


def greedy(ticks: DemandTicks, num_switches: int) -> tuple[Covers, str]:
    """The plan, one, that local search begins with, and what makes it: optimal without a setup."""
    if ticks.setup:
        powers = _POWERS[: 1 if ticks.num_nodes > _ALL_POWERS_UP_TO else None]
        method, ways = "busiest lines first", [busiest_first(ticks, power) for power in powers]
    else:
        permutations, whole_times = birkhoff(ticks.demand, 15)
        method, ways = "Birkhoff's decomposition", [(permutations, whole_times.astype(float))]
    covers = [
        Covers.of(ticks, num_switches, permutations[None], times[None])
        for permutations, times in ways
    ]
    return min(covers, key=lambda cover: cover.cost[0]), method


def busiest_first(
    ticks: DemandTicks, power: float = _POWERS[0], finish: float = 1.0
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Configurations, each the matching and time with the most value over cost.

    An entry is worth what is sent of it and ``finish`` setups if that is all; entries of lines that
    still need long (their sum, and a setup an entry) are worth more, by their share to the power.
    Times are tried at quantiles of the entries. Without both, it is the most served per time, as in
    Eclipse (Venkatakrishnan et al. 2016).

    >>> from fractions import Fraction
    >>> from ocs_codesign.reconfigure.demand.ticks import DemandTicks
    >>> ticks = DemandTicks(np.array([[0, 3], [5, 0]]), 2, Fraction(1), True)
    >>> [made.tolist() for made in busiest_first(ticks)]
    [[[1, 0]], [5.0]]
    """
    nodes, rows, place = ticks.num_nodes, np.arange(ticks.num_nodes), _LEVELS // 2
    near = 1 if nodes > _ALL_LEVELS_UP_TO else _LEVELS
    left = ticks.demand.astype(float)
    permutations, times = [], []
    while left.any():
        some = left > 0
        need = left + ticks.setup * some
        rest = np.concatenate([need.sum(1), need.sum(0)])
        share = (rest / rest.max()) ** power
        tried = np.arange(max(0, place - near), min(_LEVELS, place + near + 1))
        level = np.sort(left[some])[tried * (int(some.sum()) - 1) // (_LEVELS - 1)]
        time = level[:, None, None]
        value = np.minimum(left, time) + finish * ticks.setup * (some & (left <= time))
        value *= share[:nodes, None] + share[nodes:]
        circuits = heaviest(value)
        worth = np.take_along_axis(value, circuits[..., None], 2).sum((1, 2))
        chosen = (worth / (level + ticks.setup)).argmax()
        place = int(tried[chosen])
        permutations.append(circuits[chosen])
        entries = left[rows, permutations[-1]]
        times.append(min(level[chosen], entries.max()))
        left[rows, permutations[-1]] = np.maximum(entries - times[-1], 0)
    return np.array(permutations), np.array(times)


def birkhoff(demand: NDArray[np.int64], shrink: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Birkhoff's decomposition of the demand, filled up until all lines have the largest sum.

    Each configuration is a perfect matching of entries of at least a threshold, held for the least
    of them. When there is none left, the threshold shrinks to ``shrink`` / 16 of itself (to half in
    Solstice, Liu et al. 2015). Without a setup no plan is shorter.

    >>> birkhoff(np.array([[3, 1], [0, 2]]), 8)
    (array([[0, 1],
           [1, 0]]), array([3, 1]))
    """
    left, nodes = _filled_up(demand), len(demand)
    threshold, rows = int(left.max()), np.arange(nodes)
    permutations, times = [], []
    while left.any():
        circuits = maximum_bipartite_matching(csr_matrix(left >= threshold), "column")
        if (circuits < 0).any():
            threshold = max(1, threshold * shrink // 16)
            continue
        permutations.append(circuits.astype(np.int64))
        times.append(left[rows, circuits].min())
        left[rows, circuits] -= times[-1]
    return np.array(permutations), np.array(times)


def _filled_up(demand: NDArray[np.int64]) -> NDArray[np.int64]:
    """The matrix with more, where it has entries first, such that all lines are alike."""
    filled = demand.copy()
    rows, columns = demand.sum(1), demand.sum(0)
    most = max(rows.max(), columns.max())
    for places in (np.argwhere(demand > 0), np.argwhere(demand >= 0)):
        for row, column in places.tolist():
            more = most - max(rows[row], columns[column])
            filled[row, column] += more
            rows[row] += more
            columns[column] += more
    return filled


def _descending(
    permutations: NDArray[np.int64], times: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Longest configurations first, without those that no plan makes."""
    order = np.argsort(-times, 1, kind="stable")[:, : (times > 0).sum(1).max()]
    by_plan = np.arange(len(times))[:, None]
    return permutations[by_plan, order], times[by_plan, order]


def _cost(times: NDArray[np.float64], setup: int, num_switches: int) -> NDArray[np.float64]:
    """With the makespan of the longest first, each on the least busy switch."""
    spans = times + setup * (times > 0)
    total = np.asarray(spans.sum(1))
    if num_switches == 1 or not setup:
        return total
    busy, plans = np.zeros((len(times), num_switches)), np.arange(len(times))
    for span in spans.T:
        busy[plans, busy.argmin(1)] += span
    return np.asarray(total + num_switches * busy.max(1))
