"""Policies for traces: one that sees no future, and the two simplest to compare with.

The online policy is the work-function algorithm for metrical task systems (Borodin, Linial and
Saks, 1992). At every step it knows how much serving all steps so far and ending on each topology
costs at least, and moves where this work and the way there cost least together. If switching is a
metric it never costs more than 2 K - 1 times the optimum of hindsight on K topologies, and no
deterministic policy can promise less; rent-or-buy rules promise as much for two topologies only.
Where gaps of different lengths hide switches no policy can promise anything: hindsight switches
when it is free.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.reconfigure.hold.dynamic_program import DynamicProgram
from ocs_codesign.reconfigure.hold.plan import SwitchPlan, price_plan

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.reconfigure.hold.problem import SwitchProblem


@final
@dataclass(frozen=True, slots=True)
class Promise:
    """What is proven of the online policy: total <= ratio * optimum + extra, in the problem's unit.

    ``extra`` is 0 where all switches cost the same and the fabric holds a topology, or pays for its
    first one like for any.
    """

    ratio: int
    extra: Fraction


def online_plan(problem: SwitchProblem) -> SwitchPlan | None:
    """What the work-function policy does; the topology of a step depends on no later one.

    The step itself and the gap before it are known when it chooses. None if it gets where no
    finite switch leads to a topology that can serve the next step.

    >>> from ocs_codesign.reconfigure.hold.problem import SwitchProblem
    >>> costs = [(4, 9), (4, 9), (9, 4), (4, 9), (9, 4), (9, 4)]
    >>> plan = online_plan(SwitchProblem(costs, 3, start=0))
    >>> plan.choice.tolist(), str(plan.total)
    ([0, 0, 0, 0, 0, 1], '37')
    """
    # The work function is the cost to go of the reversed steps, which end with the first switch.
    ticks, rows = problem.ticks, problem.rows
    last = np.minimum(ticks.costs[rows[0]] + _entry(problem), ticks.infinite)
    costs, gaps = np.vstack([ticks.costs, last]), np.append(ticks.gaps, ticks.gaps[rows[0]])
    order = np.append(rows[:0:-1], len(ticks.costs))
    program = DynamicProgram(replace(ticks, costs=costs, gaps=gaps), order)
    program.weigh()
    work = program.costs_to_go(order, np.roll(order, 1), is_reversed=True)
    work = np.ascontiguousarray(work[:, ::-1])
    choice = program.follow(work, rows, problem.start, is_online=True)
    return None if choice is None else price_plan(problem, choice)


def promise(problem: SwitchProblem) -> Promise | None:
    """What is proven of ``online_plan`` in advance; None if switches beyond gaps are no metric.

    >>> from ocs_codesign.reconfigure.hold.problem import SwitchProblem
    >>> promise(SwitchProblem([[4, 9]], 3, start=0))
    Promise(ratio=3, extra=Fraction(0, 1))
    """
    ticks, many = problem.ticks, problem.num_topologies
    gaps = ticks.gaps[problem.rows]
    if (gaps != gaps[0]).any():
        return None
    delta = np.broadcast_to(ticks.delta, (many, many)).astype(object)
    metric = np.maximum(delta - int(gaps[0]), 0)
    np.fill_diagonal(metric, 0)
    if (delta >= ticks.infinite).any() or not _is_metric(metric):
        return None
    ways = metric.sum(axis=1)
    if problem.start is not None:
        extra = 2 * (max(ways) - ways[problem.start])
    else:
        extra = 2 * max(ways) - 2 * (many - 1) * int(_entry(problem).min())
    return Promise(2 * many - 1, ticks.tick * max(int(extra), 0))


def _is_metric(distance: NDArray[Any]) -> bool:
    """Whether distances are symmetric and no way round is shorter."""
    if not (distance == distance.T).all():
        return False
    return all((distance <= column[:, None] + column[None, :]).all() for column in distance)


def static_plan(problem: SwitchProblem) -> SwitchPlan | None:
    """The best topology to hold throughout; None if no single one can serve all steps."""
    infinite = problem.ticks.infinite
    totals = np.minimum(held_work(problem) + _entry(problem), infinite).tolist()
    best = int(np.argmin(totals))
    if totals[best] >= infinite:
        return None
    return price_plan(problem, np.full(problem.num_steps, best, dtype=np.int32))


def held_work(problem: SwitchProblem) -> NDArray[Any]:
    """What all steps cost on each topology, in ticks."""
    ticks = problem.ticks
    times = np.bincount(problem.rows, minlength=len(ticks.costs))
    never = ticks.costs >= ticks.infinite
    works = (np.where(never, 0, ticks.costs) * times[:, None]).sum(axis=0)
    return np.where(never[times > 0].any(axis=0), ticks.infinite, works)


def greedy_plan(problem: SwitchProblem) -> SwitchPlan | None:
    """Every step on a topology that serves it best, whatever switching costs; keeps if it can.

    None if that takes a switch that is infinite.
    """
    costs = problem.ticks.costs
    best = costs == costs.min(axis=1)[:, None]
    first = np.argmax(best, axis=1).tolist()
    is_best = best.tolist()
    held = problem.start
    choice = []
    for row in problem.rows.tolist():
        if held is None or not is_best[row][held]:
            held = first[row]
        choice.append(held)
    try:
        return price_plan(problem, choice)
    except ValueError:
        return None


def _entry(problem: SwitchProblem) -> NDArray[Any]:
    """What the first configuration costs beyond the first gap, in ticks."""
    ticks = problem.ticks
    return np.asarray(ticks.beyond(ticks.first, ticks.gaps[problem.rows[0]]))
