"""Loops over transfers in the order of their starts."""

from __future__ import annotations


def mark_used(sender, receiver, chunk, needs, keep):
    """Mark the transfers whose receiver needs the chunk, or sends it to one who does.

    ``needs[chunk, node]`` is true of those who must get it; senders are added.
    """
    for row in range(len(chunk) - 1, -1, -1):
        if needs[chunk[row], receiver[row]]:
            keep[row] = True
            needs[chunk[row], sender[row]] = True


def start_early(tail, head, busy, ticks, link, chunk, ready, free, start):
    """Fill ``start`` with the first tick at which each transfer's sender and link are ready.

    ``ready[node, chunk]`` and ``free[link]`` are 0 at first.
    """
    for row in range(len(link)):
        e, c = link[row], chunk[row]
        begin = max(ready[tail[e], c], free[e])
        start[row] = begin
        free[e] = begin + busy[e]
        ready[head[e], c] = max(ready[head[e], c], begin + ticks[e])
