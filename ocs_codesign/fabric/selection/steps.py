"""Steps of a workload on designs: what each asks for, how circuits change, where time goes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.collective import Collective
from ocs_codesign.cost import Cost
from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.rewiring.stages import slowest_change
from ocs_codesign.fabric.rewiring.state import DARK, plane_state
from ocs_codesign.quantities import exact
from ocs_codesign.reconfigure.hold.dynamic_program import switch_plan
from ocs_codesign.reconfigure.hold.problem import SwitchProblem
from ocs_codesign.verification.plans import check_plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ocs_codesign.cost import CostModel
    from ocs_codesign.fabric.embed.embedding import Embedding
    from ocs_codesign.fabric.selection.workload import Workload
    from ocs_codesign.reconfigure.hold.options import FabricOption
    from ocs_codesign.reconfigure.hold.plan import SwitchPlan
    from ocs_codesign.reconfigure.phases.alltoall import PhasedAlltoall


@final
@dataclass(frozen=True, slots=True)
class Leg:
    """A collective, or one phase of it (from 1; 0 if whole), and its cost on every option.

    ``forest_parts`` are those of its forests there, see ``FabricOption.fastest``.
    """

    collective: Collective
    phase: int
    message_bytes: Fraction
    gap_s: Fraction
    costs: tuple[Cost | None, ...]
    forest_parts: tuple[tuple[int, ...], ...]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Legs:
    """A workload a leg at a time: step i is ``legs[rows[i]]`` of part ``part[i]`` (int64)."""

    legs: tuple[Leg, ...]
    rows: NDArray[np.int64]
    part: NDArray[np.int64]


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


def workload_legs(workload: Workload, options: Sequence[FabricOption], model: CostModel) -> Legs:
    """Every collective of a workload as one leg, by the fastest schedule of every option."""
    steps = workload.trace.steps()
    legs = []
    for demand in steps.demands:
        kind, size = demand.collective, demand.message_bytes
        fastest = (option.fastest(kind, model, size) for option in options)
        costs, parts = zip(*fastest, strict=True)
        legs.append(Leg(kind, 0, size, demand.gap_s, costs, parts))
    return Legs(tuple(legs), steps.rows, workload.part_of_steps())


def phased_legs(whole: Legs, phased: PhasedAlltoall, least_bytes: Fraction) -> Legs:
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
    return Legs(tuple(legs), rows, np.repeat(whole.part, many))


def _phases(leg: Leg, phased: PhasedAlltoall) -> list[Leg]:
    parts = []
    for at, (hops, duration) in enumerate(zip(phased.hops, phased.durations, strict=True)):
        costs: list[Cost | None] = [None] * len(leg.costs)
        costs[at] = Cost(hops, duration)
        gap = Fraction(0) if at else leg.gap_s
        none = ((),) * len(costs)
        parts.append(Leg(leg.collective, at + 1, leg.message_bytes, gap, tuple(costs), none))
    return parts


def legs_problem(legs: Legs, embeddings: Sequence[Embedding]) -> SwitchProblem:
    """Which option to hold for every leg, in seconds; ``embeddings`` share their cables."""
    never, model = float("inf"), embeddings[0].cabling.fabric.cost_model
    costs = np.full((len(legs.legs), len(embeddings)), never, dtype=object)
    for row, leg in enumerate(legs.legs):
        for at, cost in enumerate(leg.costs):
            if cost is not None:
                costs[row, at] = cost.time_s(model, leg.message_bytes)
    delta, first = _change_times(embeddings)
    gaps = [leg.gap_s for leg in legs.legs]
    return SwitchProblem(costs, delta, first=first, gaps=gaps, rows=legs.rows)


def _change_times(embeddings: Sequence[Embedding]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Dead times in seconds: from each configuration to each, and of making each from nothing.

    Only circuits that come count. Planes change side by side and the slowest decides, each with its
    slowest switch; without ``overlap`` all circuits are changed in one go, with the slowest of all.
    """
    fabric = embeddings[0].cabling.fabric
    states = np.stack([plane_state(each.planes, fabric.num_planes) for each in embeddings])
    nodes = states.shape[2]
    ends = 2 if embeddings[0].planes.port_model is PortModel.MATCHING else 1
    before = np.concatenate([states, np.full_like(states[:1], DARK)])
    comes = (before[:, None] != states[None]) & (states[None] != DARK)
    changed = comes.sum(axis=3) // ends  # from, to, plane
    costs = [
        slowest_change((switch.profile.change for switch in fabric.switches_of(plane)), nodes)
        for plane in range(fabric.num_planes)
    ]
    whole = slowest_change(costs, states[0].size)
    if not whole.overlap:
        changed, costs = changed.sum(axis=2, keepdims=True), [whole]
    times = np.empty(changed.shape[:2], dtype=object)
    for at in np.ndindex(times.shape):
        numbers = changed[at].tolist()
        times[at] = max(
            cost.dead_time_s(number) for cost, number in zip(costs, numbers, strict=True)
        )
    first = times[-1] if whole.cold_start else np.full(len(states), Fraction(0), dtype=object)
    return times[:-1], first


def best_plan(problem: SwitchProblem) -> SwitchPlan:
    """The optimal plan, its proof checked."""
    plan = switch_plan(problem)
    witness = check_plan(plan)
    if witness is not None:
        raise RuntimeError(f"the plan of the workload fails: {witness}")
    return plan


def part_times(plan: SwitchPlan, legs: Legs, model: CostModel) -> tuple[PartTime, ...]:
    """Where the time of a plan goes: a line for each part, phase and option, in order."""
    many = plan.problem.num_topologies
    alpha, bandwidth = exact(model.alpha_s), exact(model.node_bandwidth_Bps)
    key = (legs.part * len(legs.legs) + legs.rows) * many + plan.choice
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
        merged[place] = PartTime(
            part,
            leg.collective,
            leg.phase,
            option,
            cost,
            total,
            alpha * cost.steps * total,
            cost.t_b * leg.message_bytes / bandwidth * total,
            waits[kind] + (held.reconfiguration_s if held else 0),
            leg.forest_parts[option],
        )
    return tuple(merged[place] for place in sorted(merged))
