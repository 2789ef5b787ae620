"""Network: hosts, switches and the links that messages physically cross, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.cost import Cost
from ocs_codesign.core.given import as_topology, takes_topology
from ocs_codesign.core.schedule import Schedule, busiest_links
from ocs_codesign.core.shown import Tabular
from ocs_codesign.core.topology import MAX_LINKS, Topology, before, places, starts_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import ArrayLike, NDArray

    from ocs_codesign.core.given import TopologyLike


MAX_BANDWIDTH = 2**40
MAX_LATENCY = 2**40
NANOSECOND = Fraction(1, 10**9)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Network(Tabular):
    """A directed multigraph of hosts 0 to ``num_hosts`` - 1 and the switches that follow them.

    Link i leads from ``tail[i]`` to ``head[i]`` (int32); its position is its id. ``bandwidth``
    (int64, positive) is in ``unit``, such as "Gbps"; "" is any common one. ``latency`` (int64) is
    in ticks of ``tick_s`` seconds. ``dimension`` (int32) says which level or axis a link is of,
    None if none does. A switch forwards; ``multicast`` and ``aggregate`` (bool, nodes) say which
    also send copies of what they get, or add it up. ``names`` has one a node, or is None. Arrays
    are copied to read-only. Where links are known by the ticks that a chunk occupies them,
    ``chunk_ticks`` (int64) has these, else it is None; bandwidths are in inverse proportion then.
    Raises ValueError for values out of range or of unequal length.

    >>> star = Network(2, 3, [0, 1, 2, 2], [2, 2, 0, 1], [10, 10, 10, 10], unit="Gbps")
    >>> star, star.is_switch(2), star.host_bandwidth()
    (Network(2 hosts, 1 switches, 4 links), True, 10)
    """

    num_hosts: int
    num_nodes: int
    tail: NDArray[np.int32]
    head: NDArray[np.int32]
    bandwidth: NDArray[np.int64]
    latency: NDArray[np.int64]
    dimension: NDArray[np.int32] | None
    multicast: NDArray[np.bool_]
    aggregate: NDArray[np.bool_]
    unit: str
    tick_s: Fraction
    names: tuple[str, ...] | None
    chunk_ticks: NDArray[np.int64] | None

    def __init__(
        self,
        num_hosts: int,
        num_nodes: int,
        tail: ArrayLike,
        head: ArrayLike,
        bandwidth: ArrayLike,
        latency: ArrayLike | None = None,
        dimension: ArrayLike | None = None,
        *,
        multicast: Collection[int] = (),
        aggregate: Collection[int] = (),
        unit: str = "",
        tick_s: Fraction = NANOSECOND,
        names: Sequence[str] | None = None,
        chunk_ticks: ArrayLike | None = None,
    ) -> None:
        if not 1 <= num_hosts <= num_nodes < 2**31:
            raise ValueError(f"{num_hosts} hosts among {num_nodes} nodes: hosts are nodes")
        if tick_s <= 0:
            raise ValueError(f"tick_s is {tick_s}: a tick takes some time")
        for name, number in (("num_hosts", num_hosts), ("num_nodes", num_nodes)):
            object.__setattr__(self, name, int(number))
        ends = [
            _integers(tail, "tail", 0, num_nodes - 1),
            _integers(head, "head", 0, num_nodes - 1),
        ]
        links = len(ends[0])
        columns: dict[str, NDArray[Any]] = {
            "tail": ends[0].astype(np.int32),
            "head": ends[1].astype(np.int32),
            "bandwidth": _integers(bandwidth, "bandwidth", 1, MAX_BANDWIDTH),
            "latency": _integers(
                np.zeros(links, np.int64) if latency is None else latency, "latency", 0, MAX_LATENCY
            ),
        }
        if dimension is not None:
            columns["dimension"] = _integers(dimension, "dimension", 0, 1023).astype(np.int32)
        if chunk_ticks is not None:
            columns["chunk_ticks"] = _integers(chunk_ticks, "chunk_ticks", 1, MAX_LATENCY)
        if len({len(column) for column in columns.values()}) > 1:
            raise ValueError("every link has a tail, a head, a bandwidth, a latency: one of each")
        columns["multicast"] = _switches(multicast, "multicast", num_hosts, num_nodes)
        columns["aggregate"] = _switches(aggregate, "aggregate", num_hosts, num_nodes)
        for name, column in columns.items():
            column.setflags(write=False)
            object.__setattr__(self, name, column)
        for name in {"dimension", "chunk_ticks"} - columns.keys():
            object.__setattr__(self, name, None)
        if (
            self.chunk_ticks is not None
            and len(set((self.bandwidth.astype(object) * self.chunk_ticks).tolist())) > 1
        ):
            raise ValueError("bandwidths are not in inverse proportion to the ticks of a chunk")
        if names is not None and (len(names) != num_nodes or len(set(names)) < num_nodes):
            raise ValueError(f"names are {num_nodes} different texts, one a node")
        if tick_s <= 0:
            raise ValueError(f"tick_s is {tick_s}: it must be positive")
        object.__setattr__(self, "unit", unit)
        object.__setattr__(self, "tick_s", Fraction(tick_s))
        object.__setattr__(self, "names", None if names is None else tuple(names))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Network):
            return False
        plain = ("num_hosts", "num_nodes", "unit", "tick_s", "names")
        arrays = (
            *("tail", "head", "bandwidth", "latency", "dimension", "multicast", "aggregate"),
            "chunk_ticks",
        )
        return all(getattr(self, name) == getattr(other, name) for name in plain) and all(
            np.array_equal(np.asarray(getattr(self, name)), np.asarray(getattr(other, name)))
            for name in arrays
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        switches = self.num_nodes - self.num_hosts
        return f"Network({self.num_hosts} hosts, {switches} switches, {self.num_links} links)"

    @property
    def num_links(self) -> int:
        """Number of directed links."""
        return len(self.tail)

    def is_switch(self, node: int) -> bool:
        """Whether a node is a switch."""
        return node >= self.num_hosts

    def name(self, node: int) -> str:
        """What a node is called: its name, or ``h3`` or ``s3`` for host and switch number 3."""
        if self.names is not None:
            return self.names[node]
        return f"s{node - self.num_hosts}" if self.is_switch(node) else f"h{node}"

    def host_bandwidth(self) -> int:
        """Largest total bandwidth out of a host, in ``unit``: what B stands for."""
        egress = np.zeros(self.num_nodes, dtype=np.int64)
        np.add.at(egress, self.tail, self.bandwidth)
        return int(egress[: self.num_hosts].max())

    def changed(
        self,
        bandwidth: ArrayLike | None = None,
        names: Sequence[str] | None = None,
        *,
        latency: ArrayLike | None = None,
        tick_s: Fraction | None = None,
        with_dimension: bool = True,
    ) -> Network:
        """The network with other bandwidths, names, latencies or ticks, or without dimensions."""
        return Network(
            *(self.num_hosts, self.num_nodes, self.tail, self.head),
            self.bandwidth if bandwidth is None else bandwidth,
            self.latency if latency is None else latency,
            self.dimension if with_dimension else None,
            multicast=np.flatnonzero(self.multicast).tolist(),
            aggregate=np.flatnonzero(self.aggregate).tolist(),
            unit=self.unit,
            tick_s=self.tick_s if tick_s is None else tick_s,
            names=self.names if names is None else names,
            chunk_ticks=self.chunk_ticks if bandwidth is None else None,
        )

    def topology(self) -> Topology:
        """All nodes and links as a Topology, for schedules whose sends name every hop.

        Bandwidths are divided by their common divisor; ValueError if they are too large for speeds.
        """
        common = int(np.gcd.reduce(self.bandwidth)) if self.num_links else 1
        return Topology(self.num_nodes, self.tail, self.head, self.bandwidth // common)

    def with_latency(self, ticks: int) -> Network:
        """The same network with this latency on every link.

        >>> Network(2, 2, [0], [1], [1]).with_latency(500).latency.tolist()
        [500]
        """
        return Network(
            *(self.num_hosts, self.num_nodes, self.tail, self.head, self.bandwidth),
            np.full(self.num_links, ticks),
            self.dimension,
            multicast=np.flatnonzero(self.multicast).tolist(),
            aggregate=np.flatnonzero(self.aggregate).tolist(),
            unit=self.unit,
            tick_s=self.tick_s,
            names=self.names,
        )

    def without(self, links: Collection[int] = (), nodes: Collection[int] = ()) -> Network:
        """The network after these links, and these nodes with theirs, are lost; others move up.

        Raises ValueError if no host is left, or for what is not there.
        """
        lost_links = _integers(sorted(links), "a lost link", 0, self.num_links - 1)
        lost_nodes = _integers(sorted(nodes), "a lost node", 0, self.num_nodes - 1)
        is_left = np.ones(self.num_nodes, dtype=bool)
        is_left[lost_nodes] = False
        if not is_left[: self.num_hosts].any():
            raise ValueError("no host is left")
        stays = is_left[self.tail] & is_left[self.head]
        stays[lost_links] = False
        number = np.cumsum(is_left) - 1
        kept = np.flatnonzero(is_left).tolist()
        return Network(
            int(is_left[: self.num_hosts].sum()),
            int(is_left.sum()),
            number[self.tail[stays]],
            number[self.head[stays]],
            self.bandwidth[stays],
            self.latency[stays],
            None if self.dimension is None else self.dimension[stays],
            multicast=number[np.flatnonzero(self.multicast & is_left)].tolist(),
            aggregate=number[np.flatnonzero(self.aggregate & is_left)].tolist(),
            unit=self.unit,
            tick_s=self.tick_s,
            names=None if self.names is None else [self.names[node] for node in kept],
            chunk_ticks=None if self.chunk_ticks is None else self.chunk_ticks[stays],
        )


def who_relays(num_hosts: int, relays: Collection[int] | None) -> NDArray[np.bool_]:
    """Which hosts pass on what is not theirs (bool, hosts): all unless some are named.

    >>> who_relays(3, [1]).tolist(), who_relays(2, None).tolist()
    ([False, True, False], [True, True])
    """
    if relays is not None and not set(relays) <= set(range(num_hosts)):
        raise ValueError(f"relays are hosts, 0 to {num_hosts - 1}")
    passes_on = np.full(num_hosts, relays is None)
    passes_on[list(relays or ())] = True
    return passes_on


def _integers(values: ArrayLike, name: str, least: int, most: int) -> NDArray[np.int64]:
    array: NDArray[Any] = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(f"{name} must be a one-dimensional array of integers")
    if array.size > MAX_LINKS:
        raise ValueError(f"{name} has {array.size} entries: at most {MAX_LINKS} are supported")
    outside = (array < least) | (array > most)
    if outside.any():
        at = int(outside.argmax())
        raise ValueError(
            f"{name} is {int(array[at])} at position {at}: it is from {least} to {most}"
        )
    return np.array(array, dtype=np.int64)


def _switches(
    numbers: Collection[int], name: str, num_hosts: int, num_nodes: int
) -> NDArray[np.bool_]:
    is_able = np.zeros(num_nodes, dtype=bool)
    for node in numbers:
        if not num_hosts <= node < num_nodes:
            raise ValueError(
                f"{name} names node {node}: the switches are {num_hosts} to {num_nodes - 1}"
            )
        is_able[node] = True
    return is_able


# Routes: over which links of a network every logical link of a topology leads.


@final
@dataclass(frozen=True, slots=True, eq=False)
class Routes:
    """Logical link i of ``topology`` is the path ``link[start[i] : start[i + 1]]`` of ``network``.

    The nodes of the topology are the first nodes of the network: its hosts, and switches if sends
    name them. ``start`` (int64, logical links + 1) and ``link`` (int32, ids of network links) are
    copied to read-only. A path is end to end, and all nodes inside it are switches, or, where
    ``hosts_forward``, any. Raises ValueError for what is no such path.

    >>> from ocs_codesign.core.network import Network
    >>> from ocs_codesign.core.topology import Topology
    >>> star = Network(2, 3, [0, 1, 2, 2], [2, 2, 0, 1], [1, 1, 1, 1])
    >>> pair = Topology(2, [0, 1], [1, 0])
    >>> Routes(pair, star, [0, 2, 4], [0, 3, 1, 2]).link_loads([1, 1]).tolist()
    [1, 1, 1, 1]
    """

    topology: Topology
    network: Network
    start: NDArray[np.int64]
    link: NDArray[np.int32]

    def __init__(
        self,
        topology: TopologyLike,
        network: Network,
        start: ArrayLike,
        link: ArrayLike,
        *,
        hosts_forward: bool = False,
    ) -> None:
        topology = as_topology(topology)
        starts, links = np.array(start, dtype=np.int64), np.array(link, dtype=np.int32)
        if not network.num_hosts <= topology.num_nodes <= network.num_nodes:
            raise ValueError(
                f"{topology.num_nodes} nodes: they are the network's {network.num_hosts} hosts, "
                f"and of its {network.num_nodes} nodes at most all"
            )
        if len(starts) != topology.num_links + 1 or starts[0] != 0 or starts[-1] != len(links):
            raise ValueError("every logical link has a path, one after the other")
        if (np.diff(starts) < 1).any():
            raise ValueError(f"logical link {int(np.diff(starts).argmin())} has no path")
        if len(links) and not (links.min() >= 0 and links.max() < network.num_links):
            raise ValueError(f"paths are of the links 0 to {network.num_links - 1}")
        _check_paths(topology, network, starts, links, hosts_forward)
        for name, value in (("start", starts), ("link", links)):
            value.setflags(write=False)
            object.__setattr__(self, name, value)
        object.__setattr__(self, "topology", topology)
        object.__setattr__(self, "network", network)

    def __repr__(self) -> str:
        return f"Routes({self.topology!r} over {self.network!r})"

    def link_loads(self, logical: ArrayLike) -> NDArray[np.int64]:
        """Loads of the network's links for integer loads of the logical links."""
        load = np.zeros(self.network.num_links, dtype=np.int64)
        np.add.at(load, self.link, np.repeat(np.asarray(logical), np.diff(self.start)))
        return load

    def synchronous_cost(self, schedule: Schedule) -> Cost:
        """Steps and t_b of a schedule over these routes when every step waits for the one before.

        t_b is in M/B, B being the largest bandwidth out of a host.
        """
        busiest = self._busiest(schedule, schedule.step)
        return Cost(schedule.num_steps, self._t_b(schedule, busiest))

    def steady_state_t_b(self, schedule: Schedule) -> Fraction:
        """t_b of the busiest link over all steps: what a pipeline of many such messages takes."""
        return self._t_b(schedule, self._busiest(schedule, np.ones_like(schedule.step)))

    def through(self, schedule: Schedule) -> Schedule:
        """The same sends hop by hop: over the network's links, in one step through its switches.

        Raises ValueError if hosts would have to forward in that step.
        """
        network = self.network
        inside = np.ones(len(self.link), dtype=bool)
        inside[self.start[:-1]] = False
        relays = network.tail[self.link[inside]]
        if (relays < network.num_hosts).any():
            raise ValueError(f"a path leads through host {relays.min()}: only switches pass on")
        row, place = places(self.start[schedule.link], np.diff(self.start)[schedule.link])
        order = np.argsort(schedule.step[row], kind="stable")
        row, place = row[order], place[order]
        return Schedule(
            network.topology(),
            schedule.collective,
            schedule.num_chunks,
            schedule.item[row],
            schedule.lo[row],
            schedule.hi[row],
            self.link[place],
            schedule.step[row],
            None if schedule.phase is None else schedule.phase[row],
            num_hosts=network.num_hosts,
        )

    def _busiest(self, schedule: Schedule, step: NDArray[np.int32]) -> tuple[Fraction, ...]:
        """The largest chunks / bandwidth of a network link in every step."""
        if schedule.topology != self.topology:
            raise ValueError("the schedule is not on the topology of these routes")
        row, place = places(self.start[schedule.link], np.diff(self.start)[schedule.link])
        link = self.link[place]
        chunks = schedule.hi.astype(np.int64) - schedule.lo
        return busiest_links(step[row], link, chunks[row], self.network.bandwidth)

    def _t_b(self, schedule: Schedule, chunks: tuple[Fraction, ...]) -> Fraction:
        return schedule.t_b(sum(chunks, Fraction(0)), self.network.host_bandwidth())


@takes_topology
def direct_routes(topology: Topology, network: Network) -> Routes:
    """The routes of a topology whose link i is the network's link i.

    >>> from ocs_codesign.core.network import Network
    >>> ring = Network(3, 3, [0, 1, 2], [1, 2, 0], [1, 1, 1])
    >>> direct_routes(ring.topology(), ring).link.tolist()
    [0, 1, 2]
    """
    every = np.arange(topology.num_links + 1)
    return Routes(topology, network, every, every[:-1])


@takes_topology
def shortest_routes(topology: Topology, network: Network) -> Routes:
    """Routes of fewest hops; hosts forward only where switches alone do not join all ends.

    Of the neighbours that are a hop nearer to node v, ascending, the one at v modulo their number
    is taken, and parallel logical links take parallel links in turn. Raises ValueError for a link
    whose ends no path joins.

    >>> from ocs_codesign.core.network import Network
    >>> star = Network(2, 3, [0, 1, 2, 2], [2, 2, 0, 1], [1, 1, 1, 1])
    >>> shortest_routes(Topology(2, [0, 1], [1, 0]), star).link.tolist()
    [0, 3, 1, 2]
    """
    nodes = network.num_nodes
    hops_left, hosts_forward = _hops_left(topology, network)
    ends = topology.tail.astype(np.int64) * nodes + topology.head
    turn = before(ends, np.ones_like(ends))
    at = topology.tail.astype(np.int64)
    hops, logical = [], np.arange(topology.num_links)
    while len(logical):
        link = _next_links(network, hops_left, at, topology.head[logical], turn[logical])
        hops.append((logical, link))
        goes_on = network.head[link] != topology.head[logical]
        at, logical = network.head[link][goes_on].astype(np.int64), logical[goes_on]
    owner, links = (np.concatenate([part[i] for part in hops] or [logical]) for i in range(2))
    order = np.argsort(owner, kind="stable")
    start = starts_of(np.bincount(owner, minlength=topology.num_links))
    return Routes(topology, network, start, links[order], hosts_forward=hosts_forward)


def _hops_left(topology: Topology, network: Network) -> tuple[NDArray[Any], bool]:
    """Hops between nodes beyond the first one (-1 if none), and whether hosts have to forward."""
    nodes = network.num_nodes
    inner = network.tail >= network.num_hosts
    if inner.any():
        left = Topology(nodes, network.tail[inner], network.head[inner]).distances()
        leaves = np.flatnonzero(~inner)
        near = np.zeros((nodes, nodes), dtype=bool)
        np.logical_or.at(near, network.tail[leaves], left[network.head[leaves]] >= 0)
        near[network.tail, network.head] = True
        if near[topology.tail, topology.head].all():
            return left, False
    return network.topology().distances(), True


def _next_links(
    network: Network,
    hops_left: NDArray[Any],
    at: NDArray[np.int64],
    target: NDArray[np.int32],
    turn: NDArray[np.int64],
) -> NDArray[np.int64]:
    """The link that each takes next, from where it is ``at``."""
    asked, which = np.unique(at * network.num_nodes + target, return_inverse=True)
    place, aim = np.divmod(asked, network.num_nodes)
    order = np.lexsort((network.head, network.tail))
    first = np.searchsorted(network.tail[order], np.arange(network.num_nodes + 1))
    one, row = places(first[place], np.diff(first)[place])
    link = order[row]
    head, far = network.head[link], np.iinfo(np.int64).max
    left = hops_left[head, aim[one]].astype(np.int64)
    left = np.where(head == aim[one], 0, np.where(left < 0, far, left))
    least = np.full(len(asked), far)
    np.minimum.at(least, one, left)
    if (least == far).any():
        lost = int((least == far).argmax())
        raise ValueError(f"no path of the network leads from node {place[lost]} to {aim[lost]}")
    nearer = left == least[one]
    one, head, link = one[nearer], head[nearer], link[nearer]
    # Links of one neighbour are a run, the runs of one that asks stand side by side.
    run = np.flatnonzero(np.append(True, (np.diff(one) != 0) | (np.diff(head) != 0)))
    width = np.diff(run, append=len(one))
    runs = np.bincount(one[run], minlength=len(asked))
    chosen = starts_of(runs)[:-1] + aim % runs
    found: NDArray[np.int64] = link[run[chosen][which] + turn % width[chosen][which]]
    return found


def _check_paths(
    topology: Topology,
    network: Network,
    start: NDArray[np.int64],
    link: NDArray[np.int32],
    hosts_forward: bool,
) -> None:
    tail, head = network.tail[link], network.head[link]
    inside = np.ones(len(link), dtype=bool)
    inside[start[:-1]] = False
    broken = np.flatnonzero(inside[1:] & (head[:-1] != tail[1:]))
    if len(broken):
        raise ValueError(f"the path of logical link {_owner(start, broken[0])} is not end to end")
    relays = np.flatnonzero(inside & (tail < network.num_hosts))
    if len(relays) and not hosts_forward:
        raise ValueError(
            f"the path of logical link {_owner(start, relays[0])} leads through host "
            f"{tail[relays[0]]}: only switches forward"
        )
    wrong = (tail[start[:-1]] != topology.tail) | (head[start[1:] - 1] != topology.head)
    if wrong.any():
        at = int(wrong.argmax())
        raise ValueError(
            f"the path of logical link {at} leads from {tail[start[at]]} to "
            f"{head[start[at + 1] - 1]}, the link from {topology.tail[at]} to {topology.head[at]}"
        )


def _owner(start: NDArray[np.int64], position: np.int64) -> int:
    return int(np.searchsorted(start, position, side="right")) - 1
