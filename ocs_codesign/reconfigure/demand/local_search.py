"""Local search on plans for a demand: some configurations are dropped, what they served is nested.

Several plans are searched side by side. A plan that costs more is gone on from with a probability
that falls to 1/e for a small share more, and over the rounds to none; now and then the dearer half
of the plans starts again from the cheaper one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.reconfigure.demand.covers import Covers, heaviest, served

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ocs_codesign.reconfigure.demand.ticks import DemandTicks

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

    >>> demand, rng = np.array([[[0.0, 3.0], [5.0, 0.0]]]), np.random.default_rng(0)
    >>> nested(demand, np.array([0]), np.array([4.0]), np.zeros(1), rng)
    (array([[[1, 0]]]), array([[5.]]))
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
