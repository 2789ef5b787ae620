"""Groups of nodes side by side on one topology: what their messages load its links with.

Every message takes all shortest paths evenly. All groups of a span send at once: the nodes whose
number differs by multiples of a stride inside a block.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.cost import Cost

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.topology import Topology

MAX_NODES_ROUTED = 512
"""Largest topology whose shortest paths are all walked in passing."""
_GRAIN = 2**20


@final
@dataclass(frozen=True, slots=True)
class GroupCosts:
    """What groups of nodes side by side pay on a topology whose links they share.

    ``gathers`` are costs of an allgather, of which the mirror is a reduce-scatter: each rank sends
    its shard to all others, or round the group as round a ring, one way or both. ``exchange``
    is that of an all-to-all, ``hand_on`` that of a message to the next rank, the dearer way.
    """

    gathers: tuple[Cost, ...]
    exchange: Cost
    hand_on: Cost


@lru_cache(maxsize=4096)
def group_costs(topology: Topology, size: int, stride: int) -> GroupCosts:
    """What the groups of ``size`` nodes that are ``stride`` apart pay, in M over a node's egress.

    Loads are rounded up to a millionth. Raises ValueError for topologies that are too large, links
    of different speeds, and groups that do not divide the nodes.

    >>> from ocs_codesign.graphs.text import parse
    >>> group_costs(parse("Torus((4, 4))").topology(), 4, 1).exchange
    Cost(steps=2, t_b=Fraction(2, 1))
    """
    nodes = topology.num_nodes
    if nodes > MAX_NODES_ROUTED:
        raise ValueError(f"{nodes} nodes: at most {MAX_NODES_ROUTED} are routed in passing")
    if nodes % (size * stride) or len(set(topology.speeds().tolist())) > 1:
        raise ValueError(f"groups of {size}, {stride} apart, do not divide {nodes} equal nodes")
    place = np.arange(nodes) // stride % size
    block = np.arange(nodes) // (stride * size) * stride + np.arange(nodes) % stride
    together = block[:, None] == block[None, :]
    np.fill_diagonal(together, val=False)
    step = (place[None, :] - place[:, None]) % size
    forward, backward = together & (step == 1), together & (step == size - 1)
    distances = topology.distances()
    degree = topology.degree
    everyone = _most(topology, together) * degree
    round_it = _most(topology, forward) * degree
    back = _most(topology, backward) * degree
    both = _most(topology, forward | backward) * degree
    hops = int(distances[together].max(initial=0))
    next_hops = int(distances[forward | backward].max(initial=0))
    # Neighbours that hand on do not close the ring, but the last of one may share links with it.
    whole = Fraction(size - 1, size)
    return GroupCosts(
        (
            Cost(hops, everyone / size),
            Cost((size - 1) * next_hops, max(round_it, back) * whole),
            Cost(size // 2 * next_hops, both * whole / (2 if size > 2 else 1)),
        ),
        Cost(hops, everyone / size),
        Cost(next_hops, max(round_it, back)),
    )


def _most(topology: Topology, sends: NDArray[np.bool_]) -> Fraction:
    """The largest load of a link, in messages, when these pairs send one each."""
    distances = topology.distances().astype(np.int64)
    tail, head = topology.tail, topology.head
    paths = np.eye(topology.num_nodes)
    longest = int(distances[sends].max(initial=0))
    on_path = distances[:, head] == distances[:, tail] + 1
    for level in range(1, longest + 1):
        at = on_path & (distances[:, head] == level)
        source, link = np.nonzero(at)
        np.add.at(paths, (source, head[link]), paths[source, tail[link]])
    carried = sends.astype(float)
    load = np.zeros(topology.num_links)
    for level in range(longest, 0, -1):
        source, link = np.nonzero(on_path & (distances[:, head] == level))
        share = paths[source, tail[link]] / paths[source, head[link]]
        flow = share * carried[source, head[link]]
        np.add.at(load, link, flow)
        np.add.at(carried, (source, tail[link]), flow)
    most = float(load.max(initial=0.0))
    return Fraction(ceil(most * _GRAIN - 1e-6), _GRAIN)
