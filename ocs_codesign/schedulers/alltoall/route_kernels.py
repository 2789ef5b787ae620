"""Searches over paths and their channel dependencies.

Links are given by tail: those out of node u are ``out_link[out_start[u] : out_start[u + 1]]``.
"""

from __future__ import annotations

import numpy as np


def disjoint_paths(sources, head, tail, out_start, out_link, is_down, most, ends, start, flat):
    """Shortest paths of every pair, up to ``most``, each without the links of those before it.

    A path that took a link of ``is_down`` takes only such links from there on. ``ends`` (2, paths)
    becomes source number and node, ``flat[start[i] : start[i + 1]]`` the links of path i. Returns
    the numbers of paths and links; with ``ends`` of no columns nothing is written.
    """
    nodes = len(out_start) - 1
    used = np.empty(len(tail), dtype=np.bool_)
    via = np.empty(2 * nodes, dtype=np.int64)
    before = np.empty(2 * nodes, dtype=np.int64)
    queue = np.empty(2 * nodes, dtype=np.int64)
    paths, links = 0, 0
    for number in range(len(sources)):
        for node in range(nodes):
            if node == sources[number]:
                continue
            used[:] = False
            for _ in range(most):
                state = _search(
                    sources[number],
                    node,
                    head,
                    out_start,
                    out_link,
                    is_down,
                    used,
                    via,
                    before,
                    queue,
                )
                if state < 0:
                    break
                first = links
                while before[state] >= 0:
                    used[via[state]] = True
                    if ends.shape[1]:
                        flat[links] = via[state]
                    links += 1
                    state = before[state]
                if ends.shape[1]:
                    for place in range((links - first) // 2):
                        opposite = links - 1 - place
                        link = flat[first + place]
                        flat[first + place], flat[opposite] = flat[opposite], link
                    ends[0, paths], ends[1, paths] = number, node
                    start[paths + 1] = links
                paths += 1
    return paths, links


def _search(source, target, head, out_start, out_link, is_down, used, via, before, queue):
    """Breadth first over states node + nodes * (has gone down); the target's state or -1."""
    nodes = len(out_start) - 1
    before[:] = -2
    before[source] = -1
    queue[0] = source
    first, last = 0, 1
    while first < last:
        state = queue[first]
        first += 1
        node, gone_down = state % nodes, state // nodes
        for at in range(out_start[node], out_start[node + 1]):
            link = out_link[at]
            if used[link] or (gone_down and not is_down[link]):
                continue
            onto = head[link] + nodes * (1 if is_down[link] else 0)
            if before[onto] == -2:
                before[onto], via[onto] = state, link
                if head[link] == target:
                    return onto
                queue[last] = onto
                last += 1
    return -1


def find_cycle(start, after, cycle):
    """Length of a cycle in the graph of links ``after[start[a] : start[a + 1]]`` each, 0 if none.

    ``cycle`` (int64, links + 1) becomes the links around it in its first places.
    """
    links = len(start) - 1
    at = start[:-1].copy()
    place = np.empty(links, dtype=np.int64)  # on the path, or -1 before that and -2 after it
    place[:] = -1
    for root in range(links):
        if place[root] == -2:
            continue
        cycle[0], place[root], depth = root, 0, 1
        while depth:
            link = cycle[depth - 1]
            if at[link] == start[link + 1]:
                place[link] = -2
                depth -= 1
                continue
            onto = after[at[link]]
            at[link] += 1
            if place[onto] == -2:
                continue
            if place[onto] >= 0:
                first = place[onto]
                for at_place in range(first, depth):
                    cycle[at_place - first] = cycle[at_place]
                return depth - first
            cycle[depth], place[onto] = onto, depth
            depth += 1
    return 0


def least_falling(start, head, weight, back_start, tail, back_weight, order):
    """An order of the links in which dependencies of little weight fall: sources, sinks, the rest.

    A link that nothing depends on comes last, one that depends on nothing first; of others the one
    that is worth most there comes first. ``head[start[i] : start[i + 1]]`` depend on link i, which
    depends on ``tail[back_start[i] : back_start[i + 1]]``. Fills the place of every link.
    """
    links = len(order)
    out = np.zeros(links, dtype=np.int64)
    into = np.zeros(links, dtype=np.int64)
    for link in range(links):
        for at in range(start[link], start[link + 1]):
            out[link] += weight[at]
        for at in range(back_start[link], back_start[link + 1]):
            into[link] += back_weight[at]
        order[link] = -1
    first, last = 0, links - 1
    while first <= last:
        chosen, worth, is_last = -1, 0, False
        for link in range(links):
            if order[link] >= 0:
                continue
            if out[link] == 0:
                chosen, is_last = link, True
                break
            gain = out[link] - into[link]
            if into[link] == 0:
                gain += 1 << 40
            if chosen < 0 or gain > worth:
                chosen, worth = link, gain
        if is_last:
            order[chosen] = last
            last -= 1
        else:
            order[chosen] = first
            first += 1
        for at in range(start[chosen], start[chosen + 1]):
            into[head[at]] -= weight[at]
        for at in range(back_start[chosen], back_start[chosen + 1]):
            out[tail[at]] -= back_weight[at]


def insert_links(start, head, weight, back_start, tail, back_weight, order):
    """Move links to the places where the least weight falls, until no move of one link helps.

    Arguments are those of ``least_falling``; ``order`` has a place for every link, and changes.
    """
    links = len(order)
    moved = True
    while moved:
        moved = False
        for link in range(links):
            own, count, fall = order[link], 0, 0
            most = start[link + 1] - start[link] + back_start[link + 1] - back_start[link]
            places = np.empty(most, dtype=np.int64)
            gains = np.empty(most, dtype=np.int64)
            for side in range(2):  # in front of all, what leads to the link falls
                first = back_start[link] if side == 0 else start[link]
                last = back_start[link + 1] if side == 0 else start[link + 1]
                for at in range(first, last):
                    place = order[tail[at]] if side == 0 else order[head[at]]
                    gain = -back_weight[at] if side == 0 else weight[at]
                    if side == 0:
                        fall += back_weight[at]
                    to = count
                    while to > 0 and places[to - 1] > place:
                        places[to] = places[to - 1]
                        gains[to] = gains[to - 1]
                        to -= 1
                    places[to] = place
                    gains[to] = gain
                    count += 1
            now, best, behind = fall, fall, -1
            for at in range(count):
                fall += gains[at]
                if at + 1 < count and places[at + 1] == places[at]:
                    continue
                if places[at] < own:
                    now = fall
                if fall < best:
                    best, behind = fall, places[at]
            if best < now:
                moved = True
                for other in range(links):
                    if own < order[other] <= behind:
                        order[other] -= 1
                    elif behind < order[other] < own:
                        order[other] += 1
                order[link] = behind if behind > own else behind + 1


def walk_order(start, head, roots, order):
    """The places of the links when walks along dependencies from the roots end, last first."""
    links = len(order)
    seen = np.zeros(links, dtype=np.bool_)
    following = start[:-1].copy()
    walk = np.empty(links, dtype=np.int64)
    place = links
    for root in roots:
        if seen[root]:
            continue
        seen[root] = True
        walk[0] = root
        depth = 1
        while depth:
            link = walk[depth - 1]
            if following[link] < start[link + 1]:
                other = head[following[link]]
                following[link] += 1
                if not seen[other]:
                    seen[other] = True
                    walk[depth] = other
                    depth += 1
            else:
                place -= 1
                order[link] = place
                depth -= 1
