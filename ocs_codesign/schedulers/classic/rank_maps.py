"""On which node every rank is: as numbered, along a grid's rows to and fro, or searched for."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.kernels import for_work
from ocs_codesign.runs import starts_of
from ocs_codesign.schedulers.classic import rank_map_kernels
from ocs_codesign.schedulers.classic.options import (
    GRAY,
    IDENTITY,
    RANK_MAP,
    SEARCH,
    SNAKE,
    split_options,
)
from ocs_codesign.schedulers.classic.placement import EVEN, Router, checked_ranks, with_hosts
from ocs_codesign.schedulers.classic.registry import CLASSIC

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    from ocs_codesign.collective import Collective
    from ocs_codesign.given import TopologyLike
    from ocs_codesign.messages import Messages
    from ocs_codesign.network import Network

    Nodes = NDArray[np.int64]

MAX_SEARCHED = 1024
_SWAPS_A_RANK, _MOST_SWAPS = 2000, 2**21
"""Swaps that are tried on hops alone."""
_WARMTH = (2.0, 0.05)
"""By how many hops of a mean message a swap may lengthen paths, at first and in the end."""
_PLACED_SENDS, _MOST_PLACED = 2**20, 200
"""Sends that are placed to try swaps on t_b, and the most of those swaps."""


def messages_on(
    graph: TopologyLike | Network,
    name: str,
    collective: Collective,
    options: Mapping[str, Any],
    sides: Sequence[int] | None = None,
    routing: str = EVEN,
) -> tuple[Messages, Nodes]:
    """What an algorithm of CLASSIC sends between the hosts of a graph, and the rank map.

    The map is the option ``rank_to_node``, by name or as a list. ``sides`` are those of the grid
    that the hosts are in, if any: the ``dims`` of algorithms on grids where none are given. With a
    snake or a search any algorithm may be given ``dims``, those of the hosts. Raises ValueError as
    the algorithm and the map do, and for a collective with sizes or groups.

    >>> from ocs_codesign.collective import Collective
    >>> ring = messages_on("Torus((4, 2))", "ring", Collective.ALLGATHER, {})
    >>> ring[0].num_steps, ring[1].tolist()
    (7, [0, 1, 2, 3, 4, 5, 6, 7])
    """
    if collective.sizes is not None or collective.groups is not None:
        raise ValueError(f"classic algorithms are for equal parts and all hosts: {collective.text}")
    topology, hosts = with_hosts(graph)
    algorithm = CLASSIC[name]
    given, placed = split_options(options)
    if sides is not None and "dims" in algorithm.options:
        given = {"dims": sides, **given}
    if collective.root is not None and "root" in algorithm.options:
        given["root"] = collective.root
    ranks, grid = placed.get(RANK_MAP, IDENTITY), given.get("dims", sides)
    on_grid = isinstance(ranks, str) and ranks in (SNAKE, SEARCH)
    if on_grid and "dims" not in algorithm.options:
        given.pop("dims", None)
    messages = algorithm.messages(collective.name, hosts, **given)
    if isinstance(ranks, str):
        seed = placed.get("seed", 0)
        ranks = named_map(ranks, messages, Router(topology, routing, hosts), grid, seed)
    return messages, checked_ranks(hosts, hosts, ranks)


def snake(dims: Sequence[int]) -> Nodes:
    """The nodes of a grid row by row, every other one backwards: neighbours follow each other.

    It is a Hamiltonian cycle of a torus if the first side is even.

    >>> snake((2, 3)).tolist(), snake((2, 2, 2)).tolist()
    ([0, 1, 2, 5, 4, 3], [0, 1, 3, 2, 6, 7, 5, 4])
    """
    rank, node, left = np.arange(prod(dims)), np.zeros(prod(dims), dtype=np.int64), prod(dims)
    for side in dims:
        rows, left = rank // left, left // side
        digit = rank // left % side
        node += np.where(rows % 2 == 0, digit, side - 1 - digit) * left
    return node


def gray(num_ranks: int) -> Nodes:
    """The Gray code: rank i + 1 is a neighbour of rank i on a hypercube; ValueError if none is."""
    if num_ranks & (num_ranks - 1):
        raise ValueError(f"{num_ranks} ranks: a Gray code takes a power of two")
    return snake((2,) * (num_ranks.bit_length() - 1))


def named_map(
    name: str,
    messages: Messages,
    router: Router,
    dims: Sequence[int] | None = None,
    seed: int = 0,
) -> Nodes:
    """The node of every rank under a rank map by name; ``dims`` are the sides of the nodes' grid.

    Raises ValueError for a name that is none, and where there is no such map.
    """
    ranks = messages.num_ranks
    if name == IDENTITY:
        return np.arange(ranks)
    if name == GRAY:
        return gray(ranks)
    if dims is not None and (min(dims, default=0) < 1 or prod(dims) != ranks):
        raise ValueError(f"dims are {list(dims)}: their product must be {ranks} ranks")
    if name == SNAKE:
        if dims is None:
            raise ValueError(f"a snake takes nodes in a grid: give dims, sides of {ranks} nodes")
        return snake(dims)
    if name == SEARCH:
        starts = [np.arange(ranks)] + ([] if dims is None else [snake(dims)])
        return searched_map(messages, router, starts, seed)
    names = ", ".join((IDENTITY, SNAKE, GRAY, SEARCH))
    raise ValueError(f"rank map {name!r}: it is one of {names}, or the node of every rank")


def searched_map(messages: Messages, router: Router, starts: Sequence[Nodes], seed: int) -> Nodes:
    """The map of least t_b that swaps of two ranks at a time come to, none worse than ``starts``.

    From every start and from a random one swaps first bring what is sent nearer, as hops times
    items, and then lower the exact t_b as far as a number of tries goes.
    """
    ranks = messages.num_ranks
    if ranks > MAX_SEARCHED:
        raise ValueError(f"{ranks} ranks: rank maps are searched for up to {MAX_SEARCHED}")
    rng = np.random.default_rng(seed)
    volume = np.zeros((ranks, ranks), dtype=np.int64)
    np.add.at(volume, (messages.source, messages.target), 1)
    distance = router.distance.astype(np.int64)

    def cost(node: Nodes) -> tuple[Fraction, int]:
        hops = int((volume * distance[np.ix_(node, node)]).sum())
        return router.place(messages, node).t_b, hops

    random_start = rng.permutation(ranks)
    near = [_brought_nearer(volume, distance, start, rng) for start in (*starts, random_start)]
    best_cost, _, best = min((cost(node), at, node) for at, node in enumerate([*starts, *near]))
    for _ in range(min(_MOST_PLACED, _PLACED_SENDS // max(1, len(messages.step)))):
        one, other = rng.integers(0, ranks, 2).tolist()
        tried = best.copy()
        tried[[one, other]] = tried[[other, one]]
        tried_cost = cost(tried)
        if tried_cost < best_cost:
            best, best_cost = tried, tried_cost
    return best


def _brought_nearer(
    volume: NDArray[np.int64], distance: NDArray[np.int64], start: Nodes, rng: np.random.Generator
) -> Nodes:
    """The map after random swaps: at first also those that lengthen paths, less and less so."""
    rank, peer = np.nonzero(volume + volume.T)
    tries = min(_MOST_SWAPS, _SWAPS_A_RANK * len(start))
    warmth = volume[volume > 0].mean() * np.geomspace(*_WARMTH, tries)
    node, pairs = start.copy(), rng.integers(0, len(start), (2, tries))
    anneal = for_work(rank_map_kernels.anneal, 2 * tries * len(rank) // len(start))
    anneal(
        starts_of(np.bincount(rank, minlength=len(start))),
        peer,
        volume[rank, peer],
        volume[peer, rank],
        distance,
        node,
        *pairs,
        rng.exponential(warmth),
    )
    return node
