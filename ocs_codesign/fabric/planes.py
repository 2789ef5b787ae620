"""Planes: which circuits carry a topology's links, and in which plane each circuit is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.infeasible import InfeasibleError, Reason
from ocs_codesign.topology import Topology

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

NO_LINK = -1


@final
class Proof(Enum):
    """What shows that no fewer planes are enough."""

    DEGREE = "the ports that the links at one node take"
    ODD_SET = "an odd set of nodes, all but one of which a plane can join in pairs"
    SEARCH = "an exhaustive search"


@final
@dataclass(frozen=True, slots=True)
class Certificate:
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
    at_least: Certificate

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
    def num_loop_backs(self) -> int:
        """Circuits from a node to itself: they take ports and carry nothing anywhere."""
        return int(np.count_nonzero(self.a_node == self.b_node))

    @property
    def is_minimal(self) -> bool:
        """Whether it is proven that no fewer planes are enough."""
        return self.num_planes == self.at_least.num_planes

    def plane_of_link(self) -> NDArray[np.int32]:
        """The plane of every link (int32, links)."""
        plane = np.empty(self.topology.num_links, dtype=np.int32)
        for side in (0, 1):
            carries = self.link[:, side] != NO_LINK
            plane[self.link[carries, side]] = self.plane[carries]
        return plane

    def ports(self) -> NDArray[np.int64]:
        """The node's port that either end of every circuit takes in its plane, circuits x 2.

        Port v is node v's A port and port N + v its B port; without sides both are v.
        """
        b_side = self.topology.num_nodes if self.port_model.has_b_side else 0
        return np.stack([self.a_node, self.b_node.astype(np.int64) + b_side], axis=1)


def check_equal_speeds(topology: Topology) -> None:
    """Raise InfeasibleError (SPEED) if links differ in speed: the circuits of a fabric do not."""
    if topology.link_speed is not None and len(np.unique(topology.link_speed)) > 1:
        speeds = topology.link_speed
        raise InfeasibleError(
            Reason.SPEED,
            f"links have speeds from {speeds.min()} to {speeds.max()}: all circuits of a fabric "
            f"are equally fast",
        )


def one_way_circuits(topology: Topology) -> NDArray[np.int32]:
    """One circuit a link, circuits x 2."""
    link = np.full((topology.num_links, 2), NO_LINK, dtype=np.int32)
    link[:, 0] = np.arange(topology.num_links)
    return link


def two_way_circuits(topology: Topology) -> NDArray[np.int32]:
    """Every link paired with one in the other direction, circuits x 2, by their first link.

    Self-loops of a node are paired with one another; an odd one stays alone. Raises
    InfeasibleError (ONE_WAY) if a link has no reverse.

    >>> two_way_circuits(Topology(3, [0, 1, 1, 2, 2], [1, 0, 2, 1, 2])).tolist()
    [[0, 1], [2, 3], [4, -1]]
    """
    tail, head = topology.tail.astype(np.int64), topology.head.astype(np.int64)
    key = np.minimum(tail, head) * topology.num_nodes + np.maximum(tail, head)
    forward, backward = np.flatnonzero(tail < head), np.flatnonzero(tail > head)
    forward = forward[np.argsort(key[forward], kind="stable")]
    backward = backward[np.argsort(key[backward], kind="stable")]
    _check_reverses(topology, key[forward], key[backward])
    loops = np.flatnonzero(tail == head)
    loops = loops[np.argsort(key[loops], kind="stable")]
    # Loops of a node are neighbours in the order: the 1st, 3rd, ... takes the next one along.
    _, first, place = np.unique(key[loops], return_index=True, return_inverse=True)
    rank = np.arange(len(loops)) - first[place]
    single = loops[rank % 2 == 0]
    mate = np.full(topology.num_links, NO_LINK, dtype=np.int64)
    second = np.flatnonzero(rank % 2 == 1)
    mate[loops[second - 1]] = loops[second]
    pairs = np.stack([np.concatenate([forward, single]), np.concatenate([backward, mate[single]])])
    # The first link of a circuit is the one of lower number, wherever it leads.
    swap = (pairs[1] != NO_LINK) & (pairs[1] < pairs[0])
    pairs[:, swap] = pairs[::-1, swap]
    return pairs[:, np.argsort(pairs[0], kind="stable")].T.astype(np.int32)


def _check_reverses(
    topology: Topology, forward: NDArray[np.int64], backward: NDArray[np.int64]
) -> None:
    if np.array_equal(forward, backward):
        return
    keys, counts = np.unique(np.concatenate([forward, backward]), return_counts=True)
    for key in keys[np.argsort(counts, kind="stable")]:
        there, back = np.count_nonzero(forward == key), np.count_nonzero(backward == key)
        if there != back:
            low, high = divmod(int(key), topology.num_nodes)
            raise InfeasibleError(
                Reason.ONE_WAY,
                f"{there} links lead from node {low} to {high} but {back} back: circuits that "
                f"carry both directions need a reverse for every link",
            )


def circuit_degrees(topology: Topology, link: NDArray[np.int32]) -> NDArray[np.int64]:
    """Circuit ends at every node (N): a loop-back has both ends at one."""
    ends = [topology.tail[link[:, 0]], topology.head[link[:, 0]]]
    return np.bincount(np.concatenate(ends), minlength=topology.num_nodes)


def given_planes(topology: Topology, port_model: PortModel, plane: ArrayLike) -> Planes:
    """The circuits of links whose planes someone chose (``plane``: one number a link).

    Raises ValueError for another number of planes than links or numbers below 0, and
    InfeasibleError (PLANES) if a plane has two links at one port.
    """
    plane_of = np.asarray(plane)
    if plane_of.shape != (topology.num_links,) or plane_of.dtype.kind not in "iu":
        raise ValueError(
            f"plane has shape {plane_of.shape}: it must be {topology.num_links} integers, one a "
            f"link"
        )
    if plane_of.size and plane_of.min() < 0:
        raise ValueError(f"plane names plane {plane_of.min()}: planes count from 0")
    check_equal_speeds(topology)
    circuits = [np.empty((0, 2), dtype=np.int32)]
    numbers = [np.empty(0, dtype=np.int32)]
    for number in np.unique(plane_of):
        links = np.flatnonzero(plane_of == number)
        link = _circuits_of_plane(topology, port_model, links)
        circuits.append(link)
        numbers.append(np.full(len(link), number, dtype=np.int32))
    link, number_of = np.concatenate(circuits), np.concatenate(numbers)
    order = np.argsort(link[:, 0], kind="stable")
    used = int(plane_of.max(initial=-1)) + 1
    certificate = degree_certificate(topology, port_model)
    planes = Planes(port_model, topology, link[order], number_of[order], used, certificate)
    check_ports(planes)
    return planes


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


def _circuits_of_plane(
    topology: Topology, port_model: PortModel, links: NDArray[np.int64]
) -> NDArray[np.int32]:
    from ocs_codesign.fabric.planes_two_sided import oriented

    part = Topology(topology.num_nodes, topology.tail[links], topology.head[links])
    if not port_model.is_bidirectional:
        link = one_way_circuits(part)
    else:
        link = two_way_circuits(part)
        if port_model is PortModel.TWO_SIDED:
            link = oriented(part, link)
    whole: NDArray[np.int32] = np.where(link == NO_LINK, NO_LINK, links[link]).astype(np.int32)
    return whole


def degree_certificate(topology: Topology, port_model: PortModel) -> Certificate:
    """The planes that the node of largest degree needs by itself."""
    nodes = topology.num_nodes
    if not port_model.is_bidirectional:
        degrees = np.maximum(topology.out_degrees(), topology.in_degrees())
        node = int(degrees.argmax())
        degree = int(degrees[node])
        sentence = f"node {node} has {degree} links on one side, and a plane holds one"
        return Certificate(degree, Proof.DEGREE, (node,), sentence)
    degrees = circuit_degrees(topology, two_way_circuits(topology))
    node = int(degrees.argmax())
    degree, a_plane = int(degrees[node]), 2 if port_model.has_b_side else 1
    sentence = f"node {node} of {nodes} has {degree} circuit ends, and a plane holds {a_plane}"
    return Certificate(-(-degree // a_plane), Proof.DEGREE, (node,), sentence)
