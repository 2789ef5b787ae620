"""Changes of circuits in a run: when they are, and when ranks do nothing but wait for them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.runs import starts_of
from ocs_codesign.workload.job_graph import COMPUTE
from ocs_codesign.workload.reconfigured.inserting import CHANGE, cuts_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.workload.issue import JobRun
    from ocs_codesign.workload.reconfigured.clock import SwitchedIteration
    from ocs_codesign.workload.reconfigured.prices import ConfiguredJob


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
