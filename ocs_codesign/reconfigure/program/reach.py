"""What has reached whom when links change from step to step: a hop a step, waiting is free."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.reach import in_neighbours

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ocs_codesign.topology import Topology

MAX_NODES = 2**13
"""Largest number of nodes: what all know of all is then 512 MB at 8 bytes a pair."""


def arrivals(
    configurations: Sequence[Topology], used: Sequence[int], sources: NDArray[np.int64]
) -> NDArray[np.int32]:
    """The step at whose end a node can first have a source's data; sources x N, int32.

    Configuration ``used[step - 1]`` is up in a step. A source has its own at step 0; what never
    arrives does so at step len(used) + 1.

    >>> from ocs_codesign.graphs.families.rings import DirectedCirculant
    >>> rings = [DirectedCirculant(5, (1,)).topology(), DirectedCirculant(5, (2,)).topology()]
    >>> arrivals(rings, [0, 1, 1], np.array([0])).tolist()
    [[0, 1, 2, 2, 3]]
    """
    nodes = configurations[0].num_nodes
    arrival = np.full((len(sources), nodes), len(used) + 1, dtype=np.int32)
    held = np.zeros((nodes, len(sources)), dtype=bool)
    held[sources, np.arange(len(sources))] = True
    arrival[held.T] = 0
    table = {number: in_neighbours(configurations[number]).node for number in set(used)}
    for step, number in enumerate(used, 1):
        new = received(table[number], held) & ~held
        arrival[new.T] = step
        held |= new
    return arrival


def received(table: NDArray[np.int32], held: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """What the in-neighbours of every node hold together; ``table`` (N x k) lists them."""
    together: NDArray[np.bool_] = held[table[:, 0]]
    for column in range(1, table.shape[1]):
        together |= held[table[:, column]]
    return together


def fewest_steps_each(configurations: Sequence[Topology], order: Sequence[int]) -> int:
    """Least k such that all reach all when every configuration of the order is up for k steps.

    Raises ValueError, with a pair, if no number of steps is enough.

    >>> from ocs_codesign.graphs.families.rings import DirectedCirculant
    >>> fewest_steps_each([DirectedCirculant(8, (a,)).topology() for a in (1, 3)], [0, 1])
    2
    """
    nodes = configurations[0].num_nodes
    check_nodes(nodes)
    table = [in_neighbours(topology).node for topology in configurations]

    def reached(steps: int) -> NDArray[np.bool_]:
        held = np.eye(nodes, dtype=bool)
        for number in order:
            for _ in range(steps):
                grown = held | received(table[number], held)
                if np.array_equal(grown, held):
                    break
                held = grown
        return held

    least, most = 1, max(1, nodes - 1)
    if not (held := reached(most)).all():
        node, source = np.argwhere(~held)[0]
        raise ValueError(
            f"node {node} is out of node {source}'s reach, however many steps the "
            "configurations of the sequence are up for"
        )
    while least < most:
        middle = (least + most) // 2
        least, most = (least, middle) if reached(middle).all() else (middle + 1, most)
    return least


def check_nodes(nodes: int) -> None:
    """ValueError if a sequence has too few nodes for a collective or too many for its tables."""
    if nodes < 2:
        raise ValueError("a collective needs at least two nodes")
    if nodes > MAX_NODES:
        raise ValueError(f"{nodes} nodes: sequences of at most {MAX_NODES} are scheduled")
