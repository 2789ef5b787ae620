"""Loops of greedy matching: events in time, and at each the receivers matched with chunks.

``links`` has a row each of tails, heads, ticks that a chunk holds a link, and ticks that it is on
the way after that. ``state[v, c]`` says what node v has to do with chunk c.
"""

from __future__ import annotations

import numpy as np

BARRED, RELAYS, WANTS, HAS = range(4)
"""A node does not take a chunk, takes it to pass it on, must get it, has it or is being sent it."""


def next_random(random):
    """A pseudo-random number below 2^15; ``random`` has one number, its state."""
    random[0] = (random[0] * 1103515245 + 12345) & 0x7FFFFFFF
    return random[0] >> 16


def most_events(links, rows):
    """Events that can be to come at once: links that get free, and transfers that arrive."""
    total = 1
    for link in range(links.shape[1]):
        total += 3 + (links[2, link] + links[3, link]) // links[2, link]
    return min(total, 2 * rows.shape[1] + 1)


def push(times, codes, size, time, code):
    """Put an event on the heap of so many; they come out by time."""
    at = size
    while at > 0 and times[(at - 1) >> 1] > time:
        times[at] = times[(at - 1) >> 1]
        codes[at] = codes[(at - 1) >> 1]
        at = (at - 1) >> 1
    times[at] = time
    codes[at] = code


def pop(times, codes, size):
    """The code of the first event; the heap has one less then."""
    first = codes[0]
    time, code = times[size - 1], codes[size - 1]
    at = 0
    while 2 * at + 1 < size - 1:
        below = 2 * at + 1
        if below + 1 < size - 1 and times[below + 1] < times[below]:
            below += 1
        if times[below] >= time:
            break
        times[at], codes[at] = times[below], codes[below]
        at = below
    times[at], codes[at] = time, code
    return first


def rarest(link, node, waiting, num_waiting, state, count, tie, salt, taken):
    """The chunk that fewest nodes have of those that wait for a link and are not taken, -1 if none.

    Chunks that the node must get go first. Those that it has by now are dropped on the way.
    """
    best, least, at = -1, 0, 0
    chunks, nodes = len(count), len(state)
    while at < num_waiting[link]:
        chunk = waiting[link, at]
        if state[node, chunk] == HAS:
            num_waiting[link] -= 1
            waiting[link, at] = waiting[link, num_waiting[link]]
            continue
        at += 1
        if taken[chunk] >= 0:
            continue
        order = tie[chunk] + salt
        if order >= chunks:
            order -= chunks
        holders = count[chunk]
        if state[node, chunk] == RELAYS:
            holders += nodes
        key = holders * chunks + order
        if best < 0 or key < least:
            best, least = chunk, key
    return best


def augment(link, node, waiting, num_waiting, state, taken, chosen, came, queue):
    """Find a chunk for a link by letting others of the node's links take others, if that is so."""
    queue[0], came[link] = link, link
    end, done, is_found = 1, 0, False
    while done < end and not is_found:
        at = queue[done]
        done += 1
        for place in range(num_waiting[at]):
            chunk = waiting[at, place]
            if state[node, chunk] == HAS:
                continue
            other = taken[chunk]
            if other < 0:
                while at != link:
                    before = chosen[at]
                    chosen[at], taken[chunk] = chunk, at
                    chunk, at = before, came[at]
                chosen[at], taken[chunk] = chunk, at
                is_found = True
                break
            if came[other] < 0:
                came[other] = at
                queue[end] = other
                end += 1
    for place in range(end):
        came[queue[place]] = -1


def shuffle(values, size, random):
    """Put the first of the values in a random order."""
    for at in range(size - 1, 0, -1):
        other = (next_random(random) * 32768 + next_random(random)) % (at + 1)
        values[at], values[other] = values[other], values[at]


def hand_out(node, chunk, out_first, out_link, head, state, waiting, num_waiting, is_dirty, dirty):
    """Let a chunk that a node has got wait for the links to those who may want it."""
    for at in range(out_first[node], out_first[node + 1]):
        link = out_link[at]
        to = head[link]
        if state[to, chunk] == WANTS or state[to, chunk] == RELAYS:
            waiting[link, num_waiting[link]] = chunk
            num_waiting[link] += 1
            if not is_dirty[to]:
                is_dirty[to] = True
                dirty[dirty[-1]] = to
                dirty[-1] += 1


def choose(
    node, links, left, in_first, in_link, is_free, waiting, num_waiting, state, count, tie, salt,
    taken, chosen, came, queue,
):  # fmt: skip
    """Match the free links into a node with chunks that wait for them: ``chosen`` has them.

    Links on which a chunk would take more than ``left`` ticks are too slow by now.
    """
    for at in range(in_first[node], in_first[node + 1]):
        link = in_link[at]
        too_slow = links[2, link] + links[3, link] > left
        if not is_free[link] or num_waiting[link] == 0 or too_slow:
            continue
        chunk = rarest(link, node, waiting, num_waiting, state, count, tie, salt, taken)
        if chunk >= 0:
            chosen[link], taken[chunk] = chunk, link
        elif num_waiting[link] > 0:
            augment(link, node, waiting, num_waiting, state, taken, chosen, came, queue)


def match_copies(
    links, in_first, in_link, out_first, out_link, source, state, tie, random, limit, rows
):
    """Match until every node has what it wants: the number of transfers, -1 if that takes longer.

    All must have arrived before tick ``limit``. ``rows`` (links, chunks, starts) is filled in the
    order of starts. ``tie`` is a random order of the chunks, ``random`` the state of the generator.
    In-links of a node are in the order in which they choose.
    """
    head, num_links, nodes, chunks = links[1], links.shape[1], state.shape[0], state.shape[1]
    waiting = np.empty((num_links, chunks), dtype=np.int32)
    num_waiting, count = np.zeros(num_links, dtype=np.int64), np.ones(chunks, dtype=np.int64)
    taken, came = np.full(chunks, -1), np.full(num_links, -1)
    chosen, queue = np.full(num_links, -1), np.empty(num_links, dtype=np.int64)
    is_free, is_dirty = np.ones(num_links, dtype=np.bool_), np.zeros(nodes, dtype=np.bool_)
    dirty = np.zeros(nodes + 1, dtype=np.int64)
    times = np.empty(most_events(links, rows), dtype=np.int64)
    codes = np.empty(len(times), dtype=np.int64)
    size, done, time, missing = 0, 0, 0, 0
    for node in range(nodes):
        for chunk in range(chunks):
            missing += state[node, chunk] == WANTS
    out = out_first, out_link, head
    for chunk in range(chunks):
        hand_out(source[chunk], chunk, *out, state, waiting, num_waiting, is_dirty, dirty)
    while missing > 0:
        shuffle(dirty, dirty[-1], random)
        for turn in range(dirty[-1]):
            node = dirty[turn]
            is_dirty[node] = False
            salt = (next_random(random) * 32768 + next_random(random)) % chunks
            choose(
                *(
                    node,
                    links,
                    limit - 1 - time,
                    in_first,
                    in_link,
                    is_free,
                    waiting,
                    num_waiting,
                    state,
                    count,
                ),
                *(tie, salt, taken, chosen, came, queue),
            )
            for at in range(in_first[node], in_first[node + 1]):
                link = in_link[at]
                chunk = chosen[link]
                if chunk < 0:
                    continue
                chosen[link], taken[chunk], is_free[link] = -1, -1, False
                free = time + links[2, link]
                if state[node, chunk] == WANTS:
                    missing -= 1
                state[node, chunk] = HAS
                count[chunk] += 1
                rows[0, done], rows[1, done], rows[2, done] = link, chunk, time
                push(times, codes, size, free + links[3, link], 2 * done)
                size += 1
                if links[3, link] > 0:
                    push(times, codes, size, free, 2 * done + 1)
                    size += 1
                done += 1
        dirty[-1] = 0
        if size == 0 or times[0] >= limit:
            return done if missing == 0 else -1
        time = times[0]
        while size > 0 and times[0] == time:
            code = pop(times, codes, size)
            size -= 1
            link, chunk = rows[0, code >> 1], rows[1, code >> 1]
            node = head[link]
            if code & 1 or links[3, link] == 0:
                is_free[link] = True
                if num_waiting[link] > 0 and not is_dirty[node]:
                    is_dirty[node] = True
                    dirty[dirty[-1]] = node
                    dirty[-1] += 1
            if not code & 1:
                hand_out(node, chunk, *out, state, waiting, num_waiting, is_dirty, dirty)
    return done


# Loops of bounds: the least time in which links can bring so many chunks.


def brought(first, last, busy, delay, since, time):
    """Chunks that come over links ``first`` to ``last`` by a time, none before ``since``."""
    total = 0
    for link in range(first, last):
        left = time - delay[link] - busy[link]
        if left >= 0:
            most = left // busy[link] + 1
            if time < since:
                most = 0
            elif (time - since) // busy[link] + 1 < most:
                most = (time - since) // busy[link] + 1
            total += most
    return total


def least_time(first, last, busy, delay, since, need, least):
    """The first time from ``least`` on by which so many chunks may have come."""
    if need <= 0 or brought(first, last, busy, delay, since, least) >= need:
        return least
    step = 1
    while brought(first, last, busy, delay, since, least + step) < need:
        step *= 2
    low, high = least + step // 2, least + step
    while high - low > 1:
        middle = (low + high) // 2
        if brought(first, last, busy, delay, since, middle) < need:
            low = middle
        else:
            high = middle
    return high


def receivers_bound(in_first, busy, delay, travel_first, travel, farther):
    """The worst node: all it wants must come over its in-links, and what is far comes late.

    In-links of node v are ``in_first[v]`` to ``in_first[v + 1]``. Of the chunks that it wants,
    ``farther[i]`` travel for ``travel[i]`` at least; its own entries are ``travel_first[v]`` to
    ``travel_first[v + 1]``.
    """
    least = 0
    for node in range(len(in_first) - 1):
        for at in range(travel_first[node], travel_first[node + 1]):
            least = least_time(
                *(in_first[node], in_first[node + 1], busy, delay, travel[at], farther[at], least)
            )
    return least


# Loops of greedy matching of what is moved: events in time, and at each the senders matched.
#
# Chunks that are at one node and for one node are alike: ``top[u, t]`` is one of those at u for
# t, -1 if there is none, ``below`` has the one after each. ``travel[u, t]`` is the least time
# from u to t; ``links`` are as in the loops that match copies.


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


# Loops over transfers in the order of their starts.


def mark_used(sender, receiver, chunk, needs, keep):
    """Mark the transfers whose receiver needs the chunk, or sends it to one who does.

    ``needs[chunk, node]`` is true of those who must get it; senders are added.
    """
    for row in range(len(chunk) - 1, -1, -1):
        if needs[chunk[row], receiver[row]]:
            keep[row] = True
            needs[chunk[row], sender[row]] = True


def start_early(tail, head, busy, ticks, link, chunk, ready, free, start):
    """Fill ``start`` with the first tick at which each transfer's sender and link are ready.

    ``ready[node, chunk]`` and ``free[link]`` are 0 at first.
    """
    for row in range(len(link)):
        e, c = link[row], chunk[row]
        begin = max(ready[tail[e], c], free[e])
        start[row] = begin
        free[e] = begin + busy[e]
        ready[head[e], c] = max(ready[head[e], c], begin + ticks[e])
