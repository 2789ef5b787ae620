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


def count_singles(table, generators, steps, single):
    """Fill, for sets of at most ``steps`` steps, how many elements are that far from the identity
    by a single walk.

    Walks are counted level by level. A set is dropped as soon as what it lacks cannot be reached in
    the levels that are left, each ``degree`` times the one before.
    """
    order, degree = table.shape[0], generators.shape[1]
    distance = np.empty(order, dtype=np.int32)
    walks = np.empty(order, dtype=np.int64)
    longer = np.empty(order, dtype=np.int64)
    for row in range(generators.shape[0]):
        distance[:] = -1
        walks[:] = 0
        distance[0] = 0
        walks[0] = reached = 1
        for level in range(1, steps + 1):
            longer[:] = 0
            for i in range(degree):
                product = table[generators[row, i]]
                for element in range(order):
                    if walks[element]:
                        longer[product[element]] += walks[element]
            new = 0
            for element in range(order):
                walks[element] = longer[element]
                if walks[element] and distance[element] < 0:
                    distance[element] = level
                    new += 1
            reached += new
            most = reached
            for _ in range(level, steps):
                new *= degree
                most += new
            if most < order:
                break
        if reached == order:
            single[row] = 0
            for element in range(order):
                single[row] += distance[element] == steps and walks[element] == 1


# Compiled scoring of affine digraphs with spliced loops: exact loads, given up early.


def score_affine(nodes, units, shifts, turn, share, most_visits, least, best):
    """Fill ``best[k]`` with the row that has the least total load in at most k steps.

    ``least[k]`` is that load. A row (q, shifts) is dropped once what its receivers, taken in
    ``turn``, show of the largest loads is more than that. Rows are scored until ``most_visits``
    nodes have been visited; returns the visits.
    """
    degree = shifts.shape[1]
    into = np.empty(nodes * degree, dtype=np.int32)
    looped = np.empty(nodes * degree, dtype=np.int64)
    work = (
        np.empty(nodes, dtype=np.int32),
        np.empty(nodes, dtype=np.int64),
        np.empty(nodes, dtype=np.int32),
        np.empty(1 << degree, dtype=np.int64),
        np.empty(len(least), dtype=np.int64),
    )
    visits = 0
    for row in range(len(units)):
        if visits > most_visits:
            break
        splice(nodes, units[row], shifts[row], into, looped)
        steps, total, looked_at = score_digraph(into, degree, share, turn, least, work)
        visits += (looked_at + 1) * nodes
        for k in range(steps, len(least)):
            if steps and total < least[k]:
                least[k], best[k] = total, row
    return visits


def splice(nodes, q, shifts, into, looped):
    """The in-neighbour of every slot (node * degree + port) after loops are led on.

    Loops of one port follow each other if a port has several; those of all ports if each has one.
    """
    degree = len(shifts)
    count = 0
    several = False
    for port in range(degree):
        head, first = shifts[port], count
        for node in range(nodes):
            into[head * degree + port] = node
            if head == node:
                looped[count] = head * degree + port
                count += 1
            head += q
            if head >= nodes:
                head -= nodes
        if count > first + 1:
            several = True
            lead_on(degree, into, looped, first, count)
    if not several:
        lead_on(degree, into, looped, 0, count)


def lead_on(degree, into, looped, first, last):
    """The slots of looped nodes come from the one before, cyclically."""
    for place in range(first, last):
        before = looped[place - 1] if place > first else looped[last - 1]
        into[looped[place]] = before // degree


def score_digraph(into, degree, share, turn, least, work):
    """Steps, the sum of the largest loads, and the number of receivers that were looked at.

    Steps are 0 if some pair is out of reach within ``len(least) - 1`` steps, or if the sum is more
    than ``least`` has for as many steps as were seen; the receiver that shows it moves forward in
    ``turn``, for it is likely to show it of the next one.
    """
    distance, mask, queue, confined, loads = work
    nodes, subsets = len(distance), 1 << degree
    largest, deepest = 0, 1
    for step in range(len(loads)):
        loads[step] = 0
    for place in range(len(turn)):
        receiver = turn[place]
        for node in range(nodes):
            distance[node] = -1
            mask[node] = 0
        distance[receiver] = 0
        last = 0
        for i in range(degree):
            source = into[receiver * degree + i]
            if distance[source] < 0:
                distance[source] = 1
                queue[last] = source
                last += 1
            if distance[source] == 1:
                mask[source] |= 1 << i
        first, step = 0, 1
        while first < last:
            for inside in range(subsets):
                confined[inside] = 0
            for position in range(first, last):
                confined[mask[queue[position]]] += 1
            for i in range(degree):
                for inside in range(subsets):
                    if inside >> i & 1:
                        confined[inside] += confined[inside ^ (1 << i)]
            load = 0
            for inside in range(1, subsets):
                load = max(load, confined[inside] * share[inside])
            if load > loads[step]:
                largest += load - loads[step]
                loads[step] = load
            if last == nodes - 1 or step + 1 == len(loads):
                break
            end = last
            for position in range(first, last):
                hop = queue[position]
                for slot in range(hop * degree, (hop + 1) * degree):
                    source = into[slot]
                    if distance[source] < 0:
                        distance[source] = step + 1
                        queue[end] = source
                        end += 1
                    if distance[source] == step + 1:
                        mask[source] |= mask[hop]
            first, last = last, end
            step += 1
        deepest = max(deepest, step)
        if last < nodes - 1 or largest > least[deepest]:
            turn[place] = turn[place // 2]
            turn[place // 2] = receiver
            return 0, 0, place + 1
    return deepest, largest, len(turn)
