"""Compiled scoring of generator sets, one breadth-first search a set."""

from __future__ import annotations

import numpy as np


def score_sets(table, inverse, generators, unit, least, steps, total, line_total):
    """Fill ``steps`` and ``total`` load (in 1 / ``unit``) of every set that is not dominated.

    ``least[k]`` is the least total load of a set with at most k steps, updated on the way. A set is
    dropped when what it has so far, plus an even spread of what it lacks, is more than that.
    ``line_total`` is the total load of the line digraph, by the formula of ``line_bfb_loads``.
    """
    order = table.shape[0]
    degree = generators.shape[1]
    subsets = 1 << degree
    distance = np.empty(order, dtype=np.int32)
    mask = np.empty(order, dtype=np.int64)
    queue = np.empty(order, dtype=np.int32)
    confined = np.empty(subsets, dtype=np.int64)
    share = np.zeros(subsets, dtype=np.int64)
    for inside in range(1, subsets):
        links = 0
        for i in range(degree):
            links += (inside >> i) & 1
        share[inside] = unit // links
    for row in range(generators.shape[0]):
        steps[row] = 0
        total[row] = 0
        distance[:] = -1
        distance[0] = 0
        mask[:] = 0
        queue[0] = 0
        first, last = 0, 1
        level = 0
        load_sum = 0
        line_sum = unit
        while first < last:
            level += 1
            end = last
            for position in range(first, last):
                for i in range(degree):
                    source = table[inverse[generators[row, i]], queue[position]]
                    if distance[source] < 0:
                        distance[source] = level
                        queue[end] = source
                        end += 1
                    if distance[source] == level:
                        mask[source] |= 1 << i
            first, last = last, end
            if first == last:
                break
            confined[:] = 0
            for position in range(first, last):
                confined[mask[queue[position]]] += 1
            for i in range(degree):
                for inside in range(subsets):
                    if inside >> i & 1:
                        confined[inside] += confined[inside ^ (1 << i)]
            # A source next to the identity on every link is the receiver of one of them.
            next_hops = 0
            for i in range(degree):
                if distance[generators[row, i]] == level:
                    next_hops |= mask[generators[row, i]]
                else:
                    next_hops |= subsets
            load = 0
            line_load = 0
            for inside in range(1, subsets):
                load = max(load, confined[inside] * share[inside])
                own = (next_hops | inside) == inside
                line_load = max(line_load, (degree * confined[inside] - own) * share[inside])
            load_sum += load
            line_sum += line_load
            if last == order:
                steps[row] = level
                total[row] = load_sum
                line_total[row] = line_sum
                for k in range(level, order + 1):
                    if least[k] <= load_sum:
                        break
                    least[k] = load_sum
                break
            if load_sum + (order - last) * unit // degree > least[level]:
                break


def sum_hops(table, generators, sums):
    """Fill ``sums`` with the distances from the identity, added up, of every set worth knowing.

    A set is dropped (0) if it does not generate the group, or as soon as its sum must be more than
    an eighth above the least so far: those out of reach are at least one level further, and no
    level has more than ``degree`` times the elements of the one before.
    """
    order, degree = table.shape[0], generators.shape[1]
    distance = np.empty(order, dtype=np.int32)
    queue = np.empty(order, dtype=np.int32)
    limit = 1 << 62
    for row in range(generators.shape[0]):
        sums[row] = 0
        distance[:] = -1
        distance[0] = queue[0] = 0
        first, last, level, total = 0, 1, 0, 0
        while last < order:
            end = last
            level += 1
            for i in range(degree):
                product = table[generators[row, i]]
                for place in range(first, last):
                    element = product[queue[place]]
                    if distance[element] < 0:
                        distance[element] = level
                        queue[end] = element
                        end += 1
            total += level * (end - last)
            next_most = min(order - end, degree * (end - last))
            if end == last or total + (level + 2) * (order - end) - next_most > limit:
                break
            first, last = last, end
        if last == order:
            sums[row] = total
            limit = min(limit, total + total // 8)
