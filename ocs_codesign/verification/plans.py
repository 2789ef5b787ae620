"""Checkers of plans, keep-or-switch and for demands: they share no code with the makers."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.core.quantities import exact
from ocs_codesign.verification.sends import Witness

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ocs_codesign.circuits.demand.matrix import DemandPlan
    from ocs_codesign.circuits.legs.plan import LegPlan, LegProblem


_BATCH = 2**20


def check_plan(plan: LegPlan) -> Witness | None:
    """What is wrong first with a keep-or-switch plan, None if it is what it claims.

    It adds up its costs again, and proves its bound from the potentials in O(S K^2).

    Costs are added as fractions, step by step, from the numbers that the problem was given. Every
    potential is held against the least that can follow it; together they prove that no plan costs
    less than the bound.

    >>> from ocs_codesign.circuits.legs.plan import LegProblem, plan_legs
    >>> check_plan(plan_legs(LegProblem([[4, 9], [9, 4]], 3, start=0)))
    """
    wrong = _wrong_costs(plan)
    if wrong is None and plan.potentials is not None:
        wrong = _wrong_bound(plan, plan.potentials)
    return wrong


def _wrong_costs(plan: LegPlan) -> Witness | None:
    problem, choice = plan.problem, plan.choice.tolist()
    if len(choice) != len(problem.rows):
        return Witness(f"{len(choice)} topologies are chosen for {len(problem.rows)} steps")
    for step, topology in enumerate(choice, 1):
        if not 0 <= topology < problem.num_topologies:
            return Witness(f"there is no topology {topology}", step=step)
    working = switching = hidden = Fraction(0)
    num_switches = 0
    for step, (held, topology, row, is_first), times in _kinds_of_steps(problem, choice):
        price = Fraction(0)
        if topology != held:
            num_switches += times * (held is not None)
            found = _price(problem, held, topology, is_first)
            if found is None:
                return Witness(f"there is no switch to topology {topology}", step=step)
            price = found
        gap, cost = _number(problem.gaps[row]), _number(problem.costs[row, topology])
        if cost is None or gap is None:
            return Witness(f"topology {topology} cannot serve it", step=step)
        working += times * cost
        switching += times * max(price - gap, Fraction(0))
        hidden += times * min(price, gap)
    for name, claimed, counted in (
        ("working", plan.working, working),
        ("switching", plan.switching, switching),
        ("hidden", plan.hidden, hidden),
        ("num_switches", plan.num_switches, num_switches),
    ):
        if claimed != counted:
            return Witness(f"{name} is {counted}, not {claimed}")
    return None


def _kinds_of_steps(
    problem: LegProblem, choice: list[int]
) -> Iterator[tuple[int, tuple[int | None, int, int, bool], int]]:
    """Steps that differ: the first of its kind, (held before, topology, row, is first), how many.

    The first step of all pays ``first`` and is a kind of its own.
    """
    before = [problem.start, *choice[:-1]]
    is_first = [True, *[False] * (len(choice) - 1)]
    kinds = list(zip(before, choice, problem.rows.tolist(), is_first, strict=True))
    times = Counter(kinds)
    earliest = dict(zip(reversed(kinds), range(len(kinds), 0, -1), strict=True))
    for kind, step in sorted(earliest.items(), key=lambda item: item[1]):
        yield step, kind, times[kind]


def _price(problem: LegProblem, held: int | None, to: int, is_first: bool) -> Fraction | None:
    if is_first:
        return _number(problem.first[to])
    return _number(problem.delta[0, 0] if problem.is_uniform else problem.delta[held, to])


def _number(value: Any) -> Fraction | None:
    """An entry as a fraction, None if it is infinite."""
    value = value.item() if isinstance(value, np.generic) else value
    return None if value == float("inf") else exact(value)


def _wrong_bound(plan: LegPlan, potentials: NDArray[Any]) -> Witness | None:
    problem, ticks = plan.problem, plan.problem.ticks
    if potentials.shape != (problem.num_steps, problem.num_topologies):
        return Witness(f"potentials have the shape {potentials.shape}")
    if potentials.dtype != ticks.costs.dtype or (potentials > ticks.infinite).any():
        return Witness("potentials are not ticks")
    batch = max(1, _BATCH // problem.num_topologies**2)
    for begin in range(0, problem.num_steps, batch):
        end = min(begin + batch, problem.num_steps)
        least = ticks.costs[problem.rows[begin:end]]
        last = end == problem.num_steps
        follow = _follow(problem, potentials, begin + 1, end + 1 - last)
        least[: len(follow)] = least[: len(follow)] + follow
        above = potentials[begin:end] > np.minimum(least, ticks.infinite)
        if above.any():
            step, topology = (int(at) for at in np.argwhere(above)[0])
            rule = f"the potential of topology {topology} is too large"
            return Witness(rule, step=begin + step + 1)
    entry = _beyond(ticks.first, ticks.gaps[problem.rows[0]], ticks.infinite)
    proven = min((entry + potentials[0]).tolist()) * ticks.tick
    if proven != plan.bound:
        return Witness(f"the potentials prove {proven}, not {plan.bound}")
    return None


def _follow(problem: LegProblem, potentials: NDArray[Any], begin: int, end: int) -> NDArray[Any]:
    """The least that switches before steps begin to end - 1 and all from there on can cost."""
    ticks = problem.ticks
    gaps = ticks.gaps[problem.rows[begin:end], None, None]
    price = np.broadcast_to(ticks.delta, (problem.num_topologies,) * 2)
    switches = _beyond(price[None], gaps, ticks.infinite)
    held = np.arange(problem.num_topologies)
    switches[:, held, held] = 0
    ways = switches + potentials[begin:end, None, :]
    return np.asarray(ways.min(axis=2))


def _beyond(price: NDArray[Any], gap: Any, infinite: int) -> NDArray[Any]:
    """What a switch costs beyond a gap."""
    return np.where(price >= infinite, infinite, np.maximum(price - gap, 0))


def check_demand(plan: DemandPlan) -> Witness | None:
    """What is wrong first with a plan for a demand matrix, None if it is what it claims.

    Configurations are permutations, on switches that there are, for no less than no time; every
    pair of nodes is served its demand, and the last switch is done at the total.
    """
    nodes, many = plan.demand.num_nodes, len(plan.permutations)
    if not many == len(plan.durations_s) == len(plan.switch):
        return Witness(f"{many} configurations, their durations and switches do not fit")
    busy_s = [Fraction(0)] * plan.num_switches
    served_s = np.full((nodes, nodes), Fraction(0), dtype=object)
    rows = zip(plan.permutations.tolist(), plan.durations_s, plan.switch.tolist(), strict=True)
    for at, (circuits, duration_s, switch) in enumerate(rows):
        if sorted(circuits) != list(range(nodes)):
            return Witness(f"configuration {at} is no permutation of {nodes} nodes")
        if duration_s < 0 or not 0 <= switch < plan.num_switches:
            return Witness(f"configuration {at} lasts {duration_s} s on switch {switch}")
        busy_s[switch] += duration_s + plan.delta_s
        served_s[np.arange(nodes), circuits] += duration_s
    served, wanted = served_s * plan.bandwidth_Bps, plan.demand.units * plan.demand.unit_bytes
    if (served < wanted).any():
        pair = tuple(np.argwhere(served < wanted)[0].tolist())
        ends = f"from {pair[0]} to {pair[1]}"
        return Witness(f"{ends} there are {served[pair]} bytes served of {wanted[pair]}")
    if max(busy_s) != plan.total_s:
        return Witness(f"the last switch is done after {max(busy_s)} s, not {plan.total_s} s")
    return None
