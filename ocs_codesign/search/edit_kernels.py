"""Compiled scoring of single nodes taken out of a digraph or put into its links.

In-neighbours of all nodes are rows of ``into``, in the order of link ids, filled up to at least
three columns with the node itself; a slot is a place in the flat table.
"""

from __future__ import annotations

import numpy as np

from ocs_codesign.schedulers.bfb.reach_kernels import confined_sources


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
