"""Loops over steps and topologies, compiled for large problems: costs to go, and what follows them.

A number is two parts, high * 2^60 + low, on the leading axis of every array; whatever has a high
part of at least ``infinite`` is infinite. ``cost`` (2, R, K) has one row for each kind of step and
``row`` (S,) says which kind a step is; ``delta`` (2, K, K), or (2, 1, K) where all switches cost
the same, says what a switch costs before ``gap`` (2, G) hides some of it; ``wait`` (S,) says which
gap is before a step. ``tie`` is what every switch adds to the low part. Uncompiled, the same loops
work on Python integers of any size, which are high parts alone.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numba.extending import register_jitable

_ONE = 2**60


@register_jitable
def _beyond(delta, line, to, gap, wait, infinite, tie):
    """What a switch costs beyond a gap."""
    high, low = delta[0, line, to], delta[1, line, to]
    if high >= infinite:
        return infinite, low
    high, low = high - gap[0, wait], low - gap[1, wait]
    if low < 0:
        high, low = high - 1, low + _ONE
    if high < 0:
        return 0, tie
    return high, low + tie


@register_jitable
def _relax(rest_high, rest_low, price_high, price_low, high, low):
    """Let every topology held switch to one, where that is cheaper than all known."""
    for held in range(high.shape[0]):
        new_high, new_low = rest_high + price_high[held], rest_low + price_low[held]
        if new_low >= _ONE:
            new_high, new_low = new_high + 1, new_low - _ONE
        if new_high < high[held] or (new_high == high[held] and new_low < low[held]):
            high[held], low[held] = new_high, new_low


@njit(cache=True)
def costs_to_go(cost, row, wait, delta, gap, tie, infinite, value):
    """Fill ``value`` (2, S, K): the least cost of a step on a topology and of all steps after it.

    ``delta`` is by topology switched to, then topology held.
    """
    steps, many = value.shape[1], value.shape[2]
    price = np.zeros_like(delta)
    known = -1  # the gap that the prices are beyond
    for step in range(steps - 1, -1, -1):
        high, low = value[0, step], value[1, step]
        high[:], low[:] = 0, 0
        if step < steps - 1:
            rest_high, rest_low = value[0, step + 1], value[1, step + 1]
            high[:], low[:] = rest_high, rest_low
            first, end = 0, many
            if delta.shape[1] == 1:
                for to in range(1, many):
                    ahead = rest_high[to] - rest_high[first]
                    if ahead < 0 or (ahead == 0 and rest_low[to] < rest_low[first]):
                        first = to
                end = first + 1
            now = wait[step + 1]
            if known < 0 or gap[0, now] != gap[0, known] or gap[1, now] != gap[1, known]:
                known = now
                for line in range(delta.shape[1]):
                    for held in range(many):
                        price[0, line, held], price[1, line, held] = _beyond(
                            delta, line, held, gap, known, infinite, tie
                        )
            for to in range(first, end):
                line = to if delta.shape[1] > 1 else 0
                if rest_high[to] < infinite:
                    _relax(rest_high[to], rest_low[to], price[0, line], price[1, line], high, low)
        for held in range(many):
            high[held] += cost[0, row[step], held]
            low[held] += cost[1, row[step], held]
            if low[held] >= _ONE:
                high[held], low[held] = high[held] + 1, low[held] - _ONE
            if high[held] >= infinite:
                high[held], low[held] = infinite, 0


@njit(cache=True)
def follow(value, wait, first, delta, gap, tie, infinite, held, choice):
    """Fill ``choice`` (S,) by going where switch and value cost least; False if none is finite.

    ``first`` (2, 1, K) says what the first configuration costs and ``delta`` is by topology held,
    then topology switched to. ``held`` is -1 where nothing is; of equals it is kept.
    """
    for step in range(value.shape[1]):
        best, least, rest = -1, infinite, -1
        prices = first if step == 0 else delta
        line = held if prices.shape[1] > 1 else 0
        for to in range(value.shape[2]):
            high, low = 0, 0
            if step == 0 or to != held:
                switch = tie if held >= 0 and to != held else 0
                high, low = _beyond(prices, line, to, gap, wait[step], infinite, switch)
            high, low = high + value[0, step, to], low + value[1, step, to]
            if low >= _ONE:
                high, low = high + 1, low - _ONE
            if high < least or (high == least and (low < rest or (low == rest and to == held))):
                best, least, rest = to, high, low
        if best < 0:
            return False
        choice[step] = best
        held = best
    return True
