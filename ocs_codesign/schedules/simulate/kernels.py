"""Compiled loops of the simulator: who waits for whom, and the events in the order of time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


def grouped(key, value, num_groups):
    """The values of every key side by side, in their order: where each group starts, and they."""
    start = np.zeros(num_groups + 1, dtype=np.int32)
    for entry in range(len(key)):
        start[key[entry] + 1] += 1
    for group in range(num_groups):
        start[group + 1] += start[group]
    place = start[:-1].copy()
    together = np.empty(len(key), dtype=np.int32)
    for entry in range(len(key)):
        group = key[entry]
        together[place[group]] = value[entry]
        place[group] += 1
    return start, together


def inverted(wait_start, wait_for, num_nodes):
    """Who waits for every node, ascending: the transpose of a CSR."""
    start = np.zeros(num_nodes + 1, dtype=np.int32)
    for entry in range(len(wait_for)):
        start[wait_for[entry] + 1] += 1
    for node in range(num_nodes):
        start[node + 1] += start[node]
    place = start[:-1].copy()
    waiting = np.empty(len(wait_for), dtype=np.int32)
    for node in range(num_nodes):
        for entry in range(wait_start[node], wait_start[node + 1]):
            before = wait_for[entry]
            waiting[place[before]] = node
            place[before] += 1
    return start, waiting


def received_before(
    owner, step, sender, sent, lo, hi, start, received, relays, has_steps, wait_start, wait_for
):
    """Of every transfer, those that bring its sender what it sends; the number of all.

    Row r is of transfer ``owner[r]`` and sends chunks [lo, hi) of what bucket ``sent[r]`` has
    received in the rows ``received[start[b] : start[b + 1]]``, ascending in step: those of earlier
    steps count unless steps have barriers, and at a relay those of the same step. What no longer
    fits in ``wait_for`` is counted only.
    """
    num = len(wait_start) - 1
    seen = np.full(num, -1, dtype=np.int32)
    total = 0
    for row in range(len(owner)):
        mine = owner[row]
        bucket = sent[row]
        now = step[row]
        last = now if relays[sender[row]] else now - 1
        for entry in range(start[bucket], start[bucket + 1]):
            other = received[entry]
            if step[other] > last:
                break
            if has_steps and step[other] < now:
                continue
            before = owner[other]
            if lo[other] < hi[row] and lo[row] < hi[other] and seen[before] != mine:
                seen[before] = mine
                if total < len(wait_for):
                    wait_for[total] = before
                total += 1
        wait_start[mine + 1] = total
    return total


def last_on_pair(pair, num_pairs):
    """The last transfer before every one on the same pair, -1 if there is none."""
    last = np.full(num_pairs, -1, dtype=np.int32)
    previous = np.empty(len(pair), dtype=np.int32)
    for transfer in range(len(pair)):
        previous[transfer] = last[pair[transfer]]
        last[pair[transfer]] = transfer
    return previous


def pushed(times, codes, size, time, code):
    """A heap of (time, code) with one event more: its new size."""
    at = size
    while at > 0:
        above = (at - 1) >> 1
        if times[above] < time or (times[above] == time and codes[above] < code):
            break
        times[at] = times[above]
        codes[at] = codes[above]
        at = above
    times[at] = time
    codes[at] = code
    return size + 1


def popped(times, codes, size):
    """A heap without its first event: its new size."""
    size -= 1
    time = times[size]
    code = codes[size]
    at = 0
    below = 1
    while below < size:
        if below + 1 < size and (
            times[below + 1] < times[below]
            or (times[below + 1] == times[below] and codes[below + 1] < codes[below])
        ):
            below += 1
        if time < times[below] or (time == times[below] and code < codes[below]):
            break
        times[at] = times[below]
        codes[at] = codes[below]
        at = below
        below = 2 * at + 1
    times[at] = time
    codes[at] = code
    return size


class TransferColumns(NamedTuple):
    """Transfers as the loop reads them: paths (CSR), who waits for whom (CSR), what they compute.

    ``following`` is the next on a pair or -1, ``adds`` whether the receiver adds up, classes are
    those of sizes (transfers) and of links.
    """

    path_start: Any
    path_link: Any
    waits: Any
    after_start: Any
    after: Any
    following: Any
    compute: Any
    adds: Any
    size_class: Any


class LinkColumns(NamedTuple):
    """Links and nodes: ends, classes, ticks by class, and when each is free again."""

    tail: Any
    head: Any
    link_class: Any
    busy: Any
    flight: Any
    injection: Any
    addition: Any
    link_free: Any
    node_free: Any


class Rules(NamedTuple):
    """How the clock goes: see ``TimingRules``."""

    overhead: int
    blocking: bool
    cuts_through: bool
    follows_at_once: bool


def run(transfers, links, rules, hop_start, arrival, end):
    """All events in the order of (time, sequence); the number of transfers that ended.

    A transfer begins when ``waits`` of it have ended. Then it passes these stages: 0 the overhead
    of its sender, 1 the injection, 2 + h the request for its h-th link, then what it takes to
    receive it, and its end. Queues are first come, first served, so a request knows at once when
    its turn is. ``busy`` and ``flight`` (classes of sizes, classes of links) are the ticks until a
    link is free again and until the message has arrived; ``injection`` and ``addition`` those of
    a sender's ports and a receiver's memory; ``node_free`` (3, nodes) when processor, ports and
    memory of a node are free. The next on a pair follows an arrival, or at once a request.
    """
    path_start, path_link, waits, after_start, after, following, compute, adds = transfers[:8]
    size_class = transfers[8]
    tail, head, link_class, busy, flight, injection, addition, link_free, node_free = links
    overhead, blocking, cuts_through, follows_at_once = rules
    num = len(waits)
    times = np.empty(num, dtype=np.int64)
    codes = np.empty(num, dtype=np.int64)
    ready = np.empty(num, dtype=np.int32)
    stage = np.zeros(num, dtype=np.int32)
    size = 0
    sequence = 0
    first_ready = 0
    num_ready = 0
    ended = 0
    now = 0
    for transfer in range(num):
        if waits[transfer] == 0:
            ready[num_ready] = transfer
            num_ready += 1
    while True:
        if first_ready < num_ready:
            this = int(ready[first_ready])
            first_ready += 1
        elif size > 0:
            now = times[0]
            this = int(codes[0] & 0x7FFFFFFF)
            size = popped(times, codes, size)
        else:
            break
        first = path_start[this]
        hops = path_start[this + 1] - first
        at = stage[this]
        time = now
        if at < 2:
            if hops == 0:
                at = 2
                arrival[this] = now
            else:
                node = tail[path_link[first]]
                if at == 0:
                    at = 1
                    if overhead > 0:
                        time = max(now, node_free[0, node]) + overhead
                        node_free[0, node] = time
                if time == now:
                    at = 2
                    time = max(now, node_free[1, node])
                    arrival[this] = time + injection[size_class[this]]
                    node_free[1, node] = arrival[this]
        if time == now and at < 2 + hops:
            link = path_link[first + at - 2]
            lasts = busy[size_class[this], link_class[link]]
            flies = flight[size_class[this], link_class[link]]
            begin = max(now, link_free[link])
            hop_start[first + at - 2] = begin
            # A link that is faster than what feeds it is busy until the last byte has come.
            late = max(0, arrival[this] - begin - lasts)
            arrival[this] = begin + flies + late
            if follows_at_once and at == 2 and following[this] >= 0:
                waits[following[this]] -= 1
                if waits[following[this]] == 0:
                    ready[num_ready] = following[this]
                    num_ready += 1
            link_free[link] = arrival[this] if blocking else begin + lasts + late
            at += 1
            time = begin + flies - lasts if cuts_through and at < 2 + hops else arrival[this]
            stage[this] = at
            size = pushed(times, codes, size, time, (sequence << 31) | this)
            sequence += 1
            continue
        chained = -1
        if time == now and at == 2 + hops:
            at += 1
            if hops > 0:
                node = head[path_link[first + hops - 1]]
                if overhead > 0:
                    time = max(now, node_free[0, node]) + overhead
                    node_free[0, node] = time
                if adds[this]:
                    time = max(time, node_free[2, node]) + addition[size_class[this]]
                    node_free[2, node] = time
            time += compute[this]
            chained = -1 if follows_at_once else following[this]
            if chained >= 0 and time > now:
                waits[chained] -= 1
                if waits[chained] == 0:
                    ready[num_ready] = chained
                    num_ready += 1
        if time > now:
            stage[this] = at
            size = pushed(times, codes, size, time, (sequence << 31) | this)
            sequence += 1
            continue
        end[this] = now
        ended += 1
        for entry in range(after_start[this], after_start[this + 1] + 1):
            other = after[entry] if entry < after_start[this + 1] else num
            if -1 < chained < other:
                waits[chained] -= 1
                if waits[chained] == 0:
                    ready[num_ready] = chained
                    num_ready += 1
                chained = -1
            if other < num:
                waits[other] -= 1
                if waits[other] == 0:
                    ready[num_ready] = other
                    num_ready += 1
    return ended
