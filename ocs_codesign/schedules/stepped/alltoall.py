"""All-to-all schedules for hosts that store and forward, with a proof of how good they are.

The time-stepped program says how much must cross every link at every step; its flow is rounded to
whole chunks, split into walks and copied from one source of every orbit to all others.
"""

from __future__ import annotations

import time
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.compute.symmetry import quotient, quotient_and_images
from ocs_codesign.core.cost import undominated
from ocs_codesign.core.given import takes_topology
from ocs_codesign.core.lp import DEFAULT_OPTIONS, Options, Status, solve
from ocs_codesign.core.lp.program import AUTO, IPX
from ocs_codesign.core.schedule import Schedule
from ocs_codesign.schedules.paths.certificates import as_prices
from ocs_codesign.schedules.stepped.answers import SteppedAnswer
from ocs_codesign.schedules.stepped.time_network import (
    chunk_flow,
    common_denominator,
    conserved,
    num_arcs,
    soft_optimum,
    stepped_bound,
    stepped_program,
    time_network,
    walks_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ocs_codesign.core.compute.symmetry import Images, Quotient
    from ocs_codesign.core.topology import Topology
    from ocs_codesign.schedules.stepped.time_network import TimeNetwork, Walks


# From the walks of one source of every orbit to the schedule of all sources.


MAX_SENDS = 200_000_000
"""Largest schedule that is built: 4 GB of columns."""


def assemble(
    topology: Topology,
    sources: NDArray[np.int64],
    chunks: int,
    walks: Walks,
    group: Sequence[Images],
) -> Schedule:
    """The all-to-all schedule of the walks of these sources, copied by every source's images.

    Without images (an empty group) the sources are all nodes. Chunks that follow each other and
    cross a link together are one send. Raises ValueError beyond MAX_SENDS.
    """
    walk, step = np.nonzero(walks.via >= 0)
    number = walks.source[walk]
    copies = np.array([len(one.nodes) for one in group] or [1])
    total = int(copies[number if group else np.zeros_like(number)].sum())
    if total > MAX_SENDS:
        raise ValueError(f"a schedule of {total:,} sends: at most {MAX_SENDS:,} are built")
    rows: list[NDArray[Any]] = [sources[number], walks.node[walk], walks.lo[walk], walks.hi[walk]]
    rows += [walks.via[walk, step], step + 1]
    if group:
        parts = [_copied(one, rows, number == at) for at, one in enumerate(group)]
        rows = [np.concatenate(column) for column in zip(*parts, strict=True)]
    root, node, lo, hi, link, step = rows
    lo, hi = lo + node * chunks, hi + node * chunks
    columns = _merged(root, lo, hi, link, step)
    return Schedule(topology, Collective.ALLTOALL, topology.num_nodes * chunks, *columns)


def _copied(one: Images, rows: list[NDArray[Any]], mine: NDArray[np.bool_]) -> list[NDArray[Any]]:
    """The rows of one source for all sources of its orbit."""
    root, node, lo, hi, link, step = (column[mine] for column in rows)
    copies = len(one.nodes)
    return [
        one.nodes[:, root].ravel().astype(np.int64),
        one.nodes[:, node].ravel().astype(np.int64),
        np.tile(lo, copies),
        np.tile(hi, copies),
        one.links(link).ravel(),
        np.tile(step, copies),
    ]


def _merged(
    root: NDArray[np.int64],
    lo: NDArray[np.int64],
    hi: NDArray[np.int64],
    link: NDArray[np.int64],
    step: NDArray[np.int64],
) -> list[NDArray[np.int64]]:
    """The columns sorted by (step, link, root, lo), chunks in a row made one send."""
    order = np.lexsort((lo, root, link, step))
    root, lo, hi, link, step = (column[order] for column in (root, lo, hi, link, step))
    new = np.ones(len(root), dtype=bool)
    new[1:] = lo[1:] != hi[:-1]
    for column in (root, link, step):
        new[1:] |= column[1:] != column[:-1]
    first = np.flatnonzero(new)
    last = np.append(first[1:], len(root)) - 1
    return [root[first], lo[first], hi[last], link[first], step[first]]


MAX_CHUNKS = 720
MAX_VERTEX_ARCS = 50_000
MAX_ARCS = 8_000_000
_MAX_PRICE = 10_000


@takes_topology
def alltoall_schedule(
    topology: Topology,
    num_steps: int | None = None,
    max_chunks: int = MAX_CHUNKS,
    options: Options = DEFAULT_OPTIONS,
) -> Schedule:
    """The schedule of ``stepped_plan``.

    >>> from ocs_codesign.graphs.families.dense import CompleteBipartite
    >>> alltoall_schedule(CompleteBipartite(2).topology())
    Schedule(alltoall, 24 sends in 2 steps, 8 chunks a shard, Topology(4 nodes, 8 links, degree 2))
    """
    return stepped_plan(topology, num_steps, max_chunks, options).best


@takes_topology
def stepped_plan(
    topology: Topology,
    num_steps: int | None = None,
    max_chunks: int = MAX_CHUNKS,
    options: Options = DEFAULT_OPTIONS,
) -> SteppedAnswer:
    """An all-to-all schedule of at most ``num_steps`` steps (default: the diameter), and its bound.

    Pieces are cut into at most ``max_chunks`` chunks. Large programs, and those that the solver
    leaves unsolved for time or memory, are solved by ``soft_optimum``, to about a hundredth. Raises
    ValueError if the topology has one node, is not strongly connected or too large, or if the steps
    are too few, SolverUnavailableError if the solver cannot take the program.

    >>> from ocs_codesign.graphs.families.dense import Complete
    >>> plan = stepped_plan(Complete(5).topology())
    >>> plan.cost, plan.is_optimal
    (Cost(steps=1, t_b=Fraction(4, 5)), True)
    """
    steps = topology.diameter() if num_steps is None else num_steps
    began = time.monotonic()
    best = _plan_of(topology, steps, max_chunks, options)
    # Whole chunks may fit fewer steps better: more of them never make it worse.
    for fewer in range(steps - 1, topology.diameter() - 1, -1):
        if best.is_optimal:
            break
        left = options.after(time.monotonic() - began)
        plan = _plan_of(topology, fewer, max_chunks, left)
        if plan.cost.t_b < best.cost.t_b:
            best = replace(plan, num_steps=steps, bound=best.bound)
    return best


def _plan_of(topology: Topology, steps: int, max_chunks: int, options: Options) -> SteppedAnswer:
    """The plan whose program has exactly so many steps."""
    whole, group, distance = checked_size(topology, steps, max_chunks, "num_steps")
    network = time_network(whole, distance, steps)
    smooth, bound = optimal_flow(network, options)
    flow = chunk_flow(network, smooth, max_chunks)
    schedule = assemble(topology, whole.sources, flow.chunks, walks_of(network, flow), group)
    schedule = _without_idle_steps(schedule)
    t_b = topology.t_b(sum(schedule.max_loads(), Fraction(0)))
    return SteppedAnswer(t_b, topology.t_b(bound), num_steps=steps, schedule=schedule)


def _without_idle_steps(schedule: Schedule) -> Schedule:
    """The same sends in the same order, of steps in which something is sent only."""
    busy, step = np.unique(schedule.step, return_inverse=True)
    if len(busy) == schedule.num_steps:
        return schedule
    item, lo, hi, link, _ = schedule.columns()
    chunks = schedule.num_chunks
    return Schedule(schedule.topology, schedule.collective, chunks, item, lo, hi, link, step + 1)


def checked_size(
    topology: Topology, num_steps: int, max_chunks: int, name: str
) -> tuple[Quotient, tuple[Images, ...], NDArray[Any]]:
    """Quotient, images and distances from the sources, if so many steps (called ``name``) will do.

    Raises ValueError if they do not, or if the topology is unfit or too large.
    """
    if topology.num_nodes < 2:
        raise ValueError("an all-to-all needs at least two nodes")
    if max_chunks < 1:
        raise ValueError(f"{max_chunks} parts: a piece is at least one")
    check_least(topology)
    diameter = topology.diameter()
    if num_steps < diameter:
        raise ValueError(f"{name} is {num_steps}: it must be at least the diameter, {diameter}")
    whole, group = quotient_and_images(topology)
    distance = topology.distances()[whole.sources]
    arcs = num_arcs(whole, distance, num_steps)
    _check_columns(arcs, f"all-to-all on {topology!r} with {name} {num_steps}")
    return whole, group, distance


def check_least(topology: Topology) -> None:
    """ValueError if already one column for every pair is too many, before distances are known."""
    pairs = quotient(topology).num_sources * (topology.num_nodes - 1)
    _check_columns(pairs, f"all-to-all on {topology!r}", "at least ")


def _check_columns(number: int, what: str, least: str = "") -> None:
    if number > MAX_ARCS:
        raise ValueError(
            f"{what} is a program of {least}{number} columns: "
            f"at most {MAX_ARCS} are supported without more symmetry"
        )


def optimal_flow(network: TimeNetwork, options: Options) -> tuple[NDArray[np.float64], Fraction]:
    """A flow over arcs, optimal while the program is small, and a bound that prices prove."""
    if network.num_arcs > MAX_VERTEX_ARCS:
        return soft_optimum(network, options)
    began = time.monotonic()
    solution = solve(stepped_program(network), options=by_vertex(options)).taken()
    if (
        solution.status is not Status.OPTIMAL
        or solution.values is None
        or solution.row_duals is None
    ):
        return soft_optimum(network, options.after(time.monotonic() - began))
    tries = likely_prices(-solution.row_duals[-network.num_rows :])
    bound = max(stepped_bound(network, prices) for prices in tries)
    return conserved(network, solution.values[: network.num_arcs]), bound


def by_vertex(options: Options) -> Options:
    """The options with interior point and crossover, unless they name a method."""
    return replace(options, method=IPX) if options.method == AUTO else options


def likely_prices(weights: NDArray[np.float64]) -> list[NDArray[np.int64]]:
    """Integer prices close to float ones: finely rounded, and exact if they are small fractions."""
    weights = np.maximum(weights, 0.0)
    tries = [as_prices(weights)]
    unit = common_denominator(weights, _MAX_PRICE)
    if unit is not None and weights.max() * unit >= 0.5:
        tries.append(np.rint(weights * unit).astype(np.int64))
    return tries


@takes_topology
def alltoall_frontier(
    topology: Topology,
    max_steps: int,
    max_chunks: int = MAX_CHUNKS,
    options: Options = DEFAULT_OPTIONS,
) -> list[SteppedAnswer]:
    """Plans of the diameter to ``max_steps`` steps whose cost no other's dominates.

    It stops early when a plan is as fast as any number of steps allows (``throughput``). The time
    limit is for each solve. Raises ValueError as ``stepped_plan``.

    >>> from ocs_codesign.graphs.families.shifts import GeneralizedKautz
    >>> [str(plan.cost.t_b) for plan in alltoall_frontier(GeneralizedKautz(4, 9).topology(), 4)]
    ['16/9', '5/3']
    """
    diameter = topology.diameter()
    if max_steps < diameter:
        raise ValueError(f"max_steps is {max_steps}: it must be at least the diameter, {diameter}")
    from ocs_codesign.schedules.paths.throughput import throughput

    least = throughput(topology, options).bound
    plans: list[SteppedAnswer] = []
    for num_steps in range(diameter, max_steps + 1):
        plans.append(_plan_of(topology, num_steps, max_chunks, options))
        if plans[-1].cost.t_b == least:
            break
    return undominated(plans, lambda plan: plan.cost)
