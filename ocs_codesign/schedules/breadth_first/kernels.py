"""Loops of the BFB scheduler: source classes, balanced flows, rows of the schedule.

Every kernel serves one receiver u. Its sources are grouped into classes: those at one distance
whose admissible in-neighbours, the nearer ones, are the same. Any steps of arrival serve as
distances, if an item comes to some in-neighbour before. A flow routes the chunks of every class
over the in-neighbours within their capacities; a greedy pass and augmenting paths find it.
"""

from __future__ import annotations

import numpy as np


def source_classes(distance_to, receiver, neighbours, class_of, class_step, class_size, allowed):
    """Class of every source, its step and its admissible in-neighbours; returns the class count.

    ``distance_to[u, v]`` is dist(v, u). Refines the partition by distance with one in-neighbour
    after the other. ``class_step`` and ``class_size`` (N) and ``allowed`` (N x k) are filled by
    class, the receiver itself gets class -1. Classes are ordered by step, then by first member.
    """
    nodes = distance_to.shape[1]
    width = neighbours.shape[0]
    own = distance_to[receiver]
    steps = 0
    for source in range(nodes):
        class_of[source] = own[source]
        steps = max(steps, own[source])
    count = steps + 1
    table = np.empty(2 * max(count, nodes) + 2, dtype=np.int64)
    for i in range(width):
        if neighbours[i] == receiver:
            continue
        via = distance_to[neighbours[i]]
        table[: 2 * count] = -1
        fresh = 0
        for source in range(nodes):
            key = 2 * class_of[source] + (via[source] < own[source])
            if table[key] < 0:
                table[key] = fresh
                fresh += 1
            class_of[source] = table[key]
        count = fresh
    # Renumber by step so that the classes of a step are contiguous.
    first = np.empty(count, dtype=np.int64)
    first[:] = -1
    class_size[:count] = 0
    for source in range(nodes):
        if first[class_of[source]] < 0:
            first[class_of[source]] = source
    # First members ascend with the numbers of classes, so that their order within a step stays.
    place = np.empty(steps + 2, dtype=np.int64)
    place[:] = 0
    for c in range(count):
        place[own[first[c]] + 1] += 1
    for step in range(steps):
        place[step + 1] += place[step]
    rank = np.empty(count, dtype=np.int64)
    for c in range(count):
        rank[c] = place[own[first[c]]] - 1  # the receiver alone is at distance 0
        place[own[first[c]]] += 1
    for c in range(count):
        if rank[c] >= 0:
            class_step[rank[c]] = own[first[c]]
            for i in range(width):
                allowed[rank[c], i] = (
                    neighbours[i] != receiver
                    and distance_to[neighbours[i], first[c]] < own[first[c]]
                )
    for source in range(nodes):
        class_of[source] = rank[class_of[source]]
        if class_of[source] >= 0:
            class_size[class_of[source]] += 1
    return count - 1


def route(supply, allowed, capacity, flow, reached_class, reached_link):
    """Largest flow of the classes' supplies over links within capacity; returns what is left over.

    ``flow`` (classes x links) is filled. Where something is left over, ``reached_class`` and
    ``reached_link`` mark the violating set: what the unrouted classes can reach in the residual.
    """
    classes, links = allowed.shape
    spare = capacity.copy()
    left = supply.copy()
    flow[:classes, :links] = 0
    for c in range(classes):
        for i in range(links):
            if allowed[c, i] and left[c] > 0 and spare[i] > 0:
                amount = min(left[c], spare[i])
                flow[c, i] += amount
                left[c] -= amount
                spare[i] -= amount
    parent_link = np.empty(classes, dtype=np.int64)  # link through which a class was reached
    parent_class = np.empty(links, dtype=np.int64)  # class from which a link was reached
    queue = np.empty(classes, dtype=np.int64)
    while True:
        total = 0
        filled = 0
        reached_class[:classes] = False
        reached_link[:links] = False
        for c in range(classes):
            if left[c] > 0:
                total += left[c]
                reached_class[c] = True
                parent_link[c] = -1
                queue[filled] = c
                filled += 1
        if total == 0:
            return 0
        end = -1
        taken = 0
        while taken < filled and end < 0:
            c = queue[taken]
            taken += 1
            for i in range(links):
                if not allowed[c, i] or reached_link[i]:
                    continue
                reached_link[i] = True
                parent_class[i] = c
                if spare[i] > 0:
                    end = i
                    break
                for other in range(classes):
                    if flow[other, i] > 0 and not reached_class[other]:
                        reached_class[other] = True
                        parent_link[other] = i
                        queue[filled] = other
                        filled += 1
        if end < 0:
            return total
        amount = spare[end]
        i = end
        while True:
            c = parent_class[i]
            if parent_link[c] < 0:
                amount = min(amount, left[c])
                break
            i = parent_link[c]
            amount = min(amount, flow[c, i])
        spare[end] -= amount
        i = end
        while True:
            c = parent_class[i]
            flow[c, i] += amount
            if parent_link[c] < 0:
                left[c] -= amount
                break
            i = parent_link[c]
            flow[c, i] -= amount


def least_load(size, allowed, capacity):
    """Numerator and denominator of the least largest load of one receiver and step.

    Starts from the average over all admissible links and, while that load is too small, moves to
    the ratio of the set that violates it (Dinkelbach's method; exact and finite).
    """
    classes, links = allowed.shape
    flow = np.empty((classes, links), dtype=np.int64)
    supply = np.empty(classes, dtype=np.int64)
    room = np.empty(links, dtype=np.int64)
    reached_class = np.empty(classes, dtype=np.bool_)
    reached_link = np.empty(links, dtype=np.bool_)
    reached_class[:] = True
    reached_link[:] = False
    for i in range(links):
        for c in range(classes):
            reached_link[i] |= allowed[c, i]
    while True:
        count = 0
        speed = 0
        for c in range(classes):
            if reached_class[c]:
                count += size[c]
        for i in range(links):
            if reached_link[i]:
                speed += capacity[i]
        for c in range(classes):
            supply[c] = size[c] * speed
        for i in range(links):
            room[i] = capacity[i] * count
        if route(supply, allowed, room, flow, reached_class, reached_link) == 0:
            return count, speed


def all_least_loads(distance_to, neighbours, capacities, receivers, steps):
    """Largest least load of every step over the receivers, as numerators and denominators."""
    nodes = distance_to.shape[1]
    width = neighbours.shape[1]
    best = np.empty((steps, 2), dtype=np.int64)
    best[:, 0], best[:, 1] = 0, 1
    class_of = np.empty(nodes, dtype=np.int64)
    class_step = np.empty(nodes, dtype=np.int64)
    size = np.empty(nodes, dtype=np.int64)
    allowed = np.empty((nodes, width), dtype=np.bool_)
    for receiver in receivers:
        count = source_classes(
            distance_to, receiver, neighbours[receiver], class_of, class_step, size, allowed
        )
        first = 0
        while first < count:
            last = first
            while last < count and class_step[last] == class_step[first]:
                last += 1
            top, bottom = least_load(size[first:last], allowed[first:last], capacities[receiver])
            step = class_step[first] - 1
            if top * best[step, 1] > best[step, 0] * bottom:
                best[step, 0] = top
                best[step, 1] = bottom
            first = last
    return best


def receiver_rows(
    distance_to,
    receiver,
    neighbours,
    link_start,
    links,
    link_budget,
    chunks,
    count_rows,
    offset,
    columns,
):
    """Rows of one receiver: counted by (step, link) or written to their places.

    ``links[link_start[i] : link_start[i + 1]]`` are the links from in-neighbour i and
    ``link_budget[step, j]`` the chunks that the j-th of them may carry. The sources of a class
    stand in a line of chunks, cut where one link's share ends and the next begins. With
    ``count_rows`` the number of rows goes to ``offset[step, link]``; otherwise that is the next
    free row of ``columns`` (root, lo, hi, link, step). Returns False if the flow does not fit.
    """
    nodes = distance_to.shape[1]
    width = neighbours.shape[0]
    class_of = np.empty(nodes, dtype=np.int64)
    class_step = np.empty(nodes, dtype=np.int64)
    size = np.empty(nodes, dtype=np.int64)
    allowed = np.empty((nodes, width), dtype=np.bool_)
    count = source_classes(distance_to, receiver, neighbours, class_of, class_step, size, allowed)
    cursor = np.empty(count + 1, dtype=np.int64)
    cursor[0] = 0
    for c in range(count):
        cursor[c + 1] = cursor[c] + size[c]
    member_start = cursor.copy()
    members = np.empty(nodes, dtype=np.int64)
    for source in range(nodes):
        c = class_of[source]
        if c >= 0:
            members[cursor[c]] = source
            cursor[c] += 1
    capacity = np.empty(width, dtype=np.int64)
    flow = np.empty((count, width), dtype=np.int64)
    reached_class = np.empty(count, dtype=np.bool_)
    reached_link = np.empty(width, dtype=np.bool_)
    for c in range(count):
        size[c] *= chunks
    first = 0
    while first < count:
        last = first
        while last < count and class_step[last] == class_step[first]:
            last += 1
        step = class_step[first] - 1
        budget = link_budget[step].copy()
        capacity[:] = 0
        for i in range(width):
            for j in range(link_start[i], link_start[i + 1]):
                capacity[i] += budget[j]
        left = route(
            size[first:last], allowed[first:last], capacity, flow, reached_class, reached_link
        )
        if left > 0:
            return False
        for c in range(first, last):
            position = 0
            for i in range(width):
                wanted = flow[c - first, i]
                for j in range(link_start[i], link_start[i + 1]):
                    share = min(wanted, budget[j])
                    budget[j] -= share
                    wanted -= share
                    end = position + share
                    while position < end:
                        index = position // chunks
                        stop = min(end, (index + 1) * chunks)
                        row = offset[step, links[j]]
                        offset[step, links[j]] = row + 1
                        if not count_rows:
                            columns[0, row] = members[member_start[c] + index]
                            columns[1, row] = position - index * chunks
                            columns[2, row] = stop - index * chunks
                            columns[3, row] = links[j]
                            columns[4, row] = step + 1
                        position = stop
        first = last
    return True


# Loops over packed reach sets: how many new sources every set of in-links confines.


def confined_sources(reached, neighbours, grown, sizes, confined, complete, first, last):
    """One hop on for receivers ``first`` to ``last`` - 1: grown reach sets and their new sources.

    A new source lies outside every set W of in-links exactly if a link outside W leads to it, so W
    confines |union over all links| - |union over the links not in W|, unions taken with what was
    reached. Adds that to ``confined`` (receivers x sets) and updates ``sizes``; receivers that have
    ``complete`` many sources already have no new ones. There are at least three columns of
    in-neighbours.
    """
    words = reached.shape[1]
    width = neighbours.shape[1]
    sets = 1 << width
    covered = np.empty(sets, dtype=np.int64)
    cover = np.empty((width - 3, words), dtype=np.uint64)
    for node in range(first, last):
        own, union = reached[node], grown[node]
        for word in range(words):
            union[word] = own[word]
        if sizes[node] == complete:
            continue
        for column in range(width):
            join(union, reached[neighbours[node, column]], union)
        one = reached[neighbours[node, 0]]
        two = reached[neighbours[node, 1]]
        three = reached[neighbours[node, 2]]
        for high in range(sets >> 3):
            base = own
            if high:
                # Counted upwards, a set comes soon after the one that lacks its lowest column.
                lowest = 0
                while not high >> lowest & 1:
                    lowest += 1
                depth, rest = 0, high & (high - 1)
                before = own
                while rest:
                    depth, rest = depth + 1, rest & (rest - 1)
                    before = cover[depth - 1]
                base = cover[depth]
                join(before, reached[neighbours[node, lowest + 3]], base)
            sums = eight_sizes(base, one, two, three)
            for low in range(8):
                covered[high << 3 | low] = sums[low]
        whole = covered[sets - 1]
        for inside in range(sets):
            confined[node, sets - 1 - inside] += whole - covered[inside]
        sizes[node] = whole


def eight_sizes(base, one, two, three):
    """Bits in the union of the base with every set of three rows, the set's bits its place."""
    none = first = second = both = third = outer = inner = every = 0
    for word in range(len(base)):
        bits, last = base[word], three[word]
        left, right = bits | one[word], bits | two[word]
        pair = left | right
        none += ones_in(bits)
        first += ones_in(left)
        second += ones_in(right)
        both += ones_in(pair)
        third += ones_in(bits | last)
        outer += ones_in(left | last)
        inner += ones_in(right | last)
        every += ones_in(pair | last)
    return none, first, second, both, third, outer, inner, every


def join(one, other, union):
    """The bits of either."""
    for word in range(len(union)):
        union[word] = one[word] | other[word]


def ones_in(word):
    """Bits of a word that are set; written so that compilers know it for what it is."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    pairs = np.uint64(0x3333333333333333)
    word = (word & pairs) + ((word >> np.uint64(2)) & pairs)
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


def largest_load(confined, weights):
    """The largest confined / weight over sets of positive weight, as numerator and denominator."""
    top, bottom = 0, 1
    for node in range(confined.shape[0]):
        for inside in range(1, confined.shape[1]):
            count, weight = int(confined[node, inside]), int(weights[node, inside])
            if weight > 0 and count * bottom > top * weight:
                top, bottom = count, weight
    return top, bottom
