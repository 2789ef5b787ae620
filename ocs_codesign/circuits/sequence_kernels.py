"""Ranking of sequences of generator sets by the hops from one node to all others."""

from __future__ import annotations

import math

from ocs_codesign.search.move_kernels import draw, draw_real

FAR = 1 << 30


def hop_sum_in_order(moved, generators, row, distance, order, previous, queue):
    """Sum of the hops to all elements, sets (of a row of ``generators``) used in order.

    ``moved[s, v]`` is v * s. An element that is not reached counts as as many hops as there are
    elements. The last four are int64 workspaces of an entry an element, ``queue`` of degree + 1.
    """
    elements = len(distance)
    for element in range(elements):
        distance[element] = FAR
    distance[0], order[0] = 0, 0
    known = 1
    for phase in range(generators.shape[1]):
        # Those known come in ascending distance, and so do those found on the way: merge them.
        for place in range(known):
            previous[place] = order[place]
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
            for i in range(generators.shape[2]):
                other = moved[generators[row, phase, i], element]
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


def hop_sums(moved, generators, sums, distance, order, previous, queue):
    """Fill ``sums`` with the hop sum of every sequence, shape (sequences, phases, degree)."""
    for row in range(len(sums)):
        sums[row] = hop_sum_in_order(moved, generators, row, distance, order, previous, queue)


def anneal(
    moved, pool, sums, rounds, words, drawn, temperature, least, distance, order, previous, queue
):
    """Change one generator at a time towards small hop sums, from the first numbers drawn.

    Returns how many sequences are pooled and how many were ranked.

    The first sequences of the least sum that was met fill ``sums`` and all but the last entry of
    ``pool`` (entries, phases, degree), in which the one that changes is. A change for the worse by
    x is kept with probability exp(-x / temperature). Ends early when the pool is full of sums of
    ``least``. ``words`` and ``drawn`` are those of ``draw``. Source: Metropolis et al. (1953).
    """
    now, phases, degree = len(sums), pool.shape[1], pool.shape[2]
    others = moved.shape[1] - 1
    current, pooled, ranked = 0, 0, 0
    for done in range(-1, rounds):
        if pooled == len(sums) and sums[0] <= least:
            break
        if done < 0:
            for phase in range(phases):
                for i in range(degree):
                    pool[now, phase, i] = 1 + draw(words, drawn, others)
        else:
            phase, i = draw(words, drawn, phases), draw(words, drawn, degree)
            before = pool[now, phase, i]
            pool[now, phase, i] = 1 + draw(words, drawn, others)
            if pool[now, phase, i] == before:
                continue
        ranked += 1
        after = hop_sum_in_order(moved, pool, now, distance, order, previous, queue)
        is_worse = done >= 0 and after > current
        if is_worse and draw_real(words, drawn) >= math.exp((current - after) / temperature):
            pool[now, phase, i] = before
            continue
        current = after
        if pooled and current < sums[0]:
            pooled = 0
        if pooled == 0 or (current == sums[0] and pooled < len(sums)):
            for phase in range(phases):
                for i in range(degree):
                    pool[pooled, phase, i] = pool[now, phase, i]
            sums[pooled] = current
            pooled += 1
    return pooled, ranked
