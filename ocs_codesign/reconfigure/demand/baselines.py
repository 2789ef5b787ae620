"""What a demand takes without a plan: a round robin of all shifts, or circuits that stay."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.reconfigure.demand.switches import longest_first

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ocs_codesign.reconfigure.demand.matrix import DemandMatrix
    from ocs_codesign.reconfigure.demand.plan import DemandPlan


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

    >>> from ocs_codesign.reconfigure.demand.planner import plan_demand
    >>> from ocs_codesign.reconfigure.demand.matrix import DemandMatrix
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
