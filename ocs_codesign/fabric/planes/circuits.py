"""Circuits: which links of a topology each one carries, one way or both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.fabric.components import connected
from ocs_codesign.fabric.infeasible import InfeasibleError, Reason
from ocs_codesign.factorisation import NO_LINK
from ocs_codesign.topology import Topology

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.fabric.description import PortModel


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
