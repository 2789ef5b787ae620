"""Minimum rewiring: the planes of a topology that need the fewest new circuits.

With two one-way planes every component of the circuits has two ways to be on them, and the better
one is taken: that is exact. More planes are an NP-hard choice: a local search is compared with a
bound from linear programming, and what they leave open is given to branch and bound.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.infeasible import InfeasibleError, Reason
from ocs_codesign.fabric.planes.circuits import NO_LINK, check_equal_speeds
from ocs_codesign.fabric.planes.models import planes_of
from ocs_codesign.fabric.planes.planes import Planes, check_ports
from ocs_codesign.fabric.rewiring_kempe import improve_planes
from ocs_codesign.fabric.rewiring_matchings import matched_planes
from ocs_codesign.fabric.rewiring_program import (
    Choices,
    choices,
    most_kept_by_duals,
    part_program,
    solve_part,
)
from ocs_codesign.fabric.rewiring_state import DARK, checked_state, plane_state
from ocs_codesign.factorisation import factorise
from ocs_codesign.lp import Options
from ocs_codesign.topology import Topology

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

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
    def kept_by_plane(self) -> NDArray[np.int64]:
        """Circuits that stay up in every plane."""
        kept = (self.held == self.target) & (self.target != DARK)
        # Without sides a circuit is written at both of its ends.
        ends = 1 if self.planes.port_model.has_b_side else 2
        return np.asarray(kept.sum(axis=1) // ends)

    @property
    def num_kept(self) -> int:
        """Circuits that stay up."""
        return int(self.kept_by_plane.sum())

    @property
    def num_changed(self) -> int:
        """Circuits of the target that have to be made."""
        return self.planes.num_circuits - self.num_kept

    @property
    def num_torn_down(self) -> int:
        """Held circuits that go."""
        ends = 1 if self.planes.port_model.has_b_side else 2
        return int(np.count_nonzero(self.held != DARK)) // ends - self.num_kept

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
    topology: Topology,
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
    >>> found = minimum_rewiring(held, DirectedCirculant(8, (1, 2)).topology())
    >>> found.num_changed, found.is_optimal
    (8, True)
    """
    begin = time.monotonic()
    options = options or Options(time_limit_s=TIME_LIMIT_S)
    if port_model is PortModel.RESTRICTED:
        raise ValueError(
            "the planes are restricted: their states are given, and only embedding chooses "
            "among them"
        )
    state = checked_state(held, port_model, topology.num_nodes)
    check_equal_speeds(topology)
    start = _aligned(_first_planes(topology, port_model, state), state)
    ways = choices(start, state)
    most = ways.most_kept_by_count
    has_two_ways = len(state) == (1 if port_model is PortModel.TWO_SIDED else 2)
    if not has_two_ways:
        start = matched_planes(start, state, seed, most)
    planes = improve_planes(start, state, seed, most)
    kept = _num_kept(planes, state)
    if kept == most:
        proof = Optimality.COUNT
    elif has_two_ways or (len(state) == 1 and port_model is not PortModel.TWO_SIDED):
        most, proof = kept, Optimality.TWO_WAYS
    else:
        planes, most, proof = _bounded(planes, state, ways, options.after(_since(begin)))
    check_ports(planes)
    return Rewiring(state, plane_state(planes, len(state)), planes, most, proof)


def naive_rewiring(held: ArrayLike, planes: Planes) -> Rewiring:
    """What it takes to make planes as they come, without any choice; nothing is proven.

    ``most_kept`` is the number of held circuits that the target has in any plane.
    """
    state = checked_state(held, planes.port_model, planes.topology.num_nodes)
    most = choices(planes, state).most_kept_by_count
    target = plane_state(planes, len(state))
    proof = Optimality.COUNT if _num_kept(planes, state) == most else Optimality.OPEN
    return Rewiring(state, target, planes, most, proof)


def _since(begin: float) -> float:
    return time.monotonic() - begin


def _num_kept(planes: Planes, held: NDArray[np.int32]) -> int:
    return int(np.count_nonzero(held[planes.plane, planes.a_node] == planes.b_node))


def _first_planes(topology: Topology, port_model: PortModel, held: NDArray[np.int32]) -> Planes:
    planes = planes_of(topology, port_model)
    there = len(held)
    if planes.num_planes > there:
        proven = planes.at_least.num_planes > there
        why = planes.at_least.sentence if proven else "which is not proven to be too few"
        raise InfeasibleError(
            Reason.PLANES if proven else Reason.NOT_FOUND,
            f"{planes.num_planes} planes are needed and {there} are held: {why}",
        )
    if port_model is PortModel.SIMPLEX and topology.degree == there:
        # Without its declared symmetry, whose orbits would be taken as planes.
        bare = Topology(topology.num_nodes, topology.tail, topology.head)
        near = replace(planes, plane=factorise(bare, held))
        if _num_kept(near, held) > _num_kept(_aligned(planes, held), held):
            return near
    return planes


def _aligned(planes: Planes, held: NDArray[np.int32]) -> Planes:
    """The planes renumbered, among all that are held, so that most circuits are kept."""
    from scipy.optimize import linear_sum_assignment

    size = len(held)
    kept = np.zeros((size, size), dtype=np.int64)
    for other, heads in enumerate(held):
        stays = heads[planes.a_node] == planes.b_node
        kept[:, other] = np.bincount(planes.plane[stays], minlength=size)
    number = linear_sum_assignment(kept, maximize=True)[1].astype(np.int32)
    return replace(planes, plane=number[planes.plane], num_planes=size)


def _bounded(
    planes: Planes, held: NDArray[np.int32], ways: Choices, options: Options
) -> tuple[Planes, int, Optimality]:
    """Part by part: the bound of the duals and, where planes do not meet it, branch and bound."""
    begin, proofs, total = time.monotonic(), {Optimality.COUNT}, 0
    stays = (held[planes.plane, planes.a_node] == planes.b_node).astype(np.int64)
    part_of = ways.part[ways.pair_of]
    for part in np.unique(part_of):
        mine = np.flatnonzero(part_of == part)
        kept = int(stays[mine].sum())
        most = _count_of_part(ways, int(part))
        if kept < most and np.count_nonzero(ways.part[ways.pair] == part) <= MAX_LINEAR_COLUMNS:
            proofs.add(Optimality.DUALS)
            program = part_program(ways, int(part))
            by_duals = most_kept_by_duals(program, options.after(_since(begin)))
            most = most if by_duals is None else min(most, by_duals)
            left = options.after(_since(begin))
            if kept < most and len(program.columns) <= MAX_INTEGER_COLUMNS and _is_time(left):
                proofs.add(Optimality.BRANCH_AND_BOUND)
                taken, bound = solve_part(program, left)
                most = most if bound is None else min(most, bound)
                if taken is not None and int(ways.kept[taken].sum()) > kept:
                    planes = _placed(planes, ways, mine, taken)
                    kept = int(ways.kept[taken].sum())
        if kept < most:
            proofs.add(Optimality.OPEN)
        total += most
    # The proof that needs most trust is named.
    return planes, total, max(proofs, key=list(Optimality).index)


def _is_time(options: Options) -> bool:
    return options.time_limit_s is None or options.time_limit_s > 0


def _count_of_part(ways: Choices, part: int) -> int:
    held = np.bincount(ways.pair, weights=ways.kept, minlength=len(ways.count))
    return int(np.minimum(held, ways.count)[ways.part == part].sum())


def _placed(
    planes: Planes, ways: Choices, mine: NDArray[np.int64], taken: NDArray[np.int64]
) -> Planes:
    """The circuits of a part, sorted by their pair, in the planes and directions taken."""
    circuits = mine[np.argsort(ways.pair_of[mine], kind="stable")]
    taken = taken[np.argsort(ways.pair[taken], kind="stable")]
    plane, link = planes.plane.copy(), planes.link.copy()
    plane[circuits] = ways.plane[taken]
    turn = circuits[planes.a_node[circuits] != ways.a[taken]]
    turn = turn[link[turn, 1] != NO_LINK]
    link[turn] = link[turn, ::-1]
    return replace(planes, plane=plane, link=link)
