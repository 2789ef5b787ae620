"""Selection: which design, or plan that switches between designs, serves a workload fastest."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING, TypeAlias, final

import numpy as np

from ocs_codesign.circuits.legs import options
from ocs_codesign.circuits.legs.plan import price_plan
from ocs_codesign.circuits.legs.trace import checked_plan
from ocs_codesign.core.progress import tell_phase
from ocs_codesign.core.shown import Tabular
from ocs_codesign.fabric.embedding.embed import embed
from ocs_codesign.fabric.infeasible import InfeasibleError
from ocs_codesign.fabric.selection.steps import (
    AllowedChanges,
    alltoall_sizes,
    legs_problem,
    part_times,
    phased_legs,
    phased_sequences,
    with_forests,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ocs_codesign.circuits.legs.options import FabricOption, InsideBound, PhasedOptions
    from ocs_codesign.circuits.legs.trace import TraceLegs
    from ocs_codesign.core.topology import Topology
    from ocs_codesign.fabric.description import Fabric
    from ocs_codesign.fabric.embedding.embed import Embedding
    from ocs_codesign.fabric.selection.steps import PartTime, Workload
    from ocs_codesign.search.pareto import Frontier


Fitting: TypeAlias = "tuple[FabricOption, Embedding]"
"""A design and how it is put on the fabric."""
_MAX_IN_PAIRS = 12
_MAX_PAIR_STATES = 2**24
_MAX_THRESHOLDS = 4


@final
class PlanKind(Enum):
    """One design throughout, several between collectives, or several inside an all-to-all."""

    SINGLE = "single"
    SWITCHING = "switching"
    PHASED = "phased"


@final
@dataclass(frozen=True, slots=True)
class Excluded:
    """A design or plan that was not ranked: a few words and a sentence say why."""

    name: str
    reason: str
    sentence: str


@final
@dataclass(frozen=True, slots=True, eq=False)
class RankedPlan:
    """Designs on one cabling of the fabric, which of them serves what, and where the time goes.

    ``times`` are by position in ``options``; ``embeddings`` are theirs. ``num_changes`` counts
    changes of circuits but not the first configuration; gaps hide ``hidden_s`` of dead time.
    """

    options: tuple[FabricOption, ...]
    embeddings: tuple[Embedding, ...]
    times: tuple[PartTime, ...]
    num_changes: int
    hidden_s: Fraction

    @property
    def kind(self) -> PlanKind:
        """Whether circuits change, and where."""
        if any(time.phase for time in self.times):
            return PlanKind.PHASED
        return PlanKind.SWITCHING if self.num_changes else PlanKind.SINGLE

    @property
    def name(self) -> str:
        """The designs' names: ``A then B`` inside a collective, ``A + B`` between them."""
        return self.named(lambda option: option.name)

    def named(self, name_of: Callable[[FabricOption], str]) -> str:
        """The same with other names for the designs."""
        phases = sorted({(time.phase, time.option) for time in self.times if time.phase})
        inside = list(dict.fromkeys(option for _, option in phases))
        others = [at for at in range(len(self.options)) if at not in inside]
        sequence = " then ".join(name_of(self.options[at]) for at in inside)
        names = [name_of(self.options[at]) for at in others]
        return " + ".join([sequence, *names] if sequence else names)

    @property
    def alpha_s(self) -> Fraction:
        """Time of the steps."""
        return sum((time.alpha_s for time in self.times), Fraction(0))

    @property
    def bandwidth_s(self) -> Fraction:
        """Time of the bytes."""
        return sum((time.bandwidth_s for time in self.times), Fraction(0))

    @property
    def reconfiguration_s(self) -> Fraction:
        """Time in which all wait for circuits."""
        return sum((time.reconfiguration_s for time in self.times), Fraction(0))

    @property
    def total_s(self) -> Fraction:
        """Time of the whole workload without its gaps."""
        return self.alpha_s + self.bandwidth_s + self.reconfiguration_s


@final
@dataclass(frozen=True, slots=True, eq=False)
class Selection(Tabular):
    """Plans for a workload, the fastest first, and what was left out.

    ``inside`` says what changes inside an all-to-all could gain, where they are allowed. Where
    designs were not named, ``serving`` is all that was compared to choose them.
    """

    fabric: Fabric
    workload: Workload
    ranked: tuple[RankedPlan, ...]
    excluded: tuple[Excluded, ...]
    inside: InsideBound | None
    serving: Frontier | None = None

    def __repr__(self) -> str:
        return (
            f"Selection({self.workload.name} on {self.fabric.name}: {len(self.ranked)} plans, "
            f"{len(self.excluded)} left out)"
        )

    @property
    def baselines(self) -> tuple[tuple[int, RankedPlan], ...]:
        """The plans that hold a baseline throughout, with their ranks."""
        recipes = set() if self.serving is None else {b.recipe for b in self.serving.baselines}
        return tuple(
            (rank, plan)
            for rank, plan in enumerate(self.ranked, 1)
            if plan.kind is PlanKind.SINGLE and plan.options[0].recipe in recipes
        )


def fat_tree_time_s(fabric: Fabric, workload: Workload) -> Fraction:
    """Seconds that the workload takes at least on a fat tree whose hosts have as many ports."""
    return options.fat_tree_time_s(fabric.num_working_hosts, workload.trace, fabric.cost_model)


def select(
    fabric: Fabric,
    workload: Workload,
    options: Sequence[FabricOption],
    serving: Frontier | None = None,
) -> Selection:
    """Rank designs, and plans that change between them, by the exact time that a workload takes.

    Every option is embedded and left out, with the bound that fails, if it does not fit. Switching
    plans hold designs that share their cables: the optimum over all of them and over every pair of
    the fastest. Where changes inside are allowed, sequences of configurations for all-to-all are
    tried unless a bound shows that they cannot gain. ``serving`` is what the options were chosen
    from; those that were too large to solve are left out and named. Raises ValueError for options
    without a topology or of other sizes, and for a collective that an option cannot serve.
    """
    topologies = _checked_topologies(fabric, workload, options)
    tell_phase("Embedding designs")
    fitting: list[Fitting] = []
    excluded: list[Excluded] = []
    for option, topology in zip(options, topologies, strict=True):
        try:
            fitting.append((option, embed(fabric, topology, name=option.name)))
        except InfeasibleError as error:
            excluded.append(Excluded(option.name, error.reason.value, str(error)))
    tell_phase("Packing trees")
    fitting = [(with_forests(fabric, workload, option), each) for option, each in fitting]
    plans = sorted((_planned(workload, [fits]) for fits in fitting), key=_rank)
    fitting = [(plan.options[0], plan.embeddings[0]) for plan in plans]
    inside = None
    if plans and workload.allowed is not AllowedChanges.NONE:
        tell_phase("Planning changes of circuits")
        for group in _sharing_cables(fitting):
            plans += _switching(workload, group)
    if plans and workload.allowed is AllowedChanges.INSIDE:
        inside = phased_sequences(workload, fitting)
        for sequence in inside.sequences:
            try:
                plans.append(_phased(fabric, workload, sequence, fitting[0]))
            except InfeasibleError as error:
                names = " then ".join(option.name for option in sequence[0])
                refusal = f"on one cabling: {error}"
                excluded.append(Excluded(names, error.reason.value, refusal))
    for design in () if serving is None else serving.unsolved:
        sentence = "its all-to-all is too large to solve in passing: name it with --designs"
        excluded.append(Excluded(repr(design.recipe), "not measured", sentence))
    ranked = tuple(sorted(plans, key=_rank))
    return Selection(fabric, workload, ranked, tuple(excluded), inside, serving)


def ranked_for(selection: Selection, workload: Workload) -> Selection:
    """The single designs of a selection, as they were put on its fabric, for another workload."""
    singles = (plan for plan in selection.ranked if plan.kind is PlanKind.SINGLE)
    fitting = [
        (with_forests(selection.fabric, workload, plan.options[0]), plan.embeddings[0])
        for plan in singles
    ]
    plans = sorted((_planned(workload, [fits]) for fits in fitting), key=_rank)
    return replace(selection, workload=workload, ranked=tuple(plans))


def _checked_topologies(
    fabric: Fabric, workload: Workload, options: Sequence[FabricOption]
) -> list[Topology]:
    if not options:
        raise ValueError("there is no design to choose from: at least one is needed")
    topologies = []
    for option in options:
        topology = _topology(option)
        if topology.num_nodes != fabric.num_working_hosts:
            raise ValueError(
                f"{option.name} has {topology.num_nodes} nodes: the fabric has "
                f"{fabric.num_working_hosts} working hosts"
            )
        for collective in workload.trace.collectives:
            if option.cost(collective) is None:
                raise ValueError(f"{option.name} has no cost of {collective.name}")
        topologies.append(topology)
    return topologies


def _topology(option: FabricOption) -> Topology:
    if option.topology is None:
        raise ValueError(f"{option.name} has no topology: only circuits can be put on a fabric")
    return option.topology


def _rank(plan: RankedPlan) -> tuple[Fraction, int, int]:
    return plan.total_s, plan.num_changes, len(plan.options)


def _planned(
    workload: Workload, fitting: Sequence[Fitting], legs: TraceLegs | None = None
) -> RankedPlan:
    """The optimal plan over these designs; those that it never holds are left out."""
    options, embeddings = zip(*fitting, strict=True)
    model = embeddings[0].cabling.fabric.cost_model
    legs = workload.trace.legs().priced(options, model) if legs is None else legs
    problem = legs_problem(legs, embeddings, cold_start=workload.cold_start)
    only = np.zeros(problem.num_steps, dtype=int)
    plan = price_plan(problem, only) if len(fitting) == 1 else checked_plan(problem)
    times = part_times(plan, legs, embeddings[0].cabling.fabric.cost_model)
    held = sorted({time.option for time in times})
    ranked = RankedPlan(
        tuple(options[at] for at in held),
        tuple(embeddings[at] for at in held),
        tuple(replace(time, option=held.index(time.option)) for time in times),
        plan.num_switches,
        plan.hidden,
    )
    if ranked.total_s != plan.total:
        raise RuntimeError(f"the parts of {ranked.name} do not add up to its total")
    return ranked


def _sharing_cables(fitting: Sequence[Fitting]) -> Iterator[list[Fitting]]:
    """Sets of designs that fit on the cables of the first of each; every design is in one."""
    covered: set[int] = set()
    for leader, leading in enumerate(fitting):
        if leader in covered:
            continue
        group = [leading]
        covered.add(leader)
        for at, fits in enumerate(fitting):
            if at == leader:
                continue
            try:
                group.append(_on_cables(leading[1], fits))
            except InfeasibleError:
                continue
            covered.add(at)
        yield group


def _on_cables(base: Embedding, fits: Fitting) -> Fitting:
    """A design on the cables of another one; as it was embedded if it has the same cables."""
    option, own = fits
    same = all(
        np.array_equal(getattr(base.cabling, cables), getattr(own.cabling, cables))
        for cables in ("a_switch", "a_port", "b_switch", "b_port", "trunks")
    )
    if same:
        return fits
    fabric, cabling = base.cabling.fabric, base.cabling
    return option, embed(fabric, _topology(option), cabling=cabling, name=option.name)


def _switching(workload: Workload, group: Sequence[Fitting]) -> Iterator[RankedPlan]:
    """The optimum over all and over pairs of the fastest, where it changes at all."""
    sets = [tuple(range(len(group)))] if len(group) > 2 else []
    pairs = list(combinations(range(min(len(group), _MAX_IN_PAIRS)), 2))
    if len(pairs) * workload.trace.num_jobs <= _MAX_PAIR_STATES or not sets:
        sets += pairs
    known: set[tuple[str, ...]] = set()
    for members in sets:
        plan = _planned(workload, [group[at] for at in members])
        names = tuple(option.name for option in plan.options)
        if plan.num_changes and names not in known:
            known.add(names)
            yield plan


def _phased(
    fabric: Fabric, workload: Workload, sequence: PhasedOptions, best: Fitting
) -> RankedPlan:
    """A sequence for the largest all-to-alls, with the best single design for all else.

    Raises InfeasibleError if its designs do not fit on the cables of the first.
    """
    fitting: list[Fitting] = []
    held, alltoall = sequence
    for option in held:
        fits = (option, embed(fabric, _topology(option), name=option.name))
        fitting.append(_on_cables(fitting[0][1], fits) if fitting else fits)
    if best[0] not in held:
        # If it does not fit, the sequence's own designs serve the rest.
        with suppress(InfeasibleError):
            fitting.append(_on_cables(fitting[0][1], best))
    options = [option for option, _ in fitting]
    whole = workload.trace.legs().priced(options, fabric.cost_model)
    sizes = sorted(alltoall_sizes(workload), reverse=True)[:_MAX_THRESHOLDS]
    legs = (phased_legs(whole, alltoall, size) for size in sizes)
    return min((_planned(workload, fitting, phased) for phased in legs), key=_rank)
