"""Whether a graph ends: the nodes that a walk in the order of their waits reaches."""

from __future__ import annotations

import numpy as np


def walked(after_start, after, waits, ended):
    """Mark in ``ended`` the nodes that end, if each begins when all it waits for have; how many.

    Node i is waited for by ``after[after_start[i] : after_start[i + 1]]``; ``waits`` says for how
    many each waits, and is used up.
    """
    queue = np.empty(len(waits), dtype=np.int64)
    first = last = 0
    for node in range(len(waits)):
        if waits[node] == 0:
            queue[last] = node
            last += 1
    while first < last:
        node = queue[first]
        first += 1
        ended[node] = True
        for entry in range(after_start[node], after_start[node + 1]):
            other = after[entry]
            waits[other] -= 1
            if waits[other] == 0:
                queue[last] = other
                last += 1
    return last
