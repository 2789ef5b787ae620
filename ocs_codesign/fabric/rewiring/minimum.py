"""Minimum rewiring: the planes of a topology that need the fewest new circuits.

With two one-way planes every component of the circuits has two ways to be on them, and the better
one is taken: that is exact. More planes are an NP-hard choice: planes found by matchings are
compared with a bound from linear programming, and what they leave open is given to branch and
bound.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from enum import Enum
from itertools import combinations
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.compute.components import connected
from ocs_codesign.core.compute.factorisation import NO_LINK, renumbered
from ocs_codesign.core.given import as_topology
from ocs_codesign.core.lp import Options, solve
from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.infeasible import InfeasibleError, Reason, program_of
from ocs_codesign.fabric.planes.models import planes_of
from ocs_codesign.fabric.planes.planes import Planes, check_equal_speeds, check_ports
from ocs_codesign.fabric.rewiring.state import checked_state, plane_state, state_circuits

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from ocs_codesign.core.given import TopologyLike
    from ocs_codesign.core.lp import LinearProgram
    from ocs_codesign.core.topology import Topology


# Planes that keep more held circuits: by matchings one after the other, and by Kempe chains.
#
# What is left of a regular topology without a perfect matching is regular again (Koenig 1916), so
# planes can be filled in any order and by any weights. First all planes are filled in some
# orders, then some planes at a time are emptied and filled again, as long as no kept circuit is
# lost.
#
# The circuits of two planes fall into chains that share no port, so that each may change planes
# by itself. A ring or path of two-way circuits of a plane may also be walked the other way, which
# changes the sides of its ends.


NUM_ORDERS = 6
MAX_ROUNDS = 400
WORK = 4_000_000
"""Circuits times planes that all rounds together may look at."""
_TIE, _SHARE = 0.02, 0.5
_MOST_NOISE = 0.3
_OFFSET = 10.0


def matched_planes(planes: Planes, held: NDArray[np.int32], seed: int, most_kept: int) -> Planes:
    """Planes that keep at least as many circuits of ``held``, on all of its planes.

    Only one-way planes that a regular topology fills are changed; ends at ``most_kept``. The same
    seed gives the same planes.
    """
    topology, size = planes.topology, len(held)
    is_full = topology.is_regular and topology.degree == size
    if planes.port_model is not PortModel.SIMPLEX or not is_full or size < 2:
        return planes
    keeps = held[:, planes.a_node] == planes.b_node
    every = np.arange(planes.num_circuits)
    random = np.random.default_rng(seed)
    best, num_kept = planes.plane, int(keeps[planes.plane, every].sum())
    rounds = min(MAX_ROUNDS, max(1, WORK // (planes.num_circuits * size)))
    for number in range(rounds):
        if num_kept == most_kept:
            break
        emptied, noise, share = random.permutation(size), _TIE, _SHARE
        if number >= NUM_ORDERS:
            emptied = emptied[: random.integers(2, size + 1)]
            noise, share = _MOST_NOISE * random.random(), random.random()
        refilled = _refilled(topology, best, keeps, emptied, share, noise, random)
        kept_now = int(keeps[refilled, every].sum())
        if kept_now >= num_kept:
            best, num_kept = refilled, kept_now
    return replace(planes, plane=best)


def _refilled(
    topology: Topology,
    plane: NDArray[np.int32],
    keeps: NDArray[np.bool_],
    emptied: NDArray[np.int64],
    share: float,
    noise: float,
    random: np.random.Generator,
) -> NDArray[np.int32]:
    """The plane of every link, after some planes were emptied and filled again in that order.

    A link held in a later plane counts ``-share`` in this one; ``noise`` breaks ties.
    """
    refilled = plane.copy()
    left = np.flatnonzero(np.isin(plane, emptied))
    for place, number in enumerate(emptied[:-1].tolist()):
        gain = keeps[number, left] - share * keeps[emptied[place + 1 :]][:, left].any(axis=0)
        gain += noise * random.random(len(left))
        taken = _best_matching(topology, left, gain)
        refilled[left[taken]] = number
        left = np.delete(left, taken)
    refilled[left] = emptied[-1]
    return refilled


def _best_matching(
    topology: Topology, links: NDArray[np.int64], gain: NDArray[np.float64]
) -> NDArray[np.int64]:
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching

    nodes = topology.num_nodes
    key = topology.tail[links].astype(np.int64) * nodes + topology.head[links]
    # Of parallel links the one that gains most stands for all.
    order = np.lexsort((-gain, key))
    first = order[np.flatnonzero(np.diff(key[order], prepend=-1))]
    costs = csr_matrix((_OFFSET - gain[first], np.divmod(key[first], nodes)), shape=(nodes, nodes))
    tail, head = min_weight_full_bipartite_matching(costs)
    return np.asarray(first[np.searchsorted(key[first], tail.astype(np.int64) * nodes + head)])


def exchanged(planes: Planes, held: NDArray[np.int32]) -> Planes:
    """Planes that keep at least as many circuits of ``held``: no chain or ring gains any more.

    With ``num_planes`` the rows of ``held``. No planes keep more if there are two of one-way
    circuits or of matchings, or a single two-sided one.
    """
    has_turns = planes.port_model is PortModel.TWO_SIDED
    a, b, plane = planes.a_node.copy(), planes.b_node.copy(), planes.plane.copy()
    side = planes.topology.num_nodes if planes.port_model.has_b_side else 0
    gains = True
    while gains:
        gains = False
        for pair in combinations(range(len(held)), 2):
            mine = np.flatnonzero(np.isin(plane, pair))
            then = (sum(pair) - plane[mine]).astype(np.int32)
            moves = _gaining(held, (a[mine], b[mine], plane[mine]), (a[mine], b[mine], then), side)
            plane[mine[moves]] = then[moves]
            gains |= bool(moves.any())
        for number in range(len(held) if has_turns else 0):
            mine = np.flatnonzero(plane == number)
            now = (a[mine], b[mine], plane[mine])
            turns = mine[_gaining(held, now, (now[1], now[0], now[2]), 0)]
            a[turns], b[turns] = b[turns], a[turns]
            gains |= bool(len(turns))
    turned = (a != planes.a_node)[:, None]
    link = np.where(turned, planes.link[:, ::-1], planes.link)
    return replace(planes, link=link, plane=plane)


def _gaining(
    held: NDArray[np.int32],
    now: tuple[NDArray[np.int32], ...],
    then: tuple[NDArray[np.int32], ...],
    side: int,
) -> NDArray[np.bool_]:
    """Which circuits (A node, B node, plane) are in a component that keeps more ``then``."""
    size = 2 * held.shape[1]
    component = connected(now[0], now[1] + side, size)[now[0]]
    gain = np.zeros(size, dtype=np.int64)
    np.add.at(gain, component, held[then[2], then[0]] == then[1])
    np.subtract.at(gain, component, held[now[2], now[0]] == now[1])
    return np.asarray(gain[component] > 0)


# Planes that keep most held circuits as an integer program, with bounds that are checked.


DUAL_BITS = 30
"""Duals are rounded to so many binary digits; what is lost is added to the bound."""
ROUNDING = 1e-6


@final
@dataclass(frozen=True, slots=True, eq=False)
class PlacementChoices:
    """The ways to put circuits on planes: each is a column of a program with 0 or 1.

    Circuits between the same nodes are one pair. Column j puts a circuit of ``pair[j]`` in
    ``plane[j]`` from ``a[j]`` to ``b[j]`` and keeps ``kept[j]`` (0 or 1) circuits; ``count`` is
    how many circuits each pair has, ``pair_of`` the pair of every circuit. Pairs of different
    ``part`` share no port; ports are numbered over all planes, one at either end of a column.
    """

    count: NDArray[np.int64]
    pair_of: NDArray[np.int64]
    part: NDArray[np.int64]
    pair: NDArray[np.int64]
    plane: NDArray[np.int64]
    a: NDArray[np.int64]
    b: NDArray[np.int64]
    kept: NDArray[np.int64]
    ports: NDArray[np.int64]

    @property
    def most_kept(self) -> NDArray[np.int64]:
        """Held circuits of every pair that are in the target at all: no planes keep more."""
        held = np.zeros(len(self.count), dtype=np.int64)
        np.add.at(held, self.pair, self.kept)
        return np.minimum(held, self.count)

    def placed(self, planes: Planes, taken: NDArray[np.int64]) -> Planes:
        """The circuits of the columns taken in their planes and directions, all others as before.

        Of a pair all circuits are taken or none.
        """
        mine = np.flatnonzero(np.isin(self.pair_of, self.pair[taken]))
        circuits = mine[np.argsort(self.pair_of[mine], kind="stable")]
        taken = taken[np.argsort(self.pair[taken], kind="stable")]
        plane, link = planes.plane.copy(), planes.link.copy()
        plane[circuits] = self.plane[taken]
        turned = circuits[planes.a_node[circuits] != self.a[taken]]
        turned = turned[link[turned, 1] != NO_LINK]
        link[turned] = link[turned, ::-1]
        return replace(planes, plane=plane, link=link)


def choices(planes: Planes, held: NDArray[np.int32]) -> PlacementChoices:
    """All ways to put the circuits of a topology on the planes of ``held``."""
    nodes, model = planes.topology.num_nodes, planes.port_model
    low, high = planes.a_node.astype(np.int64), planes.b_node.astype(np.int64)
    if model.is_bidirectional:
        low, high = np.minimum(low, high), np.maximum(low, high)
    key, pair_of, count = np.unique(low * nodes + high, return_inverse=True, return_counts=True)
    low, high = np.divmod(key, nodes)
    b_side = nodes if model.has_b_side else 0
    pair, a, b = np.arange(len(key)), low, high
    if model is PortModel.TWO_SIDED:
        part = connected(low, high, nodes)[low]
        turns = np.flatnonzero(low != high)
        pair = np.concatenate([pair, turns])
        a, b = np.concatenate([low, high[turns]]), np.concatenate([high, low[turns]])
    else:
        part = connected(low, high + b_side, 2 * nodes)[low]
    plane = np.repeat(np.arange(len(held)), len(pair))
    pair, a, b = (np.tile(column, len(held)) for column in (pair, a, b))
    ports = np.stack([a, b + b_side], axis=1) + 2 * nodes * plane[:, None]
    kept = (held[plane, a] == b).astype(np.int64)
    return PlacementChoices(count, pair_of, part.astype(np.int64), pair, plane, a, b, kept, ports)


def part_program(ways: PlacementChoices, columns: NDArray[np.int64]) -> LinearProgram:
    """Minimise minus the circuits kept: every pair has its count, and every port one circuit.

    ``columns`` are the choices of the pairs of one part, as numbers from 0 to 1.
    """
    every = np.arange(len(columns))
    pairs, pair_row = np.unique(ways.pair[columns], return_inverse=True)
    ports, port_row = np.unique(ways.ports[columns].T, return_inverse=True)
    count = ways.count[pairs]
    return program_of(
        [(row, every, 1.0) for row in (pair_row, *(len(pairs) + port_row.reshape(2, -1)))],
        [(count, count), (np.full(len(ports), -np.inf), np.ones(len(ports)))],
        np.ones(len(columns)),
        -ways.kept[columns],
    )


def most_kept_by_duals(linear: LinearProgram, options: Options) -> int | None:
    """A bound on the circuits kept from the linear program, proven in integers; None without one.

    Whatever the duals of the solver are, they are weights of rows: those of ports are made not
    negative, all are rounded, and weak duality gives a bound that does not depend on the solver.
    """
    solution = solve(linear, options=options).taken()
    if solution.row_duals is None:
        return None
    scale: int = 2**DUAL_BITS
    weight = np.rint(-solution.row_duals * scale).astype(np.int64)
    is_port = np.isinf(linear.row_lower)
    weight[is_port] = np.maximum(weight[is_port], 0)
    spent = np.zeros(linear.num_columns, dtype=np.int64)
    np.add.at(spent, linear.index, np.repeat(weight, np.diff(linear.start)))
    gain = np.rint(-linear.cost).astype(np.int64) * scale
    total = int((weight * linear.row_upper.astype(np.int64)).sum())
    total += int(np.maximum(gain - spent, 0).sum())
    return total // scale


def solve_part(
    linear: LinearProgram, options: Options
) -> tuple[NDArray[np.int64] | None, int | None]:
    """Which columns branch and bound takes, None without any, and its bound on circuits kept."""
    whole = np.ones(linear.num_columns, dtype=np.bool_)
    solution = solve(replace(linear, integer=whole), options=options).taken()
    bound = None if solution.bound is None else math.floor(-solution.bound + ROUNDING)
    values = solution.values
    if values is None or solution.violation is None or solution.violation > ROUNDING:
        return None, bound
    return np.flatnonzero(np.rint(values)), bound


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
    >>> from ocs_codesign.core.compute.factorisation import factorise, plane_heads
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
