"""Policies of communication: which gradient is sent when, whole, in slices, merged or in halves."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.quantities import exact_time, format_time
from ocs_codesign.core.topology import starts_of
from ocs_codesign.jobs.issue import (
    Discipline,
    IssueOrder,
    RanksStuckError,
    Steady,
    members_of,
    needed_at,
    period_bound_s,
    ready_at,
    steady,
)
from ocs_codesign.jobs.job_graph import JobGraph
from ocs_codesign.jobs.prices import priced
from ocs_codesign.jobs.rewriting import (
    ALLGATHER,
    ALLREDUCE,
    ALLTOALL,
    REDUCE_SCATTER,
    backwards,
    buckets_of_work,
    cheapest_buckets,
    columns_of_parts,
    cut,
    decoupled,
    gradients,
    interleaved,
    merged,
    out_of_order,
    parts_of,
    with_edges,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from ocs_codesign.jobs.prices import Machine


# Jobs whose allreduces are divided by the levels of a machine: inside a block, across, inside.


def by_levels(graph: JobGraph, machine: Machine) -> JobGraph:
    """Allreduces across blocks of a machine as a reduce-scatter inside, one across, an allgather.

    What is inside is the outermost level whose blocks do not hold the group but several of its
    ranks, as many in each. Of M, a block of r ranks sums M/r at every rank with those of the other
    blocks. Allreduces without bytes, and those of a class with others, are left alone.

    >>> from ocs_codesign.core.cost import CostModel
    >>> from ocs_codesign.jobs.job_draft import JobDraft
    >>> from ocs_codesign.jobs.prices import Level, Machine
    >>> machine = Machine((Level(2, CostModel(0, 4)), Level(4, CostModel(0, 1))))
    >>> draft = JobDraft(1, [4])
    >>> nodes = draft.collective("allreduce", (0,), 8, {}, num_ranks=4, between=(0, 3))
    >>> (by_levels(draft.graph(), machine).work // 10**9).tolist()
    [1, 4, 1]
    """
    inside = _ranks_inside(graph, machine)
    is_cut = inside > 1
    if not is_cut.any():
        return graph
    parts = np.where(is_cut, 3, 1)
    whole, at = parts_of(parts)
    columns = columns_of_parts(graph, whole, at, parts)
    halved = is_cut[whole]
    kinds = np.array([REDUCE_SCATTER, ALLREDUCE, ALLGATHER])[at]
    columns["kind"] = np.where(halved, kinds, columns["kind"]).astype(np.int8)
    sizes = graph.size_bytes[whole]
    across = halved & (at == 1)
    columns["size_bytes"] = np.where(across, -(-sizes // np.maximum(inside[whole], 1)), sizes)
    groups = _divide(graph, inside, whole, columns)
    first = starts_of(parts)[:-1]
    last = first + parts - 1
    begin, end = graph.edges()
    own = np.flatnonzero(halved & (at > 0))
    waits = np.concatenate(
        [np.stack([last[begin], first[end]], axis=1), np.stack([own - 1, own], axis=1)]
    )
    carried = np.stack([last[graph.carried[:, 0]], first[graph.carried[:, 1]]], axis=1)
    return priced(with_edges(graph, {**columns, **groups}, waits, carried), machine, halved)


def _ranks_inside(graph: JobGraph, machine: Machine) -> NDArray[np.int64]:
    """Of every node how many ranks of its group a block holds, 0 if it is not divided."""
    inside = np.zeros(graph.num_nodes, dtype=np.int64)
    known: dict[tuple[int, ...], int] = {}
    for node in np.flatnonzero((graph.kind == ALLREDUCE) & (graph.size_bytes > 0)).tolist():
        group = int(graph.group[node])
        key = group, int(graph.first_rank[node]), int(graph.last_rank[node])
        if key not in known:
            ranks = ranks_of(graph, *key)
            known[key] = 0 if ranks is None else _most_inside(ranks, machine)
        inside[node] = known[key]
    return inside


def ranks_of(
    graph: JobGraph, group: int, first_rank: int, last_rank: int
) -> NDArray[np.int64] | None:
    """The ranks of a group, or of the first of the groups of a class; None if it is several."""
    owners = graph.group_owner[graph.group_start[group] : graph.group_start[group + 1]]
    size = int(graph.group_size[group])
    if len(owners) == size:
        return starts_of(graph.ranks)[owners]
    apart, rest = divmod(last_rank - first_rank, max(1, size - 1))
    if len(owners) > 1 or rest:
        return None
    return first_rank + apart * np.arange(size)


def _most_inside(ranks: NDArray[np.int64], machine: Machine) -> int:
    """Ranks in each block of the outermost level that divides them evenly, 0 if none does."""
    level = machine.level_of(int(ranks.min()), int(ranks.max()))
    for inner in reversed(machine.levels[:level]):
        count = np.unique(ranks // inner.num_ranks, return_counts=True)[1]
        if len(count) > 1 and (count == count[0]).all() and count[0] > 1:
            return int(count[0])
    return 0


def _divide(
    graph: JobGraph,
    inside: NDArray[np.int64],
    whole: NDArray[np.int64],
    columns: dict[str, NDArray[Any]],
) -> dict[str, NDArray[Any]]:
    """Give the parts of divided nodes their instances, groups and ranks; the groups of all."""
    number: dict[tuple[tuple[int, ...], int], int] = {}
    for one in range(len(graph.group_size)):
        members_there = graph.group_owner[graph.group_start[one] : graph.group_start[one + 1]]
        number[tuple(members_there.tolist()), int(graph.group_size[one])] = one
    start, members = members_of(graph)
    first_part = np.searchsorted(whole, np.arange(graph.num_nodes))
    apart = np.zeros(len(whole), dtype=np.int64)
    group, low, high = (columns[name].copy() for name in ("group", "first_rank", "last_rank"))
    for which in np.unique(graph.instance[inside > 1]).tolist():
        nodes = members[start[which] : start[which + 1]]
        nodes = nodes[np.argsort(graph.owner[nodes])]
        node, each = int(nodes[0]), int(inside[nodes[0]])
        ranks = ranks_of(
            graph,
            int(graph.group[node]),
            *(int(graph.first_rank[node]), int(graph.last_rank[node])),
        )
        if ranks is None:
            raise RuntimeError("ranks that are divided are known")
        blocks = np.sort(ranks).reshape(-1, each)
        for part, rows in enumerate((blocks, blocks.T, blocks)):
            for own, row in enumerate(rows):
                mine = nodes[np.isin(ranks, row)] if len(nodes) > 1 else nodes
                owners = tuple(graph.owner[mine].tolist())
                entries = first_part[mine] + part
                group[entries] = number.setdefault((owners, len(row)), len(number))
                low[entries], high[entries] = int(row.min()), int(row.max())
                apart[entries] = own if len(nodes) > 1 else 0
                if len(nodes) == 1:
                    break  # the others are like the first one
    columns |= {"group": group, "first_rank": low, "last_rank": high}
    instance = columns["instance"].astype(np.int64)
    talks = instance >= 0
    keys = instance * (int(apart.max()) + 1) + apart
    renamed = np.full(len(instance), -1, dtype=np.int32)
    renamed[talks] = np.unique(keys[talks], return_inverse=True)[1]
    columns["instance"] = renamed
    sizes = np.array([len(owners) for owners, _ in number], dtype=np.int64)
    return {
        "group_start": starts_of(sizes).astype(np.int64),
        "group_owner": np.array([one for owners, _ in number for one in owners], dtype=np.int32),
        "group_size": np.array([size for _, size in number], dtype=np.int64),
    }


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

    >>> from ocs_codesign.jobs.layers import LayerTimes
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
    name: str, graph: JobGraph, slice_s: Fraction | None = None, machine: Machine | None = None
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
