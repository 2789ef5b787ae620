"""Servers and clusters that people have, by the tables of their makers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.core.networks.builders import Cables, check_hosts
from ocs_codesign.core.networks.servers import _INNER_LEVEL, _OUTER_LEVEL, boxes
from ocs_codesign.core.topology import Topology

if TYPE_CHECKING:
    from ocs_codesign.core.network import Network


GIGABYTES = "GB/s"

_MI250 = {
    4: "0-1 2-3 4-5 6-7 8-9 10-11 12-13 14-15",
    2: "0-4 3-7 8-12 11-15",
    1: "0-8 1-5 1-9 1-10 2-6 2-9 2-10 3-11 4-6 5-6 5-7 9-13 10-14 12-14 13-14 13-15",
}
"""xGMI links (50 GB/s) between the 16 dies of an MI250 server, by how many lie side by side."""

_DGX1 = {2: "0-1 0-4 1-3 2-3 2-6 4-5 5-7 6-7", 1: "0-2 0-3 1-2 1-5 3-7 4-6 4-7 5-6"}
"""NVLinks between the 8 GPUs of a DGX-1 V100 (25 GB/s each)."""


def _inner(num_hosts: int, table: dict[int, str]) -> Topology:
    rows = [
        (*map(int, pair.split("-")), links)
        for links, pairs in table.items()
        for pair in pairs.split()
    ]
    one, other, speed = np.array(rows).T
    return Topology(num_hosts, [*one, *other], [*other, *one], [*speed, *speed])


def a100(num_boxes: int) -> Network:
    """DGX A100 servers: 8 GPUs on an NVSwitch (300 GB/s), NICs of 25 GB/s on two leaf switches.

    >>> a100(2)
    Network(16 hosts, 20 switches, 96 links)
    """
    network = boxes(num_boxes, 8, 300, 25, outer=2, unit=GIGABYTES)
    if num_boxes == 1:
        return network
    # Every GPU has a network card of its own between itself and the leaf.
    hosts, switches = network.num_hosts, network.num_nodes - 2
    cards = switches + np.arange(hosts)
    leaf = switches + hosts + np.arange(hosts) % 2
    cables = Cables()
    inner = network.dimension == _INNER_LEVEL
    cables.add(
        *(network.tail[inner], network.head[inner], network.bandwidth[inner]),
        *(0, _INNER_LEVEL),
        both_ways=False,
    )
    cables.add(np.arange(hosts), cards, 25, 0, _OUTER_LEVEL)
    cables.add(cards, leaf, 25, 0, _OUTER_LEVEL)
    return cables.network(hosts, switches + hosts + 2, GIGABYTES)


def h100_rail(num_boxes: int) -> Network:
    """DGX H100 servers: 8 GPUs on an NVSwitch (450 GB/s), GPU g of every box on rail g (50 GB/s).

    >>> h100_rail(2)
    Network(16 hosts, 10 switches, 64 links)
    """
    return boxes(num_boxes, 8, 450, 50, outer=8, unit=GIGABYTES)


def mi250(num_boxes: int) -> Network:
    """MI250 servers: 16 dies linked by xGMI (50 GB/s a link), 16 GB/s each to one switch.

    >>> mi250(2)
    Network(32 hosts, 1 switches, 176 links)
    """
    return boxes(num_boxes, 16, 50, 16, inner=_inner(16, _MI250), unit=GIGABYTES)


def dgx1() -> Network:
    """A DGX-1: 8 V100 linked by NVLink (25 GB/s a link).

    >>> dgx1()
    Network(8 hosts, 0 switches, 32 links)
    """
    return boxes(1, 8, 25, 1, inner=_inner(8, _DGX1), unit=GIGABYTES)


def ndv2(num_boxes: int) -> Network:
    """NDv2 servers: a DGX-1 each, out of GPU 0 and into GPU 1 at 12.5 GB/s (unit 0.5 GB/s).

    Two of them are linked directly, more through a switch.

    >>> ndv2(2)
    Network(16 hosts, 0 switches, 66 links)
    """
    network = boxes(num_boxes, 8, 50, 1, inner=_inner(8, _DGX1))
    return _one_way(network, num_boxes, 8, [(0, 1)], 25)


def dgx2(num_boxes: int) -> Network:
    """DGX-2 servers: 16 GPUs on an NVSwitch (125 GB/s), odd GPUs out to even ones (12.5 GB/s).

    Two of them: GPU g sends to GPU g - 1 of the other, in units of 0.5 GB/s; more through a switch.

    >>> dgx2(2)
    Network(32 hosts, 2 switches, 80 links)
    """
    network = boxes(num_boxes, 16, 250, 1)
    return _one_way(network, num_boxes, 16, [(gpu, gpu - 1) for gpu in range(1, 16, 2)], 25)


def _one_way(
    network: Network, num_boxes: int, hosts_per_box: int, ports: list[tuple[int, int]], width: int
) -> Network:
    """The boxes with links between them: out of the first host of every pair, into the second."""
    cables, inner = Cables(), network.dimension == _INNER_LEVEL
    columns = (network.tail[inner], network.head[inner], network.bandwidth[inner])
    cables.add(*columns, 0, _INNER_LEVEL, both_ways=False)
    first = hosts_per_box * np.arange(num_boxes)
    out, into = (np.array(end) for end in zip(*ports, strict=True))
    # The nodes up to the switches inside of boxes stay; boxes() puts what is between behind them.
    nodes = int(max(network.tail[inner].max(), network.head[inner].max())) + 1
    if num_boxes == 2:
        other = first[::-1]
        cables.add(
            first[:, None] + out, other[:, None] + into, width, 0, _OUTER_LEVEL, both_ways=False
        )
    elif num_boxes > 2:
        cables.add(first[:, None] + out, nodes, width, 0, _OUTER_LEVEL, both_ways=False)
        cables.add(nodes, first[:, None] + into, width, 0, _OUTER_LEVEL, both_ways=False)
        nodes += 1
    return cables.network(network.num_hosts, nodes, "0.5 GB/s")


def leaf_spine(
    num_leaves: int, hosts_per_leaf: int, num_spines: int, host_width: int, spine_width: int
) -> Network:
    """Leaf switches with hosts, each linked to every spine.

    >>> leaf_spine(4, 4, 2, 4, 4)
    Network(16 hosts, 6 switches, 48 links)
    """
    from ocs_codesign.core.networks.builders import fat_tree

    check_hosts(num_leaves * hosts_per_leaf)
    children, parents = (hosts_per_leaf, num_leaves), (1, num_spines)
    return fat_tree(children, parents, (host_width, spine_width))
