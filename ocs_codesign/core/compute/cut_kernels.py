"""Maximum flows of a sweep over all ranks, as a loop over arrays or lists.

Arcs 2i and 2i + 1 lead to and fro between two nodes; ``room`` is what each still takes, ``to`` its
head, and ``out[first[v] : first[v + 1]]`` are the arcs out of node v. A node is a source while what
it may send itself, ``own``, is above 0, and for ever once the flow to it has been found.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class CutArcs(NamedTuple):
    """Arcs out of every node (CSR), the head of every arc, and what each still takes."""

    first: Any
    out: Any
    to: Any
    room: Any


class Spare(NamedTuple):
    """Room for one value a node."""

    is_done: Any
    level: Any
    at: Any
    queue: Any
    path: Any


def sweep(arcs, own, ranks, begin, demand, spare):
    """Find a flow of ``demand`` to every rank in turn, from where the flows before it are left.

    Returns the position of the first rank that cannot have it, or the number of ranks. ``level`` is
    at least 0 on the sink's side of a least cut then. At first ``is_done`` is all False, ``level``
    all -1.
    """
    first, out, to, room = arcs
    is_done, level, at, queue, path = spare
    seen = 0
    for position in range(begin):
        is_done[ranks[position]] = True
    for position in range(begin, len(ranks)):
        sink = ranks[position]
        need = demand - own[sink]
        own[sink] = own[sink] * 0
        while need > 0:
            for place in range(seen):
                level[queue[place]] = -1
            seen, is_reached = levels(first, out, to, room, own, sink, is_done, level, queue)
            if not is_reached:
                return position
            for place in range(seen):
                at[queue[place]] = first[queue[place]]
            need -= blocking_flow(first, out, to, room, own, sink, is_done, level, at, path, need)
        is_done[sink] = True
    return len(ranks)


def note_tight_sets(arcs, own, ranks, begin, demand, spare, is_tight):
    """Sweep, and note for every rank the nodes on its side where no more than its flow can come."""
    first, out, to, room = arcs
    is_done, level, queue = spare.is_done, spare.level, spare.queue
    for position in range(begin, len(ranks)):
        for node in range(len(level)):
            level[node] = -1
        sweep(arcs, own, ranks[position : position + 1], 0, demand, spare)
        for node in range(len(level)):
            level[node] = -1
        seen, is_reached = levels(first, out, to, room, own, ranks[position], is_done, level, queue)
        if not is_reached:
            for place in range(seen):
                is_tight[position, queue[place]] = True
    return len(ranks)


def levels(first, out, to, room, own, sink, is_done, level, queue):
    """Hops to the sink up to the nearest source: how many nodes have some, and if a source has."""
    level[sink] = 0
    queue[0] = sink
    seen, done, last = 1, 0, len(level)
    while done < seen and level[queue[done]] < last:
        node = queue[done]
        done += 1
        for place in range(first[node], first[node + 1]):
            arc = out[place]
            tail = to[arc]
            if level[tail] < 0 and room[arc ^ 1] > 0:
                level[tail] = level[node] + 1
                queue[seen] = tail
                seen += 1
                if is_done[tail] or own[tail] > 0:
                    last = level[tail]
    return seen, last < len(level)


def blocking_flow(first, out, to, room, own, sink, is_done, level, at, path, most):
    """Push along shortest paths until none is open, or ``most`` has come: what has come."""
    pushed = most * 0
    node, depth = sink, 0
    while pushed < most:
        if depth > 0 and (is_done[node] or own[node] > 0):
            amount = most - pushed
            if not is_done[node]:
                amount = min(amount, own[node])
            for hop in range(depth):
                amount = min(amount, room[path[hop]])
            if not is_done[node]:
                own[node] -= amount
            for hop in range(depth):
                room[path[hop]] -= amount
                room[path[hop] ^ 1] += amount
            pushed += amount
            node, depth = sink, 0
        elif at[node] == first[node + 1]:
            if depth == 0:
                break
            depth -= 1
            node = to[path[depth]]
            at[node] += 1
        else:
            back = out[at[node]]
            if level[to[back]] == level[node] + 1 and room[back ^ 1] > 0:
                path[depth] = back ^ 1
                depth += 1
                node = to[back]
            else:
                at[node] += 1
    return pushed
