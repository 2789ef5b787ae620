"""Direct-connect networks: hosts linked to hosts, as a topology says, or as a torus or mesh."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.given import kind_of, may_be_topology, read_later, takes_topology
from ocs_codesign.network import Network
from ocs_codesign.networks.cables import Cables, one_each
from ocs_codesign.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ocs_codesign.given import NetworkLike

_OF_TEXT = "ocs_codesign.graphs.text", "parse_network"


def as_network(given: NetworkLike) -> Network:
    """A network, or that of a topology with links of width 1; ValueError for anything else.

    >>> as_network("Complete(4)"), as_network("star(4, 100)")
    (Network(4 hosts, 0 switches, 12 links), Network(4 hosts, 1 switches, 8 links))
    """
    network = read_later(_OF_TEXT, given) if isinstance(given, str) else given
    if isinstance(network, Network):
        return network
    if not may_be_topology(network):
        raise ValueError(
            f"{kind_of(given)} is no network: give one such as star(8, 450), a recipe or a graph"
        )
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
