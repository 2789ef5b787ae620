"""The demand matrix problem: configurations and times of circuit switches that serve a demand.

Find permutations P_k and times t_k such that the sum of t_k P_k is at least the demand, entry by
entry, with the least makespan: a switch takes delta for every configuration it makes, and then
holds it for its time. Several switches work side by side, each with a circuit of every node, and
two of them may serve the same pair. The fewest permutations alone are strongly NP-hard to find
(Dufosse and Ucar, Notes on Birkhoff-von Neumann decomposition of doubly stochastic matrices, 2016).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.quantities import exact
from ocs_codesign.reconfigure.demand.bounds import line_bound
from ocs_codesign.reconfigure.demand.durations import Timed, long_enough, with_best_times
from ocs_codesign.reconfigure.demand.effort import Clock, DemandEffort
from ocs_codesign.reconfigure.demand.greedy import greedy_plans, improved
from ocs_codesign.reconfigure.demand.plan import DemandPlan, check_demand_plan
from ocs_codesign.reconfigure.demand.relaxation import (
    MAX_ENTRIES,
    MAX_PRICED_TICKS,
    relaxation_bound,
)
from ocs_codesign.reconfigure.demand.search import can_search, search
from ocs_codesign.reconfigure.demand.switches import on_switches
from ocs_codesign.reconfigure.demand.ticks import DemandTicks, demand_ticks

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ocs_codesign.reconfigure.demand.greedy import Made
    from ocs_codesign.reconfigure.demand.matrix import DemandMatrix

MAX_SWITCHES = 1024
_PACKED_PLANS = 3
_ROUNDS_BEFORE_SEARCH = 2000
_MAX_DENOMINATOR = 2**12
_GREEDY_SHARE, _SEARCH_SHARE = 0.4, 0.8

LINES, PRICES, SEARCHED = (
    "the busiest rows and columns",
    "prices of entries that no configuration is worth more than",
    "a search of all plans",
)


def plan_demand(
    demand: DemandMatrix,
    delta_s: Fraction | float,
    num_switches: int = 1,
    bandwidth_Bps: Fraction | float = 1,  # noqa: N803 - the unit keeps its case
    effort: DemandEffort | None = None,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> DemandPlan:
    """Configurations of ``num_switches`` circuit switches that serve the demand, and their bound.

    Every configuration costs its switch ``delta_s``, the first one too; a circuit carries
    ``bandwidth_Bps`` (by default the entries are seconds). Small demands, of up to 8 senders and
    receivers, are searched until the plan is proven optimal or the effort is spent; others get a
    heuristic plan. The bound is exact in any case, and the plan has been checked against the demand
    in fractions. Raises ValueError for a delta that is negative or not finite, for no switches and
    for no bandwidth.

    >>> from ocs_codesign.reconfigure.demand.matrix import DemandMatrix
    >>> demand = DemandMatrix([[3, 5, 1, 2], [4, 1, 3, 3], [2, 4, 2, 3], [2, 1, 5, 3]])
    >>> one, two = plan_demand(demand, 5), plan_demand(demand, 5, num_switches=2)
    >>> one.total_s, one.num_configurations, one.is_optimal
    (Fraction(34, 1), 4, True)
    >>> two.total_s, two.is_optimal
    (Fraction(17, 1), True)
    """
    question = _Question.of(demand, delta_s, num_switches, bandwidth_Bps)
    effort = effort or DemandEffort()
    if not demand.total_bytes:
        nothing = np.empty((0, demand.num_nodes), dtype=np.int64)
        empty = Timed(nothing, (), np.empty(0, dtype=np.int64))
        return question.answer(empty, Fraction(0), LINES, "nothing to do")
    work = _Work(question, effort, Clock(effort.time_limit_s), on_progress or _silent)
    return work.done()


def _silent(phase: str, done: int, total: int) -> None:
    """Progress that nobody asked for."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Question:
    """The demand and what serving it costs, exactly, and in ticks rounded up and down."""

    demand: DemandMatrix
    bandwidth_Bps: Fraction  # noqa: N815 - the unit keeps its case
    delta_s: Fraction
    num_switches: int
    up: DemandTicks
    down: DemandTicks

    @classmethod
    def of(
        cls,
        demand: DemandMatrix,
        delta_s: Fraction | float,
        num_switches: int,
        bandwidth_Bps: Fraction | float,  # noqa: N803 - the unit keeps its case
    ) -> _Question:
        delta = exact(delta_s, "delta_s")
        if delta < 0:
            raise ValueError(f"delta_s is {delta_s}: a time cannot be negative")
        bandwidth = exact(bandwidth_Bps, "bandwidth_Bps")
        if bandwidth <= 0:
            raise ValueError(f"bandwidth_Bps is {bandwidth_Bps}: it must be positive")
        if not 1 <= num_switches <= MAX_SWITCHES:
            raise ValueError(f"{num_switches} switches: there must be 1 to {MAX_SWITCHES}")
        up = demand_ticks(demand, bandwidth, delta, up=True)
        down = up if up.is_exact else demand_ticks(demand, bandwidth, delta, up=False)
        return cls(demand, bandwidth, delta, num_switches, up, down)

    def answer(self, plan: Timed, bound_s: Fraction, proof: str, method: str) -> DemandPlan:
        """The plan as a value, on every switch the longest first; its total is the check's."""
        switches = plan.switch.tolist()
        order = sorted(range(len(plan.times)), key=lambda at: (switches[at], -plan.times[at]))
        permutations = plan.permutations[order].astype(np.int32)
        switch = plan.switch[order].astype(np.int32)
        durations = tuple(plan.times[at] * self.up.tick_s for at in order)
        model = (self.bandwidth_Bps, self.delta_s, self.num_switches)
        total_s = check_demand_plan(self.demand, *model, permutations, durations, switch)
        return DemandPlan(
            *(self.demand, *model, permutations, durations, switch, total_s),
            bound_s=min(bound_s, total_s),
            proof=proof,
            method=method,
        )


@final
@dataclass(slots=True)
class _Work:
    """The steps from a question to its answer, as long as there is time."""

    question: _Question
    effort: DemandEffort
    clock: Clock
    tell: Callable[[str, int, int], None]

    def done(self) -> DemandPlan:
        """The best plan with the best bound."""
        question = self.question
        tick_s = question.down.tick_s
        bound, proof = line_bound(question.down, question.num_switches), LINES
        plan, method = self._greedy(bound)
        total = self._makespan(plan)
        if total > bound and self.effort.search_nodes and can_search(question.down):
            plan, total, method, least = self._searched(plan, total, method)
            if least > bound:
                bound, proof = least, SEARCHED
        if total > bound and (question.down.demand > 0).sum() <= MAX_ENTRIES:
            least = self._priced(plan, total)
            if least > bound:
                bound, proof = least, PRICES
        return question.answer(plan, bound * tick_s, proof, method)

    def _makespan(self, plan: Timed) -> Fraction:
        """In ticks of the rounding up, whose delta may be more than the exact one."""
        setup = self.question.delta_s / self.question.up.tick_s
        busy = [Fraction(0)] * self.question.num_switches
        for time, switch in zip(plan.times, plan.switch.tolist(), strict=True):
            busy[switch] += time + setup
        return max(busy)

    def _greedy(self, bound: Fraction) -> tuple[Timed, str]:
        """The best plan of heuristics, and what found it."""
        ticks, switches = self.question.up, self.question.num_switches
        self.tell("Covering the demand", 0, 0)
        plans = greedy_plans(ticks, switches)
        effort = self.effort
        if effort.rounds is None and effort.search_nodes and can_search(ticks):
            effort = DemandEffort(effort.seed, _ROUNDS_BEFORE_SEARCH)
        least = float(ticks.longest_line + ticks.setup * ticks.max_entries)
        least += switches * float(bound) if switches > 1 else 0.0
        plans.insert(0, improved(ticks, switches, plans[0], effort, least, self._improves))
        found = [self._timed(made) for made in plans[: 1 if switches == 1 else _PACKED_PLANS]]
        best = min(range(len(found)), key=lambda at: self._makespan(found[at]))
        return found[best], plans[best].method

    def _improves(self, done: int, rounds: int) -> bool:
        self.tell("Local search", done, rounds)
        return not self.clock.is_over(_GREEDY_SHARE)

    def _timed(self, made: Made) -> Timed:
        """A plan on switches, with the best times."""
        ticks = self.question.up
        plan = on_switches(
            made.permutations, made.times.tolist(), ticks.setup, self.question.num_switches
        )
        return with_best_times(ticks, plan, self.clock.left_s())

    def _searched(
        self, plan: Timed, total: Fraction, method: str
    ) -> tuple[Timed, Fraction, str, Fraction]:
        """A better plan, if the search finds one, its total and the bound that is proven."""
        ticks = self.question.down
        best = total if total.denominator <= _MAX_DENOMINATOR else Fraction(ceil(total))
        answer = search(ticks, self.question.num_switches, best, self._goes_on)
        if answer.found is not None:
            found = Timed(_completed(answer.found.columns), answer.found.times, answer.found.switch)
            if not ticks.is_exact:
                found = with_best_times(self.question.up, long_enough(self.question.up, found))
            if self._makespan(found) < total:
                plan, total, method = found, self._makespan(found), "search"
        return plan, total, method, answer.bound

    def _goes_on(self, nodes: int) -> bool:
        self.tell("Searching all plans", min(nodes, self.effort.search_nodes), 0)
        return nodes < self.effort.search_nodes and not self.clock.is_over(_SEARCH_SHARE)

    def _priced(self, plan: Timed, total: Fraction) -> Fraction:
        """The makespan, in ticks, that prices of entries prove."""
        question, ticks = self.question, self.question.down
        if ticks.longest_line > MAX_PRICED_TICKS:
            model = (question.bandwidth_Bps, question.delta_s)
            ticks = demand_ticks(question.demand, *model, up=False, most=MAX_PRICED_TICKS)
        scale = ticks.tick_s / question.down.tick_s
        target = total * question.num_switches / scale
        cost = relaxation_bound(
            ticks, plan.permutations, target, self.effort.programs, self._prices
        )
        return cost * scale / question.num_switches

    def _prices(self, done: int) -> bool:
        self.tell("Pricing the entries", done, self.effort.programs)
        return not self.clock.is_over()


def _completed(columns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Full permutations: rows without a circuit, -1, get the columns that are left, in order.

    >>> _completed(np.array([[2, -1, -1], [1, 0, 2]])).tolist()
    [[2, 0, 1], [1, 0, 2]]
    """
    full = columns.copy()
    for circuits in full:
        idle = circuits < 0
        circuits[idle] = np.setdiff1d(np.arange(len(circuits)), circuits[~idle])
    return full
