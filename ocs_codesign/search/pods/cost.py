"""What collectives cost on a slice of a pod, and what they cost at least with any permutations.

U is the time in which every pair of chips exchanges a unit (all-to-all), or in which all shards of
a unit are gathered, over links that carry a unit in a unit of time, each way.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.bounds import bound
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.lp import DEFAULT_OPTIONS
from ocs_codesign.core.proven import Proven
from ocs_codesign.graphs.families.pods import (
    check_circuits,
    cube_of,
    cube_symmetry,
    graph_of,
    neighbours,
)
from ocs_codesign.schedules.design import measure_topology
from ocs_codesign.schedules.paths.planes import orbit_throughput
from ocs_codesign.search.pods.bound import pod_bound
from ocs_codesign.search.pods.orbits import furthest, pod_quotient

if TYPE_CHECKING:
    from ocs_codesign.core.lp import Options
    from ocs_codesign.graphs.families.pods import Numbers
    from ocs_codesign.schedules.paths.certificates import Throughput

_PARTS = 10**9
"""Of a unit: a routing that is not proven the best is told so exactly, rounded up."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PodCost(Proven[Fraction]):
    """U of a slice, its ``value``, and the ``bound`` for these circuits, of ``num_nodes`` chips.

    ``bound_all`` is what no permutations are below, ``steps`` those of the schedule, of an
    all-to-all the most hops that it needs.
    """

    num_nodes: int
    num_ports: int
    bound_all: Fraction
    steps: int
    diameter: int

    @property
    def t_b(self) -> Fraction:
        """The time in M/B: M is the buffer of a chip, B the bandwidth of all its ports."""
        return self.value * self.num_ports / self.num_nodes


def pod_cost(
    shape: tuple[int, ...],
    circuits: Numbers,
    collective: Collective | str = Collective.ALLTOALL,
    options: Options = DEFAULT_OPTIONS,
) -> PodCost:
    """The cost of a collective over circuits, -1 where a port has none.

    All-to-all is the best routing, exact where that does not take long, else with its bound;
    others are those of BFB. Raises ValueError by name for circuits that fit no slice.

    >>> from ocs_codesign.graphs.families.pods import PodLattice
    >>> twisted = PodLattice((4, 4, 4), ((1, 0, 1), (0, 1, 1), (0, 0, 2)))
    >>> cost = pod_cost(twisted.cube, twisted.circuits())
    >>> cost.value, cost.is_optimal, cost.t_b, cost.bound_all
    (Fraction(220, 3), True, Fraction(55, 16), Fraction(1681, 24))
    """
    collective = Collective.parse(collective)
    cube = cube_of(shape)
    check_circuits(cube, circuits)
    if collective == Collective.ALLTOALL:
        down = np.flatnonzero((circuits < 0).all(axis=1)).tolist()
        routed = orbit_throughput(pod_quotient(shape, circuits), options)
        return alltoall_cost(routed, pod_bound(shape, circuits.shape[1], down).least)
    topology = graph_of(neighbours(cube, circuits), cube_symmetry(cube, circuits))
    nodes, ports = topology.num_nodes, cube.inner.shape[1]
    cost, unit = measure_topology(topology, collective).cost, Fraction(nodes, ports)
    least = bound(nodes, ports, collective).t_b * unit
    return PodCost(
        *(cost.t_b * unit, least, "BFB", None),
        num_nodes=nodes,
        num_ports=ports,
        bound_all=least,
        steps=cost.steps,
        diameter=topology.diameter(),
    )


def alltoall_cost(found: Throughput, bound_all: Fraction) -> PodCost:
    """The cost of a routing, beside what no permutations are below."""
    topology = found.quotient.topology
    nodes, ports, diameter = topology.num_nodes, topology.degree, furthest(found.quotient)
    value, least = (each * nodes / ports for each in (found.value, found.bound))
    if value != least:  # shares of a float program have long fractions
        value, least = Fraction(ceil(value * _PARTS), _PARTS), Fraction(int(least * _PARTS), _PARTS)
    proof, _, stopped = found.proof.partition(": ")
    return PodCost(
        *(value, least, proof, None if value == least else stopped or "it was close enough"),
        num_nodes=nodes,
        num_ports=ports,
        bound_all=bound_all,
        steps=diameter,
        diameter=diameter,
    )
