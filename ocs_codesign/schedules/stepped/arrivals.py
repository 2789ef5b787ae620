"""Late allgathers of whole items: the step at which every node has every item, and their search.

BFB sends every item along shortest paths at once; here an item may arrive later than its distance.
All of an item arrives at a node in one step, over any in-links whose tails have it before, so a
table of steps says everything: by Hall's theorem the busiest in-link of node v at step t carries

    X_{v,t} = max over non-empty sets W of in-links of
              #{s : step[s, v] = t, its providers all in W} / (speed of W)

shards, and X_t = max over v. BFB is ``step = distance``. The search lowers one X_t at a time and
moves single arrivals until it holds, or gives up after so many tries; it counts in moves, so the
same arguments have the same answer on any machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import lcm
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from ocs_codesign.core.compute.kernels import compiled, for_work
from ocs_codesign.core.given import as_topology, takes_topology
from ocs_codesign.core.progress import tell
from ocs_codesign.core.topology import in_neighbours
from ocs_codesign.graphs.expansions.late import FIRST_CUT, MAX_CUT, MAX_NODES
from ocs_codesign.schedules.breadth_first.assembly import allgather_of_steps
from ocs_codesign.schedules.breadth_first.loads import (
    MAX_SUBSET_WIDTH,
    distances_to,
    loads_of_steps,
    num_chunks_for,
    subset_sums,
)
from ocs_codesign.schedules.stepped import arrival_kernels
from ocs_codesign.schedules.stepped.orbits import aligned, each_its_own, orbits_of, spread

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.core.schedule import Schedule
    from ocs_codesign.core.topology import InNeighbours, Topology
    from ocs_codesign.schedules.stepped.orbits import Orbits

MOVES, MOVES_A_NODE = 1_000_000, 4_000
"""Default moves of a search, and a node where that is more: a second, and three at a thousand nodes
of four links."""
_FINE_CUT, _MANY_ROWS = 16, 256

_MAX_CELL_BYTES = 2**29
_MAX_DENOMINATOR = 2**24
_LOG_ROWS = 2**18
_PAUSE_WORK = 2**20
"""Moves times sets of in-links between two looks at what else there is to do: some tenth second."""
_NEVER = 2**15 - 1


@final
@dataclass(frozen=True, slots=True, eq=False)
class ArrivalSteps:
    """The step after which every node has every item: ``step[s, v]``, 0 where s = v, else 1 to T.

    Raises ValueError unless every other node has, for every item, an in-neighbour that has it in an
    earlier step.

    >>> from ocs_codesign.core.topology import Topology
    >>> ring = Topology(3, [0, 1, 2], [1, 2, 0])
    >>> ArrivalSteps(ring, np.array([[0, 1, 2], [2, 0, 1], [1, 2, 0]])).loads()
    (Fraction(1, 1), Fraction(1, 1))
    """

    topology: Topology
    step: NDArray[np.int16]

    def __post_init__(self) -> None:
        object.__setattr__(self, "topology", as_topology(self.topology))
        step, nodes = np.asarray(self.step), self.topology.num_nodes
        if step.shape != (nodes, nodes) or step.dtype.kind not in "iu":
            raise ValueError(f"arrival steps are {nodes} x {nodes} integers, not {step.shape}")
        at_home = np.eye(nodes, dtype=bool)
        if step.min() < 0 or step.max() >= _NEVER or np.any((step == 0) != at_home):
            raise ValueError("an item is at its own node at step 0 and arrives elsewhere later")
        step = step.astype(np.int16)
        early = too_early(step, in_neighbours(self.topology))
        if early.any():
            source, node = np.argwhere(early)[0].tolist()
            raise ValueError(
                f"item {source} arrives at node {node} in step {step[source, node]}, and at none "
                "of its in-neighbours before"
            )
        step.flags.writeable = False
        object.__setattr__(self, "step", step)

    def loads(self) -> tuple[Fraction, ...]:
        """The largest load of a link at every step, in shards a unit of speed; exact."""
        return loads_of_steps(self._by_receiver(), *in_neighbours(self.topology))

    def schedule(self, max_chunks: int | None = None) -> Schedule:
        """The allgather with these arrivals and loads, in as few chunks a shard as they need.

        In at most ``max_chunks``, if that is given: then with every load rounded up to whole ones.
        """
        loads = self.loads()
        exact = num_chunks_for(loads)
        chunks = exact if max_chunks is None else min(exact, max_chunks)
        return allgather_of_steps(self.topology, self._by_receiver(), loads, chunks)

    def _by_receiver(self) -> NDArray[np.int16]:
        return np.ascontiguousarray(self.step.T)


def too_early(step: NDArray[np.int16], neighbours: InNeighbours) -> NDArray[np.bool_]:
    """Where an item arrives that no in-neighbour has before; of one table, or of a stack."""
    before = np.full(step.shape, _NEVER, dtype=np.int16)
    for tails, speeds in zip(neighbours.node.T, neighbours.capacity.T, strict=True):
        np.minimum(before, np.where(speeds > 0, step[..., tails], _NEVER), out=before)
    return (before >= step) & ~np.eye(step.shape[-1], dtype=bool)


class Columns(NamedTuple):
    """What the search works on; see ``arrival_kernels``."""

    arrival: NDArray[np.int16]
    mask: NDArray[np.int16]
    near: NDArray[np.int32]
    inside: NDArray[np.int32]
    load: NDArray[np.int64]
    surplus: NDArray[np.int64]
    weight: NDArray[np.int64]
    target: NDArray[np.int64]
    out_start: NDArray[np.int64]
    out_head: NDArray[np.int32]
    out_column: NDArray[np.int32]
    state: NDArray[np.int64]
    place: NDArray[np.int32]
    violated: NDArray[np.int32]
    log: NDArray[np.int32]
    home: NDArray[np.int64]
    cell: NDArray[np.int32]
    alike: NDArray[np.int32]


@takes_topology
def late_arrivals(
    topology: Topology,
    num_steps: int,
    moves: int | None = None,
    seed: int = 1,
    *,
    alike: bool = False,
    all_sets: bool = False,
    first_cut: int = FIRST_CUT,
) -> ArrivalSteps:
    """Arrivals in at most so many steps whose loads have a small sum, by a search of so many moves.

    At worst those of BFB. ``moves`` are ``default_moves`` unless given. With ``alike`` the symmetry
    that the topology declares holds for the arrivals too, and a search takes that much less. With
    ``all_sets`` a move counts that unloads any in-links, not only the busiest of a node, which
    finds more where many are as busy: in as many steps as the diameter above all. ``first_cut``
    parts of 1,024 of a step's load are what it tries to take off at first. Raises
    ValueError for fewer steps than the diameter, fewer than two nodes or more than MAX_NODES, a
    topology that is not strongly connected or has no symmetry where one is asked for, or more than
    MAX_SUBSET_WIDTH in-neighbours of a node.

    >>> from ocs_codesign.graphs.text import parse
    >>> graph = parse("AffineSpliced(61, 3, (0, 22, 24, 2))").topology()
    >>> from ocs_codesign.core.cost import total
    >>> str(graph.t_b(total(late_arrivals(graph, 4).loads())))  # of BFB 64/61
    '62/61'
    """
    near = in_neighbours(topology)
    _check(near, num_steps, seed)
    orbits = orbits_of(topology) if alike else each_its_own(topology.num_nodes)
    near = aligned(topology, near) if alike else near
    moves = default_moves(len(orbits.home)) if moves is None else moves
    if moves < 0:
        raise ValueError(f"moves are {moves}: they must be 0 or more")
    if not 1 <= first_cut <= MAX_CUT:
        raise ValueError(f"first_cut is {first_cut}: it must be from 1 to {MAX_CUT}")
    columns = _columns(topology, near, num_steps, seed, orbits)
    columns.state[arrival_kernels.ALL_SETS] = all_sets
    least = int((topology.num_nodes - 1) * columns.weight[:, -1].max())
    for_work(arrival_kernels.fill, columns.arrival.size)(columns)
    columns.target[:] = columns.load.max(axis=0)
    failures = np.zeros(num_steps, dtype=np.int64)
    cut = np.full(num_steps, first_cut, dtype=np.int64)
    left, pause = moves, _PAUSE_WORK >> columns.near.shape[1]
    while left > 0 and columns.target.sum() > least:
        limits = left, pause, least, first_cut
        left = compiled(arrival_kernels.search)(columns, failures, cut, *limits)
        tell(moves - max(0, left), moves)  # and hear an interruption
    step = spread(topology, columns.arrival) if alike else columns.arrival
    return ArrivalSteps(topology, step)


def default_moves(num_rows: int) -> int:
    """Moves that give most of what more would, by the rows of the table that is searched."""
    return max(MOVES, MOVES_A_NODE * num_rows)


def ways_to_search(num_rows: int, *, is_tight: bool) -> list[tuple[bool, int]]:
    """Whether by all sets of in-links, and the first cut, of the searches that are worth it.

    From small cuts where there are many rows, for every failure takes tries in proportion to them.
    In as many steps as the diameter, where balls grow like trees and the loads of BFB are far from
    the best, from large cuts, and by all sets from those that fit the rows.
    """
    fit = _FINE_CUT if num_rows > _MANY_ROWS else FIRST_CUT
    return [(False, FIRST_CUT), (True, fit)] if is_tight else [(False, fit)]


def _check(neighbours: InNeighbours, num_steps: int, seed: int) -> None:
    nodes, width = neighbours.node.shape
    if nodes > MAX_NODES:
        raise ValueError(f"{nodes} nodes: late schedules take at most {MAX_NODES}")
    if width > MAX_SUBSET_WIDTH:
        raise ValueError(
            f"a node has {width} in-neighbours: late schedules of more than 31 nodes take at most "
            f"{MAX_SUBSET_WIDTH}"
        )
    if not 0 <= seed < 2**31:
        raise ValueError(f"seed is {seed}: it must be from 0 to 2^31 - 1")
    if nodes * num_steps << (width + 2) > _MAX_CELL_BYTES:
        raise ValueError(
            f"{nodes} nodes, {width} in-neighbours and {num_steps} steps are too many "
            "for a late schedule"
        )


def _columns(
    topology: Topology, neighbours: InNeighbours, num_steps: int, seed: int, orbits: Orbits
) -> Columns:
    """The tables of BFB's arrivals."""
    nodes = topology.num_nodes
    arrival = np.ascontiguousarray(distances_to(topology).T[orbits.home]).astype(np.int16)
    if arrival.max() > num_steps:
        raise ValueError(f"{num_steps} steps: the diameter is {arrival.max()}")
    near = np.where(neighbours.capacity > 0, neighbours.node, -1).astype(np.int32)
    speed = subset_sums(neighbours.capacity[orbits.home])
    unit = lcm(*np.unique(speed[speed > 0]).tolist())
    if unit > _MAX_DENOMINATOR:
        raise ValueError("the speeds of links have too many different sums for a late schedule")
    head, column = np.nonzero(near >= 0)
    order = np.argsort(near[head, column], kind="stable")
    start = np.searchsorted(near[head, column][order], np.arange(nodes + 1))
    cells, sets = (len(orbits.home), num_steps), speed.shape[1]
    return Columns(
        arrival,
        np.zeros(arrival.shape, dtype=np.int16),
        near,
        np.zeros((*cells, sets), dtype=np.int32),
        np.zeros(cells, dtype=np.int64),
        np.zeros(cells, dtype=np.int64),
        np.where(speed > 0, unit // np.maximum(speed, 1), 0),
        np.zeros(num_steps, dtype=np.int64),
        start.astype(np.int64),
        head[order].astype(np.int32),
        column[order].astype(np.int32),
        np.array([0, 0, 1 + seed * 7919 % (arrival_kernels.MODULUS - 1), 0, 0, 0], dtype=np.int64),
        np.full(len(orbits.home) * num_steps, -1, dtype=np.int32),
        np.zeros(len(orbits.home) * num_steps, dtype=np.int32),
        np.zeros((_LOG_ROWS, 3), dtype=np.int32),
        *orbits,
    )


_REMEMBERED = 4
"""Tables of two bytes a pair of nodes: those of a design, and of its transpose."""


@lru_cache(maxsize=_REMEMBERED)
def late_of_recipe(
    recipe: Any,
    transposed: bool,
    num_steps: int,
    moves: int,
    seed: int,
    alike: bool,
    all_sets: bool,
    first_cut: int,
) -> ArrivalSteps:
    """The arrivals of a recipe's graph or of its transpose, remembered: costs and schedules ask.

    Where links come in pairs the transpose is the graph, with other numbers of its links.
    """
    topology = recipe.topology()
    if transposed and recipe.bidirectional:
        forward = late_of_recipe(recipe, False, num_steps, moves, seed, alike, all_sets, first_cut)
        return ArrivalSteps(topology.transpose(), forward.step)
    return late_arrivals(
        topology.transpose() if transposed else topology,
        *(num_steps, moves, seed),
        alike=alike,
        all_sets=all_sets,
        first_cut=first_cut,
    )
