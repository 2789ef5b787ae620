"""Compiled search of all plans with given numbers of configurations, exact in integers.

Slots are the configurations, numbered switch by switch. The search goes row by row and in a row
slot by slot: it chooses the column that the slot's circuit from that row goes to, or ``columns``
for no circuit. At every node a linear program bounds the makespan: its numbers are the makespan
and the durations of the slots, kept as a dictionary of one tight constraint a column: number i is
(tableau[i, -1] + sum of tableau[i, c] * slack[c]) / denominator. A violated constraint enters by a
step of the dual simplex method, and the one that it replaces is dropped, since all are looked at
again. Columns stay lexicographically positive, so it ends. Every entry is a minor of a small
integer matrix, so fractions need no more than the common denominator.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

DONE, OPEN, PRUNED, OVERFLOW = 1, 0, 0, -1
SAFE = 4e18
"""Products below this fit into 64 bits with a sum of two of them."""

MAX_DENOMINATOR, MAX_ENTRY = 2**24, 2**52
"""Beyond these, sums over constraints might not fit: demands are at most 2**34."""


class Problem(NamedTuple):
    """What is searched; entries and times are integers in one unit.

    ``setups`` are those of every switch together, ``switch`` is that of every slot. A slot's first
    column is not before that of the slot ``after``, unless that is -1, and its time not longer if
    the columns are the same. ``subset[i, J]`` is the demand from row i to the columns of the bit
    set J. ``idle[i]``: whether a slot may leave row i out.
    """

    demand: np.ndarray
    setups: np.ndarray
    switch: np.ndarray
    after: np.ndarray
    subset: np.ndarray
    idle: np.ndarray


class State(NamedTuple):
    """Where the search is: ``at`` is row * slots + slot, and how many nodes there were before.

    By level: ``tried`` is the next column, ``choice`` the last one, ``able[i, j]`` the bit set of
    the slots that serve an entry or still may, and the linear program. ``best`` is the makespan to
    beat as numerator and denominator; a better plan goes to ``found`` with ``times`` over that
    denominator.
    """

    at: np.ndarray
    tried: np.ndarray
    choice: np.ndarray
    able: np.ndarray
    tableau: np.ndarray
    denominator: np.ndarray
    best: np.ndarray
    found: np.ndarray
    times: np.ndarray


@njit(cache=True)
def advance(problem, state, budget):
    """Search on for at most ``budget`` nodes: DONE if all is searched, OPEN if not, or OVERFLOW."""
    slots = len(state.times)
    last = state.at[1] + budget
    while state.at[0] >= 0:
        level = state.at[0]
        column = state.tried[level]
        if column > problem.demand.shape[1]:
            state.tried[level] = 0
            state.at[0] -= 1
            continue
        if state.at[1] == last:
            return OPEN
        state.tried[level] += 1
        if not _choose(problem, state, level, column):
            continue
        state.at[1] += 1
        bounded = _bound(problem, state, level + 1)
        if bounded == OVERFLOW:
            return OVERFLOW
        if bounded == PRUNED:
            continue
        if level + 1 < len(state.choice):
            state.at[0] += 1
            continue
        state.best[0] = state.tableau[level + 1, 0, slots + 1]
        state.best[1] = state.denominator[level + 1]
        state.found[:] = state.choice
        state.times[:] = state.tableau[level + 1, 1:, slots + 1]
    return DONE


@njit(cache=True)
def _choose(problem, state, level, column):
    """Set the next level up; False if the column is none to choose or leaves an entry to no slot."""
    rows, columns = problem.demand.shape
    slots = len(state.times)
    row, slot = level // slots, level % slots
    if column == columns:
        if not problem.idle[row]:
            return False
    elif not (state.able[level, row, column] >> slot) & 1:
        return False
    if row == 0 and problem.after[slot] >= 0 and column < state.choice[problem.after[slot]]:
        return False
    state.choice[level] = column
    state.tableau[level + 1] = state.tableau[level]
    state.denominator[level + 1] = state.denominator[level]
    able, others = state.able[level + 1], ~(np.int64(1) << slot)
    able[:] = state.able[level]
    for line in range(row, rows):
        for place in range(columns):
            if (line == row) != (place == column):
                able[line, place] &= others
            if able[line, place] == 0 and problem.demand[line, place] > 0:
                return False
    return True


@njit(cache=True)
def _bound(problem, state, level):
    """Add violated constraints until there is none: 1, or PRUNED or OVERFLOW."""
    tableau, best = state.tableau[level], state.best
    size = len(tableau)
    factors, cut = np.empty(size, dtype=np.int64), np.empty(size + 1, dtype=np.int64)
    while True:
        denominator = state.denominator[level]
        makespan = tableau[0, size]
        if max(float(makespan) * best[1], float(best[0]) * denominator) > SAFE:
            return OVERFLOW
        if makespan * best[1] >= best[0] * denominator:
            return PRUNED
        needed = _most_violated(problem, state, level, factors)
        if needed < 0:
            return 1
        for column in range(size + 1):
            cut[column] = 0
            for number in range(size):
                cut[column] += factors[number] * tableau[number, column]
        cut[size] -= needed * denominator
        pivot = _pivot(tableau, denominator, cut)
        if pivot <= 0:
            return pivot
        state.denominator[level] = pivot


@njit(cache=True)
def _most_violated(problem, state, level, factors):
    """The constraint ``factors @ numbers >= needed`` that is missed by most: needed, -1 for none.

    Numbers are not negative, the makespan covers every switch, and slots with the same first column
    are in order. Slots that serve columns of a set from a row, or still may, last as long as its
    demand: for single columns, and all sets of the row that is chosen next; and so do those that
    may serve a column from any row that is left.
    """
    rows, columns = problem.demand.shape
    slots = len(state.times)
    row, able = level // slots, state.able[level]
    constant, denominator = state.tableau[level, :, slots + 1], state.denominator[level]
    worst, serving, needed = np.int64(0), np.int64(0), np.int64(-1)
    for line in range(rows):
        subset = 1
        while subset < 1 << columns:
            served_by = np.int64(0)
            for column in range(columns):
                if (subset >> column) & 1:
                    served_by |= able[line, column]
            left = _left(constant, served_by, problem.subset[line, subset] * denominator)
            if left < worst:
                worst, serving, needed = left, served_by, problem.subset[line, subset]
            subset += 1 if line == row else subset
    for column in range(columns):
        served_by, wanted = np.int64(0), np.int64(0)
        for line in range(row + 1, rows):
            served_by |= able[line, column]
            wanted += problem.demand[line, column]
        left = _left(constant, served_by, wanted * denominator)
        if left < worst:
            worst, serving, needed = left, served_by, wanted
    factors[0] = 0
    for slot in range(slots):
        factors[1 + slot] = (serving >> slot) & 1
    for number in range(slots + 1):
        if constant[number] < worst:
            worst, needed = constant[number], np.int64(0)
            factors[:] = 0
            factors[number] = 1
    for switch in range(len(problem.setups)):
        left = constant[0] - problem.setups[switch] * denominator
        for slot in range(slots):
            left -= constant[1 + slot] if problem.switch[slot] == switch else 0
        if left < worst:
            worst, needed = left, problem.setups[switch]
            factors[0] = 1
            factors[1:] = -1 * (problem.switch == switch)
    for slot in range(min(slots, level)):
        after = problem.after[slot]
        if after >= 0 and state.choice[slot] == state.choice[after]:
            left = constant[1 + after] - constant[1 + slot]
            if left < worst:
                worst, needed = left, np.int64(0)
                factors[:] = 0
                factors[1 + after], factors[1 + slot] = 1, -1
    return needed


@njit(cache=True)
def _left(constant, slots, needed):
    """How much longer than needed a bit set of slots lasts."""
    left = -needed
    if left:
        for slot in range(len(constant) - 1):
            if (slots >> slot) & 1:
                left += constant[1 + slot]
    return left


@njit(cache=True)
def _pivot(tableau, denominator, cut):
    """Make a violated constraint tight: the new denominator, PRUNED if it cannot be met."""
    size = len(tableau)
    enter, factors, cut_factors, constants = -1, 0, 0, 0
    for column in range(size):
        if cut[column] > 0 and (enter < 0 or _before(tableau, cut, column, enter)):
            enter = column
        cut_factors = max(cut_factors, abs(cut[column]))
        constants = max(constants, abs(tableau[column, size]))
        for number in range(size):
            factors = max(factors, abs(tableau[number, column]))
    if enter < 0:
        return np.int64(PRUNED)
    # No product of the step may overflow.
    if (
        max(factors, cut_factors) > MAX_DENOMINATOR
        or float(max(factors, constants)) * cut_factors > SAFE
        or float(factors) * abs(cut[size]) > SAFE
    ):
        return np.int64(OVERFLOW)
    pivot = cut[enter]
    for number in range(size):
        factor = tableau[number, enter]
        for column in range(size + 1):
            if column != enter:
                value = tableau[number, column] * pivot - factor * cut[column]
                tableau[number, column] = value // denominator
        if abs(tableau[number, size]) > MAX_ENTRY:
            return np.int64(OVERFLOW)
    return pivot


@njit(cache=True)
def _before(tableau, cut, column, other):
    """Whether a column over its entry of the cut is lexicographically less than another."""
    for number in range(len(tableau)):
        mine, theirs = tableau[number, column] * cut[other], tableau[number, other] * cut[column]
        if mine != theirs:
            return mine < theirs
    return False
