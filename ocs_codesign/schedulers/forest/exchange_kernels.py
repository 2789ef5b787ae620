"""Loops of exchange: trees grown breadth first, and ranks that take them over other arcs.

``room`` is what every arc still takes, below 0 where it carries too much. Arcs and trees are those
of ``hanging_kernels``.
"""

from __future__ import annotations

import numpy as np

from ocs_codesign.schedulers.forest.hanging_kernels import (
    ask,
    hang,
    part_off,
    turn,
)


def plant(arcs, trees, room, root, entered, queue):
    """A tree from every root, breadth first, over the arcs with most room; False if one cannot be.

    ``entered`` (sets) and ``queue`` (ranks) are room for a value each.
    """
    into, depth, below = trees.into, trees.depth, trees.below
    for tree in range(len(root)):
        for which in range(len(entered)):
            entered[which] = arcs.member[which, root[tree]]
        reached = reach(arcs, into[tree], depth[tree], root[tree], entered, queue)
        if reached < len(queue):
            return False
        for place in range(1, reached):
            node = queue[place]
            best = into[tree, node]
            for at in range(arcs.into_first[node], arcs.into_first[node + 1]):
                arc = arcs.into_arc[at]
                is_better = room[arc] > room[best]
                if not is_better or depth[tree, arcs.tail[arc]] != depth[tree, node] - 1:
                    continue
                for of in range(arcs.set_first[node], arcs.set_first[node + 1]):
                    inside = arcs.member[arcs.set_of[of]]
                    is_better &= inside[arcs.tail[arc]] or not inside[arcs.tail[best]]
                if is_better:
                    best = arc
            into[tree, node] = best
            room[best] -= trees.times[tree]
        for place in range(reached):
            below[tree, queue[place]] = 0
        for place in range(reached - 1, 0, -1):
            above = arcs.tail[into[tree, queue[place]]]
            below[tree, above] = max(below[tree, above], below[tree, queue[place]] + 1)
    return True


def reach(arcs, into, depth, root, entered, queue):
    """Ranks in the order in which a search from a root finds them: how many it finds."""
    for node in range(len(into)):
        into[node] = depth[node] = -1
    depth[root] = 0
    queue[0] = root
    reached, done = 1, 0
    while done < reached < len(into):
        node = queue[done]
        done += 1
        for arc in range(arcs.first[node], arcs.first[node + 1]):
            target = arcs.head[arc]
            if depth[target] >= 0:
                continue
            is_open = True
            for at in range(arcs.set_first[target], arcs.set_first[target + 1]):
                which = arcs.set_of[at]
                is_open = is_open and (not entered[which] or arcs.member[which, node])
            if is_open:
                for at in range(arcs.set_first[target], arcs.set_first[target + 1]):
                    entered[arcs.set_of[at]] = True
                depth[target] = depth[node] + 1
                into[target] = arc
                queue[reached] = target
                reached += 1
    return reached


def relieve(arcs, trees, room, count, height):
    """Let ranks take trees over other arcs where too much comes over one: how many trees are then.

    Minus as many and 1 if there was no space for another. No tree becomes taller than ``height``;
    at 0 no rank gets deeper in it.
    """
    for node in range(len(arcs.first) - 1):
        is_over = False
        for at in range(arcs.into_first[node], arcs.into_first[node + 1]):
            is_over |= room[arcs.into_arc[at]] < 0
        if is_over:
            count = relieve_rank(arcs, trees, room, count, node, height)
            if count < 0:
                return count
    return count


def relieve_rank(arcs, trees, room, count, node, height):
    """The same for one rank."""
    begin = arcs.into_first[node]
    width, most = arcs.into_first[node + 1] - begin, len(trees.times)
    # may[t, a]: tree t may come over arc a (1), may not (2), this has not been asked (0).
    may = np.zeros((most, width), dtype=np.int8)
    lists = (np.full(width, -1), np.full(most, -1), np.full(most, -1))
    found = (np.full(width, -1), np.full(width, -1), np.full(width, -1))
    queue = np.full(width, -1)
    for tree in range(count - 1, -1, -1):
        if trees.into[tree, node] >= 0:
            link_in(tree, arcs.place[trees.into[tree, node]], lists)
    for may_turn in range(2 if height > 0 else 1):
        count = shift(arcs, trees, room, count, node, height, may, lists, may_turn)
        while count >= 0:
            end = widen(arcs, trees, room, node, height, may, lists, found, queue, may_turn)
            if end < 0:
                break
            count = follow(arcs, trees, room, count, node, may, lists, found, end)
        if count < 0:
            break
    return count


def shift(arcs, trees, room, count, node, height, may, lists, may_turn):
    """Take trees from arcs that carry too much to others with room, the lowest of these first."""
    begin = arcs.into_first[node]
    width = arcs.into_first[node + 1] - begin
    for slot in range(width):
        over, tree = arcs.into_arc[begin + slot], lists[0][slot]
        while tree >= 0 and room[over] < 0:
            following, best, by = lists[1][tree], -1, -1
            if may[tree, 0] == 0:
                ask(arcs, trees, tree, node, height, may[tree])
            for other in range(width):
                arc = arcs.into_arc[begin + other]
                above = arcs.tail[arc]
                if room[arc] < 1 or (
                    best >= 0
                    and trees.depth[tree, above]
                    >= trees.depth[tree, arcs.tail[arcs.into_arc[begin + best]]]
                ):
                    continue
                turned = -1
                if may[tree, other] == 2 and may_turn:
                    turned = turn(arcs, trees, room, tree, node, above, height)
                if may[tree, other] == 1 or turned >= 0:
                    best, by = other, turned
            if best >= 0:
                amount = min(trees.times[tree], -room[over])
                amount = min(amount, room[arcs.into_arc[begin + best]])
                if by >= 0:
                    amount = min(amount, room[by])
                whole = trees.times[tree] == amount
                count = take(
                    arcs, trees, room, count, node, may, lists, tree, slot, best, by, amount
                )
                if count < 0:
                    return count
                if not whole:
                    continue
            tree = following
    return count


def follow(arcs, trees, room, count, node, may, lists, found, end):
    """Take trees along the way that a search has found."""
    came_from, came_tree, turned = found
    begin = arcs.into_first[node]
    amount, start = room[arcs.into_arc[begin + end]], end
    while came_from[start] >= 0:
        amount = min(amount, trees.times[came_tree[start]])
        if turned[start] >= 0:
            amount = min(amount, room[turned[start]])
        start = came_from[start]
    amount = min(amount, -room[arcs.into_arc[begin + start]])
    while came_from[end] >= 0 and count >= 0:
        count = take(
            *(arcs, trees, room, count, node, may, lists),
            *(came_tree[end], came_from[end], end, turned[end], amount),
        )
        end = came_from[end]
    return count


def take(arcs, trees, room, count, node, may, lists, tree, old, new, turned, amount):
    """Let a tree come over another arc so many times: how many trees are then, as in ``relieve``.

    Before that, the head of the arc ``turned`` comes over that one, if it is an arc.
    """
    begin = arcs.into_first[node]
    if trees.times[tree] == amount:
        link_out(tree, old, lists)
    elif count == len(trees.times):
        return -count - 1
    else:
        part_off(trees, tree, count, amount)
        for slot in range(may.shape[1]):
            may[count, slot] = may[tree, slot]
        tree = count
        count += 1
    if turned >= 0:
        other = arcs.head[turned]
        room[trees.into[tree, other]] += amount
        room[turned] -= amount
        hang(arcs, trees, tree, other, turned)
        for slot in range(may.shape[1]):
            may[tree, slot] = 0
    hang(arcs, trees, tree, node, arcs.into_arc[begin + new])
    link_in(tree, new, lists)
    room[arcs.into_arc[begin + new]] -= amount
    room[arcs.into_arc[begin + old]] += amount
    return count


def widen(arcs, trees, room, node, height, may, lists, found, queue, may_turn):
    """Search from arcs into a rank that carry too much for one with room: its place, -1 for none.

    Place s is reached by taking tree ``came_tree[s]`` from place ``came_from[s]`` to it, which is
    -1 at the start and -2 where the search has not been, after it has ``turned[s]``, if that is an
    arc.
    """
    on_first, on_next, _ = lists
    came_from, came_tree, turned = found
    begin, seen, done = arcs.into_first[node], 0, 0
    for slot in range(len(queue)):
        came_from[slot] = -2
        turned[slot] = -1
        if room[arcs.into_arc[begin + slot]] < 0:
            came_from[slot] = -1
            queue[seen] = slot
            seen += 1
    while done < seen:
        slot = queue[done]
        done += 1
        tree = on_first[slot]
        while tree >= 0:
            if may[tree, 0] == 0:
                ask(arcs, trees, tree, node, height, may[tree])
            for other in range(len(queue)):
                if came_from[other] != -2:
                    continue
                arc = arcs.into_arc[begin + other]
                above = arcs.tail[arc]
                if may[tree, other] == 2 and may_turn and room[arc] > 0:
                    turned[other] = turn(arcs, trees, room, tree, node, above, height)
                if may[tree, other] == 1 or turned[other] >= 0:
                    came_from[other], came_tree[other] = slot, tree
                    if room[arc] > 0:
                        return other
                    queue[seen] = other
                    seen += 1
            tree = on_next[tree]
    return -1


def link_in(tree, slot, lists):
    """Put a tree first in the list of a place."""
    on_first, on_next, on_last = lists
    on_next[tree], on_last[tree] = on_first[slot], -1
    if on_first[slot] >= 0:
        on_last[on_first[slot]] = tree
    on_first[slot] = tree


def link_out(tree, slot, lists):
    """Take a tree out of the list of a place."""
    on_first, on_next, on_last = lists
    if on_last[tree] >= 0:
        on_next[on_last[tree]] = on_next[tree]
    else:
        on_first[slot] = on_next[tree]
    if on_next[tree] >= 0:
        on_last[on_next[tree]] = on_last[tree]
