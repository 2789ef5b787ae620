"""Planes that keep more held circuits: by matchings one after the other, and by Kempe chains.

What is left of a regular topology without a perfect matching is regular again (Koenig 1916), so
planes can be filled in any order and by any weights. First all planes are filled in some orders,
then some planes at a time are emptied and filled again, as long as no kept circuit is lost.

The circuits of two planes fall into chains that share no port, so that each may change planes by
itself. A ring or path of two-way circuits of a plane may also be walked the other way, which
changes the sides of its ends.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.fabric.components import connected
from ocs_codesign.fabric.description import PortModel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.fabric.planes.planes import Planes
    from ocs_codesign.topology import Topology

NUM_ORDERS = 6
MAX_ROUNDS = 400
WORK = 4_000_000
"""Circuits times planes that all rounds together may look at."""
_TIE, _SHARE = 0.02, 0.5
_MOST_NOISE = 0.3
_OFFSET = 10.0


def matched_planes(planes: Planes, held: NDArray[np.int32], seed: int, most_kept: int) -> Planes:
    """Planes that keep at least as many circuits of ``held``, on all of its planes.

    Only one-way planes that a regular topology fills are changed; ends at ``most_kept``. The same
    seed gives the same planes.
    """
    topology, size = planes.topology, len(held)
    is_full = topology.is_regular and topology.degree == size
    if planes.port_model is not PortModel.SIMPLEX or not is_full or size < 2:
        return planes
    keeps = held[:, planes.a_node] == planes.b_node
    every = np.arange(planes.num_circuits)
    random = np.random.default_rng(seed)
    best, num_kept = planes.plane, int(keeps[planes.plane, every].sum())
    rounds = min(MAX_ROUNDS, max(1, WORK // (planes.num_circuits * size)))
    for number in range(rounds):
        if num_kept == most_kept:
            break
        emptied, noise, share = random.permutation(size), _TIE, _SHARE
        if number >= NUM_ORDERS:
            emptied = emptied[: random.integers(2, size + 1)]
            noise, share = _MOST_NOISE * random.random(), random.random()
        refilled = _refilled(topology, best, keeps, emptied, share, noise, random)
        kept_now = int(keeps[refilled, every].sum())
        if kept_now >= num_kept:
            best, num_kept = refilled, kept_now
    return replace(planes, plane=best)


def _refilled(
    topology: Topology,
    plane: NDArray[np.int32],
    keeps: NDArray[np.bool_],
    emptied: NDArray[np.int64],
    share: float,
    noise: float,
    random: np.random.Generator,
) -> NDArray[np.int32]:
    """The plane of every link, after some planes were emptied and filled again in that order.

    A link held in a later plane counts ``-share`` in this one; ``noise`` breaks ties.
    """
    refilled = plane.copy()
    left = np.flatnonzero(np.isin(plane, emptied))
    for place, number in enumerate(emptied[:-1].tolist()):
        gain = keeps[number, left] - share * keeps[emptied[place + 1 :]][:, left].any(axis=0)
        gain += noise * random.random(len(left))
        taken = _best_matching(topology, left, gain)
        refilled[left[taken]] = number
        left = np.delete(left, taken)
    refilled[left] = emptied[-1]
    return refilled


def _best_matching(
    topology: Topology, links: NDArray[np.int64], gain: NDArray[np.float64]
) -> NDArray[np.int64]:
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching

    nodes = topology.num_nodes
    key = topology.tail[links].astype(np.int64) * nodes + topology.head[links]
    # Of parallel links the one that gains most stands for all.
    order = np.lexsort((-gain, key))
    first = order[np.flatnonzero(np.diff(key[order], prepend=-1))]
    costs = csr_matrix((_OFFSET - gain[first], np.divmod(key[first], nodes)), shape=(nodes, nodes))
    tail, head = min_weight_full_bipartite_matching(costs)
    return np.asarray(first[np.searchsorted(key[first], tail.astype(np.int64) * nodes + head)])


def exchanged(planes: Planes, held: NDArray[np.int32]) -> Planes:
    """Planes that keep at least as many circuits of ``held``: no chain or ring gains any more.

    With ``num_planes`` the rows of ``held``. No planes keep more if there are two of one-way
    circuits or of matchings, or a single two-sided one.
    """
    has_turns = planes.port_model is PortModel.TWO_SIDED
    a, b, plane = planes.a_node.copy(), planes.b_node.copy(), planes.plane.copy()
    side = planes.topology.num_nodes if planes.port_model.has_b_side else 0
    gains = True
    while gains:
        gains = False
        for pair in combinations(range(len(held)), 2):
            mine = np.flatnonzero(np.isin(plane, pair))
            then = (sum(pair) - plane[mine]).astype(np.int32)
            moves = _gaining(held, (a[mine], b[mine], plane[mine]), (a[mine], b[mine], then), side)
            plane[mine[moves]] = then[moves]
            gains |= bool(moves.any())
        for number in range(len(held) if has_turns else 0):
            mine = np.flatnonzero(plane == number)
            now = (a[mine], b[mine], plane[mine])
            turns = mine[_gaining(held, now, (now[1], now[0], now[2]), 0)]
            a[turns], b[turns] = b[turns], a[turns]
            gains |= bool(len(turns))
    turned = (a != planes.a_node)[:, None]
    link = np.where(turned, planes.link[:, ::-1], planes.link)
    return replace(planes, link=link, plane=plane)


def _gaining(
    held: NDArray[np.int32],
    now: tuple[NDArray[np.int32], ...],
    then: tuple[NDArray[np.int32], ...],
    side: int,
) -> NDArray[np.bool_]:
    """Which circuits (A node, B node, plane) are in a component that keeps more ``then``."""
    size = 2 * held.shape[1]
    component = connected(now[0], now[1] + side, size)[now[0]]
    gain = np.zeros(size, dtype=np.int64)
    np.add.at(gain, component, held[then[2], then[0]] == then[1])
    np.subtract.at(gain, component, held[now[2], now[0]] == now[1])
    return np.asarray(gain[component] > 0)
