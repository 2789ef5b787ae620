"""Local search on voltage digraphs over cyclic groups: moves, scores, acceptance.

Slot ``s = w * d + i`` is the i-th link into node (w, 0): from (tail[s], -voltage[s]). ``mate[s]``
is the slot of the same link in the other direction, -1 where links are one-way.
"""

from __future__ import annotations

import numpy as np

from ocs_codesign.schedules.breadth_first.kernels import confined_sources

# Compiled scoring of single nodes taken out of a digraph or put into its links.
#
# In-neighbours of all nodes are rows of ``into``, in the order of link ids, filled up to at least
# three columns with the node itself; a slot is a place in the flat table.


def score_cuts(into, out_slots, rows, degree, share, least, best):
    """Fill ``best[k]`` with the row that has the least total load in at most k steps after its cut.

    ``least[k]`` is that load, ``rows`` are nodes and permutations of their links, and
    ``out_slots`` the slots that a node's links lead to. Nodes with loops are left alone.
    """
    nodes, width = into.shape
    edited = np.empty((nodes - 1, width), dtype=into.dtype)
    work = workspace(nodes - 1, len(share))
    for number in range(len(rows)):
        node = rows[number, 0]
        looped = False
        for port in range(degree):
            looped = looped or into[node, port] == node
        if looped:
            continue
        # The last node takes the number of the one that is gone: no load depends on numbers.
        for place in range(nodes - 1):
            old = place if place != node else nodes - 1
            for port in range(width):
                tail = into[old, port]
                edited[place, port] = tail if tail != nodes - 1 else node
        for port in range(degree):
            slot = out_slots[node, rows[number, 1 + port]]
            head, tail = slot // width, into[node, port]
            head = head if head != nodes - 1 else node
            edited[head, slot % width] = tail if tail != nodes - 1 else node
        keep_best(edited, share, least, best, number, work)


def score_insertions(into, link_slots, rows, degree, share, least, best):
    """The same for a node put into links: ``rows`` are their ids, ``link_slots`` where they are."""
    nodes, width = into.shape
    edited = np.empty((nodes + 1, width), dtype=into.dtype)
    work = workspace(nodes + 1, len(share))
    for number in range(len(rows)):
        for place in range(nodes):
            for port in range(width):
                edited[place, port] = into[place, port]
        for port in range(width):
            edited[nodes, port] = nodes
        for port in range(degree):
            slot = link_slots[rows[number, port]]
            edited[nodes, port] = into[slot // width, slot % width]
            edited[slot // width, slot % width] = nodes
        keep_best(edited, share, least, best, number, work)


def count_dependent(tail, head, order, nodes, steps, dependent):
    """Fill, for every link, how many pairs of nodes ``steps`` apart have no other shortest walk.

    ``order`` sorts the links by their tails. The last node that all shortest walks to a node pass
    is, of the nodes before it, the last that these have in common; where one link leads on from
    there, all pass it too.
    """
    first = np.searchsorted(tail[order], np.arange(nodes + 1))
    distance, queue = np.empty(nodes, dtype=np.int64), np.empty(nodes, dtype=np.int64)
    last, link_of = np.empty(nodes, dtype=np.int64), np.empty(nodes, dtype=np.int64)
    below = np.zeros(nodes, dtype=np.int64)
    dependent[:] = 0
    for source in range(nodes):
        distance[:] = -1
        distance[source], queue[0], last[source], link_of[source] = 0, source, source, -1
        begin, end = 0, 1
        while begin < end:
            node = queue[begin]
            begin += 1
            for place in range(first[node], first[node + 1]):
                link = order[place]
                next_node = head[link]
                if distance[next_node] < 0:
                    distance[next_node] = distance[node] + 1
                    queue[end], last[next_node], link_of[next_node] = next_node, node, link
                    end += 1
                elif distance[next_node] == distance[node] + 1:
                    link_of[next_node] = -1
                    one, other = last[next_node], node
                    while one != other:
                        if distance[one] >= distance[other]:
                            one = last[one]
                        else:
                            other = last[other]
                    last[next_node] = one
        for place in range(end - 1, 0, -1):
            node = queue[place]
            below[node] += distance[node] == steps
            if link_of[node] >= 0:
                dependent[link_of[node]] += below[node]
            below[last[node]] += below[node]
            below[node] = 0
        below[source] = 0


def workspace(nodes, subsets):
    """Reach sets, grown ones, their sizes, and confined sources."""
    words = (nodes + 63) // 64
    return (
        np.empty((nodes, words), dtype=np.uint64),
        np.empty((nodes, words), dtype=np.uint64),
        np.empty(nodes, dtype=np.int64),
        np.empty((nodes, subsets), dtype=np.int32),
    )


def keep_best(into, share, least, best, number, work):
    """Update ``least`` and ``best`` if a digraph beats them."""
    steps, total = total_within(into, share, least, work)
    for k in range(steps, len(least)):
        if steps and total < least[k]:
            least[k], best[k] = total, number


def total_within(into, share, least, work):
    """Steps and the sum of the largest loads; (0, 0) if that does not beat ``least``."""
    reached, grown, sizes, confined = work
    nodes, subsets = confined.shape
    for node in range(nodes):
        for word in range(reached.shape[1]):
            reached[node, word] = np.uint64(0)
        reached[node, node // 64] = np.uint64(1) << np.uint64(node % 64)
        sizes[node] = 1
    total, step, far = 0, 0, nodes
    while far and step + 1 < len(least):
        step += 1
        for node in range(nodes):
            for inside in range(subsets):
                confined[node, inside] = 0
        confined_sources(reached, into, grown, sizes, confined, nodes, 0, nodes)
        reached, grown = grown, reached
        largest, far, smallest = 0, 0, nodes
        for node in range(nodes):
            for inside in range(1, subsets):
                largest = max(largest, confined[node, inside] * share[inside])
            smallest = min(smallest, sizes[node])
            far += sizes[node] < nodes
        total += largest
        # A receiver that lacks sources still gets them over all its links at best.
        ahead = total + (nodes - smallest) * share[subsets - 1]
        if ahead >= least[min(step + (far > 0), len(least) - 1)]:
            return 0, 0
    return (0, 0) if far else (step, total)


# Loops that draw random numbers from words, bit for bit as numpy draws them from a PCG64.
#
# ``words`` (uint64) are what the generator gives next. ``drawn`` (int64) counts those used up,
# and holds the upper half of one, and whether that is still to be used.


def draw(words, drawn, below):
    """A number from 0 to ``below`` - 1 out of half a word, without bias.

    Source: D. Lemire (2019), Fast random integer generation in an interval.
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


def draw_real(words, drawn):
    """A number in [0, 1) out of a word."""
    real = (words[drawn[0]] >> np.uint64(11)) * 2.0**-53
    drawn[0] += 1
    return real


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
        ends = first, second if swap else first
        if not moved(tail, voltage, mate, slots, old, ends, degree, order, swap, redrawn):
            continue
        new = _score(tail, voltage, degree, order, steps, share, both, backward, filled, work, best)
        if new <= best:
            best = new
        else:
            take_back(tail, voltage, mate, slots, old)
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


def moved(tail, voltage, mate, slots, old, ends, degree, order, swap, redrawn):
    """Swap two links, or leave them, and give the first a new voltage; False if that is no move.

    ``slots`` receives both links and their reverses, ``old`` what they were.
    """
    first, second = ends
    slots[0], slots[1] = first, second
    slots[2], slots[3] = mate[first], mate[second]
    if not allowed(tail, slots, degree, order, swap):
        return False
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
    return True


def take_back(tail, voltage, mate, slots, old):
    """Undo a move."""
    for place in range(4):
        if slots[place] >= 0:
            tail[slots[place]] = old[0, place]
            voltage[slots[place]] = old[1, place]
            mate[slots[place]] = old[2, place]


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


def anneal_hops(tail, voltage, mate, degree, order, steps, slack, heat, moves, words, drawn):
    """Improve the voltage digraph in place by annealing; 0 if no two nodes are too far apart.

    The energy is the sum over pairs, of a node an orbit and any other, of the links of distance
    beyond ``steps``; with ``slack`` pairs at that distance that a single walk joins count as one.
    A move that makes it worse by x is kept with probability exp(-x / temperature); the temperature
    falls from ``heat`` to nothing with the square of the moves that are left.
    """
    orbits = len(tail) // degree
    nodes = orbits * order
    reached, walks = np.zeros(nodes, dtype=np.int64), np.zeros((2, nodes), dtype=np.int64)
    queue, node_of = np.empty(nodes, dtype=np.int64), np.arange(nodes) // order
    work = reached, queue, node_of, np.arange(orbits), walks
    slots = np.empty(4, dtype=np.int64)
    old = np.empty((3, 4), dtype=np.int64)
    energy = hops_beyond(tail, voltage, degree, order, steps, slack, work, 1, np.inf)
    for number in range(moves):
        if energy == 0:
            break
        first, second = draw(words, drawn, len(tail)), draw(words, drawn, len(tail))
        redrawn = draw(words, drawn, order)
        pick, chance = draw_real(words, drawn), draw_real(words, drawn)
        swap = orbits > 1 and (order == 1 or pick < 0.5)
        ends = first, second if swap else first
        if not moved(tail, voltage, mate, slots, old, ends, degree, order, swap, redrawn):
            continue
        left = 1 - number / moves
        limit = energy - heat * left * left * np.log(max(chance, 1e-12))
        mark = 1 + (number + 1) * orbits
        new = hops_beyond(tail, voltage, degree, order, steps, slack, work, mark, limit)
        if new > limit:
            take_back(tail, voltage, mate, slots, old)
        else:
            energy = new
    return energy


def hops_beyond(tail, voltage, degree, order, steps, slack, work, mark, limit):
    """The energy of ``anneal_hops``; the sum ends early above ``limit``.

    ``mark`` and the numbers after it, one an orbit, are in no place of ``work[0]`` yet. What is not
    reached at all counts as much as all nodes. ``work[4]`` has the shortest walks to a node, one or
    more, and their length.
    """
    reached, queue, node_of, turn, walks = work
    orbits, nodes = len(turn), len(queue)
    energy = 0
    for place in range(orbits):
        orbit = turn[place]
        queue[0] = orbit * order
        reached[orbit * order] = mark + place
        walks[0, orbit * order], walks[1, orbit * order] = 1, -steps
        first, last, beyond = 0, 1, -steps
        while first < last:
            beyond += 1
            end = last
            for position in range(first, last):
                node = node_of[queue[position]]
                element = queue[position] - node * order
                for slot in range(node * degree, (node + 1) * degree):
                    before = element - voltage[slot]
                    if before < 0:
                        before += order
                    source = tail[slot] * order + before
                    if reached[source] != mark + place:
                        reached[source] = mark + place
                        queue[end] = source
                        end += 1
                        if slack:
                            walks[0, source], walks[1, source] = walks[0, queue[position]], beyond
                    elif slack and walks[1, source] == beyond:
                        walks[0, source] = 2
            energy += (end - last) * max(0, beyond)
            if slack and beyond == 0:
                for position in range(last, end):
                    energy += walks[0, queue[position]] == 1
            first, last = last, end
        energy += (nodes - last) * nodes
        if energy > limit:
            # What gave this one away is likely to give the next one away: it moves to the front.
            turn[place] = turn[place // 2]
            turn[place // 2] = orbit
            break
    return energy


# Local search among all regular digraphs: two links exchange their tails, scored by exact BFB.
#
# Slot ``s = w * width + i`` is the i-th link into node w, from ``tail[s]``; slots from ``degree``
# on are padding that names the node itself. ``mate[s]`` is the slot of the same link in the other
# direction, -1 where links are one-way.


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
    old = np.empty((3, 4), dtype=np.int64)
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
        if first_node == second_node:
            continue
        if not moved(tail, voltage, mate, slots, old, (first, second), width, 1, True, 0):
            continue
        temperature = heat * (1 - move / moves)
        limit = energy
        if temperature > 0:
            limit -= temperature * np.log(max(chance, 1e-12))
        far, total, ties, count = measure(tail, share, steps, work, found, limit)
        new = energy_of(far, total, ties, nodes, share)
        if new > limit:
            take_back(tail, voltage, mate, slots, old)
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
