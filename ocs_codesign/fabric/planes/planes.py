"""Planes: which circuits carry a topology's links, and in which plane each circuit is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.compute.components import connected
from ocs_codesign.core.compute.factorisation import NO_LINK
from ocs_codesign.core.topology import Topology
from ocs_codesign.fabric.infeasible import InfeasibleError, Reason

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from ocs_codesign.fabric.description import PortModel


# Circuits: which links of a topology each one carries, one way or both.


def check_equal_speeds(topology: Topology) -> None:
    """Raise InfeasibleError (SPEED) if links differ in speed: the circuits of a fabric do not."""
    speeds = topology.link_speed
    if speeds is not None and len(np.unique(speeds)) > 1:
        raise InfeasibleError(
            Reason.SPEED,
            f"links have speeds from {speeds.min()} to {speeds.max()}: all circuits of a fabric "
            f"are equally fast",
        )


def circuits_of(
    topology: Topology, port_model: PortModel, plane: NDArray[np.integer] | None = None
) -> NDArray[np.int32]:
    """The circuits that carry all links: the links forward and backward, circuits x 2.

    With ``plane``, one number a link, both links of a circuit are of one plane. Circuits between an
    A port and a B port are turned such that every node has as many of both ends, up to one. Raises
    InfeasibleError (ONE_WAY) if circuits carry both directions and a link has no reverse.
    """
    if not port_model.is_bidirectional:
        link = np.full((topology.num_links, 2), NO_LINK, dtype=np.int32)
        link[:, 0] = np.arange(topology.num_links)
        return link
    link = two_way_circuits(topology, plane)
    return oriented(topology, link, plane) if port_model.can_turn else link


def two_way_circuits(
    topology: Topology, plane: NDArray[np.integer] | None = None
) -> NDArray[np.int32]:
    """Every link paired with one in the other direction, circuits x 2, by their first link.

    With ``plane``, one number a link, it is one of the same plane. Self-loops of a node are paired
    with one another; an odd one stays alone. Raises InfeasibleError (ONE_WAY) if a link has no
    reverse.

    >>> two_way_circuits(Topology(3, [0, 1, 1, 2, 2], [1, 0, 2, 1, 2])).tolist()
    [[0, 1], [2, 3], [4, -1]]
    """
    nodes, tail, head = topology.num_nodes, topology.tail, topology.head
    apart = nodes * (np.zeros(len(tail), np.int64) if plane is None else plane.astype(np.int64))
    pair = (apart + np.minimum(tail, head)) * nodes + np.maximum(tail, head)
    _check_reverses(pair, tail < head, tail > head, nodes)
    rank, is_loop = _rank((apart + tail) * nodes + head), tail == head
    backward = np.where(is_loop, rank % 2, tail > head)
    order = np.lexsort((backward, np.where(is_loop, rank // 2, rank), pair))
    link = np.full((int(np.count_nonzero(backward == 0)), 2), NO_LINK, dtype=np.int32)
    link[np.cumsum(backward[order] == 0) - 1, backward[order]] = order
    # The first link of a circuit is the one of lower number, wherever it leads.
    swap = (link[:, 1] != NO_LINK) & (link[:, 1] < link[:, 0])
    link[swap] = link[swap, ::-1]
    return link[np.argsort(link[:, 0], kind="stable")]


def _rank(key: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many of the same key come before each one."""
    order = np.argsort(key, kind="stable")
    rank = np.empty(len(key), dtype=np.int64)
    rank[order] = np.arange(len(key)) - np.searchsorted(key[order], key[order])
    return rank


def _check_reverses(
    pair: NDArray[np.int64], forward: NDArray[np.bool_], backward: NDArray[np.bool_], nodes: int
) -> None:
    pairs, of_link = np.unique(pair, return_inverse=True)
    there, back = (np.bincount(of_link[side], minlength=len(pairs)) for side in (forward, backward))
    unequal = np.flatnonzero(there != back)
    if len(unequal):
        plane, fewest = pairs[unequal] // nodes**2, (there + back)[unequal]
        first = unequal[np.lexsort((fewest, plane))[0]]
        low, high = divmod(int(pairs[first]) % nodes**2, nodes)
        raise InfeasibleError(
            Reason.ONE_WAY,
            f"{there[first]} links lead from node {low} to {high} but {back[first]} back: circuits "
            f"that carry both directions need a reverse for every link",
        )


def oriented(
    topology: Topology, link: NDArray[np.int32], plane: NDArray[np.integer] | None = None
) -> NDArray[np.int32]:
    """The circuits turned so that a node of degree D has at most D / 2, rounded up, at either end.

    With ``plane``, one number a link, that holds in every plane. Ends at a node are paired, which
    cuts the circuits into closed trails; each is walked in one direction. Source: J. Petersen
    (1891), Die Theorie der regulären Graphs, for even degrees.
    """
    circuits, nodes = len(link), topology.num_nodes
    ends = np.stack([topology.tail[link[:, 0]], topology.head[link[:, 0]]], axis=1).astype(np.int64)
    if plane is not None:
        ends += nodes * plane[link[:, :1]]
        nodes *= 1 + int(plane.max(initial=0))
    ends = ends.ravel()
    odd = np.flatnonzero(np.bincount(ends, minlength=nodes) % 2)
    # One more node joined with all of odd degree leaves none of odd degree.
    more = np.stack([odd, np.full(len(odd), nodes)], axis=1).ravel()
    every = np.concatenate([ends, more])
    at_node = np.argsort(every, kind="stable")
    mate = np.empty(len(every), dtype=np.int64)
    mate[at_node[0::2]], mate[at_node[1::2]] = at_node[1::2], at_node[0::2]
    # From the end where a circuit is entered to the end where the next one is.
    end = np.arange(len(every))
    trail = connected(end, mate[end ^ 1], len(every))
    forward = trail[0::2] < trail[1::2]
    turn = ~forward[:circuits] & (link[:, 1] != NO_LINK)
    out = link.copy()
    out[turn] = link[turn, ::-1]
    return out


def circuits_of_links(link: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The circuit of every link, and whether it crosses that backward, of ``link`` (circuits x 2).

    >>> [found.tolist() for found in circuits_of_links(np.array([[0, 2], [1, -1]]))]
    [[0, 1, 0], [False, False, True]]
    """
    circuit, backward = np.nonzero(link != NO_LINK)
    order = np.argsort(link[circuit, backward])
    return circuit[order], backward[order] == 1


def ends_of(topology: Topology, link: NDArray[np.int32]) -> Topology:
    """The circuits as links from their A ends to their B ends, without symmetry or speeds."""
    return Topology(topology.num_nodes, topology.tail[link[:, 0]], topology.head[link[:, 0]])


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
