"""Orderly generation of regular digraphs, each isomorphism class once, scored by exact BFB.

``heads[i]`` are the out-neighbours of node i in ascending order. A traversal from a root numbers
nodes as they are met: the root 0, then the new out-neighbours of node 0 in some order, those of
node 1, and so on. The rows in this numbering are its code, and a digraph is visited where its rows
are the least code of all its traversals. Rows once set stay, so a prefix of rows that is not the
least leads to no visit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

NEXT, END = 0, 1
BILLION = 10**9


class Kept(NamedTuple):
    """What visits keep: the best, the digraphs that show it, and those of few hops."""

    best: Any
    shown: Any
    most_hops: Any
    short: Any


def visit(two_way, simple, unit, sizes, heads, used, state, work, kept, most):
    """Visit up to ``most`` classes from where ``state`` is; END once there are no more, else NEXT.

    ``state`` holds (slot, whether it is left, classes, labelled digraphs modulo BILLION and the
    billions of them, digraphs in ``short``); ``best[k, steps]`` the least sum of loads in 1 / unit
    of an allgather (k = 0) and of an allreduce (k = 1) in so many steps each way, and
    ``shown[k, steps]`` the rows of a digraph that has it, after them whether it is its reverse that
    does. Digraphs of diameter k whose distances add up to at most ``most_hops[k]`` are put in
    ``short``; when it is full the visit pauses. ``sizes[W]`` is the number of links in W, ``work``
    are arrays of the traversals.
    """
    nodes, degree = heads.shape
    best, shown, most_hops, short = kept
    num_slots = nodes * degree
    labels, order, choice, began, fresh, row = work
    factorial = 1
    for number in range(2, nodes + 1):
        factorial *= number
    numbered_before = np.zeros(num_slots + 1, dtype=np.int64)
    slot, visited = state[0], 0
    into = np.empty((nodes, degree), dtype=np.int64)
    # The numbers that were in use before every slot follow from the slots.
    highest = 0
    for place in range(num_slots):
        numbered_before[place] = highest + 1
        if place < slot:
            highest = max(highest, heads[place // degree, place % degree])
    is_back = state[1] == 1
    while slot >= 0:
        node, port = slot // degree, slot % degree
        if not is_back and slot == num_slots:
            ties = least_code(heads, nodes, nodes, degree, labels, order, choice, began, fresh, row)
            if ties > 0:
                visited += 1
                state[2] += 1
                alike = state[3] + factorial // ties
                state[3], state[4] = alike % BILLION, state[4] + alike // BILLION
                steps, hops = score_both(heads, into, two_way, unit, sizes, best, shown)
                if hops <= most_hops[steps]:
                    short[state[5]] = heads
                    state[5] += 1
            is_back = True
            if visited == most or state[5] == len(short):
                state[0], state[1] = slot, 1
                return NEXT
        if not is_back and port == 0 and slot:
            # A node is done: is it met at all, and is no other traversal's code less?
            met = node < numbered_before[slot]
            if not met or not (
                least_code(heads, node, nodes, degree, labels, order, choice, began, fresh, row)
            ):
                is_back = True
        if is_back:
            slot -= 1
            if slot < 0:
                break
            node, port = slot // degree, slot % degree
            head = heads[node, port]
            used[head] -= 1
            heads[node, port] = -1
            first = head + 1
        else:
            first = heads[node, port - 1] if port else 0
            if simple and port:
                first += 1
        head = next_head(
            heads, used, node, port, first, numbered_before[slot], degree, two_way, simple
        )
        if head < 0:
            is_back = True
            continue
        is_back = False
        heads[node, port] = head
        used[head] += 1
        numbered_before[slot + 1] = max(numbered_before[slot], head + 1)
        slot += 1
    state[0] = -1
    return END


def next_head(heads, used, node, port, first, numbered, degree, two_way, simple):
    """The least head from ``first`` on that a slot may have, -1 if there is none.

    Two-way links back to nodes before it are given: as many as lead from them here.
    """
    nodes = heads.shape[0]
    for head in range(first, min(numbered + 1, nodes)):
        if two_way and head < node:
            given, here = 0, 0
            for other in range(degree):
                given += heads[head, other] == node
                here += heads[node, other] == head and other < port
            if here < given:
                return head
            continue
        if used[head] == degree or (head == node and (simple or two_way)):
            continue
        if two_way and port < links_back(heads, node, degree):
            return -1
        return head
    return -1


def links_back(heads, node, degree):
    """Links to a node from those before it."""
    count = 0
    for other in range(node):
        for port in range(degree):
            count += heads[other, port] == node
    return count


def least_code(heads, known, nodes, degree, labels, order, choice, began, fresh, row):
    """0 if some traversal has a lesser code than the first ``known`` rows, else how many have it.

    While rows are missing, traversals that would need them are let pass; with all known the number
    is that of the automorphisms.
    """
    ties = 0
    for root in range(known):
        for node in range(nodes):
            labels[node] = -1
        labels[root], order[0] = 0, root
        depth, choice[0], began[0] = 0, 0, 1
        while depth >= 0:
            if depth == known or order[depth] >= known:
                ties += 1
                depth -= 1
                if depth >= 0:
                    choice[depth] += 1
                continue
            node, numbered = order[depth], began[depth]
            for other in range(nodes):
                if labels[other] >= numbered:
                    labels[other] = -1
            count = 0
            for port in range(degree):
                head = heads[node, port]
                if labels[head] < 0:
                    labels[head] = nodes
                    fresh[count] = head
                    count += 1
            arrangements = 1
            for number in range(2, count + 1):
                arrangements *= number
            if choice[depth] == arrangements:
                for place in range(count):
                    labels[fresh[place]] = -1
                depth -= 1
                if depth >= 0:
                    choice[depth] += 1
                continue
            rest = choice[depth]
            for place in range(count):  # the choice as digits of factorial base
                swap = place + rest % (count - place)
                rest //= count - place
                fresh[place], fresh[swap] = fresh[swap], fresh[place]
                labels[fresh[place]] = numbered + place
                order[numbered + place] = fresh[place]
            sign = compare_row(heads, node, depth, degree, labels, row)
            if sign < 0:
                return 0
            if sign > 0:
                choice[depth] += 1
                continue
            depth += 1
            if depth < nodes:
                choice[depth], began[depth] = 0, numbered + count
                if depth >= began[depth]:  # a part that is closed: the digraph is not connected
                    return 0
    return ties


def compare_row(heads, node, depth, degree, labels, row):
    """Sign of a node's row in new numbers less the row of the digraph in its own."""
    for port in range(degree):
        label = labels[heads[node, port]]
        place = port
        while place and row[place - 1] > label:
            row[place] = row[place - 1]
            place -= 1
        row[place] = label
    for port in range(degree):
        if row[port] != heads[depth, port]:
            return -1 if row[port] < heads[depth, port] else 1
    return 0


def score_both(heads, into, two_way, unit, sizes, best, shown):
    """Enter a digraph, and its reverse, where they are the best; its diameter and all distances."""
    nodes, degree = heads.shape
    steps, scatter, hops = bfb_of(heads, unit, sizes)
    gather = scatter
    enter(0, steps, scatter, heads, best, shown, True)
    if not two_way:
        filled = np.zeros(nodes, dtype=np.int64)
        for node in range(nodes):
            for port in range(degree):
                head = heads[node, port]
                into[head, filled[head]] = node
                filled[head] += 1
        _, gather, _ = bfb_of(into, unit, sizes)
        enter(0, steps, gather, heads, best, shown, False)
    enter(1, steps, gather + scatter, heads, best, shown, False)
    return steps, hops


def enter(kind, steps, total, heads, best, shown, is_reversed):
    """Note a sum of loads and the rows that have it, if it is the least of so many steps."""
    if total < best[kind, steps]:
        best[kind, steps] = total
        shown[kind, steps, -1, 0] = is_reversed
        for node in range(heads.shape[0]):
            for port in range(heads.shape[1]):
                shown[kind, steps, node, port] = heads[node, port]


def bfb_of(into, unit, sizes):
    """Steps, the sum of the largest loads and that of all distances, over these in-links."""
    nodes, degree = into.shape
    rows = np.empty(nodes, dtype=np.int64)
    grown = np.empty(nodes, dtype=np.int64)
    for node in range(nodes):
        rows[node] = 1 << node
    everything = (1 << nodes) - 1
    steps, total, hops, missing = 0, 0, nodes * (nodes - 1), nodes
    while missing and steps < nodes:
        steps += 1
        largest, missing = 0, 0
        for node in range(nodes):
            union = rows[node]
            for port in range(degree):
                union |= rows[into[node, port]]
            grown[node] = union
            missing += union != everything
            new = union & ~rows[node]
            apart = everything & ~union
            while apart:
                apart &= apart - 1
                hops += 1
            for links in range(1, len(sizes)):
                outside = 0
                for port in range(degree):
                    if not links >> port & 1:
                        outside |= rows[into[node, port]]
                inside = new & ~outside
                count = 0
                while inside:
                    inside &= inside - 1
                    count += 1
                largest = max(largest, count * (unit // sizes[links]))
        total += largest
        rows, grown = grown, rows
    return steps, total, hops
