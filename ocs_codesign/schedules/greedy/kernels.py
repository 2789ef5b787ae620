"""Loops of greedy matching: events in time, and at each the receivers matched with chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


BARRED, RELAYS, WANTS, HAS = range(4)
"""A node does not take a chunk, takes it to pass it on, must get it, has it or is being sent it."""


class Links(NamedTuple):
    """Links that a chunk holds for ``busy`` ticks, and is on the way for ``delay`` after that.

    Those into node v are ``in_link[in_first[v] : in_first[v + 1]]``, in the order in which they
    choose; those out of it likewise.
    """

    tail: NDArray[np.int64]
    head: NDArray[np.int64]
    busy: NDArray[np.int64]
    delay: NDArray[np.int64]
    in_first: NDArray[np.int64]
    in_link: NDArray[np.int64]
    out_first: NDArray[np.int64]
    out_link: NDArray[np.int64]


class Matching(NamedTuple):
    """What nodes have to do with chunks, ``state[v, c]``, and what waits for links.

    Chunks ``waiting[e, : num_waiting[e]]`` wait for link e; ``holders[c]`` nodes have chunk c;
    ``tie`` is a random order. In a round link e has ``chosen[e]`` and chunk c is ``taken[c]`` by a
    link, -1 if none; ``came`` and ``queue`` are for a search among links.
    """

    state: NDArray[np.int8]
    waiting: NDArray[np.int32]
    num_waiting: NDArray[np.int64]
    holders: NDArray[np.int64]
    tie: NDArray[np.int64]
    taken: NDArray[np.int64]
    chosen: NDArray[np.int64]
    came: NDArray[np.int64]
    queue: NDArray[np.int64]
    is_free: NDArray[np.bool_]


def next_random(random):
    """A pseudo-random number below 2^15; ``random`` has one number, its state."""
    random[0] = (random[0] * 1103515245 + 12345) & 0x7FFFFFFF
    return random[0] >> 16


def large_random(random):
    """A pseudo-random number below 2^30."""
    return next_random(random) * 32768 + next_random(random)


def most_events(links, rows):
    """Events that can be to come at once: links that get free, and transfers that arrive."""
    total = 1
    for link in range(len(links.busy)):
        total += 3 + (links.busy[link] + links.delay[link]) // links.busy[link]
    return min(total, 2 * rows.shape[1] + 1)


def send(links, times, codes, size, rows, done, link, chunk, time):
    """Let a chunk start on a link as transfer number ``done``: how many events are then to come.

    Their codes are twice that number for the arrival, and 1 more for when a link is free before.
    """
    rows[0, done], rows[1, done], rows[2, done] = link, chunk, time
    free = time + links.busy[link]
    push(times, codes, size, free + links.delay[link], 2 * done)
    if links.delay[link] == 0:
        return size + 1
    push(times, codes, size + 1, free, 2 * done + 1)
    return size + 2


def mark(node, is_dirty, dirty):
    """Note a node for the next round: ``dirty`` has their number last."""
    if not is_dirty[node]:
        is_dirty[node] = True
        dirty[dirty[-1]] = node
        dirty[-1] += 1


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


def rarest(match, link, node, salt):
    """The chunk that fewest nodes have of those that wait for a link and are not taken, -1 if none.

    Chunks that the node must get go first. Those that it has by now are dropped on the way.
    """
    waiting, num_waiting, state = match.waiting, match.num_waiting, match.state
    best, least, at = -1, 0, 0
    chunks, nodes = len(match.holders), len(state)
    while at < num_waiting[link]:
        chunk = waiting[link, at]
        if state[node, chunk] == HAS:
            num_waiting[link] -= 1
            waiting[link, at] = waiting[link, num_waiting[link]]
            continue
        at += 1
        if match.taken[chunk] >= 0:
            continue
        order = match.tie[chunk] + salt
        if order >= chunks:
            order -= chunks
        holders = match.holders[chunk]
        if state[node, chunk] == RELAYS:
            holders += nodes
        key = holders * chunks + order
        if best < 0 or key < least:
            best, least = chunk, key
    return best


def augment(match, link, node):
    """Find a chunk for a link by letting others of the node's links take others, if that is so."""
    taken, chosen, came, queue = match.taken, match.chosen, match.came, match.queue
    queue[0], came[link] = link, link
    end, done, is_found = 1, 0, False
    while done < end and not is_found:
        at = queue[done]
        done += 1
        for place in range(match.num_waiting[at]):
            chunk = match.waiting[at, place]
            if match.state[node, chunk] == HAS:
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
        other = large_random(random) % (at + 1)
        values[at], values[other] = values[other], values[at]


def hand_out(links, match, node, chunk, is_dirty, dirty):
    """Let a chunk that a node has got wait for the links to those who may want it."""
    for at in range(links.out_first[node], links.out_first[node + 1]):
        link = links.out_link[at]
        to = links.head[link]
        if match.state[to, chunk] == WANTS or match.state[to, chunk] == RELAYS:
            match.waiting[link, match.num_waiting[link]] = chunk
            match.num_waiting[link] += 1
            mark(to, is_dirty, dirty)


def choose(links, match, node, left, salt):
    """Match the free links into a node with chunks that wait for them: ``chosen`` has them.

    Links on which a chunk would take more than ``left`` ticks are too slow by now.
    """
    for at in range(links.in_first[node], links.in_first[node + 1]):
        link = links.in_link[at]
        too_slow = links.busy[link] + links.delay[link] > left
        if not match.is_free[link] or match.num_waiting[link] == 0 or too_slow:
            continue
        chunk = rarest(match, link, node, salt)
        if chunk >= 0:
            match.chosen[link], match.taken[chunk] = chunk, link
        elif match.num_waiting[link] > 0:
            augment(match, link, node)


def match_copies(links, source, state, tie, random, limit, rows):
    """Match until every node has what it wants: the number of transfers, -1 if that takes longer.

    All must have arrived before tick ``limit``. ``rows`` (links, chunks, starts) is filled in the
    order of starts. ``tie`` is a random order of the chunks, ``random`` the state of the generator.
    """
    num_links, nodes, chunks = len(links.tail), state.shape[0], state.shape[1]
    match = Matching(
        state,
        np.empty((num_links, chunks), dtype=np.int32),
        np.zeros(num_links, dtype=np.int64),
        np.ones(chunks, dtype=np.int64),
        tie,
        np.full(chunks, -1),
        np.full(num_links, -1),
        np.full(num_links, -1),
        np.empty(num_links, dtype=np.int64),
        np.ones(num_links, dtype=np.bool_),
    )
    is_dirty, dirty = np.zeros(nodes, dtype=np.bool_), np.zeros(nodes + 1, dtype=np.int64)
    times = np.empty(most_events(links, rows), dtype=np.int64)
    codes = np.empty(len(times), dtype=np.int64)
    size, done, time, missing = 0, 0, 0, np.sum(state == WANTS)
    for chunk in range(chunks):
        hand_out(links, match, source[chunk], chunk, is_dirty, dirty)
    while missing > 0:
        shuffle(dirty, dirty[-1], random)
        for turn in range(dirty[-1]):
            node = dirty[turn]
            is_dirty[node] = False
            choose(links, match, node, limit - 1 - time, large_random(random) % chunks)
            for at in range(links.in_first[node], links.in_first[node + 1]):
                link = links.in_link[at]
                chunk = match.chosen[link]
                if chunk < 0:
                    continue
                match.chosen[link], match.taken[chunk], match.is_free[link] = -1, -1, False
                missing -= state[node, chunk] == WANTS
                state[node, chunk] = HAS
                match.holders[chunk] += 1
                size = send(links, times, codes, size, rows, done, link, chunk, time)
                done += 1
        dirty[-1] = 0
        if size == 0 or times[0] >= limit:
            return done if missing == 0 else -1
        time = times[0]
        while size > 0 and times[0] == time:
            code = pop(times, codes, size)
            size -= 1
            link, chunk = rows[0, code >> 1], rows[1, code >> 1]
            node = links.head[link]
            if code & 1 or links.delay[link] == 0:
                match.is_free[link] = True
                if match.num_waiting[link] > 0:
                    mark(node, is_dirty, dirty)
            if not code & 1:
                hand_out(links, match, node, chunk, is_dirty, dirty)
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


class Moves(NamedTuple):
    """Chunks that are at one node u and for one node t are alike: ``top[u, t]`` is one of them.

    It is -1 if there is none; ``below`` has the one after each chunk, ``target`` the node that it
    is for. ``travel[u, t]`` is the least time from u to t, which no link on the way exceeds by more
    than ``slack``; ``tie`` is a random order of the nodes.
    """

    target: NDArray[np.int64]
    travel: NDArray[np.int64]
    slack: int
    tie: NDArray[np.int64]
    top: NDArray[np.int64]
    below: NDArray[np.int64]


def leads_closer(links, moves, link, to):
    """Whether a link leads closer to a node, on a detour of at most ``slack`` ticks."""
    left, after = moves.travel[links.tail[link], to], moves.travel[links.head[link], to]
    ticks = links.busy[link] + links.delay[link]
    return after >= 0 and after < left and after + ticks <= left + moves.slack


def lay_down(moves, node, chunk):
    """Let a chunk be at a node."""
    to = moves.target[chunk]
    moves.below[chunk] = moves.top[node, to]
    moves.top[node, to] = chunk


def take_farthest(links, moves, link, salt):
    """Take the chunk that has farthest to go off those that a link may carry; -1 if none."""
    best, most, nodes, here = -1, 0, len(moves.tie), links.tail[link]
    for to in range(nodes):
        if moves.top[here, to] < 0 or not leads_closer(links, moves, link, to):
            continue
        order = moves.tie[to] + salt
        if order >= nodes:
            order -= nodes
        key = moves.travel[here, to] * nodes + order
        if best < 0 or key > most:
            best, most = to, key
    if best < 0:
        return -1
    chunk = moves.top[here, best]
    moves.top[here, best] = moves.below[chunk]
    return chunk


def take_over(links, moves, link, carried):
    """Take the chunk of another link out of the same node that may carry a different one; or -1."""
    node = links.tail[link]
    for at in range(links.out_first[node], links.out_first[node + 1]):
        other = links.out_link[at]
        chunk = carried[other]
        if chunk >= 0 and leads_closer(links, moves, link, moves.target[chunk]):
            instead = take_farthest(links, moves, other, 0)
            if instead >= 0:
                carried[other] = instead
                return chunk
    return -1


def match_moves(links, source, moves, random, limit, rows):
    """Match until every chunk is at its target: the number of transfers, -1 if that takes longer.

    All must have arrived before tick ``limit``. ``rows`` (links, chunks, starts) is filled in the
    order of starts; -1 too if it has no more room.
    """
    num_links, nodes, target = len(links.tail), len(moves.tie), moves.target
    for chunk in range(len(source)):
        lay_down(moves, source[chunk], chunk)
    is_free, is_dirty = np.ones(num_links, dtype=np.bool_), np.ones(nodes, dtype=np.bool_)
    carried, dirty = np.full(num_links, -1), np.arange(nodes + 1)
    times = np.empty(most_events(links, rows), dtype=np.int64)
    codes = np.empty(len(times), dtype=np.int64)
    size, done, time, missing = 0, 0, 0, len(source)
    while missing > 0:
        shuffle(dirty, dirty[-1], random)
        for turn in range(dirty[-1]):
            node = dirty[turn]
            is_dirty[node] = False
            first, last = links.out_first[node], links.out_first[node + 1]
            salt, begin = next_random(random) % nodes, next_random(random)
            for step in range(last - first):
                link = links.out_link[first + (begin + step) % (last - first)]
                if is_free[link]:
                    carried[link] = take_farthest(links, moves, link, salt)
                    if carried[link] < 0:
                        carried[link] = take_over(links, moves, link, carried)
            for at in range(first, last):
                link = links.out_link[at]
                chunk = carried[link]
                if chunk < 0:
                    continue
                carried[link], is_free[link] = -1, False
                end = time + links.busy[link] + links.delay[link]
                to_go = moves.travel[links.head[link], target[chunk]]
                if end + to_go >= limit or done == rows.shape[1]:
                    return -1
                missing -= to_go == 0
                size = send(links, times, codes, size, rows, done, link, chunk, time)
                done += 1
        dirty[-1] = 0
        if size == 0:
            return done if missing == 0 else -1
        time = times[0]
        while size > 0 and times[0] == time:
            code = pop(times, codes, size)
            size -= 1
            link, chunk = rows[0, code >> 1], rows[1, code >> 1]
            if code & 1 or links.delay[link] == 0:
                is_free[link] = True
                mark(links.tail[link], is_dirty, dirty)
            if not code & 1 and links.head[link] != target[chunk]:
                lay_down(moves, links.head[link], chunk)
                mark(links.head[link], is_dirty, dirty)
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


def start_early(links, link, chunk, ready, free, start):
    """Fill ``start`` with the first tick at which each transfer's sender and link are ready.

    ``ready[node, chunk]`` and ``free[link]`` are 0 at first.
    """
    for row in range(len(link)):
        e, c = link[row], chunk[row]
        begin = max(ready[links.tail[e], c], free[e])
        start[row] = begin
        free[e] = begin + links.busy[e]
        arrival = free[e] + links.delay[e]
        ready[links.head[e], c] = max(ready[links.head[e], c], arrival)
