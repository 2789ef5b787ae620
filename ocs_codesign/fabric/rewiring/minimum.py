"""Minimum rewiring: the planes of a topology that need the fewest new circuits.

With two one-way planes every component of the circuits has two ways to be on them, and the better
one is taken: that is exact. More planes are an NP-hard choice: planes found by matchings are
compared with a bound from linear programming, and what they leave open is given to branch and
bound.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.infeasible import InfeasibleError, Reason
from ocs_codesign.fabric.planes.circuits import check_equal_speeds
from ocs_codesign.fabric.planes.models import planes_of
from ocs_codesign.fabric.planes.planes import Planes, check_ports
from ocs_codesign.fabric.rewiring.matchings import exchanged, matched_planes
from ocs_codesign.fabric.rewiring.program import (
    PlacementChoices,
    choices,
    most_kept_by_duals,
    part_program,
    solve_part,
)
from ocs_codesign.fabric.rewiring.state import checked_state, plane_state, state_circuits
from ocs_codesign.factorisation import renumbered
from ocs_codesign.given import as_topology
from ocs_codesign.lp import Options

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from ocs_codesign.given import TopologyLike
    from ocs_codesign.topology import Topology

TIME_LIMIT_S = 60.0
MAX_LINEAR_COLUMNS = 100_000
MAX_INTEGER_COLUMNS = 20_000
"""Columns up to which the linear program, and branch and bound, are tried."""


@final
class Optimality(Enum):
    """What proves how many circuits must change at least; the value says it in a few words."""

    COUNT = "all held circuits that the target has are kept"
    TWO_WAYS = "every component of circuits has two ways, and the better one is taken"
    DUALS = "weights of ports and pairs bound what can be kept"
    BRANCH_AND_BOUND = "branch and bound of the solver"
    OPEN = "the bound is not met"


@final
@dataclass(frozen=True, slots=True, eq=False)
class Rewiring:
    """The circuits of a topology on planes, next to what the planes held before.

    ``held`` and ``target`` (int32, planes x N) say where the circuit of every A port leads, -1 for
    dark; ``planes`` is the target with its circuits. No planes keep more than ``most_kept``, as
    ``optimality`` proves; where it is OPEN, some bound of the others holds.
    """

    held: NDArray[np.int32]
    target: NDArray[np.int32]
    planes: Planes
    most_kept: int
    optimality: Optimality

    @property
    def num_kept(self) -> int:
        """Circuits that stay up."""
        return int(is_kept(self.planes, self.held).sum())

    @property
    def num_changed(self) -> int:
        """Circuits of the target that have to be made."""
        return self.planes.num_circuits - self.num_kept

    @property
    def num_torn_down(self) -> int:
        """Held circuits that go."""
        return len(state_circuits(self.held, self.planes.port_model)) - self.num_kept

    @property
    def fewest_changed(self) -> int:
        """How many circuits have to be made at least, with these labels, on any planes."""
        return self.planes.num_circuits - self.most_kept

    @property
    def is_optimal(self) -> bool:
        """Whether it is proven that no planes need fewer new circuits."""
        return self.num_kept == self.most_kept


def minimum_rewiring(
    held: ArrayLike,
    topology: TopologyLike,
    port_model: PortModel = PortModel.SIMPLEX,
    *,
    options: Options | None = None,
    seed: int = 0,
) -> Rewiring:
    """The planes of a topology with the most circuits that ``held`` has in the same plane.

    ``held`` (planes x N, -1 for dark) is what the planes hold, see ``plane_state``; nodes stay
    where they are. Exact for two planes of one-way circuits or matchings and for one two-sided
    plane; else what ``options.time_limit_s`` (60 s) allows, with a bound. Raises ValueError for a
    state that no switches hold and for RESTRICTED planes, InfeasibleError if the topology does not
    fit on the planes.

    >>> from ocs_codesign.graphs.families.rings import DirectedCirculant
    >>> from ocs_codesign.factorisation import factorise, plane_heads
    >>> before = DirectedCirculant(8, (1, 3)).topology()
    >>> held = plane_heads(before, factorise(before))
    >>> rewiring = minimum_rewiring(held, DirectedCirculant(8, (1, 2)).topology())
    >>> rewiring.num_changed, rewiring.is_optimal
    (8, True)
    """
    begin, topology = time.monotonic(), as_topology(topology)
    options = options or Options(time_limit_s=TIME_LIMIT_S)
    state = checked_state(held, port_model, topology.num_nodes)
    check_equal_speeds(topology)
    planes = _first_planes(topology, port_model, state)
    ways = choices(planes, state)
    most = int(ways.most_kept.sum())
    two_way_planes = (1,) if port_model is PortModel.TWO_SIDED else (1, 2)
    has_two_ways = len(state) in two_way_planes
    if not has_two_ways:
        planes = matched_planes(planes, state, seed, most)
    planes = exchanged(planes, state)
    num_kept = int(is_kept(planes, state).sum())
    proof = Optimality.COUNT
    if num_kept < most and has_two_ways:
        most, proof = num_kept, Optimality.TWO_WAYS
    elif num_kept < most:
        left = options.after(time.monotonic() - begin)
        planes, most, proof = _bounded(planes, state, ways, left)
    check_ports(planes)
    return Rewiring(state, plane_state(planes, len(state)), planes, most, proof)


def is_kept(planes: Planes, held: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Which circuits ``held`` has in the same plane."""
    return np.asarray(held[planes.plane, planes.a_node] == planes.b_node)


def _first_planes(topology: Topology, port_model: PortModel, held: NDArray[np.int32]) -> Planes:
    """As few planes as are needed, renumbered among those that are held."""
    planes = planes_of(topology, port_model)
    there = len(held)
    if planes.num_planes > there:
        proven = planes.at_least.num_planes > there
        why = planes.at_least.sentence if proven else "which is not proven to be too few"
        raise InfeasibleError(
            Reason.PLANES if proven else Reason.NOT_FOUND,
            f"{planes.num_planes} planes are needed and {there} are held: {why}",
        )
    keeps = held[:, planes.a_node] == planes.b_node
    return replace(planes, plane=renumbered(planes.plane, keeps), num_planes=there)


def _bounded(
    planes: Planes, held: NDArray[np.int32], ways: PlacementChoices, options: Options
) -> tuple[Planes, int, Optimality]:
    """Part by part: the bound of the duals and, where planes do not meet it, branch and bound."""
    begin, proofs, total = time.monotonic(), {Optimality.COUNT}, 0
    stays = is_kept(planes, held)
    for part in np.unique(ways.part):
        kept = int(stays[ways.part[ways.pair_of] == part].sum())
        most = int(ways.most_kept[ways.part == part].sum())
        columns = np.flatnonzero(ways.part[ways.pair] == part)
        if kept < most and len(columns) <= MAX_LINEAR_COLUMNS:
            proofs.add(Optimality.DUALS)
            program = part_program(ways, columns)
            by_duals = most_kept_by_duals(program, options.after(time.monotonic() - begin))
            most = most if by_duals is None else min(most, by_duals)
            left = options.after(time.monotonic() - begin)
            is_small = len(columns) <= MAX_INTEGER_COLUMNS
            if kept < most and is_small and left.time_limit_s != 0:
                proofs.add(Optimality.BRANCH_AND_BOUND)
                taken, bound = solve_part(program, left)
                most = most if bound is None else min(most, bound)
                if taken is not None and int(ways.kept[columns[taken]].sum()) > kept:
                    planes = ways.placed(planes, columns[taken])
                    kept = int(ways.kept[columns[taken]].sum())
        if kept < most:
            proofs.add(Optimality.OPEN)
        total += most
    # The proof that needs most trust is named.
    return planes, total, max(proofs, key=list(Optimality).index)
