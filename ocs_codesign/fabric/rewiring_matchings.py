"""Planes of a regular topology one after the other, each by a matching that keeps held circuits.

What is left of a regular topology without a perfect matching is regular again (Koenig 1916), so
planes can be filled in any order and by any weights. The best of some orders is a start, from which
some planes at a time are emptied and filled again, as long as no circuit that was kept is lost.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.fabric.description import PortModel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.fabric.planes.planes import Planes

NUM_ORDERS = 6
MAX_ROUNDS = 400
WORK = 4_000_000
"""Circuits times planes that all rounds together may look at."""
_TIE = 0.02
_MOST_NOISE = 0.3
_OFFSET = 10.0


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Filling:
    """Links to be put on planes; ``keeps`` (planes x links) says where each is held."""

    num_nodes: int
    tail: NDArray[np.int64]
    head: NDArray[np.int64]
    keeps: NDArray[np.bool_]
    random: np.random.Generator

    def fill(
        self, links: NDArray[np.int64], order: NDArray[np.int64], noise: float, share: float
    ) -> NDArray[np.int32]:
        """A plane for each of these links, which fill as many planes, in that order.

        A circuit held in a later plane counts ``-share`` in this one; ``noise`` breaks ties.
        """
        plane = np.empty(len(self.tail), dtype=np.int32)
        left = links
        for place, number in enumerate(order[:-1].tolist()):
            gain = self.keeps[number, left].astype(float)
            gain -= share * self.keeps[order[place + 1 :]][:, left].any(axis=0)
            gain += noise * self.random.random(len(left))
            taken = self._matching(left, gain)
            plane[left[taken]] = number
            left = np.delete(left, taken)
        plane[left] = order[-1]
        return plane[links]

    def _matching(self, links: NDArray[np.int64], gain: NDArray[np.float64]) -> NDArray[np.int64]:
        """The positions of the perfect matching of most gain."""
        from scipy.sparse import csr_matrix
        from scipy.sparse.csgraph import min_weight_full_bipartite_matching

        # Parallel links are one entry, with the one that gains most.
        sorted_by = np.lexsort((-gain, self.head[links], self.tail[links]))
        key = (self.tail * self.num_nodes + self.head)[links[sorted_by]]
        first = sorted_by[np.flatnonzero(np.diff(key, prepend=-1))]
        ends = self.tail[links[first]], self.head[links[first]]
        shape = (self.num_nodes, self.num_nodes)
        costs = csr_matrix((_OFFSET - gain[first], ends), shape=shape)
        tail, head = min_weight_full_bipartite_matching(costs)
        sorted_key = ends[0] * self.num_nodes + ends[1]
        wanted = tail.astype(np.int64) * self.num_nodes + head
        return np.asarray(first[np.searchsorted(sorted_key, wanted)])

    def num_kept(self, plane: NDArray[np.int32]) -> int:
        return int(self.keeps[plane, np.arange(len(plane))].sum())


def matched_planes(planes: Planes, held: NDArray[np.int32], seed: int, most_kept: int) -> Planes:
    """Planes that keep at least as many circuits of ``held``, on all of its planes.

    Only one-way planes that a regular topology fills are changed; ends at ``most_kept``. The same
    seed gives the same planes.
    """
    topology, size = planes.topology, len(held)
    is_full = topology.is_regular and topology.degree == size
    if planes.port_model is not PortModel.SIMPLEX or not is_full or size < 2:
        return planes
    tail, head = planes.a_node.astype(np.int64), planes.b_node.astype(np.int64)
    random = np.random.default_rng(seed)
    filling = _Filling(topology.num_nodes, tail, head, held[:, tail] == head, random)
    every = np.arange(len(tail))
    best, kept = planes.plane, filling.num_kept(planes.plane)
    rounds = min(MAX_ROUNDS, max(1, WORK // (len(tail) * size)))
    for number in range(rounds):
        if kept == most_kept:
            break
        if number < NUM_ORDERS:
            found = filling.fill(every, random.permutation(size), _TIE, 0.5)
        else:
            emptied = random.permutation(size)[: random.integers(2, size + 1)]
            links = np.flatnonzero(np.isin(best, emptied))
            found = best.copy()
            noise, share = _MOST_NOISE * random.random(), random.random()
            found[links] = filling.fill(links, emptied, noise, share)
        if filling.num_kept(found) >= kept:
            best, kept = found, filling.num_kept(found)
    return replace(planes, plane=best)
