"""How long given configurations last: the least makespan is a linear program."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, lcm
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.lp import LinearProgram, Options, exact_vertex, solve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.reconfigure.demand.ticks import DemandTicks

_EXACT_UP_TO = 1500
"""Rows and columns up to which the optimum is refined to fractions."""

_FLOAT_BITS = 20
_ROUNDING = 1e-6


@final
@dataclass(frozen=True, slots=True, eq=False)
class Timed:
    """Configurations with their times, in ticks, and switches; each permutation is a full one."""

    permutations: NDArray[np.int64]
    times: tuple[Fraction, ...]
    switch: NDArray[np.int64]

    def makespan(self, setup: int) -> Fraction:
        """When the last switch is done, in ticks."""
        busy = [Fraction(0)] * (int(self.switch.max(initial=0)) + 1)
        for time, switch in zip(self.times, self.switch.tolist(), strict=True):
            busy[switch] += time + setup
        return max(busy)


def with_best_times(ticks: DemandTicks, plan: Timed, time_limit_s: float | None = None) -> Timed:
    """The same permutations on the same switches with the times of the least makespan.

    Up to _EXACT_UP_TO rows and columns they are those of an exact vertex, beyond whole ticks that
    serve the demand; the given times are kept if they are as good. Configurations that are not
    needed are left out.
    """
    if not len(plan.times):
        return plan
    scale = 2.0 ** -min(_FLOAT_BITS, max(0, int(ticks.demand.max()).bit_length() - 16))
    program = _program(ticks, plan, scale)
    solution = solve(program, "highs", Options("simplex", time_limit_s))
    better = plan
    if solution.values is not None:
        exact = None
        if program.num_rows + program.num_columns <= _EXACT_UP_TO:
            exact = exact_vertex(program, solution)
        if exact is not None:
            times = tuple(value / Fraction(scale) for value in exact.values[:-1])
            better = Timed(plan.permutations, times, plan.switch)
        else:
            about = np.maximum(solution.values[:-1] / scale - _ROUNDING, 0.0).tolist()
            times = tuple(Fraction(time) for time in about)
            better = long_enough(ticks, Timed(plan.permutations, times, plan.switch))
    best = min((better, plan), key=lambda one: one.makespan(ticks.setup))
    return without_waste(ticks, best)


def long_enough(ticks: DemandTicks, plan: Timed) -> Timed:
    """The plan with whole times, raised one after the other where the demand is not served."""
    rows = np.arange(ticks.num_nodes)
    times = np.array([ceil(time) for time in plan.times], dtype=np.int64)
    missing = ticks.demand.copy()
    for columns, time in zip(plan.permutations, times.tolist(), strict=True):
        missing[rows, columns] -= time
    for at, columns in enumerate(plan.permutations):
        more = int(missing[rows, columns].max())
        if more > 0:
            times[at] += more
            missing[rows, columns] -= more
    return Timed(plan.permutations, tuple(Fraction(time) for time in times.tolist()), plan.switch)


def without_waste(ticks: DemandTicks, plan: Timed) -> Timed:
    """The plan with times cut where others serve the demand, without those that are not needed."""
    from ocs_codesign.reconfigure.demand.kernels import shorten

    unit = lcm(*(time.denominator for time in plan.times))
    if unit.bit_length() + ticks.longest_line.bit_length() > 60:
        return plan
    times = np.array([int(time * unit) for time in plan.times])
    permutations, switch = plan.permutations.copy(), plan.switch.copy()
    kept = shorten(ticks.demand * unit, permutations, times, switch, len(times))
    left = tuple(Fraction(int(time), unit) for time in times[:kept])
    return Timed(permutations[:kept], left, switch[:kept])


def _program(ticks: DemandTicks, plan: Timed, scale: float) -> LinearProgram:
    """Least makespan: columns are the times and then the makespan, in 1 / scale ticks.

    An entry that one configuration serves is a bound on its time, one that several serve is a row;
    then there is a row for every switch.
    """
    many, nodes = plan.permutations.shape
    keys = (plan.permutations + np.arange(nodes) * nodes).ravel()
    slots = np.repeat(np.arange(many), nodes)
    demand = ticks.demand.ravel()
    wanted = demand[keys] > 0
    keys, slots = keys[wanted], slots[wanted]
    servers = np.bincount(keys, minlength=len(demand))
    alone = servers[keys] == 1
    least = np.zeros(many, dtype=np.int64)
    np.maximum.at(least, slots[alone], demand[keys[alone]])
    keys, slots = keys[~alone], slots[~alone]
    order = np.argsort(keys, kind="stable")
    shared, sizes = np.unique(keys[order], return_counts=True)
    counts = np.bincount(plan.switch)
    on_switch = np.argsort(plan.switch, kind="stable")
    # The row of a switch: makespan - times >= setups.
    ends = np.cumsum(counts)
    switch_rows = [
        np.append(on_switch[end - count : end], many)
        for count, end in zip(counts.tolist(), ends.tolist(), strict=True)
        if count
    ]
    used = counts[counts > 0]
    cost = np.zeros(many + 1)
    cost[many] = 1.0
    return LinearProgram(
        cost=cost,
        start=np.concatenate([[0], np.cumsum(np.concatenate([sizes, used + 1]))]),
        index=np.concatenate([slots[order], *switch_rows]),
        values=np.concatenate(
            [np.ones(len(order)), *(np.append(-np.ones(len(row) - 1), 1.0) for row in switch_rows)]
        ),
        row_lower=np.concatenate([demand[shared], ticks.setup * used]) * scale,
        row_upper=np.full(len(shared) + len(used), np.inf),
        col_lower=np.append(least, 0) * scale,
        col_upper=np.full(many + 1, np.inf),
    )
