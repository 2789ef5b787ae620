"""Compiled ranking of sequences of generator sets by the hops from one node to all others."""

from __future__ import annotations

import numpy as np
from numba import njit

FAR = 1 << 30


@njit(cache=True)
def hop_sum_in_order(moved, generators, distance, order, queue):
    """Sum of the hops to all elements, sets (rows of ``generators``) used in order.

    ``moved[s, v]`` is v * s. An element that is not reached counts as as many hops as there are
    elements. ``distance``, ``order`` and ``queue`` are workspaces of one entry an element.
    """
    elements = moved.shape[1]
    distance[:] = FAR
    distance[0], order[0] = 0, 0
    known = 1
    for phase in range(generators.shape[0]):
        # Those known come in ascending distance, and so do those found on the way: merge them.
        first, last, front, settled = 0, 0, 0, 0
        previous = order[:known].copy()
        while front < known or first < last:
            if first == last or (
                front < known and distance[previous[front]] <= distance[queue[first]]
            ):
                element = previous[front]
                front += 1
                if distance[element] < 0:
                    continue
            else:
                element = queue[first]
                first += 1
                if distance[element] < 0:
                    continue
            near = distance[element]
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
def hop_sums(moved, generators, sums):
    """Fill ``sums`` with the hop sum of every sequence, shape (sequences, phases, degree)."""
    elements = moved.shape[1]
    distance = np.empty(elements, dtype=np.int64)
    order = np.empty(elements, dtype=np.int64)
    queue = np.empty(elements * (generators.shape[2] + 1), dtype=np.int64)
    for row in range(generators.shape[0]):
        sums[row] = hop_sum_in_order(moved, generators[row], distance, order, queue)


@njit(cache=True)
def anneal(moved, phases, degree, rounds, rng, temperature, least, pool, sums):
    """Change one generator at a time, drawn by ``rng``, towards small hop sums.

    Returns how many sequences are pooled and how many were ranked.

    The first sequences of the least sum that was met fill ``pool`` (entries, phases, degree) and
    ``sums``. A change for the worse by x is kept with probability exp(-x / temperature). Ends
    early when the pool is full of sums of ``least``. Source: Metropolis et al. (1953).
    """
    elements = moved.shape[1]
    distance = np.empty(elements, dtype=np.int64)
    order = np.empty(elements, dtype=np.int64)
    queue = np.empty(elements * (degree + 1), dtype=np.int64)
    now = np.empty((phases, degree), dtype=np.int64)
    for phase in range(phases):
        for i in range(degree):
            now[phase, i] = rng.integers(1, elements)
    current = hop_sum_in_order(moved, now, distance, order, queue)
    pool[0], sums[0], pooled, ranked = now, current, 1, 1
    for _ in range(rounds):
        if pooled == len(pool) and sums[0] <= least:
            break
        phase, i = rng.integers(0, phases), rng.integers(0, degree)
        before = now[phase, i]
        now[phase, i] = rng.integers(1, elements)
        if now[phase, i] == before:
            continue
        ranked += 1
        after = hop_sum_in_order(moved, now, distance, order, queue)
        if after > current and rng.random() >= np.exp((current - after) / temperature):
            now[phase, i] = before
            continue
        current = after
        if current < sums[0]:
            pooled = 0
        if pooled == 0 or (current == sums[0] and pooled < len(pool)):
            pool[pooled], sums[pooled] = now, current
            pooled += 1
    return pooled, ranked
