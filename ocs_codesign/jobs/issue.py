"""A job on a clock: every rank computes one node at a time and sends one message at a time.

The rule is ASTRA-sim's: of the nodes that are ready the one of least priority begins, and nothing
that runs is interrupted. Other disciplines are those that policies of communication need.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.compute.kernels import for_work
from ocs_codesign.core.shown import Tabular
from ocs_codesign.core.topology import starts_of
from ocs_codesign.jobs.job_graph import COMPUTE, FIRST_COLLECTIVE, MAX_NODES, RECEIVE, JobGraph, csr
from ocs_codesign.jobs.order_kernels import longest_between, topological_order
from ocs_codesign.schedules.simulate.columns import IssueRule, JobColumns, Pieces
from ocs_codesign.schedules.simulate.event_kernels import run as run_events

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


_ROUNDS_A_NODE = 12


class IssueOrder(Enum):
    """Which of the ready nodes begins: of least priority, the first or the last that was ready."""

    PRIORITY = 0
    FIRST_READY = 1
    LAST_READY = -1


@final
@dataclass(frozen=True, slots=True)
class Discipline:
    """How owners choose what to run.

    ``window`` communications of an owner may be in flight, whose latencies overlap if several.
    ``exclusive``: no owner computes and communicates at once. ``preemptive``: a better
    communication takes the channel at once, without a cost; needs a window of 1 and priorities.

    >>> Discipline(window=2, preemptive=True)
    Traceback (most recent call last):
    ValueError: preemption needs the order of priorities and one message in flight
    """

    order: IssueOrder = IssueOrder.PRIORITY
    window: int = 1
    exclusive: bool = False
    preemptive: bool = False

    def __post_init__(self) -> None:
        if self.window < 1:
            raise ValueError(f"window is {self.window}: at least one message is in flight")
        if self.preemptive and (self.window > 1 or self.order is not IssueOrder.PRIORITY):
            raise ValueError("preemption needs the order of priorities and one message in flight")


@final
class RanksStuckError(ValueError):
    """Ranks wait for each other for ever."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class JobRun(Tabular):
    """When the nodes of a job ran, in ticks: ``start`` and ``end`` (int64, nodes).

    Pieces (int64 columns) are what channels served when: an instance, from when until when.
    """

    graph: JobGraph
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    piece_instance: NDArray[np.int64]
    piece_begin: NDArray[np.int64]
    piece_end: NDArray[np.int64]

    def __repr__(self) -> str:
        return f"JobRun({self.graph!r}, {self.total_ticks} ticks of {self.graph.tick_s} s)"

    @property
    def total_ticks(self) -> int:
        """When the last node ended."""
        return int(self.end.max(initial=0))

    @property
    def total_s(self) -> Fraction:
        """When the last node ended, in seconds."""
        return self.total_ticks * self.graph.tick_s

    def compute_ticks(self) -> NDArray[np.int64]:
        """Ticks that every owner computes."""
        graph = self.graph
        mine = graph.kind == COMPUTE
        return _sums(graph.owner[mine], graph.ticks[mine], graph.num_owners)

    def channel_pieces(self) -> tuple[NDArray[np.int64], ...]:
        """Owner, node, begin and end of every piece, once for each channel that it takes."""
        graph = self.graph
        start, members = members_of(graph)
        count = np.diff(start)[self.piece_instance]
        piece = np.repeat(np.arange(len(count)), count)
        within = np.arange(len(piece)) - np.repeat(starts_of(count)[:-1], count)
        node = members[start[self.piece_instance[piece]] + within]
        talks = graph.kind[node] != RECEIVE
        node, piece = node[talks], piece[talks]
        owner = graph.owner[node].astype(np.int64)
        return owner, node, self.piece_begin[piece], self.piece_end[piece]

    def channel_ticks(self) -> NDArray[np.int64]:
        """Ticks that the channel of every owner is busy."""
        owner, _, begin, end = self.channel_pieces()
        return _sums(owner, end - begin, self.graph.num_owners)

    def exposed_ticks(self) -> NDArray[np.int64]:
        """Ticks in which the channel of an owner is busy while it computes nothing."""
        graph = self.graph
        owner, _, begin, end = self.channel_pieces()
        mine = np.flatnonzero(graph.kind == COMPUTE)
        mine = mine[np.lexsort((self.start[mine], graph.owner[mine]))]
        hidden = np.zeros(graph.num_owners, dtype=np.int64)
        first = np.searchsorted(graph.owner[mine], np.arange(graph.num_owners + 1))
        order = np.argsort(owner, kind="stable")
        piece = np.searchsorted(owner[order], np.arange(graph.num_owners + 1))
        for one in range(graph.num_owners):
            nodes = mine[first[one] : first[one + 1]]
            pieces = order[piece[one] : piece[one + 1]]
            if len(nodes) and len(pieces):
                done = _computed(self.start[nodes], self.end[nodes], end[pieces])
                done -= _computed(self.start[nodes], self.end[nodes], begin[pieces])
                hidden[one] = done.sum()
        return self.channel_ticks() - hidden

    def group_ticks(self) -> dict[str, int]:
        """Ticks that messages of every label ran, those of one collective counted once."""
        graph = self.graph
        start, members = members_of(graph)
        label = graph.label[members[start[self.piece_instance]]]
        sums = _sums(label, self.piece_end - self.piece_begin, len(graph.labels))
        return {graph.labels[at]: int(sums[at]) for at in np.unique(label).tolist()}


def run(graph: JobGraph, discipline: Discipline | None = None) -> JobRun:
    """The job on the clock, one iteration of it; ``graph.unrolled`` makes several.

    Raises RanksStuckError if ranks wait for each other for ever because each holds its channel for
    another collective.

    >>> from ocs_codesign.jobs.job_draft import JobDraft
    >>> draft = JobDraft(2)
    >>> ends = [draft.compute(owner, 5 + owner) for owner in range(2)]
    >>> nodes = draft.collective("allreduce", (0, 1), 8, {0: ends[:1], 1: ends[1:]}, work=10)
    >>> run(draft.graph()).end.tolist()
    [5, 6, 16, 16]
    """
    discipline = discipline or Discipline()
    num = graph.num_nodes
    pieces = np.zeros((3, 2 * num + 1), dtype=np.int64)
    overlaps = graph.is_communication & (discipline.window > 1)
    columns = job_columns(graph, graph.ticks, np.where(overlaps, graph.latency, 0))
    ended, num_pieces, _ = for_work(run_events, _ROUNDS_A_NODE * num)(
        *(None, None, None, None, columns, issue_rule(discipline, in_turn=True)),
        *(Pieces(*pieces), None, None),
    )
    if ended < num:
        raise_stuck(graph, columns.end)
    served = (column[:num_pieces] for column in pieces)
    return JobRun(graph, columns.start, columns.end, *served)


def issue_rule(discipline: Discipline, *, in_turn: bool) -> IssueRule:
    """How ranks issue, as the loop of events reads it."""
    order, window = discipline.order.value, discipline.window
    return IssueRule(order, window, discipline.exclusive, discipline.preemptive, in_turn)


def job_columns(graph: JobGraph, ticks: NDArray[np.int64], lag: NDArray[np.int64]) -> JobColumns:
    """What the loop of events reads of a job whose nodes take ``ticks``, ``lag`` of them beside."""
    num = graph.num_nodes
    kind = np.minimum(graph.kind, FIRST_COLLECTIVE)
    order = np.lexsort((np.arange(num), graph.priority))
    rank = np.empty(num, dtype=np.int64)
    rank[order] = np.arange(num)
    talks = graph.is_communication
    num_members = _sums(graph.instance[talks], np.ones(int(talks.sum())), graph.num_instances)
    slots = np.stack(
        [
            starts_of(np.bincount(graph.owner[which], minlength=graph.num_owners))
            for which in (kind == COMPUTE, talks)
        ]
    ).astype(np.int64)
    waits = np.diff(graph.wait_start)
    return JobColumns(
        *(kind, graph.owner, graph.instance, num_members, *members_of(graph)),
        *(waits, *graph.after(), rank, order, slots, ticks - lag, lag),
        *np.full((2, num), -1, dtype=np.int64),
    )


def members_of(graph: JobGraph) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The nodes of every instance, as a CSR; of a send and its receive the send first."""
    nodes = np.flatnonzero(graph.instance >= 0)
    nodes = nodes[np.lexsort((nodes, graph.kind[nodes], graph.instance[nodes]))]
    counts = np.bincount(graph.instance[nodes], minlength=graph.num_instances)
    return starts_of(counts).astype(np.int64), nodes


def raise_stuck(graph: JobGraph, end: NDArray[np.int64]) -> None:
    """RanksStuckError that names the first nodes that could begin but for others' messages."""
    before, node = graph.edges()
    waits = np.bincount(node, end[before] < 0, minlength=graph.num_nodes)
    stuck = np.flatnonzero((end < 0) & (waits == 0))
    told = "; ".join(graph.told(one).rstrip(",") for one in stuck[:3].tolist())
    raise RanksStuckError(
        f"the ranks wait for each other for ever: {told} cannot begin, since a rank sends one "
        "message at a time and others of its group send another one first"
    )


def _computed(
    start: NDArray[np.int64], end: NDArray[np.int64], time: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Ticks computed until each time, by intervals one after the other."""
    total = starts_of(end - start)
    last = np.searchsorted(start, time, side="right") - 1
    inside = np.minimum(time, end[last]) - start[last]
    sums: NDArray[np.int64] = np.where(last < 0, 0, total[last] + inside)
    return sums


def _sums(key: NDArray[Any], value: NDArray[Any], size: int) -> NDArray[np.int64]:
    sums = np.zeros(size, dtype=np.int64)
    np.add.at(sums, key, value.astype(np.int64))
    return sums


# The steady period of a job whose iterations follow each other, and what it is at least.


_FIRST_TIMES, _MOST_TIMES = 4, 32
_MAX_CIRCLES = 64


@final
@dataclass(frozen=True, slots=True, eq=False)
class Steady:
    """Seconds from one iteration to the next, and the run of several that shows it.

    ``is_steady``: the last two iterations took the same; else the period is the mean of the last
    half of them. The run is of ``num_iterations``.
    """

    period_s: Fraction
    is_steady: bool
    job_run: JobRun
    num_iterations: int

    @property
    def exposed_s(self) -> Fraction:
        """Seconds an iteration in which an owner, in the mean, only waits for its channel."""
        graph = self.job_run.graph
        ticks = int((self.job_run.exposed_ticks() * graph.ranks).sum())
        return Fraction(ticks, self.num_iterations * int(graph.ranks.sum())) * graph.tick_s


def steady(
    graph: JobGraph,
    discipline: Discipline | None = None,
    run_once: Callable[[JobGraph, Discipline | None], JobRun] = run,
    unrolled: Callable[[int], JobGraph] | None = None,
) -> Steady:
    """The period of iterations one after the other, exact where it repeats.

    ``run_once`` puts several of them, as one graph, on the clock. ``unrolled`` makes that graph;
    one that remembers serves a job with several disciplines.

    >>> from ocs_codesign.jobs.layers import LayerTimes
    >>> job = LayerTimes([10] * 3, [20] * 3, [40, 20, 30]).graph()
    >>> steady(job).period_s, steady(job, Discipline(exclusive=True)).period_s
    (Fraction(140, 1), Fraction(180, 1))
    """
    times = _FIRST_TIMES if len(graph.carried) else 1
    while True:
        done = run_once((unrolled or graph.unrolled)(times), discipline)
        ends = _ends(done, graph, times)
        lasts = np.diff(ends, prepend=0)
        is_steady = times == 1 or lasts[-1] == lasts[-2]
        if is_steady or 2 * times > _MOST_TIMES or 2 * times * graph.num_nodes > MAX_NODES:
            break
        times *= 2
    half = max(1, times // 2)
    span = int(lasts[-1]) * half if is_steady else int(ends[-1] - ends[half - 1])
    return Steady(Fraction(span, half) * graph.tick_s, bool(is_steady), done, times)


def period_bound_s(graph: JobGraph) -> Fraction:
    """Seconds that an iteration takes at least, in whatever order gradients are sent.

    The computation of an owner, the work of its channel, and what lies on a circle of an iteration
    and what it hands on: the longest path, and all the work of a channel after the least that comes
    before and before the least that comes after. Latencies of messages are left out, for messages
    may be merged.

    >>> from ocs_codesign.jobs.layers import LayerTimes
    >>> period_bound_s(LayerTimes([10] * 3, [20] * 3, [10, 10, 90]).graph())
    Fraction(140, 1)
    """
    talks = graph.is_communication
    computes = graph.kind == COMPUTE
    weight = np.where(computes, graph.ticks, np.where(talks, graph.work, 0))
    bound = max(
        int(_sums(graph.owner[which], weight[which], graph.num_owners).max(initial=0))
        for which in (computes, talks)
    )
    if not len(graph.carried):
        return max(bound, _longest(graph, weight)) * graph.tick_s
    vertex, start, after, order = _meeting_order(graph)
    weights = np.zeros(len(start) - 1, dtype=np.int64)
    np.maximum.at(weights, vertex, weight)
    reverse = _reversed(start, after)
    for last, first in graph.carried[:_MAX_CIRCLES].tolist():
        between = for_work(longest_between, len(after))
        down = between(order, start, after, weights, vertex[first])
        if down[vertex[last]] < 0:
            continue
        up = between(order[::-1].copy(), *reverse, weights, vertex[last])
        bound = max(bound, int(down[vertex[last]]) + int(weights[vertex[last]]))
        mine = talks & (graph.owner == graph.owner[first])
        mine &= (down[vertex] >= 0) & (up[vertex] >= 0)
        if mine.any():
            around = int(down[vertex[mine]].min() + up[vertex[mine]].min())
            bound = max(bound, around + int(weight[mine].sum()))
    return bound * graph.tick_s


def needed_at(graph: JobGraph) -> NDArray[np.int64]:
    """When the first that waits for a node would begin if messages took no time (int64, nodes).

    What the next iteration waits for counts; what nothing waits for is needed last.
    """
    times = 2 if len(graph.carried) else 1
    two = graph.unrolled(times)
    vertex, start, after, order = _meeting_order(two)
    weights = np.zeros(len(start) - 1, dtype=np.int64)
    np.maximum.at(weights, vertex, np.where(two.kind == COMPUTE, two.ticks, 0))
    begin = _before(order, start, after, weights)
    before, node = (np.concatenate(ends) for ends in zip(two.edges(), two.pairs(), strict=True))
    needed = np.full(two.num_nodes, np.iinfo(np.int64).max)
    uses = two.kind[node] == COMPUTE
    np.minimum.at(needed, before[uses], begin[vertex[node[uses]]])
    for _ in range(3):  # a message that only another message waits for
        np.minimum.at(needed, before[~uses], needed[node[~uses]])
    return needed[: graph.num_nodes]


def ready_at(graph: JobGraph) -> NDArray[np.int64]:
    """When every node would begin if messages took no time (int64, nodes)."""
    vertex, start, after, order = _meeting_order(graph)
    weights = np.zeros(len(start) - 1, dtype=np.int64)
    np.maximum.at(weights, vertex, np.where(graph.kind == COMPUTE, graph.ticks, 0))
    return _before(order, start, after, weights)[vertex]


def _meeting_order(graph: JobGraph) -> tuple[NDArray[np.int64], ...]:
    vertex, start, after = graph.meeting_graph()
    waits = np.bincount(after, minlength=len(start) - 1)
    order = for_work(topological_order, len(vertex) + len(after))(start, after, waits)
    return vertex, start, after, order


def _before(
    order: NDArray[np.int64],
    start: NDArray[np.int64],
    after: NDArray[np.int64],
    weights: NDArray[np.int64],
) -> NDArray[np.int64]:
    longest: NDArray[np.int64] = for_work(longest_between, len(after))(
        order, start, after, weights, -1
    )
    return longest


def _longest(graph: JobGraph, weight: NDArray[np.int64]) -> int:
    vertex, start, after, order = _meeting_order(graph)
    weights = np.zeros(len(start) - 1, dtype=np.int64)
    np.maximum.at(weights, vertex, weight)
    return int((_before(order, start, after, weights) + weights).max())


def _reversed(
    start: NDArray[np.int64], after: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    before = np.repeat(np.arange(len(start) - 1), np.diff(start))
    return csr(after, before, len(start) - 1)


def _ends(done: JobRun, graph: JobGraph, times: int) -> NDArray[np.int64]:
    """When the computation of every iteration ended; all of it where nothing follows."""
    end = done.end.reshape(times, graph.num_nodes)
    computes = graph.kind == COMPUTE
    follows = times > 1 and bool(computes.any())
    ends: NDArray[np.int64] = (end[:, computes] if follows else end).max(axis=1)
    return ends
