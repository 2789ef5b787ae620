"""Routes: over which links of a network every logical link of a topology leads."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.cost import Cost
from ocs_codesign.given import as_topology, takes_topology
from ocs_codesign.loads import busiest_links
from ocs_codesign.runs import before, places, starts_of
from ocs_codesign.schedule import Schedule
from ocs_codesign.topology import Topology

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from ocs_codesign.given import TopologyLike
    from ocs_codesign.network import Network


@final
@dataclass(frozen=True, slots=True, eq=False)
class Routes:
    """Logical link i of ``topology`` is the path ``link[start[i] : start[i + 1]]`` of ``network``.

    The nodes of the topology are the first nodes of the network: its hosts, and switches if sends
    name them. ``start`` (int64, logical links + 1) and ``link`` (int32, ids of network links) are
    copied to read-only. A path is end to end, and all nodes inside it are switches, or, where
    ``hosts_forward``, any. Raises ValueError for what is no such path.

    >>> from ocs_codesign.network import Network
    >>> from ocs_codesign.topology import Topology
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

        >>> from ocs_codesign.collective import Collective
        >>> from ocs_codesign.network import Network
        >>> from ocs_codesign.schedule import Schedule
        >>> star = Network(2, 3, [0, 1, 2, 2], [2, 2, 0, 1], [1, 1, 1, 1])
        >>> pair = Topology(2, [0, 1], [1, 0])
        >>> swap = Schedule(pair, Collective.ALLGATHER, 1, [0, 1], [0, 0], [1, 1], [0, 1], [1, 1])
        >>> Routes(pair, star, [0, 2, 4], [0, 3, 1, 2]).through(swap).num_sends
        4
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

    >>> from ocs_codesign.network import Network
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

    >>> from ocs_codesign.network import Network
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
