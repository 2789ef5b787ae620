"""Compiled replay of sends, a block of roots at a time; used by the verifier alone."""

from __future__ import annotations

from numba import njit

NEVER = 2**31 - 1
FINE, NOT_HELD, REDUNDANT, ROOT_SENDS, SENT_TWICE, STALE, LOST = range(7)
OWN_PIECE, SENT_ON, LEAVES, IDLE, COMES_HOME = range(7, 12)


@njit(cache=True)
def replay_gather(tail, head, root, lo, hi, link, step, first_root, held_since):
    """Replay sends that copy: (row, chunk, fault) of the first bad one, fault FINE if none.

    ``held_since[root - first_root, node, chunk]`` is the step at whose end the node holds the
    chunk, NEVER at the start for all but the owner. Sends must be sorted by step.
    """
    for row in range(len(root)):
        block = root[row] - first_root
        if block < 0 or block >= held_since.shape[0]:
            continue
        sender, receiver = tail[link[row]], head[link[row]]
        for chunk in range(lo[row], hi[row]):
            if held_since[block, sender, chunk] >= step[row]:
                return row, chunk, NOT_HELD
            if held_since[block, receiver, chunk] != NEVER:
                return row, chunk, REDUNDANT
            held_since[block, receiver, chunk] = step[row]
    return -1, -1, FINE


@njit(cache=True)
def replay_reduce(tail, head, root, lo, hi, link, step, first_root, state):
    """Replay sends that add: (row, chunk, fault) of the first bad one, fault FINE if none.

    A send carries all that its sender has of a chunk's sum, its own contribution included.
    ``state[root - first_root, node, chunk]`` is 0 at first, the step of the last contribution
    received, or minus the step at which the node sent its partial sum away.
    """
    for row in range(len(root)):
        block = root[row] - first_root
        if block < 0 or block >= state.shape[0]:
            continue
        sender, receiver = tail[link[row]], head[link[row]]
        for chunk in range(lo[row], hi[row]):
            if sender == root[row]:
                return row, chunk, ROOT_SENDS
            if state[block, sender, chunk] < 0:
                return row, chunk, SENT_TWICE
            if state[block, sender, chunk] >= step[row]:
                return row, chunk, STALE
            state[block, sender, chunk] = -step[row]
            if state[block, receiver, chunk] < 0:
                return row, chunk, LOST
            state[block, receiver, chunk] = step[row]
    return -1, -1, FINE


@njit(cache=True)
def replay_moves(tail, head, root, lo, hi, link, step, first_root, owner, place, since):
    """Replay sends that move: (row, chunk, fault) of the first bad one, fault FINE if none.

    ``place[root - first_root, chunk]`` is the one node that has the chunk, from the end of step
    ``since`` on; at first the root, from step 0 on. ``owner[chunk]`` is the node that it is for.
    """
    for row in range(len(root)):
        block = root[row] - first_root
        if block < 0 or block >= place.shape[0]:
            continue
        sender, receiver = tail[link[row]], head[link[row]]
        for chunk in range(lo[row], hi[row]):
            if owner[chunk] == root[row]:
                return row, chunk, OWN_PIECE
            if place[block, chunk] != sender or since[block, chunk] >= step[row]:
                return row, chunk, NOT_HELD
            if owner[chunk] == sender:
                return row, chunk, LEAVES
            if receiver == sender:
                return row, chunk, IDLE
            if receiver == root[row]:
                return row, chunk, COMES_HOME
            place[block, chunk] = receiver
            since[block, chunk] = step[row]
    return -1, -1, FINE


@njit(cache=True)
def first_unheld(held_since):
    """First (root, node, chunk) of a block that is never held, or -1 for all three."""
    for block in range(held_since.shape[0]):
        for node in range(held_since.shape[1]):
            for chunk in range(held_since.shape[2]):
                if held_since[block, node, chunk] == NEVER:
                    return block, node, chunk
    return -1, -1, -1


@njit(cache=True)
def first_unsent(state, first_root):
    """First (root, node, chunk) of a block whose contribution never leaves its node, or -1."""
    for block in range(state.shape[0]):
        for node in range(state.shape[1]):
            if node == first_root + block:
                continue
            for chunk in range(state.shape[2]):
                if state[block, node, chunk] >= 0:
                    return block, node, chunk
    return -1, -1, -1
