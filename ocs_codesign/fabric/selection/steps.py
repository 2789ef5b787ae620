"""Steps of a workload on designs: what each asks for, how circuits change, where time goes."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from itertools import permutations
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.circuits.legs.options import (
    InsideBound,
    design_option,
    recipe_option,
    serving_options,
    with_contenders,
)
from ocs_codesign.circuits.legs.plan import LegProblem
from ocs_codesign.circuits.legs.trace import Job, Trace, TraceLegs
from ocs_codesign.circuits.phases import num_columns, phase_network, phased_alltoall, sequence_bound
from ocs_codesign.circuits.sequences import MAX_NODES, search_sequences
from ocs_codesign.core.collective import GATHERING, Collective
from ocs_codesign.core.cost import Cost
from ocs_codesign.core.progress import tell_phase
from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.embedding.embed import embed
from ocs_codesign.fabric.infeasible import InfeasibleError
from ocs_codesign.fabric.rewiring.state import DARK, plane_state
from ocs_codesign.schedules.design import Question, build, verified
from ocs_codesign.search.bases import Effort
from ocs_codesign.search.frontiers import designs_serving

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from ocs_codesign.circuits.legs.options import FabricOption, PhasedOptions
    from ocs_codesign.circuits.legs.plan import LegPlan
    from ocs_codesign.circuits.legs.trace import Leg
    from ocs_codesign.circuits.phases import PhasedAlltoall
    from ocs_codesign.core.cost import CostModel
    from ocs_codesign.core.schedule import Schedule
    from ocs_codesign.core.topology import Topology
    from ocs_codesign.fabric.description import Fabric
    from ocs_codesign.fabric.embedding.embed import Embedding
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.schedules.design import Design
    from ocs_codesign.schedules.forest.choice import Contender
    from ocs_codesign.search.pareto import Frontier


@final
@dataclass(frozen=True, slots=True)
class PartTime:
    """What ``count`` collectives of a part of the workload take in all on one option.

    ``phase`` counts from 1 where circuits change inside the collective, 0 where they do not;
    ``cost`` is that of one, by forests in so many ``forest_parts`` if there are any.
    ``reconfiguration_s`` is how long they wait for circuits, what gaps hide left out.
    """

    part: int
    collective: Collective
    phase: int
    option: int
    cost: Cost
    count: int
    alpha_s: Fraction
    bandwidth_s: Fraction
    reconfiguration_s: Fraction
    forest_parts: tuple[int, ...] = ()

    @property
    def total_s(self) -> Fraction:
        """All three parts together."""
        return self.alpha_s + self.bandwidth_s + self.reconfiguration_s


def phased_legs(whole: TraceLegs, phased: PhasedAlltoall, least_bytes: Fraction) -> TraceLegs:
    """The legs with every all-to-all of at least so many bytes in phases.

    Phase i is on option i, so the configurations of ``phased`` must be the first options.
    """
    legs: list[Leg] = []
    rows_of: list[list[int]] = []
    for leg in whole.legs:
        parts = [leg]
        if leg.collective == Collective.ALLTOALL and leg.message_bytes >= least_bytes:
            parts = _phases(leg, phased)
        rows_of.append([*range(len(legs), len(legs) + len(parts))])
        legs += parts
    many = np.array([len(rows) for rows in rows_of])[whole.rows]
    first = np.array([rows[0] for rows in rows_of])[whole.rows]
    begins = np.cumsum(many) - many
    rows = np.repeat(first - begins, many) + np.arange(many.sum())
    return TraceLegs(tuple(legs), rows, np.repeat(whole.job, many))


def _phases(leg: Leg, phased: PhasedAlltoall) -> list[Leg]:
    parts = []
    for at, (hops, duration) in enumerate(zip(phased.hops, phased.durations, strict=True)):
        costs: list[Cost | None] = [None] * len(leg.costs)
        costs[at] = Cost(hops, duration)
        gap = Fraction(0) if at else leg.gap_s
        forests: tuple[tuple[int, ...], ...] = ((),) * len(costs)
        phase = replace(leg, phase=at + 1, gap_s=gap, costs=tuple(costs), forest_parts=forests)
        parts.append(phase)
    return parts


def legs_problem(
    legs: TraceLegs, embeddings: Sequence[Embedding], *, cold_start: bool = True
) -> LegProblem:
    """Which option to hold for every leg, in seconds; ``embeddings`` share their cables."""
    delta, first = _change_times(embeddings)
    first = first if cold_start else 0 * first
    return legs.problem(embeddings[0].cabling.fabric.cost_model, delta, first=first)


def _change_times(embeddings: Sequence[Embedding]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Dead times in seconds: from each configuration to each, and of making each from nothing.

    Only circuits that come count; see ``Fabric.dead_time_s``.
    """
    fabric = embeddings[0].cabling.fabric
    states = np.stack([plane_state(each.planes, fabric.num_planes) for each in embeddings])
    ends = 2 if embeddings[0].planes.port_model is PortModel.MATCHING else 1
    before = np.concatenate([states, np.full_like(states[:1], DARK)])
    comes = (before[:, None] != states[None]) & (states[None] != DARK)
    changed = comes.sum(axis=3) // ends  # from, to, plane
    counts, kind = np.unique(changed.reshape(-1, fabric.num_planes), axis=0, return_inverse=True)
    dead = [fabric.dead_time_s(dict(enumerate(count))) for count in counts.tolist()]
    times = np.array(dead, dtype=object)[kind.ravel()].reshape(changed.shape[:2])
    cold_start = any(switch.profile.change.cold_start for switch in fabric.switches)
    return times[:-1], times[-1] if cold_start else 0 * times[-1]


def part_times(plan: LegPlan, legs: TraceLegs, model: CostModel) -> tuple[PartTime, ...]:
    """Where the time of a plan goes: a line for each part, phase and option, in order."""
    many = plan.problem.num_topologies
    key = (legs.job * len(legs.legs) + legs.rows) * many + plan.choice
    kinds, counts = np.unique(key, return_counts=True)
    waits: defaultdict[int, Fraction] = defaultdict(Fraction)
    for run in plan.runs():
        waits[int(key[run.first_step - 1])] += run.switching
    merged: dict[tuple[int, int, int], PartTime] = {}
    for kind, count in zip(kinds.tolist(), counts.tolist(), strict=True):
        (part, row), option = divmod(kind // many, len(legs.legs)), kind % many
        leg = legs.legs[row]
        cost = leg.costs[option]
        if cost is None:
            raise RuntimeError(f"option {option} was chosen for a collective it cannot serve")
        place = (part, leg.phase, option)
        held = merged.get(place)
        total = count + (held.count if held else 0)
        by_steps, by_bytes = model.parts_s(cost.steps, cost.t_b, leg.message_bytes)
        merged[place] = PartTime(
            part,
            leg.collective,
            leg.phase,
            option,
            cost,
            total,
            by_steps * total,
            by_bytes * total,
            waits[kind] + (held.reconfiguration_s if held else 0),
            leg.forest_parts[option],
        )
    return tuple(merged[place] for place in sorted(merged))


# Candidates of a selection: the designs that a fabric of N hosts with d ports could hold.


def fabric_question(fabric: Fabric) -> Question:
    """The working hosts are nodes and their ports the degree; two-way circuits ask for two ways."""
    both = fabric.port_model.is_bidirectional
    if len(np.unique(fabric.planes_of_hosts()[: fabric.num_working_hosts])) > 1:
        raise ValueError(
            "the fabric's working hosts differ in ports: designs have as many at every node; "
            "deploy puts a recipe on it"
        )
    return Question(fabric.num_working_hosts, fabric.num_ports_per_host, both)


def known_options(
    fabric: Fabric, collectives: Collection[Collective], catalogue: str | Path | None = None
) -> tuple[list[FabricOption], Frontier]:
    """What serves some collectives best on a fabric, ring and torus, and all that was compared.

    Where none of the best fits the fabric, all that are known join. Raises ValueError if nothing is
    known for the fabric's size, or nothing could be solved.
    """
    question = fabric_question(fabric)
    size = f"{question.num_nodes} working hosts with {question.degree} ports"
    if not 1 <= question.degree < question.num_nodes:
        raise ValueError(f"the fabric has {size}: no design has as many ports as nodes")
    serving = designs_serving(question, collectives, catalogue=catalogue)
    if not serving.looked_at:
        raise ValueError(
            f"no design is known for the fabric's {size}"
            + " and links in both directions" * question.bidirectional
            + ": name some with --designs"
        )
    if not serving.candidates:
        raise ValueError(
            f"the all-to-all of all {len(serving.looked_at)} designs for the fabric is too large "
            "to solve in passing: name some with --designs"
        )
    options = serving_options(serving, collectives)
    best = [design_option(design, collectives) for design in serving.candidates]
    if not any(_fits(fabric, option) for option in best):
        rest = (design for design in serving.dominated if design.measured)
        options = [*best, *(design_option(design, collectives) for design in rest)]
    return options, serving


def _fits(fabric: Fabric, option: FabricOption) -> bool:
    if option.topology is None:
        return False
    try:
        embed(fabric, option.topology, name=option.name)
    except InfeasibleError:
        return False
    return True


# Changes of circuits inside an all-to-all: whether they can gain, and sequences that may.


_MOST_CONFIGURATIONS = 4
_MAX_COLUMNS = 20_000
_MAX_MEMBERS = 3
_EFFORT = Effort(work=2**24, num_groups=6, num_measured=8)


def phased_sequences(
    workload: Workload, fitting: Sequence[tuple[FabricOption, Embedding]]
) -> InsideBound:
    """Sequences for the all-to-alls of a workload, none if no sequence can pay for its changes.

    Two to four configurations are weighed against the fastest single design by the bound on walks
    (see ``sequence_bound``); those that may gain are searched for.
    """
    fabric = fitting[0][1].cabling.fabric
    gains = [_most_gain(fabric, workload, fitting, c) for c in range(2, _MOST_CONFIGURATIONS + 1)]
    sequences: list[PhasedOptions] = []
    for gain in gains:
        if gain.can_gain:
            tell_phase(f"Searching all-to-alls of {gain.num_configurations} configurations")
            sequences += _searched(fabric, workload, gain.num_configurations)
    if gains[0].can_gain:
        sequences += _pairs(fitting)
    best = max(gains, key=lambda gain: gain.saved_s - gain.dead_s)
    return replace(best, sequences=tuple(sequences))


def alltoall_sizes(workload: Workload) -> set[Fraction]:
    """The different sizes of all-to-alls in a workload, in bytes."""
    return {job.message_bytes for job in workload.jobs if job.collective == Collective.ALLTOALL}


def _most_gain(
    fabric: Fabric,
    workload: Workload,
    fitting: Sequence[tuple[FabricOption, Embedding]],
    num_configurations: int,
) -> InsideBound:
    """Every phase takes a step, and one circuit changes at least: no sequence can do better."""
    least = min(fabric.dead_time_s({plane: 1}) for plane in range(fabric.num_planes))
    dead = least * (num_configurations - 1)
    sizes, model = alltoall_sizes(workload), fabric.cost_model
    if not sizes:
        return InsideBound(Collective.ALLTOALL, Fraction(0), dead, num_configurations)
    size = max(sizes)
    bound = sequence_bound(fabric.num_working_hosts, fabric.num_ports_per_host, num_configurations)
    costs = [option.alltoall for option, _ in fitting if option.alltoall is not None]
    now = min(cost.time_s(model, size) for cost in costs)
    at_best = Cost(num_configurations, bound).time_s(model, size)
    return InsideBound(Collective.ALLTOALL, now - at_best, dead, num_configurations)


def _searched(fabric: Fabric, workload: Workload, number: int) -> Iterator[PhasedOptions]:
    nodes, degree = fabric.num_working_hosts, fabric.num_ports_per_host
    if not (nodes <= MAX_NODES and 1 <= degree < nodes):
        return
    answer = search_sequences(nodes, degree, number, effort=_EFFORT)
    collectives = workload.trace.collectives
    options = tuple(recipe_option(recipe, collectives) for recipe in answer.recipes)
    yield options, answer.alltoall


def _pairs(fitting: Sequence[tuple[FabricOption, Embedding]]) -> Iterator[PhasedOptions]:
    """Two of the designs that serve all-to-all best, in both orders, where that is quick."""
    able = [option for option, _ in fitting if option.alltoall is not None]
    able.sort(key=lambda option: option.alltoall.t_b if option.alltoall else Fraction(0))
    distinct = list({option.alltoall: option for option in reversed(able)}.values())[::-1]
    for first, second in permutations(distinct[:_MAX_MEMBERS], 2):
        if first.topology is None or second.topology is None:
            continue
        both = [first.topology, second.topology]
        if num_columns(phase_network(both)) <= _MAX_COLUMNS:
            yield (first, second), phased_alltoall(both)


# Workload: the collectives that a fabric is chosen for, and when its circuits may change.


@final
class AllowedChanges(Enum):
    """When circuits may change: never, between two collectives, or inside one as well."""

    NONE = "none"
    BETWEEN = "between-collectives"
    INSIDE = "inside"


@final
@dataclass(frozen=True, slots=True)
class Workload:
    """Jobs with names one after the other, all of them ``repeat`` times.

    Without ``cold_start`` the circuits are there before the first.

    Raises ValueError for an empty name, jobs of the same name, and what a Trace refuses.

    >>> mix = Workload("mix", (Job("allreduce", 8, name="sum"), Job("alltoall", 1, name="swap")))
    >>> mix.trace.num_jobs, mix.trace.legs().job.tolist()
    (2, [0, 1])
    """

    name: str
    jobs: tuple[Job, ...]
    repeat: int = 1
    allowed: AllowedChanges = AllowedChanges.NONE
    cold_start: bool = True

    def __post_init__(self) -> None:
        if not self.name.strip() or not all(job.name.strip() for job in self.jobs):
            raise ValueError("a name is empty: a workload and each of its parts have one")
        counts = Counter(job.name for job in self.jobs)
        twice = [name for name, count in counts.items() if count > 1]
        if twice:
            raise ValueError(f"two collectives have the name {twice[0]!r}: names are unique")
        Trace(self.jobs, self.repeat)

    @classmethod
    def of(cls, collectives: Iterable[Collective], message_bytes: float) -> Workload:
        """Collectives one after the other, each of M = ``message_bytes``, on circuits in place."""
        names = tuple(dict.fromkeys(collective.name for collective in collectives))
        jobs = tuple(Job(name, message_bytes, name=name) for name in names)
        return cls(", ".join(names), jobs, cold_start=False)

    @property
    def trace(self) -> Trace:
        """The jobs as a trace."""
        return Trace(self.jobs, self.repeat)


# Forests as schedules of a selection: where cuts allow more than the design's own schedule.


def with_forests(fabric: Fabric, workload: Workload, option: FabricOption) -> FabricOption:
    """The option with the forests of an allreduce's halves, where a workload may gain by them."""
    jobs = [job for job in workload.jobs if job.collective in GATHERING]
    if not jobs:
        return option
    largest = max(job.message_bytes for job in jobs)
    return with_contenders(option, fabric.cost_model, largest)


def fastest_design(
    fabric: Fabric, recipe: Recipe, collective: Collective, message_bytes: Fraction | float
) -> Design:
    """The verified design that a selection counts for messages of this size, forests or not.

    An allreduce is its halves one after the other, each by what is fastest.
    """
    workload = Workload.of([collective], float(message_bytes))
    option = with_forests(fabric, workload, recipe_option(recipe, [collective]))
    topology = option.topology
    if not option.contenders or topology is None:
        return build(recipe, collective)
    model, size = fabric.cost_model, workload.jobs[0].message_bytes
    fields = dict(zip(Collective.ALLREDUCE.halves(), option.contenders, strict=True))
    bests = {half: fields[half].choice(model, size).best for half in collective.halves()}
    made = [_made(recipe, half, best, topology) for half, best in bests.items()]
    schedule = made[0][0] if len(made) == 1 else made[0][0].then(made[1][0])
    return verified(recipe, schedule, "+".join(dict.fromkeys(maker for _, maker in made)))


def _made(
    recipe: Recipe, half: Collective, best: Contender, topology: Topology
) -> tuple[Schedule, str]:
    """The schedule of a contender, and who makes it."""
    if best.pipeline is not None:
        return best.pipeline.schedule(best.num_parts, topology), best.maker
    design = build(recipe, half)
    return design.schedule, design.maker
