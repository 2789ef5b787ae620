"""Local search on voltage digraphs for short and evenly used paths: moves and scores.

Slot ``s = u * d + i`` is the i-th link out of node (u, identity); ``to[s] = w * order + a`` says
that it leads to (w, a), so from (u, g) to (w, g * a), and ``columns[a, g]`` is the number of g * a.
``mate[s]`` is the slot of the same link in the other direction, -1 where links are one-way. One row
over a group is a Cayley digraph, N rows over the trivial group any digraph.
"""

from __future__ import annotations

import numpy as np

from ocs_codesign.search.move_kernels import draw, draw_real

NEVER = 1e300
"""Score of a digraph that is not strongly connected, or worse than the limit."""
_WORD = 64


def climb(to, mate, columns, inverse, degree, least, by_use, heat, moves, words, drawn):
    """Improve a voltage digraph by random moves and leave the best one found; returns its score.

    The score is the sum of the distances from one node of every row or, ``by_use``, that sum and
    more the less even the links are used, see ``even_hops``. A move redraws a voltage or swaps the
    heads of two links, and stays if the score grows by no more than a random part of ``heat``
    (hops), which falls to 0. The search ends early at ``least``. ``words`` and ``drawn`` are those
    of ``draw``.
    """
    order, slots = len(inverse), len(to)
    rows = slots // degree
    ahead = np.empty(rows * order * degree, dtype=np.int32)
    for slot in range(slots):
        _lay(slot, to, columns, degree, ahead)
    work = _workspace(rows * order, slots)
    score = _score(ahead, order, rows, degree, least, by_use, NEVER, work)
    best, best_to, best_mate = score, to.copy(), mate.copy()
    changed = np.empty(4, dtype=np.int64)
    old = np.empty((2, 4), dtype=np.int64)
    for done in range(moves):
        if best <= least:
            break
        number = _move(to, mate, inverse, degree, changed, old, words, drawn)
        for place in range(number):
            _lay(changed[place], to, columns, degree, ahead)
        limit = score + heat * (moves - done) / moves * draw_real(words, drawn)
        new = _score(ahead, order, rows, degree, least, by_use, limit, work)
        if new <= limit and new < NEVER:
            score = new
            if score < best:
                best = score
                for slot in range(slots):
                    best_to[slot], best_mate[slot] = to[slot], mate[slot]
        else:
            for place in range(number):
                slot = changed[place]
                to[slot], mate[slot] = old[0, place], old[1, place]
                _lay(slot, to, columns, degree, ahead)
    for slot in range(slots):
        to[slot], mate[slot] = best_to[slot], best_mate[slot]
    return best


def _lay(slot, to, columns, degree, ahead):
    """Write the heads of all links of a slot."""
    order = columns.shape[0]
    row, port = slot // degree, slot % degree
    first = to[slot] // order * order
    column = columns[to[slot] - first]
    for g in range(order):
        ahead[(row * order + g) * degree + port] = first + column[g]


def _move(to, mate, inverse, degree, changed, old, words, drawn):
    """Change the voltage of a link, or swap the heads of two; returns how many slots changed.

    ``changed`` and ``old`` say which, and what they were. A link that is its own reverse only takes
    voltages that are their own inverses.
    """
    order, slots = len(inverse), len(to)
    first, second = draw(words, drawn, slots), draw(words, drawn, slots)
    voltage = draw(words, drawn, order)
    one_way = mate[first] < 0
    swap = slots > degree and (order == 1 or draw_real(words, drawn) < 0.5)
    if swap and (
        first == second
        or mate[first] == second
        or (not one_way and (mate[first] == first or mate[second] == second))
    ):
        return 0
    changed[0], changed[1] = first, second if swap else mate[first]
    changed[2], changed[3] = mate[first], mate[second]
    number = (2 if one_way else 4) if swap else (1 if one_way or mate[first] == first else 2)
    for place in range(number):
        old[0, place], old[1, place] = to[changed[place]], mate[changed[place]]
    if swap:
        to[first], to[second] = to[second], to[first]
        if not one_way:
            first_mate, second_mate = mate[first], mate[second]
            _pair(first, second_mate, to, mate, inverse, degree)
            _pair(second, first_mate, to, mate, inverse, degree)
    elif mate[first] == first and inverse[voltage] != voltage:
        return 0
    if order > 1:
        to[first] = to[first] // order * order + voltage
        if mate[first] >= 0 and mate[first] != first:
            _pair(first, mate[first], to, mate, inverse, degree)
    return number


def _pair(slot, back, to, mate, inverse, degree):
    """Make ``back`` the reverse of ``slot``."""
    order = len(inverse)
    mate[slot], mate[back] = back, slot
    to[back] = slot // degree * order + inverse[to[slot] % order]


def _workspace(nodes, slots):
    return (
        np.empty(nodes, dtype=np.uint64),
        np.empty(nodes, dtype=np.uint64),
        np.empty(nodes, dtype=np.int32),
        np.empty(nodes, dtype=np.int32),
        np.empty(nodes, dtype=np.float64),
        np.empty(nodes, dtype=np.float64),
        np.empty(slots, dtype=np.float64),
    )


def _score(ahead, order, rows, degree, least, by_use, limit, work):
    near, far, distance, queue, paths, beyond, use = work
    if by_use:
        hops, _ = spread(ahead, order, rows, degree, distance, queue, paths, beyond, use)
        return even_hops(use) if hops >= 0 else NEVER
    if rows == 1:
        return _hops_from_one(ahead, degree, limit, distance, queue)
    return _hops_from_all(ahead, order, rows, degree, least / rows, limit, near, far)


def _hops_from_one(ahead, degree, limit, distance, queue):
    """Sum of the distances from node 0, NEVER as soon as it must be above the limit."""
    nodes = len(distance)
    distance[:] = -1
    distance[0] = queue[0] = 0
    first, last, level, total = 0, 1, 0, 0
    while last < nodes:
        end = last
        level += 1
        for place in range(first, last):
            at = queue[place] * degree
            for port in range(degree):
                head = ahead[at + port]
                if distance[head] < 0:
                    distance[head] = level
                    queue[end] = head
                    end += 1
        if end == last:
            return NEVER
        total += level * (end - last)
        next_most = min(nodes - end, degree * (end - last))
        if total + (level + 2) * (nodes - end) - next_most > limit:
            return NEVER
        first, last = last, end
    return float(total)


def _hops_from_all(ahead, order, rows, degree, least, limit, near, far):
    """Sum of the distances from the first node of every row, 64 rows a pass.

    Bit k of ``near[v]`` says that v reaches the k-th of these nodes: all distances to a node add up
    over the group as those from it do.
    """
    nodes = len(near)
    total = 0
    for begin in range(0, rows, _WORD):
        width = min(_WORD, rows - begin)
        near[:] = 0
        for k in range(width):
            near[(begin + k) * order] = np.uint64(1) << np.uint64(k)
        missing = nodes * width - width
        rest = least * (rows - begin - width)
        while missing:
            total += missing
            if total + rest > limit:
                return NEVER
            reached = 0
            for node in range(nodes):
                at = node * degree
                word = near[node]
                for port in range(degree):
                    word |= near[ahead[at + port]]
                far[node] = word
                reached += _ones(word)
            near, far = far, near
            if missing == nodes * width - reached:
                return NEVER
            missing = nodes * width - reached
    return float(total)


def _ones(word):
    """Number of bits that are set."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    word = (word & np.uint64(0x3333333333333333)) + (
        (word >> np.uint64(2)) & np.uint64(0x3333333333333333)
    )
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


def spread(ahead, order, rows, degree, distance, queue, paths, beyond, use):
    """Hops and diameter from the first node of every row; fills what every slot carries.

    Every pair is served over all its shortest paths alike. (-1, -1) if some pair has none.
    """
    nodes = len(distance)
    use[:] = 0.0
    hops, diameter = 0, 0
    for row in range(rows):
        distance[:] = -1
        source = row * order
        distance[source] = 0
        paths[source] = 1.0
        queue[0] = source
        first, last = 0, 1
        while first < last:
            node = queue[first]
            first += 1
            for at in range(node * degree, (node + 1) * degree):
                head = ahead[at]
                if distance[head] < 0:
                    distance[head] = distance[node] + 1
                    paths[head] = 0.0
                    queue[last] = head
                    last += 1
                if distance[head] == distance[node] + 1:
                    paths[head] += paths[node]
        if last < nodes:
            return -1, -1
        diameter = max(diameter, distance[queue[nodes - 1]])
        for place in range(nodes - 1, -1, -1):
            node = queue[place]
            hops += distance[node]
            carried = 1.0
            for port in range(degree):
                head = ahead[node * degree + port]
                if distance[head] == distance[node] + 1:
                    share = paths[node] / paths[head] * beyond[head]
                    use[node // order * degree + port] += share
                    carried += share
            beyond[node] = carried
    return hops, diameter


def even_hops(use):
    """Root mean square of the use of the slots, times their number: their sum if all are even."""
    total = 0.0
    for slot in range(len(use)):
        total += use[slot] * use[slot]
    return np.sqrt(total * len(use))


# Annealing of any digraph by an estimate of its all-to-all: prices of links against their loads.
#
# Slot ``s = u * d + i`` is the i-th link out of node u, to ``to[s]``. Whatever the prices of
# links are, no routing takes less than all cheapest paths cost over what all links cost; raising
# the price of what cheapest paths load much brings this bound near to the least time in a few
# rounds.


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
