"""Exact plans of small demands: all numbers of configurations on all switches are searched.

With a number of configurations on every switch the search is over what each serves of every row,
with a linear program in their durations at every node; see ``demand.search_kernels``. Numbers are
tried in ascending order as long as their bound is below the best plan.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import count
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.kernels import for_work
from ocs_codesign.reconfigure.demand.bounds import least_times, line_bound, makespan_bound
from ocs_codesign.reconfigure.demand.switches import TickPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from ocs_codesign.reconfigure.demand.search_kernels import Problem, State
    from ocs_codesign.reconfigure.demand.ticks import DemandTicks

MAX_LINES = 8
"""Rows and columns with any demand that a search is for."""

_LEAST_NODES_A_CALL, _NODES_A_CALL = 50, 50_000
_MAX_CONFIGURATIONS = 62


@final
@dataclass(frozen=True, slots=True, eq=False)
class Searched:
    """What a search knows in the end: a plan that is better than the given one, if it found any.

    ``bound`` is what no plan beats: the best makespan if all was searched.
    """

    plan: TickPlan | None
    bound: Fraction
    is_complete: bool
    num_nodes: int

    def transposed(self) -> Searched:
        """The same for the demand with rows as columns."""
        plan = self.plan
        if plan is not None:
            plan = TickPlan(plan.permutations.argsort(1), plan.times, plan.switch)
        return replace(self, plan=plan)


def search_levels(ticks: DemandTicks) -> int:
    """Lines times the fewest configurations, which a search is deep; 0 if there is none."""
    lines = int(max(ticks.demand.any(1).sum(), ticks.demand.any(0).sum()))
    return lines * ticks.max_entries if lines <= MAX_LINES else 0


def search(
    ticks: DemandTicks, num_switches: int, best: Fraction, goes_on: Callable[[int], bool]
) -> Searched:
    """Look for plans that take less than ``best`` ticks.

    Numbers of configurations are tried in ascending order. ``goes_on(nodes)`` is asked every now
    and then whether to go on after so many nodes; while it is so, the search ends with a proof.
    """
    plan: TickPlan | None = None
    nodes, left = 0, list[Fraction]()
    rows, columns = _lines(ticks.demand)
    if len(rows) > len(columns):
        across = replace(ticks, demand=ticks.demand.T.copy())
        return search(across, num_switches, best, goes_on).transposed()
    demand = ticks.demand[np.ix_(rows, columns)]
    for counts, bound, bound_of_rest in _counts(ticks, num_switches):
        if bound_of_rest >= best:
            break
        if sum(counts) > _MAX_CONFIGURATIONS or not goes_on(nodes):
            left.append(bound_of_rest)
            break
        if bound >= best:
            continue
        problem, state = _prepared(demand, ticks.setup, counts, best)
        ended = _searched(problem, state, nodes, goes_on)
        nodes += int(state.at[1])
        if not ended:
            left.append(bound)
        numerator, denominator = state.best.tolist()
        if Fraction(numerator, denominator) < best:
            best = Fraction(numerator, denominator)
            times = tuple(Fraction(time, denominator) for time in state.times.tolist())
            circuits = np.full((len(times), ticks.num_nodes), -1)
            circuits[:, rows] = np.append(columns, -1)[state.found.reshape(len(rows), -1).T]
            on_switch = np.repeat(np.arange(len(counts)), counts)
            plan = TickPlan(_completed(circuits), times, on_switch)
    return Searched(plan, min([best, *left]), not left, nodes)


def _lines(demand: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows and columns with any demand, in the order of the search.

    Rows with many and large entries are first, and columns in the order of the first row.
    """
    rows, columns = np.flatnonzero(demand.any(1)), np.flatnonzero(demand.any(0))
    kept = demand[rows]
    rows = rows[np.lexsort((-kept.max(1), -kept.sum(1), -(kept > 0).sum(1)))]
    return rows, columns[np.argsort(-demand[rows[0], columns], kind="stable")]


def _completed(circuits: NDArray[np.int64]) -> NDArray[np.int64]:
    """Full permutations: rows without a circuit, -1, get the columns that are left, in order.

    >>> _completed(np.array([[2, -1, -1], [1, 0, 2]])).tolist()
    [[2, 0, 1], [1, 0, 2]]
    """
    for permutation in circuits:
        idle = permutation < 0
        permutation[idle] = np.setdiff1d(np.arange(len(permutation)), permutation[~idle])
    return circuits


def _counts(
    ticks: DemandTicks, num_switches: int
) -> Iterator[tuple[tuple[int, ...], Fraction, Fraction]]:
    """Numbers of configurations on the switches in use, what such plans take at least, and what
    these and all that follow do."""
    for many in count(ticks.max_entries):
        bound = makespan_bound(least_times(ticks, many), ticks, num_switches)
        bound_of_rest = line_bound(ticks, num_switches, many)
        for counts in _partitions(many, num_switches, many):
            yield counts, max(bound, Fraction(ticks.setup * counts[0])), bound_of_rest


def _partitions(many: int, parts: int, most: int) -> Iterator[tuple[int, ...]]:
    """Numbers in descending order, at most ``most`` each, that add up to ``many``; even ones first.

    >>> list(_partitions(4, 2, 4))
    [(2, 2), (3, 1), (4,)]
    """
    if many == 0:
        yield ()
        return
    if parts == 0:
        return
    for first in range(-(-many // parts), min(many, most) + 1):
        for rest in _partitions(many - first, parts - 1, first):
            yield (first, *rest)


def _searched(problem: Problem, state: State, before: int, goes_on: Callable[[int], bool]) -> bool:
    """Whether the search of a problem came to its end."""
    from ocs_codesign.reconfigure.demand.search_kernels import DONE, OPEN, advance

    rows, columns = problem.demand.shape
    rounds_a_node, ended = rows * columns + 2**columns, OPEN
    while ended == OPEN and goes_on(before + int(state.at[1])):
        nodes = before + int(state.at[1])
        budget = min(_NODES_A_CALL, max(_LEAST_NODES_A_CALL, nodes))
        ended = for_work(advance, rounds_a_node * (nodes + budget))(problem, state, budget)
    return bool(ended == DONE)


def _prepared(
    demand: NDArray[np.int64], setup: int, counts: tuple[int, ...], best: Fraction
) -> tuple[Problem, State]:
    """The tables and the first state of a search."""
    from ocs_codesign.reconfigure.demand.search_kernels import Problem, State

    slots, (rows, columns) = sum(counts), demand.shape
    # A slot follows the one before on its switch, a first one that of a switch with as many.
    first = np.cumsum([0, *counts[:-1]])
    after = np.arange(-1, slots - 1)
    after[first] = -1
    alike = np.flatnonzero(np.diff(counts) == 0)
    after[first[1:][alike]] = first[alike]
    bits = (np.arange(2**columns)[:, None] >> np.arange(columns)) & 1
    problem = Problem(
        demand=demand,
        setups=setup * np.array(counts),
        on_switch=(2 ** np.array(counts) - 1) << first,
        after=after,
        subset=demand @ bits.T,
        idle=(demand == 0).any(1),
    )
    levels = slots * rows
    tableau = np.zeros((levels + 1, slots + 1, slots + 2), dtype=np.int64)
    tableau[0, :, :-1] = np.eye(slots + 1, dtype=np.int64)
    state = State(
        at=np.zeros(2, dtype=np.int64),
        tried=np.zeros(levels, dtype=np.int64),
        choice=np.full(levels, -1),
        able=np.tile((demand > 0) * (2**slots - 1), (levels + 1, 1, 1)),
        tableau=tableau,
        denominator=np.ones(levels + 1, dtype=np.int64),
        best=np.array([best.numerator, best.denominator]),
        found=np.full(levels, -1),
        times=np.zeros(slots, dtype=np.int64),
    )
    return problem, state
