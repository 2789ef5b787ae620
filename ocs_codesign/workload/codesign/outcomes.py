"""What a candidate comes to on the clock: its iteration, and where the time of it goes."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.workload.issue import Discipline, IssueOrder, RanksStuckError, run
from ocs_codesign.workload.job_graph import COMPUTE
from ocs_codesign.workload.period import steady
from ocs_codesign.workload.prices import priced

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from ocs_codesign.workload.codesign.candidates import Candidate
    from ocs_codesign.workload.codesign.cluster import JobCluster
    from ocs_codesign.workload.issue import JobRun
    from ocs_codesign.workload.job_graph import JobGraph
    from ocs_codesign.workload.period import Steady

BASE_POLICIES = {
    "fifo": Discipline(IssueOrder.FIRST_READY),
    "priority": Discipline(),
    "preemptive": Discipline(preemptive=True),
}
"""What every candidate is simulated with, before other policies are tried for the best.

Without one that interrupts, a large gradient in the channel of a stage holds up all stages after
it, and what looks slow is no fault of the circuits.
"""
LATE = "after passes"
"""The policy where circuits change: gradients when all passes are done."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class JobOutcome:
    """A candidate on the clock under a policy; ``bound_s`` is what no policy of it is below.

    Of an iteration an accelerator computes ``compute_s`` in the mean; ``exposed_s`` are seconds, by
    label, in which messages run while it computes nothing. ``is_tuned``: all policies were tried.
    Where circuits change, gradients are sent when all passes are done, between two dead times of
    ``dark_s`` together.
    """

    candidate: Candidate
    policy: str
    setting: str
    period_s: Fraction
    bound_s: float
    compute_s: Fraction
    exposed_s: Mapping[str, Fraction]
    is_steady: bool = True
    is_tuned: bool = False
    dark_s: Fraction = Fraction(0)

    @property
    def idle_s(self) -> Fraction:
        """Seconds of an iteration that an accelerator waits for others: the bubble."""
        busy = self.compute_s + sum(self.exposed_s.values(), Fraction(0)) + self.dark_s
        return max(Fraction(0), self.period_s - busy)


def simulated(
    candidate: Candidate, graph: JobGraph, cluster: JobCluster, bound_s: float
) -> JobOutcome:
    """The better of the base policies; RanksStuckError if ranks wait for ever under both."""
    if candidate.late_ports:
        return _changing(candidate, graph, cluster, bound_s)
    ready = priced(graph, candidate.prices(cluster))
    unrolled = cache(ready.unrolled)
    best: tuple[str, Steady] | None = None
    stuck = RanksStuckError("no policy was tried")
    for policy, discipline in BASE_POLICIES.items():
        try:
            found = steady(ready, discipline, unrolled=unrolled)
        except RanksStuckError as error:
            stuck = error
            continue
        if best is None or found.period_s < best[1].period_s:
            best = policy, found
    if best is None:
        raise stuck
    return outcome_of(candidate, best[0], "", best[1], bound_s)


def outcome_of(
    candidate: Candidate,
    policy: str,
    setting: str,
    found: Steady,
    bound_s: float,
) -> JobOutcome:
    """The outcome of the steady state that was found of a job under a policy."""
    parts = _parts(found.job_run, found.num_iterations)
    return JobOutcome(
        *(candidate, policy, setting, found.period_s, bound_s, *parts),
        is_steady=found.is_steady,
    )


def _changing(
    candidate: Candidate, graph: JobGraph, cluster: JobCluster, bound_s: float
) -> JobOutcome:
    """Passes on one configuration, a change, gradients on the other, and a change back."""
    done, late_s = run(passes_of(candidate, graph, cluster)), late_of(candidate, graph, cluster)
    dark_s = 2 * cluster.delta_s
    compute_s, exposed_s = _parts(done, 1)
    exposed_s["gradients"] = exposed_s.get("gradients", Fraction(0)) + late_s
    period_s = done.total_s + late_s + dark_s
    return JobOutcome(
        *(candidate, LATE, "", period_s, bound_s, compute_s, exposed_s), dark_s=dark_s
    )


def passes_of(candidate: Candidate, graph: JobGraph, cluster: JobCluster) -> JobGraph:
    """The job of a candidate whose circuits change, with its gradients left out of the passes."""
    early, keeps = priced(graph, candidate.prices(cluster)), ~graph.is_gradient
    return early.changed(work=early.work * keeps, latency=early.latency * keeps)


def late_of(candidate: Candidate, graph: JobGraph, cluster: JobCluster) -> Fraction:
    """Seconds of the gradients of the owner that has the most, one after the other."""
    late, mine = priced(graph, candidate.late_prices(cluster)), graph.is_gradient
    sums = np.zeros(graph.num_owners, dtype=np.int64)
    np.add.at(sums, graph.owner[mine], late.ticks[mine])
    return int(sums.max(initial=0)) * late.tick_s


def _parts(done: JobRun, num_iterations: int) -> tuple[Fraction, dict[str, Fraction]]:
    """Seconds of an iteration that an accelerator computes, and that messages are exposed.

    In the mean of the later half of the iterations, from the end of one to the end of the last.
    """
    graph = done.graph
    window, counted = (0, done.total_ticks), 1
    if num_iterations > 1:
        ends = done.end.reshape(num_iterations, -1)
        computes = (graph.kind == COMPUTE).reshape(num_iterations, -1)[0]
        last = ends[:, computes].max(axis=1)
        half = num_iterations // 2
        window, counted = (int(last[half - 1]), int(last[-1])), num_iterations - half
    tick_s = graph.tick_s / (counted * int(graph.ranks.sum()))
    computed, exposed = _in_window(done, *window)
    return computed * tick_s, {label: ticks * tick_s for label, ticks in exposed.items() if ticks}


def _in_window(done: JobRun, first: int, last: int) -> tuple[int, dict[str, int]]:
    """Ticks over all ranks of a window: computed, and in which messages of a label run beside none.

    Of messages that an owner has in flight at once the one that began first counts.
    """
    graph = done.graph
    owner, node, begin, end = done.channel_pieces()
    order = np.lexsort((begin, owner))
    owner, node, begin, end = owner[order], node[order], begin[order], end[order]
    computes = np.flatnonzero(graph.kind == COMPUTE)
    computes = computes[np.lexsort((done.start[computes], graph.owner[computes]))]
    sums = np.zeros(len(graph.labels), dtype=np.int64)
    total = 0
    for one, ranks in enumerate(graph.ranks.tolist()):
        mine = computes[graph.owner[computes] == one]
        spans = [np.clip(times[mine], first, last) for times in (done.start, done.end)]
        total += ranks * int((spans[1] - spans[0]).sum())
        pieces = owner == one
        begins, ends = (np.clip(times[pieces], first, last) for times in (begin, end))
        if not len(begins):
            continue
        ends = np.maximum.accumulate(ends)
        begins = np.maximum(begins, np.concatenate([[first], ends[:-1]]))
        alone = ends - begins
        if len(mine):
            alone -= _until(spans[0], spans[1], ends) - _until(spans[0], spans[1], begins)
        np.add.at(sums, graph.label[node[pieces]], ranks * alone)
    return total, {graph.labels[at]: int(sums[at]) for at in np.flatnonzero(sums).tolist()}


def _until(
    start: NDArray[np.int64], end: NDArray[np.int64], times: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Ticks computed until each time, by intervals one after the other."""
    before = np.concatenate([[0], np.cumsum(end - start)])
    last = np.searchsorted(start, times, side="right") - 1
    inside = np.minimum(times, end[last]) - start[last]
    sums: NDArray[np.int64] = np.where(last < 0, 0, before[last] + inside)
    return sums


def fastest(outcomes: Sequence[JobOutcome]) -> list[JobOutcome]:
    """The outcomes, the fastest first, equals in the order of their candidates."""
    return sorted(outcomes, key=lambda one: (one.period_s, one.candidate.order()))
