"""Loops that draw random numbers from words, bit for bit as numpy draws them from a PCG64.

``words`` (uint64) are what the generator gives next. ``drawn`` (int64) counts those used up, and
holds the upper half of one, and whether that is still to be used.
"""

from __future__ import annotations

import numpy as np


def draw(words, drawn, below):
    """A number from 0 to ``below`` - 1 out of half a word, without bias.

    Source: D. Lemire (2019), Fast random integer generation in an interval.
    """
    if below == 1:
        return 0
    while True:
        half = np.uint64(drawn[1])
        if not drawn[2]:
            word = words[drawn[0]]
            drawn[0] += 1
            half = word & np.uint64(0xFFFFFFFF)
            drawn[1] = np.int64(word >> np.uint64(32))
        drawn[2] = 1 - drawn[2]
        scaled = half * np.uint64(below)
        if scaled & np.uint64(0xFFFFFFFF) >= np.uint64((1 << 32) % below):
            return np.int64(scaled >> np.uint64(32))


def draw_real(words, drawn):
    """A number in [0, 1) out of a word."""
    real = (words[drawn[0]] >> np.uint64(11)) * 2.0**-53
    drawn[0] += 1
    return real
