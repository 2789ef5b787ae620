"""Local search on voltage digraphs over cyclic groups: moves, scores, acceptance.

Slot ``s = w * d + i`` is the i-th link into node (w, 0): from (tail[s], -voltage[s]). ``mate[s]``
is the slot of the same link in the other direction, -1 where links are one-way.
"""

from __future__ import annotations

import numpy as np

from ocs_codesign.search.draw_kernels import draw, draw_real


def climb(tail, voltage, mate, degree, order, steps, share, both, least, moves, words, drawn):
    """Improve the voltage digraph in place by random moves that never make its score worse.

    The score is (pairs further apart than ``steps``, sum of the largest loads, sum of all loads),
    of the allgather alone or of ``both`` directions. A move redraws a voltage or swaps the tails of
    two links, so every node keeps its degrees. ``least`` is a sum of largest loads that cannot be
    beaten: the search ends there. ``words`` and ``drawn`` are those of ``draw``.
    """
    orbits = len(tail) // degree
    backward = np.empty_like(tail), np.empty_like(voltage)
    filled = np.empty(orbits, dtype=np.int64)
    work = _workspace(orbits, orbits * order, degree, steps)
    never = (np.int64(1 << 62), np.int64(1 << 62), np.int64(1 << 62))
    best = _score(tail, voltage, degree, order, steps, share, both, backward, filled, work, never)
    slots = np.empty(4, dtype=np.int64)
    old = np.empty((3, 4), dtype=np.int64)
    for _ in range(moves):
        if best[0] == 0 and best[1] <= least:
            break
        first, second = draw(words, drawn, len(tail)), draw(words, drawn, len(tail))
        redrawn = draw(words, drawn, order)
        swap = orbits > 1 and (order == 1 or draw_real(words, drawn) < 0.5)
        slots[0], slots[1] = first, second
        slots[2], slots[3] = mate[first], mate[second]
        if not swap:
            slots[1], slots[3] = first, mate[first]
        if not allowed(tail, slots, degree, order, swap):
            continue
        for place in range(4):
            old[0, place] = tail[slots[place]]
            old[1, place] = voltage[slots[place]]
            old[2, place] = mate[slots[place]]
        if swap:
            swap_tails(tail, voltage, mate, slots, order)
        if order > 1:
            voltage[first] = redrawn
            if mate[first] >= 0:
                voltage[mate[first]] = (order - redrawn) % order
        new = _score(tail, voltage, degree, order, steps, share, both, backward, filled, work, best)
        if new <= best:
            best = new
        else:
            for place in range(4):
                if slots[place] >= 0:
                    tail[slots[place]] = old[0, place]
                    voltage[slots[place]] = old[1, place]
                    mate[slots[place]] = old[2, place]
    return best


def allowed(tail, slots, degree, order, swap):
    """Whether the move changes anything, and makes no self-loop that no voltage can undo."""
    first, second, first_mate, second_mate = slots
    if first_mate == first or second_mate == second:
        return False
    if not swap:
        return order > 1
    if first == second or first_mate == second:
        return False
    return order > 1 or (tail[first] != second // degree and tail[second] != first // degree)


def swap_tails(tail, voltage, mate, slots, order):
    """Two links exchange their tails, and their reverses their heads."""
    first, second, first_mate, second_mate = slots
    tail[first], tail[second] = tail[second], tail[first]
    if first_mate >= 0:
        tail[first_mate], tail[second_mate] = tail[second_mate], tail[first_mate]
        mate[first], mate[second] = second_mate, first_mate
        mate[second_mate], mate[first_mate] = first, second
        voltage[second_mate] = (order - voltage[first]) % order
        voltage[first_mate] = (order - voltage[second]) % order


def _workspace(orbits, nodes, degree, steps):
    return (
        np.empty(nodes, dtype=np.int32),
        np.empty(nodes, dtype=np.int64),
        np.empty(nodes, dtype=np.int32),
        np.empty(1 << degree, dtype=np.int64),
        np.empty(steps + 2, dtype=np.int64),
        np.arange(orbits),
    )


def _score(tail, voltage, degree, order, steps, share, both, backward, filled, work, limit):
    """Score of the lift; any that is worse than ``limit`` may come out as just that."""
    far, largest, total = _one_way(tail, voltage, degree, order, steps, share, work, limit)
    if both and (far, largest) <= (limit[0], limit[1]):
        filled[:] = 0
        for slot in range(len(tail)):
            u = tail[slot]
            backward[0][u * degree + filled[u]] = slot // degree
            backward[1][u * degree + filled[u]] = (order - voltage[slot]) % order
            filled[u] += 1
        rest = (far, limit[1] - largest, limit[2] - total)
        _, more, sums = _one_way(backward[0], backward[1], degree, order, steps, share, work, rest)
        largest += more
        total += sums
    return far, largest, total


def _one_way(tail, voltage, degree, order, steps, share, work, limit):
    """Score of an allgather: one backward search an orbit, masks of first hops carried along."""
    distance, mask, queue, confined, loads, turn = work
    orbits = len(tail) // degree
    nodes = orbits * order
    subsets = 1 << degree
    loads[:] = 0
    far, total, largest = 0, 0, 0
    for place in range(orbits):
        orbit = turn[place]
        distance[:] = -1
        mask[:] = 0
        receiver = orbit * order
        distance[receiver] = 0
        first, last = 0, 0
        for i in range(degree):
            slot = orbit * degree + i
            source = tail[slot] * order + (order - voltage[slot]) % order
            if distance[source] < 0:
                distance[source] = 1
                queue[last] = source
                last += 1
            if distance[source] == 1:
                mask[source] |= 1 << i
        step = 1
        while first < last:
            confined[:] = 0
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
            total += load
            if last == nodes - 1 or step == steps:
                break
            end = last
            for position in range(first, last):
                hop = queue[position]
                node, element = hop // order, hop % order
                for slot in range(node * degree, (node + 1) * degree):
                    element_before = element - voltage[slot]
                    if element_before < 0:
                        element_before += order
                    source = tail[slot] * order + element_before
                    if distance[source] < 0:
                        distance[source] = step + 1
                        queue[end] = source
                        end += 1
                    if distance[source] == step + 1:
                        mask[source] |= mask[hop]
            first, last = last, end
            step += 1
        far += nodes - 1 - last
        if far > limit[0] or (limit[0] == 0 and largest > limit[1]):
            # What gave this one away is likely to give the next one away: it moves to the front.
            turn[place] = turn[place // 2]
            turn[place // 2] = orbit
            break
    return far, largest, total
