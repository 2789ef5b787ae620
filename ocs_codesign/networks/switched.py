"""Switched networks: stars and fat trees."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.networks.cables import Cables, check_hosts, one_each

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ocs_codesign.network import Network


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
