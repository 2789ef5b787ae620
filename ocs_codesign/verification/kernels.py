"""Loops of the replay, a block of items at a time; plain functions, compiled where it pays.

A send has what it carries at its ``start`` and brings it at its ``end``; sends are sorted by start.
"""

from __future__ import annotations

import numpy as np

NEVER = 2**31 - 1
FINE, NOT_HELD, REDUNDANT, ROOT_SENDS, SENT_TWICE, STALE, LOST = range(7)
OWN_PIECE, SENT_ON, LEAVES, IDLE, COMES_HOME, NOTHING_TO_SEND = range(7, 13)


def replay_copies(sender, receiver, item, lo, hi, start, end, first_item, once, held_since):
    """Replay sends that copy: (row, span, fault) of the first bad one, fault FINE if none.

    ``held_since[item - first_item, node, span]`` is when the node holds the span, NEVER at first
    for all but the root. With ``once`` a node must not receive what it has.
    """
    for row in range(len(item)):
        block = item[row] - first_item
        if block < 0 or block >= held_since.shape[0]:
            continue
        for span in range(lo[row], hi[row]):
            if held_since[block, sender[row], span] > start[row]:
                return row, span, NOT_HELD
            if held_since[block, receiver[row], span] == NEVER:
                held_since[block, receiver[row], span] = end[row]
            elif once:
                return row, span, REDUNDANT
    return -1, -1, FINE


def replay_sums(sender, receiver, item, lo, hi, start, end, first_item, root, state):
    """Replay sends that add: (row, span, fault) of the first bad one, fault FINE if none.

    A send carries all that its sender has of a span's sum, its own contribution included.
    ``root[item - first_item]`` is where the sum must end. ``state[item - first_item, node, span]``
    is 0 at first, NEVER if the node has nothing to contribute, the end of the last contribution
    received, or -1 once the node has sent its partial sum away.
    """
    for row in range(len(item)):
        block = item[row] - first_item
        if block < 0 or block >= state.shape[0]:
            continue
        for span in range(lo[row], hi[row]):
            held = state[block, sender[row], span]
            if sender[row] == root[block]:
                return row, span, ROOT_SENDS
            if held < 0:
                return row, span, SENT_TWICE
            if held == NEVER:
                return row, span, NOTHING_TO_SEND
            if held > start[row]:
                return row, span, STALE
            state[block, sender[row], span] = -1
            if state[block, receiver[row], span] < 0:
                return row, span, LOST
            last = state[block, receiver[row], span]
            state[block, receiver[row], span] = end[row] if last == NEVER else max(last, end[row])
    return -1, -1, FINE


def replay_moves(sender, receiver, item, lo, hi, start, end, first_item, root, owner, place, since):
    """Replay sends that move: (row, span, fault) of the first bad one, fault FINE if none.

    ``place[item - first_item, span]`` is the one node that has the span, from ``since`` on; at
    first ``root[item - first_item]``, from 0 on. ``owner``, of the same shape, is the node that it
    is for.
    """
    for row in range(len(item)):
        block = item[row] - first_item
        if block < 0 or block >= place.shape[0]:
            continue
        for span in range(lo[row], hi[row]):
            if owner[block, span] == root[block]:
                return row, span, OWN_PIECE
            if place[block, span] != sender[row] or since[block, span] > start[row]:
                return row, span, NOT_HELD
            if owner[block, span] == sender[row]:
                return row, span, LEAVES
            if receiver[row] == sender[row]:
                return row, span, IDLE
            if receiver[row] == root[block]:
                return row, span, COMES_HOME
            place[block, span] = receiver[row]
            since[block, span] = end[row]
    return -1, -1, FINE


# Loops over the operations of programs of ranks; plain functions, compiled where it pays.


RUNS_FINE, TWICE, MIXED, NOTHING = range(4)
SENDS, RECEIVES, RECEIVES_ADDING, COPIES, ADDS, NOTHING_DONE, PUTS, GETS = range(8)


def in_order(start, successor, waits):
    """The operations that can run, in an order in which they can; ``waits`` counts down.

    Operation o is waited for by ``successor[start[o] : start[o + 1]]``.
    """
    order = np.empty(len(waits), dtype=np.int64)
    end = 0
    for operation in range(len(waits)):
        if waits[operation] == 0:
            order[end] = operation
            end += 1
    at = 0
    while at < end:
        operation = order[at]
        at += 1
        for edge in range(start[operation], start[operation + 1]):
            waits[successor[edge]] -= 1
            if waits[successor[edge]] == 0:
                order[end] = successor[edge]
                end += 1
    return order[:end]


def latest_before(order, start, before, column, place, latest):
    """Fill in ``latest[o, c]``, the last place of column c that is not after operation o.

    Operation o is right after ``before[start[o] : start[o + 1]]`` and has itself a place in a
    column, unless that is -1; ``latest`` is -1 at first.
    """
    num = latest.shape[1]
    for operation in order:
        for edge in range(start[operation], start[operation + 1]):
            earlier = before[edge]
            for at in range(num):
                latest[operation, at] = max(latest[operation, at], latest[earlier, at])
        own = column[operation]
        if own >= 0:
            latest[operation, own] = max(latest[operation, own], place[operation])


def executed(order, kind, source, target, count, transit, datum, parts, on_way, parts_on_way):
    """Run operations in an order: (operation, chunk, fault) of the first bad one, FINE if none.

    ``datum[slot]`` is which chunk of the data a slot has something of, -1 if of none, and ``parts``
    the ranks, a bit each, whose contribution that is. What is sent waits from ``transit[o]`` on in
    ``on_way`` and ``parts_on_way``; what is put or got is noted there.
    """
    for operation in order:
        what = kind[operation]
        size = count[operation]
        if what > GETS or what == NOTHING_DONE:
            continue
        source_at, target_at, way = source[operation], target[operation], transit[operation]
        for chunk in range(size):
            to = target_at + chunk
            if what == SENDS:
                on_way[way + chunk] = datum[source_at + chunk]
                parts_on_way[way + chunk] = parts[source_at + chunk]
                continue
            if what == GETS:
                on_way[way + chunk], parts_on_way[way + chunk] = datum[to], parts[to]
                datum[source_at + chunk], parts[source_at + chunk] = datum[to], parts[to]
                continue
            if what == PUTS:
                on_way[way + chunk] = datum[source_at + chunk]
                parts_on_way[way + chunk] = parts[source_at + chunk]
            if what in (RECEIVES, RECEIVES_ADDING):
                came, of = on_way[way + chunk], parts_on_way[way + chunk]
            else:
                came, of = datum[source_at + chunk], parts[source_at + chunk]
            if what in (RECEIVES_ADDING, ADDS):
                if came < 0 or datum[to] < 0:
                    return operation, chunk, NOTHING
                if came != datum[to]:
                    return operation, chunk, MIXED
                if of & parts[to]:
                    return operation, chunk, TWICE
                parts[to] = parts[to] | of
            else:
                datum[to], parts[to] = came, of
    return -1, -1, RUNS_FINE


def longest_before(order, start, before, weight, level):
    """Raise ``level`` of every operation to the most that those right before it add up to."""
    for operation in order:
        for edge in range(start[operation], start[operation + 1]):
            above = level[before[edge]] + weight[edge]
            level[operation] = max(level[operation], above)


def joined(num, one, other):
    """The least of all entries that pairs join each of so many entries with."""
    least = np.arange(num)
    for pair in range(len(one)):
        first, second = one[pair], other[pair]
        while least[first] != first:
            least[first] = least[least[first]]
            first = least[first]
        while least[second] != second:
            least[second] = least[least[second]]
            second = least[second]
        if first < second:
            least[second] = first
        else:
            least[first] = second
    for entry in range(num):
        least[entry] = least[least[entry]]
    return least


def handed_on(order, start, before, held):
    """Add to the bits of every entry those of all right before it."""
    for entry in order:
        for edge in range(start[entry], start[entry + 1]):
            for word in range(held.shape[1]):
                held[entry, word] |= held[before[edge], word]
