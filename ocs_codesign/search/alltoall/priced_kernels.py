"""Annealing of any digraph by an estimate of its all-to-all: prices of links against their loads.

Slot ``s = u * d + i`` is the i-th link out of node u, to ``to[s]``. Whatever the prices of links
are, no routing takes less than all cheapest paths cost over what all links cost; raising the price
of what cheapest paths load much brings this bound near to the least time in a few rounds.
"""

from __future__ import annotations

import numpy as np

from ocs_codesign.search.draw_kernels import draw, draw_real

NEVER = 1e300
"""Estimate of a digraph that is not strongly connected."""
_STEEP, _EASING = 1.0, 4.0


def anneal_priced(to, mate, degree, rounds, heat, moves, least, words, drawn, best_to):
    """Exchange heads of links; ``best_to`` receives the least estimate found, which is returned.

    ``mate[s]`` is the slot of the link back, -1 where links are one-way. A move stays if the
    estimate grows by no more than a random part of ``heat``, which falls to 0. The search ends at
    ``least``.
    """
    slots = len(to)
    nodes = slots // degree
    work = (
        np.empty(slots, dtype=np.float64),
        np.empty(slots, dtype=np.float64),
        np.empty(nodes, dtype=np.float64),
        np.empty(nodes, dtype=np.int64),
        np.empty(nodes, dtype=np.int64),
        np.empty(nodes, dtype=np.float64),
    )
    changed = np.empty(4, dtype=np.int64)
    old = np.empty((2, 4), dtype=np.int64)
    score = priced(to, degree, rounds, NEVER, work)
    best = score
    for slot in range(slots):
        best_to[slot] = to[slot]
    for done in range(moves):
        if best <= least:
            break
        first, second = draw(words, drawn, slots), draw(words, drawn, slots)
        chance = draw_real(words, drawn)
        if not exchange(to, mate, degree, first, second, changed, old):
            continue
        limit = score + heat * (moves - done) / moves * chance
        new = priced(to, degree, rounds, limit, work)
        if new <= limit and new < NEVER:
            score = new
            if score < best:
                best = score
                for slot in range(slots):
                    best_to[slot] = to[slot]
            continue
        for place in range(4):
            if changed[place] >= 0:
                to[changed[place]], mate[changed[place]] = old[0, place], old[1, place]
    return best


def exchange(to, mate, degree, first, second, changed, old):
    """Two links exchange their heads, with their links back; False if that would make a loop."""
    back, other = mate[first], mate[second]
    tail, end = first // degree, second // degree
    if to[first] == to[second] or tail == end or to[second] == tail or to[first] == end:
        return False
    changed[0], changed[1], changed[2], changed[3] = first, second, back, other
    for place in range(4):
        old[0, place], old[1, place] = to[changed[place]], mate[changed[place]]
    to[first], to[second] = to[second], to[first]
    if back >= 0:
        to[other], to[back] = tail, end
        mate[first], mate[other], mate[second], mate[back] = other, first, back, second
    return True


def priced(to, degree, rounds, limit, work):
    """The best bound that some rounds of prices prove, in messages a link; NEVER if cut off.

    Comes out early, as what is proven so far, where that is above the limit.
    """
    price, load, distance, via, order, carried = work
    slots = len(to)
    nodes = slots // degree
    best = 0.0
    for slot in range(slots):
        price[slot] = 1.0
    for turn in range(rounds):
        steep = _STEEP / (1.0 + turn / _EASING)
        for slot in range(slots):
            load[slot] = 0.0
        paid, prices, most = 0.0, 0.0, 0.0
        for root in range(nodes):
            cost = cheapest(to, degree, root, price, distance, via, order)
            if cost < 0:
                return NEVER
            paid += cost
            for node in range(nodes):
                carried[node] = 1.0
            for place in range(nodes - 1, 0, -1):
                node = order[place]
                load[via[node]] += carried[node]
                carried[via[node] // degree] += carried[node]
        for slot in range(slots):
            prices += price[slot]
            most = max(most, load[slot])
        best = max(best, paid / prices)
        if best > limit:
            return best
        for slot in range(slots):
            price[slot] *= np.exp(steep * (load[slot] / most - 1.0))
    return best


def cheapest(to, degree, root, price, distance, via, order):
    """Cost of the cheapest paths from a root to all, -1 if some node has none.

    ``order`` receives the nodes as they are reached, ``via`` the last link of each path.
    """
    nodes = len(distance)
    for node in range(nodes):
        distance[node], via[node] = -1.0, -1
    order[0] = root
    total = 0.0
    distance[root] = 0.0
    # Nodes are settled one by one; of a few dozen, looking at all is as fast as a heap.
    settled = 0
    for node in range(nodes):
        order[node] = node
    order[0], order[root] = root, 0
    while settled < nodes:
        place = -1
        for candidate in range(settled, nodes):
            node = order[candidate]
            if distance[node] >= 0 and (place < 0 or distance[node] < distance[order[place]]):
                place = candidate
        if place < 0:
            return -1.0
        node = order[place]
        order[place], order[settled] = order[settled], node
        settled += 1
        total += distance[node]
        for slot in range(node * degree, (node + 1) * degree):
            head = to[slot]
            cost = distance[node] + price[slot]
            if distance[head] < 0 or cost < distance[head]:
                distance[head], via[head] = cost, slot
    return total
