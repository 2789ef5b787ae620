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
from ocs_codesign.kernels import for_work
from ocs_codesign.runs import starts_of
from ocs_codesign.workload.codesign.group_load_kernels import walk_groups

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.topology import Topology

MAX_NODES_ROUTED = 4096
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
    loads, hops = np.zeros((3, topology.num_links)), np.zeros(3, dtype=np.int64)
    link = np.argsort(topology.tail, kind="stable")
    start = starts_of(topology.out_degrees()).astype(np.int64)
    walk = for_work(walk_groups, nodes * (nodes + 4 * topology.num_links))
    walk(start, link, topology.head, size, stride, loads, hops)
    both = loads[1] + loads[2] if size > 2 else loads[1]
    everyone, forward, backward, round_it = (
        _most(load) * topology.degree for load in (*loads, both)
    )
    next_hops = int(hops[1:].max())
    # Neighbours that hand on do not close the ring, but the last of one may share links with it.
    whole = Fraction(size - 1, size)
    return GroupCosts(
        (
            Cost(int(hops[0]), everyone / size),
            Cost((size - 1) * next_hops, max(forward, backward) * whole),
            Cost(size // 2 * next_hops, round_it * whole / (2 if size > 2 else 1)),
        ),
        Cost(int(hops[0]), everyone / size),
        Cost(next_hops, max(forward, backward)),
    )


def _most(loads: NDArray[np.float64]) -> Fraction:
    most = float(loads.max(initial=0.0))
    return Fraction(ceil(most * _GRAIN - 1e-6), _GRAIN)
