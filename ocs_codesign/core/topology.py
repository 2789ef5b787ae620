"""Topology: nodes and directed links as arrays, the value that everything else reads."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from ocs_codesign.core.registry import provided
from ocs_codesign.core.shown import Tabular

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from ocs_codesign.core.network import Network


MAX_LINKS = 100_000_000
"""Largest number of links a topology may have (800 MB of endpoints)."""
_MAX_ENTRIES = 2**29
"""Of a table of all pairs of nodes, or of all neighbours of each: 1 GB, and nothing else hangs."""
MAX_STEPS = 2**24
"""Largest number of steps that a schedule may take."""
MAX_COSTED_STEPS = 2**16
"""Largest number of steps whose loads are worked out: less than a second."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Symmetry:
    """A group of automorphisms that fixes no node unless it fixes all, given by its orbits.

    ``node_orbit`` (int32, N) and ``link_orbit`` (int32, links) number the orbits from 0. The group
    moves parallel links consistently, so it acts freely on links too. A Cayley graph under its own
    group has one node orbit and one link orbit a generator.
    """

    node_orbit: NDArray[np.int32]
    link_orbit: NDArray[np.int32]

    def __post_init__(self) -> None:
        self.node_orbit.setflags(write=False)
        self.link_orbit.setflags(write=False)

    def representatives(self) -> NDArray[np.int64]:
        """The first node of every orbit, in orbit order."""
        return np.unique(self.node_orbit, return_index=True)[1]

    def relabelled(self, new_of_old: NDArray[np.int64]) -> Symmetry:
        """The same orbits after node v is renamed ``new_of_old[v]``."""
        node_orbit = np.empty_like(self.node_orbit)
        node_orbit[new_of_old] = self.node_orbit
        return Symmetry(node_orbit, self.link_orbit)


@final
class LinkIndex(NamedTuple):
    """Links grouped by one endpoint: those of node v are ``order[start[v] : start[v + 1]]``."""

    order: NDArray[np.int64]
    start: NDArray[np.int64]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Topology(Tabular):
    """A directed multigraph: link i goes from ``tail[i]`` to ``head[i]``.

    The position of a link is its id; parallel links and self-loops are kept, since each is a pair
    of ports. ``tail`` and ``head`` are int32 arrays; ``link_speed`` (positive int64, any common
    unit) is None when all links are equal; ``symmetry`` declares automorphisms that save work.
    Arrays are copied to read-only. Raises ValueError for endpoints out of range, unequal lengths,
    speeds that are not positive integers or more than MAX_LINKS links.

    >>> ring = Topology(3, [0, 1, 2], [1, 2, 0])
    >>> ring.degree, ring.diameter(), ring.transpose().head.tolist()
    (1, 2, [0, 1, 2])
    """

    num_nodes: int
    tail: NDArray[np.int32]
    head: NDArray[np.int32]
    link_speed: NDArray[np.int64] | None = None
    symmetry: Symmetry | None = None

    def __init__(
        self,
        num_nodes: int,
        tail: ArrayLike,
        head: ArrayLike,
        link_speed: ArrayLike | None = None,
        symmetry: Symmetry | None = None,
    ) -> None:
        if not isinstance(num_nodes, int | np.integer) or num_nodes < 1:
            raise ValueError(f"num_nodes is {num_nodes}: it must be an integer of at least 1")
        object.__setattr__(self, "num_nodes", int(num_nodes))
        object.__setattr__(self, "tail", _endpoints(tail, "tail", num_nodes))
        object.__setattr__(self, "head", _endpoints(head, "head", num_nodes))
        if len(self.tail) != len(self.head):
            raise ValueError(
                f"{len(self.tail)} tails but {len(self.head)} heads: every link has one of each"
            )
        object.__setattr__(self, "link_speed", _speeds(link_speed, len(self.tail)))
        if symmetry is not None and (
            len(symmetry.node_orbit) != num_nodes or len(symmetry.link_orbit) != len(self.tail)
        ):
            raise ValueError(
                "the declared symmetry does not number this topology's nodes and links"
            )
        object.__setattr__(self, "symmetry", symmetry)

    def __eq__(self, other: object) -> bool:
        """Same nodes, links in the same order and speeds; the declared symmetry does not count."""
        return (
            isinstance(other, Topology)
            and self.num_nodes == other.num_nodes
            and np.array_equal(self.tail, other.tail)
            and np.array_equal(self.head, other.head)
            and np.array_equal(self.speeds(), other.speeds())
        )

    def __hash__(self) -> int:
        return hash((self.num_nodes, self.tail.tobytes(), self.head.tobytes()))

    def __repr__(self) -> str:
        return f"Topology({self.num_nodes} nodes, {self.num_links} links, degree {self.degree})"

    @property
    def num_links(self) -> int:
        """Number of directed links, self-loops and parallel links included."""
        return len(self.tail)

    @property
    def degree(self) -> int:
        """Ports of a node: the largest number of links out of or into one node."""
        return int(max(self.out_degrees().max(), self.in_degrees().max()))

    def out_degrees(self) -> NDArray[np.int64]:
        """Links out of every node, shape (N,)."""
        return np.bincount(self.tail, minlength=self.num_nodes)

    def in_degrees(self) -> NDArray[np.int64]:
        """Links into every node, shape (N,)."""
        return np.bincount(self.head, minlength=self.num_nodes)

    def to_networkx(self, name: str = "") -> Any:
        """A networkx MultiDiGraph on 0 to N - 1; keys are link ids, with ``speed`` if they differ.

        >>> Topology(2, [0, 1], [1, 0]).to_networkx().number_of_edges()
        2
        """
        return provided("networkx graph of a topology")(self, name)

    @property
    def is_regular(self) -> bool:
        """Whether every node has ``degree`` links out and ``degree`` links in."""
        degree = self.degree
        return bool((self.out_degrees() == degree).all() and (self.in_degrees() == degree).all())

    def speeds(self) -> NDArray[np.int64]:
        """Relative speed of every link, ones when they are equal, shape (links,)."""
        if self.link_speed is None:
            return np.ones(self.num_links, dtype=np.int64)
        return self.link_speed

    def node_speed(self, num_hosts: int | None = None) -> int:
        """Largest total speed out of a node, in units of ``link_speed``: what B stands for.

        With ``num_hosts`` only the first nodes count, for those that follow are switches.
        """
        return int(_speed_sums(self.tail, self.speeds(), self.num_nodes)[:num_hosts].max())

    def ingress_speed(self) -> int:
        """Smallest total speed into a node, self-loops not counted."""
        speeds = np.where(self.tail == self.head, 0, self.speeds())
        return int(_speed_sums(self.head, speeds, self.num_nodes).min())

    def egress_speed(self) -> int:
        """Smallest total speed out of a node, self-loops not counted."""
        speeds = np.where(self.tail == self.head, 0, self.speeds())
        return int(_speed_sums(self.tail, speeds, self.num_nodes).min())

    def t_b(self, total_load: Fraction) -> Fraction:
        """T_B in units of M/B of a schedule whose largest link loads add up to ``total_load``.

        Loads are in shards (all-to-all: pieces), M/N bytes either way, a unit of link speed, so a
        d-regular topology gives d / N times the sum.
        """
        return total_load * self.node_speed() / self.num_nodes

    def has_self_loops(self) -> bool:
        """Whether a link leads from a node to itself."""
        return bool((self.tail == self.head).any())

    def is_undirected(self) -> bool:
        """Whether the links are the same multiset when all are reversed."""
        forward = self.tail.astype(np.int64) * self.num_nodes + self.head
        backward = self.head.astype(np.int64) * self.num_nodes + self.tail
        order, reverse = np.lexsort((self.speeds(), forward)), np.lexsort((self.speeds(), backward))
        return np.array_equal(forward[order], backward[reverse]) and np.array_equal(
            self.speeds()[order], self.speeds()[reverse]
        )

    def transpose(self) -> Topology:
        """The topology with every link reversed; link ids stay."""
        return Topology(self.num_nodes, self.head, self.tail, self.link_speed, self.symmetry)

    def relabelled(self, new_of_old: ArrayLike) -> Topology:
        """The topology after node v is renamed ``new_of_old[v]`` (a permutation)."""
        new = np.asarray(new_of_old, dtype=np.int64)
        if not np.array_equal(np.sort(new), np.arange(self.num_nodes)):
            raise ValueError("new_of_old is not a permutation of the nodes")
        symmetry = self.symmetry and self.symmetry.relabelled(new)
        return Topology(self.num_nodes, new[self.tail], new[self.head], self.link_speed, symmetry)

    def links_by_tail(self) -> LinkIndex:
        """Out-links of every node, in link order."""
        return _link_index(self.tail, self.num_nodes)

    def links_by_head(self) -> LinkIndex:
        """In-links of every node, in link order."""
        return _link_index(self.head, self.num_nodes)

    def distances(self) -> NDArray[Any]:
        """Hops from v (row) to u (column), shape (N, N); -1 where there is no path."""
        return all_distances(self)

    def diameter(self) -> int:
        """Largest distance; ValueError if the topology is not strongly connected."""
        distances = self.distances()
        if distances.min() < 0:
            source, target = np.argwhere(distances < 0)[0]
            raise ValueError(
                f"not strongly connected: node {target} is out of node {source}'s reach"
            )
        return int(distances.max())


def _endpoints(values: ArrayLike, name: str, num_nodes: int) -> NDArray[np.int32]:
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(f"{name} must be a one-dimensional array of integers")
    if array.size > MAX_LINKS:
        raise ValueError(f"{array.size} links: at most {MAX_LINKS} are supported")
    if array.size and not (array.min() >= 0 and array.max() < num_nodes):
        bad = int(array[(array < 0) | (array >= num_nodes)][0])
        raise ValueError(f"{name} names node {bad}: nodes are 0 to {num_nodes - 1}")
    return _frozen(array.astype(np.int32))


def _speeds(values: ArrayLike | None, num_links: int) -> NDArray[np.int64] | None:
    if values is None:
        return None
    array = np.asarray(values)
    if array.shape != (num_links,) or array.dtype.kind not in "iu":
        raise ValueError(f"link_speed must be {num_links} integers, one a link")
    if array.size and not (array.min() >= 1 and array.max() < 2**31):
        raise ValueError("link_speed must be positive integers below 2^31")
    return None if np.all(array == 1) else _frozen(array.astype(np.int64))


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array


def _speed_sums(
    nodes: NDArray[np.int32], speeds: NDArray[np.int64], num_nodes: int
) -> NDArray[np.int64]:
    sums = np.zeros(num_nodes, dtype=np.int64)
    np.add.at(sums, nodes, speeds)
    return sums


def _link_index(ends: NDArray[np.int32], num_nodes: int) -> LinkIndex:
    start = np.zeros(num_nodes + 1, dtype=np.int64)
    np.cumsum(np.bincount(ends, minlength=num_nodes), out=start[1:])
    return LinkIndex(np.argsort(ends, kind="stable"), start)


# Runs: arrays in which what belongs together stands side by side, run after run.


def starts_of(sizes: NDArray[Any]) -> NDArray[np.int64]:
    """Where each of so many runs of these sizes begins, and where the last ends.

    >>> starts_of(np.array([2, 0, 3])).tolist()
    [0, 2, 2, 5]
    """
    return np.concatenate([[0], np.cumsum(sizes)])


def places(first: NDArray[Any], count: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of every entry of the runs ``first[i], first[i] + 1, ...``: its i, and its place.

    Run i has ``count[i]`` places.

    >>> [column.tolist() for column in places(np.array([7, 0, 4]), np.array([2, 0, 1]))]
    [[0, 0, 2], [7, 8, 4]]
    """
    run = np.repeat(np.arange(len(count)), count)
    return run, np.arange(len(run)) + np.repeat(first - starts_of(count)[:-1], count)


def before(key: NDArray[Any], size: NDArray[Any]) -> NDArray[np.int64]:
    """The sizes of all entries of the same key that come before, shape of ``key``.

    >>> before(np.array([1, 0, 1, 1]), np.array([5, 6, 7, 8])).tolist()
    [0, 0, 5, 12]
    """
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    total = starts_of(size[order])[:-1]
    sums = np.empty(len(key), dtype=np.int64)
    sums[order] = total - total[np.searchsorted(ordered, ordered)]
    return sums


def row_numbers(*columns: NDArray[Any]) -> NDArray[np.int64]:
    """A number for every row of columns from 0 on, the same for the same rows, in their order.

    For millions in a tenth of the time of ``np.unique`` over an axis.

    >>> row_numbers(np.array([1, 0, 1, 1]), np.array([5, 6, 7, 5])).tolist()
    [1, 0, 2, 1]
    """
    key, most = np.zeros(len(columns[0]), dtype=np.int64), 1
    for column in columns:
        size = int(column.max(initial=0)) + 1
        if most * size >= 2**62:
            key = np.unique(key, return_inverse=True)[1]
            most = int(key.max(initial=0)) + 1
        key, most = key * size + column, most * size
    number: NDArray[np.int64] = np.unique(key, return_inverse=True)[1]
    return number


def distinct(values: NDArray[Any]) -> NDArray[Any]:
    """The values in order, each once; for millions in a hundredth of the time of ``np.unique``.

    >>> distinct(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    ordered = np.sort(values)
    new = np.ones(len(ordered), dtype=bool)
    new[1:] = ordered[1:] != ordered[:-1]
    return ordered[new]


# Who reaches whom in how many hops: neighbour tables and breadth-first search on packed bits.


WORD_BITS = 64


@final
class InNeighbours(NamedTuple):
    """Distinct in-neighbours of every node, self-loops left out, parallel links merged.

    ``node`` (int32, N x k) lists them in ascending order and is padded with the node itself;
    ``capacity`` (int64, N x k) is the summed speed of the links from each, 0 in the padding.
    """

    node: NDArray[np.int32]
    capacity: NDArray[np.int64]


def in_neighbours(topology: Topology) -> InNeighbours:
    """The in-neighbour table of a topology."""
    nodes = topology.num_nodes
    proper = topology.tail != topology.head
    key = topology.head[proper].astype(np.int64) * nodes + topology.tail[proper]
    order = np.argsort(key, kind="stable")
    key, speed = key[order], topology.speeds()[proper][order]
    first = np.flatnonzero(np.diff(key, prepend=-1))
    head, tail = np.divmod(key[first], nodes)
    capacity = np.add.reduceat(speed, first) if len(first) else speed
    count = np.bincount(head, minlength=nodes)
    width = max(1, int(count.max(initial=0)))
    _check_table(nodes, width, "neighbours")
    column = places(np.zeros(nodes, dtype=np.int64), count)[1]
    table = np.repeat(np.arange(nodes, dtype=np.int32)[:, None], width, axis=1)
    table[head, column] = tail
    capacities = np.zeros((nodes, width), dtype=np.int64)
    capacities[head, column] = capacity
    return InNeighbours(table, capacities)


def _check_table(nodes: int, width: int, what: str) -> None:
    """ValueError if a table of so many entries a node is larger than any that is made."""
    if nodes * width > _MAX_ENTRIES:
        raise ValueError(
            f"a table of {nodes} nodes with {width} {what} each is too large: "
            f"at most {_MAX_ENTRIES} entries are supported"
        )


def check_all_pairs(num_nodes: int) -> None:
    """ValueError if the distances of all pairs of so many nodes are more than any table holds."""
    _check_table(num_nodes, num_nodes, "nodes at all distances")


def identity_bits(num_nodes: int, first: int, last: int) -> NDArray[np.uint64]:
    """Packed rows in which row v has bit v - first set for v in [first, last)."""
    words = -(-(last - first) // WORD_BITS)
    rows = np.zeros((num_nodes, words), dtype=np.uint64)
    offset = np.arange(last - first)
    rows[offset + first, offset // WORD_BITS] = np.uint64(1) << (offset % WORD_BITS).astype(
        np.uint64
    )
    return rows


def all_distances(topology: Topology) -> NDArray[Any]:
    """Hops from row to column for all pairs, -1 where there is no path; int16 below 2^15 nodes."""
    nodes = topology.num_nodes
    check_all_pairs(nodes)
    # Reach sets grow backwards along the transpose so that row v lists what v can reach.
    successors = in_neighbours(topology.transpose()).node
    distances = np.full((nodes, nodes), -1, dtype=np.int16 if nodes < 2**15 else np.int32)
    block = max(WORD_BITS, min(nodes, 2**28 // nodes * 8 // WORD_BITS * WORD_BITS))
    for first in range(0, nodes, block):
        last = min(nodes, first + block)
        reached, hops = identity_bits(nodes, first, last), 0
        new = reached
        while new.any():
            rows = np.flatnonzero(new.any(axis=1))
            bits = np.unpackbits(new[rows].view(np.uint8), axis=1, bitorder="little")
            view = distances[rows, first:last]
            view[bits[:, : last - first].astype(bool)] = hops
            distances[rows, first:last] = view
            grown = reached.copy()
            for column in range(successors.shape[1]):
                grown |= reached[successors[:, column]]
            new, reached, hops = grown & ~reached, grown, hops + 1
    return distances


def host_diameter(network: Network) -> int:
    """Most hops from host to host that data need, passing any switches at once.

    Raises ValueError if a host is not reached.
    """
    hosts = network.num_hosts
    reached, hops = identity_bits(network.num_nodes, 0, hosts), -1
    order = np.argsort(network.head, kind="stable")
    tail, head = network.tail[order], network.head[order]
    to_switch = head >= hosts
    switches, ranks = ((tail[at], head[at]) for at in (to_switch, ~to_switch))
    grows = True
    while grows:
        hops += 1
        while _spread(reached, *switches):
            pass
        grows = _spread(reached, *ranks)
    full = np.bitwise_or.reduce(identity_bits(hosts, 0, hosts), axis=0)
    short = np.flatnonzero((reached[:hosts] != full).any(axis=1))
    if len(short):
        raise ValueError(f"{network.name(int(short[0]))} cannot be reached from all others")
    return hops


def _spread(reached: NDArray[np.uint64], tail: NDArray[Any], head: NDArray[Any]) -> bool:
    """Let heads, in ascending order, have what their tails have; whether any did not yet."""
    if not len(head):
        return False
    first = np.flatnonzero(np.diff(head, prepend=-1))
    heads, before = head[first], reached[head[first]]
    after = before | np.bitwise_or.reduceat(reached[tail], first, axis=0)
    reached[heads] = after
    return bool((after != before).any())
