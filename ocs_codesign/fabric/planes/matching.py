"""Planes of two-way circuits with one port a node: a plane is a matching, planes are colours.

D or D + 1 planes hold a simple graph of degree D, D + mu one with mu parallel links: V. G. Vizing
(1964). D hold a bipartite one: D. Kőnig (1916). Which it is, is NP-complete: I. Holyer (1981). An
odd set of nodes with more links than D matchings can have among them proves that D are too few.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.fabric.components import connected
from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.infeasible import InfeasibleError, Reason
from ocs_codesign.fabric.integers import least_integers
from ocs_codesign.fabric.planes.circuits import check_equal_speeds, ends_of, two_way_circuits
from ocs_codesign.fabric.planes.odd_sets import crowded_odd_set
from ocs_codesign.fabric.planes.planes import Planes, PlanesCertificate, Proof, degree_certificate
from ocs_codesign.factorisation import factorise
from ocs_codesign.topology import Topology

if TYPE_CHECKING:
    from numpy.typing import NDArray

FEW_MOVES = 5000
MAX_MOVES = 200_000
"""Moves of the search for a colouring, before a proof of the contrary is looked for and after."""
MAX_SEARCHED_LINKS = 200
TIME_LIMIT_S = 30.0
"""Size of graph, and time, up to which a colouring is searched for exhaustively."""
MAX_CUT_NODES = 2048
"""Nodes of a graph up to which an odd set is looked for that proves that planes are too few."""


def matching_planes(topology: Topology) -> Planes:
    """D planes or, if a proof or the search says so, more: see ``at_least`` and ``is_minimal``.

    Raises InfeasibleError: ONE_WAY if a link has no reverse, LOOP for a
    self-loop, which would join a port with itself.
    """
    check_equal_speeds(topology)
    link = two_way_circuits(topology)
    ends = ends_of(topology, link)
    loops = ends.tail[ends.tail == ends.head]
    if len(loops):
        raise InfeasibleError(
            Reason.LOOP,
            f"node {loops[0]} has a self-loop, but it has one port in a plane and no switch joins "
            f"a port with itself",
        )
    certificate = degree_certificate(topology, PortModel.MATCHING)
    plane = _bipartite_planes(ends)
    if plane is None:
        degree = certificate.num_planes
        certificate = _odd_component(ends, degree) or certificate
        plane, certificate = _coloured(ends, degree, certificate)
    num_planes = int(plane.max(initial=-1)) + 1
    return Planes(PortModel.MATCHING, topology, link, plane, num_planes, certificate)


def _bipartite_planes(ends: Topology) -> NDArray[np.int32] | None:
    """The planes of circuits that have two sides of nodes, by the degree; None if they have not."""
    one, other, nodes = ends.tail, ends.head, ends.num_nodes
    label = connected(np.concatenate([one, other]), np.concatenate([other, one]) + nodes, 2 * nodes)
    if (label[one] == label[one + nodes]).any():
        return None
    from_one = label[one] < label[one + nodes]
    tail, head = np.where(from_one, one, other), np.where(from_one, other, one)
    return factorise(Topology(nodes, tail, head))


def _coloured(
    ends: Topology, degree: int, certificate: PlanesCertificate
) -> tuple[NDArray[np.int32], PlanesCertificate]:
    from ocs_codesign.fabric.planes import colouring_kernels as kernels

    one, other, nodes = ends.tail.astype(np.int64), ends.head.astype(np.int64), ends.num_nodes
    pair = np.minimum(one, other) * nodes + np.maximum(one, other)
    always = degree + int(np.unique(pair, return_counts=True)[1].max(initial=0))
    num_planes = certificate.num_planes
    while num_planes <= always:
        for moves in (FEW_MOVES, MAX_MOVES):
            random = np.random.default_rng(num_planes)
            colours, done = kernels.colour_edges(one, other, nodes, num_planes, moves, random)
            if done:
                return colours.astype(np.int32), certificate
            crowded = _odd_set(ends, num_planes) if moves == FEW_MOVES else None
            if crowded is not None:
                break
        if crowded is not None:
            certificate, num_planes = crowded, crowded.num_planes
            continue
        if len(one) <= MAX_SEARCHED_LINKS:
            with suppress(InfeasibleError):  # NOT_FOUND: the time is over
                plane = _by_program(ends, num_planes)
                if plane is not None:
                    return plane, certificate
                sentence = f"an exhaustive search shows that {num_planes} matchings do not hold all"
                certificate = PlanesCertificate(num_planes + 1, Proof.SEARCH, (), sentence)
        num_planes += 1
    raise RuntimeError(f"{always} colours were not enough, which Vizing's theorem excludes")


def _by_program(ends: Topology, num_planes: int) -> NDArray[np.int32] | None:
    """A plane for every circuit by an integer program; None if it is proven that there is none."""
    circuits, nodes = ends.num_links, ends.num_nodes
    circuit, plane = np.indices((circuits, num_planes)).reshape(2, -1)
    column, once = np.arange(len(circuit)), np.ones(circuits)
    port = circuits + np.stack([ends.tail, ends.head])[:, circuit] * num_planes + plane
    # All planes are alike: circuits at the node of most may be in any order.
    most = np.ones((circuits, num_planes))
    hub = int((ends.out_degrees() + ends.in_degrees()).argmax())
    mine = np.flatnonzero((ends.tail == hub) | (ends.head == hub))
    most[mine] = np.eye(num_planes)[: len(mine)]
    found = least_integers(
        [(circuit, column, 1.0), (port[0], column, 1.0), (port[1], column, 1.0)],
        [(once, once), (np.full(nodes * num_planes, -np.inf), np.ones(nodes * num_planes))],
        most.ravel(),
        doing="colouring",
        time_limit_s=TIME_LIMIT_S,
    )
    return None if found is None else plane[found[0] == 1].astype(np.int32)


def _odd_component(ends: Topology, degree: int) -> PlanesCertificate | None:
    """The proof by the component of odd size with most links a matching can hold of it."""
    label = connected(ends.tail, ends.head, ends.num_nodes)
    links = np.bincount(label[ends.tail])
    size = np.bincount(label)[: len(links)]
    planes = np.where(size % 2 == 1, -(-links // np.maximum(size // 2, 1)), 0)
    best = int(planes.argmax())
    return _crowded(np.flatnonzero(label == best), ends) if planes[best] > degree else None


def _odd_set(ends: Topology, num_planes: int) -> PlanesCertificate | None:
    """The proof by any odd set that so many planes are too few; None in graphs too large, too."""
    if ends.num_nodes > MAX_CUT_NODES:
        return None
    members = crowded_odd_set(ends, num_planes)
    return None if members is None else _crowded(members, ends)


def _crowded(members: NDArray[np.int64], ends: Topology) -> PlanesCertificate:
    inside = int(np.count_nonzero(np.isin(ends.tail, members) & np.isin(ends.head, members)))
    half = len(members) // 2
    sentence = (
        f"{inside} links join {len(members)} nodes, and a matching has at most {half} among them"
    )
    return PlanesCertificate(-(-inside // half), Proof.ODD_SET, tuple(members.tolist()), sentence)
