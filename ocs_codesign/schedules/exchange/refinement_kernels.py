"""Colour refinement of the program of an exchange, by sums of 64-bit mixes over its multisets.

A row s has a colour for every node, a link one for all rows together; that of a row and a link is
a mix of both ends' in the row and of the link's own, so it is never stored. Sources: Grohe,
Kersting, Mladenov, Selman, Dimension reduction via colour refinement (2014); Steele, Lea, Flood,
Fast splittable pseudorandom number generators (2014), for the mix.
"""

from __future__ import annotations

import numpy as np

from ocs_codesign.schedules.paths.kernels import shortest_tree

_STEP = np.uint64(0x9E3779B97F4A7C15)
_ONE, _TWO = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31 = np.uint64(30), np.uint64(27), np.uint64(31)


def mix(value):
    """A number of 64 bits, uint64, that depends on all bits of another."""
    value = (value ^ (value >> _30)) * _ONE
    value = (value ^ (value >> _27)) * _TWO
    return value ^ (value >> _31)


def as_ends(colours, at_tail, at_head):
    """What the colours of a row's nodes count as at the tail and at the head of a link."""
    for node in range(len(colours)):
        at_tail[node] = mix(colours[node] + _ONE)
        at_head[node] = mix(colours[node] + _TWO)


def add_rows(colour, tail, head, link_colour, total):
    """Add to every link's ``total`` the multiset of its colours in all rows."""
    at_tail, at_head = np.empty_like(colour[0]), np.empty_like(colour[0])
    for row in range(len(colour)):
        as_ends(colour[row], at_tail, at_head)
        for link in range(len(tail)):
            total[link] += mix(link_colour[link] + at_tail[tail[link]] + at_head[head[link]])


def refine_rows(colour, tail, head, link_colour, signature):
    """Recolour the nodes of every row by the links out of and into them and by the whole row.

    ``signature`` becomes the multiset of a row's new colours.
    """
    at_tail, at_head = np.empty_like(colour[0]), np.empty_like(colour[0])
    out, into = np.empty_like(colour[0]), np.empty_like(colour[0])
    for row in range(len(colour)):
        mine = colour[row]
        as_ends(mine, at_tail, at_head)
        whole = _STEP
        for node in range(len(mine)):
            out[node] = into[node] = 0
            whole += at_tail[node]
        for link in range(len(tail)):
            here = mix(link_colour[link] + at_tail[tail[link]] + at_head[head[link]])
            out[tail[link]] += here
            into[head[link]] += here
        whole = mix(whole)
        signature[row] = _STEP
        for node in range(len(mine)):
            mine[node] = mix(mine[node] + mix(out[node] + mix(into[node] + whole)))
            signature[row] += mix(mine[node] + _ONE)


def row_colours(colour, tail, head, link_colour, row, links, found):
    """The colours of some links in a row."""
    mine = colour[row]
    for at in range(len(found)):
        link = links[at]
        ends = mix(mine[tail[link]] + _ONE) + mix(mine[head[link]] + _TWO)
        found[at] = mix(link_colour[link] + ends)


def tree_distances(sources, head, out_start, out_link, price, found):
    """Cheapest ways from every source to all nodes, -1 where there is none (int64)."""
    nodes = len(out_start) - 1
    parent, order = np.empty(nodes, dtype=np.int64), np.empty(nodes, dtype=np.int64)
    heap = np.empty((2, len(head) + 1), dtype=np.int64)
    unreached = np.int64(1 << 62)
    for at in range(len(sources)):
        distance = found[at]
        shortest_tree(sources[at], head, out_start, out_link, price, distance, parent, order, heap)
        for node in range(nodes):
            if distance[node] == unreached:
                distance[node] = -1


def tree_loads(tail, head, out_start, out_link, price, hosts, loads):
    """Add to a link's ``loads`` a unit for every pair of hosts whose cheapest path has it.

    Hosts are the first nodes.
    """
    nodes = len(out_start) - 1
    parent, order = np.empty(nodes, dtype=np.int64), np.empty(nodes, dtype=np.int64)
    distance, beyond = np.empty(nodes, dtype=np.int64), np.empty(nodes, dtype=np.int64)
    heap = np.empty((2, len(head) + 1), dtype=np.int64)
    for host in range(hosts):
        reached = shortest_tree(
            host, head, out_start, out_link, price, distance, parent, order, heap
        )
        for node in range(nodes):
            beyond[node] = 1 if node < hosts else 0
        # The farthest first: what passes a node is complete before it counts for its parent.
        for place in range(reached - 1, 0, -1):
            node = order[place]
            link = parent[node]
            loads[link] += beyond[node]
            beyond[tail[link]] += beyond[node]
