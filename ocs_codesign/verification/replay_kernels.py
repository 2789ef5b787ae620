"""Loops of the replay, a block of items at a time; plain functions, compiled where it pays.

A send has what it carries at its ``start`` and brings it at its ``end``; sends are sorted by start.
"""

from __future__ import annotations

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
