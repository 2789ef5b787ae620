"""Loops of greedy matching of what is moved: events in time, and at each the senders matched.

Chunks that are at one node and for one node are alike: ``top[u, t]`` is one of those at u for t, -1
if there is none, ``below`` has the one after each. ``travel[u, t]`` is the least time from u to t;
``links`` are as in the loops that match copies.
"""

from __future__ import annotations

import numpy as np

from ocs_codesign.schedulers.greedy.kernels import most_events, next_random, pop, push, shuffle


def leads_closer(link, to, links, travel, slack):
    """Whether a link leads closer to a node, on a detour of at most so many ticks."""
    left, after = travel[links[0, link], to], travel[links[1, link], to]
    ticks = links[2, link] + links[3, link]
    return after >= 0 and after < left and after + ticks <= left + slack


def take_farthest(link, links, travel, slack, top, below, tie, salt):
    """Take the chunk that has farthest to go off those that a link may carry; -1 if none."""
    best, most, nodes, here = -1, 0, len(tie), links[0, link]
    for to in range(nodes):
        if top[here, to] < 0 or not leads_closer(link, to, links, travel, slack):
            continue
        order = tie[to] + salt
        if order >= nodes:
            order -= nodes
        key = travel[here, to] * nodes + order
        if best < 0 or key > most:
            best, most = to, key
    if best < 0:
        return -1
    chunk = top[here, best]
    top[here, best] = below[chunk]
    return chunk


def take_over(link, first, last, out_link, carried, target, links, travel, slack, top, below, tie):
    """Take the chunk of another link out of the same node that may carry a different one; or -1."""
    for at in range(first, last):
        other = out_link[at]
        chunk = carried[other]
        if chunk >= 0 and leads_closer(link, target[chunk], links, travel, slack):
            instead = take_farthest(other, links, travel, slack, top, below, tie, 0)
            if instead >= 0:
                carried[other] = instead
                return chunk
    return -1


def match_moves(
    links, out_first, out_link, source, target, travel, slack, tie, random, limit, rows
):
    """Match until every chunk is at its target: the number of transfers, -1 if that takes longer.

    All must have arrived before tick ``limit``. ``rows`` (links, chunks, starts) is filled in the
    order of starts; -1 too if it has no more room. ``tie`` is a random order of the nodes.
    """
    num_links, nodes = links.shape[1], len(tie)
    top, below = np.full((nodes, nodes), -1), np.full(len(source), -1)
    for chunk in range(len(source)):
        below[chunk] = top[source[chunk], target[chunk]]
        top[source[chunk], target[chunk]] = chunk
    is_free, is_dirty = np.ones(num_links, dtype=np.bool_), np.ones(nodes, dtype=np.bool_)
    carried, dirty, num_dirty = np.full(num_links, -1), np.arange(nodes), nodes
    times = np.empty(most_events(links, rows), dtype=np.int64)
    codes = np.empty(len(times), dtype=np.int64)
    size, done, time, missing = 0, 0, 0, len(source)
    while missing > 0:
        shuffle(dirty, num_dirty, random)
        for turn in range(num_dirty):
            node = dirty[turn]
            is_dirty[node] = False
            first, last = out_first[node], out_first[node + 1]
            salt, begin = next_random(random) % nodes, next_random(random)
            for step in range(last - first):
                link = out_link[first + (begin + step) % (last - first)]
                if is_free[link]:
                    chunk = take_farthest(link, links, travel, slack, top, below, tie, salt)
                    if chunk < 0:
                        chunk = take_over(
                            *(link, first, last, out_link, carried, target),
                            *(links, travel, slack, top, below, tie),
                        )
                    carried[link] = chunk
            for at in range(first, last):
                link = out_link[at]
                chunk = carried[link]
                if chunk < 0:
                    continue
                carried[link], is_free[link] = -1, False
                end = time + links[2, link] + links[3, link]
                to_go = travel[links[1, link], target[chunk]]
                if end + to_go >= limit or done == rows.shape[1]:
                    return -1
                missing -= to_go == 0
                rows[0, done], rows[1, done], rows[2, done] = link, chunk, time
                push(times, codes, size, end, 2 * done)
                size += 1
                if links[3, link] > 0:
                    push(times, codes, size, time + links[2, link], 2 * done + 1)
                    size += 1
                done += 1
        num_dirty = 0
        if size == 0:
            return done if missing == 0 else -1
        time = times[0]
        while size > 0 and times[0] == time:
            code = pop(times, codes, size)
            size -= 1
            link, chunk = rows[0, code >> 1], rows[1, code >> 1]
            node = links[0, link]
            if code & 1 or links[3, link] == 0:
                is_free[link] = True
                if not is_dirty[node]:
                    is_dirty[node] = True
                    dirty[num_dirty] = node
                    num_dirty += 1
            if not code & 1:
                node = links[1, link]
                if node != target[chunk]:
                    below[chunk] = top[node, target[chunk]]
                    top[node, target[chunk]] = chunk
                    if not is_dirty[node]:
                        is_dirty[node] = True
                        dirty[num_dirty] = node
                        num_dirty += 1
    return done
