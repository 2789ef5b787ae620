"""Compiled loops that make transfers: who waits for whom."""

from __future__ import annotations

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
