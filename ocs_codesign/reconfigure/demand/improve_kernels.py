"""Compiled local search on plans: some configurations are dropped, what they served is covered."""

from __future__ import annotations

import numpy as np
from numba import njit

from ocs_codesign.reconfigure.demand.kernels import cover, shorten
from ocs_codesign.reconfigure.demand.nested_kernels import nest

MOST_POWER = 6.0
"""Lines' needs are raised to at most 2**MOST_POWER."""

NESTED, MOST_EXTRA = 0.5, 3
"""How often what was dropped is nested, and with how many configurations more than it has entries
at most."""

FINISHING, LARGE = 0.8, 0.2
"""How often finishing an entry counts in a cover, and how often any number is dropped."""


@njit(cache=True)
def improve(
    demand, setup, switches, most, levels, heat, rounds, rng, permutations, times, made, cost
):
    """Replace the plan by a better one if one is found in so many rounds: (how many, its cost).

    A round drops up to ``most`` configurations, or any number. A plan that costs more is gone on
    from with a probability that falls to 1/e for ``heat`` more, and over the rounds to none.
    """
    n, room = len(demand), len(times)
    current, spans = permutations.copy(), times.copy()
    trial, trial_spans = permutations.copy(), times.copy()
    size, current_cost = made, cost
    left = np.empty_like(demand)
    unused = np.zeros(room, dtype=np.int64)
    for at in range(rounds):
        kept = _drop(demand, setup, most, rng, current, spans, size, trial, trial_spans)
        left[:] = demand
        for k in range(kept):
            for row in range(n):
                left[row, trial[k, row]] -= trial_spans[k]
        np.maximum(left, 0, left)
        if rng.random() < NESTED:
            extra = rng.integers(0, MOST_EXTRA + 1)
            power = 16.0 * rng.random()
            many = nest(left, extra, power, 0.5 * rng.random(), rng, trial, trial_spans, kept)
        else:
            power = 2.0 ** (MOST_POWER * rng.random())
            finish = 1.0 if rng.random() < FINISHING else 0.0
            noise = 0.1 * rng.random()
            many = cover(
                *(left, setup, power, finish, levels, levels, noise, rng, trial, trial_spans, kept)
            )
        if many < 0:
            continue
        many = shorten(demand, trial, trial_spans, unused, many)
        new = price(trial_spans[:many], setup, switches)
        allowed = heat * (1.0 - at / rounds)
        if new > current_cost and rng.random() >= np.exp((current_cost - new) / (allowed + 1e-9)):
            continue
        current, trial, spans, trial_spans = trial, current, trial_spans, spans
        size, current_cost = many, new
        if new < cost:
            made, cost = many, new
            permutations[:made], times[:made] = current[:made], spans[:made]
    return made, cost


@njit(cache=True)
def _drop(demand, setup, most, rng, permutations, times, made, kept, kept_times):
    """Copy a plan without some of its configurations; returns how many are left.

    They are drawn evenly, by the share of their cost that serves nothing, or are next to each other
    in time.
    """
    many = min(made, 2 + rng.integers(0, max(1, most - 1)))
    if rng.random() < LARGE:
        many = rng.integers(1, made + 1)
    weight = np.ones(made)
    way = rng.random()
    if way < 0.5:
        for at in range(made):
            used = 0.0
            for row in range(len(demand)):
                used += min(times[at], demand[row, permutations[at, row]])
            weight[at] = 1.0 + 1e-6 - used / (len(demand) * (times[at] + setup))
    elif way < 0.75:
        order = np.argsort(times[:made], kind="mergesort")
        first = rng.integers(0, made - many + 1)
        weight[:] = 0.0
        for at in order[first : first + many]:
            weight[at] = 1.0
    gone = np.zeros(made, dtype=np.bool_)
    for _ in range(many):
        draw = weight.sum() * rng.random()
        at = 0
        while at < made - 1 and (gone[at] or draw >= weight[at]):
            draw -= weight[at]
            at += 1
        gone[at], weight[at] = True, 0.0
    left = 0
    for at in range(made):
        if not gone[at]:
            kept[left], kept_times[left] = permutations[at], times[at]
            left += 1
    return left


@njit(cache=True)
def price(times, setup, switches):
    """What a plan costs: its total, and on several switches also that many times its makespan.

    The makespan is that of the longest configurations first, each on the least busy switch.
    """
    total = times.sum() + setup * len(times)
    if switches == 1:
        return float(total)
    busy = np.zeros(switches)
    for at in np.argsort(-times, kind="mergesort"):
        busy[np.argmin(busy)] += times[at] + setup
    return float(total) + switches * busy.max()
