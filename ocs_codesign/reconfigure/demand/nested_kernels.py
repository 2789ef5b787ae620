"""Compiled plans of about as many configurations as a line has entries: large ones together."""

from __future__ import annotations

import numpy as np
from numba import njit

from ocs_codesign.reconfigure.demand.kernels import match

MOST_SLACK = 4
"""Lines that can be left out as often as this, or more often, count alike."""

URGENT, LESS_URGENT = 4.0, 0.1
"""What a line counts, n times, that cannot be left out; and the factor for every time it can."""


@njit(cache=True)
def nest(left, extra, power, noise, rng, permutations, times, made):
    """Serve all of ``left`` (changed) from place ``made`` on, longest first; -1 for no room.

    ``extra`` configurations more than the most entries of a line are aimed at, so a line can split
    as many entries. The k-th longest of those still to come lasts at least as long as the k-th
    largest entry of a line that has as many entries as there are configurations, and with fewer
    entries of the next smaller ones; it lasts longer if the busiest line needs more than all these
    times. A line can be left out as often as its entries, moved down as many places, still fit;
    lines that cannot be left out come first, with an entry that is large enough for the others to
    fit. Then what is sent counts, more for lines with larger sums, by their share to the ``power``.
    """
    n = len(left)
    rows, columns = _descending(left), _descending(left.T)
    entries = np.empty((2, n), dtype=np.int64)
    slack, least = np.empty((2, n), dtype=np.int64), np.empty((2, n), dtype=np.int64)
    share, potential = np.empty((2, n)), np.empty(n)
    weight = np.empty((n, n))
    to_come = -1
    while True:
        _count_entries(rows, entries[0])
        _count_entries(columns, entries[1])
        most = entries.max()
        if most == 0:
            return made
        if made == len(times):
            return -1
        to_come = most + extra if to_come < 0 else max(to_come - 1, most)
        profile = np.zeros(to_come, dtype=np.int64)
        _raise_profile(rows, entries[0], profile)
        _raise_profile(columns, entries[1], profile)
        sums = np.sum(rows, axis=1), np.sum(columns, axis=1)
        whole = max(sums[0].max(), sums[1].max(), profile.sum())
        time = profile[0] - (profile.sum() - whole) // to_come
        for side in range(2):
            lines = rows if side == 0 else columns
            _find_slacks(lines, entries[side], profile, slack[side], least[side])
            for line in range(n):
                share[side, line] = (sums[side][line] / whole) ** power
        _weigh(left, time, slack, least, share, noise, rng, weight)
        match(weight, permutations[made], potential)
        longest = np.int64(0)
        for row in range(n):
            longest = max(longest, left[row, permutations[made, row]])
        times[made] = min(time, longest)
        for row in range(n):
            column = permutations[made, row]
            old = left[row, column]
            if old > 0:
                new = max(np.int64(0), old - times[made])
                left[row, column] = new
                _replace(rows[row], old, new)
                _replace(columns[column], old, new)
        made += 1


@njit(cache=True)
def _weigh(left, time, slack, least, share, noise, rng, weight):
    """What every entry is worth to a configuration of this time."""
    n = len(left)
    for row in range(n):
        for column in range(n):
            entry = left[row, column]
            value = 0.0
            if entry > 0:
                value = min(entry, time) / time + (0.1 if entry <= time else 0.0)
                value *= 0.05 + share[0, row] + share[1, column]
                value *= 1.0 + noise * rng.random()
                if entry >= least[0, row]:
                    value += URGENT * n * LESS_URGENT ** slack[0, row]
                if entry >= least[1, column]:
                    value += URGENT * n * LESS_URGENT ** slack[1, column]
            weight[row, column] = value


@njit(cache=True)
def _descending(matrix):
    """The entries of every row, largest first."""
    lines = np.empty(matrix.shape, dtype=np.int64)
    for line in range(len(matrix)):
        lines[line] = np.sort(matrix[line])[::-1]
    return lines


@njit(cache=True)
def _count_entries(lines, entries):
    """How many entries every line has."""
    for line in range(len(lines)):
        entries[line] = np.count_nonzero(lines[line])


@njit(cache=True)
def _raise_profile(lines, entries, profile):
    """Raise times so that every line fits when it splits as many of its entries as it can."""
    for line in range(len(lines)):
        spare = len(profile) - entries[line]
        for at in range(spare, entries[line]):
            profile[at - spare] = max(profile[at - spare], lines[line, at])


@njit(cache=True)
def _find_slacks(lines, entries, profile, slack, least):
    """How often every line can be left out, and how large an entry it needs when it cannot."""
    to_come = len(profile)
    for line in range(len(lines)):
        slack[line], least[line] = MOST_SLACK, 1
        for skipped in range(1, MOST_SLACK + 1):
            spare = to_come - entries[line] - skipped
            for at in range(max(0, spare), entries[line]):
                if at - spare >= to_come or lines[line, at] > profile[at - spare]:
                    slack[line], least[line] = skipped - 1, lines[line, at]
                    break
            if slack[line] < MOST_SLACK:
                break


@njit(cache=True)
def _replace(entries, old, new):
    """Put a smaller number in the place of one of a list in descending order."""
    at = 0
    while entries[at] != old:
        at += 1
    while at + 1 < len(entries) and entries[at + 1] > new:
        entries[at] = entries[at + 1]
        at += 1
    entries[at] = new
