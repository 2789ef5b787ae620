"""Exact link loads of balanced breadth-first broadcast (BFB), without building its schedule.

At step t node u receives the whole shard of every v with dist(v, u) = t over in-links from nodes at
distance t - 1. By Hall's condition the least possible largest load is

    U_{u,t} = max over non-empty sets W of in-links of
              #{v at distance t whose admissible in-links all lie in W} / (speed of W)

and U_t = max over u. Parallel links are merged (their admissibility is the same) and self-loops
never admissible, so W runs over sets of distinct in-neighbours. Three ways to count, one formula:

* few receivers (declared symmetry): one backward search a receiver, masks carried along it;
* up to MAX_SUBSET_WIDTH in-neighbours: reach sets of all nodes as packed bits, and for every set
  the population count of a union (``packed``);
* more in-neighbours: sources grouped into classes, the maximum found by flows (``classes``).

Source: Zhao et al. (arXiv 2202.03356), BFB; the closed form is Hall's theorem for its LP.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.core.compute.kernels import for_work
from ocs_codesign.core.given import takes_topology
from ocs_codesign.core.topology import (
    MAX_COSTED_STEPS,
    WORD_BITS,
    all_distances,
    identity_bits,
    in_neighbours,
)
from ocs_codesign.graphs.recipe import Base
from ocs_codesign.schedules.breadth_first.kernels import (
    all_least_loads,
    confined_sources,
    largest_load,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from concurrent.futures import Executor

    from numpy.typing import NDArray

    from ocs_codesign.core.topology import InNeighbours, Topology
    from ocs_codesign.graphs.recipe import Recipe


# BFB loads of topologies with many in-neighbours: classes of sources and flows between them.


def loads_by_classes(topology: Topology, neighbours: InNeighbours) -> tuple[Fraction, ...]:
    """Largest link load of every BFB step; any number of in-neighbours, N^2 distances in memory."""
    receivers = None if topology.symmetry is None else topology.symmetry.representatives()
    return loads_of_steps(distances_to(topology), *neighbours, receivers)


def loads_of_steps(
    arrival: NDArray[Any],
    neighbours: NDArray[Any],
    capacity: NDArray[np.int64],
    receivers: NDArray[Any] | None = None,
) -> tuple[Fraction, ...]:
    """Largest link load of every step in which source v comes to node u at ``arrival[u, v]``.

    Of the ``receivers`` alone, if they are given; ``neighbours`` (receivers x k) are the rows of
    ``arrival`` that their in-neighbours have, ``capacity`` the speeds of these links, 0 for none.
    """
    receivers = np.arange(len(neighbours)) if receivers is None else receivers
    steps = int(arrival[: len(neighbours)].max())
    rounds = arrival.shape[1] * neighbours.shape[1] * len(receivers)
    best = for_work(all_least_loads, rounds)(arrival, neighbours, capacity, receivers, steps)
    return tuple(Fraction(int(top), int(bottom)) for top, bottom in best)


def distances_to(topology: Topology) -> NDArray[Any]:
    """dist(v, u) at row u, column v; ValueError if one node or not strongly connected."""
    if topology.num_nodes < 2:
        raise ValueError("a collective needs at least two nodes")
    distances = all_distances(topology.transpose())
    if distances.min() < 0:
        receiver, source = np.argwhere(distances < 0)[0]
        raise ValueError(f"not strongly connected: node {receiver} is out of node {source}'s reach")
    return distances


# The largest of many ratios of integers, and sums over sets of columns.


def largest_ratio(counts: NDArray[Any], weights: NDArray[Any]) -> Fraction:
    """Largest counts / weights over all entries of positive weight, exactly; 0 if there is none."""
    counts, weights = np.broadcast_arrays(counts, weights)
    return largest_ratios(counts.reshape(1, -1), weights.reshape(1, -1))[0]


def largest_ratios(counts: NDArray[Any], weights: NDArray[Any]) -> tuple[Fraction, ...]:
    """The largest of every row, exactly."""
    ratios = np.divide(counts, weights, out=np.full(counts.shape, -1.0), where=weights > 0)
    best = [Fraction(0)] * len(counts)
    rows = np.arange(len(counts))
    while True:
        # Floats guess the largest, integers prove it: what is above the guess is looked at again.
        entry = np.arange(len(rows)), ratios.argmax(axis=1)
        top, bottom = counts[entry].astype(np.int64), weights[entry].astype(np.int64)
        for row, count, weight in zip(rows.tolist(), top.tolist(), bottom.tolist(), strict=True):
            best[row] = Fraction(count, weight) if weight > 0 else best[row]
        above = (counts * bottom[:, None] > weights * top[:, None]) & (weights > 0)
        again = np.flatnonzero(above.any(axis=1) & (bottom > 0))
        if not len(again):
            return tuple(best)
        rows, counts, weights = rows[again], counts[again], weights[again]
        ratios = np.where(above[again], ratios[again], -1.0)


def subset_sums(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sum of the values over every set of columns, the set's bits its index; (n, k) to (n, 2^k)."""
    sums = np.zeros((len(values), 1), dtype=np.int64)
    for column in range(values.shape[1]):
        sums = np.concatenate([sums, sums + values[:, column : column + 1]], axis=1)
    return sums


MAX_SUBSET_WIDTH = 9
MAX_WORK = 2**36
"""Operations on words that measuring may take: some half a minute."""

_MAX_MASK_WIDTH = 16
_LINK_WORK = 2**7
_SPARE = 2**3
"""How much less a link takes in the many short searches of large graphs, measured."""


@takes_topology
def bfb_loads(topology: Topology, num_threads: int = 1) -> tuple[Fraction, ...]:
    """Largest link load of every BFB allgather step, in shards a unit of link speed.

    Their number is the diameter; ``topology.t_b(sum(loads))`` is T_B. Loops over all receivers, or
    over one in each orbit when the topology declares a symmetry. ``num_threads`` share the
    receivers where all are looped over; the answer is the same. Raises ValueError when the
    topology has one node, is not strongly connected or takes more than MAX_WORK.

    >>> from ocs_codesign.core.topology import Topology
    >>> cycle = [0, 1, 2, 3, 4]
    >>> bfb_loads(Topology(5, cycle * 2, [1, 2, 3, 4, 0, 4, 0, 1, 2, 3]))
    (Fraction(1, 1), Fraction(1, 1))
    """
    if not can_measure(topology):
        raise ValueError(too_long(topology))
    neighbours = in_neighbours(topology)
    width = neighbours.node.shape[1]
    receivers = _receivers(topology, width)
    if receivers is not None and (
        width > MAX_SUBSET_WIDTH
        or _work_of_receivers(topology, receivers) <= _SPARE * _work_of_all(topology, neighbours)
    ):
        return _loads_of_receivers(neighbours, receivers)
    if width <= MAX_SUBSET_WIDTH:
        return loads_of_all(neighbours, num_threads)
    return loads_by_classes(topology, neighbours)


def can_measure(topology: Topology, max_work: int = MAX_WORK) -> bool:
    """Whether ``bfb_loads`` takes about so many operations on words at most."""
    nodes, degree = topology.num_nodes, topology.degree
    receivers = _receivers(topology, degree)
    if receivers is not None:
        enough = _work_of_receivers(topology, receivers) <= max_work
        if enough or degree > MAX_SUBSET_WIDTH:
            return enough
    if degree > MAX_SUBSET_WIDTH:
        rows = nodes if topology.symmetry is None else nodes // WORD_BITS
        return nodes * rows * min(degree, nodes) <= max_work
    a_step = nodes * -(-nodes // WORD_BITS) << degree
    if a_step * nodes <= max_work or a_step > max_work:
        return a_step <= max_work
    return _work_of_all(topology, in_neighbours(topology)) <= max_work


def _work_of_all(topology: Topology, neighbours: InNeighbours) -> int:
    """Of all receivers at once, at least: the farthest takes no fewer steps than the first."""
    nodes = topology.num_nodes
    a_step = nodes * -(-nodes // WORD_BITS) << neighbours.node.shape[1]
    work: int = a_step * len(_confined_by_step(neighbours.node, 0))
    return work


def _work_of_receivers(topology: Topology, receivers: NDArray[np.int64]) -> int:
    return _LINK_WORK * len(receivers) * topology.num_links


def too_long(what: object) -> str:
    """Why a recipe or a topology is not measured, and what is."""
    return (
        f"measuring {what!r} would take too long: of this size only families with a closed form "
        "or a symmetry are measured, and expansions of a small base predicted"
    )


def _receivers(topology: Topology, width: int) -> NDArray[np.int64] | None:
    """One receiver an orbit, where few are enough and masks of so many in-neighbours small."""
    if topology.symmetry is None or width > _MAX_MASK_WIDTH:
        return None
    receivers = topology.symmetry.representatives()
    return receivers if len(receivers) * 8 <= topology.num_nodes else None


def line_bfb_loads(base: Topology) -> tuple[Fraction, ...]:
    """Exact BFB loads of Line(base), from the d times smaller base alone.

    U'_1 = 1; U'_{t+1} = max over links (w, w') and sets W of in-links of w of
    (d #{v : dist(v, w) = t, admissible in-links inside W} - [w' itself is such a v]) / |W|,
    because the sources (v', v) of receiver (w, w') inherit the distance and the in-links of v, and
    one of them is the receiver itself. Needs a regular base of equal link speeds and at most
    MAX_SUBSET_WIDTH in-neighbours a node; ValueError otherwise.
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


def _loads_of_receivers(
    neighbours: InNeighbours, receivers: NDArray[np.int64]
) -> tuple[Fraction, ...]:
    """Loads over a few receivers, each from one search backwards."""
    confined = [_confined_by_step(neighbours.node, receiver) for receiver in receivers.tolist()]
    steps, subsets = max(map(len, confined)), confined[0].shape[1]
    counts = np.zeros((steps, len(receivers), subsets), dtype=np.int64)
    for number, rows in enumerate(confined):
        counts[: len(rows), number] = rows
    weights = subset_sums(neighbours.capacity[receivers])
    return largest_ratios(*np.broadcast_arrays(counts.reshape(steps, -1), weights.ravel()))


def _confined_by_step(into: NDArray[np.int32], receiver: int) -> NDArray[np.int64]:
    """Sources at every distance whose admissible in-neighbours all lie in a set, (steps x sets).

    Searches backwards from the receiver: a source inherits the bits of all its next hops.
    """
    nodes, width = into.shape
    masks = np.zeros(nodes, dtype=np.int64)
    seen = np.zeros(nodes, dtype=bool)
    seen[receiver] = True
    links = np.flatnonzero(into[receiver] != receiver)
    frontier, mask = into[receiver, links], 1 << links
    by_step, total = [], 1
    while len(frontier):
        masks[frontier] = mask
        seen[frontier] = True
        by_step.append(mask)
        if len(by_step) > MAX_COSTED_STEPS:
            raise ValueError(f"more than {MAX_COSTED_STEPS} steps are not supported")
        total += len(frontier)
        sources = into[frontier]
        fresh = ~seen[sources]
        found = sources[fresh]
        order = found.argsort()
        found, mask = found[order], mask.repeat(fresh.sum(axis=1))[order]
        is_first = np.ones(len(found), dtype=bool)
        np.not_equal(found[1:], found[:-1], out=is_first[1:])
        (first,) = is_first.nonzero()
        frontier, mask = found[first], np.bitwise_or.reduceat(mask, first) if len(first) else mask
    if total < nodes:
        raise ValueError(_unreached(int(np.flatnonzero(~seen)[0]), receiver))
    if nodes < 2:
        raise ValueError("a collective needs at least two nodes")
    step = np.repeat(np.arange(len(by_step)), [len(at_step) for at_step in by_step])
    key = step << width | np.concatenate(by_step)
    counts = np.bincount(key, minlength=len(by_step) << width).reshape(-1, 1 << width)
    for bit in range(width):  # the sum over subsets: the zeta transform
        halves = counts.reshape(len(counts), -1, 2, 1 << bit)
        halves[:, :, 1] += halves[:, :, 0]
    return counts


def _unreached(source: int, receiver: int) -> str:
    return f"not strongly connected: node {receiver} is out of node {source}'s reach"


# BFB loads over all receivers, from reach sets as packed bits, a block of sources at a time.


_BLOCK_BYTES = 192 * 2**20
"""Of reach sets, which are held twice."""
_COUNTER_BYTES = 512 * 2**20
_LEAST_WIDTH = 3
_ROUNDS_A_WORD = 8
"""A word of a union, written out, takes as long as so many rounds of other loops."""


def loads_of_all(neighbours: InNeighbours, num_threads: int = 1) -> tuple[Fraction, ...]:
    """Largest link load of every step; ``num_threads`` share the receivers of a step.

    Raises ValueError if some node is not reached from all others, or if counting takes more than
    half a gigabyte: for many steps and more nodes than fit into one block.
    """
    nodes = len(neighbours.node)
    near, weights = _at_least_three(neighbours)
    words = max(1, min(-(-nodes // WORD_BITS), _BLOCK_BYTES // (8 * nodes)))
    blocks = range(0, nodes, words * WORD_BITS)
    totals: list[NDArray[np.int32]] = []
    loads: list[Fraction] = []
    reached_all = np.zeros(nodes, dtype=np.int64)
    with nullcontext() if num_threads <= 1 else ThreadPoolExecutor(num_threads) as threads:
        for first in blocks:
            last, step = min(nodes, first + words * WORD_BITS), 0
            reached = identity_bits(nodes, first, last)
            grown, size = np.empty_like(reached), np.zeros(nodes, dtype=np.int64)
            size[first:last] = 1
            while (size < last - first).any():
                before = size.copy()
                if step == len(totals):
                    totals.append(_counters(weights.shape, len(totals)))
                _grow(reached, near, grown, size, totals[step], last - first, threads, num_threads)
                if np.array_equal(before, size):
                    break
                reached, grown = grown, reached
                if len(blocks) > 1:
                    step += 1
                else:
                    loads.append(_largest_load(totals.pop(), weights))
            reached_all += size
    _check_reached(reached_all, nodes)
    return tuple(loads) or tuple(_largest_load(counts, weights) for counts in totals)


def _at_least_three(neighbours: InNeighbours) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """In-neighbours, padded with the node itself, and the capacity of every set of them."""
    nodes, width = neighbours.node.shape
    padded = max(width, _LEAST_WIDTH)
    near = np.repeat(np.arange(nodes, dtype=np.int32)[:, None], padded, axis=1)
    near[:, :width] = neighbours.node
    capacity = np.zeros((nodes, padded), dtype=np.int64)
    capacity[:, :width] = neighbours.capacity
    return near, subset_sums(capacity)


def _counters(shape: tuple[int, ...], step: int) -> NDArray[np.int32]:
    counters = np.zeros(shape, dtype=np.int32)
    if step and (step + 1) * counters.nbytes > _COUNTER_BYTES:
        raise ValueError(
            f"a topology of {shape[0]} nodes and over {step} steps without a declared symmetry "
            "is too large to score: build it from a recipe whose family declares one"
        )
    return counters


def _grow(
    reached: NDArray[np.uint64],
    near: NDArray[np.int32],
    grown: NDArray[np.uint64],
    size: NDArray[np.int64],
    confined: NDArray[np.int32],
    complete: int,
    threads: Executor | None,
    num_threads: int,
) -> None:
    """One step of the kernel, shared among threads if there are any."""
    rounds = _ROUNDS_A_WORD * reached.size << near.shape[1]
    loop = for_work(confined_sources, rounds)
    state = (reached, near, grown, size, confined, complete)
    nodes = len(near)

    def grow(first: int, last: int) -> None:
        with np.errstate(over="ignore"):  # of this thread, where the loop runs as written
            loop(*state, first, last)

    if threads is None:
        grow(0, nodes)
    else:
        cuts = [nodes * part // num_threads for part in range(num_threads + 1)]
        list(threads.map(grow, cuts[:-1], cuts[1:]))


def _largest_load(confined: NDArray[np.int32], weights: NDArray[np.int64]) -> Fraction:
    top, bottom = for_work(largest_load, confined.size)(confined, weights)
    return Fraction(int(top), int(bottom))


def _check_reached(reached: NDArray[np.int64], nodes: int) -> None:
    if nodes < 2:
        raise ValueError("a collective needs at least two nodes")
    if (reached < nodes).any():
        receiver = int(np.argmax(reached < nodes))
        raise ValueError(
            f"not strongly connected: node {receiver} is reached by only "
            f"{int(reached[receiver])} of {nodes} nodes"
        )


# Which recipes can be measured in reasonable time.


_BUILDING_A_LINK = 2**10
"""Operations on words that it may take."""


def is_measurable(recipe: Recipe, max_work: int = MAX_WORK) -> bool:
    """Whether the exact cost of BFB takes about so many operations on words at most.

    >>> from ocs_codesign.graphs.families.dense import Complete
    >>> is_measurable(Complete(9))
    True
    """
    try:
        if isinstance(recipe, Base) and recipe.loads() is not None:
            return True
    except ValueError:  # of too many steps
        return False
    few_ports = recipe.degree < WORD_BITS  # without building it
    if few_ports and recipe.num_nodes**3 << recipe.degree <= WORD_BITS * max_work:
        return True
    can_build = recipe.num_nodes * recipe.degree * _BUILDING_A_LINK <= max_work
    return can_build and recipe.shape.is_buildable and can_measure(recipe.topology(), max_work)
