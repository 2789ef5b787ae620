"""Selection: which design, or plan that switches between designs, serves a workload fastest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.fabric.embed.embedding import embed
from ocs_codesign.fabric.infeasible import InfeasibleError
from ocs_codesign.fabric.selection_inside import InsideVerdict, phased_sequences
from ocs_codesign.fabric.selection_steps import (
    best_plan,
    change_times,
    legs_problem,
    part_times,
    phased_legs,
    workload_legs,
)
from ocs_codesign.fabric.workload import AllowedChanges
from ocs_codesign.reconfigure.hold.plan import price_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ocs_codesign.fabric.description import Fabric
    from ocs_codesign.fabric.embed.embedding import Embedding
    from ocs_codesign.fabric.selection_inside import PhasedSequence
    from ocs_codesign.fabric.selection_steps import Legs, PartTime
    from ocs_codesign.fabric.workload import Workload
    from ocs_codesign.reconfigure.hold.options import FabricOption
    from ocs_codesign.reconfigure.hold.plan import SwitchPlan

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

    kind: PlanKind
    options: tuple[FabricOption, ...]
    embeddings: tuple[Embedding, ...]
    times: tuple[PartTime, ...]
    num_changes: int
    hidden_s: Fraction

    @property
    def name(self) -> str:
        """The designs' names: ``A then B`` inside a collective, ``A + B`` between them."""
        return self.named(lambda option: option.name)

    def named(self, name_of: Callable[[FabricOption], str]) -> str:
        """The same with other names for the designs."""
        phases = sorted({(one.phase, one.option) for one in self.times if one.phase})
        inside = list(dict.fromkeys(option for _, option in phases))
        others = [at for at in range(len(self.options)) if at not in inside]
        sequence = " then ".join(name_of(self.options[at]) for at in inside)
        names = [name_of(self.options[at]) for at in others]
        return " + ".join([sequence, *names] if sequence else names)

    @property
    def alpha_s(self) -> Fraction:
        """Time of the steps."""
        return sum((one.alpha_s for one in self.times), Fraction(0))

    @property
    def bandwidth_s(self) -> Fraction:
        """Time of the bytes."""
        return sum((one.bandwidth_s for one in self.times), Fraction(0))

    @property
    def reconfiguration_s(self) -> Fraction:
        """Time in which all wait for circuits."""
        return sum((one.reconfiguration_s for one in self.times), Fraction(0))

    @property
    def total_s(self) -> Fraction:
        """Time of the whole workload without its gaps."""
        return self.alpha_s + self.bandwidth_s + self.reconfiguration_s


@final
@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """Plans for a workload, the fastest first, and what was left out.

    ``inside`` says what changes inside an all-to-all could gain, where they are allowed.
    """

    fabric: Fabric
    workload: Workload
    ranked: tuple[RankedPlan, ...]
    excluded: tuple[Excluded, ...]
    inside: InsideVerdict | None


def select(
    fabric: Fabric,
    workload: Workload,
    options: Sequence[FabricOption],
    *,
    on_phase: Callable[[str], None] | None = None,
) -> Selection:
    """Rank designs, and plans that change between them, by the exact time that a workload takes.

    Every option is embedded and left out, with the bound that fails, if it does not fit. Switching
    plans hold designs that share their cables: the optimum over all of them and over every pair of
    the fastest. Where changes inside are allowed, sequences of configurations for all-to-all are
    tried unless a bound shows that they cannot gain. Raises ValueError for options without a
    topology or of other sizes, and for a collective that an option cannot serve.
    """
    _check_options(fabric, workload, options)
    tell = on_phase or (lambda _: None)
    tell("Embedding designs")
    fitting: list[tuple[FabricOption, Embedding]] = []
    excluded: list[Excluded] = []
    for option in options:
        try:
            fitting.append((option, _embedded(fabric, option)))
        except InfeasibleError as error:
            excluded.append(_refused(option.name, error))
    plans = [_single(workload, option, embedding) for option, embedding in fitting]
    plans.sort(key=_rank)
    inside = None
    if plans and workload.allowed is not AllowedChanges.NONE:
        tell("Planning changes of circuits")
        for group in _sharing_cables(tuple(plans)):
            plans += _switching(workload, group)
    if plans and workload.allowed is AllowedChanges.INSIDE:
        best = plans[0]
        inside = phased_sequences(workload, fitting, tell)
        for sequence in inside.sequences:
            plans += _phased(fabric, workload, sequence, best, excluded)
    return Selection(fabric, workload, tuple(sorted(plans, key=_rank)), tuple(excluded), inside)


def _check_options(fabric: Fabric, workload: Workload, options: Sequence[FabricOption]) -> None:
    if not options:
        raise ValueError("there is no design to choose from: at least one is needed")
    for option in options:
        if option.topology is None:
            raise ValueError(f"{option.name} has no topology: only circuits can be put on a fabric")
        if option.topology.num_nodes != fabric.num_working_hosts:
            raise ValueError(
                f"{option.name} has {option.topology.num_nodes} nodes: the fabric has "
                f"{fabric.num_working_hosts} working hosts"
            )
        for collective in workload.trace.collectives:
            if option.cost(collective) is None:
                raise ValueError(f"{option.name} has no cost of {collective.name}")


def _embedded(fabric: Fabric, option: FabricOption, base: Embedding | None = None) -> Embedding:
    if option.topology is None:
        raise ValueError(f"{option.name} has no topology: only circuits can be put on a fabric")
    cabling = None if base is None else base.cabling
    return embed(fabric, option.topology, cabling=cabling, name=option.name)


def _refused(name: str, error: InfeasibleError, before: str = "") -> Excluded:
    return Excluded(name, error.reason.value, f"{before}{error}")


def _rank(plan: RankedPlan) -> tuple[Fraction, int, int]:
    return plan.total_s, plan.num_changes, len(plan.options)


def _planned(
    workload: Workload,
    options: Sequence[FabricOption],
    embeddings: Sequence[Embedding],
    kind: PlanKind,
    legs: Legs | None = None,
) -> RankedPlan:
    """The optimal plan over these designs; those that it never holds are left out."""
    legs = workload_legs(workload, options) if legs is None else legs
    model = embeddings[0].cabling.fabric.cost_model
    problem = legs_problem(legs, model, change_times(embeddings))
    one = len(options) == 1
    plan = price_plan(problem, np.zeros(problem.num_steps, int)) if one else best_plan(problem)
    return _ranked(kind, options, embeddings, plan, legs)


def _ranked(
    kind: PlanKind,
    options: Sequence[FabricOption],
    embeddings: Sequence[Embedding],
    plan: SwitchPlan,
    legs: Legs,
) -> RankedPlan:
    model = embeddings[0].cabling.fabric.cost_model
    times = part_times(plan, legs, model)
    held = sorted({one.option for one in times})
    ranked = RankedPlan(
        kind,
        tuple(options[at] for at in held),
        tuple(embeddings[at] for at in held),
        tuple(replace(one, option=held.index(one.option)) for one in times),
        plan.num_switches,
        plan.hidden,
    )
    if ranked.total_s != plan.total:
        raise RuntimeError(f"the parts of {ranked.name} do not add up to its total")
    return ranked


def _single(workload: Workload, option: FabricOption, embedding: Embedding) -> RankedPlan:
    return _planned(workload, [option], [embedding], PlanKind.SINGLE)


def _sharing_cables(plans: Sequence[RankedPlan]) -> Iterator[list[tuple[FabricOption, Embedding]]]:
    """Sets of designs that fit on the cables of the first of each; every design is in one."""
    covered: set[int] = set()
    for leader, plan in enumerate(plans):
        if leader in covered:
            continue
        base = plan.embeddings[0]
        group = [(plan.options[0], base)]
        covered.add(leader)
        for at, other in enumerate(plans):
            if at == leader:
                continue
            try:
                on_base = _on_cables(base, other.options[0], other.embeddings[0])
            except InfeasibleError:
                continue
            group.append((other.options[0], on_base))
            covered.add(at)
        yield group


def _on_cables(base: Embedding, option: FabricOption, own: Embedding) -> Embedding:
    """A design on the cables of another one; as it was embedded if it has the same cables."""
    one, other = base.cabling, own.cabling
    same = all(
        np.array_equal(getattr(one, cables), getattr(other, cables))
        for cables in ("a_switch", "a_port", "b_switch", "b_port", "trunks")
    )
    return own if same else _embedded(one.fabric, option, base)


def _switching(
    workload: Workload, group: Sequence[tuple[FabricOption, Embedding]]
) -> Iterator[RankedPlan]:
    """The optimum over all and over pairs of the fastest, where it changes at all."""
    sets = [tuple(range(len(group)))] if len(group) > 2 else []
    pairs = list(combinations(range(min(len(group), _MAX_IN_PAIRS)), 2))
    if len(pairs) * workload.trace.num_jobs <= _MAX_PAIR_STATES or not sets:
        sets += pairs
    known: set[tuple[str, ...]] = set()
    for members in sets:
        options = [group[at][0] for at in members]
        plan = _planned(workload, options, [group[at][1] for at in members], PlanKind.SWITCHING)
        names = tuple(option.name for option in plan.options)
        if plan.num_changes and names not in known:
            known.add(names)
            yield plan


def _phased(
    fabric: Fabric,
    workload: Workload,
    sequence: PhasedSequence,
    best: RankedPlan,
    excluded: list[Excluded],
) -> list[RankedPlan]:
    """A sequence for the largest all-to-alls, with the best single design for all else."""
    options = [*sequence.options]
    names = " then ".join(option.name for option in options)
    try:
        embeddings = [_embedded(fabric, options[0])]
        for one in options[1:]:
            embeddings.append(_on_cables(embeddings[0], one, _embedded(fabric, one)))
    except InfeasibleError as error:
        excluded.append(_refused(names, error, "on one cabling: "))
        return []
    if best.options[0] not in options:
        try:
            embeddings.append(_on_cables(embeddings[0], best.options[0], best.embeddings[0]))
            options.append(best.options[0])
        except InfeasibleError:
            pass  # the sequence's own designs serve the rest
    whole = workload_legs(workload, options)
    sizes = sorted(sequence.message_sizes(workload), reverse=True)[:_MAX_THRESHOLDS]
    found = [
        _planned(
            workload, options, embeddings, PlanKind.PHASED, phased_legs(whole, sequence.found, size)
        )
        for size in sizes
    ]
    return sorted(found, key=_rank)[:1]
