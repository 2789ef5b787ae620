"""Who reaches whom in how many hops: neighbour tables and breadth-first search on packed bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.runs import places

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.network import Network
    from ocs_codesign.topology import Topology

WORD_BITS = 64


@final
@dataclass(frozen=True, slots=True, eq=False)
class InNeighbours:
    """Distinct in-neighbours of every node, self-loops left out, parallel links merged.

    ``node`` (int32, N x k) lists them in ascending order and is padded with the node itself;
    ``capacity`` (int64, N x k) is the summed speed of the links from each, 0 in the padding.
    """

    node: NDArray[np.int32]
    capacity: NDArray[np.int64]


def in_neighbours(topology: Topology) -> InNeighbours:
    """The in-neighbour table of a topology.

    >>> from ocs_codesign.topology import Topology
    >>> in_neighbours(Topology(2, [0, 0, 1, 1], [1, 1, 0, 1])).capacity.tolist()
    [[1], [2]]
    """
    nodes = topology.num_nodes
    proper = topology.tail != topology.head
    key = topology.head[proper].astype(np.int64) * nodes + topology.tail[proper]
    order = np.argsort(key, kind="stable")
    key, speed = key[order], topology.speeds()[proper][order]
    first = np.flatnonzero(np.diff(key, prepend=-1))
    head, tail = np.divmod(key[first], nodes)
    capacity = np.add.reduceat(speed, first) if len(first) else speed
    count = np.bincount(head, minlength=nodes)
    width = max(1, int(count.max(initial=0)))
    column = places(np.zeros(nodes, dtype=np.int64), count)[1]
    table = np.repeat(np.arange(nodes, dtype=np.int32)[:, None], width, axis=1)
    table[head, column] = tail
    capacities = np.zeros((nodes, width), dtype=np.int64)
    capacities[head, column] = capacity
    return InNeighbours(table, capacities)


def identity_bits(num_nodes: int, first: int, last: int) -> NDArray[np.uint64]:
    """Packed rows in which row v has bit v - first set for v in [first, last)."""
    words = -(-(last - first) // WORD_BITS)
    rows = np.zeros((num_nodes, words), dtype=np.uint64)
    offset = np.arange(last - first)
    rows[offset + first, offset // WORD_BITS] = np.uint64(1) << (offset % WORD_BITS).astype(
        np.uint64
    )
    return rows


def all_distances(topology: Topology) -> NDArray[Any]:
    """Hops from row to column for all pairs, -1 where there is no path; int16 below 2^15 nodes."""
    nodes = topology.num_nodes
    # Reach sets grow backwards along the transpose so that row v lists what v can reach.
    successors = in_neighbours(topology.transpose()).node
    distances = np.full((nodes, nodes), -1, dtype=np.int16 if nodes < 2**15 else np.int32)
    block = max(WORD_BITS, min(nodes, 2**28 // nodes * 8 // WORD_BITS * WORD_BITS))
    for first in range(0, nodes, block):
        last = min(nodes, first + block)
        reached, hops = identity_bits(nodes, first, last), 0
        new = reached
        while new.any():
            rows = np.flatnonzero(new.any(axis=1))
            bits = np.unpackbits(new[rows].view(np.uint8), axis=1, bitorder="little")
            view = distances[rows, first:last]
            view[bits[:, : last - first].astype(bool)] = hops
            distances[rows, first:last] = view
            grown = reached.copy()
            for column in range(successors.shape[1]):
                grown |= reached[successors[:, column]]
            new, reached, hops = grown & ~reached, grown, hops + 1
    return distances


def host_diameter(network: Network) -> int:
    """Most hops from host to host that data need, passing any switches at once.

    Raises ValueError if a host is not reached.

    >>> from ocs_codesign.networks.boxes import boxes
    >>> host_diameter(boxes(3, 4, 300, 25, outer=4))
    2
    """
    hosts = network.num_hosts
    reached, hops = identity_bits(network.num_nodes, 0, hosts), -1
    order = np.argsort(network.head, kind="stable")
    tail, head = network.tail[order], network.head[order]
    to_switch = head >= hosts
    switches, ranks = ((tail[at], head[at]) for at in (to_switch, ~to_switch))
    grows = True
    while grows:
        hops += 1
        while _spread(reached, *switches):
            pass
        grows = _spread(reached, *ranks)
    full = np.bitwise_or.reduce(identity_bits(hosts, 0, hosts), axis=0)
    short = np.flatnonzero((reached[:hosts] != full).any(axis=1))
    if len(short):
        raise ValueError(f"{network.name(int(short[0]))} cannot be reached from all others")
    return hops


def _spread(reached: NDArray[np.uint64], tail: NDArray[Any], head: NDArray[Any]) -> bool:
    """Let heads, in ascending order, have what their tails have; whether any did not yet."""
    if not len(head):
        return False
    first = np.flatnonzero(np.diff(head, prepend=-1))
    heads, before = head[first], reached[head[first]]
    after = before | np.bitwise_or.reduceat(reached[tail], first, axis=0)
    reached[heads] = after
    return bool((after != before).any())
