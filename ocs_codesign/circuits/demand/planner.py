"""The demand matrix problem: configurations and times of circuit switches that serve a demand.

Find permutations P_k and times t_k such that the sum of t_k P_k is at least the demand, entry by
entry, with the least makespan: a switch takes delta for every configuration it makes, and then
holds it for its time. Several switches work side by side, each with a circuit of every node, and
two of them may serve the same pair. The fewest permutations alone are strongly NP-hard to find
(Dufosse and Ucar, Notes on Birkhoff-von Neumann decomposition of doubly stochastic matrices, 2016).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.circuits.demand.matrix import (
    DemandPlan,
    DemandTicks,
    TickPlan,
    demand_ticks,
    longest_first,
    on_switches,
)
from ocs_codesign.circuits.demand.search import line_bound, search, search_levels
from ocs_codesign.core.progress import tell_phase
from ocs_codesign.core.quantities import exact, exact_time
from ocs_codesign.verification.plans import check_demand

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from ocs_codesign.circuits.demand.covers import Covers
    from ocs_codesign.circuits.demand.matrix import DemandMatrix


# How much work goes into a plan for a demand.


_ROUNDS, _ROUNDS_NODES, _ROUNDS_POWER = 8000, 16, 1.8
_ROUNDS_BEFORE_SEARCH = 2000
_SEARCH_NODES, _SEARCH_LEVELS = 1_000_000, 40
"""Nodes of a search that nobody asked for, and levels up to which there is one: it seldom ends
where there are more."""


@final
@dataclass(frozen=True, slots=True)
class DemandEffort:
    """Without a time limit the same effort gives the same plan.

    ``rounds`` of local search are made, by default as many as take some seconds. A demand of up to
    8 senders and receivers is searched through ``search_nodes`` nodes, a second per few hundred
    thousand; by default only where that is likely to end. ``programs`` linear programs are solved
    for a bound where they are small enough. ``time_limit_s`` ends whatever is not over then, and
    local search goes on until then; what is over sooner is as without a limit. Raises ValueError
    for numbers below 0.
    """

    seed: int = 0
    rounds: int | None = None
    search_nodes: int | None = None
    programs: int = 60
    time_limit_s: float | None = None

    def __post_init__(self) -> None:
        for name in ("seed", "rounds", "search_nodes", "programs", "time_limit_s"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise ValueError(f"{name} is {value}: it must be at least 0")

    def nodes_for(self, levels: int) -> int:
        """Nodes to search; ``levels``: lines times the fewest configurations, 0 for no search."""
        if self.search_nodes is None:
            return _SEARCH_NODES if 0 < levels <= _SEARCH_LEVELS else 0
        return self.search_nodes if levels else 0

    def rounds_for(self, num_nodes: int, num_configurations: int, *, searched: bool) -> int:
        """Rounds of local search for a demand of so many nodes and a plan of that size."""
        if self.rounds is not None:
            return self.rounds
        if searched:
            return _ROUNDS_BEFORE_SEARCH
        share = (_ROUNDS_NODES / max(num_nodes, _ROUNDS_NODES)) ** _ROUNDS_POWER
        return int(_ROUNDS * share * min(1.0, 2 * num_nodes / max(1, num_configurations)))


MAX_SWITCHES = 1024
MAX_PRICED_ENTRIES = 400
"""Entries up to which prices are looked for."""

_MAX_DENOMINATOR = 2**12
_MOST_SHOWN = 10**9
_SEARCH_SHARE = 0.8

LINES, PRICES, SEARCHED, PARTLY_SEARCHED = (
    "the busiest rows and columns",
    "prices of entries that no configuration is worth more than",
    "a search of all plans",
    "a search of all plans that was stopped",
)


def plan_demand(
    demand: DemandMatrix,
    delta_s: Fraction | float,
    num_switches: int = 1,
    bandwidth_Bps: Fraction | float = 1,  # noqa: N803 - the unit keeps its case
    effort: DemandEffort | None = None,
) -> DemandPlan:
    """Configurations of ``num_switches`` circuit switches that serve the demand, and their bound.

    Every configuration costs its switch ``delta_s``, the first one too; a circuit carries
    ``bandwidth_Bps`` (by default the entries are seconds). Small demands are searched until the
    plan is proven optimal or the effort is spent; others get a heuristic plan. The bound is exact
    in any case, and the plan has been checked against the demand in fractions. Raises ValueError
    for a delta that is negative or not finite, for no switches and for no bandwidth.

    >>> from ocs_codesign.circuits.demand.matrix import DemandMatrix
    >>> demand = DemandMatrix([[3, 5, 1, 2], [4, 1, 3, 3], [2, 4, 2, 3], [2, 1, 5, 3]])
    >>> one, two = plan_demand(demand, 5), plan_demand(demand, 5, num_switches=2)
    >>> one.total_s, one.num_configurations, one.is_optimal
    (Fraction(34, 1), 4, True)
    >>> two.total_s, two.is_optimal
    (Fraction(17, 1), True)
    """
    delta = exact_time(delta_s, "delta_s")
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
    work = _Work(ticks, num_switches, effort, time.monotonic())
    plan, method, bound, proof = work.done()
    # On every switch the longest first.
    order = sorted(range(len(plan.times)), key=lambda at: (plan.switch[at], -plan.times[at]))
    permutations = plan.permutations[order].astype(np.int32)
    switch = plan.switch[order].astype(np.int32)
    durations_s = tuple(plan.times[at] * ticks.tick_s for at in order)
    busy_s = [Fraction(0)] * num_switches
    for on, duration_s in zip(switch.tolist(), durations_s, strict=True):
        busy_s[on] += duration_s + delta
    total_s = max(busy_s)
    bound -= ticks.error(total_s / ticks.tick_s, num_switches)
    lines_s = demand.max_line_bytes / bandwidth + delta * demand.max_peers
    made = DemandPlan(
        *(demand, *model, permutations, durations_s, switch, total_s),
        bound_s=min(total_s, max(bound * ticks.tick_s, lines_s / num_switches)),
        proof=proof,
        method=method,
    )
    witness = check_demand(made)
    if witness is not None:
        raise RuntimeError(f"the plan for this demand is wrong: {witness}")
    return made


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Work:
    """The steps from ticks to a plan and its bound, in ticks, as long as there is time."""

    ticks: DemandTicks
    num_switches: int
    effort: DemandEffort
    began_s: float

    def done(self) -> tuple[TickPlan, str, Fraction, str]:
        """The best plan and what found it, the best bound and what proves it."""
        from ocs_codesign.circuits.demand.covers import greedy

        ticks, switches, effort = self.ticks, self.num_switches, self.effort
        bound, proof = line_bound(ticks, switches), LINES
        nodes = effort.nodes_for(search_levels(ticks))
        tell_phase("Covering the demand")
        start, method = greedy(ticks, switches)
        cover = self._improved(start, bound, effort.seed, searched=nodes > 0)
        method += "; local search" if cover.cost[0] < start.cost[0] else ""
        plan, is_open = self._plan(cover), False
        total = plan.makespan(ticks.setup)
        if total > bound and nodes:
            best = total if total.denominator <= _MAX_DENOMINATOR else Fraction(ceil(total))
            goes_on = self._within("Searching all plans", nodes, _SEARCH_SHARE)
            answer = search(ticks, switches, best, goes_on)
            is_open = not answer.is_complete
            if answer.plan is not None:
                plan, method = answer.plan, "search"
                total = plan.makespan(ticks.setup)
            if answer.bound > bound:
                bound, proof = answer.bound, PARTLY_SEARCHED if is_open else SEARCHED
        if total > bound and (ticks.demand > 0).sum() <= MAX_PRICED_ENTRIES:
            from ocs_codesign.circuits.demand.search import relaxation_bound

            goes_on = self._within("Pricing the entries", effort.programs)
            cost = relaxation_bound(ticks, plan.permutations, float(bound * switches), goes_on)
            if cost > bound * switches:
                bound, proof = cost / switches, PRICES
        if total > bound and (is_open or effort.time_limit_s is not None):
            more = self._plan(self._better(start, cover, bound, searched=nodes > 0))
            if more.makespan(ticks.setup) < total:
                plan, method = more, "local search"
        return plan, method, bound, proof

    def _better(self, start: Covers, cover: Covers, bound: Fraction, *, searched: bool) -> Covers:
        """The best of one more local search, or of as many as the time limit leaves room for.

        After a search of all plans the first one is that which would have been made without.
        """
        limit_s, turn = self.effort.time_limit_s, int(not searched)
        while True:
            begin = cover if turn else start
            found = self._improved(begin, bound, self.effort.seed + turn, searched=False)
            cover = min(cover, found, key=lambda one: float(one.cost[0]))
            is_over = limit_s is None or time.monotonic() - self.began_s >= limit_s
            if is_over or cover.cost[0] <= self._least(bound) or self.effort.rounds == 0:
                return cover
            turn += 1

    def _improved(self, start: Covers, bound: Fraction, seed: int, *, searched: bool) -> Covers:
        """The best cover of a local search; it has more rounds if no search of all follows."""
        from ocs_codesign.circuits.demand.covers import improved

        made = int((start.times > 0).sum())
        rounds = self.effort.rounds_for(self.ticks.num_nodes, made, searched=searched)
        goes_on = self._within("Local search", rounds)
        least = self._least(bound)
        return improved(self.ticks, self.num_switches, start, rounds, seed, least, goes_on)

    def _least(self, bound: Fraction) -> float:
        """A cost of covers that none is below."""
        ticks, switches = self.ticks, self.num_switches
        least = float(ticks.longest_line + ticks.setup * ticks.max_entries)
        return least + (switches * float(bound) if switches > 1 and ticks.setup else 0.0)

    def _plan(self, cover: Covers) -> TickPlan:
        """The one plan of a cover, on the switches."""
        kept = cover.times[0] > 0
        times = cover.times[0][kept].astype(np.int64).tolist()
        permutations = cover.permutations[0][kept]
        return on_switches(permutations, times, self.ticks.setup, self.num_switches)

    def _within(self, phase: str, most: int, share: float = 1.0) -> Callable[[int], bool]:
        """Whether to go on after so many of ``most`` steps, within a share of the time limit."""
        limit_s = self.effort.time_limit_s

        def goes_on(done: int) -> bool:
            tell_phase(phase, min(done, most), most if most <= _MOST_SHOWN else 0)
            is_over = limit_s is not None and time.monotonic() - self.began_s >= share * limit_s
            return done < most and not is_over

        return goes_on


# What a demand takes without a plan: a round robin of all shifts, or circuits that stay.


@final
@dataclass(frozen=True, slots=True)
class DemandBaselines:
    """Times of the same switches without a plan for the demand, in seconds.

    ``round_robin_s``: every shift i -> i + r is made once, all for as long as the largest entry
    takes. ``fitted_round_robin_s``: each for as long as its own largest entry takes, as packed on
    the switches. ``static_s``: every switch makes one shift, by ``static_shifts``, and keeps it;
    nodes forward what is for others along shortest paths. ``static_bound_s``: no circuits that stay
    can take less, whatever they are and however nodes forward.
    """

    round_robin_s: Fraction
    fitted_round_robin_s: Fraction
    static_s: Fraction | None
    static_shifts: tuple[int, ...]
    static_bound_s: Fraction


def demand_baselines(plan: DemandPlan) -> DemandBaselines:
    """The baselines of a plan's demand on its switches; ``static_s`` is None for a single node.

    >>> from ocs_codesign.circuits.demand.matrix import DemandMatrix
    >>> found = demand_baselines(plan_demand(DemandMatrix([[0, 2, 1], [1, 0, 2], [2, 1, 0]]), 1))
    >>> found.round_robin_s, found.fitted_round_robin_s, found.static_s, found.static_bound_s
    (Fraction(6, 1), Fraction(5, 1), Fraction(5, 1), Fraction(5, 1))
    """
    demand, switches = plan.demand, plan.num_switches
    second = demand.unit_bytes / plan.bandwidth_Bps
    spans = [int(by_shift.max()) for by_shift in _by_shift(demand)]
    shifts = list(range(1 if spans[0] == 0 else 0, demand.num_nodes))
    rounds = -(-len(shifts) // switches)
    longest = max(spans)
    spans_s = [spans[r] * second for r in shifts if spans[r]]
    _, fitted = longest_first(spans_s, plan.delta_s, switches)
    chosen, load = _static(demand, switches)
    return DemandBaselines(
        rounds * (plan.delta_s + longest * second) if longest else Fraction(0),
        fitted,
        None if load is None else plan.delta_s + load * second,
        chosen,
        plan.delta_s + _static_load(demand, switches) * second if longest else Fraction(0),
    )


def _by_shift(demand: DemandMatrix) -> Iterator[NDArray[np.object_]]:
    """The entries i, i + r of all nodes i, for every r."""
    rows = np.arange(demand.num_nodes)
    for shift in range(demand.num_nodes):
        yield demand.units[rows, (rows + shift) % demand.num_nodes]


def _static_load(demand: DemandMatrix, switches: int) -> Fraction:
    """Units over the busiest circuit, at least: a node has at most switches**h others in h hops.

    All circuits of all nodes share what is sent times its hops, and a node's own share its line.
    """
    nodes, most = demand.num_nodes, Fraction(0)
    for units in (demand.units, demand.units.T):
        hop_sum = 0
        for row in units.tolist():
            entries, hops, reach, left = sorted(row, reverse=True), 1, switches, switches
            for entry in entries:
                if left == 0:
                    hops, reach = hops + 1, reach * switches
                    left = reach
                hop_sum += entry * hops
                left -= 1
            most = max(most, Fraction(sum(row), switches))
        most = max(most, Fraction(hop_sum, nodes * switches))
    return most


def _static(demand: DemandMatrix, switches: int) -> tuple[tuple[int, ...], int | None]:
    """The best of some sets of shifts that connect all nodes, and its busiest circuit's units."""
    nodes = demand.num_nodes
    if nodes == 1:
        return (), None
    best: tuple[int, tuple[int, ...]] | None = None
    for shifts in sorted(set(_shift_sets(demand, switches))):
        load = _busiest(demand, shifts)
        if load is not None and (best is None or load < best[0]):
            best = load, shifts
    return (best[1], best[0]) if best else ((), None)


def _shift_sets(demand: DemandMatrix, switches: int) -> Iterator[tuple[int, ...]]:
    """Shifts with most demand, with and without shift 1, and shifts at equal ratios."""
    nodes = demand.num_nodes
    sums = [int(entries.sum()) for entries in _by_shift(demand)]
    ranked = sorted(range(1, nodes), key=lambda shift: (-sums[shift], shift))
    many = min(switches, nodes - 1)
    yield tuple(sorted(ranked[:many]))
    yield tuple(sorted({1, *[shift for shift in ranked if shift != 1][: many - 1]}))
    yield tuple(sorted({max(1, round(nodes ** (at / many))) for at in range(many)}))


def _busiest(demand: DemandMatrix, shifts: tuple[int, ...]) -> int | None:
    """The most units over a circuit where all go along the same shortest paths, None if some can't.

    What a node has for itself goes nowhere: it needs no circuit to be kept.
    """
    nodes = demand.num_nodes
    last_hop, order = {0: 0}, [0]
    for place in order:
        for shift in shifts:
            if (place + shift) % nodes not in last_hop:
                last_hop[(place + shift) % nodes] = shift
                order.append((place + shift) % nodes)
    if len(order) < nodes:
        return None
    loads = {shift: np.zeros(nodes, dtype=object) for shift in shifts}
    # What is for places behind a place on the tree of paths passes it: far places come first.
    through = list(_by_shift(demand))
    for place in reversed(order[1:]):
        shift = last_hop[place]
        before = (place - shift) % nodes
        loads[shift] += np.roll(through[place], before)
        through[before] = through[before] + through[place]
    return int(max(load.max() for load in loads.values()))
