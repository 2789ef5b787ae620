"""One orbit: on a graph that looks alike from every node, what one source sends, all send alike.

A source's chunks are to come to every node, over each type of link one at a time, wherever the link
is. Moved by the automorphisms to all sources that uses every link of a type as often as any other.
"""

from __future__ import annotations

from heapq import heappop, heappush
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.core.compute.factorisation import factorise
from ocs_codesign.core.compute.symmetry import quotient_and_images
from ocs_codesign.core.topology import Symmetry, Topology
from ocs_codesign.schedules.greedy.problem import ChunkTransfers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ocs_codesign.core.compute.symmetry import Images
    from ocs_codesign.schedules.greedy.problem import ChunkProblem, TickLinks


MAX_NODES = 2**13
_TRIES, _DRAWS = 30, 8


def one_orbit(problem: ChunkProblem, least: int, seed: int) -> ChunkTransfers | None:
    """Transfers of an allgather by ``least`` ticks that are the same for all sources, if found."""
    links = problem.links
    nodes, chunks = links.num_nodes, problem.num_chunks // max(links.num_nodes, 1)
    alike = np.array_equal(problem.source, np.repeat(np.arange(nodes), max(chunks, 1)))
    if problem.is_move or not alike or not problem.wanted.all() or nodes > MAX_NODES:
        return None
    moves = translations(links)
    if moves is None:
        return None
    out, images = moves
    for attempt in range(_TRIES):
        sends = _sends(links, out, chunks, least, Random(f"{seed}/{attempt}"))
        if sends is not None:
            link, place, start = np.array(sends, dtype=np.int64).T
            root = images.nodes[:, 0].astype(np.int64)
            moved = images.links(link)
            chunk = root[:, None] * chunks + place
            every = np.broadcast_to(start, moved.shape)
            return ChunkTransfers(
                *(column.T.ravel() for column in (moved, chunk, every))
            ).by_start()
    return None


def translations(links: TickLinks) -> tuple[NDArray[np.int64], Images] | None:
    """Links by tail and type, and automorphisms that take node 0 to every other, if there are.

    They are those that are declared, or else shifts of coordinates of a grid that wraps around.
    """
    for symmetry in (links.symmetry, _shifts(links)):
        if symmetry is None:
            continue
        times = np.stack([symmetry.link_orbit, links.busy, links.delay])
        if len(np.unique(times, axis=1).T) > len(np.unique(symmetry.link_orbit)):
            continue
        graph = Topology(links.num_nodes, links.tail, links.head, symmetry=symmetry)
        whole, images = quotient_and_images(graph)
        if whole.num_sources == 1 and images:
            out = np.empty((links.num_nodes, int(symmetry.link_orbit.max()) + 1), dtype=np.int64)
            out[links.tail, symmetry.link_orbit] = np.arange(links.num_links)
            return out, images[0]
    return None


def _shifts(links: TickLinks) -> Symmetry | None:
    """The shifts of a grid that wraps around, if all nodes' links lead as far and take as long."""
    nodes, degree = links.num_nodes, links.num_links // links.num_nodes
    if (np.bincount(links.tail, minlength=nodes) != degree).any():
        return None
    for sides in _factors(nodes):
        strides = np.append(np.cumprod(sides[:0:-1])[::-1], 1).astype(np.int64)
        for most in (min(4, nodes), nodes):  # a few nodes tell most grids apart
            near = np.flatnonzero(links.tail < most)
            at = (links.head[near, None] // strides - links.tail[near, None] // strides) % sides
            keys = (links.delay[near], links.busy[near], at @ strides)
            order = np.lexsort((*keys, links.tail[near]))
            rows = np.stack(keys, axis=1)[order].reshape(most, degree, 3)
            if (rows != rows[0]).any():
                break
        else:
            orbit = np.empty(links.num_links, dtype=np.int32)
            orbit[near[order]] = np.tile(np.arange(degree), nodes)
            return Symmetry(np.zeros(nodes, dtype=np.int32), orbit)
    return None


def _factors(number: int) -> Iterator[tuple[int, ...]]:
    """All ways to write a number as a product of at least 2, fewest factors first."""
    ways: list[list[tuple[int, ...]]] = [[(number,)]]
    while ways[-1]:
        yield from ways[-1]
        ways.append(
            [
                (*way[:-1], first, way[-1] // first)
                for way in ways[-1]
                for first in range(2, way[-1] // 2 + 1)
                if way[-1] % first == 0
            ]
        )


def _sends(
    links: TickLinks, out: NDArray[np.int64], chunks: int, least: int, random: Random
) -> list[tuple[int, int, int]] | None:
    """Link, number of the chunk and start of what node 0 sends, to be there by a tick; or None."""
    nodes, degree = out.shape
    leads = np.where(links.head[out] == links.tail[out], -1, links.head[out]).tolist()
    busy, ticks = links.busy[out[0]].tolist(), links.ticks[out[0]].tolist()
    into = np.empty_like(out)
    into[links.head[out], np.arange(degree)] = out
    wants: list[list[int]] = [[] for _ in range(degree)]  # what may come over every type
    missing, sends = (nodes - 1) * chunks, []
    has = [False] * (nodes * chunks)
    events = [(0, -1, place) for place in range(chunks)]
    for place in range(chunks):
        has[place] = True
    is_free = [True] * degree
    while missing and events:
        now = events[0][0]
        while events and events[0][0] == now:
            _, freed, item = heappop(events)
            if freed >= 0:
                is_free[freed] = True
                continue
            node, place = divmod(item, chunks)
            for g, to in enumerate(leads[node]):
                if to >= 0 and not has[to * chunks + place]:
                    wants[g].append(to * chunks + place)
        idle = [g for g in range(degree) if is_free[g] and now + ticks[g] <= least]
        random.shuffle(idle)
        for g, item in _assigned(sorted(idle, key=ticks.__getitem__), wants, has, random):
            has[item], is_free[g] = True, False
            missing -= 1
            sends.append((int(into[item // chunks, g]), item % chunks, now))
            heappush(events, (now + busy[g], g, 0))
            heappush(events, (now + ticks[g], -1, item))
    return sends if not missing else None


def _assigned(
    types: list[int], wants: list[list[int]], has: list[bool], random: Random
) -> list[tuple[int, int]]:
    """A largest matching of types of links with what may come over them, at random."""
    taken: dict[int, int] = {}
    for g in types:
        item = _drawn(wants[g], has, taken, random)
        if item >= 0:
            taken[item] = g
        else:
            _augment(g, wants, has, taken, set())
    return [(g, item) for item, g in taken.items()]


def _drawn(items: list[int], has: list[bool], taken: dict[int, int], random: Random) -> int:
    """One of the items that nobody took, -1 if there is none; those that have come are dropped."""
    tries = 0
    while items and tries < _DRAWS:
        at = random.randrange(len(items))
        item = items[at]
        if has[item]:
            items[at] = items[-1]
            items.pop()
        elif item in taken:
            tries += 1
        else:
            return item
    items[:] = [item for item in items if not has[item]]
    return next((item for item in items if item not in taken), -1)


def _augment(
    g: int, wants: list[list[int]], has: list[bool], taken: dict[int, int], seen: set[int]
) -> bool:
    """Let a type take what another has, if that one can take something else."""
    for item in wants[g]:
        if not has[item] and item not in seen:
            seen.add(item)
            if item not in taken or _augment(taken[item], wants, has, taken, seen):
                taken[item] = g
                return True
    return False


# One orbit of an all-to-all: where links commute, what one source sends is coloured step by step.
#
# On a grid that wraps around, or any Cayley graph of a commutative group, a piece takes its links
# in any order. Links of shortest ways are taken evenly from all types; then pieces and types of
# links are a bipartite graph, whose edges have as many colours, which are steps, as its busiest
# node has edges. Source: Kőnig (1916), as for open shops by Gonzalez and Sahni (1976).


MAX_PIECES = 512
"""Pieces of a source up to which they are coloured: seconds."""

_MOVE_TRIES = 8


def one_orbit_of_moves(
    problem: ChunkProblem, travel: NDArray[np.int64], seed: int
) -> ChunkTransfers | None:
    """Transfers of an all-to-all that are the same for all sources, if links allow it."""
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
    out, images = moves
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
    for attempt in range(_MOVE_TRIES):
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
