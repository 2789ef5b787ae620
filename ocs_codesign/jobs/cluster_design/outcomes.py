"""What a candidate comes to on the clock: its iteration, and where the time of it goes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Protocol, final

import numpy as np

from ocs_codesign.jobs.issue import Discipline, IssueOrder, RanksStuckError, run, steady
from ocs_codesign.jobs.job_graph import COLLECTIVES, COMPUTE, FIRST_COLLECTIVE
from ocs_codesign.jobs.models.layer import DATA, like_parts
from ocs_codesign.jobs.policies import best_of
from ocs_codesign.jobs.prices import priced

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from ocs_codesign.jobs.cluster_design.candidates import Candidate
    from ocs_codesign.jobs.cluster_design.cluster import JobCluster
    from ocs_codesign.jobs.cluster_design.exploring import Planner
    from ocs_codesign.jobs.cluster_design.planning import CodesignPlan
    from ocs_codesign.jobs.fused import Accelerator
    from ocs_codesign.jobs.issue import JobRun, Steady
    from ocs_codesign.jobs.job_graph import JobGraph
    from ocs_codesign.jobs.models.building import Parallel
    from ocs_codesign.jobs.models.layer import Block, Exchange, ModelOnRanks


BASE_POLICIES = {
    "fifo": Discipline(IssueOrder.FIRST_READY),
    "priority": Discipline(),
    "preemptive": Discipline(preemptive=True),
}
"""What every candidate is simulated with where no policies are asked for.

Others are tried for the best then. Without one that interrupts, a large gradient in the channel of
a stage holds up all stages after it, and what looks slow is no fault of the circuits.
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
    candidate: Candidate,
    graph: JobGraph,
    cluster: JobCluster,
    bound_s: float,
    policies: tuple[str, ...] | None = None,
) -> JobOutcome:
    """The best of the base policies, of those among ``policies``, or of these if there are none.

    Raises RanksStuckError if ranks wait for ever under all of them.
    """
    if candidate.late_ports:
        return _changing(candidate, graph, cluster, bound_s)
    ready = priced(graph, candidate.prices(cluster))
    unrolled = cache(ready.unrolled)
    base = tuple(name for name in BASE_POLICIES if policies is None or name in policies)
    best: tuple[str, str, Steady] | None = None
    stuck = RanksStuckError("no policy was tried")
    for policy in base or policies or ():
        try:
            if policy in BASE_POLICIES:
                setting, found = "", steady(ready, BASE_POLICIES[policy], unrolled=unrolled)
            else:
                other = best_of(policy, ready)
                setting, found = other.setting, other.steady
                # policies that change what is computed when may be below what bounds the others
                bound_s = min(bound_s, float(other.bound_s))
        except RanksStuckError as error:
            stuck = error
            continue
        if best is None or found.period_s < best[2].period_s:
            best = policy, setting, found
    if best is None:
        raise stuck
    outcome = outcome_of(candidate, *best, bound_s)
    is_tuned = policies is not None and len(base) in (0, len(set(policies)))
    return replace(outcome, is_tuned=is_tuned)


def outcome_of(
    candidate: Candidate, policy: str, setting: str, found: Steady, bound_s: float
) -> JobOutcome:
    """The outcome of the steady state that was found of a job under a policy."""
    parts = _parts(found.job_run, found.num_iterations)
    return JobOutcome(
        *(candidate, policy, setting, found.period_s, bound_s, *parts), is_steady=found.is_steady
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


# Outcomes of a co-design once more: the winner on the clock, and what it takes as a whole.


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


# What stages compute and send in an iteration, and what no order of it is below.
#
# The bound of an iteration is the larger of two. A chain: the first microbatch comes down the
# pipeline, a stage passes all of them with the exchanges that their computation waits for, and
# the last one goes back up. And what the channel of a stage carries, without latencies, for
# gradients may be merged.
#
# Bounds are floats: sums of at most millions of terms that are not negative, each within a few
# units of the last place, so that together they are wrong by less than 1e-9 of themselves. The
# millionth that every bound is lowered by leaves room for that, and for ticks that messages are
# rounded to.


Asked = tuple[str, str, int]
"""A collective, its group and its M in bytes."""
_ROUNDING = 1 - 1e-6
_NANOSECONDS = 10**9


class BoundPrices(Protocol):
    """What messages take, latency and transfer apart, in floats."""

    def asked_s(self, collective: str, group: str, size_bytes: int) -> tuple[float, float]:
        """Seconds of a collective of a group."""
        ...

    def handed_s(self, stage: int, other: int, size_bytes: int) -> tuple[float, float]:
        """Seconds of a message from a stage to another one, next to it in the ring of them."""
        ...


@final
@dataclass(frozen=True, slots=True)
class StageTraffic:
    """What a rank computes in seconds and sends for a stage, or a chunk of one, and a microbatch.

    ``waited``: exchanges that computation waits for; ``leading``: those of them before the first
    block of a pass, which need not wait for what comes in; ``trailing``: those after the last block
    of a pass, each way. ``gathered``: what only takes the channel, such as parameters with ZeRO 3.
    ``gradients`` are those of an iteration, ``carried`` all that the channel carries in one.
    """

    compute_s: float
    waited: Mapping[Asked, int]
    leading: Mapping[Asked, int]
    trailing: tuple[Mapping[Asked, int], Mapping[Asked, int]]
    gathered: Mapping[Asked, int]
    gradients: Mapping[Asked, int]
    carried: Mapping[Asked, int]


@final
@dataclass(frozen=True, slots=True)
class Traffic:
    """That of all parts of a model, in order; parts that are alike are one object.

    There is one a stage, or several chunks: of p stages the first has the parts 0, p, 2p and so on.
    """

    parallel: Parallel
    parts: tuple[StageTraffic, ...]
    handed_bytes: int

    def asked(self) -> Counter[Asked]:
        """Every collective of an iteration with how often a rank of some stage takes part in it."""
        most: Counter[Asked] = Counter()
        for chunks in self._stages():
            whole: Counter[Asked] = Counter()
            for part in chunks:
                whole.update(part.carried)
            most |= whole
        return most

    def compute_bound_s(self) -> float:
        """Seconds of an iteration if no message took any time."""
        before, longest = 0.0, 0.0
        for chunks in self._stages():
            compute_s = sum(part.compute_s for part in chunks)
            longest = max(longest, before + self.parallel.microbatches * compute_s)
            before += chunks[0].compute_s
        return longest

    def bound_s(self, prices: BoundPrices) -> float:
        """Seconds that an iteration takes at least at these prices, under every policy."""
        known = {asked: prices.asked_s(*asked) for asked in self._kinds()}
        sends = self._sends_s(prices)
        whole = {asked: sum(parts) for asked, parts in known.items()}
        chain = self._chain_s(whole, [sum(send) for send in sends])
        work = {asked: parts[1] for asked, parts in known.items()}
        return max(chain, self._busiest_s(work, [send[1] for send in sends])) * _ROUNDING

    def communication_bound_s(self, prices: BoundPrices) -> float:
        """Seconds that the busiest channel of an iteration carries, latencies aside."""
        work = {asked: prices.asked_s(*asked)[1] for asked in self._kinds()}
        return self._busiest_s(work, [send[1] for send in self._sends_s(prices)]) * _ROUNDING

    def passes_bound_s(self, prices: BoundPrices) -> float:
        """The same of one iteration whose gradients are sent later: its chain alone."""
        waits: set[Asked] = set()
        for part in self._different():
            waits.update(part.waited, part.leading, *part.trailing)
        known = {asked: sum(prices.asked_s(*asked)) for asked in waits}
        return self._chain_s(known, [sum(send) for send in self._sends_s(prices)]) * _ROUNDING

    def late_bound_s(self, prices: BoundPrices) -> float:
        """Seconds of the gradients of the stage that has the most, one after the other."""
        kinds = {asked for part in self._different() for asked in part.gradients}
        known = {asked: sum(prices.asked_s(*asked)) for asked in kinds}
        return _ROUNDING * max(
            sum(_sum(part.gradients, known) for part in chunks) for chunks in self._stages()
        )

    def _stages(self) -> list[tuple[StageTraffic, ...]]:
        """The parts of every stage."""
        num_stages = self.parallel.pipeline
        return [self.parts[stage::num_stages] for stage in range(num_stages)]

    def _different(self) -> list[StageTraffic]:
        return list({id(part): part for part in self.parts}.values())

    def _kinds(self) -> set[Asked]:
        return {asked for part in self._different() for asked in part.carried}

    def _sends_s(self, prices: BoundPrices) -> list[tuple[float, float]]:
        """From every part to the next one; nothing is sent where one stage has all parts."""
        num_stages, size = self.parallel.pipeline, self.handed_bytes
        if num_stages == 1:
            return [(0.0, 0.0)] * (len(self.parts) - 1)
        return [
            prices.handed_s(at % num_stages, (at + 1) % num_stages, size)
            for at in range(len(self.parts) - 1)
        ]

    def _chain_s(self, seconds: Mapping[Asked, float], sends: list[float]) -> float:
        """The longest chain: down to a stage, all of its passes, and up again.

        Down and up are through the first chunks of the stages before it, in every order of passes.
        """
        microbatches = self.parallel.microbatches
        sums = {
            id(part): (
                part.compute_s + _sum(part.waited, seconds),
                _sum(part.leading, seconds),
                *(_sum(ends, seconds) for ends in part.trailing),
            )
            for part in self._different()
        }
        before, longest = 0.0, 0.0
        for at, (chunks, send) in enumerate(zip(self._stages(), [*sends, 0.0], strict=False)):
            passed, leading, forward, backward = sums[id(chunks[0])]
            # Forward a pass hands on what comes out of it, backward so does the next stage.
            before += backward if at else 0.0
            whole = microbatches * sum(sums[id(part)][0] for part in chunks)
            longest = max(longest, before + whole - leading)
            before += passed - leading + forward + 2 * send
        return longest

    def _busiest_s(self, work_s: Mapping[Asked, float], sends: list[float]) -> float:
        sums = {id(part): _sum(part.carried, work_s) for part in self._different()}
        both = zip([0.0, *sends], [*sends, 0.0], strict=True)
        carried = [
            sums[id(part)] + self.parallel.microbatches * (backward + forward)
            for part, (backward, forward) in zip(self.parts, both, strict=True)
        ]
        num_stages = self.parallel.pipeline
        return max(sum(carried[stage::num_stages]) for stage in range(num_stages))


def _sum(counted: Mapping[Asked, int], seconds: Mapping[Asked, float]) -> float:
    return sum(count * seconds[asked] for asked, count in counted.items())


def traffic_of(model: ModelOnRanks, parallel: Parallel, accelerator: Accelerator) -> Traffic:
    """What the stages of a model on ranks compute and send."""
    parts, which = like_parts(model.layers, parallel.pipeline * parallel.chunks)
    different = [_stage(blocks, accelerator, model, parallel) for blocks in parts]
    return Traffic(parallel, tuple(different[part] for part in which), model.handed_bytes)


def traffic_of_graph(graph: JobGraph, parallel: Parallel) -> Traffic:
    """That of a graph of one class in which all collectives are of the copies of data."""
    computes = graph.kind == COMPUTE
    compute_s = float(int(graph.work[computes].sum()) * graph.tick_s)
    gathered: Counter[Asked] = Counter()
    gradients: Counter[Asked] = Counter()
    for node in np.flatnonzero(graph.kind >= FIRST_COLLECTIVE).tolist():
        name = COLLECTIVES[graph.kind[node] - FIRST_COLLECTIVE]
        part = gradients if graph.is_gradient[node] else gathered
        part[name, DATA, int(graph.size_bytes[node])] += 1
    carried = gathered + gradients
    stage = StageTraffic(compute_s, {}, {}, ({}, {}), gathered, gradients, carried)
    return Traffic(parallel, (stage,), 0)


def _stage(
    blocks: tuple[Block, ...], accelerator: Accelerator, model: ModelOnRanks, parallel: Parallel
) -> StageTraffic:
    different = {id(block): block for block in blocks}
    counts = Counter(map(id, blocks))
    first, last = blocks[0], blocks[-1]
    waited: Counter[Asked] = Counter()
    gathered: Counter[Asked] = Counter()
    gradients: Counter[Asked] = Counter()
    nanoseconds = 0
    for key, count in counts.items():
        block = different[key]
        for times in (1, 2):  # forward and backward, rounded as in the graph
            work = times * block.operations, times * block.moved_bytes
            nanoseconds += count * accelerator.nanoseconds(*work)
        for part in (block.before, block.after, block.backward_before, block.backward_after):
            _add(waited, part, count)
        _add_parameters(block, count, model.element_bytes, parallel, gathered, gradients)
    carried = Counter(gradients)
    for each in (waited, gathered):
        for asked, count in each.items():
            carried[asked] += parallel.microbatches * count
    trailing = _add(Counter(), last.after, 1), _add(Counter(), first.backward_after, 1)
    for one in trailing:
        waited.subtract(one)
    leading = _add(_add(Counter(), first.before, 1), last.backward_before, 1)
    rest = +waited, leading, trailing, gathered, gradients, carried
    return StageTraffic(nanoseconds / _NANOSECONDS, *rest)


def _add(counted: Counter[Asked], exchanges: tuple[Exchange, ...], count: int) -> Counter[Asked]:
    for one in exchanges:
        counted[one.collective, one.group, one.size_bytes] += count
    return counted


def _add_parameters(
    block: Block,
    count: int,
    element_bytes: int,
    parallel: Parallel,
    gathered: Counter[Asked],
    gradients: Counter[Asked],
) -> None:
    """What synchronising the block's parameters asks for, in a microbatch and at the end."""
    size_bytes = block.num_parameters * element_bytes
    if not size_bytes or parallel.size(block.copies) == 1:
        return
    if parallel.zero == 3:
        gathered["allgather", block.copies, size_bytes] += 2 * count
        gathered["reduce-scatter", block.copies, size_bytes] += count
    elif parallel.zero:
        gradients["reduce-scatter", block.copies, size_bytes] += count
        gradients["allgather", block.copies, size_bytes] += count
    else:
        gradients["allreduce", block.copies, size_bytes] += count
