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
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ocs_codesign.circuits.demand.matrix import DemandTicks


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


# Local search on plans for a demand: some configurations are dropped, what they served is nested.
#
# Several plans are searched side by side. A plan that costs more is gone on from with a
# probability that falls to 1/e for a small share more, and over the rounds to none; now and then
# the dearer half of the plans starts again from the cheaper one.


_SIDE_BY_SIDE, _LEAST_SIDE_BY_SIDE = 512, 4
"""Plans times nodes, and plans at least."""

_HEAT, _START_AGAIN = 0.0005, 5
_MOST_DROPPED, _ANY_NUMBER = 6, 0.4
_MOST_EXTRA, _MOST_POWER, _MOST_NOISE = 3, 16.0, 0.5

_URGENT, _LESS_URGENT = 4.0, 0.4
"""What an entry counts, n times, that a line needs next, and one that it can do without."""


def improved(
    ticks: DemandTicks,
    num_switches: int,
    start: Covers,
    rounds: int,
    seed: int,
    least: float,
    goes_on: Callable[[int], bool],
) -> Covers:
    """The start, one plan, after so many rounds; it ends early if the cost is ``least``.

    ``goes_on(done)`` is asked now and then whether to go on.
    """
    rng = np.random.default_rng(seed)
    plans = max(_LEAST_SIDE_BY_SIDE, min(32, _SIDE_BY_SIDE // ticks.num_nodes))
    best, now = start, start.chosen(np.zeros(plans, dtype=np.int64))
    for done in range(0, rounds, plans):
        if best.cost[0] <= least or not goes_on(done):
            break
        kept = _some_dropped(now, rng)
        left = np.maximum(ticks.demand - served(now.permutations, kept), 0)
        draws = rng.random((3, plans))
        permutations, times = nested(
            left,
            (draws[0] * (_MOST_EXTRA + 1)).astype(np.int64),
            _MOST_POWER * draws[1],
            _MOST_NOISE * draws[2],
            rng,
        )
        trial = Covers.of(
            ticks,
            num_switches,
            np.concatenate([now.permutations, permutations], 1),
            np.concatenate([kept, times], 1),
        )
        heat = _HEAT * best.cost[0] * (1 - done / rounds) + 1e-9
        chance = np.exp(np.minimum(now.cost - trial.cost, 0) / heat)
        now = trial.or_else(now, rng.random(plans) < chance)
        if now.cost.min() < best.cost[0]:
            best = now.best()
        if done // plans % _START_AGAIN == _START_AGAIN - 1:
            order = np.argsort(now.cost, kind="stable")
            order[plans // 2 :] = order[: plans - plans // 2]
            now = now.chosen(order)
    return best


def _some_dropped(plans: Covers, rng: np.random.Generator) -> NDArray[np.float64]:
    """The times of all configurations, 0 for those that are dropped: a few, or any number."""
    made = plans.times > 0
    size, any_number = rng.random((2, len(made)))
    few = 2 + (size * (_MOST_DROPPED - 1)).astype(np.int64)
    many = np.where(any_number < _ANY_NUMBER, 1 + (size * made.sum(1)).astype(np.int64), few)
    order = np.where(made, rng.random(made.shape), 2.0).argsort(1).argsort(1)
    return np.where(order < many[:, None], 0.0, plans.times)


def nested(
    left: NDArray[np.float64],
    extra: NDArray[np.int64],
    power: NDArray[np.float64],
    noise: NDArray[np.float64],
    rng: np.random.Generator,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Serve all of several demands, large entries together and longest first.

    ``extra`` configurations more than the most entries of a line are aimed at, so a line can split
    as many entries. The next one lasts at least as long as the first of the profile, and longer if
    the busiest line needs more than all of it. Lines that cannot be left out come first, with an
    entry that is large enough for the others to fit. Then what is sent counts, more for lines with
    larger sums, by their share to the ``power``, and with ``noise``.
    """
    plans, nodes, _ = left.shape
    left, rows = left.copy(), np.arange(nodes)
    permutations: list[NDArray[np.int64]] = []
    times: list[NDArray[np.float64]] = []
    to_come, some = extra, np.arange(plans)
    while True:
        still = left[some].any((1, 2))
        some, to_come = some[still], to_come[still]
        if not len(some):
            break
        here = left[some]
        lines = np.concatenate([here, here.transpose(0, 2, 1)], 1)
        sums, entries = lines.sum(2), (lines > 0).sum(2)
        most = entries.max(1)
        to_come = np.maximum(to_come - 1, most) if times else most + to_come
        profile, needed = _profile(-np.sort(-lines, 2), entries, to_come)
        whole = np.maximum(sums.max(1), profile.sum(1))
        time = profile[:, 0] + np.ceil((whole - profile.sum(1)) / to_come)
        share = (sums / whole[:, None]) ** power[some, None]
        weights = _weights(here, time, share, needed, noise[some], rng)
        circuits = heaviest(weights)
        at = some[:, None]
        served_here = left[at, rows, circuits]
        time = np.minimum(time, served_here.max(1))
        left[at, rows, circuits] = np.maximum(served_here - time[:, None], 0)
        permutations.append(np.tile(rows, (plans, 1)))
        times.append(np.zeros(plans))
        permutations[-1][some], times[-1][some] = circuits, time
    if not times:
        return np.empty((plans, 0, nodes), dtype=np.int64), np.empty((plans, 0))
    return np.stack(permutations, 1), np.stack(times, 1)


def _profile(
    lines: NDArray[np.float64], entries: NDArray[np.int64], to_come: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How long configurations last at least, and the least entry that a line needs next, or 0.

    The k-th longest of those still to come lasts as long as the k-th largest entry of a line that
    has as many entries, and with fewer entries of the next smaller ones. A line can be left out if
    its entries, moved down a place, still fit. Lines are in descending order.
    """
    plans, both, nodes = lines.shape
    width = int(to_come.max())
    place = np.arange(-1, width + 1) + (to_come[:, None] - entries)[:, :, None]
    place[(place < 0) | (place > nodes)] = nodes
    padded = np.concatenate([lines, np.zeros((plans, both, 1))], 2)
    entry = np.take_along_axis(padded, place, 2)
    profile = entry[:, :, 1:].max(1)
    moved = entry[:, :, :-1]
    return profile[:, :width], np.where(moved > profile[:, None], moved, 0.0).max(2)


def _weights(
    here: NDArray[np.float64],
    time: NDArray[np.float64],
    share: NDArray[np.float64],
    needed: NDArray[np.float64],
    noise: NDArray[np.float64],
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """What every entry is worth to a configuration of this time."""
    nodes, long = here.shape[1], time[:, None, None]
    weights = np.minimum(here, long) / long + 0.1 * (here <= long)
    weights *= 0.05 + share[:, :nodes, None] + share[:, None, nodes:]
    weights *= 1 + noise[:, None, None] * rng.random(here.shape)
    urgent = nodes * np.where(needed > 0, _URGENT, _LESS_URGENT)
    for line, from_entry in (
        (urgent[:, :nodes, None], needed[:, :nodes, None]),
        (urgent[:, None, nodes:], needed[:, None, nodes:]),
    ):
        weights += line * (here >= from_entry)
    return np.where(here > 0, weights, 0.0)
