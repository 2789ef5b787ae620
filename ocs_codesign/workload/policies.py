"""Policies of communication: which gradient is sent when, whole, in slices, merged or in halves."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.quantities import exact_time, format_time
from ocs_codesign.workload.buckets import buckets_of_work, cheapest_buckets
from ocs_codesign.workload.issue import Discipline, IssueOrder, RanksStuckError
from ocs_codesign.workload.job_graph import JobGraph
from ocs_codesign.workload.levels import by_levels
from ocs_codesign.workload.period import Steady, needed_at, period_bound_s, ready_at, steady
from ocs_codesign.workload.rewriting import ALLTOALL, cut, decoupled, gradients, merged
from ocs_codesign.workload.splitting import backwards, interleaved, out_of_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from ocs_codesign.workload.prices import Machine

_SHARES = (1, 2, 4, 8, 16, 32)
_WINDOWS = (1, 2, 4)
_CHUNKS = (1, 2, 4, 8)
_MAX_SLICES = 200_000


@final
@dataclass(frozen=True, slots=True)
class Variant:
    """A job as a policy sends it: the graph, the discipline, and its settings in words."""

    graph: JobGraph
    discipline: Discipline
    setting: str = ""


@final
@dataclass(frozen=True, slots=True)
class Asked:
    """What policies are given: seconds of a slice, None to choose them, and the job's machine."""

    slice_s: Fraction | None = None
    machine: Machine | None = None


@final
@dataclass(frozen=True, slots=True)
class Policy:
    """A policy: what it does in a sentence, who published it, and the variants it chooses from.

    ``variants`` takes a job and what is asked, ``freed`` gives the jobs whose bounds hold for all
    of them: the job itself, unless computation or the work of messages changes.
    """

    text: str
    source: str
    variants: Callable[[JobGraph, Asked], Iterator[Variant]]
    freed: Callable[[JobGraph, Asked], Iterable[JobGraph]] = lambda graph, _: (graph,)


@final
@dataclass(frozen=True, slots=True)
class PolicyOutcome:
    """What a policy comes to: its best variant, the period of it, and the bound of them all."""

    name: str
    setting: str
    steady: Steady
    bound_s: Fraction


def compare_policies(
    graph: JobGraph,
    names: tuple[str, ...] | None = None,
    slice_s: Fraction | float | None = None,
    machine: Machine | None = None,
) -> list[PolicyOutcome]:
    """The period of a job under every policy, or those of ``names``, in the order of POLICIES.

    Those that cut choose the best slices, or use ``slice_s`` if it is given; those that divide
    groups do it by the levels of the ``machine`` that messages were priced on. A policy under which
    ranks would wait for each other for ever is left out. Raises ValueError for an unknown policy,
    and if none is left.

    >>> from ocs_codesign.workload.layer_times import LayerTimes
    >>> job = LayerTimes([10] * 4, [20] * 4, [25] * 4).graph()
    >>> {one.name: str(one.steady.period_s) for one in compare_policies(job, ("fifo", "dear"))}
    {'fifo': '160', 'dear': '305/2'}
    """
    for name in names or ():
        if name not in POLICIES:
            raise ValueError(f"{name!r} is no policy: they are {', '.join(POLICIES)}")
    size = None if slice_s is None else exact_time(slice_s, "slice_s")
    if size == 0:
        raise ValueError("slice_s is 0: a slice takes some time")
    outcomes, refusals = [], []
    for name in POLICIES:
        if names is None or name in names:
            try:
                outcomes.append(best_of(name, graph, size, machine))
            except RanksStuckError as error:
                refusals.append(error)
    if not outcomes:
        raise refusals[0]
    return outcomes


def best_of(
    name: str,
    graph: JobGraph,
    slice_s: Fraction | None = None,
    machine: Machine | None = None,
) -> PolicyOutcome:
    """A policy with the settings that are best for a job, the first of equals.

    Raises RanksStuckError if ranks wait for each other for ever with all of them.
    """
    given = Asked(slice_s, machine)
    policy, best = POLICIES[name], list[tuple[Steady, str]]()
    stuck = RanksStuckError(f"{name} has nothing to choose from")
    for variant in policy.variants(graph, given):
        try:
            found = steady(variant.graph, variant.discipline)
        except RanksStuckError as error:
            stuck = error
            continue
        if not best or found.period_s < best[0][0].period_s:
            best = [(found, variant.setting)]
    if not best:
        raise stuck
    bound_s = min(period_bound_s(freed) for freed in policy.freed(graph, given))
    return PolicyOutcome(name, best[0][1], best[0][0], bound_s)


def _serial(graph: JobGraph, _: Asked) -> Iterator[Variant]:
    yield Variant(graph, Discipline(IssueOrder.FIRST_READY, exclusive=True))


def _fifo(graph: JobGraph, _: Asked) -> Iterator[Variant]:
    yield Variant(graph, Discipline(IssueOrder.FIRST_READY))


def _lifo(graph: JobGraph, _: Asked) -> Iterator[Variant]:
    yield Variant(graph, Discipline(IssueOrder.LAST_READY))


def _priority(graph: JobGraph, _: Asked) -> Iterator[Variant]:
    yield Variant(graph, Discipline())


def _sliced(graph: JobGraph, asked: Asked) -> Iterator[Variant]:
    for sliced, setting in _slices(graph, asked.slice_s):
        yield Variant(sliced, Discipline(), setting)


def _by_need(graph: JobGraph) -> JobGraph:
    """Messages in the order in which computation would use them if they took no time."""
    needed = needed_at(graph)
    return _with_priority(graph, np.lexsort((graph.priority, needed)))


def _graph_order(graph: JobGraph, _: Asked) -> Iterator[Variant]:
    yield Variant(_by_need(graph), Discipline())


def _credit(graph: JobGraph, asked: Asked) -> Iterator[Variant]:
    for sliced, setting in _slices(graph, asked.slice_s):
        for window in _WINDOWS:
            told = f"{setting}, {window} in flight"
            yield Variant(sliced, Discipline(window=window), told)


def _preemptive(graph: JobGraph, _: Asked) -> Iterator[Variant]:
    yield Variant(_by_need(graph), Discipline(preemptive=True), "nothing merged")
    bucket = cheapest_buckets(graph)
    if (bucket >= 0).any():
        fused = merged(graph, bucket)
        told = f"merged to {len(np.unique(fused.instance[gradients(fused)]))}"
        yield Variant(_by_need(fused), Discipline(preemptive=True), told)


def _alltoall_first(graph: JobGraph, asked: Asked) -> Iterator[Variant]:
    for sliced, setting in _slices(graph, asked.slice_s):
        later = np.where(sliced.kind == ALLTOALL, 0, 1)
        order = np.lexsort((sliced.priority, ready_at(sliced), later))
        yield Variant(_with_priority(sliced, order), Discipline(), setting)


def _partitioned(graph: JobGraph, asked: Asked) -> Iterator[Variant]:
    ways = [("whole operations", graph), ("halves", decoupled(graph))]
    ways += [("levels", levels) for levels in _with_levels(graph, asked)[1:]]
    for told, parts in ways:
        for sliced, setting in _slices(parts, asked.slice_s):
            yield Variant(_by_need(sliced), Discipline(), f"{told}, {setting}")


def _out_of_order(graph: JobGraph, _: Asked) -> Iterator[Variant]:
    mine = backwards(graph)
    most = int(np.bincount(graph.owner[mine]).max(initial=0)) if mine.any() else 0
    powers = [2**power for power in range(1, 8) if 2**power < most]
    for delayed in dict.fromkeys([0, *powers, most]):
        told = f"weights of {delayed} layers last" if delayed else "weights in place"
        yield Variant(_by_need(out_of_order(graph, delayed)), Discipline(), told)


def _interleaved(graph: JobGraph, _: Asked) -> Iterator[Variant]:
    seen = 0
    for chunks in _CHUNKS:
        divided = interleaved(graph, chunks)
        if divided.num_nodes > seen:
            seen = divided.num_nodes
            yield Variant(divided, Discipline(), f"{chunks} chunks" if chunks > 1 else "whole")


def _with_levels(graph: JobGraph, asked: Asked) -> list[JobGraph]:
    """The job, and that with allreduces level by level if it is another one."""
    levels = graph if asked.machine is None else by_levels(graph, asked.machine)
    return [graph] if levels is graph else [graph, levels]


def _decoupled(graph: JobGraph, _: Asked) -> Iterator[Variant]:
    yield Variant(decoupled(graph, gathers_last=True), Discipline(IssueOrder.FIRST_READY))


def _bucketed(graph: JobGraph, _: Asked) -> Iterator[Variant]:
    largest = _work_of_owner(graph)
    seen = set()
    for share in reversed(_SHARES):
        bucket = buckets_of_work(graph, -(-largest // share))
        if bucket.tobytes() not in seen:
            seen.add(bucket.tobytes())
            told = f"buckets of 1/{share} of all" if share > 1 else "one bucket"
            yield Variant(merged(graph, bucket), Discipline(IssueOrder.FIRST_READY), told)


def _slices(graph: JobGraph, slice_s: Fraction | None) -> Iterator[tuple[JobGraph, str]]:
    """The job in slices of this time, or of shares of the longest gradient."""
    if slice_s is not None:
        ticks = slice_s / graph.tick_s
        if ticks.denominator > 1:
            finer = ticks.denominator
            graph = graph.changed(
                work=graph.work * finer, latency=graph.latency * finer, tick_s=graph.tick_s / finer
            )
        yield cut(graph, ticks.numerator), f"slices of {format_time(slice_s)}"
        return
    work = graph.work[gradients(graph)]
    longest = int(work.max(initial=0))
    for share in _SHARES:
        ticks_each = max(1, -(-longest // share))
        if share > 1 and (ticks_each == 1 or int((-(-work // ticks_each)).sum()) > _MAX_SLICES):
            return
        yield cut(graph, ticks_each), f"slices of {format_time(ticks_each * graph.tick_s)}"


def _with_priority(graph: JobGraph, order: NDArray[np.int64]) -> JobGraph:
    """The job whose messages have this order of priorities; computation keeps its own."""
    priority = np.empty(graph.num_nodes, dtype=np.int64)
    priority[order] = np.arange(graph.num_nodes)
    return graph.changed(priority=np.where(graph.is_communication, priority, graph.priority))


def _work_of_owner(graph: JobGraph) -> int:
    mine = gradients(graph)
    work = np.zeros(graph.num_owners, dtype=np.int64)
    np.add.at(work, graph.owner[mine], graph.work[mine])
    return max(1, int(work.max()))


POLICIES: dict[str, Policy] = {
    "serial": Policy("No rank computes and communicates at once.", "none", _serial),
    "fifo": Policy(
        "Gradients are sent as they become ready (wait-free).", "Poseidon, ATC 2017", _fifo
    ),
    "lifo": Policy("The gradient that became ready last is sent first.", "none", _lifo),
    "priority": Policy("The lowest layer first, whole tensors.", "P3, SysML 2019", _priority),
    "p3": Policy("The lowest layer first, in slices.", "P3, SysML 2019", _sliced),
    "tictac": Policy(
        "In the order in which computation needs them, fixed before.", "TicTac, SysML 2019",
        _graph_order,
    ),
    "bytescheduler": Policy(
        "Slices by priority, several in flight, both tuned.", "ByteScheduler, SOSP 2019", _credit
    ),
    "pace": Policy(
        "What is needed first interrupts; tensors merged by dynamic programming.",
        "PACE, INFOCOM 2020", _preemptive,
    ),
    "lina": Policy(
        "All-to-all before gradients, which are cut.", "Lina, ATC 2023", _alltoall_first
    ),
    "centauri": Policy(
        "Cut by primitive, by level and by work, in the order of need.", "Centauri, ASPLOS 2024",
        _partitioned, _with_levels,
    ),
    "dear": Policy(
        "Reduce-scatters during backward, then allgathers in forward order.", "DeAR, ICDCS 2023",
        _decoupled,
    ),
    "ddp": Policy(
        "Gradients merged into buckets as they become ready.", "PyTorch DDP, VLDB 2020", _bucketed
    ),
    "ooo": Policy(
        "Gradients of weights after those of inputs, where that pays.",
        "out-of-order backprop, EuroSys 2022", _out_of_order,
        lambda graph, _: (out_of_order(graph, 0),),
    ),
    "decompose": Policy(
        "Allgathers and reduce-scatters in chunks beside those of a matmul.",
        "Wang et al., ASPLOS 2023", _interleaved,
        lambda graph, _: (interleaved(graph, chunks) for chunks in _CHUNKS),
    ),
}  # fmt: skip
"""Every policy by name."""
