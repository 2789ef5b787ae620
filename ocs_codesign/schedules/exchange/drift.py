"""Plans that are held while the demand moves on, and when it pays to make a new one.

What a step takes longer than it had to is its regret. A plan is held until the regrets since it was
made reach what a new one costs; the total is then near that of whoever knew all steps beforehand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ocs_codesign.core.lp import DEFAULT_OPTIONS
from ocs_codesign.core.networks.builders import as_network
from ocs_codesign.core.progress import counted
from ocs_codesign.schedules.exchange.experts import moved_experts, placed_experts
from ocs_codesign.schedules.exchange.optimum import exchange_optimum
from ocs_codesign.schedules.exchange.paths import exchange_paths

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from ocs_codesign.core.given import NetworkLike
    from ocs_codesign.core.lp import Options
    from ocs_codesign.core.network import Network
    from ocs_codesign.schedules.exchange.paths import ExchangePaths


class HeldPlans(NamedTuple):
    """Steps at which a plan was made, what every step took, and what it takes at least.

    ``planned`` (int64) are numbers of steps, the first is 0; ``time`` and ``least`` (float64, a
    step) are in what a link of a unit of bandwidth takes for a unit, as is ``replanning``, what a
    new plan costs.
    """

    planned: NDArray[np.int64]
    time: NDArray[np.float64]
    least: NDArray[np.float64]
    replanning: float

    @property
    def total(self) -> float:
        """What all steps and all new plans took; the first plan is not counted."""
        return float(self.time.sum()) + self.replanning * (len(self.planned) - 1)

    @property
    def limit(self) -> float:
        """What the total cannot exceed: the rule holds regrets down to this."""
        largest = float((self.time - self.least).max())
        a_plan = 2 * self.replanning + largest
        plans = len(self.planned) - 1
        return float(self.least.sum()) + plans * a_plan + self.replanning + largest


class _Shares:
    """Parts of what a pair has, by path: those of a plan, and of an even exchange for new pairs."""

    def __init__(self, network: Network, options: Options) -> None:
        self.network, self.options = network, options
        self.even = exchange_paths(network, options=options)

    def planned(self, demand: NDArray[np.int64]) -> list[tuple[ExchangePaths, NDArray[np.float64]]]:
        """Paths with the part of their pair's demand that they take."""
        own = exchange_paths(self.network, demand, options=self.options)
        hosts = self.network.num_hosts
        known = np.zeros(hosts * hosts, dtype=bool)
        known[own.source * hosts + own.target] = True
        others = np.where(known[self.even.source * hosts + self.even.target], 0.0, 1.0)
        return [(own, self._parts(own)), (self.even, self._parts(self.even) * others)]

    def _parts(self, paths: ExchangePaths) -> NDArray[np.float64]:
        pair = paths.source * self.network.num_hosts + paths.target
        totals = np.bincount(pair, paths.amount)
        return np.asarray(paths.amount / totals[pair], dtype=float)

    def time(
        self, plan: list[tuple[ExchangePaths, NDArray[np.float64]]], demand: NDArray[np.int64]
    ) -> float:
        """What the busiest link takes for a demand."""
        loads = np.zeros(self.network.num_links)
        for paths, parts in plan:
            carried = demand[paths.source, paths.target] * parts
            np.add.at(loads, paths.link, np.repeat(carried, np.diff(paths.start)))
        return float((loads / self.network.bandwidth).max())


def held_plans(
    network: NetworkLike,
    demands: Sequence[NDArray[np.int64]],
    replanning: float,
    options: Options = DEFAULT_OPTIONS,
) -> HeldPlans:
    """Plans for demands that come one after the other, made anew when that pays.

    A plan is made for what a step demanded, and held for those after it; ``replanning`` is what a
    new one costs, 0 for one every step. Raises ValueError as ``exchange_optimum`` does.

    >>> from ocs_codesign.core.networks.products import h100_rail
    >>> from ocs_codesign.schedules.exchange.experts import expert_counts
    >>> demands = [
    ...     expert_counts("moving", experts=32, top_k=4, ranks=16, tokens=64, step=step)
    ...     for step in range(4)
    ... ]
    >>> found = held_plans(h100_rail(2), demands, 0.5)
    >>> found.planned.tolist(), found.total <= found.limit
    ([0], True)
    """
    if not len(demands) or not replanning >= 0:
        raise ValueError("plans are held for a demand or more, and a new one costs 0 or more")
    given = as_network(network)
    shares = _Shares(given, options)
    plan = shares.planned(demands[0])
    planned, times, least, regret = [0], [], [], 0.0
    for step, demand in enumerate(counted(demands)):
        bound = float(exchange_optimum(given, demand, options=options).bound)
        if step and regret >= replanning:
            plan, regret = shares.planned(demand), 0.0
            planned.append(step)
        times.append(max(bound, shares.time(plan, demand)))
        least.append(bound)
        regret += times[-1] - bound
    return HeldPlans(np.array(planned), np.array(times), np.array(least), replanning)


def held_experts(
    network: NetworkLike,
    tokens: Sequence[NDArray[np.int64]],
    counts: Callable[[int, NDArray[np.int64]], NDArray[np.int64]],
    expert_units: int,
    spare: int = 0,
    options: Options = DEFAULT_OPTIONS,
    working: float = 0.0,
) -> HeldPlans:
    """Places of experts held from step to step, and chosen anew when that pays.

    ``tokens`` has those of every expert, step by step; ``counts`` says what ranks have for each
    other in a step with experts at these homes, as of ``placed_experts``. They are placed for the
    first step, and anew once regrets reach what it takes to move them there, each of so many units;
    the dearest such move is what ``replanning`` counts. A step takes its exchange and, on the
    busiest rank, ``working`` for every token of its experts; at least what it took, or takes with
    experts placed for it. Raises ValueError as ``exchange_optimum`` does.

    >>> from functools import partial
    >>> from ocs_codesign.schedules.exchange.experts import expert_counts, expert_tokens
    >>> counts_of = partial(expert_counts, "moving", experts=16, top_k=2, ranks=8, tokens=64)
    >>> tokens_of = partial(expert_tokens, "moving", experts=16, top_k=2, ranks=8, tokens=64)
    >>> counts = lambda step, home: counts_of(step=step, home=home)
    >>> tokens = [tokens_of(step=step) for step in range(4)]
    >>> found = held_experts("star(8, 1)", tokens, counts, 10, spare=8)
    >>> found.planned.tolist(), found.total <= found.limit
    ([0, 2], True)
    """
    if not len(tokens) or expert_units < 0:
        raise ValueError("experts are held for a step or more, and one has 0 units or more")
    given = as_network(network)
    ranks = given.num_hosts

    def takes(demand: NDArray[np.int64]) -> float:
        is_any = (demand.sum() - np.trace(demand)) > 0
        return float(exchange_optimum(given, demand, options=options).value) if is_any else 0.0

    def busiest(popular: NDArray[np.int64], home: NDArray[np.int64]) -> float:
        copies = (home >= 0).sum(axis=1)
        shares = np.repeat(popular / copies, copies)
        return float(np.bincount(home[home >= 0], shares, ranks).max())

    def step_takes(step: int, home: NDArray[np.int64]) -> float:
        return takes(counts(step, home)) + working * busiest(tokens[step], home)

    home = placed_experts(tokens[0], ranks, spare)
    planned, times, least, regret, dearest = [0], [], [], 0.0, 0.0
    for step, popular in enumerate(counted(tokens)):
        own = placed_experts(popular, ranks, spare)
        moves = moved_experts(home, own, ranks)
        moving = expert_units * takes(moves)
        dearest = max(dearest, moving)
        if moves.any() and regret >= moving:
            home, regret = own, 0.0
            planned.append(step)
        times.append(step_takes(step, home))
        least.append(min(times[-1], step_takes(step, own)))
        regret += times[-1] - least[-1]
    return HeldPlans(np.array(planned), np.array(times), np.array(least), dearest)
