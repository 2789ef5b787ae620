"""One orbit of an all-to-all: where links commute, what one source sends is coloured step by step.

On a grid that wraps around, or any Cayley graph of a commutative group, a piece takes its links in
any order. Links of shortest ways are taken evenly from all types; then pieces and types of links
are a bipartite graph, whose edges have as many colours, which are steps, as its busiest node has
edges. Source: Kőnig (1916), as for open shops by Gonzalez and Sahni (1976).
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.factorisation import factorise
from ocs_codesign.schedulers.greedy.orbit import translations
from ocs_codesign.schedulers.greedy.transfers import ChunkTransfers
from ocs_codesign.topology import Topology

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.schedulers.greedy.problem import ChunkProblem
    from ocs_codesign.symmetry.automorphisms import Images

MAX_PIECES = 512
"""Pieces of a source up to which they are coloured: seconds."""

_TRIES = 8


def one_orbit_of_moves(
    problem: ChunkProblem, travel: NDArray[np.int64], seed: int
) -> ChunkTransfers | None:
    """Transfers of an all-to-all that are the same for all sources; None if links do not allow it.

    >>> from ocs_codesign.demand import demand_of
    >>> from ocs_codesign.collective import Collective
    >>> from ocs_codesign.networks.direct import torus
    >>> from ocs_codesign.schedulers.greedy.bounds import travel_times
    >>> from ocs_codesign.schedulers.greedy.links import links_of_network
    >>> from ocs_codesign.schedulers.greedy.problem import problem_of
    >>> links = links_of_network(torus((4, 4), 1), None)
    >>> exchange = problem_of(demand_of(Collective.ALLTOALL, 16), links, 1)
    >>> one_orbit_of_moves(exchange, travel_times(links), 0).total_ticks(links)
    8
    """
    links, target = problem.links, problem.target()
    nodes = links.num_nodes
    pieces = problem.num_chunks // nodes
    chunks = pieces // max(nodes - 1, 1)
    ends = np.stack([problem.source, target])
    ordered = np.lexsort(ends[::-1])
    every = np.argwhere(~np.eye(nodes, dtype=bool)).repeat(max(chunks, 1), axis=0)
    is_whole = np.array_equal(ends.T[ordered], every)
    if not is_whole or links.step_ticks is None or not 0 < pieces <= MAX_PIECES:
        return None
    moves = translations(links)
    if moves is None:
        return None
    kind, images = moves
    out = np.empty((nodes, int(kind.max()) + 1), dtype=np.int64)
    out[links.tail, kind] = np.arange(links.num_links)
    to = links.head[out]
    if not np.array_equal(to[to[0]], to[to[0]].T):
        return None
    job, link_type = _even_ways(to, travel, chunks, seed)
    step = factorise(Topology(max(pieces, to.shape[1]), job, link_type))
    order = np.lexsort((step, job))
    link = np.empty(len(order), dtype=np.int64)
    at, before = 0, -1
    for place in order.tolist():
        at = 0 if job[place] != before else at
        before = job[place]
        link[place] = out[at, link_type[place]]
        at = int(to[at, link_type[place]])
    start = step.astype(np.int64) * links.step_ticks
    return _moved(problem, images, ordered, link, job, start)


def _even_ways(
    to: NDArray[np.int64], travel: NDArray[np.int64], chunks: int, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The piece and the type of every link on shortest ways from node 0, types used evenly."""
    nodes, degree = to.shape
    far = travel[0]
    best: tuple[int, list[int], list[int]] | None = None
    for attempt in range(_TRIES):
        random = Random(f"{seed}/{attempt}")
        load, jobs, types = [0] * degree, [], []
        pieces = [(node, copy) for node in range(1, nodes) for copy in range(chunks)]
        random.shuffle(pieces)
        for node, copy in sorted(pieces, key=lambda piece: -int(far[piece[0]])):
            at = 0
            while at != node:
                left = travel[at, node]
                closer = [g for g in range(degree) if travel[to[at, g], node] < left]
                least = min(closer, key=lambda g: (load[g], random.random()))
                load[least] += 1
                jobs.append((node - 1) * chunks + copy)
                types.append(least)
                at = int(to[at, least])
        if best is None or max(load) < best[0]:
            best = max(load), jobs, types
    if best is None:
        raise ValueError("a way was asked for no times")
    return np.array(best[1]), np.array(best[2])


def _moved(
    problem: ChunkProblem,
    images: Images,
    ordered: NDArray[np.int64],
    link: NDArray[np.int64],
    piece: NDArray[np.int64],
    start: NDArray[np.integer],
) -> ChunkTransfers:
    """What node 0 sends, moved to all sources; ``ordered`` are the chunks by source and target."""
    nodes = problem.links.num_nodes
    pieces = problem.num_chunks // nodes
    node, copy = np.divmod(piece, pieces // (nodes - 1))
    root = images.nodes[:, 0].astype(np.int64)
    target = images.nodes[:, node + 1].astype(np.int64)
    place = (target - (target > root[:, None])) * (pieces // (nodes - 1)) + copy
    chunk = ordered[root[:, None] * pieces + place]
    every = np.broadcast_to(start.astype(np.int64), chunk.shape)
    columns = (images.links(link), chunk, every)
    return ChunkTransfers(*(column.ravel() for column in columns)).by_start()
