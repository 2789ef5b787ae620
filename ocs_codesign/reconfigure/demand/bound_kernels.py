"""The compiled linear program of the search for plans, exact in integers.

Its numbers are the makespan and then the durations of the slots. It is kept as a dictionary of one
tight constraint a column: number i is (tableau[i, -1] + sum of tableau[i, c] * slack[c]) /
denominator. A constraint that is violated enters by one step of the dual simplex method, and the
one that it replaces is dropped, since all are looked at again. Columns stay lexicographically
positive, so it ends. Every entry is a minor of a small integer matrix, so fractions need no more
than the common denominator.
"""

from __future__ import annotations

import numpy as np
from numba import njit

PRUNED, OVERFLOW = 0, -1
SIGN, SWITCH, ROW, REST, NOTHING = 0, 1, 2, 3, 4
SAFE = 4e18
"""Products below this fit into 64 bits with a sum of two of them."""

MAX_DENOMINATOR, MAX_ENTRY = 2**24, 2**52
"""Beyond these, sums over constraints might not fit: demands are at most 2**34."""


@njit(cache=True)
def bound(problem, state, tableau, denominator, row, slot):
    """Add violated constraints until there is none: the denominator, or PRUNED or OVERFLOW."""
    size = len(tableau)
    cut = np.empty(size + 1, dtype=np.int64)
    best = state.best
    while True:
        makespan = tableau[0, size]
        if max(float(makespan) * best[1], float(best[0]) * denominator) > SAFE:
            return OVERFLOW
        if makespan * best[1] >= best[0] * denominator:
            return PRUNED
        family, line, subset = _most_violated(problem, state, tableau, denominator, row, slot)
        if family == NOTHING:
            return denominator
        _cut(problem, state, tableau, denominator, slot, row, family, line, subset, cut)
        denominator = _pivot(tableau, denominator, cut)
        if denominator <= 0:
            return denominator


@njit(cache=True, inline="always")
def _most_violated(problem, state, tableau, denominator, row, slot):
    """The family, line and column set of the most violated constraint, or NOTHING.

    SIGN: a number is not negative. SWITCH: the makespan covers a switch. ROW: the slots that serve
    the columns of a set from a row, or still may, last as long as its demand. REST: the same for
    any so many rows after this one, where a slot serves at most so many of them; it is only asked
    for where all others hold.
    """
    size = len(tableau)
    constant = tableau[:, size]
    worst, family, line, subset = np.int64(0), NOTHING, 0, np.int64(0)
    for at in range(size):
        if constant[at] < worst:
            worst, family, line = constant[at], SIGN, at
    for switch in range(len(problem.setups)):
        left = constant[0] - problem.setup * problem.setups[switch] * denominator
        for other in range(size - 1):
            if problem.switch[other] == switch:
                left -= constant[1 + other]
        if left < worst:
            worst, family, line = left, SWITCH, switch
    for above in range(min(row, state.choice.shape[1])):
        for column in range(problem.demand.shape[1]):
            single = np.int64(1) << column
            left = _row_left(problem, state, constant, denominator, row, slot, above, single)
            if left < worst:
                worst, family, line, subset = left, ROW, above, single
    if row < state.choice.shape[1]:
        wanted = problem.wanted[row]
        some = wanted
        while some:
            left = _row_left(problem, state, constant, denominator, row, slot, row, some)
            if left < worst:
                worst, family, line, subset = left, ROW, row, some
            some = (some - 1) & wanted
    if family == NOTHING:
        family, line, subset = _rest_violated(problem, state, constant, denominator, row)
    return family, line, subset


@njit(cache=True, inline="always")
def _row_left(problem, state, constant, denominator, row, slot, line, subset):
    """How much longer than the demand the slots of a ROW constraint last."""
    left = -problem.subset[line, subset] * denominator
    if left:
        for other in range(len(constant) - 1):
            if _serves(state, slot, row, line, subset, other):
                left += constant[1 + other]
    return left


@njit(cache=True, inline="always")
def _rest_violated(problem, state, constant, denominator, row):
    """The most violated constraint on one of the rows that are left, or on all of them."""
    rows = state.choice.shape[1] - 1 - row
    worst, family, line, found = np.int64(0), NOTHING, 0, np.int64(0)
    for subset in range(1, problem.rest.shape[2] if rows > 0 else 0):
        for many in range(1, rows + 1, max(1, rows - 1)):
            left = -problem.rest[row, many, subset] * denominator
            if left == 0:
                continue
            for other in range(len(constant) - 1):
                left += min(many, _count(state.free[other] & subset)) * constant[1 + other]
            if left < worst:
                worst, family, line, found = left, REST, many, np.int64(subset)
    return family, line, found


@njit(cache=True, inline="always")
def _serves(state, slot, row, line, subset, other):
    """Whether a slot serves a column of the set from a line, or still may."""
    if line < row or other < slot:
        return (subset >> state.choice[other, line]) & 1 == 1
    return state.free[other] & subset != 0


@njit(cache=True, inline="always")
def _count(bits):
    """How many bits are set."""
    many = 0
    while bits:
        bits &= bits - 1
        many += 1
    return many


@njit(cache=True)
def _cut(problem, state, tableau, denominator, slot, row, family, line, subset, cut):
    """A constraint ``x @ factors >= needed`` in the dictionary's columns, constant last."""
    slots = len(state.choice)
    factors = np.zeros(slots + 1, dtype=np.int64)
    needed = np.int64(0)
    if family == SIGN:
        factors[line] = 1
    elif family == SWITCH:
        factors[0], needed = 1, problem.setup * problem.setups[line]
        for other in range(slots):
            if problem.switch[other] == line:
                factors[1 + other] = -1
    elif family == ROW:
        needed = problem.subset[line, subset]
        for other in range(slots):
            factors[1 + other] = _serves(state, slot, row, line, subset, other)
    else:
        needed = problem.rest[row, line, subset]
        for other in range(slots):
            factors[1 + other] = min(line, _count(state.free[other] & subset))
    for column in range(slots + 2):
        total = np.int64(0)
        for at in range(slots + 1):
            total += factors[at] * tableau[at, column]
        cut[column] = total
    cut[slots + 1] -= needed * denominator


@njit(cache=True)
def _pivot(tableau, denominator, cut):
    """Make a violated constraint tight: the new denominator, PRUNED if it cannot be met."""
    size = len(tableau)
    enter = -1
    for column in range(size):
        if cut[column] > 0 and (enter < 0 or _before(tableau, cut, column, enter)):
            enter = column
    if enter < 0:
        return np.int64(PRUNED)
    if not _fits(tableau, cut):
        return np.int64(OVERFLOW)
    pivot = cut[enter]
    for at in range(size):
        factor = tableau[at, enter]
        for column in range(size + 1):
            if column != enter:
                value = tableau[at, column] * pivot - factor * cut[column]
                tableau[at, column] = value // denominator
    for at in range(size):
        if abs(tableau[at, size]) > MAX_ENTRY:
            return np.int64(OVERFLOW)
    return pivot


@njit(cache=True)
def _fits(tableau, cut):
    """Whether no product of a step overflows."""
    size = len(tableau)
    factors, constants, cut_factors = 0.0, 0.0, 0.0
    for at in range(size):
        constants = max(constants, float(abs(tableau[at, size])))
        cut_factors = max(cut_factors, float(abs(cut[at])))
        for column in range(size):
            factors = max(factors, float(abs(tableau[at, column])))
    return (
        max(factors, cut_factors) <= MAX_DENOMINATOR
        and max(factors, constants) * cut_factors <= SAFE
        and factors * float(abs(cut[size])) <= SAFE
    )


@njit(cache=True)
def _before(tableau, cut, column, other):
    """Whether a column over its entry of the cut is lexicographically less than another."""
    for at in range(len(tableau)):
        mine, theirs = tableau[at, column] * cut[other], tableau[at, other] * cut[column]
        if mine != theirs:
            return mine < theirs
    return False
