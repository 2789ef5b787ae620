"""Compiled makers of configurations for a demand matrix; all times are integers in one unit.

A plan is ``permutations[k, i]``, the column that row i's circuit goes to in configuration k, and
``times[k]``; kernels that make one fill both from the front and return how many there are.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True)
def match(weight, column_of, v):
    """Fill ``column_of`` with a perfect matching of the largest weight (float, n by n).

    Shortest augmenting paths over reduced costs, after a start from the rows' best columns. ``v``
    gets the columns' part of the optimal potentials: no matching weighs more than the sum of
    -v[j] and of the largest weight[i, j] + v[j] of every row i.
    """
    n = len(weight)
    u = np.empty(n)
    v[:] = 0.0
    row_of = np.full(n, -1)
    column_of[:] = -1
    for row in range(n):
        best = np.argmax(weight[row])
        u[row] = -weight[row, best]
        if row_of[best] < 0:
            row_of[best], column_of[row] = row, best
    distance, before = np.empty(n), np.empty(n, dtype=np.int64)
    done = np.empty(n, dtype=np.bool_)
    for row in range(n):
        if column_of[row] < 0:
            _augment(weight, row, u, v, row_of, column_of, distance, before, done)


@njit(cache=True)
def _augment(weight, start, u, v, row_of, column_of, distance, before, done):
    """One more row in the matching, along the path of the least reduced cost."""
    n = len(weight)
    distance[:] = np.inf
    done[:] = False
    row, reached = start, 0.0
    while True:
        nearest = -1
        for column in range(n):
            if done[column]:
                continue
            length = reached - weight[row, column] - u[row] - v[column]
            if length < distance[column]:
                distance[column], before[column] = length, row
            if nearest < 0 or distance[column] < distance[nearest]:
                nearest = column
        reached = distance[nearest]
        done[nearest] = True
        if row_of[nearest] < 0:
            break
        row = row_of[nearest]
    u[start] += reached
    for column in range(n):
        if done[column] and row_of[column] >= 0:
            u[row_of[column]] += reached - distance[column]
            v[column] -= reached - distance[column]
    column = nearest
    while True:
        row = before[column]
        row_of[column] = row
        column, column_of[row] = column_of[row], column
        if row == start:
            break


@njit(cache=True)
def cover(left, setup, power, finish, levels, window, noise, rng, permutations, times, made):
    """Serve all of ``left`` (changed) greedily, from place ``made`` on; -1 if there is no room.

    Every configuration is the matching and time with the largest value over time + setup. An entry
    is worth what is sent of it and ``finish`` setups if that is all; entries of lines that still
    need long (their sum, and a setup an entry) are worth more, by their share to the ``power``.
    Times are tried at ``levels`` quantiles of the entries, up to ``window`` from that of the last.
    """
    n = len(left)
    row_weight, column_weight = np.empty(n), np.empty(n)
    column_of, best_of = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    weight, potential = np.empty((n, n)), np.empty(n)
    place = levels // 2
    while True:
        values = np.sort(left.ravel()[left.ravel() > 0])
        if len(values) == 0:
            return made
        if made == len(times):
            return -1
        _need(left, setup, power, row_weight, column_weight)
        best, best_at, before = -1.0, place, np.int64(0)
        for at in range(max(0, place - window), min(levels, place + window + 1)):
            level = values[at * (len(values) - 1) // max(1, levels - 1)]
            if level == before:
                continue
            before = level
            _value(left, level, setup, finish, row_weight, column_weight, weight)
            match(weight, column_of, potential)
            score = 0.0
            for row in range(n):
                score += weight[row, column_of[row]]
            score *= (1.0 + noise * rng.random()) / (level + setup)
            if score > best:
                best, best_at, best_time = score, at, level
                best_of[:] = column_of
        place = best_at
        longest = np.int64(0)
        for row in range(n):
            longest = max(longest, left[row, best_of[row]])
        times[made] = min(best_time, longest)
        permutations[made] = best_of
        for row in range(n):
            left[row, best_of[row]] = max(0, left[row, best_of[row]] - times[made])
        made += 1


@njit(cache=True)
def _need(left, setup, power, row_weight, column_weight):
    """What every line still needs, as a share of the largest, to a power."""
    row_weight[:] = 0.0
    column_weight[:] = 0.0
    n = len(left)
    for row in range(n):
        for column in range(n):
            if left[row, column] > 0:
                row_weight[row] += left[row, column] + setup
                column_weight[column] += left[row, column] + setup
    most = max(row_weight.max(), column_weight.max())
    for line in range(n):
        row_weight[line] = (row_weight[line] / most) ** power
        column_weight[line] = (column_weight[line] / most) ** power


@njit(cache=True)
def _value(left, level, setup, finish, row_weight, column_weight, weight):
    """What every entry is worth to a configuration of this time."""
    n = len(left)
    for row in range(n):
        for column in range(n):
            entry = left[row, column]
            value = 0.0
            if entry > 0:
                value = float(min(entry, level))
                if entry <= level:
                    value += finish * setup
            weight[row, column] = value * (row_weight[row] + column_weight[column])


@njit(cache=True)
def stuff(demand):
    """Fill the matrix up, where it has entries first, until all lines have the largest sum."""
    rows, columns = demand.sum(1), demand.sum(0)
    most = max(rows.max(), columns.max())
    for everywhere in range(2):
        for row in range(len(demand)):
            for column in range(len(demand)):
                if everywhere or demand[row, column] > 0:
                    more = most - max(rows[row], columns[column])
                    demand[row, column] += more
                    rows[row] += more
                    columns[column] += more


@njit(cache=True)
def decompose(left, shrink, permutations, times):
    """Birkhoff's decomposition of a matrix with equal line sums; -1 if there is no room.

    Each configuration is a perfect matching of entries of at least a threshold, held for the least
    of them. When there is none left, the threshold shrinks to ``shrink`` / 16 of itself.
    """
    n = len(left)
    threshold = left.max()
    row_of, column_of = np.full(n, -1), np.full(n, -1)
    seen = np.empty(n, dtype=np.bool_)
    made = 0
    while left.max() > 0:
        matched = True
        for row in range(n):
            if column_of[row] < 0:
                seen[:] = False
                if not _reroute(left, threshold, row, row_of, column_of, seen):
                    matched = False
                    break
        if not matched:
            threshold = max(np.int64(1), threshold * shrink // 16)
            continue
        if made == len(times):
            return -1
        least = left[0, column_of[0]]
        for row in range(n):
            least = min(least, left[row, column_of[row]])
        permutations[made], times[made] = column_of, least
        made += 1
        for row in range(n):
            column = column_of[row]
            left[row, column] -= least
            if left[row, column] < threshold:
                row_of[column] = column_of[row] = -1
    return made


@njit(cache=True)
def _reroute(left, threshold, start, row_of, column_of, seen):
    """One more row in a matching of entries of at least a threshold; False if there is no way."""
    n = len(left)
    stack, before = np.empty(n + 1, dtype=np.int64), np.full(n, -1)
    stack[0], size = start, 1
    while size:
        size -= 1
        row = stack[size]
        for column in range(n):
            if seen[column] or left[row, column] < threshold:
                continue
            seen[column], before[column] = True, row
            if row_of[column] >= 0:
                stack[size] = row_of[column]
                size += 1
                continue
            while column >= 0:
                row = before[column]
                row_of[column] = row
                column, column_of[row] = column_of[row], column
            return True
    return False


@njit(cache=True)
def shorten(demand, permutations, times, switch, made):
    """Shorten configurations as far as the others serve the demand, short ones first.

    Those that are not needed are removed; returns how many are left.
    """
    n = len(demand)
    spare = -demand
    for at in range(made):
        for row in range(n):
            spare[row, permutations[at, row]] += times[at]
    for at in np.argsort(times[:made], kind="mergesort"):
        less = times[at]
        for row in range(n):
            if demand[row, permutations[at, row]] > 0:
                less = min(less, spare[row, permutations[at, row]])
        if less > 0:
            times[at] -= less
            for row in range(n):
                spare[row, permutations[at, row]] -= less
    kept = 0
    for at in range(made):
        if times[at] > 0:
            permutations[kept], times[kept] = permutations[at], times[at]
            switch[kept] = switch[at]
            kept += 1
    return kept


@njit(cache=True)
def priced(demand, prices, levels, columns, potentials):
    """The configuration of every time whose sent demand is worth most at a price an entry.

    ``prices`` and ``levels`` are floats; ``columns`` and ``potentials`` get a row a level.
    """
    n = len(demand)
    weight = np.empty((n, n))
    for at in range(len(levels)):
        for row in range(n):
            for column in range(n):
                weight[row, column] = prices[row, column] * min(levels[at], demand[row, column])
        match(weight, columns[at], potentials[at])
