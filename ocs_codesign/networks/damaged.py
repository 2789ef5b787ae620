"""Networks after losses: nodes and links named as people name them, gone or slower."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.network import MAX_BANDWIDTH, Network

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

BOTH_WAYS, ONE_WAY = "-", ">"


def damaged(
    network: Network, lost: str | Sequence[str] = (), slow: Sequence[tuple[str, int]] = ()
) -> Network:
    """The network without what is ``lost``, and with links of another bandwidth where ``slow``.

    What is lost is a node by its name (``h3`` and ``s0`` for host and switch number 3 and 0 where
    there are no names), all nodes whose names begin with it and a dot (``server3``,
    ``server3.nic1``), all links between two of these (``h0-s0``), or those one way (``h0>s0``).
    Nodes that are left keep their names. Raises ValueError for what is not there.

    >>> from ocs_codesign.networks.switched import star
    >>> damaged(star(4, 10), ("h3", "s0>h1"), (("h0-s0", 4),)).bandwidth.tolist()
    [4, 10, 10, 4, 10]
    """
    bandwidth = network.bandwidth.copy()
    links: set[int] = set()
    nodes: set[int] = set()
    for text in [lost] if isinstance(lost, str) else lost:
        found = _nodes(network, text)
        nodes |= set(found)
        if not found:
            links |= set(_links(network, text).tolist())
    for text, width in slow:
        if not 1 <= width <= MAX_BANDWIDTH:
            raise ValueError(f"{text} has a bandwidth of {width}: it is 1 to {MAX_BANDWIDTH}")
        bandwidth[_links(network, text)] = width
    named = Network(
        *(network.num_hosts, network.num_nodes, network.tail, network.head, bandwidth),
        network.latency,
        network.dimension,
        multicast=np.flatnonzero(network.multicast).tolist(),
        aggregate=np.flatnonzero(network.aggregate).tolist(),
        unit=network.unit,
        tick_s=network.tick_s,
        names=[network.name(node) for node in range(network.num_nodes)],
    )
    return named.without(links, nodes)


def _nodes(network: Network, text: str) -> list[int]:
    """The node of that name, or those whose names begin with it and a dot."""
    names = [network.name(node) for node in range(network.num_nodes)]
    if text in names:
        return [names.index(text)]
    return [node for node, name in enumerate(names) if name.startswith(f"{text}.")]


def _links(network: Network, text: str) -> NDArray[np.int64]:
    """Ids of the links between the two ends that a text names; ValueError if there are none."""
    for at, sign in enumerate(text):
        if sign not in (BOTH_WAYS, ONE_WAY):
            continue
        ends = _nodes(network, text[:at]), _nodes(network, text[at + 1 :])
        if not all(ends):
            continue
        there = np.isin(network.tail, ends[0]) & np.isin(network.head, ends[1])
        back = np.isin(network.tail, ends[1]) & np.isin(network.head, ends[0])
        found = np.flatnonzero(there | back if sign == BOTH_WAYS else there)
        if not len(found):
            raise ValueError(f"{text!r}: no link leads there")
        return found
    raise ValueError(
        f"{text!r} is no node of the network and no link: names are such as "
        f"{network.name(0)} and {network.name(network.num_nodes - 1)}, links such as "
        f"{network.name(0)}>{network.name(network.num_nodes - 1)}"
    )
