"""Loops of packing: trees grown, and ranks that take them over other arcs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Loops over one tree: on which rank another may hang, and hanging it there.


class RankArcs(NamedTuple):
    """Arcs ``first[v]`` to ``first[v + 1]`` lead out of rank v = ``tail`` to their ``head``.

    Arcs ``into_arc[into_first[v] : into_first[v + 1]]`` lead into it; arc a is at ``place[a]`` of
    these. ``member`` (bool, sets x ranks) are sets that every tree enters just once, its root's
    not at all; those of rank v are ``set_of[set_first[v] : set_first[v + 1]]``. ``room`` is what an
    arc still takes, below 0 where it carries too much.
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
    room: NDArray[np.int64]


class HungTrees(NamedTuple):
    """Trees, with space for more.

    Tree t is taken ``times[t]`` times; ``into[t, v]`` is the arc into rank v, -1 at its root,
    ``depth[t, v]`` its hops from the root, ``below[t, v]`` those to the farthest rank that hangs on
    it.
    """

    times: NDArray[np.int64]
    into: NDArray[np.int32]
    depth: NDArray[np.signedinteger]
    below: NDArray[np.signedinteger]


class Rank(NamedTuple):
    """A rank, by which of its ``width`` arcs trees come, and by which they may.

    ``may[t, a]``: tree t may come over arc a (1), may not (2), this has not been asked (0). No tree
    becomes taller than ``height``; at 0 no rank gets deeper in it. The trees that come over arc a
    are a list from ``on_first[a]`` on. A search reaches arc a by taking tree ``came_tree[a]`` from
    arc ``came_from[a]`` to it, -1 at the start, -2 where it has not been, after the arc
    ``turned[a]`` has been taken to, if it is one.
    """

    node: int
    begin: int
    width: int
    height: int
    may: NDArray[np.int8]
    on_first: NDArray[np.int64]
    on_next: NDArray[np.int64]
    on_last: NDArray[np.int64]
    came_from: NDArray[np.int64]
    came_tree: NDArray[np.int64]
    turned: NDArray[np.int64]
    queue: NDArray[np.int64]


def ask(arcs, trees, rank, tree):
    """Find out over which arcs into a rank a tree may come.

    Not from a rank that hangs on this one, and no set is entered twice. All in one go: calls take
    time.
    """
    may, node, height = rank.may[tree], rank.node, rank.height
    into, depth = trees.into[tree], trees.depth[tree]
    old, most = arcs.tail[into[node]], height - 1 - trees.below[tree, node]
    for slot in range(len(may)):
        above = arcs.tail[arcs.into_arc[rank.begin + slot]]
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


def turn(arcs, trees, tree, node, above, height):
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
            if arcs.room[arc] < 1:
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


def plant(arcs, trees, root, entered, queue):
    """A tree from every root, breadth first, over the arcs with most room; False if one cannot be.

    ``entered`` (sets) and ``queue`` (ranks) are room for a value each.
    """
    into, depth, below, room = trees.into, trees.depth, trees.below, arcs.room
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


def relieve(arcs, trees, count, height):
    """Let ranks take trees over other arcs where too much comes over one: how many trees are then.

    Minus as many and 1 if there was no space for another. No tree becomes taller than ``height``;
    at 0 no rank gets deeper in it.
    """
    for node in range(len(arcs.first) - 1):
        is_over = False
        for at in range(arcs.into_first[node], arcs.into_first[node + 1]):
            is_over |= arcs.room[arcs.into_arc[at]] < 0
        if is_over:
            count = relieve_rank(arcs, trees, count, node, height)
            if count < 0:
                return count
    return count


def relieve_rank(arcs, trees, count, node, height):
    """The same for one rank."""
    begin = arcs.into_first[node]
    width, most = arcs.into_first[node + 1] - begin, len(trees.times)
    rank = Rank(
        *(node, begin, width, height, np.zeros((most, width), dtype=np.int8)),
        *(np.full(width, -1), np.full(most, -1), np.full(most, -1)),
        *(np.full(width, -1), np.full(width, -1), np.full(width, -1), np.full(width, -1)),
    )
    for tree in range(count - 1, -1, -1):
        if trees.into[tree, node] >= 0:
            link_in(rank, tree, arcs.place[trees.into[tree, node]])
    for may_turn in range(2 if height > 0 else 1):
        count = shift(arcs, trees, rank, count, may_turn)
        while count >= 0:
            end = widen(arcs, trees, rank, may_turn)
            if end < 0:
                break
            count = follow(arcs, trees, rank, count, end)
        if count < 0:
            break
    return count


def way_over(arcs, trees, rank, tree, slot, may_turn):
    """Whether a tree may come over an arc: -1, -2 if not, else the arc to be taken to before."""
    if rank.may[tree, slot] == 1:
        return -1
    arc = arcs.into_arc[rank.begin + slot]
    if may_turn and arcs.room[arc] > 0:
        turned = turn(arcs, trees, tree, rank.node, arcs.tail[arc], rank.height)
        if turned >= 0:
            return turned
    return -2


def shift(arcs, trees, rank, count, may_turn):
    """Take trees from arcs that carry too much to others with room, the lowest of these first."""
    room = arcs.room
    for slot in range(rank.width):
        over, tree = arcs.into_arc[rank.begin + slot], rank.on_first[slot]
        while tree >= 0 and room[over] < 0:
            following, best, by, least = rank.on_next[tree], -1, -1, 0
            if rank.may[tree, 0] == 0:
                ask(arcs, trees, rank, tree)
            for other in range(rank.width):
                arc = arcs.into_arc[rank.begin + other]
                depth = trees.depth[tree, arcs.tail[arc]]
                if room[arc] < 1 or (best >= 0 and depth >= least):
                    continue
                way = way_over(arcs, trees, rank, tree, other, may_turn)
                if way > -2:
                    best, by, least = other, way, depth
            if best >= 0:
                amount = min(trees.times[tree], -room[over])
                amount = min(amount, room[arcs.into_arc[rank.begin + best]])
                if by >= 0:
                    amount = min(amount, room[by])
                whole = trees.times[tree] == amount
                count = take(arcs, trees, rank, count, tree, slot, best, by, amount)
                if count < 0:
                    return count
                if not whole:
                    continue
            tree = following
    return count


def follow(arcs, trees, rank, count, end):
    """Take trees along the way that a search has found."""
    came_from, came_tree, turned, room = rank.came_from, rank.came_tree, rank.turned, arcs.room
    amount, start = room[arcs.into_arc[rank.begin + end]], end
    while came_from[start] >= 0:
        amount = min(amount, trees.times[came_tree[start]])
        if turned[start] >= 0:
            amount = min(amount, room[turned[start]])
        start = came_from[start]
    amount = min(amount, -room[arcs.into_arc[rank.begin + start]])
    while came_from[end] >= 0 and count >= 0:
        ends = came_from[end], end
        count = take(arcs, trees, rank, count, came_tree[end], *ends, turned[end], amount)
        end = came_from[end]
    return count


def take(arcs, trees, rank, count, tree, old, new, turned, amount):
    """Let a tree come over another arc so many times: how many trees are then, as in ``relieve``.

    Before that, the head of the arc ``turned`` comes over that one, if it is an arc.
    """
    may, room = rank.may, arcs.room
    if trees.times[tree] == amount:
        link_out(rank, tree, old)
    elif count == len(trees.times):
        return -count - 1
    else:
        part_off(trees, tree, count, amount)
        for slot in range(rank.width):
            may[count, slot] = may[tree, slot]
        tree = count
        count += 1
    if turned >= 0:
        other = arcs.head[turned]
        room[trees.into[tree, other]] += amount
        room[turned] -= amount
        hang(arcs, trees, tree, other, turned)
        for slot in range(rank.width):
            may[tree, slot] = 0
    hang(arcs, trees, tree, rank.node, arcs.into_arc[rank.begin + new])
    link_in(rank, tree, new)
    room[arcs.into_arc[rank.begin + new]] -= amount
    room[arcs.into_arc[rank.begin + old]] += amount
    return count


def widen(arcs, trees, rank, may_turn):
    """Search from arcs that carry too much for one with room: its place, -1 for none."""
    came_from, came_tree, queue, room = rank.came_from, rank.came_tree, rank.queue, arcs.room
    seen, done = 0, 0
    for slot in range(rank.width):
        came_from[slot] = -2
        rank.turned[slot] = -1
        if room[arcs.into_arc[rank.begin + slot]] < 0:
            came_from[slot] = -1
            queue[seen] = slot
            seen += 1
    while done < seen:
        slot = queue[done]
        done += 1
        tree = rank.on_first[slot]
        while tree >= 0:
            if rank.may[tree, 0] == 0:
                ask(arcs, trees, rank, tree)
            for other in range(rank.width):
                if came_from[other] != -2:
                    continue
                way = way_over(arcs, trees, rank, tree, other, may_turn)
                if way > -2:
                    came_from[other], came_tree[other], rank.turned[other] = slot, tree, way
                    if room[arcs.into_arc[rank.begin + other]] > 0:
                        return other
                    queue[seen] = other
                    seen += 1
            tree = rank.on_next[tree]
    return -1


def link_in(rank, tree, slot):
    """Put a tree first in the list of an arc."""
    on_first, on_next, on_last = rank.on_first, rank.on_next, rank.on_last
    on_next[tree], on_last[tree] = on_first[slot], -1
    if on_first[slot] >= 0:
        on_last[on_first[slot]] = tree
    on_first[slot] = tree


def link_out(rank, tree, slot):
    """Take a tree out of the list of an arc."""
    on_first, on_next, on_last = rank.on_first, rank.on_next, rank.on_last
    if on_last[tree] >= 0:
        on_next[on_last[tree]] = on_next[tree]
    else:
        on_first[slot] = on_next[tree]
    if on_next[tree] >= 0:
        on_last[on_next[tree]] = on_last[tree]


# Trees grown breadth first within what tight sets let in.


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
