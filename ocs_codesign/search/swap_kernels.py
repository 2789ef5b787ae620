"""Local search among all regular digraphs: two links exchange their tails, scored by exact BFB.

Slot ``s = w * width + i`` is the i-th link into node w, from ``tail[s]``; slots from ``degree`` on
are padding that names the node itself. ``mate[s]`` is the slot of the same link in the other
direction, -1 where links are one-way.
"""

from __future__ import annotations

import numpy as np

from ocs_codesign.schedulers.bfb.reach_kernels import confined_sources
from ocs_codesign.search.draw_kernels import draw, draw_real
from ocs_codesign.search.lift_kernels import allowed, swap_tails


def anneal(nodes, tail, mate, degree, share, steps, heat, moves, least, words, drawn, best_tail):
    """Change tails by random moves; ``best_tail`` receives the best, whose score is returned.

    The score is (pairs further apart than ``steps``, sum of the largest loads); ``share[W]`` is
    what a source adds to the load of a set W of in-links. A move that makes the energy worse by x
    is kept with probability exp(-x / temperature); the temperature falls from ``heat`` to nothing,
    and with no heat the search only climbs. Half of the moves are at receivers that have the
    largest load where fewest have it. ``least`` is a sum that cannot be beaten: the search ends.
    """
    width = len(tail) // nodes
    words_a_row = (nodes + 63) // 64
    work = (
        np.empty((nodes, words_a_row), dtype=np.uint64),
        np.empty((nodes, words_a_row), dtype=np.uint64),
        np.empty(nodes, dtype=np.int64),
        np.empty((nodes, len(share)), dtype=np.int32),
    )
    voltage = np.zeros(len(tail), dtype=np.int64)
    slots = np.empty(4, dtype=np.int64)
    old = np.empty((2, 4), dtype=np.int64)
    busy = np.zeros(nodes, dtype=np.int64)
    found = np.zeros(nodes, dtype=np.int64)
    far, total, ties, num_busy = measure(tail, share, steps, work, found, 1e18)
    energy = energy_of(far, total, ties, nodes, share)
    for place in range(num_busy):
        busy[place] = found[place]
    best_far, best_total = far, total
    for slot in range(len(tail)):
        best_tail[slot] = tail[slot]
    for move in range(moves):
        if best_far == 0 and best_total <= least:
            break
        first_node, second_node = draw(words, drawn, nodes), draw(words, drawn, nodes)
        first_port, second_port = draw(words, drawn, degree), draw(words, drawn, degree)
        pick, chance = draw_real(words, drawn), draw_real(words, drawn)
        if pick < 0.5 and num_busy:
            first_node = busy[int(2 * pick * num_busy)]
        first, second = first_node * width + first_port, second_node * width + second_port
        slots[0], slots[1] = first, second
        slots[2], slots[3] = mate[first], mate[second]
        if first_node == second_node or not allowed(tail, slots, width, 1, True):
            continue
        for place in range(4):
            old[0, place], old[1, place] = tail[slots[place]], mate[slots[place]]
        swap_tails(tail, voltage, mate, slots, 1)
        temperature = heat * (1 - move / moves)
        limit = energy
        if temperature > 0:
            limit -= temperature * np.log(max(chance, 1e-12))
        far, total, ties, count = measure(tail, share, steps, work, found, limit)
        new = energy_of(far, total, ties, nodes, share)
        if new > limit:
            for place in range(4):
                if slots[place] >= 0:
                    tail[slots[place]], mate[slots[place]] = old[0, place], old[1, place]
            continue
        energy, num_busy = new, count
        for place in range(num_busy):
            busy[place] = found[place]
        if far < best_far or (far == best_far and total < best_total):
            best_far, best_total = far, total
            for slot in range(len(tail)):
                best_tail[slot] = tail[slot]
    return best_far, best_total


def energy_of(far, total, ties, nodes, share):
    """One number for a score: a pair too far apart weighs as much as two sources on one link."""
    return total + (2.0 * far + ties / (4.0 * nodes)) * share[1]


def measure(tail, share, steps, work, busy, limit):
    """Pairs too far apart, the sum of the largest loads, how many receivers have one, and who.

    ``busy`` receives those of the step in which the fewest have it; their number comes last. A
    digraph whose energy must be above ``limit`` may come out as one that is just that.
    """
    reached, grown, sizes, confined = work
    nodes, subsets = confined.shape
    into = tail.reshape(nodes, len(tail) // nodes)
    for node in range(nodes):
        for word in range(reached.shape[1]):
            reached[node, word] = np.uint64(0)
        reached[node, node // 64] = np.uint64(1) << np.uint64(node % 64)
        sizes[node] = 1
    total, ties, num_busy = 0, 0, nodes + 1
    far = nodes * (nodes - 1)
    step = 0
    while far and step < steps:
        step += 1
        for node in range(nodes):
            for inside in range(subsets):
                confined[node, inside] = 0
        confined_sources(reached, into, grown, sizes, confined, nodes, 0, nodes)
        reached, grown = grown, reached
        largest, count, least, before = 0, 0, nodes, far
        far = 0
        for node in range(nodes):
            load = 0
            for inside in range(1, subsets):
                load = max(load, confined[node, inside] * share[inside])
            if load > largest:
                largest, count = load, 0
            count += load == largest
            least = min(least, sizes[node])
            far += nodes - sizes[node]
        if far == before:
            break
        total += largest
        ties += count
        if count < num_busy:
            num_busy = list_busy(confined, share, largest, busy)
        if total + (nodes - least) * share[subsets - 1] > limit:
            return far, 1 << 50, ties, num_busy
    return far, total, ties, num_busy


def list_busy(confined, share, largest, busy):
    """List the receivers whose load is the largest; returns their number."""
    count = 0
    for node in range(confined.shape[0]):
        load = 0
        for inside in range(1, len(share)):
            load = max(load, confined[node, inside] * share[inside])
        if load == largest:
            busy[count] = node
            count += 1
    return count
