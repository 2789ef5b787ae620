"""Direct-connect networks: hosts linked to hosts, as a topology says, or as a torus or mesh."""

from __future__ import annotations

from collections.abc import Collection
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from ocs_codesign.core.given import is_networkx, kind_of, may_be_topology, takes_topology
from ocs_codesign.core.network import MAX_BANDWIDTH, Network
from ocs_codesign.core.registry import provided
from ocs_codesign.core.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from ocs_codesign.core.given import NetworkLike


# Cables gathered group by group, each a link there and one back, and the network they make.


T = TypeVar("T")

MAX_HOSTS = 2**18


def check_hosts(num_hosts: int) -> None:
    """ValueError for none, or for more than anything here is built for."""
    if not 1 <= num_hosts <= MAX_HOSTS:
        raise ValueError(f"{num_hosts} hosts: there are 1 to {MAX_HOSTS}")


class Cables:
    """Links with the bandwidth, latency and dimension of the group they come in."""

    def __init__(self) -> None:
        self._groups: list[np.ndarray] = []

    def add(
        self,
        tail: ArrayLike,
        head: ArrayLike,
        bandwidth: ArrayLike,
        latency: ArrayLike,
        dimension: int,
        *,
        both_ways: bool = True,
    ) -> None:
        """Append links, all there first and then all back."""
        ends = np.broadcast_arrays(np.asarray(tail), np.asarray(head))
        columns = [*(end.ravel() for end in ends), bandwidth, latency, dimension]
        links = np.stack([np.broadcast_to(column, ends[0].size) for column in columns])
        self._groups.append(links)
        if both_ways:
            self._groups.append(links[[1, 0, 2, 3, 4]])

    def network(
        self,
        num_hosts: int,
        num_nodes: int,
        unit: str,
        multicast: Collection[int] = (),
        aggregate: Collection[int] = (),
    ) -> Network:
        """The network of so many hosts and nodes with all the links."""
        columns = np.concatenate(self._groups, axis=1) if self._groups else np.zeros((5, 0), int)
        return Network(
            num_hosts, num_nodes, *columns, multicast=multicast, aggregate=aggregate, unit=unit
        )


def one_each(values: T | Collection[T], number: int, name: str) -> list[T]:
    """A value for each of so many; ValueError unless one was given, or one each."""
    listed = list(values) if isinstance(values, Collection) else [values] * number
    if len(listed) != number:
        raise ValueError(f"{len(listed)} values of {name}: give one, or {number}")
    return listed


def as_network(given: NetworkLike) -> Network:
    """A network, or that of a topology with links of width 1; ValueError for anything else.

    >>> as_network("Complete(4)"), as_network("star(4, 100)")
    (Network(4 hosts, 0 switches, 12 links), Network(4 hosts, 1 switches, 8 links))
    """
    network = provided("network of a text")(given) if isinstance(given, str) else given
    if isinstance(network, Network):
        return network
    if not may_be_topology(network):
        raise ValueError(
            f"{kind_of(given)} is no network: give one such as star(8, 450), a recipe or a graph"
        )
    if is_networkx(network):
        from ocs_codesign.core.networks.networkx_network import from_networkx

        return from_networkx(cast("Any", network))
    return direct(network, 1)


@takes_topology
def direct(topology: Topology, bandwidth: int, latency: int = 0, unit: str = "") -> Network:
    """The links of a topology, link i with ``bandwidth`` times its relative speed.

    >>> direct(Topology(2, [0, 1], [1, 0], [1, 4]), 25).bandwidth.tolist()
    [25, 100]
    """
    links = topology.num_links
    return Network(
        topology.num_nodes,
        topology.num_nodes,
        topology.tail,
        topology.head,
        topology.speeds() * bandwidth,
        np.full(links, latency),
        unit=unit,
    )


def torus(
    sizes: Sequence[int],
    bandwidth: int | Sequence[int],
    latency: int | Sequence[int] = 0,
    unit: str = "",
) -> Network:
    """A torus whose dimensions may differ in size, bandwidth and latency; hosts are row-major.

    A dimension of size 2 has one link each way.

    >>> torus((3, 2), (50, 100)).num_links
    18
    """
    return _grid(sizes, bandwidth, latency, unit, wraps=True)


def mesh(
    sizes: Sequence[int],
    bandwidth: int | Sequence[int],
    latency: int | Sequence[int] = 0,
    unit: str = "",
) -> Network:
    """A mesh whose dimensions may differ in size, bandwidth and latency; hosts are row-major.

    >>> mesh((4, 4), 1).num_links
    48
    """
    return _grid(sizes, bandwidth, latency, unit, wraps=False)


def _grid(
    sizes: Sequence[int],
    bandwidth: int | Sequence[int],
    latency: int | Sequence[int],
    unit: str,
    *,
    wraps: bool,
) -> Network:
    if not sizes or min(sizes) < 1:
        raise ValueError(f"sizes are {tuple(sizes)}: whole numbers of at least 1, one a dimension")
    bandwidths = one_each(bandwidth, len(sizes), "bandwidth")
    latencies = one_each(latency, len(sizes), "latency")
    hosts = np.arange(prod(sizes)).reshape(tuple(sizes))
    cables = Cables()
    for axis, size in enumerate(sizes):
        pairs = size if wraps and size > 2 else size - 1
        tail = np.take(hosts, range(pairs), axis=axis)
        head = np.take(np.roll(hosts, -1, axis=axis), range(pairs), axis=axis)
        cables.add(tail, head, bandwidths[axis], latencies[axis], axis)
    return cables.network(hosts.size, hosts.size, unit)


# Switched networks: stars and fat trees.


def star(
    num_hosts: int,
    bandwidth: int | Sequence[int],
    latency: int = 0,
    unit: str = "",
    *,
    multicast: bool = False,
    aggregate: bool = False,
) -> Network:
    """Hosts on one switch, each with the same bandwidth or its own.

    >>> star(4, [10, 10, 10, 1]).bandwidth.tolist()
    [10, 10, 10, 1, 10, 10, 10, 1]
    """
    check_hosts(num_hosts)
    cables = Cables()
    bandwidths = one_each(bandwidth, num_hosts, "bandwidth")
    cables.add(np.arange(num_hosts), num_hosts, bandwidths, latency, 0)
    switch = (num_hosts,)
    return cables.network(
        num_hosts, num_hosts + 1, unit, switch if multicast else (), switch if aggregate else ()
    )


def fat_tree(
    children: Sequence[int],
    parents: Sequence[int],
    bandwidth: int | Sequence[int],
    latency: int | Sequence[int] = 0,
    unit: str = "",
    *,
    multicast: bool = False,
    aggregate: bool = False,
) -> Network:
    """An extended generalized fat tree, level by level from the hosts up.

    A switch of level i has ``children[i - 1]`` nodes below, a node of level i - 1 has
    ``parents[i - 1]`` switches above; bandwidth and latency are those of the links to that level.
    (4, 4), (1, 2) is a leaf-spine of four leaves with four hosts each and two spines;
    (k/2, k/2, k), (1, k/2, k/2) the fat tree of k-port switches. Switches are numbered level by
    level. Source: Oehring, Ibel, Das, Kumar (1995).

    >>> fat_tree((2, 2, 4), (1, 2, 2), 10)
    Network(16 hosts, 20 switches, 96 links)
    """
    levels = len(children)
    if not levels or len(parents) != levels or min(*children, *parents) < 1:
        raise ValueError(
            f"children {tuple(children)}, parents {tuple(parents)}: "
            "whole numbers of at least 1, one each a level"
        )
    check_hosts(prod(children))
    bandwidths = one_each(bandwidth, levels, "bandwidth")
    latencies = one_each(latency, levels, "latency")
    cables, num_hosts = Cables(), prod(children)
    first, num_nodes = 0, num_hosts
    for level in range(levels):
        # A node below is (which subtree, which child in it, which of the copies of that place).
        copies = prod(parents[:level])
        below = np.arange(first, num_nodes).reshape(-1, children[level], 1, copies)
        above = num_nodes + np.arange(len(below) * parents[level] * copies)
        places = above.reshape(-1, 1, parents[level], copies)
        cables.add(below, places, bandwidths[level], latencies[level], level)
        first, num_nodes = num_nodes, num_nodes + len(above)
    switches = range(num_hosts, num_nodes)
    return cables.network(
        num_hosts, num_nodes, unit, switches if multicast else (), switches if aggregate else ()
    )


# Networks after losses: nodes and links named as people name them, gone or slower.


BOTH_WAYS, ONE_WAY = "-", ">"


def damaged(
    network: NetworkLike, lost: str | Sequence[str] = (), slow: Sequence[tuple[str, int]] = ()
) -> Network:
    """The network without what is ``lost``, and with links of another bandwidth where ``slow``.

    What is lost is a node by its name (``h3`` and ``s0`` for host and switch number 3 and 0 where
    there are no names), all nodes whose names begin with it and a dot (``server3``,
    ``server3.nic1``), all links between two of these (``h0-s0``), or those one way (``h0>s0``). A
    node that is slow has slow links. What is left keeps its names. Raises ValueError for what is
    not there.

    >>> from ocs_codesign.core.networks.builders import star
    >>> damaged(star(4, 10), ("h3", "s0>h1"), (("h0-s0", 4),)).bandwidth.tolist()
    [4, 10, 10, 4, 10]
    """
    network = as_network(network)
    bandwidth = network.bandwidth.copy()
    links: set[int] = set()
    nodes: set[int] = set()
    for text in [lost] if isinstance(lost, str) else lost:
        found = nodes_named(network, text)
        nodes |= set(found)
        if not found:
            links |= set(links_named(network, text).tolist())
    for text, width in slow:
        if not 1 <= width <= MAX_BANDWIDTH:
            raise ValueError(f"{text} has a bandwidth of {width}: it is 1 to {MAX_BANDWIDTH}")
        bandwidth[links_named(network, text)] = width
    named = network.changed(bandwidth, [network.name(at) for at in range(network.num_nodes)])
    return named.without(links, nodes)


def nodes_named(network: Network, text: str) -> list[int]:
    """The node of that name, or those whose names begin with it and a dot."""
    names = [network.name(node) for node in range(network.num_nodes)]
    if text in names:
        return [names.index(text)]
    return [node for node, name in enumerate(names) if name.startswith(f"{text}.")]


def links_named(network: Network, text: str) -> NDArray[np.int64]:
    """Ids of the links at a node, or between the two ends that a text names.

    Raises ValueError if there are none.
    """
    at_nodes = nodes_named(network, text)
    if at_nodes:
        return np.flatnonzero(np.isin(network.tail, at_nodes) | np.isin(network.head, at_nodes))
    for at, sign in enumerate(text):
        if sign not in (BOTH_WAYS, ONE_WAY):
            continue
        ends = nodes_named(network, text[:at]), nodes_named(network, text[at + 1 :])
        if not all(ends):
            continue
        there = np.isin(network.tail, ends[0]) & np.isin(network.head, ends[1])
        back = np.isin(network.tail, ends[1]) & np.isin(network.head, ends[0])
        found = np.flatnonzero(there | back if sign == BOTH_WAYS else there)
        if not len(found):
            raise ValueError(f"{text}: no link leads there")
        return found
    first, last = network.name(0), network.name(network.num_nodes - 1)
    raise ValueError(
        f"{text!r} is no node and no link of the network: these are such as {first} and "
        f"{first}>{last}"
    )
