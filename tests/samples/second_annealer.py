"""A second opinion on small sizes: annealing whose code and seeds are not the finder's.

Nothing here is imported from the search: rows of reach sets are single words, the energy is a norm
of the loads instead of their maximum, and it is cooled geometrically.
"""

from __future__ import annotations

from fractions import Fraction
from math import lcm

import numpy as np
from numba import njit

HOT, COLD = 0.6, 0.02


@njit(cache=True)
def popcount(word):
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    low = np.uint64(0x3333333333333333)
    word = (word & low) + ((word >> np.uint64(2)) & low)
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@njit(cache=True)
def score(into, steps, unit, rows, grown):
    """Pairs out of reach, the exact sum of the largest loads in 1 / unit, and the energy."""
    nodes, degree = into.shape
    one = np.uint64(1)
    everything = ~np.uint64(0) >> np.uint64(64 - nodes)
    for node in range(nodes):
        rows[node] = one << np.uint64(node)
    total, energy = 0, 0.0
    full = 1 << degree
    for _ in range(steps):
        largest, power = 0, 0.0
        missing = 0
        for node in range(nodes):
            row = rows[node]
            union = row
            for port in range(degree):
                union |= rows[into[node, port]]
            fresh = union & ~row
            grown[node] = union
            missing += union != everything
            if fresh == 0:
                continue
            load = popcount(fresh) * (unit // degree)
            for inside in range(1, full - 1):
                outside = np.uint64(0)
                size = 0
                for port in range(degree):
                    if inside >> port & 1:
                        size += 1
                    else:
                        outside |= rows[into[node, port]]
                inner = fresh & ~outside
                if inner:
                    load = max(load, popcount(inner) * (unit // size))
            largest = max(largest, load)
            share = load / unit
            square = share * share
            square *= square
            square *= square
            power += square * square
        total += largest
        energy += power ** (1.0 / 16.0)
        rows, grown = grown, rows
        if not missing:
            return 0, total, energy
    far = 0
    for node in range(nodes):
        far += popcount(everything & ~rows[node])
    return far, total, energy + 1.5 * far


@njit(cache=True)
def cool(nodes, degree, two_way, steps, unit, moves, seed, hot, cold, best_into):
    np.random.seed(seed)  # noqa: NPY002
    slots = nodes * degree
    partner = np.random.permutation(slots)  # noqa: NPY002
    mate = np.empty(slots, dtype=np.int64)
    into = np.empty((nodes, degree), dtype=np.int64)
    if two_way:
        for place in range(0, slots, 2):
            a, b = partner[place], partner[place + 1]
            mate[a], mate[b] = b, a
    else:
        for place in range(slots):
            mate[place] = partner[place]
    for slot in range(slots):
        into[slot // degree, slot % degree] = mate[slot] // degree
    rows, grown = np.empty(nodes, dtype=np.uint64), np.empty(nodes, dtype=np.uint64)
    far, total, energy = score(into, steps, unit, rows, grown)
    best_far, best_total = far, total
    best_into[:] = into
    for move in range(moves):
        temperature = hot * (cold / hot) ** (move / moves)
        a, c = np.random.randint(slots), np.random.randint(slots)  # noqa: NPY002
        b, e = mate[a], mate[c]
        if a // degree == c // degree or b // degree == e // degree:
            continue
        if two_way:
            if a == e or b == c or c // degree == b // degree or a // degree == e // degree:
                continue
            mate[a], mate[e], mate[c], mate[b] = e, a, b, c
            into[b // degree, b % degree] = c // degree
            into[e // degree, e % degree] = a // degree
        else:
            mate[a], mate[c] = e, b
        into[a // degree, a % degree] = mate[a] // degree
        into[c // degree, c % degree] = mate[c] // degree
        far, total, new = score(into, steps, unit, rows, grown)
        if new <= energy or np.random.random() < np.exp((energy - new) / temperature):  # noqa: NPY002
            energy = new
            if far < best_far or (far == best_far and total < best_total):
                best_far, best_total = far, total
                best_into[:] = into
            continue
        mate[a], mate[c] = b, e
        into[a // degree, a % degree] = b // degree
        into[c // degree, c % degree] = e // degree
        if two_way:
            mate[b], mate[e] = a, c
            into[b // degree, b % degree] = a // degree
            into[e // degree, e % degree] = c // degree
    return best_far, best_total


def annealed(nodes, degree, two_way, steps, moves, seeds):
    """Least t_b in at most so many steps and its in-lists, (None, None) if none is that short."""
    unit = lcm(*range(1, degree + 1))
    best, links = None, None
    into = np.empty((nodes, degree), dtype=np.int64)
    for seed in seeds:
        far, total = cool(nodes, degree, two_way, steps, unit, moves, seed, HOT, COLD, into)
        if not far and (best is None or total < best):
            best, links = total, into.tolist()
    return (None, None) if best is None else (Fraction(best * degree, unit * nodes), links)
