"""Configurations one after the other: where makers of schedules work, and the program they become.

A maker sees all configurations at once, their links numbered one configuration after the other, and
for every step the one that is in use. Only then are links given planes: as far as can be, a circuit
that two configurations share stays up through the change.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.factorisation import factorise, plane_heads
from ocs_codesign.reconfigure.program.wiring import check_table, wire
from ocs_codesign.schedule import Schedule
from ocs_codesign.topology import Symmetry, Topology

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ocs_codesign.circuits import CircuitProgram


@final
@dataclass(frozen=True, slots=True, eq=False)
class Layers:
    """The links of several configurations as one topology; ``layer`` says of which each is.

    ``topology`` declares the symmetry that the configurations declare in common, unproven.
    """

    configurations: tuple[Topology, ...]
    topology: Topology
    layer: NDArray[np.int64]

    def links_of(self, configuration: int) -> NDArray[np.int64]:
        """Ids in ``topology`` of a configuration's links, in its order."""
        return np.flatnonzero(self.layer == configuration)

    def transpose(self) -> Layers:
        """Every configuration with its links reversed; ids stay."""
        turned = tuple(topology.transpose() for topology in self.configurations)
        return Layers(turned, self.topology.transpose(), self.layer)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Programmed:
    """A program of circuits and a schedule over them, not verified yet.

    Configuration ``used[step - 1]`` is up in every step.
    """

    program: CircuitProgram
    schedule: Schedule
    used: tuple[int, ...]


def layered(configurations: Sequence[Topology]) -> Layers:
    """The layers of configurations with equally many nodes and ports and links of one speed.

    Raises ValueError if they are none or differ.

    >>> from ocs_codesign.graphs.families.rings import DirectedCirculant
    >>> layers = layered([DirectedCirculant(5, (a,)).topology() for a in (1, 2)])
    >>> layers.topology.num_links, layers.links_of(1).tolist()
    (10, [5, 6, 7, 8, 9])
    """
    check_alike(configurations)
    tail = np.concatenate([topology.tail for topology in configurations])
    head = np.concatenate([topology.head for topology in configurations])
    sizes = [topology.num_links for topology in configurations]
    symmetry = _common_symmetry(configurations)
    whole = Topology(configurations[0].num_nodes, tail, head, symmetry=symmetry)
    return Layers(tuple(configurations), whole, np.repeat(np.arange(len(sizes)), sizes))


def check_alike(configurations: Sequence[Topology]) -> None:
    """ValueError unless there is a configuration and all have the same nodes and equal ports."""
    if not configurations:
        raise ValueError("a sequence needs at least one configuration")
    first = configurations[0]
    for number, topology in enumerate(configurations):
        if (topology.num_nodes, topology.degree) != (first.num_nodes, first.degree):
            raise ValueError(
                f"configuration {number} has {topology.num_nodes} nodes of degree "
                f"{topology.degree}, the first {first.num_nodes} of degree {first.degree}: "
                "circuits change, ports do not"
            )
        if topology.link_speed is not None:
            raise ValueError(f"links of configuration {number} differ in speed: ports are equal")


def _common_symmetry(configurations: Sequence[Topology]) -> Symmetry | None:
    """The orbits of all links if all declare the same orbits of nodes."""
    declared = [topology.symmetry for topology in configurations if topology.symmetry is not None]
    nodes = declared[0].node_orbit if declared else None
    if len(declared) < len(configurations) or nodes is None:
        return None
    if not all(np.array_equal(one.node_orbit, nodes) for one in declared):
        return None
    orbits: list[NDArray[np.int32]] = []
    total = 0
    for one in declared:
        orbits.append(one.link_orbit + np.int32(total))
        total += int(one.link_orbit.max(initial=-1)) + 1
    return Symmetry(nodes.copy(), np.concatenate(orbits).astype(np.int32))


def programmed(layers: Layers, used: Sequence[int], schedule: Schedule) -> Programmed:
    """The program that holds configuration ``used[step - 1]`` in every step, and the schedule.

    ``schedule`` is over the links of ``layers.topology``, at every step over those of the
    configuration in use. Steps in which nothing is sent are left out; the fabric stops where ports
    change. Raises ValueError for programs that are too large.
    """
    busy, step = np.unique(schedule.step, return_inverse=True)
    current = tuple(used[at - 1] for at in busy.tolist())
    check_table(len(current), layers.configurations[0].degree, layers.topology.num_nodes)
    place = _planes(layers, current)
    heads = {
        number: plane_heads(layers.configurations[number], plane) for number, plane in place.items()
    }
    wired = wire(np.stack([heads[number] for number in current]))
    link = np.full(layers.topology.num_links, -1, dtype=np.int64)
    for number, plane in place.items():
        tail = layers.configurations[number].tail
        link[layers.links_of(number)] = wired.link[current.index(number), plane, tail]
    root, lo, hi, layer_link, _, *phase = schedule.columns()
    columns: list[NDArray[Any]] = [root, lo, hi, link[layer_link], step.ravel() + 1, *phase]
    moved = Schedule(wired.program.topology, schedule.collective, schedule.num_chunks, *columns)
    return Programmed(wired.program, moved, current)


def _planes(layers: Layers, used: Sequence[int]) -> dict[int, NDArray[np.int32]]:
    """The planes of every configuration's links, near those of the one that it first follows."""
    place = {used[0]: factorise(layers.configurations[used[0]])}
    for before, number in pairwise(used):
        if number not in place:
            near = plane_heads(layers.configurations[before], place[before])
            place[number] = factorise(layers.configurations[number], near)
    return place
