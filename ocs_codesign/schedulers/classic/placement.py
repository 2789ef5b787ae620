"""Messages placed on a topology: over which links they go, and what every step costs.

A message takes shortest paths, through hosts as well as switches. Even routing splits what is at a
node equally over all links that lead one hop nearer; lowest routing takes those to the nearer
neighbour with the smallest number, parallel links to it equally. Cut-through counts a whole path in
the step of its message; with store and forward hop j of a step's messages is a turn of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.cost import Cost, total
from ocs_codesign.given import as_topology
from ocs_codesign.network import Network
from ocs_codesign.runs import places

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from ocs_codesign.given import TopologyLike
    from ocs_codesign.messages import Messages
    from ocs_codesign.topology import Topology

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

    >>> from ocs_codesign.schedulers.classic.registry import CLASSIC
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
