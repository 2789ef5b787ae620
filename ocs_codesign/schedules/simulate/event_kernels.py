"""The loop of events: what ranks compute and send, and the way of every message over links."""

from __future__ import annotations

import numpy as np

from ocs_codesign.schedules.simulate.columns import Ranks


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


def released(node, after_start, after, waits, ready, num_ready):
    """How many nodes are ready, once those that waited for no other than the node are added."""
    for entry in range(after_start[node], after_start[node + 1]):
        other = after[entry]
        waits[other] -= 1
        if waits[other] == 0:
            ready[num_ready] = other
            num_ready += 1
    return num_ready


def noted(owner, is_touched, touched, num_touched):
    """How many owners may begin something, once this one is among them."""
    if is_touched[owner]:
        return num_touched
    is_touched[owner] = True
    touched[num_touched] = owner
    return num_touched + 1


def freed(transfer, waits, ring, last):
    """Where the ring of transfers that may begin ends, once this one waits for one less."""
    waits[transfer] -= 1
    if waits[transfer] != 0:
        return last
    ring[last] = transfer
    return last + 1 if last + 1 < len(ring) else 0


def put(instance, begin, end, pieces, num_pieces):
    """How many pieces there are with this one, which is left out if it takes no time."""
    if end == begin:
        return num_pieces
    pieces.instance[num_pieces] = instance
    pieces.begin[num_pieces] = begin
    pieces.end[num_pieces] = end
    return num_pieces + 1


def interrupted(running, job, ranks, arrival_sign, now, pieces, num_pieces, touch):
    """What an owner sends gives its channels back, and is ready again: pieces, touched owners."""
    which = job.instance[running]
    is_touched, touched, num_touched = touch
    was_served = ranks.until[which] >= 0
    if was_served:
        ranks.left[which] = ranks.until[which] - now
        ranks.until[which] = -1
        num_pieces = put(which, ranks.began[which], now, pieces, num_pieces)
    for entry in range(job.member_start[which], job.member_start[which + 1]):
        member = job.members[entry]
        if job.kind[member] == 2 or not (was_served or member == running):
            continue
        there = job.owner[member]
        if ranks.at_head[member]:
            ranks.at_head[member] = False
            ranks.heads[which] -= 1
        ranks.serves[there] = -1
        ranks.in_flight[there] = 0
        ranks.queue_size[there] = 0
        low = job.first_slot[1, there]
        high = job.first_slot[1, there + 1]
        ranks.sizes[1, there] = pushed(
            ranks.keys[1, low:high], ranks.codes[1, low:high], ranks.sizes[1, there],
            arrival_sign * now, job.rank_of[member],
        )  # fmt: skip
        num_touched = noted(there, is_touched, touched, num_touched)
    return num_pieces, num_touched


def run(transfers, links, rules, seen, job, issue, pieces, places, lanes):
    """All events in the order of (time, sequence): what ended, pieces of channels, bars of lanes.

    A transfer begins when ``waits`` of it have ended. Then it passes these stages: 0 the overhead
    of its sender, 1 the injection, 2 + h the request for its h-th link, then what it takes to
    receive it, and its end. Queues are first come, first served, so a request knows at once when
    its turn is. The next on a pair follows an arrival, or at once a request.

    Of a job, an owner runs one compute node at a time and has up to ``window`` communications in
    flight. Of the ready nodes goes first the one of least ``arrival_sign`` times the moment at
    which it became ready, then of least ``rank_of``. A message begins when all its members have it
    in flight, or, ``in_turn``, when it is the first in the channels of all. It takes its ticks, or
    the transfers of its place; a receive ends when its message has arrived. ``exclusive``: an owner
    never computes and communicates at once. ``preemptive`` (with a window of 1): a better one that
    becomes ready takes the channel, and what ran goes on later.

    What is None is not there, and is not compiled: a collective by itself has no job, nor places of
    messages, and a job by formula no transfers.
    """
    num_events = 0
    sequence = 0
    first_free = 0
    last_free = 0
    num_pieces = 0
    num_bars = 0
    ended = 0
    now = 0
    room = 3
    num_codes = 0
    if transfers is not None:
        path_start, path_link, waits, after_start, after, following, compute, adds = transfers[:8]
        size_class = transfers[8]
        tail, head, link_class, busy, flight, injection, addition, link_free, node_free = links
        overhead, blocking, cuts_through, follows_at_once = rules
        hop_start, arrival, end = seen
        num_transfers = len(arrival)
        room += num_transfers
        ring = np.empty(num_transfers + 1, dtype=np.int32)
        stage = np.zeros(num_transfers, dtype=np.int32)
        if job is None:
            for transfer in range(num_transfers):
                if waits[transfer] == 0:
                    ring[last_free] = transfer
                    last_free += 1
        else:
            block = np.zeros(len(job.num_members), dtype=np.int64)
            is_taken = np.zeros(len(places.shape) * issue.window + 1, dtype=np.bool_)
            last_on_link = np.full(len(link_free), -1, dtype=np.int64)
    if job is not None:
        num_nodes = len(job.kind)
        num_owners = len(job.first_slot[0]) - 1
        num_instances = len(job.num_members)
        num_codes = 3 * num_nodes
        room += 3 * num_nodes
        ready = np.empty(num_nodes + 1, dtype=np.int64)
        touched = np.empty(num_owners, dtype=np.int64)
        is_touched = np.zeros(num_owners, dtype=np.bool_)
        complete = np.empty(issue.window, dtype=np.int64)
        # Made here, they are known to be apart from all that is given.
        ranks = Ranks(
            keys=np.empty((2, num_nodes), dtype=np.int64),
            codes=np.empty((2, num_nodes), dtype=np.int64),
            sizes=np.zeros((2, num_owners), dtype=np.int64),
            queue=np.empty((num_owners, issue.window), dtype=np.int64),
            queue_first=np.zeros(num_owners, dtype=np.int64),
            queue_size=np.zeros(num_owners, dtype=np.int64),
            in_flight=np.zeros(num_owners, dtype=np.int64),
            serves=np.full(num_owners, -1, dtype=np.int64),
            computes=np.zeros(num_owners, dtype=np.bool_),
            at_head=np.zeros(num_nodes, dtype=np.bool_),
            heads=np.zeros(num_instances, dtype=np.int64),
            left=np.full(num_instances, -1, dtype=np.int64),
            began=np.zeros(num_instances, dtype=np.int64),
            until=np.full(num_instances, -1, dtype=np.int64),
            posted=np.full(num_instances, -1, dtype=np.int64),
            arrived=np.zeros(num_instances, dtype=np.bool_),
        )
        num_ready = 0
        num_touched = 0
        for node in range(num_nodes):
            if job.waits[node] == 0:
                ready[num_ready] = node
                num_ready += 1
    times = np.empty(room, dtype=np.int64)
    codes = np.empty(room, dtype=np.int64)
    while True:
        if job is not None:
            at = 0
            while at < num_ready:  # nodes that became ready now; those that end at once add others
                node = int(ready[at])
                at += 1
                here = job.owner[node]
                if job.kind[node] == 2:
                    job.start[node] = now
                    if not ranks.arrived[job.instance[node]]:
                        ranks.posted[job.instance[node]] = node
                        continue
                    job.end[node] = now
                    ended += 1
                    num_ready = released(
                        node, job.after_start, job.after, job.waits, ready, num_ready
                    )
                    continue
                side = 0 if job.kind[node] == 0 else 1
                low = job.first_slot[side, here]
                high = job.first_slot[side, here + 1]
                ranks.sizes[side, here] = pushed(
                    ranks.keys[side, low:high], ranks.codes[side, low:high],
                    ranks.sizes[side, here], issue.arrival_sign * now, job.rank_of[node],
                )  # fmt: skip
                if issue.preemptive and job.kind[node] != 0 and ranks.in_flight[here] > 0:
                    running = ranks.serves[here]
                    if running < 0:
                        running = ranks.queue[here, ranks.queue_first[here]]
                    if job.rank_of[node] < job.rank_of[running]:
                        num_pieces, num_touched = interrupted(
                            running, job, ranks, issue.arrival_sign, now, pieces, num_pieces,
                            (is_touched, touched, num_touched),
                        )  # fmt: skip
                num_touched = noted(here, is_touched, touched, num_touched)
            num_ready = 0
            at = 0
            while at < num_touched:  # owners that may begin something
                here = int(touched[at])
                at += 1
                is_touched[here] = False
                if (
                    not ranks.computes[here]
                    and ranks.sizes[0, here] > 0
                    and not (issue.exclusive and ranks.in_flight[here] > 0)
                ):
                    low = job.first_slot[0, here]
                    high = job.first_slot[0, here + 1]
                    node = int(job.node_of[ranks.codes[0, low]])
                    ranks.sizes[0, here] = popped(
                        ranks.keys[0, low:high], ranks.codes[0, low:high], ranks.sizes[0, here]
                    )
                    ranks.computes[here] = True
                    job.start[node] = now
                    time = now + job.ticks[node]
                    num_events = pushed(times, codes, num_events, time, (sequence << 31) | node)
                    sequence += 1
                num_complete = 0
                while (
                    ranks.in_flight[here] < issue.window
                    and ranks.sizes[1, here] > 0
                    and not (issue.exclusive and (ranks.computes[here] or ranks.sizes[0, here] > 0))
                ):
                    low = job.first_slot[1, here]
                    high = job.first_slot[1, here + 1]
                    node = int(job.node_of[ranks.codes[1, low]])
                    ranks.sizes[1, here] = popped(
                        ranks.keys[1, low:high], ranks.codes[1, low:high], ranks.sizes[1, here]
                    )
                    ranks.in_flight[here] += 1
                    if issue.in_turn:
                        entry = ranks.queue_first[here] + ranks.queue_size[here]
                        ranks.queue[here, entry % issue.window] = node
                        ranks.queue_size[here] += 1
                        continue
                    ranks.heads[job.instance[node]] += 1
                    if ranks.heads[job.instance[node]] == job.num_members[job.instance[node]]:
                        complete[num_complete] = node
                        num_complete += 1
                if issue.in_turn and ranks.serves[here] < 0 and ranks.queue_size[here] > 0:
                    node = int(ranks.queue[here, ranks.queue_first[here]])
                    if not ranks.at_head[node]:
                        ranks.at_head[node] = True
                        ranks.heads[job.instance[node]] += 1
                    if ranks.heads[job.instance[node]] == job.num_members[job.instance[node]]:
                        complete[0] = node
                        num_complete = 1
                for entry in range(num_complete):  # messages that begin
                    node = int(complete[entry])
                    which = int(job.instance[node])
                    ranks.began[which] = now
                    for place in range(job.member_start[which], job.member_start[which + 1]):
                        member = job.members[place]
                        if job.kind[member] != 2:
                            ranks.serves[job.owner[member]] = member
                            if job.start[member] < 0:
                                job.start[member] = now
                    if transfers is not None:
                        shape = places.shape_of[which]
                        if shape >= 0:
                            turn = 0
                            while is_taken[shape * issue.window + turn]:
                                turn += 1
                            is_taken[shape * issue.window + turn] = True
                            count = places.shape[shape, 1]
                            block[which] = places.shape[shape, 0] + turn * count
                            ranks.left[which] = count
                            for row in range(count):
                                this = block[which] + row
                                stage[this] = 0
                                places.instance[this] = which
                                waits[this] = places.waits[places.shape[shape, 2] + row] + 1
                                last_free = freed(this, waits, ring, last_free)
                            continue
                    if ranks.left[which] < 0:
                        ranks.left[which] = job.ticks[node]
                    ranks.until[which] = now + ranks.left[which]
                    code = (sequence << 31) | (num_nodes + 2 * node)
                    num_events = pushed(times, codes, num_events, ranks.until[which], code)
                    sequence += 1
            num_touched = 0
        this = -1
        if transfers is not None and first_free != last_free:
            this = int(ring[first_free])
            first_free = first_free + 1 if first_free + 1 < len(ring) else 0
        elif num_events > 0:
            now = times[0]
            this = int(codes[0] & 0x7FFFFFFF) - num_codes
            num_events = popped(times, codes, num_events)
        else:
            break
        if job is not None:
            is_served = this >= 0
            is_over = True
            if this < 0:
                node = this + num_codes
                if node < num_nodes:
                    ranks.computes[job.owner[node]] = False
                    job.end[node] = now
                    ended += 1
                    num_ready = released(
                        node, job.after_start, job.after, job.waits, ready, num_ready
                    )
                    num_touched = noted(job.owner[node], is_touched, touched, num_touched)
                    continue
                is_served = (node - num_nodes) & 1 == 0
                node = (node - num_nodes) >> 1
                which = int(job.instance[node])
                if is_served:
                    if ranks.until[which] != now:
                        continue  # it was interrupted, and goes on or ends at another time
                    ranks.until[which] = -1
                    is_over = job.lag[node] == 0
                    if not is_over:
                        time = now + job.lag[node]
                        code = (sequence << 31) | (num_nodes + 2 * node + 1)
                        num_events = pushed(times, codes, num_events, time, code)
                        sequence += 1
        if transfers is not None and this >= 0:
            if places is None:
                row = this
                base = 0
                count = num_transfers
                size = size_class[this]
                first = path_start[this]
                hops = path_start[this + 1] - first
            else:
                which = int(places.instance[this])
                shape = places.shape_of[which]
                base = block[which]
                count = places.shape[shape, 1]
                row = places.shape[shape, 2] + this - base
                size = places.shape[shape, 4] + size_class[row]
                first = 0
                hops = 0
                if places.logical[row] >= 0:
                    logical = places.shape[shape, 3] + places.logical[row]
                    first = path_start[logical]
                    hops = path_start[logical + 1] - first
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
                        arrival[this] = time + injection[size]
                        node_free[1, node] = arrival[this]
            if time == now and at < 2 + hops:
                link = path_link[first + at - 2]
                lasts = busy[size, link_class[link]]
                flies = flight[size, link_class[link]]
                begin = max(now, link_free[link])
                # A link that is faster than what feeds it is busy until the last byte has come.
                late = max(0, arrival[this] - begin - lasts)
                arrival[this] = begin + flies + late
                if places is None:
                    hop_start[first + at - 2] = begin
                else:
                    if last_on_link[link] != which and begin > now:
                        places.waited[link] += begin - now
                        places.waited_of[which] += begin - now
                    last_on_link[link] = which
                    if lanes.of[link] >= 0:
                        lanes.link[num_bars] = link
                        lanes.begin[num_bars] = begin
                        lanes.end[num_bars] = begin + lasts
                        lanes.instance[num_bars] = which
                        num_bars += 1
                if follows_at_once and at == 2 and following[row] >= 0:
                    last_free = freed(base + following[row], waits, ring, last_free)
                link_free[link] = arrival[this] if blocking else begin + lasts + late
                at += 1
                time = begin + flies - lasts if cuts_through and at < 2 + hops else arrival[this]
                stage[this] = at
                code = (sequence << 31) | (num_codes + this)
                num_events = pushed(times, codes, num_events, time, code)
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
                    if adds[row]:
                        time = max(time, node_free[2, node]) + addition[size]
                        node_free[2, node] = time
                time += compute[row]
                chained = -1 if follows_at_once else following[row]
                if chained >= 0 and time > now:
                    last_free = freed(base + chained, waits, ring, last_free)
            if time > now:
                stage[this] = at
                code = (sequence << 31) | (num_codes + this)
                num_events = pushed(times, codes, num_events, time, code)
                sequence += 1
                continue
            for entry in range(after_start[row], after_start[row + 1] + 1):
                other = after[entry] if entry < after_start[row + 1] else count
                if -1 < chained < other:
                    last_free = freed(base + chained, waits, ring, last_free)
                    chained = -1
                if other < count:
                    last_free = freed(base + other, waits, ring, last_free)
            if job is None:
                end[this] = now
                ended += 1
                continue
            ranks.left[which] -= 1
            if ranks.left[which] > 0:
                continue
            turn = (base - places.shape[shape, 0]) // count
            is_taken[shape * issue.window + turn] = False
        if job is not None:
            if is_served:
                num_pieces = put(which, ranks.began[which], now, pieces, num_pieces)
            for entry in range(job.member_start[which], job.member_start[which + 1]):
                member = job.members[entry]
                there = job.owner[member]
                if job.kind[member] != 2:
                    if is_served and issue.in_turn:
                        ranks.serves[there] = -1
                        ranks.queue_first[there] = (ranks.queue_first[there] + 1) % issue.window
                        ranks.queue_size[there] -= 1
                    if is_over:
                        ranks.in_flight[there] -= 1
                    num_touched = noted(there, is_touched, touched, num_touched)
                elif is_over:
                    ranks.arrived[which] = True
                if is_over and (job.kind[member] != 2 or ranks.posted[which] >= 0):
                    job.end[member] = now
                    ended += 1
                    num_ready = released(
                        member, job.after_start, job.after, job.waits, ready, num_ready
                    )
    return ended, num_pieces, num_bars
