"""Keep or switch: the cheapest topology to hold in every step, exactly, with a proof.

The state is the topology that is held, so dynamic programming is exact for every switching cost,
a metric or not: O(S K^2), and O(S K) where all switches cost the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.reconfigure.blocking.plan import Certificate, SwitchPlan, price_plan

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.reconfigure.blocking.problem import SwitchProblem


def switch_plan(problem: SwitchProblem) -> SwitchPlan:
    """The plan of least total cost, of those one with the fewest switches, with its certificate.

    ``check_plan`` verifies the certificate without this code. Raises ValueError if no plan can
    serve all steps because the switches that it would take are infinite.

    >>> from ocs_codesign.reconfigure.blocking.problem import SwitchProblem
    >>> costs = [(4, 9), (4, 9), (9, 4), (4, 9), (9, 4), (9, 4)]
    >>> plan = switch_plan(SwitchProblem(costs, 3, start=0))
    >>> str(plan.total), plan.choice.tolist(), plan.is_optimal
    ('32', [0, 0, 0, 0, 1, 1], True)
    """
    solve = _compiled if problem.ticks.is_compiled else _in_big_integers
    choice, potentials = solve(problem)
    potentials.setflags(write=False)
    entry = paid(problem, problem.ticks.first, 0)
    least = min((entry + potentials[0]).tolist())
    if least >= problem.ticks.infinite:
        raise ValueError(
            f"no plan serves all {problem.num_steps} steps: every one takes a switch that is "
            "infinite"
        )
    return price_plan(problem, choice, Certificate(potentials, problem.ticks.tick * int(least)))


def paid(problem: SwitchProblem, price: NDArray[Any], step: int) -> NDArray[Any]:
    """What switches of that price cost before a step, in ticks: beyond the gap."""
    ticks = problem.ticks
    rest = np.maximum(price - ticks.gaps[problem.rows[step]], 0)
    return np.where(price >= ticks.infinite, ticks.infinite, rest)


def _compiled(problem: SwitchProblem) -> tuple[NDArray[np.int32], NDArray[Any]]:
    from ocs_codesign.reconfigure.blocking.kernels import cost_to_go, follow

    ticks = problem.ticks
    shape = (problem.num_steps, problem.num_topologies)
    value, switches = np.empty(shape, dtype=np.int64), np.empty(shape, dtype=np.int32)
    choice = np.empty(problem.num_steps, dtype=np.int32)
    rows, gaps, infinite = problem.rows, ticks.gaps, ticks.infinite
    start = -1 if problem.start is None else problem.start
    cost_to_go(ticks.costs, rows, ticks.delta, gaps, infinite, value, switches)
    follow(rows, ticks.delta, ticks.first, start, gaps, infinite, value, switches, choice)
    return choice, value


def _in_big_integers(problem: SwitchProblem) -> tuple[NDArray[np.int32], NDArray[Any]]:
    """The same, a tick worth more than all switches counted together."""
    from ocs_codesign.reconfigure.blocking.big import cheapest_plan

    ticks, worth = problem.ticks, problem.num_steps + 2
    infinite = ticks.infinite * worth
    prices: dict[int, NDArray[Any] | int] = {}

    def edges_of(row: int) -> NDArray[Any] | int:
        gap = ticks.gaps[row]
        if gap not in prices:
            prices[gap] = _priced_edges(problem, gap, worth)
        return prices[gap]

    entry = paid(problem, ticks.first, 0) * worth
    if problem.start is not None:
        entry = entry + (np.arange(problem.num_topologies) != problem.start)
    costs = ticks.costs * worth
    choice, value = cheapest_plan(costs, problem.rows, edges_of, entry, infinite)
    return choice, value // worth


def _priced_edges(problem: SwitchProblem, gap: int, worth: int) -> NDArray[Any] | int:
    delta, infinite = problem.ticks.delta, problem.ticks.infinite
    if problem.is_uniform:
        return int(max(delta[0, 0] - gap, 0)) * worth + 1
    edges = np.where(delta >= infinite, infinite, np.maximum(delta - gap, 0)) * worth + 1
    np.fill_diagonal(edges, infinite * worth)
    return edges
