"""Exact schedules of small topologies: the least t_b of so many steps and chunks, or a proof.

Any routes, not only shortest paths, by integer programming (``exact_model``, ``exact_search``).
Where the topology declares a symmetry, an invariant schedule is tried first: the linear relaxation
always has an invariant optimum, so such a schedule often meets the bound. An allreduce is the best
pair of a reduce-scatter and then an allgather.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, final

from ocs_codesign.bounds import topology_bound
from ocs_codesign.collective import Collective
from ocs_codesign.cost import Cost, undominated
from ocs_codesign.given import takes_topology
from ocs_codesign.lp import Options, Status
from ocs_codesign.schedulers.exact.halves import Halves
from ocs_codesign.verification.schedules import verify

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.schedule import Schedule
    from ocs_codesign.schedulers.exact.halves import Gather, Half
    from ocs_codesign.topology import Topology

MINUTE = Options(time_limit_s=60.0)
MAX_MORE_STEPS = 32

_ENDS = {
    Status.OPTIMAL: "within the gap",
    Status.TIME_LIMIT: "time limit",
    Status.NODE_LIMIT: "node limit",
    Status.MEMORY: "out of memory",
}


@final
@dataclass(frozen=True, slots=True, eq=False)
class ExactAnswer:
    """The best schedule found, if there is one, and what no schedule can beat.

    ``status`` says in a sentence how it ended. ``bound`` is the proven least t_b for that many
    steps and chunks: ``limit`` rounded up to whole chunks, or more if branch and bound says so
    (in floats, of integers). ``limit`` is proven in rationals for any number of chunks. Both are
    None when there are fewer steps than the diameter, as then there is no schedule at all. An
    allreduce's are those of a reduce-scatter and then an allgather. ``solvers`` names those that
    have solved something so far.
    """

    num_steps: int
    num_chunks: int
    status: str
    schedule: Schedule | None = None
    cost: Cost | None = None
    bound: Fraction | None = None
    limit: Fraction | None = None
    solvers: tuple[str, ...] = ()

    @property
    def is_optimal(self) -> bool:
        """Whether the schedule is proven to be the best for that many steps and chunks."""
        return self.cost is not None and self.cost.t_b == self.bound


@takes_topology
def exact_schedule(
    topology: Topology,
    num_steps: int,
    num_chunks: int,
    collective: Collective | str = Collective.ALLGATHER,
    options: Options = MINUTE,
) -> ExactAnswer:
    """The schedule of at most so many steps with the least t_b, of shards cut into so many chunks.

    It is verified. When the time limit is reached, or the memory, the answer holds the best
    schedule found. Raises ValueError for an all-to-all, fewer than two nodes, a topology that is
    not strongly connected or too large, SolverUnavailableError if the solver cannot take a program.

    >>> from ocs_codesign.graphs.families.shifts import Kautz
    >>> answer = exact_schedule(Kautz(2, 1).topology(), 3, 2)
    >>> answer.cost, answer.is_optimal
    (Cost(steps=3, t_b=Fraction(5, 6)), True)
    """
    collective = _checked(topology, num_steps, num_chunks, collective)
    return _answer(Halves(topology, num_chunks, options), collective, num_steps)


@takes_topology
def exact_answers(
    topology: Topology,
    max_steps: int,
    num_chunks: int,
    collective: Collective | str = Collective.ALLGATHER,
    options: Options = MINUTE,
) -> Iterator[ExactAnswer]:
    """The exact answer of every number of steps, from the fewest that there are to ``max_steps``.

    Ends early when no schedule of the topology can have a smaller t_b. The time limit is for all of
    them: each number of steps may use an equal share of what is left. Raises as ``exact_schedule``,
    when the answer in question is asked for; those before it stand.

    >>> from ocs_codesign.graphs.families.shifts import Kautz
    >>> [str(one.cost.t_b) for one in exact_answers(Kautz(2, 1).topology(), 3, 1)]
    ['1', '1']
    """
    collective = _checked(topology, max_steps, num_chunks, collective)
    return _answers(Halves(topology, num_chunks, options), collective, max_steps, options)


@takes_topology
def exact_frontier(
    topology: Topology,
    max_steps: int,
    num_chunks: int,
    collective: Collective | str = Collective.ALLGATHER,
    options: Options = MINUTE,
) -> list[ExactAnswer]:
    """The undominated ones of ``exact_answers``, ascending in steps.

    Empty if ``max_steps`` is less than the collective takes.

    >>> from ocs_codesign.graphs.families.shifts import Kautz
    >>> [str(one.cost.t_b) for one in exact_frontier(Kautz(2, 1).topology(), 5, 2)]
    ['1', '5/6']
    """
    return undominated(exact_answers(topology, max_steps, num_chunks, collective, options), cost_of)


def cost_of(answer: ExactAnswer) -> Cost:
    """The cost of an answer; ValueError with its status if it has no schedule."""
    if answer.cost is None:
        raise ValueError(answer.status)
    return answer.cost


@takes_topology
def fractional_bound(
    topology: Topology,
    num_steps: int,
    collective: Collective | str = Collective.ALLGATHER,
    options: Options = MINUTE,
) -> Fraction:
    """A t_b that no schedule of at most so many steps beats, whatever its chunks; in rationals.

    The least t_b if every node could be served on its own (see ``exact_model``): schedules often
    meet it, not always. Raises ValueError as ``exact_schedule`` does, and for fewer steps than the
    collective takes.

    >>> from ocs_codesign.graphs.families.shifts import Kautz
    >>> fractional_bound(Kautz(2, 1).topology(), 2), fractional_bound(Kautz(2, 1).topology(), 3)
    (Fraction(1, 1), Fraction(5, 6))
    """
    collective = _checked(topology, num_steps, 1, collective)
    halves = Halves(topology, 1, options)
    splits = halves.splits(collective, num_steps)
    if not splits:
        raise ValueError(_too_few(halves, collective, num_steps))
    return topology.t_b(min(sum(map(halves.limit, split), Fraction(0)) for split in splits))


def _answers(
    halves: Halves, collective: Collective, max_steps: int, options: Options
) -> Iterator[ExactAnswer]:
    least = topology_bound(halves.topology, collective, halves.diameter)
    if max_steps > least.steps + MAX_MORE_STEPS:
        raise ValueError(
            f"{max_steps} steps: exact frontiers go up to {least.steps + MAX_MORE_STEPS} here, "
            f"{MAX_MORE_STEPS} more than the fewest"
        )
    began = time.monotonic()
    for steps in range(least.steps, max_steps + 1):
        left = options.after(time.monotonic() - began)
        if left.time_limit_s is not None:
            left = replace(left, time_limit_s=left.time_limit_s / (max_steps + 1 - steps))
        halves.give(left)
        answer = _answer(halves, collective, steps)
        yield answer
        if cost_of(answer).t_b == least.t_b:
            return


def _answer(halves: Halves, collective: Collective, num_steps: int) -> ExactAnswer:
    splits = halves.splits(collective, num_steps)
    num_chunks = halves.num_chunks
    if not splits:
        status = f"no schedule: {_too_few(halves, collective, num_steps)}"
        return ExactAnswer(num_steps, num_chunks, status)
    topology = halves.topology
    rounded = {split: sum(map(halves.whole, split), Fraction(0)) for split in splits}
    best = _best(halves, rounded)
    schedule = _combined(best, collective)
    limit = min(sum(map(halves.limit, split), Fraction(0)) for split in splits)
    verdict = verify(schedule)
    if not verdict.ok:
        raise RuntimeError(f"the exact schedule is wrong: {verdict.witness}")
    bound, limit = topology.t_b(min(rounded.values())), topology.t_b(limit)
    cost = verdict.cost
    end = next((gather.end for gather in best if gather.end is not Status.OPTIMAL), Status.OPTIMAL)
    status = _status(cost, num_steps, num_chunks, bound, limit, end)
    solvers = tuple(sorted(halves.solvers))
    return ExactAnswer(num_steps, num_chunks, status, schedule, cost, bound, limit, solvers)


def _best(halves: Halves, bounds: dict[tuple[Half, ...], Fraction]) -> list[Gather]:
    """The allgathers of the best split; raises the bounds of those that are searched."""
    best: list[Gather] = []
    load = None
    for split in sorted(bounds, key=bounds.__getitem__):
        if load is not None and bounds[split] >= load:
            continue
        gathers = halves.gathers(split)
        bounds[split] = sum((gather.bound for gather in gathers), Fraction(0))
        total = sum((gather.load for gather in gathers), Fraction(0))
        if load is None or total < load:
            best, load = gathers, total
    return best


def _combined(gathers: list[Gather], collective: Collective) -> Schedule:
    if collective == Collective.ALLGATHER:
        return gathers[0].schedule
    scatter = gathers[0].schedule.reversed()
    return scatter if collective == Collective.REDUCE_SCATTER else scatter.then(gathers[1].schedule)


def _status(
    cost: Cost, num_steps: int, num_chunks: int, bound: Fraction, limit: Fraction, end: Status
) -> str:
    steps = _count(num_steps, "step")
    if cost.t_b == limit:
        return f"optimal: no schedule of {steps} has less than t_b {cost.t_b}"
    least = f"no schedule of {steps} and {_count(num_chunks, 'chunk')} a shard has less than t_b"
    if cost.t_b == bound:
        return f"optimal: {least} {bound} (with any number of chunks: {limit})"
    gap = float(cost.t_b / bound - 1)
    why = _ENDS.get(end, "the solver failed")
    return f"{why}: t_b {cost.t_b} was found, {least} {bound} (gap {gap:.2%})"


def _too_few(halves: Halves, collective: Collective, num_steps: int) -> str:
    least = halves.diameter * (2 if collective == Collective.ALLREDUCE else 1)
    steps, are = _count(num_steps, "step"), "is" if num_steps == 1 else "are"
    return f"{steps} {are} too few, {collective.name} takes at least {least} here"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _checked(
    topology: Topology, num_steps: int, num_chunks: int, collective: Collective | str
) -> Collective:
    collective = Collective.parse(collective)
    if collective == Collective.ALLTOALL:
        raise ValueError("exact schedules are of allgather, reduce-scatter and allreduce")
    if topology.num_nodes < 2:
        raise ValueError("a collective needs at least two nodes")
    if num_steps < 1:
        raise ValueError(f"num_steps is {num_steps}: it must be at least 1")
    if num_chunks < 1:
        raise ValueError(f"num_chunks is {num_chunks}: it must be at least 1")
    return collective
