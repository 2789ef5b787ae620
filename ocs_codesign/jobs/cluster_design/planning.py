"""Co-design of a job and a cluster: the ranking, baselines beside it, what would change it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, final

from ocs_codesign.core.progress import counted, tell_phase
from ocs_codesign.core.shown import Brief
from ocs_codesign.jobs.cluster_design.candidates import CODESIGNED, Joining, across, chosen, held
from ocs_codesign.jobs.cluster_design.cluster import divisions, memory_bytes, pure_data
from ocs_codesign.jobs.cluster_design.exploring import (
    MAX_SIMULATED,
    DesignBook,
    Explored,
    Planner,
    explored,
)
from ocs_codesign.jobs.cluster_design.group_loads import placements
from ocs_codesign.jobs.cluster_design.outcomes import BASE_POLICIES, JobOutcome, fastest, outcome_of
from ocs_codesign.jobs.issue import Discipline, IssueOrder, RanksStuckError, steady
from ocs_codesign.jobs.policies import POLICIES, best_of
from ocs_codesign.jobs.prices import priced
from ocs_codesign.jobs.rewriting import buckets_of_work, gradients, merged

if TYPE_CHECKING:
    from collections.abc import Callable

    from ocs_codesign.jobs.cluster_design.candidates import Candidate
    from ocs_codesign.jobs.cluster_design.cluster import Divisions, JobCluster, TrainedModel
    from ocs_codesign.jobs.cluster_design.outcomes import Traffic
    from ocs_codesign.jobs.models.building import Parallel


TUNED_NODES, TUNED_NODES_OF_BASELINES = 3_000, 1_200
"""Nodes of jobs that are tried under every policy, of the ranking and of each baseline."""
MAX_TUNED_NODES = 6_000
"""Nodes of an iteration up to which every policy is tried."""
BUCKET_BYTES = 25 * 2**20
"""What PyTorch's DDP merges gradients to by default (bucket_cap_mb of its documentation)."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class UsualChoice:
    """What a usual choice comes to; None with the reason in ``note`` if it cannot be.

    ``fits``: the memory of an accelerator holds it; else the time is that of enough memory.
    """

    name: str
    outcome: JobOutcome | None
    note: str = ""
    fits: bool = True


@final
@dataclass(frozen=True, slots=True)
class Bounds:
    """What an iteration takes at least in seconds if only one of both took any time."""

    compute_s: float
    communication_s: float

    @classmethod
    def of(cls, planner: Planner, candidate: Candidate) -> Bounds:
        """Those of a candidate."""
        traffic, cluster = planner.traffic(candidate.parallel), planner.cluster
        sent = traffic.communication_bound_s(candidate.prices(cluster))
        if candidate.late_ports:
            sent += traffic.late_bound_s(candidate.late_prices(cluster))
        return cls(traffic.compute_bound_s(), sent)


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CodesignPlan(Brief):
    """The ranking of a job on a cluster, the fastest first, and what stands beside it.

    ``if_changed`` is the winner's iteration if something were twice as fast, by what that is, None
    where its ranks would wait for each other for ever.
    ``break_even_s`` is the dead time below which circuits that change would win, None if none would
    be short enough, or if they win.
    """

    trained: TrainedModel
    cluster: JobCluster
    divisions: Divisions
    explored: Explored
    ranked: tuple[JobOutcome, ...]
    bounds: tuple[Bounds, ...]
    baselines: tuple[UsualChoice, ...]
    if_changed: dict[str, Fraction | None]
    break_even_s: Fraction | None
    unsearched: tuple[tuple[int, int], ...]
    policies: tuple[str, ...] | None

    @property
    def best(self) -> JobOutcome:
        """The winner."""
        return self.ranked[0]

    @property
    def best_traffic(self) -> Traffic:
        """What the winner computes and sends."""
        return Planner(self.trained, self.cluster, DesignBook()).traffic(
            self.best.candidate.parallel
        )

    @property
    def num_unproven(self) -> int:
        """Simulated candidates that some policy which was not tried might put before the winner."""
        best_s = float(self.best.period_s)
        return sum(one.bound_s < best_s for one in self.ranked if not one.is_tuned)


def codesign(
    trained: TrainedModel,
    cluster: JobCluster,
    policies: tuple[str, ...] | None = None,
    *,
    max_simulated: int = MAX_SIMULATED,
) -> CodesignPlan:
    """The fastest ways to run a job on a cluster, with baselines.

    Candidates are simulated under ``policies``, by default the base ones and the best of them under
    all of the registry. Raises ValueError if no division fits the cluster.
    """
    book = DesignBook()
    planner = Planner(trained, cluster, book, policies)
    divided = divisions(trained, cluster)
    if not divided.fitting:
        raise ValueError(
            f"{trained.name} does not fit {cluster.name}: of its divisions {divided.num_too_large} "
            f"need more memory than {cluster.memory_bytes} bytes, {divided.num_too_long} are too "
            "long to simulate"
        )
    found = explored(planner, divided.fitting, max_simulated=max_simulated)
    if not found.outcomes:
        raise ValueError(
            f"no division of {trained.name} lies evenly on servers of "
            f"{cluster.accelerators_a_server} accelerators of {cluster.name}"
        )
    usual = baselines(planner, divided, max_simulated)
    ranked = with_usual(tuned_ranking(planner, found, TUNED_NODES), usual)
    best = ranked[0]
    return CodesignPlan(
        *(trained, cluster, divided, found, tuple(ranked)),
        tuple(Bounds.of(planner, one.candidate) for one in ranked),
        usual,
        if_twice_as_fast(planner, best),
        break_even_s(planner, divided, best),
        tuple(sorted(book.unsearched)),
        policies,
    )


def tuned_ranking(planner: Planner, found: Explored, most_nodes: int) -> list[JobOutcome]:
    """All outcomes, the fastest first, those that may win by a policy under the best of all.

    As many as have so many nodes together, the fastest first, and one in any case.
    """
    best_s, nodes = float("inf"), 0
    answer = []
    for outcome in found.outcomes:
        size = planner.graph(outcome.candidate.parallel).num_nodes
        if outcome.bound_s < best_s and (not nodes or nodes + size <= most_nodes):
            nodes += size
            outcome = tuned(planner, outcome)
            best_s = min(best_s, float(outcome.period_s))
        answer.append(outcome)
    return fastest(answer)


def with_usual(ranked: list[JobOutcome], usual: tuple[UsualChoice, ...]) -> list[JobOutcome]:
    """The ranking with torus and ring in it where they are faster than all of it.

    They are circuits as well, which a search that its limits end early may not have come to.
    """
    found = (one.outcome for one in usual)
    faster = [
        one
        for one in found
        if one is not None
        and one.candidate.joining in (Joining.TORUS, Joining.RING)
        and one.period_s < ranked[0].period_s
    ]
    return fastest([*ranked, *faster])


def tuned(planner: Planner, outcome: JobOutcome) -> JobOutcome:
    """The outcome under the best of the policies that are asked for, itself if none is better."""
    candidate = outcome.candidate
    graph = planner.graph(candidate.parallel)
    if outcome.is_tuned or candidate.late_ports or graph.num_nodes > MAX_TUNED_NODES:
        return outcome
    ready = priced(graph, candidate.prices(planner.cluster))
    best = outcome
    policies = tuple(POLICIES) if planner.policies is None else planner.policies
    for policy in counted(policies, "Trying policies"):
        if policy in BASE_POLICIES:
            continue
        try:
            found = best_of(policy, ready)
        except RanksStuckError:
            continue
        if found.steady.period_s < best.period_s:
            bound_s = min(outcome.bound_s, float(found.bound_s))  # as in ``simulated``
            best = outcome_of(candidate, policy, found.setting, found.steady, bound_s)
    return replace(best, is_tuned=True)


def baselines(planner: Planner, divided: Divisions, max_simulated: int) -> tuple[UsualChoice, ...]:
    """Torus, ring, fat tree of equal cost, pure data parallelism, and the file's own division.

    One that cannot be worked out has the reason instead.
    """
    usual: dict[str, Callable[[str], UsualChoice]] = {
        joining.value: partial(_joined, planner, divided, joining, max_simulated)
        for joining in (Joining.TORUS, Joining.RING, Joining.FAT_TREE)
    }
    usual["DDP"] = partial(_data_alone, planner)
    if planner.trained.given is not None:
        usual["own division"] = partial(_as_given, planner, planner.trained.given)
    found = []
    for name, choose in usual.items():
        tell_phase(f"Baseline: {name}")
        try:
            found.append(choose(name))
        except ValueError as error:
            found.append(UsualChoice(name, None, str(error)))
    return tuple(found)


def _joined(
    planner: Planner, divided: Divisions, joining: Joining, max_simulated: int, name: str
) -> UsualChoice:
    found = explored(planner, divided.fitting, (joining,), max_simulated)
    if not found.outcomes:
        note = f"no division has servers that make a {name} of these ports"
        return UsualChoice(name, None, note)
    return UsualChoice(name, tuned_ranking(planner, found, TUNED_NODES_OF_BASELINES)[0])


def _data_alone(planner: Planner, name: str) -> UsualChoice:
    """What DDP does: copies of the whole model, gradients merged to buckets of 25 MiB."""
    trained, cluster = planner.trained, planner.cluster
    parallel = pure_data(trained, cluster)
    needed = memory_bytes(trained.model, parallel)
    fits, note = needed <= cluster.memory_bytes, ""
    if not fits:
        note = (
            f"does not fit: {parallel.data} copies need {needed / 1e9:.4g} GB each, an accelerator "
            f"has {cluster.memory_bytes / 1e9:.4g} GB; the time is that of enough memory"
        )
    outcomes = [in_buckets(planner, candidate) for candidate in _own_circuits(planner, parallel)]
    if not outcomes:
        return UsualChoice(name, None, f"{parallel.data} copies do not lie evenly on servers")
    return UsualChoice(name, fastest(outcomes)[0], note, fits)


def in_buckets(planner: Planner, candidate: Candidate) -> JobOutcome:
    """A candidate whose gradients are merged to buckets as DDP does it, sent as they are ready."""
    graph = planner.graph(candidate.parallel)
    ready = priced(graph, candidate.prices(planner.cluster))
    mine = gradients(ready) & (ready.size_bytes > 0)
    job = ready
    if mine.any():
        largest = max(mine.nonzero()[0].tolist(), key=lambda node: int(ready.size_bytes[node]))
        most = BUCKET_BYTES * int(ready.work[largest]) // int(ready.size_bytes[largest])
        job = merged(ready, buckets_of_work(ready, max(1, most)))
    found = steady(job, Discipline(IssueOrder.FIRST_READY))
    bound_s = planner.bound_s(candidate)
    return outcome_of(candidate, "ddp", "buckets of 25 MiB", found, bound_s)


def _own_circuits(planner: Planner, parallel: Parallel) -> list[Candidate]:
    cluster, traffic = planner.cluster, planner.traffic(parallel)
    ideal = (
        candidate
        for placement in placements(parallel, cluster.accelerators_a_server)
        if placement.num_servers <= cluster.num_servers
        for ways in (held, across)
        for candidate in ways(parallel, placement, cluster)
    )
    made = (chosen(one, traffic, cluster, planner.book) for one in ideal)
    return [one for one in made if one is not None]


def _as_given(planner: Planner, parallel: Parallel, name: str) -> UsualChoice:
    """The division that the job's file has, on the best circuits for it."""
    trained, cluster = planner.trained, planner.cluster
    if parallel.num_ranks > cluster.num_accelerators:
        note = f"it is for {parallel.num_ranks} ranks, of which there are too few"
        return UsualChoice(name, None, note)
    found = explored(planner, (parallel,), CODESIGNED)
    if not found.outcomes:
        return UsualChoice(name, None, "it does not lie evenly on the servers")
    needed = memory_bytes(trained.model, parallel)
    fits = needed <= cluster.memory_bytes
    note = "" if fits else f"does not fit: it needs {needed / 1e9:.4g} GB an accelerator"
    best = tuned_ranking(planner, found, TUNED_NODES_OF_BASELINES)[0]
    return UsualChoice(name, best, note, fits)


def if_twice_as_fast(planner: Planner, best: JobOutcome) -> dict[str, Fraction | None]:
    """The winner's iteration if ports, the inside of servers, or processors were twice as fast."""
    cluster = planner.cluster
    faster = {"ports": replace(cluster, port_Bps=2 * cluster.port_Bps)}
    if cluster.scale_up is not None:
        faster["servers inside"] = replace(cluster, scale_up=cluster.scale_up.faster(2))
    chip = cluster.accelerator
    quick = replace(chip, peak_flops=2 * chip.peak_flops, memory_Bps=2 * chip.memory_Bps)
    faster["accelerators"] = replace(cluster, accelerator=quick)
    policies = planner.policies or (*BASE_POLICIES, best.policy)
    found: dict[str, Fraction | None] = {}
    for name, changed in faster.items():
        other = Planner(planner.trained, changed, planner.book, policies)
        outcome = other.simulated(best.candidate, 0.0)
        found[name] = None if outcome is None else tuned(other, outcome).period_s
    return found


def break_even_s(planner: Planner, divided: Divisions, best: JobOutcome) -> Fraction | None:
    """The dead time below which circuits that change would be faster than the winner."""
    if best.candidate.joining is Joining.CHANGING:
        return None
    tell_phase("Circuits that change at once")
    at_once = replace(planner.cluster, delta_s=Fraction(0))
    other = replace(planner, cluster=at_once)  # nothing that it knows depends on dead times
    found = explored(*(other, divided.fitting, (Joining.CHANGING,)), below_s=float(best.period_s))
    return (best.period_s - found.outcomes[0].period_s) / 2 if found.outcomes else None
