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

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.reconfigure.blocking.dynamic_program import paid
from ocs_codesign.reconfigure.blocking.plan import SwitchPlan, price_plan

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.reconfigure.blocking.problem import SwitchProblem


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

    >>> from ocs_codesign.reconfigure.blocking.problem import SwitchProblem
    >>> costs = [(4, 9), (4, 9), (9, 4), (4, 9), (9, 4), (9, 4)]
    >>> plan = online_plan(SwitchProblem(costs, 3, start=0))
    >>> plan.choice.tolist(), str(plan.total)
    ([0, 0, 0, 0, 0, 1], '37')
    """
    choose = _compiled_choice if problem.ticks.is_compiled else _big_choice
    choice = choose(problem)
    return None if choice is None else price_plan(problem, choice)


def promise(problem: SwitchProblem) -> Promise | None:
    """What is proven of ``online_plan`` in advance; None if switches beyond gaps are no metric.

    >>> from ocs_codesign.reconfigure.blocking.problem import SwitchProblem
    >>> promise(SwitchProblem([[4, 9]], 3, start=0))
    Promise(ratio=3, extra=Fraction(0, 1))
    """
    ticks, many = problem.ticks, problem.num_topologies
    gaps = ticks.gaps[problem.rows]
    if (gaps != gaps[0]).any() or ticks.rounded:
        return None
    delta = np.broadcast_to(ticks.delta, (many, many)).astype(object)
    metric = np.maximum(delta - int(gaps[0]), 0)
    np.fill_diagonal(metric, 0)
    if (delta >= ticks.infinite).any() or not _is_metric(metric):
        return None
    ways = metric.sum(axis=1)
    entry = paid(problem, ticks.first, 0).astype(object)
    if problem.start is not None:
        extra = 2 * (max(ways) - ways[problem.start])
    else:
        extra = 2 * max(ways) - 2 * (many - 1) * min(entry)
    return Promise(2 * many - 1, ticks.tick * max(int(extra), 0))


def static_plan(problem: SwitchProblem) -> SwitchPlan | None:
    """The best topology to hold throughout; None if no single one can serve all steps."""
    ticks = problem.ticks
    times = np.bincount(problem.rows, minlength=len(ticks.costs)).astype(object)
    used = times > 0
    costs = ticks.costs.astype(object)[used]
    works = (costs * times[used, None]).sum(axis=0)
    works = np.where((costs >= ticks.infinite).any(axis=0), ticks.infinite, works)
    totals = np.minimum(works + paid(problem, ticks.first, 0), ticks.infinite).tolist()
    best = int(np.argmin(totals))
    if totals[best] >= ticks.infinite:
        return None
    return price_plan(problem, np.full(problem.num_steps, best, dtype=np.int32))


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
    return price_plan(problem, choice) if _is_possible(problem, choice) else None


def _is_possible(problem: SwitchProblem, choice: list[int]) -> bool:
    ticks, held = problem.ticks, np.array(choice)
    if ticks.first[held[0]] >= ticks.infinite:
        return False
    if problem.is_uniform:
        return True
    return bool((ticks.delta[held[:-1], held[1:]] < ticks.infinite).all())


def _is_metric(distance: NDArray[Any]) -> bool:
    """Whether distances are symmetric and no way round is shorter."""
    if not (distance == distance.T).all():
        return False
    return all((distance <= column[:, None] + column[None, :]).all() for column in distance)


def _compiled_choice(problem: SwitchProblem) -> NDArray[np.int32] | None:
    from ocs_codesign.reconfigure.blocking.kernels import follow_work

    ticks = problem.ticks
    choice = np.empty(problem.num_steps, dtype=np.int32)
    stuck = follow_work(
        ticks.costs,
        problem.rows,
        ticks.delta,
        ticks.first,
        -1 if problem.start is None else problem.start,
        ticks.gaps,
        ticks.infinite,
        choice,
    )
    return choice if stuck < 0 else None


def _big_choice(problem: SwitchProblem) -> list[int] | None:
    """The same in Python integers."""
    ticks, many = problem.ticks, problem.num_topologies
    delta = np.array(np.broadcast_to(ticks.delta, (many, many)))
    np.fill_diagonal(delta, 0)
    held, choice = problem.start, []
    work = ticks.first
    for step, row in enumerate(problem.rows.tolist()):
        prices = paid(problem, delta, step)
        moved = paid(problem, work, 0) if step == 0 else (work[:, None] + prices).min(axis=0)
        work = np.minimum(moved + ticks.costs[row], ticks.infinite)
        totals = work if held is None else np.minimum(work + prices[held], ticks.infinite)
        best = int(np.argmin(totals))
        if totals[best] >= ticks.infinite:
            return None
        held = held if held is not None and totals[held] <= totals[best] else best
        choice.append(held)
    return choice
