"""Messages placed on a topology: over which links they go, and what every step costs.

A message takes shortest paths, through hosts as well as switches. Even routing splits what is at a
node equally over all links that lead one hop nearer; lowest routing takes those to the nearer
neighbour with the smallest number, parallel links to it equally. Cut-through counts a whole path in
the step of its message; with store and forward hop j of a step's messages is a turn of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.compute.kernels import for_work
from ocs_codesign.core.cost import Cost, total
from ocs_codesign.core.given import as_topology
from ocs_codesign.core.network import Network
from ocs_codesign.core.topology import places, starts_of
from ocs_codesign.schedules.classic import kernels
from ocs_codesign.schedules.classic.algorithm import (
    GRAY,
    IDENTITY,
    RANK_MAP,
    SEARCH,
    SNAKE,
    split_options,
)
from ocs_codesign.schedules.classic.registry import CLASSIC

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from fractions import Fraction

    from numpy.typing import ArrayLike, NDArray

    from ocs_codesign.core.given import TopologyLike
    from ocs_codesign.core.network import Network
    from ocs_codesign.core.schedule import Messages
    from ocs_codesign.core.topology import Topology

    Nodes = NDArray[np.int64]


EVEN, LOWEST = "even", "lowest"
ROUTINGS = (EVEN, LOWEST)
_MOST = 2**62
"""From here on loads are counted in Python's integers."""
_BLOCK_LINKS = 2**23
_NO_LINK = -1


@final
@dataclass(frozen=True, slots=True)
class Placed:
    """What messages cost on a topology, exactly.

    ``loads`` are the largest of every step in shards (M/N; in an all-to-all a piece) a unit of link
    speed, ``hop_loads`` those of every hop of every step. ``t_b`` and ``t_b_store_and_forward`` are
    in M/B, B being the largest egress of a host.
    """

    loads: tuple[Fraction, ...]
    hop_loads: tuple[tuple[Fraction, ...], ...]
    t_b: Fraction
    t_b_store_and_forward: Fraction

    @property
    def hops(self) -> tuple[int, ...]:
        """The longest path of every step."""
        return tuple(map(len, self.hop_loads))

    @property
    def cut_through(self) -> Cost:
        """Steps and t_b where every step waits for the one before, and hops overlap."""
        return Cost(len(self.loads), self.t_b)

    @property
    def store_and_forward(self) -> Cost:
        """The same where every hop waits for the one before."""
        return Cost(sum(self.hops), self.t_b_store_and_forward)


def place(
    messages: Messages,
    graph: TopologyLike | Network,
    routing: str = EVEN,
    rank_to_node: ArrayLike | None = None,
) -> Placed:
    """The loads of messages whose rank i is on host ``rank_to_node[i]``, by default on host i.

    All nodes of a topology are hosts. Raises ValueError for an unknown routing, ranks that are not
    on hosts of their own, and ends of a message between which there is no path.

    >>> from ocs_codesign.schedules.classic.registry import CLASSIC
    >>> swing = CLASSIC["swing"].messages("allgather", 8)
    >>> placed = place(swing, "BiRing(2, 8)")
    >>> placed.hops, [str(load) for load in placed.loads]
    ((3, 1, 1), ['2', '2', '4'])
    >>> placed.cut_through, placed.store_and_forward
    (Cost(steps=3, t_b=Fraction(2, 1)), Cost(steps=5, t_b=Fraction(9, 4)))
    """
    topology, hosts = with_hosts(graph)
    node = checked_ranks(messages.num_ranks, hosts, rank_to_node)
    return Router(topology, routing, hosts).place(messages, node)


def with_hosts(graph: TopologyLike | Network) -> tuple[Topology, int]:
    """The topology of all nodes, and how many of them are hosts: the first ones of a network."""
    if isinstance(graph, Network):
        return graph.topology(), graph.num_hosts
    topology = as_topology(graph)
    return topology, topology.num_nodes


def checked_ranks(
    num_ranks: int, num_hosts: int, rank_to_node: ArrayLike | None
) -> NDArray[np.int64]:
    """The node of every rank; ValueError unless they are on hosts of their own."""
    node = np.arange(num_ranks) if rank_to_node is None else np.array(rank_to_node)
    if node.shape != (num_ranks,) or node.dtype.kind not in "iu":
        raise ValueError(f"a node for every one of {num_ranks} ranks is wanted")
    if node.min() < 0 or node.max() >= num_hosts:
        wrong = node[(node < 0) | (node >= num_hosts)][0]
        raise ValueError(f"{num_ranks} ranks, one on node {wrong}: hosts are 0 to {num_hosts - 1}")
    if len(np.unique(node)) < num_ranks:
        raise ValueError("two ranks are on one node: every rank is on one of its own")
    return node.astype(np.int64)


def _volumes(messages: Messages) -> list[tuple[NDArray[Any], NDArray[Any], NDArray[np.int64]]]:
    """Source, target and number of items of every message, step by step."""
    columns = messages.step, messages.source, messages.target
    if not len(messages.step):
        return []
    new = np.any([np.diff(column, prepend=-1) != 0 for column in columns], axis=0)
    first = np.flatnonzero(new)
    items = np.diff(np.append(first, len(new)))
    cut = np.searchsorted(messages.step[first], np.arange(1, messages.num_steps + 1))[1:]
    parts = (np.split(column, cut) for column in (*(c[first] for c in columns[1:]), items))
    return list(zip(*parts, strict=True))


@final
class Router:
    """A routing on a topology, for placing messages again and again."""

    def __init__(self, topology: Topology, routing: str, num_hosts: int) -> None:
        if routing not in ROUTINGS:
            raise ValueError(f"routing is {routing!r}: it must be one of {', '.join(ROUTINGS)}")
        self.topology, self.routing = topology, routing
        self.speeds, self.host_speed = topology.speeds(), topology.node_speed(num_hosts)
        self.distance = topology.distances()
        self.links, self.pairs = _out_links(topology), PairLinks(topology)

    def place(self, messages: Messages, node: NDArray[np.int64]) -> Placed:
        """The loads of messages whose rank i is on host ``node[i]``."""
        known: dict[bytes, tuple[Fraction, tuple[Fraction, ...]]] = {}
        steps = []
        for source, target, items in _volumes(messages):
            key = b"".join(column.tobytes() for column in (source, target, items))
            if key not in known:  # the steps of a ring are all alike
                known[key] = self.loads(node[source], node[target], items)
            steps.append(known[key])
        shards = messages.item_shards
        loads = tuple(shards * whole for whole, _ in steps)
        hop_loads = tuple(tuple(shards * load for load in hops) for _, hops in steps)
        unit = Fraction(self.host_speed, messages.num_ranks)
        separate = total(load for hops in hop_loads for load in hops)
        return Placed(loads, hop_loads, unit * total(loads), unit * separate)

    def loads(
        self, source: NDArray[Any], target: NDArray[Any], items: NDArray[np.int64]
    ) -> tuple[Fraction, tuple[Fraction, ...]]:
        """The largest load of these messages, and that of every hop, in items."""
        lost = self.distance[source, target] < 0
        if lost.any():
            ends = int(source[lost][0]), int(target[lost][0])
            raise ValueError(f"no path leads from node {ends[0]} to node {ends[1]}")
        at, to, amount = source.astype(np.int64), target.astype(np.int64), items
        denominator, hops = 1, []
        carried: NDArray[Any] = np.zeros(self.topology.num_links, dtype=np.int64)
        while len(at):
            row, link, ways = self._next_links(at, to)
            finer = int(np.lcm.reduce(ways // np.gcd(amount, ways).astype(np.int64)))
            if (int(carried.max()) + int(amount.sum())) * finer >= _MOST:
                carried, amount = carried.astype(object), amount.astype(object)
            denominator *= finer
            crossing = (amount * finer // ways)[row]
            here = np.zeros_like(carried)
            np.add.at(here, link, crossing)
            carried = carried * finer + here
            hops.append(self._largest(here, denominator))
            at, to, amount = _merged(self.topology.head[link], to[row], crossing)
        return self._largest(carried, denominator), tuple(hops)

    def _next_links(
        self, at: NDArray[np.int64], to: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Rows and the links that each takes next, and how many links every row takes."""
        is_last = self.distance[at, to] == 1
        last, far = np.flatnonzero(is_last), np.flatnonzero(~is_last)
        row, link = self.pairs.between(at[last], to[last])
        rows, links = [last[row]], [link]
        block = max(1, _BLOCK_LINKS // self.links.shape[1])
        for first in range(0, len(far), block):
            here = far[first : first + block]
            row, link = self._next_of(at[here], to[here])
            rows.append(here[row])
            links.append(link)
        row = np.concatenate(rows)
        return row, np.concatenate(links), np.bincount(row)

    def _next_of(
        self, at: NDArray[np.int64], to: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        links = self.links[at]
        head = self.topology.head[links]
        nearer = self.distance[head, to[:, None]] == self.distance[at, to][:, None] - 1
        nearer &= links != _NO_LINK
        if self.routing == LOWEST:
            first = np.where(nearer, head, self.topology.num_nodes).min(axis=1)
            nearer &= head == first[:, None]
        row, column = np.nonzero(nearer)
        return row, links[row, column]

    def _largest(self, load: NDArray[Any], denominator: int) -> Fraction:
        """The largest load a unit of link speed."""
        most = Fraction(0)
        for speed in np.unique(self.speeds).tolist():
            top = int(load[self.speeds == speed].max())
            most = max(most, Fraction(top, speed * denominator))
        return most


@final
class PairLinks:
    """The links of a topology from one node to another."""

    def __init__(self, topology: Topology) -> None:
        self.num_nodes = topology.num_nodes
        pair = self._pair(topology.tail, topology.head)
        self.order = np.argsort(pair, kind="stable")
        self.pair = pair[self.order]

    def between(
        self, tail: NDArray[Any], head: NDArray[Any]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Of all links from ``tail[i]`` to ``head[i]`` for every i: the i, and the link."""
        wanted = self._pair(tail, head)
        first = np.searchsorted(self.pair, wanted)
        row, place = places(first, np.searchsorted(self.pair, wanted, side="right") - first)
        return row, self.order[place]

    def _pair(self, tail: NDArray[Any], head: NDArray[Any]) -> NDArray[np.int64]:
        pair: NDArray[np.int64] = tail.astype(np.int64) * self.num_nodes + head
        return pair


def _out_links(topology: Topology) -> NDArray[np.int64]:
    """The links out of every node in a row, filled up with _NO_LINK."""
    index, count = topology.links_by_tail(), topology.out_degrees()
    table = np.full((topology.num_nodes, max(1, int(count.max()))), _NO_LINK)
    tail = topology.tail[index.order]
    table[tail, np.arange(len(tail)) - index.start[tail]] = index.order
    return table


def _merged(
    at: NDArray[Any], to: NDArray[np.int64], amount: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]:
    """What goes on: amounts at one node for one target added up, without what is there."""
    going = np.flatnonzero(at != to)
    size = int(max(at.max(), to.max())) + 1
    pair, amount = at[going].astype(np.int64) * size + to[going], amount[going]
    if size**2 < 4 * len(pair):  # most pairs are there: no need to sort them
        summed = np.zeros(size**2, dtype=amount.dtype)
        np.add.at(summed, pair, amount)
        known = np.flatnonzero(summed)
        return *np.divmod(known, size), summed[known]
    known, place = np.unique(pair, return_inverse=True)
    summed = np.zeros(len(known), dtype=amount.dtype)
    np.add.at(summed, place, amount)
    return *np.divmod(known, size), summed


# On which node every rank is: as numbered, along a grid's rows to and fro, or searched for.


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
    collective: Collective | str,
    options: Mapping[str, Any],
    sides: Sequence[int] | None = None,
    routing: str = EVEN,
) -> tuple[Messages, Nodes]:
    """What an algorithm of CLASSIC sends between the hosts of a graph, and the rank map.

    The map is the option ``rank_to_node``, by name or as a list. ``sides`` are those of the grid
    that the hosts are in, if any: the ``dims`` of algorithms on grids where none are given. With a
    snake or a search any algorithm may be given ``dims``, those of the hosts. Raises ValueError as
    the algorithm and the map do, and for a collective with sizes or groups.

    >>> from ocs_codesign.core.collective import Collective
    >>> ring = messages_on("Torus((4, 2))", "ring", Collective.ALLGATHER, {})
    >>> ring[0].num_steps, ring[1].tolist()
    (7, [0, 1, 2, 3, 4, 5, 6, 7])
    """
    collective = Collective.parse(collective)
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
    name: str, messages: Messages, router: Router, dims: Sequence[int] | None = None, seed: int = 0
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
    anneal = for_work(kernels.anneal, 2 * tries * len(rank) // len(start))
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
