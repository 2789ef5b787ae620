"""Compiled loop of a job: which node every rank begins when, event by event."""

from __future__ import annotations

import numpy as np

from ocs_codesign.schedules.simulate.kernels import popped, pushed


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


def run_job(job, work, latency, rule, start, end, pieces):
    """All events in the order of (time, sequence): how many nodes ended, and how many pieces ran.

    Kinds are 0 compute, 1 send, 2 receive, 3 a collective. An owner runs one compute node at a
    time and has up to ``window`` communications in flight, which its channel serves one by one
    for their ``work``; they are over ``latency`` later. Of the ready nodes goes first the one of
    least ``arrival_sign`` times the moment at which it became ready, then of least ``rank_of``.
    A collective runs when it is the first in the channels of all its members, a receive ends when
    its message has arrived. ``exclusive``: an owner never computes and communicates at once.
    ``preemptive`` (with a window of 1): a better one that becomes ready takes the channel, and what
    ran goes on later. Pieces are the (instance, begin, end) that channels served.
    """
    kind, owner, instance, num_members, member_start, members = job[:6]
    waits, after_start, after, rank_of, node_of, first_slot = job[6:]
    arrival_sign, window, exclusive, preemptive = rule
    piece_instance, piece_begin, piece_end = pieces
    num = len(kind)
    num_owners = len(first_slot[0]) - 1
    num_instances = len(num_members)
    keys = np.empty((2, num), dtype=np.int64)
    codes = np.empty((2, num), dtype=np.int64)
    sizes = np.zeros((2, num_owners), dtype=np.int64)
    times = np.empty(3 * num + 3, dtype=np.int64)
    events = np.empty(3 * num + 3, dtype=np.int64)
    num_events = 0
    sequence = 0
    queue = np.empty((num_owners, window), dtype=np.int64)
    queue_first = np.zeros(num_owners, dtype=np.int64)
    queue_size = np.zeros(num_owners, dtype=np.int64)
    in_flight = np.zeros(num_owners, dtype=np.int64)
    serves = np.full(num_owners, -1, dtype=np.int64)
    computes = np.full(num_owners, -1, dtype=np.int64)
    at_head = np.zeros(num, dtype=np.bool_)
    heads = np.zeros(num_instances, dtype=np.int64)
    left = np.full(num_instances, -1, dtype=np.int64)
    began = np.zeros(num_instances, dtype=np.int64)
    until = np.full(num_instances, -1, dtype=np.int64)
    posted = np.full(num_instances, -1, dtype=np.int64)
    arrived = np.zeros(num_instances, dtype=np.bool_)
    ready = np.empty(num + 1, dtype=np.int64)
    touched = np.empty(num_owners, dtype=np.int64)
    is_touched = np.zeros(num_owners, dtype=np.bool_)
    num_ready = 0
    num_touched = 0
    num_pieces = 0
    ended = 0
    now = 0
    for node in range(num):
        if waits[node] == 0:
            ready[num_ready] = node
            num_ready += 1
    while True:
        at = 0
        while at < num_ready:  # nodes that became ready now; those that end at once add others
            node = int(ready[at])
            at += 1
            here = owner[node]
            over = False
            if kind[node] == 2:
                start[node] = now
                if arrived[instance[node]]:
                    over = True
                else:
                    posted[instance[node]] = node
            else:
                side = 0 if kind[node] == 0 else 1
                low = first_slot[side, here]
                high = first_slot[side, here + 1]
                sizes[side, here] = pushed(
                    keys[side, low:high], codes[side, low:high], sizes[side, here],
                    arrival_sign * now, rank_of[node],
                )  # fmt: skip
                running = serves[here]
                if side == 1 and preemptive and in_flight[here] > 0:
                    if running < 0:
                        running = queue[here, queue_first[here]]
                    if rank_of[node] < rank_of[running]:
                        which = instance[running]
                        was_served = until[which] >= 0
                        if was_served:
                            left[which] = until[which] - now
                            until[which] = -1
                            if now > began[which]:
                                piece_instance[num_pieces] = which
                                piece_begin[num_pieces] = began[which]
                                piece_end[num_pieces] = now
                                num_pieces += 1
                        for entry in range(member_start[which], member_start[which + 1]):
                            member = members[entry]
                            if kind[member] == 2 or not (was_served or member == running):
                                continue
                            there = owner[member]
                            if at_head[member]:
                                at_head[member] = False
                                heads[which] -= 1
                            serves[there] = -1
                            in_flight[there] = 0
                            queue_size[there] = 0
                            low = first_slot[1, there]
                            high = first_slot[1, there + 1]
                            sizes[1, there] = pushed(
                                keys[1, low:high], codes[1, low:high], sizes[1, there],
                                arrival_sign * now, rank_of[member],
                            )  # fmt: skip
                            num_touched = noted(there, is_touched, touched, num_touched)
                num_touched = noted(here, is_touched, touched, num_touched)
            if over:
                end[node] = now
                ended += 1
                num_ready = released(node, after_start, after, waits, ready, num_ready)
        num_ready = 0
        at = 0
        while at < num_touched:  # owners that may begin something
            here = int(touched[at])
            at += 1
            is_touched[here] = False
            if (
                computes[here] < 0
                and sizes[0, here] > 0
                and not (exclusive and in_flight[here] > 0)
            ):
                low = first_slot[0, here]
                high = first_slot[0, here + 1]
                node = int(node_of[codes[0, low]])
                sizes[0, here] = popped(keys[0, low:high], codes[0, low:high], sizes[0, here])
                computes[here] = node
                start[node] = now
                time = now + latency[node] + work[node]
                num_events = pushed(times, events, num_events, time, (sequence << 31) | (3 * node))
                sequence += 1
            while (
                in_flight[here] < window and sizes[1, here] > 0
                and not (exclusive and (computes[here] >= 0 or sizes[0, here] > 0))
            ):  # fmt: skip
                low = first_slot[1, here]
                high = first_slot[1, here + 1]
                node = int(node_of[codes[1, low]])
                sizes[1, here] = popped(keys[1, low:high], codes[1, low:high], sizes[1, here])
                queue[here, (queue_first[here] + queue_size[here]) % window] = node
                queue_size[here] += 1
                in_flight[here] += 1
            if serves[here] < 0 and queue_size[here] > 0:
                node = int(queue[here, queue_first[here]])
                which = instance[node]
                if not at_head[node]:
                    at_head[node] = True
                    heads[which] += 1
                if heads[which] == num_members[which]:
                    if left[which] < 0:
                        left[which] = work[node] + (latency[node] if window == 1 else 0)
                    until[which] = now + left[which]
                    began[which] = now
                    for entry in range(member_start[which], member_start[which + 1]):
                        member = members[entry]
                        if kind[member] != 2:
                            serves[owner[member]] = member
                            if start[member] < 0:
                                start[member] = now
                    num_events = pushed(
                        times, events, num_events, until[which], (sequence << 31) | (3 * node + 1)
                    )
                    sequence += 1
        num_touched = 0
        if num_events == 0:
            break
        now = times[0]
        code = int(events[0] & 0x7FFFFFFF)
        num_events = popped(times, events, num_events)
        node = code // 3
        event = code % 3
        which = instance[node]
        finished = event != 1
        if event == 0:
            computes[owner[node]] = -1
            end[node] = now
            ended += 1
            num_ready = released(node, after_start, after, waits, ready, num_ready)
            num_touched = noted(owner[node], is_touched, touched, num_touched)
            continue
        if event == 1:
            if until[which] != now:
                continue  # it was interrupted, and goes on or ends at another time
            until[which] = -1
            if now > began[which]:
                piece_instance[num_pieces] = which
                piece_begin[num_pieces] = began[which]
                piece_end[num_pieces] = now
                num_pieces += 1
            finished = window == 1 or latency[node] == 0
            if not finished:
                num_events = pushed(
                    times,
                    events,
                    num_events,
                    now + latency[node],
                    (sequence << 31) | (3 * node + 2),
                )
                sequence += 1
        for entry in range(member_start[which], member_start[which + 1]):
            member = members[entry]
            there = owner[member]
            if kind[member] == 2:
                if finished:
                    arrived[which] = True
                    if posted[which] < 0:
                        continue
                else:
                    continue
            else:
                if event == 1:
                    serves[there] = -1
                    queue_first[there] = (queue_first[there] + 1) % window
                    queue_size[there] -= 1
                if finished:
                    in_flight[there] -= 1
                num_touched = noted(there, is_touched, touched, num_touched)
            if not finished:
                continue
            end[member] = now
            ended += 1
            num_ready = released(member, after_start, after, waits, ready, num_ready)
    return ended, num_pieces


# Compiled loop of a job whose messages cross links: ranks, their channels, and all hops.


def freed(hop, hop_waits, free_hops, first_free, num_free):
    """How many hops of the ring may begin, once this one has one thing less to wait for."""
    hop_waits[hop] -= 1
    if hop_waits[hop] != 0:
        return num_free
    free_hops[(first_free + num_free) % len(free_hops)] = hop
    return num_free + 1


def run_job_on_links(
    job, ticks, rule, start, end, pieces, shape_of, shape_column, shapes, serve, links, lanes
):
    """All events in the order of (time, sequence): ended nodes, pieces and bars of lanes.

    Ranks issue as in ``run_job``, without preemption: a message begins when all its members have it
    in flight, of which an owner has up to ``window``. One of shape -1 takes its ``ticks``; another
    begins the transfers of its shape and is over when the last one has ended. ``shape_column``
    (shapes, 5) are its first state, transfers, first row of the ``hop_`` columns, of ``path_start``
    and of ``busy``. ``waited`` (links) and ``waited_of`` (instances) count the ticks that hops wait
    behind those of other instances; bars are what the links with a ``lane_of`` send.
    """
    kind, owner, instance, num_members, member_start, members = job[:6]
    waits, after_start, after, rank_of, node_of, first_slot = job[6:]
    arrival_sign, window, exclusive, _ = rule
    piece_instance, piece_begin, piece_end = pieces
    hop_logical, hop_class, hop_waits, hop_compute, hop_following, follow_start = shapes[:6]
    follow, path_start, path_link, link_class, busy, flight = shapes[6:]
    blocking, cuts_through, follows_at_once, num_states = serve
    link_free, waited, waited_of = links
    lane_of, lane_link, lane_begin, lane_end, lane_instance = lanes
    num = len(kind)
    num_owners = len(first_slot[0]) - 1
    num_instances = len(num_members)
    keys = np.empty((2, num), dtype=np.int64)
    codes = np.empty((2, num), dtype=np.int64)
    sizes = np.zeros((2, num_owners), dtype=np.int64)
    room = num_owners + num_instances + num_states + 3
    times = np.empty(room, dtype=np.int64)
    events = np.empty(room, dtype=np.int64)
    in_flight = np.zeros(num_owners, dtype=np.int64)
    computes = np.zeros(num_owners, dtype=np.bool_)
    heads = np.zeros(num_instances, dtype=np.int64)
    began = np.zeros(num_instances, dtype=np.int64)
    left = np.zeros(num_instances, dtype=np.int64)
    block = np.zeros(num_instances, dtype=np.int64)
    posted = np.full(num_instances, -1, dtype=np.int64)
    arrived = np.zeros(num_instances, dtype=np.bool_)
    is_taken = np.zeros(len(shape_column) * window + 1, dtype=np.bool_)
    state_waits = np.zeros(num_states, dtype=np.int64)
    state_stage = np.zeros(num_states, dtype=np.int64)
    state_arrival = np.zeros(num_states, dtype=np.int64)
    state_instance = np.zeros(num_states, dtype=np.int64)
    link_last = np.full(len(link_free), -1, dtype=np.int64)
    most_free = num_states + 1
    free_hops = np.empty(most_free, dtype=np.int64)
    first_free = 0
    num_free = 0
    ready = np.empty(num + 1, dtype=np.int64)
    touched = np.empty(num_owners, dtype=np.int64)
    is_touched = np.zeros(num_owners, dtype=np.bool_)
    num_events = 0
    sequence = 0
    num_ready = 0
    num_touched = 0
    num_pieces = 0
    num_bars = 0
    ended = 0
    now = 0
    for node in range(num):
        if waits[node] == 0:
            ready[num_ready] = node
            num_ready += 1
    while True:
        at = 0
        while at < num_ready:  # nodes that became ready now; those that end at once add others
            node = int(ready[at])
            at += 1
            here = owner[node]
            if kind[node] == 2:
                start[node] = now
                if not arrived[instance[node]]:
                    posted[instance[node]] = node
                    continue
                end[node] = now
                ended += 1
                num_ready = released(node, after_start, after, waits, ready, num_ready)
                continue
            side = 0 if kind[node] == 0 else 1
            low = first_slot[side, here]
            high = first_slot[side, here + 1]
            sizes[side, here] = pushed(
                keys[side, low:high], codes[side, low:high], sizes[side, here],
                arrival_sign * now, rank_of[node],
            )  # fmt: skip
            num_touched = noted(here, is_touched, touched, num_touched)
        num_ready = 0
        at = 0
        while at < num_touched:  # owners that may begin something
            here = int(touched[at])
            at += 1
            is_touched[here] = False
            if (
                not computes[here]
                and sizes[0, here] > 0
                and not (exclusive and in_flight[here] > 0)
            ):
                low = first_slot[0, here]
                high = first_slot[0, here + 1]
                node = int(node_of[codes[0, low]])
                sizes[0, here] = popped(keys[0, low:high], codes[0, low:high], sizes[0, here])
                computes[here] = True
                start[node] = now
                time = now + ticks[node]
                num_events = pushed(times, events, num_events, time, (sequence << 31) | node)
                sequence += 1
            while (
                in_flight[here] < window and sizes[1, here] > 0
                and not (exclusive and (computes[here] or sizes[0, here] > 0))
            ):  # fmt: skip
                low = first_slot[1, here]
                high = first_slot[1, here + 1]
                node = int(node_of[codes[1, low]])
                sizes[1, here] = popped(keys[1, low:high], codes[1, low:high], sizes[1, here])
                in_flight[here] += 1
                which = int(instance[node])
                heads[which] += 1
                if heads[which] < num_members[which]:
                    continue
                began[which] = now
                for entry in range(member_start[which], member_start[which + 1]):
                    if kind[members[entry]] != 2:
                        start[members[entry]] = now
                shape = shape_of[which]
                if shape < 0 or shape_column[shape, 1] == 0:
                    time = now + (ticks[node] if shape < 0 else 0)
                    code = (sequence << 31) | (num + which)
                    num_events = pushed(times, events, num_events, time, code)
                    sequence += 1
                    continue
                turn = 0
                while is_taken[shape * window + turn]:
                    turn += 1
                is_taken[shape * window + turn] = True
                count = shape_column[shape, 1]
                block[which] = shape_column[shape, 0] + turn * count
                left[which] = count
                for row in range(count):
                    state = block[which] + row
                    state_waits[state] = hop_waits[shape_column[shape, 2] + row]
                    state_stage[state] = 0
                    state_instance[state] = which
                    if state_waits[state] == 0:
                        free_hops[(first_free + num_free) % most_free] = state
                        num_free += 1
        num_touched = 0
        this = -1
        if num_free > 0:
            this = int(free_hops[first_free])
            first_free = (first_free + 1) % most_free
            num_free -= 1
        elif num_events > 0:
            now = times[0]
            code = int(events[0] & 0x7FFFFFFF)
            num_events = popped(times, events, num_events)
            if code < num:
                computes[owner[code]] = False
                end[code] = now
                ended += 1
                num_ready = released(code, after_start, after, waits, ready, num_ready)
                num_touched = noted(owner[code], is_touched, touched, num_touched)
                continue
            if code < num + num_instances:
                which = code - num
            else:
                this = code - num - num_instances
        else:
            break
        if this >= 0:
            which = state_instance[this]
            shape = shape_of[which]
            row = shape_column[shape, 2] + this - block[which]
            first = 0
            hops = 0
            if hop_logical[row] >= 0:
                logical = shape_column[shape, 3] + hop_logical[row]
                first = path_start[logical]
                hops = path_start[logical + 1] - first
            at = state_stage[this]
            if at == 0:
                state_arrival[this] = now
            following = hop_following[row]
            if at < hops:
                link = path_link[first + at]
                size = shape_column[shape, 4] + hop_class[row]
                lasts = busy[size, link_class[link]]
                flies = flight[size, link_class[link]]
                begin = max(now, link_free[link])
                if link_last[link] != which and begin > now:
                    waited[link] += begin - now
                    waited_of[which] += begin - now
                link_last[link] = which
                # A link that is faster than what feeds it is busy until the last byte has come.
                late = max(0, state_arrival[this] - begin - lasts)
                state_arrival[this] = begin + flies + late
                link_free[link] = state_arrival[this] if blocking else begin + lasts + late
                if lane_of[link] >= 0:
                    lane_link[num_bars] = link
                    lane_begin[num_bars] = begin
                    lane_end[num_bars] = begin + lasts
                    lane_instance[num_bars] = which
                    num_bars += 1
                if follows_at_once and at == 0 and following >= 0:
                    num_free = freed(
                        block[which] + following, state_waits, free_hops, first_free, num_free
                    )
                at += 1
                state_stage[this] = at
                time = begin + flies - lasts if cuts_through and at < hops else state_arrival[this]
                code = (sequence << 31) | (num + num_instances + this)
                num_events = pushed(times, events, num_events, time, code)
                sequence += 1
                continue
            chained = -1
            time = now
            if at == hops:
                at += 1
                time = now + hop_compute[row]
                chained = -1 if follows_at_once else following
                if chained >= 0 and time > now:
                    num_free = freed(
                        block[which] + chained, state_waits, free_hops, first_free, num_free
                    )
            if time > now:
                state_stage[this] = at
                code = (sequence << 31) | (num + num_instances + this)
                num_events = pushed(times, events, num_events, time, code)
                sequence += 1
                continue
            count = shape_column[shape, 1]
            for entry in range(follow_start[row], follow_start[row + 1] + 1):
                other = follow[entry] if entry < follow_start[row + 1] else count
                if -1 < chained < other:
                    num_free = freed(
                        block[which] + chained, state_waits, free_hops, first_free, num_free
                    )
                    chained = -1
                if other < count:
                    num_free = freed(
                        block[which] + other, state_waits, free_hops, first_free, num_free
                    )
            left[which] -= 1
            if left[which] > 0:
                continue
            is_taken[shape * window + (block[which] - shape_column[shape, 0]) // count] = False
        if now > began[which]:  # the message is over
            piece_instance[num_pieces] = which
            piece_begin[num_pieces] = began[which]
            piece_end[num_pieces] = now
            num_pieces += 1
        for entry in range(member_start[which], member_start[which + 1]):
            member = members[entry]
            if kind[member] == 2:
                arrived[which] = True
                if posted[which] < 0:
                    continue
            else:
                there = owner[member]
                in_flight[there] -= 1
                num_touched = noted(there, is_touched, touched, num_touched)
            end[member] = now
            ended += 1
            num_ready = released(member, after_start, after, waits, ready, num_ready)
    return ended, num_pieces, num_bars
