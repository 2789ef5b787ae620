"""Sequences of configurations on the clock."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.topology import starts_of
from ocs_codesign.jobs.issue import Steady, steady
from ocs_codesign.jobs.job_graph import COMPUTE, JobGraph
from ocs_codesign.jobs.rewriting import with_edges

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from ocs_codesign.jobs.issue import JobRun
    from ocs_codesign.jobs.reconfigured.prices import ConfiguredJob

    Clock = Callable[[ConfiguredJob, NDArray[np.int64], NDArray[np.int64]], Steady]
    """The steady state of a job where message ``order[i]`` finds configuration ``choice[i]``."""


# A job with changes of circuits in it: nodes that all messages before and after wait for.


CHANGE = "reconfiguration"
"""The label of the nodes that change circuits."""


def cuts_of(choice: NDArray[np.int64]) -> NDArray[np.int64]:
    """Positions of a round of messages before which the configuration changes, ascending.

    >>> cuts_of(np.array([0, 0, 1, 1, 0])).tolist(), cuts_of(np.array([0, 1])).tolist()
    ([2, 4], [0, 1])
    """
    return np.flatnonzero(choice != np.roll(choice, 1))


def with_changes(
    job: ConfiguredJob, order: NDArray[np.int64], choice: NDArray[np.int64]
) -> JobGraph:
    """The job in which the message ``order[i]`` (an instance) finds configuration ``choice[i]``.

    A last owner stands for the circuits. It is dark for every change, from when all messages over
    circuits before have ended, those of the iteration before included, and all those after wait for
    it; computation does not. A job whose iterations do not wait for each other gets an end that all
    of the next one waits for.
    """
    graph = job.graph
    config = np.zeros(graph.num_instances, dtype=np.int64)
    config[order] = choice
    of_node = np.append(config, 0)[graph.instance]
    every = np.arange(graph.num_nodes)
    cuts = cuts_of(choice)
    first = graph.num_nodes
    dead = job.dead_ticks[choice[cuts - 1], choice[cuts]]
    closes = not len(graph.carried)
    extra = np.append(dead, [0] * closes).astype(np.int64)
    columns = _appended(graph, extra, np.append(np.full(len(cuts), 1), [0] * closes))
    columns["latency"][:first] = job.latency[of_node, every]
    columns["work"][:first] = job.work[of_node, every]
    columns["ranks"] = np.append(graph.ranks, 1)
    columns["labels"] = (*graph.labels, "", CHANGE)
    waits, carried = [np.stack(graph.edges(), axis=1)], [graph.carried]
    if len(cuts):
        inside, around = _around(graph, order, cuts)
        waits.append(inside)
        carried.append(around)
    if closes:
        inside, around = _closed(graph, first + len(cuts))
        waits.append(inside)
        carried.append(around)
    return with_edges(graph, columns, np.concatenate(waits), np.concatenate(carried))


def _appended(
    graph: JobGraph, work: NDArray[np.int64], is_change: NDArray[np.int64]
) -> dict[str, Any]:
    """Columns with computations of an owner after all others at the end."""
    num = len(work)
    values: dict[str, Any] = {
        "kind": COMPUTE,
        "owner": graph.num_owners,
        "work": work,
        "latency": 0,
        "size_bytes": 0,
        "priority": int(graph.priority.max()) + 1,
        "label": len(graph.labels) + is_change,
        "is_gradient": False,
        "instance": -1,
        "group": -1,
        "first_rank": 0,
        "last_rank": 0,
    }
    columns = {}
    for name, value in values.items():
        column = getattr(graph, name)
        more = np.broadcast_to(np.asarray(value), num).astype(column.dtype)
        columns[name] = np.concatenate([column, more])
    return columns


def _around(
    graph: JobGraph, order: NDArray[np.int64], cuts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Who waits for whom because of changes, inside an iteration, and from one to the next."""
    position = np.full(graph.num_instances + 1, -1, dtype=np.int64)
    position[order] = np.arange(len(order))
    nodes = np.flatnonzero(graph.is_communication)
    nodes = nodes[position[graph.instance[nodes]] >= 0]
    stretch = np.searchsorted(cuts, position[graph.instance[nodes]], side="right") - 1
    first, last = graph.num_nodes, len(cuts) - 1
    head, tail = stretch < 0, stretch == last
    begins = np.stack([first + stretch, nodes], axis=1)[~head]
    ends = np.stack([nodes, first + stretch + 1], axis=1)[~tail]
    again = np.stack([nodes[tail], np.full(int(tail.sum()), first)], axis=1)
    held = np.stack([np.full(int(head.sum()), first + last), nodes[head]], axis=1)
    return np.concatenate([begins, ends]), np.concatenate([again, held])


def _closed(graph: JobGraph, end: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """An end that waits for what nothing waits for, and that what waits for nothing waits for."""
    before, node = graph.edges()
    last = np.setdiff1d(np.arange(graph.num_nodes), before)
    first = np.setdiff1d(np.arange(graph.num_nodes), node)
    return (
        np.stack([last, np.full(len(last), end)], axis=1),
        np.stack([np.full(len(first), end), first], axis=1),
    )


def formula_clock(
    job: ConfiguredJob, order: NDArray[np.int64], choice: NDArray[np.int64]
) -> Steady:
    """The steady state where messages take what their configurations cost."""
    return steady(with_changes(job, order, choice))


@final
@dataclass(frozen=True, slots=True, eq=False)
class SwitchedIteration:
    """Configurations of messages, in order (both int64), and the steady state that they lead to."""

    order: NDArray[np.int64]
    choice: NDArray[np.int64]
    steady: Steady

    @property
    def num_changes(self) -> int:
        """Changes of circuits in an iteration."""
        return len(cuts_of(self.choice))

    @property
    def period_s(self) -> Fraction:
        """Seconds from one iteration to the next."""
        return self.steady.period_s


def fastest_held(held: Iterable[SwitchedIteration | None]) -> int | None:
    """The position of the fastest, the first one of equals; None if there is none."""
    known = [(one.period_s, at) for at, one in enumerate(held) if one is not None]
    return min(known)[1] if known else None


# Changes of circuits in a run: when they are, and when ranks do nothing but wait for them.


@final
@dataclass(frozen=True, slots=True)
class CircuitChange:
    """A change of circuits: before which message, from which configuration to which, and its times.

    ``label`` is that of the message, ``position`` its place among those over circuits, from 0. The
    circuits are dark for ``dark_s``, of which a rank in the mean waits ``exposed_s``: it neither
    computes nor sends.
    """

    position: int
    label: str
    before: int
    after: int
    dark_s: Fraction
    exposed_s: Fraction


def changes_of(job: ConfiguredJob, found: SwitchedIteration) -> tuple[CircuitChange, ...]:
    """The changes of an iteration, in the mean of the later half of those that ran."""
    cuts = cuts_of(found.choice)
    if not len(cuts):
        return ()
    graph, steady = job.graph, found.steady
    done, times = steady.job_run, steady.num_iterations
    num = done.graph.num_nodes // times
    first = times // 2
    turns = np.arange(first, times)
    nodes = (turns[:, None] * num + graph.num_nodes + np.arange(len(cuts))).ravel()
    dark = np.stack([done.start[nodes], done.end[nodes]])
    exposed = exposed_ticks(done, dark).reshape(len(turns), len(cuts)).sum(axis=0)
    lasts = (dark[1] - dark[0]).reshape(len(turns), len(cuts))[0]
    label = np.zeros(graph.num_instances, dtype=np.int64)
    talks = graph.is_communication
    label[graph.instance[talks]] = graph.label[talks]
    tick_s, ranks = graph.tick_s, int(graph.ranks.sum()) * len(turns)
    return tuple(
        CircuitChange(
            *(cut, graph.labels[label[found.order[cut]]]),
            *(int(found.choice[cut - 1]), int(found.choice[cut])),
            *(int(lasts[at]) * tick_s, Fraction(int(exposed[at]), ranks) * tick_s),
        )
        for at, cut in enumerate(cuts.tolist())
    )


def exposed_ticks(done: JobRun, dark: NDArray[np.int64]) -> NDArray[np.int64]:
    """Ticks of every dark time (begins, ends) in which ranks neither compute nor send, summed."""
    graph = done.graph
    owner, _, begin, end = done.channel_pieces()
    computes = np.flatnonzero((graph.kind == COMPUTE) & (graph.label < len(graph.labels) - 1))
    owners = np.concatenate([owner, graph.owner[computes]])
    begins = np.concatenate([begin, done.start[computes]])
    ends = np.concatenate([end, done.end[computes]])
    order = np.lexsort((begins, owners))
    owners, begins, ends = owners[order], begins[order], ends[order]
    bounds = np.searchsorted(owners, np.arange(graph.num_owners))
    total = np.zeros(dark.shape[1], dtype=np.int64)
    for one, ranks in enumerate(graph.ranks[:-1].tolist()):  # the last owner is the circuits
        mine = slice(int(bounds[one]), int(bounds[one + 1]))
        last = np.maximum.accumulate(ends[mine])
        since = np.maximum(begins[mine], np.concatenate([[0], last[:-1]])) if len(last) else last
        busy = _busy(since, np.maximum(last, since), dark[1])
        busy -= _busy(since, np.maximum(last, since), dark[0])
        total += ranks * (dark[1] - dark[0] - busy)
    return total


def _busy(
    begin: NDArray[np.int64], end: NDArray[np.int64], time: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Ticks in intervals, one after the other, until each time."""
    if not len(begin):
        return np.zeros(len(time), dtype=np.int64)
    before = starts_of(end - begin)
    last = np.searchsorted(begin, time, side="right") - 1
    inside = np.minimum(time, end[last]) - begin[last]
    return np.where(last < 0, 0, before[last] + inside).astype(np.int64)


def is_change(done: JobRun) -> NDArray[np.bool_]:
    """Which nodes of a run are changes of circuits (bool, nodes); none in other jobs."""
    graph = done.graph
    if graph.labels[-1] != CHANGE:
        return np.zeros(graph.num_nodes, dtype=bool)
    changes: NDArray[np.bool_] = graph.label == len(graph.labels) - 1
    return changes
