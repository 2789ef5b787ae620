"""Programs of circuits: from where every port leads in every step, or from configurations in turn.

A maker of schedules over configurations sees all at once, their links numbered one configuration
after the other, and for every step the one that is in use. Only then are links given planes: as far
as can be, a circuit that two configurations share stays up through the change.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.circuits.change import union
from ocs_codesign.core.circuits import CircuitProgram
from ocs_codesign.core.compute.factorisation import NO_LINK, factorise, plane_heads
from ocs_codesign.core.schedule import Schedule
from ocs_codesign.core.topology import MAX_STEPS, Topology

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


DARK = NO_LINK
MAX_PORT_STEPS = 2**27
"""Largest steps x planes x nodes that is wired: 512 MB a table."""


def wire(targets: NDArray[np.int32]) -> tuple[CircuitProgram, NDArray[np.int32]]:
    """The program whose port of plane p at node v leads to ``targets[step - 1, p, v]``, or is DARK.

    Beside it the link behind every port, in the shape of the targets, DARK for none.

    A circuit is up for as long as its port leads to the same node; there is a pause where a port
    goes from one circuit to the next. Links are sorted by (plane, tail, head). Raises ValueError
    for targets that are no nodes, planes that are always dark, and tables that are too large.
    """
    steps, planes, nodes = targets.shape
    check_table(steps, planes, nodes)
    if targets.size == 0 or targets.min() < DARK or targets.max() >= nodes:
        raise ValueError(f"a port leads to a node, 0 to {nodes - 1}, or is dark: {DARK}")
    up = targets != DARK
    began = up.copy()
    began[1:] &= targets[1:] != targets[:-1]
    ended = up.copy()
    ended[:-1] &= targets[1:] != targets[:-1]
    # In the order (plane, node, step) beginnings and ends of one port take turns.
    plane, tail, first = np.nonzero(began.transpose(1, 2, 0))
    last = np.nonzero(ended.transpose(1, 2, 0))[2]
    head = targets[first, plane, tail].astype(np.int64)
    circuit, row_link = np.unique((plane * nodes + tail) * nodes + head, return_inverse=True)
    link = np.full(targets.shape, DARK, dtype=np.int32)
    port = np.arange(planes * nodes).reshape(planes, nodes)
    code = (port * nodes + targets)[up]
    link[up] = np.searchsorted(circuit, code)
    port, head = np.divmod(circuit, nodes)
    program = CircuitProgram(
        Topology(nodes, port % nodes, head),
        port // nodes,
        row_link.ravel(),
        first + 1,
        last + 1,
        _pauses(targets, began),
    )
    return program, link


def check_table(steps: int, planes: int, nodes: int) -> None:
    """ValueError if a program of such sizes is too large to wire."""
    if steps > MAX_STEPS or steps * planes * nodes > MAX_PORT_STEPS:
        raise ValueError(
            f"{steps} steps of {planes} planes at {nodes} nodes: "
            f"at most {MAX_PORT_STEPS:,} ports times steps are wired"
        )


def _pauses(targets: NDArray[np.int32], began: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Steps (from 1) in which a circuit comes up at a port that held another the step before."""
    stops = []
    for step in np.flatnonzero(began[1:].any(axis=(1, 2))) + 1:
        before, new = targets[step - 1], began[step]
        plane, node = np.nonzero(new)
        out_busy = before[plane, node] != DARK
        entered = np.zeros(before.shape, dtype=bool)
        held = np.nonzero(before != DARK)
        entered[held[0], before[held]] = True
        if (out_busy | entered[plane, targets[step][new]]).any():
            stops.append(step + 1)
    return np.array(stops, dtype=np.int64)


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


def layered(configurations: Sequence[Topology]) -> Layers:
    """The layers of configurations with equally many nodes and ports and links of one speed.

    Raises ValueError if they are none or differ.

    >>> from ocs_codesign.graphs.families.rings import DirectedCirculant
    >>> layers = layered([DirectedCirculant(5, (a,)).topology() for a in (1, 2)])
    >>> layers.topology.num_links, layers.links_of(1).tolist()
    (10, [5, 6, 7, 8, 9])
    """
    check_alike(configurations)
    sizes = [topology.num_links for topology in configurations]
    layer = np.repeat(np.arange(len(sizes)), sizes)
    return Layers(tuple(configurations), union(configurations), layer)


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


def programmed(
    layers: Layers, used: Sequence[int], schedule: Schedule
) -> tuple[CircuitProgram, Schedule, tuple[int, ...]]:
    """The program that holds configuration ``used[step - 1]`` in every step, and the schedule.

    ``schedule`` is over the links of ``layers.topology``, at every step over those of the
    configuration in use. Steps in which nothing is sent are left out; the configurations of the
    others come third. The fabric stops where ports change. Raises ValueError for programs that are
    too large.
    """
    busy, step = np.unique(schedule.step, return_inverse=True)
    current = tuple(used[at - 1] for at in busy.tolist())
    check_table(len(current), layers.configurations[0].degree, layers.topology.num_nodes)
    place = _planes(layers, current)
    heads = {
        number: plane_heads(layers.configurations[number], plane) for number, plane in place.items()
    }
    program, port_link = wire(np.stack([heads[number] for number in current]))
    link = np.full(layers.topology.num_links, -1, dtype=np.int64)
    for number, plane in place.items():
        tail = layers.configurations[number].tail
        link[layers.links_of(number)] = port_link[current.index(number), plane, tail]
    root, lo, hi, layer_link, _, *phase = schedule.columns()
    columns: list[NDArray[Any]] = [root, lo, hi, link[layer_link], step.ravel() + 1, *phase]
    moved = Schedule(program.topology, schedule.collective, schedule.num_chunks, *columns)
    return program, moved, current


def _planes(layers: Layers, used: Sequence[int]) -> dict[int, NDArray[np.int32]]:
    """The planes of every configuration's links, near those of the one that it first follows."""
    place = {used[0]: factorise(layers.configurations[used[0]])}
    for before, number in pairwise(used):
        if number not in place:
            near = plane_heads(layers.configurations[before], place[before])
            place[number] = factorise(layers.configurations[number], near)
    return place
