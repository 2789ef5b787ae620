"""Allgather, reduce-scatter and allreduce over a sequence of configurations.

Every node takes all that a neighbour of the step can give it and it does not have, spread over its
links of that step so that the busiest carries as little as possible. With one configuration this is
BFB; with the pairings of a hypercube it is recursive doubling. A reduce-scatter is the allgather
with time and links reversed; an allreduce runs that and goes the same way back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.circuits.change import arrivals, check_nodes
from ocs_codesign.circuits.programs.wiring import layered, programmed
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.compute.symmetry import Quotient, quotient_and_images
from ocs_codesign.core.cost import total
from ocs_codesign.core.lp import DEFAULT_OPTIONS
from ocs_codesign.core.progress import tell
from ocs_codesign.core.schedule import Schedule
from ocs_codesign.core.topology import in_neighbours
from ocs_codesign.schedules.breadth_first.assembly import links_by_ends, rows_of
from ocs_codesign.schedules.breadth_first.loads import loads_of_steps, num_chunks_for
from ocs_codesign.schedules.stepped.alltoall import MAX_ARCS, MAX_CHUNKS, assemble, optimal_flow
from ocs_codesign.schedules.stepped.time_network import WAIT, chunk_flow, time_network, walks_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ocs_codesign.circuits.programs.wiring import Layers
    from ocs_codesign.core.circuits import CircuitProgram
    from ocs_codesign.core.lp import Options
    from ocs_codesign.core.topology import Topology
    from ocs_codesign.schedules.stepped.time_network import TimeNetwork


_ABSENT = 9
"""A distance that none asks for."""


def sequence_gather(
    configurations: Sequence[Topology],
    used: Sequence[int],
    collective: Collective | str = Collective.ALLGATHER,
) -> tuple[CircuitProgram, Schedule, tuple[int, ...]]:
    """The program and schedule of a collective over configurations in turn, and which are used.

    An allgather and a reduce-scatter have configuration ``used[step - 1]`` up in every step, an
    allreduce is the reduce-scatter and then the allgather over the same steps backwards, so that
    nothing changes in between. Steps that are not needed are left out. Raises ValueError
    if the steps do not bring all to all, or for an all-to-all.

    >>> from ocs_codesign.graphs.families.rings import DirectedCirculant
    >>> rings = [DirectedCirculant(9, (1, 2)).topology(), DirectedCirculant(9, (3, 6)).topology()]
    >>> [str(load) for load in sequence_gather(rings, [0, 1])[1].max_loads()]
    ['1', '3']
    """
    collective = Collective.parse_gathering(collective)
    layers = layered(configurations)
    check_nodes(layers.topology.num_nodes)
    if collective == Collective.ALLGATHER:
        return programmed(layers, used, _allgather(layers, used))
    backwards = tuple(used)[::-1]
    mirrored = _allgather(layers.transpose(), backwards)
    scatter_steps = backwards[: mirrored.num_steps][::-1]
    if collective == Collective.REDUCE_SCATTER:
        return programmed(layers, scatter_steps, mirrored.reversed())
    gather = _allgather(layers, backwards)
    return programmed(layers, (*scatter_steps, *backwards), mirrored.reversed().then(gather))


def _allgather(layers: Layers, used: Sequence[int]) -> Schedule:
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
        tell(step, len(loads))
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
        return total(loads_of_steps(asked, self.neighbours, self.capacity))

    def rows(self, asked: NDArray[np.int16], budget: int, chunks: int) -> NDArray[np.int32]:
        """Columns of sends, at most ``budget`` chunks a link; the step is still to be set."""
        return rows_of(self.topology, self.links, self.neighbours, asked, [budget], chunks)


# All-to-all over a sequence of configurations: whole chunks, stored at nodes between the steps.
#
# The time-stepped program of ``schedulers.alltoall`` in which a step has only the links of the
# configuration in use: its flow is rounded to chunks, split into walks and copied from one source
# of every orbit to all. Source of the program: Basu et al. (arXiv 2309.13541).


def sequence_alltoall(
    configurations: Sequence[Topology],
    used: Sequence[int],
    max_chunks: int = MAX_CHUNKS,
    options: Options = DEFAULT_OPTIONS,
) -> tuple[tuple[CircuitProgram, Schedule, tuple[int, ...]], Fraction]:
    """All-to-all with configuration ``used[step - 1]`` up in every step, optimal but for chunks.

    Pieces are cut into at most ``max_chunks`` chunks. Beside the program, its schedule and the
    configurations of the steps that are needed there is the t_b that no schedule over this very
    sequence of steps can beat, whole chunks or not. Large programs, and those that the solver
    leaves unsolved for time or memory, are solved to about a hundredth. Raises ValueError if some
    pair is not served in those steps, or the program is too large.
    """
    if max_chunks < 1:
        raise ValueError(f"max_chunks is {max_chunks}: a piece is at least one chunk")
    layers = layered(configurations)
    whole, group = quotient_and_images(layers.topology)
    network = _network(layers, used, whole, MAX_ARCS)
    smooth, bound = optimal_flow(network, options)
    flow = chunk_flow(network, smooth, max_chunks)
    walks = walks_of(network, flow)
    schedule = assemble(layers.topology, whole.sources, flow.chunks, walks, group)
    made = programmed(layers, used, schedule)
    return made, made[0].t_b(bound)


def sequence_cost(
    configurations: Sequence[Topology], used: Sequence[int], max_arcs: int
) -> tuple[Fraction, Fraction]:
    """The t_b of the schedule of ``sequence_alltoall``, and what none can beat; nothing is built.

    Raises ValueError as that does, and for programs of more than about ``max_arcs`` columns.
    """
    layers, one = layered(configurations), configurations[0]
    network = _network(layers, used, quotient_and_images(layers.topology)[0], max_arcs)
    smooth, bound = optimal_flow(network, DEFAULT_OPTIONS)
    loads = chunk_flow(network, smooth, MAX_CHUNKS).loads
    return one.t_b(sum(loads, Fraction(0))), one.t_b(bound)


def _network(layers: Layers, used: Sequence[int], whole: Quotient, max_arcs: int) -> TimeNetwork:
    """The time network in which arcs over links are of the configuration in use."""
    check_nodes(layers.topology.num_nodes)
    arrival = arrivals(layers.configurations, used, whole.sources)
    arcs = _num_arcs(layers, used, arrival)
    if arcs > max_arcs:
        raise ValueError(
            f"all-to-all in {len(used)} steps on {layers.topology.num_nodes} nodes is a program of "
            f"{arcs} columns: at most {max_arcs} are supported without more symmetry"
        )
    # What an arc needs of distances is who can have the data before its step: arrivals say that.
    every = time_network(_folded(layers, whole), arrival, len(used))
    current = np.asarray(used)[every.step - 1]
    kept = (every.link == WAIT) | (layers.layer[every.link] == current)
    names = ("step", "source", "tail", "head", "link", "row")
    columns = {name: getattr(every, name)[kept] for name in names}
    state = np.cumsum(np.diff(every.state[kept], prepend=every.state[kept][:1]) != 0)
    return replace(every, **columns, state=state)


def _folded(layers: Layers, whole: Quotient) -> Quotient:
    """The quotient with the link orbits of every configuration numbered from 0.

    A step loads the links of one configuration only, so those of all share the rows of a step.
    """
    numbers = range(len(layers.configurations))
    first = np.array([whole.link_orbit[layers.links_of(i)].min() for i in numbers])
    orbit = whole.link_orbit - first[layers.layer]
    ones = np.ones(int(orbit.max()) + 1, dtype=np.int64)
    return Quotient(whole.topology, whole.sources, orbit, ones, ones.astype(bool))


def _num_arcs(layers: Layers, used: Sequence[int], arrival: NDArray[np.int32]) -> int:
    """About as many arcs as the network has: a move over every link, a wait at every node."""
    outs = [topology.out_degrees() + 1 for topology in layers.configurations]
    there = (arrival < step for step in range(1, len(used) + 1))
    return int(sum((here @ outs[i]).sum() for here, i in zip(there, used, strict=True)))
