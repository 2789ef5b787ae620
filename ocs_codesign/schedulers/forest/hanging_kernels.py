"""Loops over one tree: on which rank another may hang, and hanging it there.

Tree t is taken ``times[t]`` times; ``into[t, v]`` is the arc into rank v, -1 at its root,
``depth[t, v]`` its hops from the root, ``below[t, v]`` the hops to the farthest rank that hangs on
it. ``entered[t, s]`` tells whether the root is in set s or an arc leads into it: no set is entered
twice, nor is that of a root. Sets of rank v are ``set_of[set_first[v] : set_first[v + 1]]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class RankArcs(NamedTuple):
    """Arcs ``first[v]`` to ``first[v + 1]`` lead out of rank v = ``tail`` to their ``head``.

    Arcs ``into_arc[into_first[v] : into_first[v + 1]]`` lead into it; arc a is at ``place[a]`` of
    these. ``member`` (bool, sets x ranks) are sets that every tree enters just once.
    """

    first: NDArray[np.int64]
    tail: NDArray[np.int64]
    head: NDArray[np.int64]
    into_first: NDArray[np.int64]
    into_arc: NDArray[np.int64]
    place: NDArray[np.int64]
    set_first: NDArray[np.int64]
    set_of: NDArray[np.int64]
    member: NDArray[np.bool_]


class HungTrees(NamedTuple):
    """Trees as above, with space for more: ``times`` (int64, trees), others (trees x ranks)."""

    times: NDArray[np.int64]
    into: NDArray[np.int32]
    depth: NDArray[np.signedinteger]
    below: NDArray[np.signedinteger]


def ask(arcs, trees, tree, node, height, may):
    """Over which arcs into a rank a tree may come: 1 in ``may`` (arcs), 2 over which not.

    Not from a rank that hangs on this one, nor so that the tree gets taller than ``height``, at 0
    that any rank gets deeper; and no set is entered twice. All in one go: calls take time.
    """
    begin = arcs.into_first[node]
    into, depth = trees.into[tree], trees.depth[tree]
    old, most = arcs.tail[into[node]], height - 1 - trees.below[tree, node]
    for slot in range(len(may)):
        above = arcs.tail[arcs.into_arc[begin + slot]]
        is_open = depth[above] <= most if height > 0 else depth[above] + 1 == depth[node]
        for at in range(arcs.set_first[node], arcs.set_first[node + 1]):
            inside = arcs.member[arcs.set_of[at]]
            is_open &= inside[above] or not inside[old]
        if is_open:
            while depth[above] > depth[node]:
                above = arcs.tail[into[above]]
            is_open = above != node
        may[slot] = 1 if is_open else 2


def is_below(arcs, trees, tree, node, other):
    """Whether a rank is another or hangs on it."""
    tail, into, depth = arcs.tail, trees.into, trees.depth
    while depth[tree, other] > depth[tree, node]:
        other = tail[into[tree, other]]
    return other == node


def turn(arcs, trees, room, tree, node, above, height):
    """An arc with room by which a rank could hang elsewhere so that then another hangs below it.

    ``node`` is to hang on ``above``, which hangs on it: a rank between them has to be taken from
    below the first. -1 if there is none.
    """
    if not is_below(arcs, trees, tree, node, above):
        return -1
    rank, hops = above, 0
    while rank != node:
        for at in range(arcs.into_first[rank], arcs.into_first[rank + 1]):
            arc = arcs.into_arc[at]
            if room[arc] < 1:
                continue
            top = arcs.tail[arc]
            most = max(trees.below[tree, rank], hops + 1 + trees.below[tree, node])
            if (
                trees.depth[tree, top] + 1 + most <= height
                and not is_below(arcs, trees, tree, node, top)
                and keeps_sets(arcs, trees, tree, node, above, rank, top)
            ):
                return arc
        rank = arcs.tail[trees.into[tree, rank]]
        hops += 1
    return -1


def keeps_sets(arcs, trees, tree, node, above, rank, top):
    """Whether no set is entered more often if two ranks hang on ``above`` and ``top``."""
    tail, into = arcs.tail, trees.into
    old_node, old_rank = tail[into[tree, node]], tail[into[tree, rank]]
    for one in (node, rank):
        for at in range(arcs.set_first[one], arcs.set_first[one + 1]):
            which = arcs.set_of[at]
            more = 0
            if arcs.member[which, node]:
                more += int(arcs.member[which, old_node]) - int(arcs.member[which, above])
            if arcs.member[which, rank]:
                more += int(arcs.member[which, old_rank]) - int(arcs.member[which, top])
            if more > 0:
                return False
    return True


def hang(arcs, trees, tree, node, arc):
    """Let a rank with all that hangs on it come over an arc."""
    tail, into, below = arcs.tail, trees.into, trees.below
    above = tail[into[tree, node]]
    into[tree, node] = arc
    while above >= 0:
        most = 0
        for out in range(arcs.first[above], arcs.first[above + 1]):
            if into[tree, arcs.head[out]] == out:
                most = max(most, below[tree, arcs.head[out]] + 1)
        if most == below[tree, above]:
            break
        below[tree, above] = most
        above = tail[into[tree, above]] if into[tree, above] >= 0 else -1
    above, most = tail[arc], below[tree, node] + 1
    change = trees.depth[tree, above] + 1 - trees.depth[tree, node]
    while above >= 0 and below[tree, above] < most:
        below[tree, above] = most
        most += 1
        above = tail[into[tree, above]] if into[tree, above] >= 0 else -1
    if change != 0:
        stack = [node]
        while len(stack) > 0:
            rank = stack.pop()
            trees.depth[tree, rank] += change
            for out in range(arcs.first[rank], arcs.first[rank + 1]):
                other = arcs.head[out]
                if into[tree, other] == out:
                    stack.append(other)


def part_off(trees, tree, other, amount):
    """Take a tree ``amount`` times less, and as often its copy."""
    trees.times[tree] -= amount
    trees.times[other] = amount
    for node in range(trees.into.shape[1]):
        trees.into[other, node] = trees.into[tree, node]
        trees.depth[other, node] = trees.depth[tree, node]
        trees.below[other, node] = trees.below[tree, node]
