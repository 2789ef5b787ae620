"""Loops of packing: trees grown breadth first within what tight sets let in."""


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
