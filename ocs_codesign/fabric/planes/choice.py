"""The choice of factorisation: which one keeps a topology connected when a plane is lost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations, compress, product
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.fabric.components import connected, strong_components
from ocs_codesign.fabric.planes.circuits import oriented

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.fabric.planes.planes import Planes
    from ocs_codesign.topology import Topology

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
