"""Loops of local repair: some chunks are taken out and put back, each as early as it can be.

``begun[e]`` has the starts of the ``count[e]`` transfers on link e in order, ``what[e]`` their
chunks.
"""

from __future__ import annotations

import numpy as np

from ocs_codesign.schedules.greedy.kernels import large_random, next_random, pop, push

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


def put_in(chunk, source, wants, links, begun, what, count, arrival):
    """Bring a chunk to all who want it, each as early as the links allow: the last arrival.

    ``arrival[node]`` is filled with when nodes have it, FAR for those that never get it.
    """
    nodes, size, last = len(arrival), 1, 0
    via, since = np.full(nodes, -1), np.zeros(nodes, dtype=np.int64)
    is_done, needed = np.zeros(nodes, dtype=np.bool_), np.zeros(nodes, dtype=np.bool_)
    times = np.zeros(len(links.tail) + nodes + 1, dtype=np.int64)
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
        for at in range(links.out_first[node], links.out_first[node + 1]):
            link = links.out_link[at]
            to, busy = links.head[link], links.busy[link]
            if is_done[to]:
                continue
            tick = earliest(link, arrival[node], busy, begun, count)
            end = tick + busy + links.delay[link]
            if end < arrival[to]:
                arrival[to], via[to], since[to] = end, link, tick
                push(times, codes, size, end, to)
                size += 1
    for node in range(nodes):
        at = node
        while wants[node] and at != source and not needed[at]:
            needed[at] = True
            at = links.tail[via[at]]
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


def repair(source, wants, links, begun, what, count, latest, least, rounds, random):
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
            out[at] = large_random(random) % chunks
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
                    chunk, source[chunk], wants[chunk], links, begun, what, count, arrival
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


# A solver of clauses: conflicts are learned from, variables in recent conflicts are tried first.
#
# Variable v is literal 2 v, its negation 2 v + 1. Clause c has literals ``lits[first[c]] :
# lits[first[c + 1]]`` of which it watches the first two; watch 2 c + s is that of its literal
# number s, and ``watch[l]`` and ``after`` link the watches of a literal. ``value`` of a literal
# is 1 if it is true, -1 if false, 0 if neither. Source: Marques-Silva and Sakallah (1999),
# MiniSat (2003).


SATISFIED, IMPOSSIBLE, GIVEN_UP = 1, -1, 0


def assign(literal, clause, depth, value, reason, level, trail):
    """Make a literal true because of a clause, -1 if it was decided."""
    value[literal], value[literal ^ 1] = 1, -1
    reason[literal >> 1], level[literal >> 1] = clause, depth
    trail[trail[-1]] = literal
    trail[-1] += 1


def propagate(done, depth, lits, first, watch, after, value, reason, level, trail):
    """Draw all conclusions of what is true; the clause that is false then, -1 if none."""
    while done < trail[-1]:
        false = trail[done] ^ 1
        done += 1
        at = watch[false]
        watch[false] = -1
        while at >= 0:
            then, clause, side = after[at], at >> 1, at & 1
            begin = first[clause]
            other = lits[begin + 1 - side]
            moved = False
            if value[other] < 1:
                for place in range(begin + 2, first[clause + 1]):
                    literal = lits[place]
                    if value[literal] >= 0:
                        lits[begin + side], lits[place] = literal, false
                        after[at] = watch[literal]
                        watch[literal] = at
                        moved = True
                        break
            if not moved:
                after[at] = watch[false]
                watch[false] = at
                if value[other] == 0:
                    assign(other, clause, depth, value, reason, level, trail)
                elif value[other] < 0:
                    while then >= 0:
                        at, then = then, after[then]
                        after[at] = watch[false]
                        watch[false] = at
                    return clause
            at = then
    return -1


def to_front(variable, before, behind, queue, line):
    """Make a variable the first to be tried: ``queue`` has the newest and the count of moves.

    ``before`` and ``behind`` of a variable are those next to it, ``line`` its number in the queue.
    """
    newest = queue[0]
    if newest != variable:
        older, newer = before[variable], behind[variable]
        if older >= 0:
            behind[older] = newer
        before[newer] = older
        before[variable], behind[variable], behind[newest] = newest, -1, variable
        queue[0] = variable
    queue[1] += 1
    line[variable] = queue[1]


def learn(clause, depth, lits, first, reason, level, trail, is_seen, learned):
    """Fill ``learned`` with the clause of the first point that a conflict depends on: its length.

    Its first literal is that of this depth, its second one of the greatest depth before it.
    """
    size, open_ones, place, literal = 1, 0, trail[-1], -1
    while True:
        for at in range(first[clause], first[clause + 1]):
            other = lits[at]
            variable = other >> 1
            if other != literal and not is_seen[variable] and level[variable] > 0:
                is_seen[variable] = True
                if level[variable] == depth:
                    open_ones += 1
                else:
                    learned[size] = other
                    size += 1
        place -= 1
        while not is_seen[trail[place] >> 1]:
            place -= 1
        literal = trail[place]
        open_ones -= 1
        if open_ones == 0:
            break
        clause = reason[literal >> 1]
    learned[0] = literal ^ 1
    kept = 1
    for at in range(1, size):  # what follows from the others is left out
        cause, needed = reason[learned[at] >> 1], False
        if cause < 0:
            needed = True
        else:
            for spot in range(first[cause], first[cause + 1]):
                variable = lits[spot] >> 1
                if not is_seen[variable] and level[variable] > 0:
                    needed = True
                    break
        if needed:
            learned[kept], learned[at] = learned[at], learned[kept]
            kept += 1
    for at in range(2, kept):
        if level[learned[at] >> 1] > level[learned[1] >> 1]:
            learned[1], learned[at] = learned[at], learned[1]
    # Those that were left out stay behind the others, for they were seen as well.
    learned[-1] = size
    return kept


def undo(depth, level, trail, value, is_true, queue, line):
    """Take back what was assigned above a depth, and remember what it was."""
    while trail[-1] > 0 and level[trail[trail[-1] - 1] >> 1] > depth:
        trail[-1] -= 1
        literal = trail[trail[-1]]
        variable = literal >> 1
        value[literal] = value[literal ^ 1] = 0
        is_true[variable] = literal & 1 == 0
        if line[variable] > line[queue[2]]:
            queue[2] = variable


def luby(turn):
    """Number ``turn`` of 1 1 2 1 1 2 4 1 1 2 1 1 2 4 8 ..."""
    size = 1
    while size < turn + 1:
        size = 2 * size + 1
    while size - 1 != turn:
        size = (size - 1) // 2
        turn %= size
    return (size + 1) // 2


def attach(clause, lits, first, watch, after):
    """Let a clause watch its first two literals."""
    for side in range(2):
        literal = lits[first[clause] + side]
        after[2 * clause + side] = watch[literal]
        watch[literal] = 2 * clause + side


def solve(lits, first, num_clauses, is_true, max_conflicts):
    """Whether all clauses can be satisfied, by the values left in ``is_true``; or GIVEN_UP.

    ``lits`` and ``first`` have room for clauses that are learned; that, too, may be used up.
    ``is_true`` has what is tried first.
    """
    variables = len(is_true)
    value, trail = np.zeros(2 * variables, np.int8), np.zeros(variables + 1, np.int64)
    reason, level = np.full(variables, -1), np.zeros(variables, np.int64)
    watch, after = np.full(2 * variables, -1), np.full(2 * len(first), -1)
    line, before = np.arange(variables), np.arange(variables) - 1
    behind, queue = np.arange(variables) + 1, np.array([variables - 1, variables, variables - 1])
    behind[variables - 1] = -1
    is_seen, learned = np.zeros(variables, np.bool_), np.zeros(variables + 2, np.int64)
    for clause in range(num_clauses):
        literal = lits[first[clause]]
        if first[clause + 1] - first[clause] > 1:
            attach(clause, lits, first, watch, after)
        elif value[literal] < 0:
            return IMPOSSIBLE
        elif value[literal] == 0:
            assign(literal, clause, 0, value, reason, level, trail)
    depth, done, conflicts, turn, left = 0, 0, 0, 0, 64
    while True:
        clause = propagate(done, depth, lits, first, watch, after, value, reason, level, trail)
        done = trail[-1]
        if clause < 0:
            if done == variables:
                for variable in range(variables):
                    is_true[variable] = value[2 * variable] > 0
                return SATISFIED
            if left <= 0:
                turn, depth = turn + 1, 0
                left = 64 * luby(turn)
                undo(0, level, trail, value, is_true, queue, line)
                done = trail[-1]
                continue
            while value[2 * queue[2]] != 0:
                queue[2] = before[queue[2]]
            depth += 1
            literal = 2 * queue[2] + (not is_true[queue[2]])
            assign(literal, -1, depth, value, reason, level, trail)
            continue
        if depth == 0:
            return IMPOSSIBLE
        conflicts, left = conflicts + 1, left - 1
        size = learn(clause, depth, lits, first, reason, level, trail, is_seen, learned)
        end = first[num_clauses] + size
        if conflicts == max_conflicts or end > len(lits) or num_clauses + 2 > len(first):
            return GIVEN_UP
        for at in range(1, learned[-1]):
            is_seen[learned[at] >> 1] = False
            to_front(learned[at] >> 1, before, behind, queue, line)
        at = trail[-1]
        while at > 0 and level[trail[at - 1] >> 1] == depth:
            at -= 1
            if is_seen[trail[at] >> 1]:
                is_seen[trail[at] >> 1] = False
                to_front(trail[at] >> 1, before, behind, queue, line)
        depth = level[learned[1] >> 1] if size > 1 else 0
        undo(depth, level, trail, value, is_true, queue, line)
        done = trail[-1]
        for at in range(size):
            lits[first[num_clauses] + at] = learned[at]
        if size > 1:
            first[num_clauses + 1] = end
            attach(num_clauses, lits, first, watch, after)
            assign(learned[0], num_clauses, depth, value, reason, level, trail)
            num_clauses += 1
        else:
            assign(learned[0], -1, 0, value, reason, level, trail)
