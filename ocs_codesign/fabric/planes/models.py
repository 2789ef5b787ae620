"""The port models: how each puts a topology's links on planes.

Of circuits from A ports to B ports, one-way ones need as many planes as the degree, a plane being a
partial permutation. Two-way ones need half, rounded up: they are turned such that as many leave a
node as arrive, up to one, and every plane takes one of each. Sources: D. Kőnig (1916), Über Graphen
und ihre Anwendung auf Determinantentheorie und Mengenlehre; J. Petersen (1891), Die Theorie der
regulären Graphs.

To add a model, give PortModel a member that says what its circuits are, write the function in a
module of this folder and list it in PORT_MODELS.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, compress, product
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.compute.components import connected, strong_components
from ocs_codesign.core.compute.factorisation import factorise
from ocs_codesign.core.topology import Topology
from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.infeasible import InfeasibleError, Reason, least_integers
from ocs_codesign.fabric.planes.planes import (
    Planes,
    PlanesCertificate,
    Proof,
    check_equal_speeds,
    circuits_of,
    degree_certificate,
    ends_of,
    oriented,
    two_way_circuits,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


# The choice of factorisation: which one keeps a topology connected when a plane is lost.


MAX_ENUMERATED = 2**12
"""Factorisations into two planes that are all looked at; else a local search is made."""
MAX_MOVES = 1500
UPHILL_SHARE = 0.05
"""How often the search makes an exchange that leaves one component more."""


@final
@dataclass(frozen=True, slots=True)
class PlaneLoss:
    """What is left after the loss of any one plane: strongly connected components of the nodes.

    ``num_components`` has the number after the loss of each plane; 1 is connected. ``is_proven``:
    no factorisation into as many planes has a smaller (largest, sum), as a search through all or
    the trivial bound shows.
    """

    num_components: tuple[int, ...]
    is_proven: bool

    @property
    def stays_connected(self) -> bool:
        """Whether every single plane may be lost."""
        return max(self.num_components, default=1) == 1


def loss_of_planes(planes: Planes) -> PlaneLoss:
    """The components after each plane's loss, of planes as they are."""
    left = _components(planes)
    return PlaneLoss(left, sum(left) == _least(planes))


def most_survivable(planes: Planes, seed: int = 0) -> tuple[Planes, PlaneLoss]:
    """The circuits on as many planes such that the loss of any leaves fewest components.

    The largest number after a loss counts first, then the sum. Two planes have a choice of two
    colourings in every component that their circuits make of the ports, and all are tried if they
    are at most MAX_ENUMERATED; else such components change planes at random, MAX_MOVES times at
    most, or in two-sided planes any trails that alternate between two of them. Restricted planes
    have no choice and stay.
    """
    first = loss_of_planes(planes)
    model, no_choice = planes.port_model, planes.num_planes < 2
    if first.is_proven or no_choice or model.has_states:
        return planes, replace(first, is_proven=first.is_proven or no_choice)
    # Circuits that can be turned have more factorisations than the exchanges of two planes.
    if planes.num_planes == 2 and not model.can_turn:
        groups = _exchangeable(planes, 0, 1)
        if len(groups) - 1 <= np.log2(MAX_ENUMERATED):
            return _best_of_two(planes, groups)
    return _local_search(planes, seed)


def _components(planes: Planes) -> tuple[int, ...]:
    of_link, lost = planes.plane_of_link(), range(planes.num_planes)
    return tuple(_num_components(planes.topology, of_link != number) for number in lost)


def _num_components(topology: Topology, stays: NDArray[np.bool_]) -> int:
    tail, head = topology.tail[stays], topology.head[stays]
    return 1 + int(strong_components(tail, head, topology.num_nodes).max())


def _least(planes: Planes) -> int:
    """A lower bound on the sum of components: a loss joins nothing that was not joined before."""
    every = np.ones(planes.topology.num_links, dtype=bool)
    return _num_components(planes.topology, every) * planes.num_planes


def _cost(left: tuple[int, ...]) -> tuple[int, int]:
    return max(left), sum(left)


def _best_of_two(planes: Planes, groups: list[NDArray[np.int64]]) -> tuple[Planes, PlaneLoss]:
    """The best factorisation into two planes, which are alike, so that the first group stays."""
    best, best_left = planes, _components(planes)
    choices, least = groups[:0:-1], _least(planes)
    for chosen in product((False, True), repeat=len(choices)):
        plane = planes.plane.copy()
        for circuits in compress(choices, chosen):
            plane[circuits] = 1 - plane[circuits]
        candidate = replace(planes, plane=plane)
        left = _components(candidate)
        if _cost(left) < _cost(best_left):
            best, best_left = candidate, left
        if sum(left) == least:
            break
    return best, PlaneLoss(best_left, True)


def _exchangeable(planes: Planes, one: int, other: int) -> list[NDArray[np.int64]]:
    """The circuits of two planes in groups that share no port: each may change planes alone."""
    mine = np.flatnonzero((planes.plane == one) | (planes.plane == other))
    if not len(mine):
        return []
    ports = planes.ports()[mine]
    label = connected(ports[:, 0], ports[:, 1], 2 * planes.topology.num_nodes)[ports[:, 0]]
    order = np.argsort(label, kind="stable")
    cuts = np.flatnonzero(np.diff(label[order])) + 1
    return [mine[group] for group in np.split(order, cuts)]


def _local_search(planes: Planes, seed: int) -> tuple[Planes, PlaneLoss]:
    """Exchanges at random; one for the worse is made now and then, the best found is kept."""
    random = np.random.default_rng(seed)
    here = best = planes
    here_left = best_left = _components(planes)
    pairs = list(combinations(range(planes.num_planes), 2))
    can_turn = planes.port_model.can_turn
    least = _least(planes)
    for _ in range(MAX_MOVES):
        if sum(best_left) == least:
            break
        pair = pairs[int(random.integers(len(pairs)))]
        groups = _alternating(here, *pair, random) if can_turn else _exchangeable(here, *pair)
        if len(groups) < 2:
            continue
        chosen = groups[int(random.integers(len(groups)))]
        plane = here.plane.copy()
        plane[chosen] = sum(pair) - plane[chosen]
        there = replace(here, plane=plane)
        left = _components(there)
        worse = sum(left) - sum(here_left)
        if worse <= 0 or random.random() < UPHILL_SHARE**worse:
            here, here_left = _sided_again(there, pair) if can_turn else there, left
        if _cost(here_left) < _cost(best_left):
            best, best_left = here, here_left
    return best, PlaneLoss(best_left, sum(best_left) == least)


def _alternating(
    planes: Planes, one: int, other: int, random: np.random.Generator
) -> list[NDArray[np.int64]]:
    """The circuits of two planes cut into trails that change planes at every node they pass.

    At every node the ends in one plane are paired at random with those in the other. Where all
    circuits of a trail change planes, a node keeps its two ends in each plane at most.
    """
    mine = np.flatnonzero((planes.plane == one) | (planes.plane == other))
    if not len(mine):
        return []
    node = np.concatenate([planes.a_node[mine], planes.b_node[mine]])
    circuit = np.tile(np.arange(len(mine)), 2)
    in_one = planes.plane[mine][circuit] == one
    keys = []
    for ends in (np.flatnonzero(in_one), np.flatnonzero(~in_one)):
        order = ends[np.lexsort((random.random(len(ends)), node[ends]))]
        first = np.searchsorted(node[order], node[order], side="left")
        keys.append((node[order].astype(np.int64) * 2 + np.arange(len(order)) - first, order))
    _, here, there = np.intersect1d(keys[0][0], keys[1][0], return_indices=True)
    pairs = circuit[keys[0][1][here]], circuit[keys[1][1][there]]
    label = connected(*pairs, len(mine))
    return [mine[label == number] for number in range(int(label.max()) + 1)]


def _sided_again(planes: Planes, numbers: tuple[int, int]) -> Planes:
    """The circuits of planes turned such that every port has one."""
    link = planes.link.copy()
    for number in numbers:
        mine = planes.plane == number
        link[mine] = oriented(planes.topology, link[mine])
    return replace(planes, link=link)


# Odd sets of nodes with more links than matchings can hold: proofs that more planes are needed.
#
# Among an odd number s of nodes a matching has at most (s - 1) / 2 links. Let every node have k
# ends, those without link at one more node; a set with more links than k matchings hold is then
# an odd one that fewer than k ends leave. Such a cut is one of a cut tree's. Sources: M. W.
# Padberg and M. R. Rao (1982), Odd minimum cut-sets and b-matchings; D. Gusfield (1990), Very
# simple methods for all pairs network flow analysis.


def crowded_odd_set(ends: Topology, num_matchings: int) -> NDArray[np.int64] | None:
    """An odd set with more links than so many matchings hold among it, or None: there is none.

    Each of ``ends`` is a link in both directions; no node may be the end of more of them than there
    are matchings.

    >>> from ocs_codesign.core.topology import Topology
    >>> triangle = Topology(4, [0, 1, 2], [1, 2, 0])
    >>> crowded_odd_set(triangle, 2).tolist(), crowded_odd_set(triangle, 3)
    ([0, 1, 2], None)
    """
    from scipy.sparse import csr_matrix

    one, other, nodes = ends.tail, ends.head, ends.num_nodes
    spare = num_matchings - np.bincount(np.concatenate([one, other]), minlength=nodes)
    missing = np.flatnonzero(spare)
    more = np.full(len(missing), nodes)
    tails = np.concatenate([one, other, missing, more])
    heads = np.concatenate([other, one, more, missing])
    capacity = np.concatenate([np.ones(2 * len(one)), spare[missing], spare[missing]])
    graph = csr_matrix((capacity.astype(np.int32), (tails, heads)), shape=(nodes + 1, nodes + 1))
    parent, flow = _cut_tree(graph)
    for members in _odd_sides(parent, flow < num_matchings):
        inside = np.isin(one, members) & np.isin(other, members)
        if np.count_nonzero(inside) > num_matchings * (len(members) // 2):
            return members
    return None


def _cut_tree(graph: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The parent of every node in a cut tree rooted at node 0, and the cut between the two."""
    size = graph.shape[0]
    parent, flow = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    for node in range(1, size):
        above = int(parent[node])
        value, near = _minimum_cut(graph, node, above)
        moved = near & (parent == above)
        moved[node] = False
        parent[moved] = node
        flow[node] = value
        if near[parent[above]]:
            parent[node], parent[above] = parent[above], node
            flow[node], flow[above] = flow[above], value
    return parent, flow


def _minimum_cut(graph: Any, source: int, sink: int) -> tuple[int, NDArray[np.bool_]]:
    """The value of a smallest cut between two nodes, and which nodes are on the source's side."""
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    found = maximum_flow(graph, source, sink)
    left = (graph - found.flow).tocsr()
    left.eliminate_zeros()
    near = np.zeros(graph.shape[0], dtype=bool)
    near[breadth_first_order(left, source, return_predecessors=False)] = True
    return int(found.flow_value), near


def _odd_sides(parent: NDArray[np.int64], wanted: NDArray[np.bool_]) -> list[NDArray[np.int64]]:
    """For wanted edges of the tree the side without the last node, where it is odd and not one."""
    size = len(parent)
    below = np.eye(size, dtype=bool)
    ancestor = parent
    while ancestor.any():
        below[ancestor, np.arange(size)] = True
        ancestor = parent[ancestor]
    nodes = np.flatnonzero(wanted & (parent != np.arange(size)))
    sides = (below[node] ^ below[node, -1] for node in nodes)
    return [np.flatnonzero(side) for side in sides if side.sum() % 2 == 1 and side.sum() > 1]


# Planes of two-way circuits with one port a node: a plane is a matching, planes are colours.
#
# D or D + 1 planes hold a simple graph of degree D, D + mu one with mu parallel links: V. G.
# Vizing (1964). D hold a bipartite one: D. Kőnig (1916). Which it is, is NP-complete: I. Holyer
# (1981). An odd set of nodes with more links than D matchings can have among them proves that D
# are too few.


FEW_MOVES = 5000
MAX_KEMPE_MOVES = 200_000
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
    from ocs_codesign.fabric.planes import kernels

    one, other, nodes = ends.tail.astype(np.int64), ends.head.astype(np.int64), ends.num_nodes
    pair = np.minimum(one, other) * nodes + np.maximum(one, other)
    always = degree + int(np.unique(pair, return_counts=True)[1].max(initial=0))
    num_planes = certificate.num_planes
    while num_planes <= always:
        for moves in (FEW_MOVES, MAX_KEMPE_MOVES):
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


def sided_planes(port_model: PortModel, topology: Topology) -> Planes:
    """The largest degree of planes, or half of it for two-way circuits: the fewest that exist.

    Raises InfeasibleError (ONE_WAY) if circuits are two-way and a link has no reverse.
    """
    check_equal_speeds(topology)
    link = circuits_of(topology, port_model)
    certificate = degree_certificate(topology, port_model)
    plane = factorise(ends_of(topology, link) if port_model.can_turn else topology)
    return Planes(port_model, topology, link, plane, certificate.num_planes, certificate)


PORT_MODELS: dict[PortModel, Callable[[Topology], Planes]] = {
    PortModel.SIMPLEX: partial(sided_planes, PortModel.SIMPLEX),
    PortModel.TWO_SIDED: partial(sided_planes, PortModel.TWO_SIDED),
    PortModel.MATCHING: matching_planes,
}
"""The port models that leave a choice of planes, and how each puts a topology on the fewest."""


def planes_of(topology: Topology, port_model: PortModel) -> Planes:
    """The circuits of a topology on as few planes as the port model needs, with the proof.

    Raises ValueError for RESTRICTED planes and InfeasibleError, with its reason, if no number of
    planes is enough.

    >>> from ocs_codesign.core.topology import Topology
    >>> ring = Topology(5, [0, 1, 2, 3, 4] * 2, [1, 2, 3, 4, 0, 4, 0, 1, 2, 3])
    >>> [planes_of(ring, model).num_planes for model in PORT_MODELS]
    [2, 1, 3]
    """
    if port_model not in PORT_MODELS:
        raise ValueError(
            f"the planes are {port_model.value}: their states are given, and only embedding "
            "chooses among them"
        )
    return PORT_MODELS[port_model](topology)
