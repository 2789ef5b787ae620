"""Configurations held in turn: their links as one topology, and what has reached whom meanwhile.

Data crosses one link a step or waits at a node.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.reach import in_neighbours
from ocs_codesign.topology import Symmetry, Topology

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

MAX_NODES = 2**13
"""Largest number of nodes: what all know of all is then 512 MB at 8 bytes a pair."""


def union(configurations: Sequence[Topology]) -> Topology:
    """The links of all configurations, numbered one configuration after the other.

    It declares the orbits of all if their node orbits agree. Whether one group has them is for
    whoever recovers its permutations to find out.

    >>> from ocs_codesign.graphs.families.rings import DirectedCirculant
    >>> union([DirectedCirculant(5, (a,)).topology() for a in (1, 2)]).num_links
    10
    """
    return Topology(
        configurations[0].num_nodes,
        np.concatenate([topology.tail for topology in configurations]),
        np.concatenate([topology.head for topology in configurations]),
        np.concatenate([topology.speeds() for topology in configurations]),
        _common_symmetry(configurations),
    )


def _common_symmetry(configurations: Sequence[Topology]) -> Symmetry | None:
    declared = [topology.symmetry for topology in configurations if topology.symmetry is not None]
    if len(declared) < len(configurations):
        return None
    nodes, orbits, known = declared[0].node_orbit, [], 0
    for symmetry in declared:
        if not np.array_equal(symmetry.node_orbit, nodes):
            return None
        orbits.append(symmetry.link_orbit + np.int32(known))
        known += int(symmetry.link_orbit.max(initial=-1)) + 1
    return Symmetry(nodes, np.concatenate(orbits))


def neighbour_tables(configurations: Sequence[Topology]) -> list[NDArray[np.int32]]:
    """The in-neighbours of every node (N x k, padded with the node) in every configuration."""
    return [in_neighbours(topology).node for topology in configurations]


def reached(
    tables: Sequence[NDArray[np.int32]], steps: Sequence[int], sources: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Whether every node (row) has a source's data (column) after so many steps of each table."""
    held = np.zeros((len(tables[0]), len(sources)), dtype=bool)
    held[sources, np.arange(len(sources))] = True
    for table, most in zip(tables, steps, strict=True):
        for _ in range(most):
            grown = held | _given(table, held)
            if np.array_equal(grown, held):
                break
            held = grown
    return held


def _given(table: NDArray[np.int32], held: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """What the in-neighbours of every node hold together."""
    together: NDArray[np.bool_] = held[table[:, 0]]
    for column in table.T[1:]:
        together |= held[column]
    return together


def arrivals(
    configurations: Sequence[Topology], used: Sequence[int], sources: NDArray[np.int64]
) -> NDArray[np.int32]:
    """The step at whose end a node can first have a source's data; sources x N, int32.

    Configuration ``used[step - 1]`` is up in a step. A source has its own at step 0. Raises
    ValueError, with a pair, if something never arrives.

    >>> from ocs_codesign.graphs.families.rings import DirectedCirculant
    >>> rings = [DirectedCirculant(5, (1,)).topology(), DirectedCirculant(5, (2,)).topology()]
    >>> arrivals(rings, [0, 1, 1], np.array([0])).tolist()
    [[0, 1, 2, 2, 3]]
    """
    tables = neighbour_tables(configurations)
    held = reached(tables[:1], [0], sources)
    arrival = np.where(held.T, 0, len(used) + 1).astype(np.int32)
    for step, number in enumerate(used, 1):
        new = _given(tables[number], held) & ~held
        arrival[new.T] = step
        held |= new
    if not held.all():
        source, node = np.argwhere(~held.T)[0]
        raise ValueError(
            f"node {node} is out of node {sources[source]}'s reach in the {len(used)} steps of the "
            "sequence: more steps or configurations are needed"
        )
    return arrival


def fewest_steps_each(configurations: Sequence[Topology], order: Sequence[int]) -> int:
    """Least k such that all reach all when every configuration of the order is up for k steps.

    Raises ValueError, with a pair, if no number of steps is enough.

    >>> from ocs_codesign.graphs.families.rings import DirectedCirculant
    >>> fewest_steps_each([DirectedCirculant(8, (a,)).topology() for a in (1, 3)], [0, 1])
    2
    """
    nodes = configurations[0].num_nodes
    check_nodes(nodes)
    tables = neighbour_tables(configurations)
    turns, every = [tables[number] for number in order], np.arange(nodes)
    held = reached(turns, [nodes - 1] * len(turns), every)
    if not held.all():
        node, source = np.argwhere(~held)[0]
        raise ValueError(
            f"node {node} is out of node {source}'s reach, however many steps the "
            "configurations of the sequence are up for"
        )
    return least(nodes - 1, lambda steps: reached(turns, [steps] * len(turns), every).all())


def least(most: int, suffices: Callable[[int], bool | np.bool_]) -> int:
    """The least number from 1 that suffices; ``most`` does, and all above one that does.

    >>> least(100, lambda number: number**2 > 50)
    8
    """
    return 1 + bisect_left(range(1, most), True, key=lambda number: bool(suffices(number)))


def check_nodes(nodes: int) -> None:
    """ValueError if a sequence has too few nodes for a collective or too many for its tables."""
    if nodes < 2:
        raise ValueError("a collective needs at least two nodes")
    if nodes > MAX_NODES:
        raise ValueError(f"{nodes} nodes: sequences of at most {MAX_NODES} are scheduled")
