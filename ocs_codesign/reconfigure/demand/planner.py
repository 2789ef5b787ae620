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
from ocs_codesign.reconfigure.demand.effort import Clock, DemandEffort
from ocs_codesign.reconfigure.demand.plan import DemandPlan, check_demand_plan
from ocs_codesign.reconfigure.demand.search import search, search_levels
from ocs_codesign.reconfigure.demand.switches import TickPlan, on_switches
from ocs_codesign.reconfigure.demand.ticks import DemandTicks, demand_ticks

if TYPE_CHECKING:
    from collections.abc import Callable

    from ocs_codesign.reconfigure.demand.covers import Covers
    from ocs_codesign.reconfigure.demand.matrix import DemandMatrix

MAX_SWITCHES = 1024
_MAX_DENOMINATOR = 2**12
_LOCAL_SHARE, _SEARCH_SHARE = 0.4, 0.8
_POWERS, _EXTRAS, _DRAW_NOISE = (8.0, 4.0, 16.0, 32.0), (0, 0, 1, 1, 2, 4, 8, 16), 0.2
_FEW_STARTS_FROM = 128

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
    ``bandwidth_Bps`` (by default the entries are seconds). Small demands are searched until the
    plan is proven optimal or the effort is spent; others get a heuristic plan. The bound is exact
    in any case, and the plan has been checked against the demand in fractions. Raises ValueError
    for a delta that is negative or not finite, for no switches and for no bandwidth.

    >>> from ocs_codesign.reconfigure.demand.matrix import DemandMatrix
    >>> demand = DemandMatrix([[3, 5, 1, 2], [4, 1, 3, 3], [2, 4, 2, 3], [2, 1, 5, 3]])
    >>> one, two = plan_demand(demand, 5), plan_demand(demand, 5, num_switches=2)
    >>> one.total_s, one.num_configurations, one.is_optimal
    (Fraction(34, 1), 4, True)
    >>> two.total_s, two.is_optimal
    (Fraction(17, 1), True)
    """
    delta = exact(delta_s, "delta_s")
    if delta < 0:
        raise ValueError(f"delta_s is {delta_s}: a time cannot be negative")
    bandwidth = exact(bandwidth_Bps, "bandwidth_Bps")
    if bandwidth <= 0:
        raise ValueError(f"bandwidth_Bps is {bandwidth_Bps}: it must be positive")
    if not 1 <= num_switches <= MAX_SWITCHES:
        raise ValueError(f"{num_switches} switches: there must be 1 to {MAX_SWITCHES}")
    model = (bandwidth, delta, num_switches)
    if not demand.total_bytes:
        nothing = np.empty((0, demand.num_nodes), dtype=np.int32)
        none = np.empty(0, dtype=np.int32)
        zero = Fraction(0)
        return DemandPlan(demand, *model, nothing, (), none, zero, zero, LINES, "nothing to do")
    effort = effort or DemandEffort()
    ticks = demand_ticks(demand, bandwidth, delta)
    work = _Work(ticks, num_switches, effort, Clock(effort.time_limit_s), on_progress or _silent)
    plan, method, bound, proof = work.done()
    # On every switch the longest first.
    order = np.lexsort(([-float(time) for time in plan.times], plan.switch)).tolist()
    permutations = plan.permutations[order].astype(np.int32)
    switch = plan.switch[order].astype(np.int32)
    durations_s = tuple(plan.times[at] * ticks.tick_s for at in order)
    total_s = check_demand_plan(demand, *model, permutations, durations_s, switch)
    bound -= ticks.error(total_s / ticks.tick_s, num_switches)
    lines_s = demand.max_line_bytes / bandwidth + delta * demand.max_peers
    bound_s = min(total_s, max(bound * ticks.tick_s, lines_s / num_switches))
    parts = (permutations, durations_s, switch, total_s, bound_s)
    return DemandPlan(demand, *model, *parts, proof, method)


def starts(ticks: DemandTicks, num_switches: int) -> tuple[Covers, str]:
    """The greedy plans that local search begins with the best of, and what makes them."""
    from ocs_codesign.reconfigure.demand.covers import Covers, birkhoff, busiest_first, together
    from ocs_codesign.reconfigure.demand.local_search import nested

    if not ticks.setup:
        made = birkhoff(ticks.demand, 15)
        parts = [(made[0][None], made[1][None].astype(float))]
        return Covers.of(ticks, num_switches, *parts[0]), "Birkhoff's decomposition"
    few = ticks.num_nodes > _FEW_STARTS_FROM
    extras = np.array(_EXTRAS[: 1 if few else None])
    demand = np.repeat(ticks.demand[None].astype(float), len(extras), 0)
    noise = np.array([0.0] + [_DRAW_NOISE] * (len(extras) - 1))
    draws = (extras, np.full(len(extras), _POWERS[1]), noise, np.random.default_rng(0))
    parts = [busiest_first(ticks, _POWERS[: 1 if few else None]), nested(demand, *draws)]
    return together([Covers.of(ticks, num_switches, *made) for made in parts]), "greedy covers"


def _silent(phase: str, done: int, total: int) -> None:
    """Progress that nobody asked for."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Work:
    """The steps from ticks to a plan and its bound, in ticks, as long as there is time."""

    ticks: DemandTicks
    num_switches: int
    effort: DemandEffort
    clock: Clock
    tell: Callable[[str, int, int], None]

    def done(self) -> tuple[TickPlan, str, Fraction, str]:
        """The best plan and what found it, the best bound and what proves it."""
        ticks, switches = self.ticks, self.num_switches
        bound, proof = line_bound(ticks, switches), LINES
        nodes = self.effort.nodes_for(search_levels(ticks))
        plan, method = self._made(bound, searched=nodes > 0)
        total = plan.makespan(ticks.setup)
        if total > bound and nodes:
            best = total if total.denominator <= _MAX_DENOMINATOR else Fraction(ceil(total))
            answer = search(ticks, switches, best, lambda done: self._searches(done, nodes))
            if answer.plan is not None:
                plan, method = answer.plan, "search"
                total = plan.makespan(ticks.setup)
            if answer.bound > bound:
                bound, proof = answer.bound, SEARCHED
        if total > bound:
            least = self._priced(plan, total)
            if least > bound:
                bound, proof = least, PRICES
        return plan, method, bound, proof

    def _made(self, bound: Fraction, *, searched: bool) -> tuple[TickPlan, str]:
        """The best plan of local search, and what found it."""
        from ocs_codesign.reconfigure.demand.local_search import improved

        ticks, switches, effort = self.ticks, self.num_switches, self.effort
        self.tell("Covering the demand", 0, 0)
        covers, method = starts(ticks, switches)
        start = covers.best()
        least = float(ticks.longest_line + ticks.setup * ticks.max_entries)
        least += switches * float(bound) if switches > 1 and ticks.setup else 0.0
        made = int((start.times > 0).sum())
        rounds = effort.rounds_for(ticks.num_nodes, made, searched=searched)
        best = improved(ticks, switches, start, rounds, effort.seed, least, self._improves)
        method += "; local search" if best.cost[0] < start.cost[0] else ""
        kept = best.times[0] > 0
        times = best.times[0][kept].astype(np.int64).tolist()
        return on_switches(best.permutations[0][kept], times, ticks.setup, switches), method

    def _improves(self, done: int, rounds: int) -> bool:
        self.tell("Local search", done, rounds)
        return not self.clock.is_over(_LOCAL_SHARE)

    def _searches(self, done: int, nodes: int) -> bool:
        self.tell("Searching all plans", min(done, nodes), 0)
        return done < nodes and not self.clock.is_over(_SEARCH_SHARE)

    def _priced(self, plan: TickPlan, total: Fraction) -> Fraction:
        """The makespan that prices of entries prove, 0 for too many entries."""
        from ocs_codesign.reconfigure.demand.prices import MAX_ENTRIES, relaxation_bound

        if (self.ticks.demand > 0).sum() > MAX_ENTRIES:
            return Fraction(0)
        target, programs = total * self.num_switches, self.effort.programs
        cost = relaxation_bound(self.ticks, plan.permutations, target, programs, self._prices)
        return cost / self.num_switches

    def _prices(self, done: int) -> bool:
        self.tell("Pricing the entries", done, self.effort.programs)
        return not self.clock.is_over()
