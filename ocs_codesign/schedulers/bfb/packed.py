"""BFB loads over all receivers, from reach sets as packed bits, a block of sources at a time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.kernels import for_work
from ocs_codesign.reach import WORD_BITS, identity_bits
from ocs_codesign.schedulers.bfb.ratios import subset_sums
from ocs_codesign.schedulers.bfb.reach_kernels import confined_sources, largest_load

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from numpy.typing import NDArray

    from ocs_codesign.reach import InNeighbours

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

    >>> from ocs_codesign.reach import in_neighbours
    >>> from ocs_codesign.topology import Topology
    >>> loads_of_all(in_neighbours(Topology(3, [0, 1, 2], [1, 2, 0])))
    (Fraction(1, 1), Fraction(1, 1))
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
    with np.errstate(over="ignore"):  # where the loop runs as written
        if threads is None:
            loop(*state, 0, nodes)
            return
        cuts = [nodes * part // num_threads for part in range(num_threads + 1)]
        list(threads.map(lambda lo, hi: loop(*state, lo, hi), cuts[:-1], cuts[1:]))


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
