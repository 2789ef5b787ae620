"""Networks after losses: nodes and links named as people name them, gone or slower."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.network import MAX_BANDWIDTH
from ocs_codesign.networks.direct import as_network

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ocs_codesign.given import NetworkLike
    from ocs_codesign.network import Network

BOTH_WAYS, ONE_WAY = "-", ">"


def damaged(
    network: NetworkLike,
    lost: str | Sequence[str] = (),
    slow: Sequence[tuple[str, int]] = (),
) -> Network:
    """The network without what is ``lost``, and with links of another bandwidth where ``slow``.

    What is lost is a node by its name (``h3`` and ``s0`` for host and switch number 3 and 0 where
    there are no names), all nodes whose names begin with it and a dot (``server3``,
    ``server3.nic1``), all links between two of these (``h0-s0``), or those one way (``h0>s0``). A
    node that is slow has slow links. What is left keeps its names. Raises ValueError for what is
    not there.

    >>> from ocs_codesign.networks.switched import star
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
