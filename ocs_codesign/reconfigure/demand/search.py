"""Exact plans of small demands: all numbers of configurations on all switches are searched.

With a number of configurations on every switch the search is over what each serves of every row,
with a linear program in their durations at every node; see ``demand.search_kernels``. Numbers are
tried in ascending order as long as their bound is below the best plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.reconfigure.demand.bounds import least_times, line_bound, makespan_bound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from ocs_codesign.reconfigure.demand.search_kernels import Problem, State
    from ocs_codesign.reconfigure.demand.ticks import DemandTicks

MAX_LINES = 8
"""Rows and columns with any demand that a search is for."""

_NODES_A_CALL = 50_000
_MAX_CONFIGURATIONS = 62


@final
@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """A plan in ticks: ``columns[k, i]`` is where row i's circuit goes, -1 if it has none."""

    makespan: Fraction
    columns: NDArray[np.int64]
    times: tuple[Fraction, ...]
    switch: NDArray[np.int64]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Searched:
    """What a search knows in the end: a plan that is better than the given one, if it found any.

    ``bound`` is what no plan beats: the best makespan if all was searched.
    """

    found: Found | None
    bound: Fraction
    is_complete: bool
    num_nodes: int


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Lines:
    """The rows and columns with any demand, in the order of the search; rows are at most as many.

    Rows with many and large entries are first, and columns in the order of the first row.
    """

    demand: NDArray[np.int64]
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    transposed: bool

    @classmethod
    def of(cls, demand: NDArray[np.int64]) -> _Lines:
        transposed = bool(demand.any(1).sum() > demand.any(0).sum())
        demand = demand.T if transposed else demand
        rows, columns = np.flatnonzero(demand.any(1)), np.flatnonzero(demand.any(0))
        kept = demand[np.ix_(rows, columns)]
        order = np.lexsort((-kept.max(1), -kept.sum(1), -(kept > 0).sum(1)))
        across = np.argsort(-kept[order[0]], kind="stable")
        inner = np.ascontiguousarray(kept[order][:, across])
        return cls(inner, rows[order], columns[across], transposed)

    def in_matrix(self, choice: NDArray[np.int64], nodes: int) -> NDArray[np.int64]:
        """The search's columns as those of the demand matrix, row by row."""
        columns = np.full((len(choice), nodes), -1)
        for slot, line in np.ndindex(choice.shape):
            if choice[slot, line] < len(self.columns):
                row, column = self.rows[line], self.columns[choice[slot, line]]
                if self.transposed:
                    row, column = column, row
                columns[slot, row] = column
        return columns


def can_search(ticks: DemandTicks) -> bool:
    """Whether a demand is small enough to be searched."""
    lines = int(max(ticks.demand.any(1).sum(), ticks.demand.any(0).sum()))
    return 0 < lines <= MAX_LINES


def search(
    ticks: DemandTicks,
    num_switches: int,
    best: Fraction,
    goes_on: Callable[[int], bool],
) -> Searched:
    """Look for plans that take less than ``best`` ticks, in at most so many nodes.

    ``goes_on(nodes)`` is asked every now and then whether to go on after so many nodes. The order
    is that of the number of configurations; while the answer is yes, the search ends with a proof.
    """
    lines = _Lines.of(ticks.demand)
    found: Found | None = None
    nodes, left = 0, list[Fraction]()
    for counts, bound in _counts(ticks, num_switches):
        many = sum(counts)
        if _never_better(ticks, num_switches, many, best):
            break
        if many > _MAX_CONFIGURATIONS or not goes_on(nodes):
            left.append(line_bound(ticks, num_switches, many))
            break
        if bound >= best:
            continue
        problem, state = _prepared(lines, ticks, counts, best)
        ended = _searched(problem, state, nodes, goes_on)
        nodes += int(state.at[1])
        if not ended:
            left.append(bound)
        makespan = Fraction(int(state.best[0]), int(state.best[1]))
        if makespan < best:
            best = makespan
            columns = lines.in_matrix(state.found, ticks.num_nodes)
            times = tuple(Fraction(int(time), int(state.best[1])) for time in state.times)
            found = Found(best, columns, times, problem.switch)
    return Searched(found, min([best, *left]), not left, nodes)


def _counts(ticks: DemandTicks, num_switches: int) -> Iterator[tuple[tuple[int, ...], Fraction]]:
    """Numbers of configurations on the switches in use, and what such plans take at least."""
    for many in count(ticks.max_entries):
        bound = makespan_bound(least_times(ticks, many), ticks, num_switches)
        for counts in _partitions(many, num_switches, many):
            yield counts, max(bound, Fraction(ticks.setup * counts[0]))


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


def _never_better(ticks: DemandTicks, num_switches: int, many: int, best: Fraction) -> bool:
    """Whether no plan of at least so many configurations can beat the best."""
    used = min(many, num_switches)
    return many >= num_switches and Fraction(ticks.longest_line + ticks.setup * many, used) >= best


def _searched(problem: Problem, state: State, before: int, goes_on: Callable[[int], bool]) -> bool:
    """Whether the search of a problem came to its end."""
    from ocs_codesign.reconfigure.demand.search_kernels import advance

    while goes_on(before + int(state.at[1])):
        ended = advance(problem, state, _NODES_A_CALL)
        if ended:
            return bool(ended > 0)
    return False


def _prepared(
    lines: _Lines, ticks: DemandTicks, counts: tuple[int, ...], best: Fraction
) -> tuple[Problem, State]:
    """The tables and the empty state of a search."""
    from ocs_codesign.reconfigure.demand.search_kernels import Problem, State

    demand = lines.demand
    rows, columns = demand.shape
    bits = (np.arange(2**columns)[:, None] >> np.arange(columns)) & 1
    subset = demand @ bits.T
    rest = np.zeros((rows, rows + 1, len(bits)), dtype=np.int64)
    for row in range(rows - 1):
        largest = -np.sort(-subset[row + 1 :], axis=0)
        rest[row, 1 : rows - row] = np.cumsum(largest, axis=0)
    slots = sum(counts)
    problem = Problem(
        demand=demand,
        setup=ticks.setup,
        switch=np.repeat(np.arange(len(counts)), counts),
        rank=np.concatenate([np.arange(count) for count in counts]),
        setups=np.array(counts),
        subset=subset,
        rest=rest,
        wanted=((demand > 0) << np.arange(columns)).sum(1),
        idle=(demand == 0).any(1),
    )
    levels = slots * rows + 1
    tableau = np.zeros((levels, slots + 1, slots + 2), dtype=np.int64)
    tableau[0, :, :-1] = np.eye(slots + 1, dtype=np.int64)
    state = State(
        at=np.zeros(2, dtype=np.int64),
        choice=np.full((slots, rows), -1),
        tried=np.zeros(levels, dtype=np.int64),
        free=np.full(slots, 2**columns - 1),
        tableau=tableau,
        denominator=np.ones(levels, dtype=np.int64),
        best=np.array([best.numerator, best.denominator]),
        found=np.full((slots, rows), -1),
        times=np.zeros(slots, dtype=np.int64),
    )
    return problem, state
