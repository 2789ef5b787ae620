"""Outcomes of a co-design once more: the winner on the clock, and what it takes as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.workload.codesign.outcomes import BASE_POLICIES, passes_of
from ocs_codesign.workload.issue import run
from ocs_codesign.workload.job_graph import COMPUTE
from ocs_codesign.workload.period import steady
from ocs_codesign.workload.policies import best_of
from ocs_codesign.workload.prices import priced

if TYPE_CHECKING:
    from fractions import Fraction

    from ocs_codesign.workload.codesign.candidates import Candidate
    from ocs_codesign.workload.codesign.cluster import JobCluster
    from ocs_codesign.workload.codesign.exploring import Planner
    from ocs_codesign.workload.codesign.outcomes import JobOutcome
    from ocs_codesign.workload.codesign.planning import CodesignPlan
    from ocs_codesign.workload.issue import JobRun
    from ocs_codesign.workload.job_graph import JobGraph


def run_of(plan: CodesignPlan) -> JobRun:
    """The winner on the clock: several iterations, or one of passes alone where circuits change."""
    best, cluster = plan.best, plan.cluster
    graph = plan.trained.graph(best.candidate.parallel, cluster.accelerator)
    if best.candidate.late_ports:
        return run(passes_of(best.candidate, graph, cluster))
    ready = priced(graph, best.candidate.prices(cluster))
    if best.policy in BASE_POLICIES:
        return steady(ready, BASE_POLICIES[best.policy]).job_run
    return best_of(best.policy, ready).steady.job_run


def resimulated(
    planner: Planner, outcome: JobOutcome, *, ranks_alone: bool = False
) -> tuple[JobGraph, Fraction]:
    """The job of an outcome, and its period, simulated again as a whole.

    ``ranks_alone``: rank by rank instead of by classes. Where circuits change, the job of passes,
    and the time of both configurations on the clock, one after the other, with their dead times.
    """
    candidate, cluster = outcome.candidate, planner.cluster
    graph = planner.trained.graph(candidate.parallel, cluster.accelerator, ranks_alone=ranks_alone)
    if candidate.late_ports:
        passes = passes_of(candidate, graph, cluster)
        gradients = late_job(candidate, graph, cluster)
        return passes, run(passes).total_s + run(gradients).total_s + 2 * cluster.delta_s
    ready = priced(graph, candidate.prices(cluster))
    if outcome.policy in BASE_POLICIES:
        return ready, steady(ready, BASE_POLICIES[outcome.policy]).period_s
    return ready, best_of(outcome.policy, ready).steady.period_s


def late_job(candidate: Candidate, graph: JobGraph, cluster: JobCluster) -> JobGraph:
    """The gradients of a candidate whose circuits change, when passes are done.

    All else is computation that takes no time, so that no message of passes is in their way.
    """
    late, mine = priced(graph, candidate.late_prices(cluster)), graph.is_gradient
    return late.changed(
        kind=np.where(mine, late.kind, COMPUTE).astype(late.kind.dtype),
        group=np.where(mine, late.group, -1).astype(late.group.dtype),
        instance=np.where(mine, late.instance, -1).astype(late.instance.dtype),
        work=late.work * mine,
        latency=late.latency * mine,
    )
