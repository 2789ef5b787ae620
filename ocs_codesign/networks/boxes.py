"""Boxes: servers of hosts with an inner switch or inner links, joined by rails or direct links."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.given import as_topology
from ocs_codesign.networks.cables import Cables, check_hosts, one_each

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ocs_codesign.given import TopologyLike
    from ocs_codesign.network import Network
    from ocs_codesign.topology import Topology

INNER, OUTER = 0, 1
"""Dimensions: links inside a box, and links between boxes."""


def boxes(
    num_boxes: int,
    hosts_per_box: int,
    inner_bandwidth: int,
    outer_bandwidth: int,
    *,
    inner: TopologyLike | None = None,
    outer: TopologyLike | int = 1,
    latency: int | Sequence[int] = 0,
    unit: str = "",
) -> Network:
    """``num_boxes`` boxes; host g of box b is node b * hosts_per_box + g.

    Inside, hosts hang on one switch, or on the links of ``inner``, a topology of the hosts of a box
    whose speeds multiply the bandwidth. Between boxes, host g of every box has a link to and from
    rail switch g modulo ``outer``; or ``outer`` is a topology of the boxes, and the p-th link out
    of (into) a box is one of its host p modulo hosts_per_box. ``latency`` is one for all links, or
    those inside and between. One box has no links between.

    >>> boxes(2, 8, 300, 25, outer=2)
    Network(16 hosts, 4 switches, 64 links)
    """
    if num_boxes < 1 or hosts_per_box < 1:
        raise ValueError(f"{num_boxes} boxes of {hosts_per_box} hosts: both are at least 1")
    check_hosts(num_boxes * hosts_per_box)
    latencies = one_each(latency, 2, "latency")
    hosts = np.arange(num_boxes * hosts_per_box).reshape(num_boxes, hosts_per_box)
    cables, num_nodes = Cables(), hosts.size
    if inner is None:
        switch = num_nodes + np.arange(num_boxes)
        cables.add(hosts, switch[:, None], inner_bandwidth, latencies[INNER], INNER)
        num_nodes += num_boxes
    else:
        inner = as_topology(inner)
        _check_nodes(inner, hosts_per_box, "inner topology", "hosts of a box")
        speeds = np.tile(inner.speeds() * inner_bandwidth, num_boxes)
        ends = (hosts[:, inner.tail], hosts[:, inner.head])
        cables.add(*ends, speeds, latencies[INNER], INNER, both_ways=False)
    if not isinstance(outer, (int, np.integer)):
        outer = as_topology(outer)
        _check_nodes(outer, num_boxes, "outer topology", "boxes")
        ends = (_ports(hosts, outer.tail), _ports(hosts, outer.head))
        speeds = outer.speeds() * outer_bandwidth
        cables.add(*ends, speeds, latencies[OUTER], OUTER, both_ways=False)
    elif num_boxes > 1:
        if not 1 <= outer <= hosts_per_box:
            raise ValueError(f"{outer} rails: a box has 1 to {hosts_per_box}, one a host at most")
        rail = num_nodes + np.arange(hosts_per_box) % outer
        cables.add(hosts, rail, outer_bandwidth, latencies[OUTER], OUTER)
        num_nodes += outer
    return cables.network(hosts.size, num_nodes, unit)


def _ports(hosts: np.ndarray, box: np.ndarray) -> np.ndarray:
    """The host that has each link's end: the links of a box take its hosts in turn."""
    order = np.argsort(box, kind="stable")
    first = np.searchsorted(box[order], np.arange(len(hosts)))
    port = np.empty(len(box), dtype=np.int64)
    port[order] = np.arange(len(box)) - first[box[order]]
    taken: np.ndarray = hosts[box, port % hosts.shape[1]]
    return taken


def _check_nodes(topology: Topology, number: int, name: str, what: str) -> None:
    if topology.num_nodes != number:
        raise ValueError(
            f"the {name} has {topology.num_nodes} nodes, but there are {number} {what}"
        )
