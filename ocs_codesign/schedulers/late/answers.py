"""Late schedules of topologies: the least t_b of so many steps over any routes, with its bound."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, final

from ocs_codesign.bounds import topology_bound
from ocs_codesign.collective import Collective
from ocs_codesign.given import takes_topology
from ocs_codesign.schedulers.bfb.assembly import bfb_of_chunks
from ocs_codesign.schedulers.bfb.loads import bfb_loads, num_chunks_for
from ocs_codesign.schedulers.exact.answers import MINUTE
from ocs_codesign.schedulers.exact.model import broadcasts
from ocs_codesign.schedulers.late.chunks import MAX_CHUNKS, cut_into_chunks
from ocs_codesign.schedulers.late.search import mixed
from ocs_codesign.verification.schedules import verify

if TYPE_CHECKING:
    from collections.abc import Callable

    from ocs_codesign.cost import Cost
    from ocs_codesign.lp import Options
    from ocs_codesign.schedule import Schedule
    from ocs_codesign.topology import Topology

    Progress = Callable[[int, int], None]

MAX_SENDS = 2_000_000
"""Largest problem: roots that no symmetry maps onto each other * links * steps."""

_SHARE = 0.75
"""Of the time limit, for columns."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class LateAnswer:
    """The verified schedule of at most ``num_steps`` steps, and what no other has less than.

    ``bound`` is the proven least t_b for that many steps, in any chunks (by branch and bound in
    floats, of integers).
    """

    num_steps: int
    schedule: Schedule
    cost: Cost
    bound: Fraction

    @property
    def is_optimal(self) -> bool:
        """Whether no schedule of so many steps has a lower t_b, whatever its chunks."""
        return self.cost.t_b == self.bound

    @property
    def status(self) -> str:
        """In a sentence, how good it is."""
        steps = f"{self.num_steps} step{'s' * (self.num_steps != 1)}"
        if self.is_optimal:
            return f"optimal: no schedule of {steps} has less than t_b {self.bound}"
        gap = float(self.cost.t_b / self.bound - 1)
        least = f"no schedule of {steps} has less than t_b {self.bound}"
        return f"t_b {self.cost.t_b} was found, {least} (gap {gap:.2%})"


@takes_topology
def late_schedule(
    topology: Topology,
    num_steps: int,
    collective: Collective | str = Collective.ALLGATHER,
    options: Options = MINUTE,
    max_chunks: int = MAX_CHUNKS,
    on_progress: Progress | None = None,
) -> LateAnswer:
    """The schedule of at most so many steps with the least t_b, in up to ``max_chunks`` a shard.

    Data may take longer paths than BFB's shortest ones, and arrive later. An allreduce is the best
    reduce-scatter and then allgather that take so many steps in all. When the time limit is
    reached, the answer holds the best that was found, BFB at worst. Raises ValueError for an
    all-to-all, too few steps, fewer than two nodes, a topology that is not strongly connected or
    is too large, SolverUnavailableError if the solver cannot take a program.

    >>> from ocs_codesign.graphs.families.shifts import GeneralizedKautz, Kautz
    >>> late_schedule(Kautz(2, 1).topology(), 3).cost
    Cost(steps=3, t_b=Fraction(5, 6))
    >>> late_schedule(GeneralizedKautz(2, 12).topology(), 4).status
    'optimal: no schedule of 4 steps has less than t_b 29/30'
    """
    collective = Collective.parse_gathering(collective)
    if topology.num_nodes < 2:
        raise ValueError("a collective needs at least two nodes")
    if max_chunks < 1:
        raise ValueError(f"max_chunks is {max_chunks}: it must be at least 1")
    halves = _Halves(topology, options, max_chunks, on_progress)
    diameter = topology.diameter()
    least = diameter * len(collective.halves())
    if num_steps < least:
        raise ValueError(f"{num_steps} steps: {collective.name} takes at least {least} here")
    if collective != Collective.ALLREDUCE:
        schedule, bound = halves.half(collective == Collective.REDUCE_SCATTER, num_steps, 1)
        return LateAnswer(num_steps, schedule, schedule.synchronous_cost(), bound)
    splits = range(diameter, num_steps - diameter + 1)
    answers = []
    for done, steps in enumerate(splits):
        left = 2 * (len(splits) - done)
        scatter, first = halves.half(True, steps, left)
        gather, second = halves.half(False, num_steps - steps, left - 1)
        answers.append((scatter.then(gather), first + second))
    schedule = min((made for made, _ in answers), key=_rank)
    bound = min(bound for _, bound in answers)
    return LateAnswer(num_steps, schedule, schedule.synchronous_cost(), bound)


class _Halves:
    """Allgathers and reduce-scatters of a topology, which share the time limit."""

    def __init__(
        self, topology: Topology, options: Options, max_chunks: int, on_progress: Progress | None
    ) -> None:
        self._topology, self._options, self._max_chunks = topology, options, max_chunks
        self._on_progress, self._began = on_progress, time.monotonic()

    def half(self, is_mirrored: bool, num_steps: int, num_left: int) -> tuple[Schedule, Fraction]:
        """The best schedule found, verified, and the least t_b; one of so many that share."""
        options = self._options.after(time.monotonic() - self._began)
        if options.time_limit_s is not None:
            options = replace(options, time_limit_s=options.time_limit_s / num_left)
        graph = self._topology.transpose() if is_mirrored else self._topology
        gather, bound = _allgather(graph, num_steps, options, self._max_chunks, self._on_progress)
        made = gather.reversed() if is_mirrored else gather
        verdict = verify(made)
        if not verdict.ok:
            raise RuntimeError(f"the late schedule is wrong: {verdict.witness}")
        # The busiest node of the transpose may be another, so its t_b is in another unit.
        return made, self._topology.t_b(bound / graph.t_b(Fraction(1)))


def _allgather(
    topology: Topology,
    num_steps: int,
    options: Options,
    max_chunks: int,
    on_progress: Progress | None,
) -> tuple[Schedule, Fraction]:
    """The best allgather found in so many steps, and the least t_b of any."""
    began = time.monotonic()
    loads = bfb_loads(topology)
    plain = bfb_of_chunks(topology, min(num_chunks_for(loads), max_chunks))
    least = topology_bound(topology, Collective.ALLGATHER, len(loads)).t_b
    if plain.synchronous_cost().t_b == least:
        return plain, least
    model = broadcasts(topology, num_steps, invariant=True)
    if model.send_of.size > MAX_SENDS:
        raise ValueError(
            f"{len(model.roots)} roots, {topology.num_links} links and {num_steps} steps have a "
            f"product of {model.send_of.size:,}: late schedules take at most {MAX_SENDS:,}"
        )
    # t_b of a sum of times that is 1 / unit of a shard.
    unit = topology.t_b(Fraction(1)) / model.unit
    # Columns that time does not suffice to cut into chunks are of no use.
    limit_s = options.time_limit_s
    share = options if limit_s is None else replace(options, time_limit_s=_SHARE * limit_s)
    found = mixed(model, least / unit, share, on_progress)
    left = options.after(time.monotonic() - began)
    made = cut_into_chunks(found, max_chunks, left)
    return min([plain, *made], key=_rank), found.least * unit


def _rank(schedule: Schedule) -> tuple[Fraction, int, int]:
    cost = schedule.synchronous_cost()
    return cost.t_b, cost.steps, schedule.num_chunks
