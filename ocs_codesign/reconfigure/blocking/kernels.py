"""Compiled loops over steps and topologies: costs to go, plans, work functions.

Costs are int64 ticks, one row for each kind of step; ``row`` says which kind a step is, ``gap`` how
much of a switch before it is hidden. ``delta`` is (K, K), or (1, 1) where all switches cost the
same. Whatever reaches ``infinite`` is infinite.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True)
def cost_to_go(cost, row, delta, gap, infinite, value, switches):
    """Fill ``value`` (S, K): least cost of a step on a topology and of all steps after it.

    ``switches`` (int32, S, K) counts the fewest switches with which that is possible.
    """
    steps, many = value.shape
    paid = np.empty((many, many), dtype=np.int64)
    known = np.int64(-1)
    for step in range(steps - 1, -1, -1):
        if step == steps - 1:
            value[step] = 0
            switches[step] = 0
        elif delta.shape[0] == 1:
            _best_uniform(value, switches, step, max(delta[0, 0] - gap[row[step + 1]], 0))
        else:
            if gap[row[step + 1]] != known:
                known = gap[row[step + 1]]
                _paid_transposed(delta, known, infinite, paid)
            _best_general(value, switches, step, paid, infinite)
        for held in range(many):
            value[step, held] = min(value[step, held] + cost[row[step], held], infinite)


@njit(cache=True)
def _best_uniform(value, switches, step, paid):
    """What follows a step: keep what is held, or go where the rest is cheapest."""
    many = value.shape[1]
    best = 0
    for to in range(1, many):
        if value[step + 1, to] < value[step + 1, best] or (
            value[step + 1, to] == value[step + 1, best]
            and switches[step + 1, to] < switches[step + 1, best]
        ):
            best = to
    other, more = value[step + 1, best] + paid, switches[step + 1, best] + 1
    for held in range(many):
        same, fewer = value[step + 1, held], switches[step + 1, held]
        if other < same or (other == same and more < fewer):
            same, fewer = other, more
        value[step, held], switches[step, held] = same, fewer


@njit(cache=True)
def _best_general(value, switches, step, paid, infinite):
    """As ``_best_uniform``, every switch at its own price: ``paid[to, held]``."""
    many = value.shape[1]
    best, fewest = value[step], switches[step]
    best[:] = value[step + 1]
    fewest[:] = switches[step + 1]
    for to in range(many):
        if value[step + 1, to] >= infinite:
            continue
        rest, count = value[step + 1, to], switches[step + 1, to] + 1
        price = paid[to]
        for held in range(many):
            other = rest + price[held]
            if other < best[held] or (other == best[held] and count < fewest[held]):
                best[held], fewest[held] = other, count


@njit(cache=True)
def _paid_transposed(delta, gap, infinite, paid):
    many = delta.shape[0]
    for held in range(many):
        for to in range(many):
            price = delta[held, to]
            if held == to:
                paid[to, held] = infinite  # keeping is looked at first, and is no switch
            else:
                paid[to, held] = price if price >= infinite else max(price - gap, 0)


@njit(cache=True)
def follow(row, delta, first, start, gap, infinite, value, switches, choice):
    """Fill ``choice``: a plan that meets the costs to go, with the fewest switches.

    ``start`` is -1 where nothing is held.
    """
    steps, many = value.shape
    held, best, fewest = -1, infinite, np.int64(0)
    for to in range(many):
        entry = first[to] if first[to] >= infinite else max(first[to] - gap[row[0]], 0)
        cost, count = entry + value[0, to], np.int64(switches[0, to])
        if start >= 0 and start != to:
            count += 1
        if held < 0 or cost < best or (cost == best and count < fewest):
            held, best, fewest = to, cost, count
    choice[0] = held
    for step in range(1, steps):
        kept = held
        best, fewest = value[step, kept], np.int64(switches[step, kept])
        for to in range(many):
            if to == kept:
                continue
            price = delta[0, 0] if delta.shape[0] == 1 else delta[kept, to]
            price = price if price >= infinite else max(price - gap[row[step]], 0)
            cost, count = price + value[step, to], np.int64(switches[step, to]) + 1
            if cost < best or (cost == best and count < fewest):
                held, best, fewest = to, cost, count
        choice[step] = held


@njit(cache=True)
def follow_work(cost, row, delta, first, start, gap, infinite, choice):
    """Fill ``choice`` by the work-function policy, which knows only the steps up to its own.

    Returns -1, or the step that no topology in reach of what is held can serve.
    """
    many = first.shape[0]
    work, moved = first.copy(), np.empty(many, dtype=np.int64)
    held = start
    for step in range(row.shape[0]):
        hidden = gap[row[step]]
        if step == 0:
            for to in range(many):
                moved[to] = first[to] if first[to] >= infinite else max(first[to] - hidden, 0)
        else:
            _moved(work, delta, hidden, infinite, moved)
        chosen, least = -1, infinite
        for to in range(many):
            work[to] = min(moved[to] + cost[row[step], to], infinite)
            price = np.int64(0)
            if held >= 0 and to != held:
                price = delta[0, 0] if delta.shape[0] == 1 else delta[held, to]
                price = price if price >= infinite else max(price - hidden, np.int64(0))
            if work[to] < infinite and price < infinite:
                total = work[to] + price
                if chosen < 0 or total < least or (total == least and to == held):
                    chosen, least = to, total
        choice[step] = chosen
        if chosen < 0:
            return step
        held = chosen
    return -1


@njit(cache=True)
def _moved(work, delta, gap, infinite, moved):
    """Cheapest way to every topology after a gap, from the cheapest ways before it."""
    many = work.shape[0]
    if delta.shape[0] == 1:
        least = min(work.min() + max(delta[0, 0] - gap, 0), infinite)
        for to in range(many):
            moved[to] = min(work[to], least)
        return
    moved[:] = work
    for held in range(many):
        if work[held] >= infinite:
            continue
        for to in range(many):
            price = delta[held, to]
            if price < infinite:
                moved[to] = min(moved[to], work[held] + max(price - gap, 0))
