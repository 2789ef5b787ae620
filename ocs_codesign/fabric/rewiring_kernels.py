"""Compiled placements of nodes on hosts: branch and bound, and exchanges of two nodes."""

from __future__ import annotations

from numba import njit

NONE = -1
LEAF, DONE, GAVE_UP = range(3)


@njit(cache=True)
def _room(depth, host, used, target, held, order):
    """Most links that can be shared if the first ``depth`` nodes of ``order`` are placed."""
    nodes = len(host)
    total = 0
    for i in range(depth):
        v = order[i]
        for j in range(depth):
            u = order[j]
            total += min(target[v, u], held[host[v], host[u]])
    left_target, left_held = 0, 0
    for i in range(depth):
        v = order[i]
        h = host[v]
        out_target, in_target, out_held, in_held = 0, 0, 0, 0
        for j in range(depth, nodes):
            u = order[j]
            out_target += target[v, u]
            in_target += target[u, v]
        for g in range(nodes):
            if not used[g]:
                out_held += held[h, g]
                in_held += held[g, h]
        total += min(out_target, out_held) + min(in_target, in_held)
    for i in range(depth, nodes):
        for j in range(depth, nodes):
            left_target += target[order[i], order[j]]
    for g in range(nodes):
        if not used[g]:
            for h in range(nodes):
                if not used[h]:
                    left_held += held[g, h]
    return total + min(left_target, left_held)


@njit(cache=True)
def next_placement(host, used, order, state, first_hosts, target, held, more_than, max_visits):
    """Go on to the next placement that may share more links than ``more_than``.

    ``state`` is (depth, visits); ``host`` is NONE for nodes not placed yet. The first node goes to
    ``first_hosts`` only. Returns LEAF with the placement in ``host``, DONE, or GAVE_UP.
    """
    nodes = len(host)
    depth = state[0]
    while depth >= 0:
        if depth == nodes:
            depth -= 1
        v = order[depth]
        begin = 0
        if host[v] != NONE:
            begin = host[v] + 1
            used[host[v]] = False
            host[v] = NONE
        placed = False
        for h in range(begin, nodes):
            if used[h] or (depth == 0 and not first_hosts[h]):
                continue
            state[1] += 1
            if state[1] > max_visits:
                state[0] = depth
                return GAVE_UP
            host[v] = h
            used[h] = True
            if _room(depth + 1, host, used, target, held, order) > more_than:
                placed = True
                break
            used[h] = False
            host[v] = NONE
        if not placed:
            depth -= 1
            continue
        depth += 1
        if depth == nodes:
            state[0] = depth
            return LEAF
    state[0] = depth
    return DONE


@njit(cache=True)
def _shared_with(v, u, host, target, held):
    """Shared links between v or u and any node."""
    total = 0
    for w in range(len(host)):
        for x in (v, u):
            total += min(target[x, w], held[host[x], host[w]])
            if w != v and w != u:
                total += min(target[w, x], held[host[w], host[x]])
    return total


@njit(cache=True)
def climb(host, order, target, held):
    """Exchange the hosts of two nodes as long as that shares more links; returns what was won."""
    nodes, won, again = len(host), 0, True
    while again:
        again = False
        for i in range(nodes):
            for j in range(i):
                v, u = order[i], order[j]
                before = _shared_with(v, u, host, target, held)
                host[v], host[u] = host[u], host[v]
                gain = _shared_with(v, u, host, target, held) - before
                if gain > 0:
                    won += gain
                    again = True
                else:
                    host[v], host[u] = host[u], host[v]
    return won


@njit(cache=True)
def shared_links(host, target, held):
    """Links that the placed topology and the held one share, parallel ones as often as both."""
    total = 0
    for v in range(len(host)):
        for u in range(len(host)):
            total += min(target[v, u], held[host[v], host[u]])
    return total
