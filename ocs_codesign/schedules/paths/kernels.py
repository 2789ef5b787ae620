"""Shortest paths with integer prices, and what the certificates of all-to-all sum over.

Links are given by tail: those out of node u are ``out_link[out_start[u] : out_start[u + 1]]``.
"""

from __future__ import annotations

import numpy as np


def shortest_tree(source, head, out_start, out_link, price, distance, parent, order, heap):
    """Cheapest paths from a source: fills distance, parent link and settling order.

    Returns the number of nodes reached. ``heap`` is an int64 workspace of shape (2, links + 1); a
    binary heap with stale entries, ties in the order of discovery, so that every run is the same.
    """
    unreached = np.int64(1 << 62)
    distance[:] = unreached
    parent[:] = -1
    distance[source] = 0
    heap[0, 0], heap[1, 0] = 0, source
    size, settled = 1, 0
    while size:
        near, node = heap[0, 0], heap[1, 0]
        size -= 1
        _sift_down(heap, size, heap[0, size], heap[1, size])
        if near > distance[node]:
            continue
        order[settled] = node
        settled += 1
        for at in range(out_start[node], out_start[node + 1]):
            link = out_link[at]
            far = near + price[link]
            if far < distance[head[link]]:
                distance[head[link]] = far
                parent[head[link]] = link
                _sift_up(heap, size, far, head[link])
                size += 1
    return settled


def _sift_up(heap, place, key, value):
    while place:
        above = (place - 1) >> 1
        if heap[0, above] <= key:
            break
        heap[0, place], heap[1, place] = heap[0, above], heap[1, above]
        place = above
    heap[0, place], heap[1, place] = key, value


def _sift_down(heap, size, key, value):
    place = 0
    while 2 * place + 1 < size:
        below = 2 * place + 1
        if below + 1 < size and heap[0, below + 1] < heap[0, below]:
            below += 1
        if heap[0, below] >= key:
            break
        heap[0, place], heap[1, place] = heap[0, below], heap[1, below]
        place = below
    heap[0, place], heap[1, place] = key, value


def tree_hops(sources, tail, head, out_start, out_link, price, link_orbit, hops):
    """Whether the sources reach all nodes; ``hops[i, o]`` is how often tree i uses orbit o.

    A tree counts a link once for every node beyond it.
    """
    nodes = len(out_start) - 1
    distance = np.empty(nodes, dtype=np.int64)
    parent = np.empty(nodes, dtype=np.int64)
    order = np.empty(nodes, dtype=np.int64)
    beyond = np.empty(nodes, dtype=np.int64)
    heap = np.empty((2, len(tail) + 1), dtype=np.int64)
    hops[:] = 0
    for number in range(len(sources)):
        reached = shortest_tree(
            sources[number], head, out_start, out_link, price, distance, parent, order, heap
        )
        if reached < nodes:
            return False
        beyond[:] = 1
        for place in range(nodes - 1, 0, -1):
            node = order[place]
            link = parent[node]
            beyond[tail[link]] += beyond[node]
            hops[number, link_orbit[link]] += beyond[node]
    return True


def soft_loads(
    sources, tail, head, out_start, out_link, in_start, in_link, price, rate, link_orbit, loads
):
    """Spread the paths of every source over all links that lead away from it, dear ones less.

    A link counts exp(-``rate`` times what it is dearer than the cheapest way to its head).
    ``loads[i, o]`` becomes what source i puts on orbit o; returns what the cheapest paths of every
    source cost in all.
    """
    nodes = len(out_start) - 1
    distance = np.empty(nodes, dtype=np.int64)
    parent = np.empty(nodes, dtype=np.int64)
    order = np.empty(nodes, dtype=np.int64)
    heap = np.empty((2, len(tail) + 1), dtype=np.int64)
    ways, through = np.empty(nodes), np.empty(nodes)
    share = np.empty(len(tail))
    paid = np.zeros(len(sources), dtype=np.int64)
    loads[:] = 0
    for number in range(len(sources)):
        shortest_tree(
            sources[number], head, out_start, out_link, price, distance, parent, order, heap
        )
        ways[sources[number]] = 1.0
        through[:] = 1.0
        for place in range(1, nodes):
            node = order[place]
            paid[number] += distance[node]
            ways[node] = 0.0
            for at in range(in_start[node], in_start[node + 1]):
                link = in_link[at]
                detour = distance[tail[link]] + price[link] - distance[node]
                is_away = distance[tail[link]] < distance[node]
                share[link] = ways[tail[link]] * np.exp(-rate * detour) if is_away else 0.0
                ways[node] += share[link]
        for place in range(nodes - 1, 0, -1):
            node = order[place]
            for at in range(in_start[node], in_start[node + 1]):
                link = in_link[at]
                part = through[node] * share[link] / ways[node]
                loads[number, link_orbit[link]] += part
                through[tail[link]] += part
    return paid


def reroute(
    sources, tail, head, out_start, out_link, in_start, in_link, price, flow, least, kept, load
):
    """Add to ``load`` (per link) a flow that brings every node what it keeps of every source.

    ``flow[i, link]`` of the i-th source is only a wish, taken for 0 up to ``least`` and freed of
    cycles (in place): node after node, each after those it has flow to, what a node needs and
    passes on comes over its in-links in proportion to the wish, or along the cheapest path where
    there is none. Everything is counted in integers.
    """
    nodes = len(out_start) - 1
    distance = np.empty(nodes, dtype=np.int64)
    parent = np.empty(nodes, dtype=np.int64)
    order = np.empty(nodes, dtype=np.int64)
    heap = np.empty((2, len(tail) + 1), dtype=np.int64)
    ready = np.empty(nodes, dtype=np.int64)
    pending = np.empty(nodes, dtype=np.int64)
    through = np.empty(nodes, dtype=np.int64)
    for number in range(len(sources)):
        source = sources[number]
        wish = flow[number]
        for link in range(len(tail)):
            if wish[link] <= least or head[link] == source:
                wish[link] = 0.0
        cancel_cycles(head, out_start, out_link, wish)
        shortest_tree(source, head, out_start, out_link, price, distance, parent, order, heap)
        pending[:] = 0
        for link in range(len(tail)):
            pending[tail[link]] += wish[link] > 0
        last = 0
        for node in range(nodes):
            if pending[node] == 0:
                ready[last] = node
                last += 1
        for node in range(nodes):
            through[node] = kept[node]
        for first in range(nodes):
            node = ready[first]
            if node != source:
                split_over_in_links(node, tail, in_start, in_link, wish, parent, through, load)
            for at in range(in_start[node], in_start[node + 1]):
                before = tail[in_link[at]]
                if wish[in_link[at]] > 0:
                    pending[before] -= 1
                    if pending[before] == 0:
                        ready[last] = before
                        last += 1


def split_over_in_links(node, tail, in_start, in_link, wish, parent, through, load):
    """Split what passes a node over its in-links."""
    wished = 0.0
    for at in range(in_start[node], in_start[node + 1]):
        wished += wish[in_link[at]]
    left = through[node]
    for at in range(in_start[node], in_start[node + 1]):
        link = in_link[at]
        if wish[link] > 0:
            part = min(left, np.int64(np.rint(through[node] * (wish[link] / wished))))
            load[link] += part
            through[tail[link]] += part
            left -= part
    while left and parent[node] >= 0:
        load[parent[node]] += left
        node = tail[parent[node]]


def cancel_cycles(head, out_start, out_link, flow):
    """Lower a flow (float, a link) in place until its links with flow form no cycle."""
    nodes = len(out_start) - 1
    at = out_start[:-1].copy()
    place = np.empty(nodes, dtype=np.int64)  # on the path, or -1 before that and -2 after it
    path = np.empty(nodes, dtype=np.int64)
    via = np.empty(nodes + 1, dtype=np.int64)
    place[:] = -1
    for start in range(nodes):
        if place[start] == -2:
            continue
        path[0], place[start], depth = start, 0, 1
        while depth:
            node = path[depth - 1]
            while at[node] < out_start[node + 1] and (
                flow[out_link[at[node]]] <= 0 or place[head[out_link[at[node]]]] == -2
            ):
                at[node] += 1
            if at[node] == out_start[node + 1]:
                place[node] = -2
                depth -= 1
                continue
            link = out_link[at[node]]
            onto = head[link]
            via[depth] = link
            if place[onto] == -1:
                path[depth], place[onto] = onto, depth
                depth += 1
                continue
            smallest = flow[link]
            for step in range(place[onto] + 1, depth):
                smallest = min(smallest, flow[via[step]])
            for step in range(place[onto] + 1, depth + 1):
                flow[via[step]] -= smallest
            while path[depth - 1] != onto:
                place[path[depth - 1]] = -1
                depth -= 1


# Searches over paths and their channel dependencies.
#
# Links are given by tail: those out of node u are ``out_link[out_start[u] : out_start[u + 1]]``.


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
