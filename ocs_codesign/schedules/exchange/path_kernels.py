"""Flows of one source taken apart into paths."""

from __future__ import annotations

import numpy as np


def take_apart(source, targets, amounts, tail, in_start, in_link, flow, least, found, flat):
    """Paths that carry ``amounts`` to ``targets``, of a source's ``flow`` (float64, a link).

    A path is walked back along the widest flows; a cycle that turns up is taken out. ``found``
    gets target, amount, and where the links of a path begin in ``flat``, in their order from the
    source on, and the end of the last. Returns how many paths there are, -1 if a target is short
    of more than the part ``least``, -2 if ``found`` or ``flat`` is too small.
    """
    via = np.empty(len(in_start), dtype=np.int64)
    seen = np.full(len(in_start), -1, dtype=np.int64)
    count, used = 0, 0
    for at in range(len(targets)):
        target, left = targets[at], amounts[at]
        while left > least * amounts[at]:
            node, length = target, 0
            seen[:] = -1
            seen[node] = 0
            while node != source:
                widest = -1
                for place in range(in_start[node], in_start[node + 1]):
                    link = in_link[place]
                    if widest < 0 or flow[link] > flow[widest]:
                        widest = link
                if widest < 0 or flow[widest] <= 0:
                    return -1
                via[length] = widest
                length += 1
                node = tail[widest]
                if seen[node] >= 0:
                    first = seen[node]
                    round_trip = flow[via[first:length]].min()
                    for place in range(first, length):
                        flow[via[place]] -= round_trip
                    for place in range(first + 1, length):
                        seen[tail[via[place - 1]]] = -1
                    length = first
                else:
                    seen[node] = length
            part = left
            for place in range(length):
                part = min(part, flow[via[place]])
            if count + 1 >= len(found) or used + length > len(flat):
                return -2
            found[count, 0], found[count, 1], found[count, 2] = target, part, used
            for place in range(length - 1, -1, -1):
                flow[via[place]] -= part
                flat[used] = via[place]
                used += 1
            count += 1
            found[count, 2] = used
            left -= part
    return count
