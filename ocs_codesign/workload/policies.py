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
from ocs_codesign.workload.period import Steady, needed_at, ready_at, steady
from ocs_codesign.workload.rewriting import ALLTOALL, cut, decoupled, gradients, merged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

_SHARES = (1, 2, 4, 8, 16, 32)
_WINDOWS = (1, 2, 4)
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
class Policy:
    """A policy: what it does in a sentence, who published it, and the variants it chooses from.

    ``variants`` takes a job and seconds of a slice, None where the policy is to choose.
    """

    text: str
    source: str
    variants: Callable[[JobGraph, Fraction | None], Iterator[Variant]]


@final
@dataclass(frozen=True, slots=True)
class PolicyOutcome:
    """What a policy comes to: its best variant, and the period of it."""

    name: str
    setting: str
    steady: Steady


def compare_policies(
    graph: JobGraph, names: tuple[str, ...] | None = None, slice_s: Fraction | float | None = None
) -> list[PolicyOutcome]:
    """The period of a job under every policy, or those of ``names``, in the order of POLICIES.

    Those that cut choose the best slices, or use ``slice_s`` if it is given. A policy under which
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
                outcomes.append(best_of(name, graph, size))
            except RanksStuckError as error:
                refusals.append(error)
    if not outcomes:
        raise refusals[0]
    return outcomes


def best_of(name: str, graph: JobGraph, slice_s: Fraction | None = None) -> PolicyOutcome:
    """A policy with the settings that are best for a job, the first of equals.

    Raises RanksStuckError if ranks wait for each other for ever with all of them.
    """
    best: PolicyOutcome | None = None
    stuck = RanksStuckError(f"{name} has nothing to choose from")
    for variant in POLICIES[name].variants(graph, slice_s):
        try:
            found = steady(variant.graph, variant.discipline)
        except RanksStuckError as error:
            stuck = error
            continue
        if best is None or found.period_s < best.steady.period_s:
            best = PolicyOutcome(name, variant.setting, found)
    if best is None:
        raise stuck
    return best


def _serial(graph: JobGraph, _: Fraction | None) -> Iterator[Variant]:
    yield Variant(graph, Discipline(IssueOrder.FIRST_READY, exclusive=True))


def _fifo(graph: JobGraph, _: Fraction | None) -> Iterator[Variant]:
    yield Variant(graph, Discipline(IssueOrder.FIRST_READY))


def _lifo(graph: JobGraph, _: Fraction | None) -> Iterator[Variant]:
    yield Variant(graph, Discipline(IssueOrder.LAST_READY))


def _priority(graph: JobGraph, _: Fraction | None) -> Iterator[Variant]:
    yield Variant(graph, Discipline())


def _sliced(graph: JobGraph, slice_s: Fraction | None) -> Iterator[Variant]:
    for sliced, setting in _slices(graph, slice_s):
        yield Variant(sliced, Discipline(), setting)


def _by_need(graph: JobGraph) -> JobGraph:
    """Messages in the order in which computation would use them if they took no time."""
    needed = needed_at(graph)
    return _with_priority(graph, np.lexsort((graph.priority, needed)))


def _graph_order(graph: JobGraph, _: Fraction | None) -> Iterator[Variant]:
    yield Variant(_by_need(graph), Discipline())


def _credit(graph: JobGraph, slice_s: Fraction | None) -> Iterator[Variant]:
    for sliced, setting in _slices(graph, slice_s):
        for window in _WINDOWS:
            told = f"{setting}, {window} in flight"
            yield Variant(sliced, Discipline(window=window), told)


def _preemptive(graph: JobGraph, _: Fraction | None) -> Iterator[Variant]:
    yield Variant(_by_need(graph), Discipline(preemptive=True), "nothing merged")
    bucket = cheapest_buckets(graph)
    if (bucket >= 0).any():
        fused = merged(graph, bucket)
        told = f"merged to {len(np.unique(fused.instance[gradients(fused)]))}"
        yield Variant(_by_need(fused), Discipline(preemptive=True), told)


def _alltoall_first(graph: JobGraph, slice_s: Fraction | None) -> Iterator[Variant]:
    for sliced, setting in _slices(graph, slice_s):
        later = np.where(sliced.kind == ALLTOALL, 0, 1)
        order = np.lexsort((sliced.priority, ready_at(sliced), later))
        yield Variant(_with_priority(sliced, order), Discipline(), setting)


def _partitioned(graph: JobGraph, slice_s: Fraction | None) -> Iterator[Variant]:
    for parts, told in ((graph, "whole operations"), (decoupled(graph), "halves")):
        for sliced, setting in _slices(parts, slice_s):
            yield Variant(_by_need(sliced), Discipline(), f"{told}, {setting}")


def _decoupled(graph: JobGraph, _: Fraction | None) -> Iterator[Variant]:
    yield Variant(decoupled(graph, gathers_last=True), Discipline(IssueOrder.FIRST_READY))


def _bucketed(graph: JobGraph, _: Fraction | None) -> Iterator[Variant]:
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
        "Cut by primitive and by work, in the order of need.", "Centauri, ASPLOS 2024",
        _partitioned,
    ),
    "dear": Policy(
        "Reduce-scatters during backward, then allgathers in forward order.", "DeAR, ICDCS 2023",
        _decoupled,
    ),
    "ddp": Policy(
        "Gradients merged into buckets as they become ready.", "PyTorch DDP, VLDB 2020", _bucketed
    ),
}  # fmt: skip
"""Every policy by name."""
