"""All-to-all over a sequence of configurations: whole chunks, stored at nodes between the steps.

The time-stepped program of ``schedulers.alltoall`` in which a step has only the links of the
configuration in use: its flow is rounded to chunks, split into walks and copied from one source of
every orbit to all. Source of the program: Basu et al. (arXiv 2309.13541).
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.lp import DEFAULT_OPTIONS
from ocs_codesign.reconfigure.in_turn import arrivals, check_nodes
from ocs_codesign.reconfigure.program.wiring import layered, programmed
from ocs_codesign.schedulers.alltoall.assembly import assemble
from ocs_codesign.schedulers.alltoall.chunks import chunk_flow, walks_of
from ocs_codesign.schedulers.alltoall.stepped import MAX_ARCS, MAX_CHUNKS, optimal_flow
from ocs_codesign.schedulers.alltoall.time_network import WAIT, time_network
from ocs_codesign.symmetry.automorphisms import quotient_and_images
from ocs_codesign.symmetry.quotient import Quotient

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ocs_codesign.circuits import CircuitProgram
    from ocs_codesign.lp import Options
    from ocs_codesign.reconfigure.program.wiring import Layers
    from ocs_codesign.schedule import Schedule
    from ocs_codesign.schedulers.alltoall.time_network import TimeNetwork
    from ocs_codesign.topology import Topology


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

    >>> from ocs_codesign.graphs.families.rings import DirectedCirculant
    >>> rings = [DirectedCirculant(8, (1,)).topology(), DirectedCirculant(8, (3,)).topology()]
    >>> sequence_alltoall(rings, [0, 0, 1, 1])[1]
    Fraction(7, 4)
    """
    if max_chunks < 1:
        raise ValueError(f"max_chunks is {max_chunks}: a piece is at least one chunk")
    layers = layered(configurations)
    check_nodes(layers.topology.num_nodes)
    whole, group = quotient_and_images(layers.topology)
    network = _network(layers, used, whole)
    smooth, bound = optimal_flow(network, options)
    flow = chunk_flow(network, smooth, max_chunks)
    walks = walks_of(network, flow)
    schedule = assemble(layers.topology, whole.sources, flow.chunks, walks, group)
    made = programmed(layers, used, schedule)
    return made, made[0].t_b(bound)


def sequence_cost(
    configurations: Sequence[Topology],
    used: Sequence[int],
    max_chunks: int = MAX_CHUNKS,
    options: Options = DEFAULT_OPTIONS,
) -> tuple[Fraction, Fraction]:
    """The t_b of the schedule of ``sequence_alltoall``, and what none can beat; nothing is built.

    Raises ValueError as that does.

    >>> from ocs_codesign.graphs.families.rings import DirectedCirculant
    >>> rings = [DirectedCirculant(8, (1,)).topology(), DirectedCirculant(8, (3,)).topology()]
    >>> sequence_cost(rings, [0, 0, 1, 1])[0]
    Fraction(7, 4)
    """
    layers = layered(configurations)
    check_nodes(layers.topology.num_nodes)
    network = _network(layers, used, quotient_and_images(layers.topology)[0])
    smooth, bound = optimal_flow(network, options)
    flow = chunk_flow(network, smooth, max_chunks)
    one = configurations[0]
    return one.t_b(sum(flow.loads, Fraction(0))), one.t_b(bound)


def num_program_arcs(configurations: Sequence[Topology], used: Sequence[int]) -> int:
    """About as many columns as the program of these steps has; ValueError if pairs are not served.

    >>> from ocs_codesign.graphs.families.rings import DirectedCirculant
    >>> num_program_arcs([DirectedCirculant(8, (1, 3)).topology()], [0, 0, 0])
    30
    """
    layers = layered(configurations)
    whole = quotient_and_images(layers.topology)[0]
    return _num_arcs(layers, used, arrivals(layers.configurations, used, whole.sources))


def _network(layers: Layers, used: Sequence[int], whole: Quotient) -> TimeNetwork:
    """The time network in which arcs over links are of the configuration in use."""
    arrival = arrivals(layers.configurations, used, whole.sources)
    arcs = _num_arcs(layers, used, arrival)
    if arcs > MAX_ARCS:
        raise ValueError(
            f"all-to-all in {len(used)} steps on {layers.topology.num_nodes} nodes is a program of "
            f"{arcs} columns: at most {MAX_ARCS} are supported without more symmetry"
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
