"""Simulated annealing of voltages on the sum of hops from the chips of one cube."""

from __future__ import annotations

import numpy as np

from ocs_codesign.schedules.breadth_first.kernels import ones_in

_1 = np.uint64(1)


def hop_sum(heads, chips, reached, grown, most):
    """Hops from the first ``chips`` nodes, 64 at most, to all; more than ``most`` is told early.

    ``heads`` (nodes x directions) are neighbours both ways, -1 for none; ``reached`` and ``grown``
    are uint64 workspaces, a word a node. A graph that is not connected has 2^60.
    """
    nodes = len(heads)
    reached[:] = np.uint64(0)
    for chip in range(chips):
        reached[chip] = _1 << np.uint64(chip)
    left, total = chips * (nodes - 1), 0
    while left > 0:
        total += left
        if total > most:
            return total
        new = 0
        for node in range(nodes):
            word = reached[node]
            for direction in range(heads.shape[1]):
                if heads[node, direction] >= 0:
                    word |= reached[heads[node, direction]]
            grown[node] = word
            if word != reached[node]:
                new += ones_in(word ^ reached[node])
        if new == 0:
            return 1 << 60
        left -= new
        reached, grown = grown, reached
    return total


def join(heads, table, ports, switch, voltage):
    """Let a switch (its dimension, + chip and - chip) join cubes c to ``table[c, voltage]``."""
    chips = len(heads) // len(table)
    direction, plus, minus = 2 * ports[switch, 0], ports[switch, 1], ports[switch, 2]
    for cube in range(len(table)):
        up, down = cube * chips + plus, table[cube, voltage] * chips + minus
        heads[up, direction] = down
        heads[down, direction + 1] = up


def anneal(heads, table, ports, member, image, allowed, num_allowed, draws, heats, voltages):
    """Change the voltage of an orbit of switches a draw; the least sum of hops, in place the best.

    Orbit o has the switches ``member[o]``, -1 behind them, each with the voltage ``image[o, i, x]``
    where the orbit has x, one of the first ``num_allowed[o]`` of ``allowed[o]``. ``draws`` (moves x
    3, float64 in [0, 1)) pick the orbit, the voltage and whether a worse one is taken at ``heats``.
    """
    reached = np.empty(len(heads), dtype=np.uint64)
    grown = np.empty(len(heads), dtype=np.uint64)
    chips = len(heads) // len(table)
    now = hop_sum(heads, chips, reached, grown, np.int64(1) << 61)
    best, kept = now, voltages.copy()
    for move in range(len(draws)):
        orbit = np.int64(draws[move, 0] * len(voltages))
        old = voltages[orbit]
        new = allowed[orbit, np.int64(draws[move, 1] * num_allowed[orbit])]
        if new == old:
            continue
        for place in range(member.shape[1]):
            if member[orbit, place] >= 0:
                join(heads, table, ports, member[orbit, place], image[orbit, place, new])
        most = now - heats[move] * np.log(draws[move, 2] + 1e-300)
        hops = hop_sum(heads, chips, reached, grown, np.int64(min(most, 1e15)))
        if hops <= most:
            now = hops
            voltages[orbit] = new
            if now < best:
                best = now
                kept[:] = voltages
        else:
            for place in range(member.shape[1]):
                if member[orbit, place] >= 0:
                    join(heads, table, ports, member[orbit, place], image[orbit, place, old])
    voltages[:] = kept
    return best
