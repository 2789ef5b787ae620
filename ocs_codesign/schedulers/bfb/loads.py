"""Exact link loads of balanced breadth-first broadcast (BFB), without building its schedule.

At step t node u receives the whole shard of every v with dist(v, u) = t over in-links from nodes at
distance t - 1. By Hall's condition the least possible largest load is

    U_{u,t} = max over non-empty sets W of in-links of
              #{v at distance t whose admissible in-links all lie in W} / (speed of W)

and U_t = max over u. Parallel links are merged (their admissibility is the same) and self-loops
never admissible, so W runs over sets of distinct in-neighbours. Three ways to count, one formula:

* few receivers (declared symmetry): one backward search a receiver, masks carried along it;
* up to MAX_SUBSET_WIDTH in-neighbours: reach sets of all nodes as packed bits, and for every set
  the population count of a union;
* more in-neighbours: sources grouped into classes, the maximum found by flows (``bfb_kernels``).

Source: Zhao et al. (arXiv 2202.03356), BFB; the closed form is Hall's theorem for its LP.
"""

from __future__ import annotations

from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.given import takes_topology
from ocs_codesign.reach import WORD_BITS, all_distances, identity_bits, in_neighbours

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from ocs_codesign.reach import InNeighbours
    from ocs_codesign.topology import Topology

MAX_SUBSET_WIDTH = 9
_MAX_MASK_WIDTH = 16
_BLOCK_BYTES = 96 * 2**20
_COUNTER_BYTES = 512 * 2**20
_CACHE_WORDS = 2**14


@takes_topology
def bfb_loads(topology: Topology) -> tuple[Fraction, ...]:
    """Largest link load of every BFB allgather step, in shards a unit of link speed.

    Their number is the diameter; ``topology.t_b(sum(loads))`` is T_B. Loops over all receivers, or
    over one in each orbit when the topology declares a symmetry. Raises ValueError when the
    topology has one node or is not strongly connected.

    >>> from ocs_codesign.topology import Topology
    >>> cycle = [0, 1, 2, 3, 4]
    >>> bfb_loads(Topology(5, cycle * 2, [1, 2, 3, 4, 0, 4, 0, 1, 2, 3]))
    (Fraction(1, 1), Fraction(1, 1))
    """
    neighbours = in_neighbours(topology)
    width = neighbours.node.shape[1]
    if topology.symmetry is not None and width <= _MAX_MASK_WIDTH:
        receivers = topology.symmetry.representatives()
        if len(receivers) * 8 <= topology.num_nodes:
            return _loads_of_receivers(topology, neighbours, receivers)
    if width <= MAX_SUBSET_WIDTH:
        return _loads_of_all(neighbours)
    from ocs_codesign.schedulers.bfb.classes import loads_by_classes

    return loads_by_classes(topology, neighbours)


def line_bfb_loads(base: Topology) -> tuple[Fraction, ...]:
    """Exact BFB loads of Line(base), from the d times smaller base alone.

    U'_1 = 1; U'_{t+1} = max over links (w, w') and sets W of in-links of w of
    (d #{v : dist(v, w) = t, admissible in-links inside W} - [w' itself is such a v]) / |W|,
    because the sources (v', v) of receiver (w, w') inherit the distance and the in-links of v, and
    one of them is the receiver itself. Needs a regular base of equal link speeds and at most
    MAX_SUBSET_WIDTH in-neighbours a node; ValueError otherwise.

    >>> from ocs_codesign.topology import Topology
    >>> square = Topology(4, [0, 1, 2, 3] * 2, [1, 2, 3, 0, 3, 0, 1, 2])
    >>> [str(load) for load in line_bfb_loads(square)]
    ['1', '2', '1']
    """
    neighbours = in_neighbours(base)
    width = neighbours.node.shape[1]
    if not base.is_regular or base.link_speed is not None or width > MAX_SUBSET_WIDTH:
        raise ValueError(
            "the line predictor needs a regular graph of equal link speeds and at most "
            f"{MAX_SUBSET_WIDTH} in-neighbours a node"
        )
    to = np.ascontiguousarray(all_distances(base).T)  # row u: distance to u from every node
    if to.min() < 0:
        raise ValueError("not strongly connected: BFB does not reach every node")
    weights = subset_sums(neighbours.capacity)
    masks = np.zeros(to.shape, dtype=np.int64)
    for column in range(width):
        via = neighbours.node[:, column]
        proper = (neighbours.capacity[:, column] > 0)[:, None]
        masks |= np.where((to[via] == to - 1) & proper, 1 << column, 0)
    subsets = 1 << width
    inside = (np.arange(subsets)[:, None] & np.arange(subsets)) == np.arange(subsets)[:, None]
    receiver = np.arange(base.num_nodes)
    loads = [Fraction(1)]
    for step in range(1, int(to.max()) + 1):
        at = to == step
        classes = np.bincount(
            (receiver[:, None] * subsets + masks)[at], minlength=base.num_nodes * subsets
        ).reshape(-1, subsets)
        confined = base.degree * (classes @ inside)
        # One receiver (w, w') a link; w' is among the confined sources if its own mask is inside W.
        own = inside[masks[base.tail, base.head]] & at[base.tail, base.head][:, None]
        loads.append(largest_ratio(confined[base.tail] - own, weights[base.tail]))
    # On a one-way ring the farthest source of every receiver is the receiver itself.
    return tuple(load for load in loads if load)


def num_chunks_for(loads: Iterable[Fraction]) -> int:
    """Fewest chunks a shard with which an integral BFB schedule meets these loads."""
    return lcm(*(load.denominator for load in loads))


def largest_ratio(counts: NDArray[Any], weights: NDArray[Any]) -> Fraction:
    """Largest counts / weights over all entries of positive weight, exactly; 0 if there is none."""
    counts, weights = np.broadcast_arrays(counts, weights)
    ratios = np.divide(counts, weights, out=np.zeros(counts.shape), where=weights > 0)
    best = Fraction(0)
    while True:
        # Floats guess the largest, integers prove it: what is above the guess is looked at again.
        top = np.unravel_index(np.argmax(ratios), ratios.shape)
        if weights[top] > 0:
            best = max(best, Fraction(int(counts[top]), int(weights[top])))
        above = counts * np.int64(best.denominator) > weights * np.int64(best.numerator)
        above &= weights > 0
        if not above.any():
            return best
        counts, weights, ratios = counts[above], weights[above], ratios[above]


def subset_sums(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sum of the values over every set of columns, the set's bits its index; (n, k) to (n, 2^k)."""
    sums = np.zeros((len(values), 1), dtype=np.int64)
    for column in range(values.shape[1]):
        sums = np.concatenate([sums, sums + values[:, column : column + 1]], axis=1)
    return sums


def _loads_of_all(neighbours: InNeighbours) -> tuple[Fraction, ...]:
    """Loads over all receivers from packed reach sets, a block of sources at a time."""
    nodes = len(neighbours.node)
    words = max(1, min(-(-nodes // WORD_BITS), _BLOCK_BYTES // (8 * nodes)))
    weights = subset_sums(neighbours.capacity)
    blocks = range(0, nodes, words * WORD_BITS)
    totals: list[NDArray[np.int32]] = []
    loads: list[Fraction] = []
    reached_all = np.zeros(nodes, dtype=np.int64)
    for first in blocks:
        last = min(nodes, first + words * WORD_BITS)
        reached, step = identity_bits(nodes, first, last), 0
        size = np.bitwise_count(reached).sum(axis=1, dtype=np.int32)
        while not (size == last - first).all():
            before = size
            reached, counts, size = _confined_sources(reached, neighbours)
            if np.array_equal(before, size):
                break
            if len(blocks) == 1:
                loads.append(largest_ratio(counts, weights))
            else:
                _accumulate(totals, step, counts)
            step += 1
        reached_all += size
    _check_reached(reached_all, nodes)
    return tuple(loads) or tuple(largest_ratio(counts, weights) for counts in totals)


def _accumulate(totals: list[NDArray[np.int32]], step: int, counts: NDArray[np.int32]) -> None:
    if step < len(totals):
        totals[step] += counts
        return
    if (step + 1) * counts.nbytes > _COUNTER_BYTES:
        raise ValueError(
            f"a topology of {len(counts)} nodes and over {step} steps without a declared symmetry "
            "is too large to score: build it from a recipe whose family declares one"
        )
    totals.append(counts)


def _confined_sources(
    reached: NDArray[np.uint64], neighbours: InNeighbours
) -> tuple[NDArray[np.uint64], NDArray[np.int32], NDArray[np.int32]]:
    """One hop on: grown reach sets, new sources confined to each set W of in-links, new sizes.

    A new source lies outside every set W exactly if a link outside W leads to it, so W confines
    |union over all links| - |union over the links not in W|, unions taken with what was reached.
    """
    nodes, width = neighbours.node.shape
    words = reached.shape[1]
    rows = max(1, _CACHE_WORDS // words)
    grown = np.empty_like(reached)
    counts = np.empty((nodes, 1 << width), dtype=np.int32)
    covers = np.empty((width + 1, rows, words), dtype=np.uint64)
    bits = np.empty((rows, words), dtype=np.uint8)
    ones = np.ones(words, dtype=np.float32)  # sums of at most 2^24 bits are exact
    unions = _depth_first_sets(width)
    everything = (1 << width) - 1
    for first in range(0, nodes, rows):
        here = slice(first, min(nodes, first + rows))
        size = here.stop - here.start
        covers[0, :size] = reached[here]
        gathered = reached[neighbours.node[here].T]
        for inside, depth in unions:
            cover = covers[depth, :size]
            if depth:
                link = inside.bit_length() - 1
                np.bitwise_or(covers[depth - 1, :size], gathered[link], out=cover)
            np.bitwise_count(cover, out=bits[:size])
            counts[here, everything ^ inside] = bits[:size].astype(np.float32) @ ones
            if inside == everything:
                grown[here] = cover
    sizes = counts[:, 0].copy()
    np.subtract(sizes[:, None], counts, out=counts)
    return grown, counts, sizes


def _depth_first_sets(width: int, inside: int = 0) -> list[tuple[int, int]]:
    """Every set of columns with its size, each after the set that lacks its largest column."""
    sets = [(inside, inside.bit_count())]
    for column in range(inside.bit_length(), width):
        sets += _depth_first_sets(width, inside | 1 << column)
    return sets


def _loads_of_receivers(
    topology: Topology, neighbours: InNeighbours, receivers: NDArray[np.int64]
) -> tuple[Fraction, ...]:
    loads: list[Fraction] = []
    index = topology.links_by_head()
    tail = topology.tail[index.order]
    for receiver in receivers.tolist():
        weights = subset_sums(neighbours.capacity[receiver : receiver + 1])[0]
        for step, masks in enumerate(_masks_by_step(tail, index.start, neighbours, receiver)):
            confined = _sums_over_subsets(np.bincount(masks, minlength=len(weights)))
            load = largest_ratio(confined, weights)
            if step == len(loads):
                loads.append(load)
            loads[step] = max(loads[step], load)
    return tuple(loads)


def _masks_by_step(
    tail: NDArray[np.int32], start: NDArray[np.int64], neighbours: InNeighbours, receiver: int
) -> list[NDArray[np.uint16]]:
    """For each step the admissible in-neighbours, as bits, of every source at that distance.

    Searches backwards from the receiver: a source inherits the bits of all its next hops.
    """
    nodes = len(start) - 1
    masks = np.zeros(nodes, dtype=np.uint16)
    marker = np.empty(nodes, dtype=np.int32)
    seen = np.zeros(nodes, dtype=bool)
    seen[receiver] = True
    row = neighbours.node[receiver]
    links = np.flatnonzero(neighbours.capacity[receiver])
    frontier = row[links]
    masks[frontier] = (1 << links).astype(np.uint16)
    seen[frontier] = True
    by_step, total = [], 1
    while len(frontier):
        by_step.append(masks[frontier])
        total += len(frontier)
        count = start[frontier + 1] - start[frontier]
        position = np.repeat(start[frontier] - (np.cumsum(count) - count), count)
        sources = tail[position + np.arange(len(position))]
        fresh = ~seen[sources]
        sources = sources[fresh]
        np.bitwise_or.at(masks, sources, np.repeat(masks[frontier], count)[fresh])
        seen[sources] = True
        # Each new source appears once a next hop: keep the appearance that wrote the marker last.
        marker[sources] = np.arange(len(sources), dtype=np.int32)
        frontier = sources[marker[sources] == np.arange(len(sources))]
    if total < nodes:
        raise ValueError(_unreached(int(np.flatnonzero(~seen)[0]), receiver))
    if nodes < 2:
        raise ValueError("a collective needs at least two nodes")
    return by_step


def _sums_over_subsets(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """For every bit set the sum of the values at its subsets (the zeta transform)."""
    sums = values.astype(np.int64)
    for bit in range(len(sums).bit_length() - 1):
        halves = sums.reshape(-1, 2, 1 << bit)
        halves[:, 1] += halves[:, 0]
    return sums


def _check_reached(reached: NDArray[np.int64], nodes: int) -> None:
    if nodes < 2:
        raise ValueError("a collective needs at least two nodes")
    if (reached < nodes).any():
        receiver = int(np.argmax(reached < nodes))
        raise ValueError(
            f"not strongly connected: node {receiver} is reached by only "
            f"{int(reached[receiver])} of {nodes} nodes"
        )


def _unreached(source: int, receiver: int) -> str:
    return f"not strongly connected: node {receiver} is out of node {source}'s reach"
