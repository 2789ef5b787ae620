"""Loops of the search of all plans with given numbers of configurations, exact in integers.

Slots are the configurations, numbered switch by switch. The search goes row by row and in a row
slot by slot: it chooses the column that the slot's circuit from that row goes to, or ``columns``
for no circuit. At every node a linear program bounds the makespan: its numbers are the makespan
and the durations of the slots, kept as a dictionary of one tight constraint a column: number i is
(tableau[i, -1] + sum of tableau[i, c] * slack[c]) / denominator. A violated constraint enters by a
step of the dual simplex method, and the one that it replaces is dropped, since all are looked at
again. Columns stay lexicographically positive, so it ends. Every entry is a minor of a small
integer matrix, so fractions need no more than the common denominator.

All is plain Python, for short searches, and ``for_work`` compiles it for long ones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba.extending import register_jitable

DONE, OPEN, OVERFLOW = 1, 0, -1
_BOUNDED, _PRUNED = 1, 0
_SAFE = 4e18
"""Products below this fit into 64 bits with a sum of two of them."""

_MAX_FACTOR, _MAX_NUMBER = 2**24, 2**52
"""Beyond these, sums over constraints might not fit: demands are at most 2**34."""


class Problem(NamedTuple):
    """What is searched; entries and times are integers in one unit.

    ``setups`` are those of every switch together, ``on_switch`` its slots as a bit set. A slot's
    first column is not before that of the slot ``after``, unless that is -1, and its time not
    longer if the columns are the same. ``subset[i, J]`` is the demand from row i to the columns of
    the bit set J. ``idle[i]``: whether a slot may leave row i out.
    """

    demand: np.ndarray
    setups: np.ndarray
    on_switch: np.ndarray
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
        if bounded == _PRUNED:
            continue
        if level + 1 < len(state.choice):
            state.at[0] += 1
            continue
        state.best[0] = state.tableau[level + 1, 0, slots + 1]
        state.best[1] = state.denominator[level + 1]
        for place in range(level + 1):
            state.found[place] = state.choice[place]
        for slot in range(slots):
            state.times[slot] = state.tableau[level + 1, 1 + slot, slots + 1]
    return DONE


@register_jitable
def _choose(problem, state, level, column):
    """Set the next level up; False if the column cannot be or leaves an entry to no slot."""
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
    for line in range(rows):
        for place in range(columns):
            able = state.able[level, line, place]
            if line >= row and (line == row) != (place == column):
                able &= ~(1 << slot)
            if able == 0 and problem.demand[line, place] > 0:
                return False
            state.able[level + 1, line, place] = able
    state.choice[level] = column
    state.denominator[level + 1] = state.denominator[level]
    for number in range(slots + 1):
        for place in range(slots + 2):
            state.tableau[level + 1, number, place] = state.tableau[level, number, place]
    return True


@register_jitable
def _bound(problem, state, level):
    """Add violated constraints to the linear program until there is none, or it is _PRUNED."""
    tableau, best = state.tableau[level], state.best
    size = len(tableau)
    cut = np.empty(size + 1, dtype=np.int64)
    while True:
        denominator, makespan = state.denominator[level], tableau[0, size]
        if max(float(makespan) * best[1], float(best[0]) * denominator) > _SAFE:
            return OVERFLOW
        if makespan * best[1] >= best[0] * denominator:
            return _PRUNED
        longer, shorter, needed, with_makespan = _most_violated(problem, state, level)
        if needed < 0:
            return _BOUNDED
        for column in range(size + 1):
            cut[column] = tableau[0, column] * with_makespan
            for slot in range(size - 1):
                cut[column] += tableau[1 + slot, column] * ((longer >> slot) & 1)
                cut[column] -= tableau[1 + slot, column] * ((shorter >> slot) & 1)
        cut[size] -= needed * denominator
        pivot = _pivot(tableau, denominator, cut)
        if pivot <= 0:
            return pivot
        state.denominator[level] = pivot


@register_jitable
def _most_violated(problem, state, level):
    """The constraint that is missed by most: two bit sets of slots, a number, and 0 or 1.

    The first slots, less the others, and with 1 the makespan as well, last at least as long as the
    number, -1 if none is missed. Times are not negative, the makespan covers every switch, and
    slots with the same first column are in order. Slots that serve columns of a set from a row, or
    still may, last as long as its demand: for single columns, and all sets of the row that is
    chosen next; and so do those that may serve a column from any row that is left.
    """
    rows, columns = problem.demand.shape
    slots = len(state.times)
    row, able, unit = level // slots, state.able[level], state.denominator[level]
    constant = state.tableau[level, :, slots + 1]
    worst, longer, shorter, needed, with_makespan = 0, 0, 0, -1, 0
    for line in range(rows):
        subset = 1
        while subset < 1 << columns:
            serving = 0
            for column in range(columns):
                if (subset >> column) & 1:
                    serving |= able[line, column]
            left = _lasting(constant, serving) - problem.subset[line, subset] * unit
            if left < worst:
                worst, longer, needed = left, serving, problem.subset[line, subset]
            subset += 1 if line == row else subset
    for column in range(columns):
        serving, wanted = 0, 0
        for line in range(row + 1, rows):
            serving |= able[line, column]
            wanted += problem.demand[line, column]
        left = _lasting(constant, serving) - wanted * unit
        if left < worst:
            worst, longer, needed = left, serving, wanted
    for switch in range(len(problem.setups)):
        used = problem.on_switch[switch]
        left = constant[0] - _lasting(constant, used) - problem.setups[switch] * unit
        if left < worst:
            worst, longer, shorter, needed = left, 0, used, problem.setups[switch]
            with_makespan = 1
    for slot in range(slots):
        after = problem.after[slot]
        if constant[1 + slot] < worst:
            worst, longer, shorter, needed = constant[1 + slot], 1 << slot, 0, 0
            with_makespan = 0
        if after >= 0 and slot < level and state.choice[slot] == state.choice[after]:
            left = constant[1 + after] - constant[1 + slot]
            if left < worst:
                worst, longer, shorter, needed = left, 1 << after, 1 << slot, 0
                with_makespan = 0
    return longer, shorter, needed, with_makespan


@register_jitable
def _lasting(constant, slots):
    """How long a bit set of slots lasts in all."""
    total = 0
    for slot in range(len(constant) - 1):
        if (slots >> slot) & 1:
            total += constant[1 + slot]
    return total


@register_jitable
def _pivot(tableau, denominator, cut):
    """Make a violated constraint tight: the new denominator, _PRUNED if it cannot be met."""
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
        return _PRUNED
    # No product of the step may overflow.
    if (
        max(factors, cut_factors) > _MAX_FACTOR
        or float(max(factors, constants)) * cut_factors > _SAFE
        or float(factors) * abs(cut[size]) > _SAFE
    ):
        return OVERFLOW
    pivot = cut[enter]
    for number in range(size):
        factor = tableau[number, enter]
        for column in range(size + 1):
            if column != enter:
                value = tableau[number, column] * pivot - factor * cut[column]
                tableau[number, column] = value // denominator
        if abs(tableau[number, size]) > _MAX_NUMBER:
            return OVERFLOW
    return pivot


@register_jitable
def _before(tableau, cut, column, other):
    """Whether a column over its entry of the cut is lexicographically less than another."""
    for number in range(len(tableau)):
        mine, theirs = tableau[number, column] * cut[other], tableau[number, other] * cut[column]
        if mine != theirs:
            return mine < theirs
    return False
