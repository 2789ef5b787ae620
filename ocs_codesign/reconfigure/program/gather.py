"""Allgather, reduce-scatter and allreduce over a sequence of configurations.

Every node takes all that a neighbour of the step can give it and it does not have, spread over its
links of that step so that the busiest carries as little as possible. With one configuration this is
BFB; with the pairings of a hypercube it is recursive doubling. A reduce-scatter is the allgather
with time and links reversed; an allreduce runs that and goes the same way back.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.collective import Collective
from ocs_codesign.kernels import for_work
from ocs_codesign.reach import in_neighbours
from ocs_codesign.reconfigure.in_turn import arrivals, check_nodes
from ocs_codesign.reconfigure.program.wiring import layered, programmed
from ocs_codesign.schedule import Schedule
from ocs_codesign.schedulers.bfb.assembly import links_by_ends, rows_of
from ocs_codesign.schedulers.bfb.loads import num_chunks_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from ocs_codesign.circuits import CircuitProgram
    from ocs_codesign.reconfigure.program.wiring import Layers
    from ocs_codesign.topology import Topology

_ABSENT = 9
"""A distance that none asks for."""


def sequence_gather(
    configurations: Sequence[Topology],
    used: Sequence[int],
    collective: Collective | str = Collective.ALLGATHER,
    on_progress: Callable[[int, int], None] | None = None,
) -> tuple[CircuitProgram, Schedule, tuple[int, ...]]:
    """The program and schedule of a collective over configurations in turn, and which are used.

    An allgather and a reduce-scatter have configuration ``used[step - 1]`` up in every step, an
    allreduce is the reduce-scatter and then the allgather over the same steps backwards, so that
    nothing changes in between. Steps that are not needed are left out. ``on_progress(done, total)``
    hears of the steps of each half. Raises ValueError if the steps do not bring all to all, or for
    an all-to-all.

    >>> from ocs_codesign.graphs.families.rings import DirectedCirculant
    >>> rings = [DirectedCirculant(9, (1, 2)).topology(), DirectedCirculant(9, (3, 6)).topology()]
    >>> [str(load) for load in sequence_gather(rings, [0, 1])[1].max_loads()]
    ['1', '3']
    """
    collective = Collective.parse_gathering(collective)
    layers = layered(configurations)
    check_nodes(layers.topology.num_nodes)
    if collective == Collective.ALLGATHER:
        return programmed(layers, used, _allgather(layers, used, on_progress))
    backwards = tuple(used)[::-1]
    mirrored = _allgather(layers.transpose(), backwards, on_progress)
    scatter_steps = backwards[: mirrored.num_steps][::-1]
    if collective == Collective.REDUCE_SCATTER:
        return programmed(layers, scatter_steps, mirrored.reversed())
    gather = _allgather(layers, backwards, on_progress)
    return programmed(layers, (*scatter_steps, *backwards), mirrored.reversed().then(gather))


def _allgather(
    layers: Layers, used: Sequence[int], on_progress: Callable[[int, int], None] | None
) -> Schedule:
    """The allgather over the links of ``layers.topology``; it ends as early as it can."""
    arrival = arrivals(layers.configurations, used, np.arange(layers.topology.num_nodes)).T
    into = {number: _InLinks.of(layers, number) for number in set(used)}
    steps = list(enumerate(used[: int(arrival.max())], 1))
    loads = [into[number].least_load(_asked(arrival, step)) for step, number in steps]
    chunks = num_chunks_for(loads)
    parts = []
    for (step, number), load in zip(steps, loads, strict=True):
        part = into[number].rows(_asked(arrival, step), int(load * chunks), chunks)
        part[4] = step
        parts.append(part)
        if on_progress is not None:
            on_progress(step, len(loads))
    return Schedule(layers.topology, Collective.ALLGATHER, chunks, *np.concatenate(parts, axis=1))


def _asked(arrival: NDArray[np.int32], step: int) -> NDArray[np.int16]:
    """Row u is 1 at what node u gets in the step, row N + w is 0 at what node w has to give."""
    held = np.where(arrival < step, 0, _ABSENT)
    return np.concatenate([arrival == step, held]).astype(np.int16)


@final
@dataclass(frozen=True, slots=True, eq=False)
class _InLinks:
    """The links into every node in one configuration, as BFB takes them.

    ``neighbours`` names the rows N + w of ``_asked``, so that a node can both get and give.
    """

    topology: Topology
    links: NDArray[np.int64]
    neighbours: NDArray[np.int32]
    capacity: NDArray[np.int64]

    @classmethod
    def of(cls, layers: Layers, number: int) -> _InLinks:
        table = in_neighbours(layers.configurations[number])
        is_padding = table.capacity == 0
        nodes = layers.topology.num_nodes
        neighbours = np.where(is_padding, table.node, table.node + nodes).astype(np.int32)
        links = links_by_ends(layers.topology, layers.links_of(number))
        return cls(layers.topology, links, neighbours, table.capacity)

    def least_load(self, asked: NDArray[np.int16]) -> Fraction:
        """The largest link load that cannot be avoided, in shards."""
        from ocs_codesign.schedulers.bfb.kernels import all_least_loads

        receivers = np.arange(len(self.neighbours))
        rounds = self.neighbours.size * len(receivers)
        least_loads = for_work(all_least_loads, rounds)
        best = least_loads(asked, self.neighbours, self.capacity, receivers, 1)
        return Fraction(int(best[0, 0]), int(best[0, 1]))

    def rows(self, asked: NDArray[np.int16], budget: int, chunks: int) -> NDArray[np.int32]:
        """Columns of sends, at most ``budget`` chunks a link; the step is still to be set."""
        return rows_of(self.topology, self.links, self.neighbours, asked, [budget], chunks)
