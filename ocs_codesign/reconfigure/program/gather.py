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
from ocs_codesign.reach import InNeighbours, in_neighbours
from ocs_codesign.reconfigure.program.layers import layered, programmed
from ocs_codesign.reconfigure.program.reach import arrivals, check_nodes
from ocs_codesign.schedule import Schedule
from ocs_codesign.schedulers.bfb.loads import num_chunks_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from ocs_codesign.reconfigure.program.layers import Layers, Programmed
    from ocs_codesign.topology import Topology

_ABSENT = 9
"""A distance that none asks for."""


def sequence_gather(
    configurations: Sequence[Topology],
    used: Sequence[int],
    collective: Collective | str = Collective.ALLGATHER,
    on_progress: Callable[[int, int], None] | None = None,
) -> Programmed:
    """The schedule of a collective over configurations that take turns.

    An allgather and a reduce-scatter have configuration ``used[step - 1]`` up in every step, an
    allreduce is the reduce-scatter and then the allgather over the same steps backwards, so that
    nothing changes in between. Steps that are not needed are left out. ``on_progress(done, total)``
    hears of the steps of each half. Raises ValueError if the steps do not bring all to all, or for
    an all-to-all.

    >>> from ocs_codesign.families.rings import directed_circulant
    >>> rings = [directed_circulant(9, (1, 2)), directed_circulant(9, (3, 6))]
    >>> [str(load) for load in sequence_gather(rings, [0, 1]).schedule.max_loads()]
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
    both = mirrored.reversed().then(gather)
    return programmed(layers, (*scatter_steps, *backwards), both)


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Step:
    """What every node gets in a step: the kernels' distances, neighbours and links into nodes.

    Row u of ``distance_to`` is 1 at what node u gets, row N + w is 0 at what node w has to give;
    ``neighbours`` names the rows N + w, so that a node can be both. The links into node u are
    ``links[bounds[u] : bounds[u + 1]]``, sorted by tail.
    """

    distance_to: NDArray[np.int16]
    neighbours: NDArray[np.int32]
    capacity: NDArray[np.int64]
    links: NDArray[np.int64]
    bounds: NDArray[np.int64]

    def least_load(self) -> Fraction:
        """The largest link load that cannot be avoided, in shards."""
        from ocs_codesign.schedulers.bfb.kernels import all_least_loads

        receivers = np.arange(len(self.neighbours))
        best = all_least_loads(self.distance_to, self.neighbours, self.capacity, receivers, 1)
        return Fraction(int(best[0, 0]), int(best[0, 1]))

    def rows(self, layers: Layers, load: Fraction, chunks: int) -> NDArray[np.int32]:
        """Columns root, lo, hi, link, step of sends with this load; the step is still to be set."""
        from ocs_codesign.schedulers.bfb.kernels import receiver_rows

        budget = np.full((1, len(self.links)), int(load * chunks), dtype=np.int64)
        offset = np.zeros((1, layers.topology.num_links), dtype=np.int64)
        columns = np.empty((5, 0), dtype=np.int32)
        for count_rows in (True, False):
            for receiver in range(len(self.neighbours)):
                links = self.links[self.bounds[receiver] : self.bounds[receiver + 1]]
                tails = layers.topology.tail[links]
                start = np.full(self.neighbours.shape[1] + 1, len(links), dtype=np.int64)
                first = np.flatnonzero(np.diff(tails, prepend=-1))
                start[: len(first)] = first
                receiver_rows(
                    self.distance_to,
                    receiver,
                    self.neighbours[receiver],
                    start,
                    links,
                    budget[:, : len(links)],
                    chunks,
                    count_rows,
                    offset,
                    columns,
                )
            if count_rows:
                columns = np.empty((5, int(offset.sum())), dtype=np.int32)
                offset = (np.cumsum(offset) - offset.ravel()).reshape(offset.shape)
        return columns


def _allgather(
    layers: Layers, used: Sequence[int], on_progress: Callable[[int, int], None] | None
) -> Schedule:
    """The allgather over the links of ``layers.topology``; it ends as early as it can."""
    nodes = layers.topology.num_nodes
    arrival = arrivals(layers.configurations, used, np.arange(nodes)).T
    if (arrival > len(used)).any():
        node, source = np.argwhere(arrival > len(used))[0]
        raise ValueError(
            f"node {node} is out of node {source}'s reach in the {len(used)} steps of the "
            "sequence: more steps or configurations are needed"
        )
    loads = [step.least_load() for step in _steps(layers, used, arrival)]
    chunks = num_chunks_for(loads)
    parts = []
    for number, step in enumerate(_steps(layers, used, arrival)):
        part = step.rows(layers, loads[number], chunks)
        part[4] = number + 1
        parts.append(part)
        if on_progress is not None:
            on_progress(number + 1, len(loads))
    return Schedule(layers.topology, Collective.ALLGATHER, chunks, *np.concatenate(parts, axis=1))


def _steps(layers: Layers, used: Sequence[int], arrival: NDArray[np.int32]) -> Iterator[_Step]:
    """The steps up to the last in which something arrives; ``arrival[u, v]`` is v's at u."""
    nodes = layers.topology.num_nodes
    into = {number: _InLinks.of(layers, number) for number in set(used)}
    for step, number in enumerate(used[: int(arrival.max())], 1):
        distance_to = np.empty((2 * nodes, nodes), dtype=np.int16)
        distance_to[:nodes] = arrival == step
        distance_to[nodes:] = np.where(arrival < step, 0, _ABSENT)
        here = into[number]
        yield _Step(distance_to, here.neighbours, here.capacity, here.links, here.bounds)


@final
@dataclass(frozen=True, slots=True, eq=False)
class _InLinks:
    """The links into every node in one configuration, as ``_Step`` needs them."""

    neighbours: NDArray[np.int32]
    capacity: NDArray[np.int64]
    links: NDArray[np.int64]
    bounds: NDArray[np.int64]

    @classmethod
    def of(cls, layers: Layers, number: int) -> _InLinks:
        topology = layers.topology
        nodes, links = topology.num_nodes, layers.links_of(number)
        links = links[topology.tail[links] != topology.head[links]]
        links = links[np.lexsort((topology.tail[links], topology.head[links]))]
        table: InNeighbours = in_neighbours(layers.configurations[number])
        padding = table.capacity == 0
        neighbours = np.where(padding, table.node, table.node + nodes).astype(np.int32)
        bounds = np.searchsorted(topology.head[links], np.arange(nodes + 1))
        return cls(neighbours, table.capacity, links, bounds)
