"""What is left of a topology after a loss, and what collectives cost on it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.bounds import topology_bound
from ocs_codesign.collective import Collective
from ocs_codesign.cost import Cost
from ocs_codesign.design import measure_topology
from ocs_codesign.fabric.components import strong_components
from ocs_codesign.topology import Symmetry, Topology

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@final
@dataclass(frozen=True, slots=True)
class AllToAllTime:
    """All-to-all time of what is left: that of a routing, or None where only bounded; see bound.

    Without a ``time``, ``bound`` is that of hops, ingress and egress; else what the solver proved.
    """

    time: Fraction | None
    bound: Fraction

    @property
    def is_optimal(self) -> bool:
        """Whether the time is proven to be the least."""
        return self.time == self.bound


@final
@dataclass(frozen=True, slots=True)
class Remainder:
    """A topology after a loss: its size, strongly connected components, and costs.

    ``largest_component`` has so many nodes. ``cost`` is exact BFB's on what is left, generated
    anew, and ``alltoall`` the time when messages may split, both in units of M/B of the intact
    topology; these and ``diameter`` are None unless it is strongly connected. A single node has
    nothing to do: no steps and no time.
    """

    num_nodes: int
    num_links: int
    num_components: int
    largest_component: int
    diameter: int | None
    cost: Cost | None
    alltoall: AllToAllTime | None

    @property
    def is_connected(self) -> bool:
        """Whether every node reaches every other one."""
        return self.num_components == 1


def cost_without(
    topology: Topology, nodes: Sequence[int], collective: Collective | str
) -> Cost | None:
    """What BFB costs where nodes are gone and nothing is joined in their place; None if cut off.

    In units of M/B with B the egress of a node of the whole topology.

    >>> from ocs_codesign.graphs.families.dense import Complete
    >>> cost_without(Complete(5).topology(), [0, 2], "allgather")
    Cost(steps=1, t_b=Fraction(4, 3))
    """
    stays = ~(np.isin(topology.tail, nodes) | np.isin(topology.head, nodes))
    gone = np.sort(np.asarray(nodes))
    tail, head = topology.tail[stays], topology.head[stays]
    speed = None if topology.link_speed is None else topology.link_speed[stays]
    left = Topology(
        topology.num_nodes - len(gone),
        tail - np.searchsorted(gone, tail),
        head - np.searchsorted(gone, head),
        speed,
    )
    if len(np.unique(strong_components(left.tail, left.head, left.num_nodes))) > 1:
        return None
    measured = measure_topology(left, Collective.parse_gathering(collective)).cost
    scale = Fraction(topology.node_speed(), left.node_speed())
    return Cost(measured.steps, measured.t_b * scale)


def survivors(topology: Topology, lost: NDArray[np.bool_], node: int | None) -> Topology:
    """The topology without the lost links (bool, links) and, if given, without a node.

    The nodes after it move up by one. A declared symmetry stays if its orbits are lost as a whole.
    """
    stays = ~lost
    tail, head = topology.tail[stays], topology.head[stays]
    nodes = topology.num_nodes
    if node is not None:
        tail, head, nodes = tail - (tail > node), head - (head > node), nodes - 1
    speed = None if topology.link_speed is None else topology.link_speed[stays]
    symmetry = _left_of(topology.symmetry, lost) if node is None else None
    return Topology(nodes, tail, head, speed, symmetry)


def _left_of(symmetry: Symmetry | None, lost: NDArray[np.bool_]) -> Symmetry | None:
    """The symmetry of the links that stay, None if the loss cuts an orbit in two."""
    if symmetry is None or np.isin(symmetry.link_orbit[lost], symmetry.link_orbit[~lost]).any():
        return None
    orbit = np.unique(symmetry.link_orbit[~lost], return_inverse=True)[1]
    return Symmetry(symmetry.node_orbit.copy(), orbit.reshape(-1).astype(np.int32))


def remainder(
    topology: Topology, node_speed: int, collective: Collective, max_columns: int
) -> Remainder:
    """What collectives cost on what is left, with B the egress ``node_speed`` of a node."""
    nodes, links = topology.num_nodes, topology.num_links
    sizes = np.bincount(strong_components(topology.tail, topology.head, nodes))
    diameter, cost, alltoall = None, None, None
    if nodes == 1:
        nothing = Fraction(0)
        diameter, cost, alltoall = 0, Cost(0, nothing), AllToAllTime(nothing, nothing)
    elif len(sizes) == 1:
        diameter = topology.diameter()
        scale = Fraction(node_speed, topology.node_speed())
        measured = measure_topology(topology, collective).cost
        cost = Cost(measured.steps, measured.t_b * scale)
        alltoall = _alltoall(topology, diameter, scale, max_columns)
    return Remainder(nodes, links, len(sizes), int(sizes.max()), diameter, cost, alltoall)


def _alltoall(topology: Topology, diameter: int, scale: Fraction, max_columns: int) -> AllToAllTime:
    from ocs_codesign.schedulers.alltoall.throughput import columns_to_solve, throughput

    if columns_to_solve(topology) > max_columns:
        bound = topology_bound(topology, Collective.ALLTOALL, diameter).t_b
        return AllToAllTime(None, bound * scale)
    routed = throughput(topology)
    return AllToAllTime(routed.time * scale, routed.bound * scale)
