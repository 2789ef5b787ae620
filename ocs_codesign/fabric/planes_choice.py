"""The choice of factorisation: which one keeps a topology connected when a plane is lost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.fabric.blocks import connected
from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.planes import Planes, one_way_circuits
from ocs_codesign.fabric.planes_simplex import simplex_planes
from ocs_codesign.fabric.planes_two_sided import oriented

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ocs_codesign.topology import Topology

MAX_ENUMERATED = 2**12
"""Factorisations into two planes that are all looked at; beyond that a local search is made."""
MAX_ENUMERATED_LINKS = 36
"""Links up to which all factorisations into more planes are looked at after a failed search."""
MAX_MOVES = 1500
UPHILL_SHARE = 0.05
"""How often the search makes an exchange that leaves one component more."""


@final
@dataclass(frozen=True, slots=True)
class PlaneLoss:
    """What is left after the loss of any one plane: strongly connected components of the nodes.

    ``num_components`` has the number after the loss of each plane; 1 is connected. ``is_proven``:
    no factorisation into as many planes has a smaller (largest, sum), as a search through all or
    the trivial bound shows. ``num_tried`` factorisations were looked at.
    """

    num_components: tuple[int, ...]
    is_proven: bool
    num_tried: int

    @property
    def stays_connected(self) -> bool:
        """Whether every single plane may be lost."""
        return max(self.num_components, default=1) == 1


def loss_of_planes(planes: Planes) -> PlaneLoss:
    """The components after each plane's loss, of planes as they are."""
    left = _components(planes, planes.plane)
    return PlaneLoss(left, sum(left) == _least(planes), 1)


def most_survivable(planes: Planes, seed: int = 0) -> tuple[Planes, PlaneLoss]:
    """The circuits on as many planes such that the loss of any leaves fewest components.

    The largest number after a loss counts first, then the sum. Two planes have a choice of two
    colourings in every component that their circuits make of the ports, and all are tried if they
    are at most MAX_ENUMERATED; else such components change planes at random, MAX_MOVES times at
    most, or in two-sided planes any trails that alternate between two of them. Restricted planes
    have no choice and stay.
    """
    first = loss_of_planes(planes)
    restricted = planes.port_model is PortModel.RESTRICTED
    if first.is_proven or planes.num_planes < 2 or restricted:
        no_choice = planes.num_planes < 2
        return planes, replace(first, is_proven=first.is_proven or no_choice)
    groups = _exchangeable(planes, planes.plane, 0, 1)
    # Circuits between sides can be turned as well, so that these are not all there are.
    is_all = planes.num_planes == 2 and planes.port_model is not PortModel.TWO_SIDED
    if is_all and len(groups) - 1 <= np.log2(MAX_ENUMERATED):
        return _best_of_two(planes, groups)
    found, left = _local_search(planes, seed)
    few = planes.topology.num_links <= MAX_ENUMERATED_LINKS
    if not left.is_proven and few and planes.port_model is PortModel.SIMPLEX:
        return _best_of_all(planes) or (found, left)
    return found, left


def factorisations(topology: Topology) -> Iterator[Planes]:
    """Every factorisation of a topology into one-way planes, up to the numbering of planes.

    There are as many planes as the degree; links that run parallel are not told apart. All are
    found one by one, so this is for small topologies.

    >>> from ocs_codesign.topology import Topology
    >>> eight = range(8)
    >>> circulant = Topology(8, [*eight] * 2, [(v + s) % 8 for s in (1, 3) for v in eight])
    >>> sum(1 for _ in factorisations(circulant))
    2
    """
    start = simplex_planes(topology)
    link = one_way_circuits(topology)
    plane = np.full(topology.num_links, -1, dtype=np.int32)
    order = np.lexsort((topology.head, topology.tail))
    for found in _filled(topology, plane, order, start.num_planes):
        yield replace(start, link=link, plane=found)


def _filled(
    topology: Topology, plane: NDArray[np.int32], order: NDArray[np.int64], num_planes: int
) -> Iterator[NDArray[np.int32]]:
    """All ways to give every link a plane, by depth-first search in the order of the links."""
    out = np.zeros((topology.num_nodes, num_planes), dtype=bool)
    into = np.zeros_like(out)
    tail, head = topology.tail, topology.head
    opened = [0]
    place = 0
    tried = np.full(len(order) + 1, -1, dtype=np.int64)
    while place >= 0:
        if place == len(order):
            yield plane.copy()
            place -= 1
            continue
        link = order[place]
        if plane[link] >= 0:
            out[tail[link], plane[link]] = into[head[link], plane[link]] = False
            plane[link] = -1
            opened.pop()
        lowest = tried[place] + 1
        before = order[place - 1] if place else -1
        if before >= 0 and tail[before] == tail[link] and head[before] == head[link]:
            # Parallel links take their planes in ascending order.
            lowest = max(lowest, plane[before] + 1)
        highest = min(opened[-1], num_planes - 1)
        free = [
            number
            for number in range(lowest, highest + 1)
            if not out[tail[link], number] and not into[head[link], number]
        ]
        if not free:
            tried[place] = -1
            place -= 1
            continue
        number = free[0]
        tried[place] = plane[link] = number
        out[tail[link], number] = into[head[link], number] = True
        opened.append(max(opened[-1], number + 1))
        place += 1
        if place < len(order):
            tried[place] = -1


def _components(planes: Planes, plane: NDArray[np.int32]) -> tuple[int, ...]:
    """Strongly connected components without each plane."""
    of_link = replace(planes, plane=plane).plane_of_link()
    lost = range(planes.num_planes)
    return tuple(_strong_components(planes.topology, of_link != number) for number in lost)


def _least(planes: Planes) -> int:
    """A lower bound on the sum of components: a loss joins nothing that was not joined before."""
    whole = _strong_components(planes.topology, np.ones(planes.topology.num_links, dtype=bool))
    return whole * planes.num_planes


def _strong_components(topology: Topology, stays: NDArray[np.bool_]) -> int:
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components

    ends = (topology.tail[stays], topology.head[stays])
    graph = csr_matrix((np.ones(len(ends[0])), ends), shape=(topology.num_nodes,) * 2)
    return int(connected_components(graph, connection="strong")[0])


def _exchangeable(
    planes: Planes, plane: NDArray[np.int32], one: int, other: int
) -> list[NDArray[np.int64]]:
    """The circuits of two planes in groups that share no port: each may change planes alone."""
    mine = np.flatnonzero((plane == one) | (plane == other))
    if not len(mine):
        return []
    ports = planes.ports()[mine]
    label = connected(ports[:, 0], ports[:, 1], 2 * planes.topology.num_nodes)[ports[:, 0]]
    order = np.argsort(label, kind="stable")
    cuts = np.flatnonzero(np.diff(label[order])) + 1
    return [mine[group] for group in np.split(order, cuts)]


def _exchanged(
    plane: NDArray[np.int32], circuits: NDArray[np.int64], one: int, other: int
) -> NDArray[np.int32]:
    new = plane.copy()
    new[circuits] = one + other - plane[circuits]
    return new


def _cost(left: tuple[int, ...]) -> tuple[int, int]:
    return max(left), sum(left)


def _best_of_two(planes: Planes, groups: list[NDArray[np.int64]]) -> tuple[Planes, PlaneLoss]:
    """The best of all factorisations into two planes, which are alike: the first group stays."""
    best, best_left, tried = planes.plane, _components(planes, planes.plane), 0
    choices, least = groups[1:], _least(planes)
    for bits in range(2 ** len(choices)):
        plane = planes.plane
        for number, circuits in enumerate(choices):
            if bits >> number & 1:
                plane = _exchanged(plane, circuits, 0, 1)
        left = _components(planes, plane)
        tried += 1
        if _cost(left) < _cost(best_left):
            best, best_left = plane, left
        if sum(left) == least:
            break
    return replace(planes, plane=best), PlaneLoss(best_left, True, tried)


def _local_search(planes: Planes, seed: int) -> tuple[Planes, PlaneLoss]:
    """Exchanges at random; one for the worse is made now and then, the best found is kept."""
    random = np.random.default_rng(seed)
    here = best = planes
    here_left = best_left = _components(planes, planes.plane)
    pairs = list(combinations(range(planes.num_planes), 2))
    two_sided = planes.port_model is PortModel.TWO_SIDED
    tried, least = 1, _least(planes)
    for _ in range(MAX_MOVES):
        if sum(best_left) == least:
            break
        pair = pairs[int(random.integers(len(pairs)))]
        if two_sided:
            groups = _alternating(here, *pair, random)
        else:
            groups = _exchangeable(here, here.plane, *pair)
        if len(groups) < 2:
            continue
        chosen = groups[int(random.integers(len(groups)))]
        plane = _exchanged(here.plane, chosen, *pair)
        left = _components(here, plane)
        tried += 1
        worse = sum(left) - sum(here_left)
        if worse <= 0 or random.random() < UPHILL_SHARE**worse:
            here, here_left = replace(here, plane=plane), left
            here = _sided_again(here, pair) if two_sided else here
        if _cost(here_left) < _cost(best_left):
            best, best_left = here, here_left
    return best, PlaneLoss(best_left, sum(best_left) == least, tried)


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


def _best_of_all(planes: Planes) -> tuple[Planes, PlaneLoss] | None:
    """The best of all one-way factorisations, or None if they are too many to look at."""
    best, best_left, tried = planes, _components(planes, planes.plane), 0
    for found in factorisations(planes.topology):
        tried += 1
        if tried > MAX_ENUMERATED:
            return None
        left = _components(found, found.plane)
        if _cost(left) < _cost(best_left):
            best, best_left = found, left
    return best, PlaneLoss(best_left, True, tried)
