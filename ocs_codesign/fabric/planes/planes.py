"""Planes: which circuits carry a topology's links, and in which plane each circuit is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.fabric.infeasible import InfeasibleError, Reason
from ocs_codesign.fabric.planes.circuits import (
    check_equal_speeds,
    circuits_of,
    circuits_of_links,
    ends_of,
    two_way_circuits,
)
from ocs_codesign.factorisation import NO_LINK

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from ocs_codesign.fabric.description import PortModel
    from ocs_codesign.topology import Topology


@final
class Proof(Enum):
    """What shows that no fewer planes are enough."""

    DEGREE = "the ports that the links at one node take"
    ODD_SET = "an odd set of nodes, all but one of which a plane can join in pairs"
    SEARCH = "an exhaustive search"


@final
@dataclass(frozen=True, slots=True)
class PlanesCertificate:
    """A proof that fewer than ``num_planes`` planes do not hold a topology.

    ``nodes`` are those that it speaks of: the node of largest degree, or the odd set. ``sentence``
    says it with numbers.
    """

    num_planes: int
    proof: Proof
    nodes: tuple[int, ...]
    sentence: str


@final
@dataclass(frozen=True, slots=True, eq=False)
class Planes:
    """The circuits of a topology and the plane of each.

    Circuit c leads from the node ``a_node[c]`` to ``b_node[c]`` in plane ``plane[c]`` (int32) and
    carries link ``link[c, 0]`` forward and ``link[c, 1]`` backward (int32, circuits x 2; -1 for a
    direction that no link uses). ``num_planes`` are in use or, of planes that someone else chose,
    counted from 0 without gaps; ``at_least`` proves how many are needed.
    """

    port_model: PortModel
    topology: Topology
    link: NDArray[np.int32]
    plane: NDArray[np.int32]
    num_planes: int
    at_least: PlanesCertificate

    @property
    def num_circuits(self) -> int:
        """Circuits, loop-backs included."""
        return len(self.plane)

    @property
    def a_node(self) -> NDArray[np.int32]:
        """The node at the A end of every circuit."""
        return self.topology.tail[self.link[:, 0]]

    @property
    def b_node(self) -> NDArray[np.int32]:
        """The node at the B end of every circuit."""
        return self.topology.head[self.link[:, 0]]

    @property
    def is_minimal(self) -> bool:
        """Whether it is proven that no fewer planes are enough."""
        return self.num_planes == self.at_least.num_planes

    def plane_of_link(self) -> NDArray[np.int32]:
        """The plane of every link (int32, links)."""
        return self.plane[circuits_of_links(self.link)[0]]

    def ports(self) -> NDArray[np.int64]:
        """The node's port that either end of every circuit takes in its plane, circuits x 2.

        Port v is node v's A port and port N + v its B port; without sides both are v.
        """
        b_side = self.topology.num_nodes if self.port_model.has_b_side else 0
        return np.stack([self.a_node, self.b_node.astype(np.int64) + b_side], axis=1)


def plane_numbers(
    topology: Topology, plane: ArrayLike, num_planes: int | None = None
) -> NDArray[np.int32]:
    """One plane a link, as int32; ValueError unless they are whole numbers of planes there are."""
    planes = np.asarray(plane)
    if planes.shape != (topology.num_links,) or planes.dtype.kind not in "iu":
        raise ValueError(
            f"plane has shape {planes.shape}: it must be {topology.num_links} integers, one a link"
        )
    bad = planes[(planes < 0) | (planes >= (np.inf if num_planes is None else num_planes))]
    if len(bad):
        there = "count from 0" if num_planes is None else f"are 0 to {num_planes - 1}"
        raise ValueError(f"plane names plane {bad[0]}: planes {there}")
    return planes.astype(np.int32)


def given_planes(topology: Topology, port_model: PortModel, plane: ArrayLike) -> Planes:
    """The circuits of links whose planes someone chose (``plane``: one number a link).

    Raises ValueError for another number of planes than links or numbers below 0, and
    InfeasibleError if a link has no reverse in its plane (ONE_WAY) or a plane has two links at one
    port (PLANES).
    """
    planes = plane_numbers(topology, plane)
    check_equal_speeds(topology)
    link = circuits_of(topology, port_model, planes)
    made = Planes(
        port_model,
        topology,
        link,
        planes[link[:, 0]],
        int(planes.max(initial=-1)) + 1,
        degree_certificate(topology, port_model),
    )
    check_ports(made)
    return made


def check_ports(planes: Planes) -> None:
    """Raise InfeasibleError (PLANES) if a plane has two circuits at one port.

    Raises ValueError unless every link is carried once, by a circuit that leads where it does.
    """
    topology = planes.topology
    carried = np.sort(planes.link[planes.link != NO_LINK])
    back = planes.link[planes.link[:, 1] != NO_LINK]
    turns = (topology.tail[back[:, 0]] == topology.head[back[:, 1]]) & (
        topology.head[back[:, 0]] == topology.tail[back[:, 1]]
    )
    if not np.array_equal(carried, np.arange(topology.num_links)) or not turns.all():
        raise ValueError("the circuits do not carry every link once, in its direction")
    ports = planes.ports() + planes.plane[:, None].astype(np.int64) * 2 * topology.num_nodes
    port, count = np.unique(ports, return_counts=True)
    if (count > 1).any():
        plane, at = divmod(int(port[count > 1][0]), 2 * topology.num_nodes)
        raise InfeasibleError(
            Reason.PLANES,
            f"plane {plane} would have {count.max()} circuits at one port of node "
            f"{at % topology.num_nodes}: it holds one",
        )


def degree_certificate(topology: Topology, port_model: PortModel) -> PlanesCertificate:
    """The planes that the node of largest degree needs by itself."""
    nodes, held = topology.num_nodes, 2 if port_model.can_turn else 1
    if port_model.is_bidirectional:
        ends = ends_of(topology, two_way_circuits(topology))
        degrees = ends.out_degrees() + ends.in_degrees()
        what = f"of {nodes} has {degrees.max()} circuit ends, and a plane holds {held}"
    else:
        degrees = np.maximum(topology.out_degrees(), topology.in_degrees())
        what = f"has {degrees.max()} links on one side, and a plane holds one"
    node = int(degrees.argmax())
    needed = -(-int(degrees[node]) // held)
    return PlanesCertificate(needed, Proof.DEGREE, (node,), f"node {node} {what}")
