"""Loops of exchange: trees grown breadth first, and ranks that take them over other arcs.

``room`` is what every arc still takes, below 0 where it carries too much. Arcs and trees are those
of ``hanging_kernels``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Loops over one tree: on which rank another may hang, and hanging it there.
#
# Tree t is taken ``times[t]`` times; ``into[t, v]`` is the arc into rank v, -1 at its root,
# ``depth[t, v]`` its hops from the root, ``below[t, v]`` the hops to the farthest rank that hangs
# on it. ``entered[t, s]`` tells whether the root is in set s or an arc leads into it: no set is
# entered twice, nor is that of a root. Sets of rank v are ``set_of[set_first[v] : set_first[v +
# 1]]``.


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


# Loops of packing: trees grown breadth first within what tight sets let in.


def grow(first, tail, head, spare, root, inside, may_enter, parent, depth, queue):
    """A tree from the root over arcs with something to spare; how many nodes it reaches.

    Arcs ``first[v]`` to ``first[v + 1]`` lead from node v = ``tail`` to their ``head``. An arc is
    not taken if it enters a set (row of ``inside``) that ``may_enter`` no more; each one taken
    lowers that.
    Of the arcs from one level to a node the one with most to spare is taken. ``parent`` gets the
    arc into every node, ``depth`` its hops from the root, both -1 elsewhere; ``queue`` the nodes in
    the order they are reached.
    """
    for node in range(len(parent)):
        parent[node] = -1
        depth[node] = -1
    depth[root] = 0
    queue[0] = root
    reached, done = 1, 0
    while done < reached:
        node = queue[done]
        done += 1
        for arc in range(first[node], first[node + 1]):
            target = head[arc]
            if spare[arc] < 1 or 0 <= depth[target] <= depth[node]:
                continue
            old = parent[target]
            if old >= 0 and spare[arc] <= spare[old]:
                continue
            if old >= 0:
                enter(inside, may_enter, tail[old], target, 1)
            if is_open(inside, may_enter, node, target):
                enter(inside, may_enter, node, target, -1)
                parent[target] = arc
                if old < 0:
                    depth[target] = depth[node] + 1
                    queue[reached] = target
                    reached += 1
            elif old >= 0:
                enter(inside, may_enter, tail[old], target, -1)
    return reached


def is_open(inside, may_enter, tail, head):
    """Whether every set that an arc enters may be entered."""
    for which in range(len(may_enter)):
        if may_enter[which] < 1 and inside[which, head] and not inside[which, tail]:
            return False
    return True


def enter(inside, may_enter, tail, head, change):
    """Count an arc in all sets that it enters."""
    for which in range(len(may_enter)):
        if inside[which, head] and not inside[which, tail]:
            may_enter[which] += change
