"""Compiled search of all plans with a given number of configurations, exact in integers.

Slots are the configurations, numbered switch by switch. The search goes row by row and in a row
slot by slot: it chooses the column that the slot's circuit from that row goes to, or ``columns``
for no circuit. At every node a linear program bounds what is left, see ``demand.bound_kernels``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from ocs_codesign.reconfigure.demand.bound_kernels import OVERFLOW, PRUNED, bound


class Problem(NamedTuple):
    """What is searched; entries and times are integers in one unit.

    ``rank`` is a slot's place on its switch, ``subset[i, J]`` the demand from row i to the columns
    of the bit set J, ``rest[i, m, J]`` the largest such sum of m rows after i, ``wanted`` the bit
    set of the columns with demand from a row. ``idle[i]``: whether a slot may leave row i out.
    """

    demand: np.ndarray
    setup: int
    switch: np.ndarray
    rank: np.ndarray
    setups: np.ndarray
    subset: np.ndarray
    rest: np.ndarray
    wanted: np.ndarray
    idle: np.ndarray


class State(NamedTuple):
    """Where the search is: ``at`` is row * slots + slot, and how many nodes there were before.

    ``choice[slot, row]`` is -1 where there is none yet, ``tried`` the next column of every level,
    ``free`` the columns that a slot has not used. ``best`` is the makespan to beat as numerator
    and denominator; a better plan goes to ``found`` with ``times`` over that denominator.
    """

    at: np.ndarray
    choice: np.ndarray
    tried: np.ndarray
    free: np.ndarray
    tableau: np.ndarray
    denominator: np.ndarray
    best: np.ndarray
    found: np.ndarray
    times: np.ndarray


@njit(cache=True)
def advance(problem, state, budget):
    """Search on for at most ``budget`` nodes: 1 if all is searched, 0 if not, -1 on overflow."""
    slots, rows = state.choice.shape
    last = state.at[1] + budget
    if state.at[0] == 0 and state.tried[0] == 0:
        bounded = bound(problem, state, state.tableau[0], np.int64(1), 0, 0)
        if bounded <= 0:
            return 1 if bounded == PRUNED else OVERFLOW
        state.denominator[0] = bounded
    while state.at[0] >= 0:
        level = state.at[0]
        row, slot = level // slots, level % slots
        _undo(state, row, slot)
        column = _next_column(problem, state, level, row, slot)
        if column < 0:
            state.tried[level] = 0
            state.at[0] -= 1
            continue
        if state.at[1] == last:
            state.tried[level] -= 1
            return 0
        state.at[1] += 1
        state.choice[slot, row] = column
        state.free[slot] &= ~(np.int64(1) << column)
        if not _can_cover(problem, state, row, slot):
            continue
        state.tableau[level + 1] = state.tableau[level]
        bounded = bound(
            problem,
            state,
            state.tableau[level + 1],
            state.denominator[level],
            (level + 1) // slots,
            (level + 1) % slots,
        )
        if bounded == OVERFLOW:
            return OVERFLOW
        if bounded == PRUNED:
            continue
        state.denominator[level + 1] = bounded
        if level + 1 == slots * rows:
            _keep(state, bounded)
        else:
            state.at[0] += 1
            state.tried[level + 1] = 0
    return 1


@njit(cache=True)
def _keep(state, denominator):
    """Remember a plan that beats the best."""
    slots, rows = state.choice.shape
    tableau = state.tableau[slots * rows]
    state.best[0], state.best[1] = tableau[0, slots + 1], denominator
    state.found[:] = state.choice
    state.times[:] = tableau[1:, slots + 1]


@njit(cache=True)
def _undo(state, row, slot):
    """Take back the last choice of a level, if there is one."""
    column = state.choice[slot, row]
    if column >= 0:
        state.free[slot] |= np.int64(1) << column
        state.choice[slot, row] = -1


@njit(cache=True)
def _next_column(problem, state, level, row, slot):
    """The next column to try for a slot's circuit, -1 if there is none."""
    columns = problem.demand.shape[1]
    least, strict = _least_column(problem, state, row, slot)
    while state.tried[level] <= columns:
        column = state.tried[level]
        state.tried[level] += 1
        if column < least or (strict and column == least):
            continue
        if column == columns:
            if problem.idle[row]:
                return column
        elif (state.free[slot] & problem.wanted[row]) >> column & 1:
            return column
    return -1


@njit(cache=True)
def _least_column(problem, state, row, slot):
    """Where equal slots of a switch, and switches with equally many slots, keep their order.

    Slots that agree in all rows above are interchangeable; two that agreed in all rows would be one
    slot. Of switches only the first row is compared.
    """
    rows = state.choice.shape[1]
    least, strict = 0, False
    if problem.rank[slot] > 0:
        same = True
        for above in range(row):
            if state.choice[slot, above] != state.choice[slot - 1, above]:
                same = False
        if same:
            least, strict = state.choice[slot - 1, row], row == rows - 1
    switch = problem.switch[slot]
    size = problem.setups[switch]
    if row == 0 and switch > 0 and problem.setups[switch - 1] == size:
        same = True
        for other in range(slot - problem.rank[slot], slot):
            if state.choice[other, 0] != state.choice[other - size, 0]:
                same = False
        if same:
            least = max(least, state.choice[slot - size, 0])
    return least, strict


@njit(cache=True)
def _can_cover(problem, state, row, slot):
    """Whether the slots that are left suffice, in number, for the entries that are left."""
    slots, rows = state.choice.shape
    columns = problem.demand.shape[1]
    missing = 0
    for column in range(columns):
        served, able = False, 0
        for other in range(slots):
            if other <= slot:
                served |= state.choice[other, row] == column
            able += state.free[other] >> column & 1
        needed = 0
        for below in range(row + 1, rows):
            needed += problem.demand[below, column] > 0
        if problem.demand[row, column] > 0 and not served:
            missing += 1
            needed += 1
        if needed > able:
            return False
    return missing <= slots - 1 - slot
