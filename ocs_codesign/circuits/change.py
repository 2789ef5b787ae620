"""Change: how long circuits are dark when they change, and what has to wait."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.quantities import exact_time
from ocs_codesign.core.topology import Symmetry, Topology, in_neighbours

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from fractions import Fraction

    from numpy.typing import NDArray


@final
@dataclass(frozen=True, slots=True, init=False)
class Change:
    """The dead time of one change: fixed_s + per_circuit_s * circuits changed, 0 if none changes.

    Circuits are counted over the plane that changes, or over the whole fabric if that stops.
    ``cold_start``: the first configuration has to be made and pays too. ``overlap``: every plane
    changes on its own while others send; otherwise the whole fabric stops for every change.
    ``barrier``: a step begins when all of the step before has arrived; otherwise every plane goes
    on to its part of the next step as soon as it is free. Times are exact: a float is read as the
    decimal that it prints as. Raises ValueError for times that are negative or not finite.

    >>> cost = Change(10e-6, 1e-6)
    >>> cost.fixed_s, cost.dead_time_s(2), cost.dead_time_s(0)
    (Fraction(1, 100000), Fraction(3, 250000), Fraction(0, 1))
    """

    fixed_s: Fraction
    per_circuit_s: Fraction
    cold_start: bool
    overlap: bool
    barrier: bool

    def __init__(
        self,
        fixed_s: Fraction | float,
        per_circuit_s: Fraction | float = 0,
        *,
        cold_start: bool = True,
        overlap: bool = True,
        barrier: bool = True,
    ) -> None:
        for name, value in (("fixed_s", fixed_s), ("per_circuit_s", per_circuit_s)):
            object.__setattr__(self, name, exact_time(value, name))
        for name, flag in (("cold_start", cold_start), ("overlap", overlap), ("barrier", barrier)):
            object.__setattr__(self, name, bool(flag))

    def dead_time_s(self, num_changed: int) -> Fraction:
        """Seconds without light for a change of so many circuits; none for no change."""
        if num_changed < 0:
            raise ValueError(f"{num_changed} circuits changed: it cannot be negative")
        return self.fixed_s + self.per_circuit_s * num_changed if num_changed else 0 * self.fixed_s


# Open ranges of exact numbers: factors, or sizes of messages, for which something pays.


@final
@dataclass(frozen=True, slots=True)
class OpenRange:
    """Numbers strictly between two; ``end`` None is without limit."""

    begin: Fraction
    end: Fraction | None

    @property
    def inside(self) -> Fraction:
        """A number in the interior."""
        return self.begin + 1 if self.end is None else (self.begin + self.end) / 2


def merged(ranges: Iterable[OpenRange]) -> tuple[OpenRange, ...]:
    """What lies in any of the ranges, as ranges that do not touch, ascending."""
    found: list[OpenRange] = []
    for span in sorted(ranges, key=lambda span: span.begin):
        last = found[-1] if found else None
        if last is None or (last.end is not None and last.end < span.begin):
            found.append(span)
        elif last.end is not None:
            end = None if span.end is None else max(last.end, span.end)
            found[-1] = OpenRange(last.begin, end)
    return tuple(found)


# Configurations held in turn: their links as one topology, and what has reached whom meanwhile.
#
# Data crosses one link a step or waits at a node.


MAX_NODES = 2**13
"""Largest number of nodes: what all know of all is then 512 MB at 8 bytes a pair."""


def union(configurations: Sequence[Topology]) -> Topology:
    """The links of all configurations, numbered one configuration after the other.

    It declares the orbits of all if their node orbits agree. Whether one group has them is for
    whoever recovers its permutations to find out.
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
    """The least number from 1 that suffices; ``most`` does, and all above one that does."""
    return 1 + bisect_left(range(1, most), True, key=lambda number: bool(suffices(number)))


def check_nodes(nodes: int) -> None:
    """ValueError if a sequence has too few nodes for a collective or too many for its tables."""
    if nodes < 2:
        raise ValueError("a collective needs at least two nodes")
    if nodes > MAX_NODES:
        raise ValueError(f"{nodes} nodes: sequences of at most {MAX_NODES} are scheduled")
