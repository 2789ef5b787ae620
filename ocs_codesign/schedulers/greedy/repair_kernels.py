"""Loops of local repair: some chunks are taken out and put back, each as early as it can be.

``begun[e]`` has the starts of the ``count[e]`` transfers on link e in order, ``what[e]`` their
chunks.
"""

from __future__ import annotations

import numpy as np

from ocs_codesign.schedulers.greedy.kernels import next_random, pop, push

FAR = 2**62


def earliest(link, ready, busy, begun, count):
    """The first tick from ``ready`` on at which a link is free for long enough."""
    tick = ready
    for at in range(count[link]):
        if begun[link, at] >= tick + busy:
            break
        if begun[link, at] + busy > tick:
            tick = begun[link, at] + busy
    return tick


def take_out(chunk, begun, what, count):
    """Remove all transfers of a chunk."""
    for link in range(len(count)):
        kept = 0
        for at in range(count[link]):
            if what[link, at] != chunk:
                begun[link, kept], what[link, kept] = begun[link, at], what[link, at]
                kept += 1
        count[link] = kept


def put_in(chunk, source, wants, links, out_first, out_link, begun, what, count, arrival):
    """Bring a chunk to all who want it, each as early as the links allow: the last arrival.

    ``arrival[node]`` is filled with when nodes have it, FAR for those that never get it.
    """
    nodes, size, last = len(arrival), 1, 0
    via, since = np.full(nodes, -1), np.zeros(nodes, dtype=np.int64)
    is_done, needed = np.zeros(nodes, dtype=np.bool_), np.zeros(nodes, dtype=np.bool_)
    times = np.zeros(links.shape[1] + nodes + 1, dtype=np.int64)
    codes = np.zeros(len(times), dtype=np.int64)
    for node in range(nodes):
        arrival[node] = FAR
    arrival[source], codes[0] = 0, source
    while size > 0:
        node = pop(times, codes, size)
        size -= 1
        if is_done[node]:
            continue
        is_done[node] = True
        for at in range(out_first[node], out_first[node + 1]):
            link = out_link[at]
            to, busy = links[1, link], links[2, link]
            if is_done[to]:
                continue
            tick = earliest(link, arrival[node], busy, begun, count)
            end = tick + busy + links[3, link]
            if end < arrival[to]:
                arrival[to], via[to], since[to] = end, link, tick
                push(times, codes, size, end, to)
                size += 1
    for node in range(nodes):
        at = node
        while wants[node] and at != source and not needed[at]:
            needed[at] = True
            at = links[0, via[at]]
    for node in range(nodes):
        if not needed[node]:
            if node != source:
                arrival[node] = FAR
            continue
        last = max(last, arrival[node])
        link = via[node]
        at = count[link]
        while at > 0 and begun[link, at - 1] > since[node]:
            begun[link, at], what[link, at] = begun[link, at - 1], what[link, at - 1]
            at -= 1
        begun[link, at], what[link, at] = since[node], chunk
        count[link] += 1
    return last


def copy(begun, what, count, to_begun, to_what, to_count):
    """Copy what is on all links."""
    for link in range(len(count)):
        to_count[link] = count[link]
        for at in range(count[link]):
            to_begun[link, at], to_what[link, at] = begun[link, at], what[link, at]


def repair(
    source, wants, links, out_first, out_link, begun, what, count, latest, least, rounds, random
):
    """Take out a late chunk and up to three more in each of so many rounds, and put them back.

    What is worse is undone. Stops when all is there by tick ``least``; returns the last arrival.
    ``latest[chunk]`` is its last arrival, ``wants[chunk, node]`` says who must have it.
    """
    chunks = len(source)
    old_begun, old_what, old_count = np.empty_like(begun), np.empty_like(what), np.empty_like(count)
    arrival, old_latest = np.zeros(wants.shape[1], dtype=np.int64), np.empty_like(latest)
    out, last, total = np.zeros(4, dtype=np.int64), 0, 0
    for chunk in range(chunks):
        last, total = max(last, latest[chunk]), total + latest[chunk]
    for _ in range(rounds):
        if last <= least:
            break
        copy(begun, what, count, old_begun, old_what, old_count)
        size, now, sum_now = 1 + next_random(random) % 4, 0, 0
        for at in range(size):
            out[at] = (next_random(random) * 32768 + next_random(random)) % chunks
        while latest[out[0]] < last:
            out[0] = (out[0] + 1) % chunks
        for chunk in range(chunks):
            old_latest[chunk] = latest[chunk]
        for at in range(size):
            take_out(out[at], begun, what, count)
            latest[out[at]] = -1
        for at in range(size):
            chunk = out[at]
            if latest[chunk] < 0:
                latest[chunk] = put_in(
                    *(chunk, source[chunk], wants[chunk], links, out_first, out_link),
                    *(begun, what, count, arrival),
                )
        for chunk in range(chunks):
            now, sum_now = max(now, latest[chunk]), sum_now + latest[chunk]
        if now < last or (now == last and sum_now <= total):
            last, total = now, sum_now
            continue
        copy(old_begun, old_what, old_count, begun, what, count)
        for chunk in range(chunks):
            latest[chunk] = old_latest[chunk]
    return last
