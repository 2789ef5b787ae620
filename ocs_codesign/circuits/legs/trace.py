"""Plans of traces: which design a fabric holds for which jobs, and from when on switching pays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.circuits.change import Change, OpenRange, merged
from ocs_codesign.circuits.legs.break_even import MAX_SOLVES, BreakEven, break_even
from ocs_codesign.circuits.legs.options import (
    InsideBound,
    changed_circuits,
    dead_times,
    inside_bounds,
)
from ocs_codesign.circuits.legs.plan import (
    DynamicProgram,
    LegPlan,
    LegProblem,
    plan_legs,
    price_plan,
)
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.quantities import exact
from ocs_codesign.core.shown import Brief
from ocs_codesign.verification.plans import check_plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from ocs_codesign.circuits.legs.options import FabricOption
    from ocs_codesign.core.cost import Cost, CostModel


# Trace: the collectives of a job in order, with the computation between them.


MAX_JOBS = 2**20
"""Largest number of collectives in a trace, repetitions counted."""


@final
@dataclass(frozen=True, slots=True, init=False)
class Job:
    """A collective of M = ``message_bytes``, ``count`` times in a row, and computation around it.

    It may have a name, as in ``expert dispatch``.

    ``gap_before_s`` and ``gap_after_s`` are the seconds before and after every single one in which
    no circuits are needed. Numbers are exact: a float is read as the decimal that it prints as.
    Raises ValueError for negative numbers, a count below 1 or above MAX_JOBS, and an unknown
    collective.

    >>> Job("all-to-all", 2**20, gap_before_s=0.5, count=3).gap_before_s
    Fraction(1, 2)
    """

    collective: Collective
    message_bytes: Fraction
    gap_before_s: Fraction
    gap_after_s: Fraction
    count: int
    name: str

    def __init__(
        self,
        collective: Collective | str,
        message_bytes: Fraction | float,
        *,
        gap_before_s: Fraction | float = 0,
        gap_after_s: Fraction | float = 0,
        count: int = 1,
        name: str = "",
    ) -> None:
        object.__setattr__(self, "collective", Collective.parse(collective))
        for what, value in (
            ("message_bytes", message_bytes),
            ("gap_before_s", gap_before_s),
            ("gap_after_s", gap_after_s),
        ):
            number = exact(value, what)
            if number < 0:
                raise ValueError(f"{what} is {value}: it cannot be negative")
            object.__setattr__(self, what, number)
        object.__setattr__(self, "count", _times(count, "count"))
        object.__setattr__(self, "name", name)


@final
@dataclass(frozen=True, slots=True)
class Leg:
    """A collective, or one phase of it, that is asked for ``gap_s`` after the leg before.

    ``phase`` counts from 1, 0 if it is whole. ``costs`` are those on every option, None where it is
    not served; ``forest_parts`` those of its forests there, see ``FabricOption.fastest``.
    """

    collective: Collective
    message_bytes: Fraction
    gap_s: Fraction
    phase: int = 0
    costs: tuple[Cost | None, ...] = ()
    forest_parts: tuple[tuple[int, ...], ...] = ()


@final
@dataclass(frozen=True, slots=True, eq=False)
class TraceLegs:
    """A trace a leg at a time: step i is ``legs[rows[i]]``, of job ``job[i]`` (both int64)."""

    legs: tuple[Leg, ...]
    rows: NDArray[np.int64]
    job: NDArray[np.int64]

    def priced(self, options: Sequence[FabricOption], model: CostModel) -> TraceLegs:
        """The same with the cost of every leg by the fastest schedule of every option."""
        legs = []
        for leg in self.legs:
            fastest = [
                option.fastest(leg.collective, model, leg.message_bytes) for option in options
            ]
            costs, parts = zip(*fastest, strict=True)
            legs.append(replace(leg, costs=costs, forest_parts=parts))
        return replace(self, legs=tuple(legs))

    def problem(
        self,
        model: CostModel,
        delta: Fraction | NDArray[Any],
        *,
        start: int | None = None,
        first: NDArray[Any] | None = None,
    ) -> LegProblem:
        """Which option to hold for every leg, in seconds, infinite where it is not served."""
        times = np.full((len(self.legs), len(self.legs[0].costs)), np.inf, dtype=object)
        for row, leg in enumerate(self.legs):
            for option, cost in enumerate(leg.costs):
                if cost is not None:
                    times[row, option] = cost.time_s(model, leg.message_bytes)
        gaps = [leg.gap_s for leg in self.legs]
        return LegProblem(times, delta, start=start, first=first, gaps=gaps, rows=self.rows)


@final
@dataclass(frozen=True, slots=True, init=False)
class Trace:
    """Jobs one after the other, all of them ``repeat`` times.

    Raises ValueError if there are none, or more than MAX_JOBS with all repetitions.
    """

    jobs: tuple[Job, ...]
    repeat: int

    def __init__(self, jobs: Iterable[Job], repeat: int = 1) -> None:
        object.__setattr__(self, "jobs", tuple(jobs))
        object.__setattr__(self, "repeat", _times(repeat, "repeat"))
        if not self.jobs:
            raise ValueError("the trace is empty: it needs at least one job")
        if self.num_jobs > MAX_JOBS:
            raise ValueError(
                f"the trace has {self.num_jobs} jobs with all repetitions: at most {MAX_JOBS} are "
                "planned"
            )

    @property
    def num_jobs(self) -> int:
        """Collectives, repetitions counted."""
        return self.repeat * sum(job.count for job in self.jobs)

    @property
    def collectives(self) -> tuple[Collective, ...]:
        """The different collectives, in the order in which they first appear."""
        return tuple(dict.fromkeys(job.collective for job in self.jobs))

    @property
    def compute_s(self) -> Fraction:
        """Seconds of all gaps together."""
        gaps = (job.count * (job.gap_before_s + job.gap_after_s) for job in self.jobs)
        return self.repeat * sum(gaps, Fraction(0))

    def legs(self) -> TraceLegs:
        """The trace one collective at a time, each with the whole gap since the one before."""
        number: dict[Leg, int] = {}
        rounds: list[NDArray[np.int64]] = []
        after = Fraction(0)
        for _ in range(min(self.repeat, 2)):  # from the second on all are alike
            rows, times = [], []
            for job in self.jobs:
                inside = job.gap_after_s + job.gap_before_s
                for gap, count in ((after + job.gap_before_s, 1), (inside, job.count - 1)):
                    if count:
                        leg = Leg(job.collective, job.message_bytes, gap)
                        rows.append(number.setdefault(leg, len(number)))
                        times.append(count)
                after = job.gap_after_s
            rounds.append(np.repeat(rows, times))
        rounds += rounds[-1:] * (self.repeat - len(rounds))
        job_of_step = np.repeat(np.arange(len(self.jobs)), [job.count for job in self.jobs])
        return TraceLegs(tuple(number), np.concatenate(rounds), np.tile(job_of_step, self.repeat))


def _times(value: int, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ValueError(f"{name} is {value!r}: it must be a whole number")
    if not 1 <= value <= MAX_JOBS:
        raise ValueError(f"{name} is {value}: it must be from 1 to {MAX_JOBS}")
    return int(value)


# Policies for traces: one that sees no future, and the two simplest to compare with.
#
# The online policy is the work-function algorithm for metrical task systems (Borodin, Linial and
# Saks, 1992). At every step it knows how much serving all steps so far and ending on each
# topology costs at least, and moves where this work and the way there cost least together. If
# switching is a metric it never costs more than 2 K - 1 times the optimum of hindsight on K
# topologies, and no deterministic policy can promise less; rent-or-buy rules promise as much for
# two topologies only. Where gaps of different lengths hide switches no policy can promise
# anything: hindsight switches when it is free.


def online_plan(problem: LegProblem) -> LegPlan | None:
    """What the work-function policy does; the topology of a step depends on no later one.

    The step itself and the gap before it are known when it chooses. None if it gets where no
    finite switch leads to a topology that can serve the next step.
    """
    # The work function is the cost to go of the reversed steps, which end with the first switch.
    ticks, rows = problem.ticks, problem.rows
    last = np.minimum(ticks.costs[rows[0]] + _entry(problem), ticks.infinite)
    costs, gaps = np.vstack([ticks.costs, last]), np.append(ticks.gaps, ticks.gaps[rows[0]])
    order = np.append(rows[:0:-1], len(ticks.costs))
    program = DynamicProgram(replace(ticks, costs=costs, gaps=gaps), order)
    program.weigh()
    work = program.costs_to_go(order, np.roll(order, 1), is_reversed=True)
    work = np.ascontiguousarray(work[:, ::-1])
    choice = program.follow(work, rows, problem.start, is_online=True)
    return None if choice is None else price_plan(problem, choice)


def promise(problem: LegProblem) -> tuple[int, Fraction] | None:
    """The ratio and extra that ``online_plan`` keeps: total <= ratio * optimum + extra.

    None if switches beyond gaps are no metric. The extra is 0 where all switches cost the same and
    the fabric holds a topology, or pays for its first one like for any.
    """
    ticks, many = problem.ticks, problem.num_topologies
    gaps = ticks.gaps[problem.rows]
    if (gaps != gaps[0]).any():
        return None
    delta = np.broadcast_to(ticks.delta, (many, many)).astype(object)
    metric = np.maximum(delta - int(gaps[0]), 0)
    np.fill_diagonal(metric, 0)
    if (delta >= ticks.infinite).any() or not _is_metric(metric):
        return None
    ways = metric.sum(axis=1)
    if problem.start is not None:
        extra = 2 * (max(ways) - ways[problem.start])
    else:
        extra = 2 * max(ways) - 2 * (many - 1) * int(_entry(problem).min())
    return 2 * many - 1, ticks.tick * max(int(extra), 0)


def _is_metric(distance: NDArray[Any]) -> bool:
    """Whether distances are symmetric and no way round is shorter."""
    if not (distance == distance.T).all():
        return False
    return all((distance <= column[:, None] + column[None, :]).all() for column in distance)


def static_plan(problem: LegProblem) -> LegPlan | None:
    """The best topology to hold throughout; None if no single one can serve all steps."""
    infinite = problem.ticks.infinite
    totals = np.minimum(held_work(problem) + _entry(problem), infinite).tolist()
    best = int(np.argmin(totals))
    if totals[best] >= infinite:
        return None
    return price_plan(problem, np.full(problem.num_steps, best, dtype=np.int32))


def held_work(problem: LegProblem) -> NDArray[Any]:
    """What all steps cost on each topology, in ticks."""
    ticks = problem.ticks
    times = np.bincount(problem.rows, minlength=len(ticks.costs))
    never = ticks.costs >= ticks.infinite
    works = (np.where(never, 0, ticks.costs) * times[:, None]).sum(axis=0)
    return np.where(never[times > 0].any(axis=0), ticks.infinite, works)


def greedy_plan(problem: LegProblem) -> LegPlan | None:
    """Every step on a topology that serves it best, whatever switching costs; keeps if it can.

    None if that takes a switch that is infinite.
    """
    costs = problem.ticks.costs
    best = costs == costs.min(axis=1)[:, None]
    first = np.argmax(best, axis=1).tolist()
    is_best = best.tolist()
    held = problem.start
    choice = []
    for row in problem.rows.tolist():
        if held is None or not is_best[row][held]:
            held = first[row]
        choice.append(held)
    try:
        return price_plan(problem, choice)
    except ValueError:
        return None


def _entry(problem: LegProblem) -> NDArray[Any]:
    """What the first configuration costs beyond the first gap, in ticks."""
    ticks = problem.ticks
    return np.asarray(ticks.beyond(ticks.first, ticks.gaps[problem.rows[0]]))


# Where switching pays: the factors at which the optimum beats all that hold one topology.


def paying(found: BreakEven) -> tuple[OpenRange, ...]:
    """Where the least cost is below that of every topology that is held throughout."""
    held = _Held(found.problem)
    ranges: list[OpenRange] = []
    for piece in found.pieces:
        end = piece.end
        inner = [turn for turn in held.turns if piece.begin < turn and (end is None or turn < end)]
        for since, until in zip((piece.begin, *inner), (*inner, end), strict=True):
            # Held costs are concave here and not below the straight one: equal or above throughout.
            inside = OpenRange(since, until).inside
            if piece.total(inside) != held.least(inside):
                ranges.append(OpenRange(since, until))
    return merged(ranges)


@final
class _Held:
    """What holding a topology throughout costs, for each that can serve all steps."""

    def __init__(self, problem: LegProblem) -> None:
        ticks = problem.ticks
        work = held_work(problem)
        able = (work < ticks.infinite) & (ticks.first < ticks.infinite)
        self.tick, self.gap = ticks.tick, int(ticks.gaps[problem.rows[0]])
        self.costs = list(zip(work[able].tolist(), ticks.first[able].tolist(), strict=True))

    @property
    def turns(self) -> list[Fraction]:
        """The factors at which the first gap ceases to hide a first configuration."""
        return sorted({Fraction(self.gap, first) for _, first in self.costs if first})

    def least(self, factor: Fraction) -> Fraction | None:
        """What the best costs at a factor; None if there is none."""
        costs = (work + max(factor * first - self.gap, Fraction(0)) for work, first in self.costs)
        least = min(costs, default=None)
        return None if least is None else least * self.tick


_WORK = 10**8
"""States that the search for break-even factors may look at: some seconds of it."""


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TracePlan(Brief):
    """A trace on a fabric that can hold several designs, planned in hindsight and without.

    ``problem`` has a topology for every option and a step for every collective, in seconds.
    ``offline`` is the optimum with its bound; ``online`` the work-function policy, of which
    ``promise`` says what is proven (see ``promise``); ``static`` the best option to hold
    throughout; ``greedy`` takes the best one for every job. The last three are None where there is
    no such plan.

    ``break_even`` scales all dead times by a factor: a ``fixed_s`` of ``factor_s`` times the
    factor, and what a circuit adds in proportion. ``paying`` are the factors at which the optimum
    beats every option that is held throughout. ``inside`` says, for every collective made of
    allgathers, what switching inside it could gain on the quickest option that is
    bandwidth-optimal.
    """

    trace: Trace
    legs: TraceLegs
    options: tuple[FabricOption, ...]
    model: CostModel
    reconfiguration: Change
    problem: LegProblem
    offline: LegPlan
    online: LegPlan | None
    promise: tuple[int, Fraction] | None
    static: LegPlan | None
    greedy: LegPlan | None
    break_even: BreakEven
    factor_s: Fraction
    paying: tuple[OpenRange, ...]
    inside: tuple[InsideBound, ...]

    @property
    def pays(self) -> bool:
        """Whether switching beats every option that is held throughout."""
        return self.static is None or self.offline.total < self.static.total

    @property
    def online_ratio(self) -> Fraction | None:
        """Time of collectives and switches of the online policy, relative to the optimum."""
        if self.online is None or not self.offline.total:
            return None
        return self.online.total / self.offline.total


def plan_trace(
    trace: Trace,
    options: Sequence[FabricOption],
    model: CostModel,
    reconfiguration: Change,
    *,
    start: int | None = None,
    max_solves: int | None = None,
) -> TracePlan:
    """Which option to hold for every job of a trace, exactly.

    The whole fabric stops for a switch, except for what a gap hides. ``start`` is the option that
    is held before the trace; None if none is: then the first one pays too with
    ``reconfiguration.cold_start``, and is up already without. ``max_solves`` limits the search for
    break-even factors. Raises ValueError for no options, a job
    that none of them can serve, and options of several sizes or without a topology where what a
    circuit adds has to be counted.

    >>> from ocs_codesign.core.cost import Cost, CostModel
    >>> from ocs_codesign.circuits.legs.options import FabricOption
    >>> gather, exchange = (Cost(0, Fraction(time)) for time in (100, 180))
    >>> options = [FabricOption("one", gather, gather), FabricOption("other", alltoall=exchange)]
    >>> trace = Trace([Job("allgather", 1, gap_after_s=4), Job("alltoall", 1)], repeat=2)
    >>> plan = plan_trace(trace, options, CostModel(0, 1), Change(10), start=0)
    >>> plan.offline.choice.tolist(), str(plan.offline.switching), str(plan.offline.hidden)
    ([0, 1, 0, 1], '22', '8')
    """
    legs = _priced(trace.legs(), options, model)

    def problem_with(cost: Change) -> LegProblem:
        delta, first = _dead_times(options, cost)
        return legs.problem(model, delta, start=start, first=first if start is None else None)

    problem = problem_with(reconfiguration)
    scaled, factor_s, here = problem, reconfiguration.fixed_s, Fraction(1)
    if not reconfiguration.per_circuit_s:  # then a factor can be the dead time itself
        unit = Change(1, cold_start=reconfiguration.cold_start)
        scaled, factor_s, here = problem_with(unit), Fraction(1), reconfiguration.fixed_s
    offline = checked_plan(problem)
    limit = _max_solves(problem) if max_solves is None else max_solves
    found = break_even(scaled, around=here, max_solves=limit)
    return TracePlan(
        trace,
        legs,
        tuple(options),
        model,
        reconfiguration,
        problem,
        offline,
        online_plan(problem),
        promise(problem),
        static_plan(problem),
        greedy_plan(problem),
        found,
        factor_s,
        paying(found),
        inside_bounds(options, trace.collectives, model, reconfiguration),
    )


def checked_plan(problem: LegProblem) -> LegPlan:
    """The optimal plan, its costs and its proof checked."""
    plan = plan_legs(problem)
    witness = check_plan(plan)
    if witness is not None:
        raise RuntimeError(f"the plan of the legs fails: {witness}")
    return plan


def _priced(legs: TraceLegs, options: Sequence[FabricOption], model: CostModel) -> TraceLegs:
    """The legs with their costs; ValueError if there is no option or none serves a leg."""
    if not options:
        raise ValueError("there is no design to choose from: at least one is needed")
    priced = legs.priced(options, model)
    for row, leg in enumerate(priced.legs):
        if not any(cost is not None for cost in leg.costs):
            raise ValueError(
                f"job {int(np.argmax(legs.rows == row)) + 1} is {leg.collective.name}, which none "
                f"of the {len(options)} designs can serve"
            )
    return priced


def _dead_times(
    options: Sequence[FabricOption], cost: Change
) -> tuple[Fraction | NDArray[Any], NDArray[Any]]:
    """What switches between options cost, and the first configuration; one number if they agree."""
    topologies = [option.topology for option in options if option.topology is not None]
    if len(topologies) < len(options):
        if cost.per_circuit_s:
            bare = next(option.name for option in options if option.topology is None)
            raise ValueError(f"{bare} has no topology: its circuits cannot be counted")
        return cost.fixed_s, dead_times(np.full(len(options), int(cost.cold_start)), cost)
    made = np.array([topology.num_links for topology in topologies]) * cost.cold_start
    delta, first = dead_times(changed_circuits(topologies), cost), dead_times(made, cost)
    others = set(delta[~np.eye(len(options), dtype=bool)].tolist())
    return (others.pop() if len(others) == 1 else delta), first


def _max_solves(problem: LegProblem) -> int:
    """Plans that are made for break-even factors within some seconds."""
    many = problem.num_topologies
    states = problem.num_steps * many
    each = states if problem.is_uniform else states * (1 + many // 32)
    return min(MAX_SOLVES, max(_WORK // each, 16))
