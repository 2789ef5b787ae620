"""Plans of demands of any size: several greedy ways, the best of them improved by local search.

Max-bottleneck Birkhoff decompositions (with a threshold that is halved, as in Solstice, Liu et al.
2015, or shrinks slowly), the most served per time (as in Eclipse, Venkatakrishnan et al. 2016), the
same where finishing an entry and serving the busiest lines counts more, and about as few
configurations as a line has entries, with large ones side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from ocs_codesign.reconfigure.demand.effort import DemandEffort
    from ocs_codesign.reconfigure.demand.ticks import DemandTicks

_LEVELS = 24
_LEVEL_WORK = 32 * _LEVELS
_MAX_ROOM = 8192
_EXTRAS = (0, 0, 0, 0, 1, 1, 2, 4, 8, 16)
"""Configurations more than the busiest line has entries, a plan each; all but the first drawn."""
_NESTED_POWER, _NOISE = 4.0, 0.2
_POWERS = (4.0, 8.0, 16.0, 32.0)
_FEW_WAYS_FROM = 128
_MOST_DROPPED, _SEARCH_LEVELS = 6, 10
_HEAT = 0.0005
_CALLS = 40


@final
@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """Permutations and whole times in ticks, what they cost together and what made them."""

    permutations: NDArray[np.int64]
    times: NDArray[np.int64]
    cost: float
    method: str


def greedy_plans(ticks: DemandTicks, num_switches: int) -> list[Made]:
    """A plan of every way that ends with one, cheapest first; of equals the first way's."""
    from ocs_codesign.reconfigure.demand.improve_kernels import price
    from ocs_codesign.reconfigure.demand.kernels import shorten

    plans = []
    # Without a setup times are split among switches at will, so that only their sum counts.
    priced_switches = num_switches if ticks.setup else 1
    for method, permutations, times, made in _ways(ticks):
        if made < 0:
            continue
        unused = np.zeros(len(times), dtype=np.int64)
        made = shorten(ticks.demand, permutations, times, unused, made)
        cost = price(times[:made], ticks.setup, priced_switches)
        plans.append(Made(permutations[:made], times[:made], float(cost), method))
    return sorted(plans, key=lambda plan: plan.cost)


def _ways(
    ticks: DemandTicks,
) -> Iterator[tuple[str, NDArray[np.int64], NDArray[np.int64], int]]:
    """Every way's name, its arrays with room, and how many configurations are in them."""
    from ocs_codesign.reconfigure.demand.kernels import cover, decompose, stuff
    from ocs_codesign.reconfigure.demand.nested_kernels import nest

    nodes = ticks.num_nodes
    room = min(nodes * nodes + 1, _MAX_ROOM)
    window = min(_LEVELS, max(1, _LEVEL_WORK // nodes**2 if nodes > 32 else _LEVELS))
    powers = _POWERS if nodes <= _FEW_WAYS_FROM else _POWERS[1:2]
    greedy = [(f"busiest lines first, power {power:g}", power, 1.0) for power in powers]
    if nodes <= _FEW_WAYS_FROM:
        greedy.append(("most served per time", 0.0, 0.0))
    if not ticks.setup:
        greedy.clear()  # Birkhoff's decomposition is optimal
    for method, power, finish in greedy:
        permutations, times = _arrays(room, nodes)
        rng = np.random.default_rng(0)
        made = cover(
            *(ticks.demand.copy(), ticks.setup, power, finish, _LEVELS, window, 0.0, rng),
            *(permutations, times, 0),
        )
        yield method, permutations, times, made
    for at, extra in enumerate(_EXTRAS if ticks.setup and nodes <= _FEW_WAYS_FROM else _EXTRAS[:1]):
        permutations, times = _arrays(room, nodes)
        noise, rng = (_NOISE if at else 0.0), np.random.default_rng(at)
        made = nest(ticks.demand.copy(), extra, _NESTED_POWER, noise, rng, permutations, times, 0)
        yield f"large entries together, +{extra}, draw {at}", permutations, times, made
    stuffed = ticks.demand.copy()
    stuff(stuffed)
    for method, shrink in (("Birkhoff, threshold halved", 8), ("Birkhoff, largest first", 15)):
        permutations, times = _arrays(room, nodes)
        yield method, permutations, times, decompose(stuffed.copy(), shrink, permutations, times)
    rows = np.arange(nodes)
    permutations = (rows[None, :] + rows[:, None]) % nodes
    yield "round robin", permutations, ticks.demand[rows, permutations].max(axis=1), nodes


def _arrays(room: int, nodes: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return np.zeros((room, nodes), dtype=np.int64), np.zeros(room, dtype=np.int64)


def improved(
    ticks: DemandTicks,
    num_switches: int,
    plan: Made,
    effort: DemandEffort,
    least: float,
    goes_on: Callable[[int, int], bool],
) -> Made:
    """The plan after local search; it ends early if the cost is ``least``.

    ``goes_on(done, rounds)`` is asked now and then whether to go on.
    """
    from ocs_codesign.reconfigure.demand.improve_kernels import improve

    nodes, made = ticks.num_nodes, len(plan.times)
    rounds = effort.rounds_for(nodes, made)
    permutations, times = _arrays(min(_MAX_ROOM, 2 * made + 4 * nodes), nodes)
    permutations[:made], times[:made] = plan.permutations, plan.times
    rng = np.random.default_rng(effort.seed)
    a_call = max(1, rounds // _CALLS)
    cost = plan.cost
    for done in range(0, rounds, a_call):
        if cost <= least or not goes_on(done, rounds):
            break
        heat = _HEAT * cost * (1 - done / rounds)
        made, cost = improve(
            *(ticks.demand, ticks.setup, num_switches, _MOST_DROPPED, _SEARCH_LEVELS, heat),
            *(min(a_call, rounds - done), rng, permutations, times, made, cost),
        )
    better = cost < plan.cost
    method = f"{plan.method}; local search" if better else plan.method
    return Made(permutations[:made].copy(), times[:made].copy(), cost, method)
