"""Aggregation in the network: what no allreduce can beat whose switches add up and copy."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.cost import Cost

if TYPE_CHECKING:
    from ocs_codesign.network import Network


def in_network_bound(network: Network) -> Cost:
    """Steps and t_b that an allreduce takes at least, even if every switch adds up and copies.

    Every host sends its vector once and gets the sum once, so t_b is B over the least bandwidth out
    of or into a host: 1 if all are alike, where a ring takes 2 (N - 1) / N. A step is a hop here:
    up the switches and down again, as far as hosts are from each other. Raises ValueError if some
    host cannot reach another.

    >>> from ocs_codesign.networks.switched import star
    >>> in_network_bound(star(8, 10))
    Cost(steps=2, t_b=Fraction(1, 1))
    """
    hosts = network.num_hosts
    if hosts == 1:
        return Cost(0, Fraction(0))
    hops = network.topology().distances()[:hosts, :hosts]
    if hops.min() < 0:
        source, target = np.argwhere(hops < 0)[0].tolist()
        raise ValueError(f"no path leads from host {source} to host {target}")
    least = network.host_bandwidth()
    for end in (network.tail, network.head):
        total = np.zeros(network.num_nodes, dtype=np.int64)
        np.add.at(total, end, network.bandwidth)
        least = min(least, int(total[:hosts].min()))
    return Cost(int(hops.max()), Fraction(network.host_bandwidth(), least))
