"""Loops over packed reach sets: how many new sources every set of in-links confines."""

from __future__ import annotations

import numpy as np


def confined_sources(reached, neighbours, grown, sizes, confined, complete, first, last):
    """One hop on for receivers ``first`` to ``last`` - 1: grown reach sets and their new sources.

    A new source lies outside every set W of in-links exactly if a link outside W leads to it, so W
    confines |union over all links| - |union over the links not in W|, unions taken with what was
    reached. Adds that to ``confined`` (receivers x sets) and updates ``sizes``; receivers that have
    ``complete`` many sources already have no new ones. There are at least three columns of
    in-neighbours.
    """
    words = reached.shape[1]
    width = neighbours.shape[1]
    sets = 1 << width
    covered = np.empty(sets, dtype=np.int64)
    cover = np.empty((width - 3, words), dtype=np.uint64)
    for node in range(first, last):
        own, union = reached[node], grown[node]
        for word in range(words):
            union[word] = own[word]
        if sizes[node] == complete:
            continue
        for column in range(width):
            join(union, reached[neighbours[node, column]], union)
        one = reached[neighbours[node, 0]]
        two = reached[neighbours[node, 1]]
        three = reached[neighbours[node, 2]]
        for high in range(sets >> 3):
            base = own
            if high:
                # Counted upwards, a set comes soon after the one that lacks its lowest column.
                lowest = 0
                while not high >> lowest & 1:
                    lowest += 1
                depth, rest = 0, high & (high - 1)
                before = own
                while rest:
                    depth, rest = depth + 1, rest & (rest - 1)
                    before = cover[depth - 1]
                base = cover[depth]
                join(before, reached[neighbours[node, lowest + 3]], base)
            sums = eight_sizes(base, one, two, three)
            for low in range(8):
                covered[high << 3 | low] = sums[low]
        whole = covered[sets - 1]
        for inside in range(sets):
            confined[node, sets - 1 - inside] += whole - covered[inside]
        sizes[node] = whole


def eight_sizes(base, one, two, three):
    """Bits in the union of the base with every set of three rows, the set's bits its place."""
    none = first = second = both = third = outer = inner = every = 0
    for word in range(len(base)):
        bits, last = base[word], three[word]
        left, right = bits | one[word], bits | two[word]
        pair = left | right
        none += ones_in(bits)
        first += ones_in(left)
        second += ones_in(right)
        both += ones_in(pair)
        third += ones_in(bits | last)
        outer += ones_in(left | last)
        inner += ones_in(right | last)
        every += ones_in(pair | last)
    return none, first, second, both, third, outer, inner, every


def join(one, other, union):
    """The bits of either."""
    for word in range(len(union)):
        union[word] = one[word] | other[word]


def ones_in(word):
    """Bits of a word that are set; written so that compilers know it for what it is."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    pairs = np.uint64(0x3333333333333333)
    word = (word & pairs) + ((word >> np.uint64(2)) & pairs)
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


def largest_load(confined, weights):
    """The largest confined / weight over sets of positive weight, as numerator and denominator."""
    top, bottom = 0, 1
    for node in range(confined.shape[0]):
        for inside in range(1, confined.shape[1]):
            count, weight = int(confined[node, inside]), int(weights[node, inside])
            if weight > 0 and count * bottom > top * weight:
                top, bottom = count, weight
    return top, bottom
