"""Compiled ranking of sequences of generator sets by the hops from one node to all others."""

from __future__ import annotations

import numpy as np
from numba import njit

FAR = 1 << 30


@njit(cache=True)
def hop_sum_in_order(moved, generators, work):
    """Sum of the hops to all elements, sets (rows of ``generators``) used in order.

    ``moved[s, v]`` is v * s. An element that is not reached counts as as many hops as there are
    elements. ``work`` is an int64 workspace of degree + 4 rows of one entry an element.
    """
    distance, order, previous, queue = work[0], work[1], work[2], work[3:].reshape(-1)
    elements = len(distance)
    distance[:] = FAR
    distance[0], order[0] = 0, 0
    known = 1
    for phase in range(generators.shape[0]):
        # Those known come in ascending distance, and so do those found on the way: merge them.
        previous[:] = order
        first, last, front, settled = 0, 0, 0, 0
        while front < known or first < last:
            if first == last or (
                front < known and distance[previous[front]] <= distance[queue[first]]
            ):
                element = previous[front]
                front += 1
            else:
                element = queue[first]
                first += 1
            near = distance[element]
            if near < 0:
                continue
            order[settled] = element
            settled += 1
            for i in range(generators.shape[1]):
                other = moved[generators[phase, i], element]
                if distance[other] > near + 1:
                    distance[other] = near + 1
                    queue[last] = other
                    last += 1
            distance[element] = -1 - near  # settled in this phase
        for place in range(settled):
            distance[order[place]] = -1 - distance[order[place]]
        known = settled
    total = elements * (elements - known)
    for place in range(known):
        total += distance[order[place]]
    return total


@njit(cache=True)
def hop_sums(moved, generators, sums, work):
    """Fill ``sums`` with the hop sum of every sequence, shape (sequences, phases, degree)."""
    for row in range(len(sums)):
        sums[row] = hop_sum_in_order(moved, generators[row], work)


@njit(cache=True)
def anneal(moved, now, rounds, words, temperature, least, pool, sums, work):
    """Change one generator at a time towards small hop sums, from the first numbers drawn.

    Returns how many sequences are pooled and how many were ranked.

    The first sequences of the least sum that was met fill ``pool`` (entries, phases, degree) and
    ``sums``. A change for the worse by x is kept with probability exp(-x / temperature). Ends
    early when the pool is full of sums of ``least``. ``now`` is the workspace of a sequence, and
    ``words`` (uint64) are what a PCG64 gives, drawn from as numpy's Generator does. Source:
    Metropolis et al. (1953).
    """
    elements, (phases, degree) = moved.shape[1], now.shape
    drawn = np.zeros(3, dtype=np.int64)
    for phase in range(phases):
        for i in range(degree):
            now[phase, i] = 1 + draw(words, drawn, elements - 1)
    current = hop_sum_in_order(moved, now, work)
    pool[0], sums[0], pooled, ranked = now, current, 1, 1
    for _ in range(rounds):
        if pooled == len(pool) and sums[0] <= least:
            break
        phase, i = draw(words, drawn, phases), draw(words, drawn, degree)
        before = now[phase, i]
        now[phase, i] = 1 + draw(words, drawn, elements - 1)
        if now[phase, i] == before:
            continue
        ranked += 1
        after = hop_sum_in_order(moved, now, work)
        if after > current:
            chance = (words[drawn[0]] >> np.uint64(11)) * 2.0**-53
            drawn[0] += 1
            if chance >= np.exp((current - after) / temperature):
                now[phase, i] = before
                continue
        current = after
        if current < sums[0]:
            pooled = 0
        if pooled == 0 or (current == sums[0] and pooled < len(pool)):
            pool[pooled], sums[pooled] = now, current
            pooled += 1
    return pooled, ranked


@njit(cache=True)
def draw(words, drawn, below):
    """A number from 0 to ``below`` - 1 out of half a word, without bias.

    ``drawn`` counts the words that are used up, and holds the upper half of one, and whether that
    is still to be used. Source: D. Lemire (2019), Fast random integer generation in an interval.
    """
    if below == 1:
        return 0
    while True:
        half = np.uint64(drawn[1])
        if not drawn[2]:
            word = words[drawn[0]]
            drawn[0] += 1
            half = word & np.uint64(0xFFFFFFFF)
            drawn[1] = np.int64(word >> np.uint64(32))
        drawn[2] = 1 - drawn[2]
        scaled = half * np.uint64(below)
        if scaled & np.uint64(0xFFFFFFFF) >= np.uint64((1 << 32) % below):
            return np.int64(scaled >> np.uint64(32))
