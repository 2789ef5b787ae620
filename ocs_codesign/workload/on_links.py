"""A job on links: every message as transfers that queue at the links of a network."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.kernels import for_work
from ocs_codesign.workload.issue import Discipline, JobRun, issue_columns, raise_stuck
from ocs_codesign.workload.job_draft import JobDraft
from ocs_codesign.workload.job_graph import JobGraph
from ocs_codesign.workload.link_kernels import run_job_on_links
from ocs_codesign.workload.period import Steady, period_bound_s, steady
from ocs_codesign.workload.placed import PlacedMessages

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_LANES = 6
_ROUNDS_A_NODE, _ROUNDS_A_HOP = 12, 10


@final
@dataclass(frozen=True, slots=True, eq=False)
class LinkRun:
    """A job that ran on links: ``job_run``, and what the links of ``placed`` did.

    ``waited`` (int64, links) and ``waited_of`` (int64, instances) are ticks that hops waited behind
    those of other messages. Bars are what the ``lanes``, the busiest links, sent: a link, from when
    until when, and for which instance.
    """

    job_run: JobRun
    placed: PlacedMessages
    shape_of: NDArray[np.int64]
    waited: NDArray[np.int64]
    waited_of: NDArray[np.int64]
    lanes: NDArray[np.int64]
    bar_link: NDArray[np.int64]
    bar_begin: NDArray[np.int64]
    bar_end: NDArray[np.int64]
    bar_instance: NDArray[np.int64]

    def link_busy(self) -> NDArray[np.int64]:
        """Ticks that every link sends."""
        return self.placed.link_ticks(self.shape_of)

    def instance_ticks(self) -> NDArray[np.int64]:
        """Ticks from the begin to the end of every instance."""
        run = self.job_run
        ticks = np.zeros(run.graph.num_instances, dtype=np.int64)
        np.add.at(ticks, run.piece_instance, run.piece_end - run.piece_begin)
        return ticks


def on_clock(graph: JobGraph, tick_s: Fraction) -> JobGraph:
    """The job in ticks of a network's clock; what is no whole number of them is rounded up.

    >>> draft = JobDraft(1)
    >>> node = draft.compute(0, 3)
    >>> on_clock(draft.graph(), Fraction(2, 10**9)).work.tolist()
    [2]
    """
    work, latency = (
        in_ticks(column, graph.tick_s, tick_s) for column in (graph.work, graph.latency)
    )
    return graph.changed(work=work, latency=latency, tick_s=tick_s)


def in_ticks(column: NDArray[np.int64], from_s: Fraction, tick_s: Fraction) -> NDArray[np.int64]:
    """Ticks of ``from_s`` seconds in those of ``tick_s``, rounded up, shape of ``column``."""
    over, under = (from_s / tick_s).as_integer_ratio()
    found = [-(-ticks * over // under) for ticks in column.ravel().tolist()]
    return np.array(found, dtype=np.int64).reshape(column.shape)


def run_on_links(
    graph: JobGraph, placed: PlacedMessages, discipline: Discipline | None = None
) -> LinkRun:
    """The job on the clock of a network, one iteration, or several that are ``unrolled``.

    Messages begin by the discipline as ``issue.run`` has it, when all their ranks have them in
    flight, and are over when their last transfer has ended; links serve hops in the order in which
    they ask, of whatever message. Raises ValueError for preemption, and RanksStuckError if ranks
    wait for each other for ever.
    """
    discipline = discipline or Discipline()
    if discipline.preemptive:
        raise ValueError("what is sent over links is not interrupted")
    if graph.tick_s != placed.network.tick_s:
        raise ValueError("the job is in other ticks than the network")
    num, links = graph.num_nodes, placed.network.num_links
    times = graph.num_instances // max(len(placed.shape_of), 1)
    shape_of = np.tile(placed.shape_of, times)
    if len(shape_of) != graph.num_instances:
        raise ValueError("these are not the messages of this job")
    window = discipline.window
    column = placed.column.copy()
    column[:, 0] *= window
    num_states = window * int(column[:, 1].sum())
    total = placed.link_ticks(shape_of)
    lanes = np.argsort(-total, kind="stable")[:MAX_LANES]
    lanes = lanes[total[lanes] > 0]
    hops = placed.link_hops(shape_of)
    lane_of = np.full(links, -1, dtype=np.int64)
    lane_of[lanes] = np.arange(len(lanes))
    bars = np.zeros((4, int(hops[lanes].sum()) + 1), dtype=np.int64)
    start, end = np.full((2, num), -1, dtype=np.int64)
    pieces = np.zeros((3, graph.num_instances + 1), dtype=np.int64)
    waited, waited_of = np.zeros(links, np.int64), np.zeros(graph.num_instances, np.int64)
    rules = placed.rules
    kind, owner, *columns = issue_columns(graph)
    rounds = _ROUNDS_A_NODE * num + _ROUNDS_A_HOP * int(hops.sum())
    ended, num_pieces, num_bars = for_work(run_job_on_links, rounds)(
        *(kind, owner, graph.ticks, *columns),
        *(discipline.order.value, window, discipline.exclusive, start, end, *pieces),
        *(shape_of, column, *placed.columns),
        *(rules.blocking, rules.cut_through, rules.pipelined, num_states),
        *(np.zeros(links, dtype=np.int64), waited, waited_of, lane_of, *bars),
    )
    if ended < num:
        raise_stuck(graph, end)
    done = JobRun(graph, start, end, *(part[:num_pieces] for part in pieces))
    return LinkRun(
        *(done, placed, shape_of, waited, waited_of, lanes),
        *(part[:num_bars] for part in bars),
    )


def steady_on_links(
    graph: JobGraph, placed: PlacedMessages, discipline: Discipline | None = None
) -> tuple[Steady, LinkRun]:
    """The period of iterations on links one after the other, and the run that shows it."""
    runs: list[LinkRun] = []

    def run_once(several: JobGraph, chosen: Discipline | None) -> JobRun:
        runs.append(run_on_links(several, placed, chosen))
        return runs[-1].job_run

    return steady(graph, discipline, run_once), runs[-1]


def alone_ticks(placed: PlacedMessages) -> NDArray[np.int64]:
    """Ticks that a message of every shape takes if nothing else is on the links (int64, shapes)."""
    num = len(placed.column)
    if not num:
        return np.zeros(0, dtype=np.int64)
    draft, last = JobDraft(1, tick_s=placed.network.tick_s), list[int]()
    for _ in range(num):
        last = draft.collective("allreduce", (0,), 0, {0: last})
    in_turn = replace(placed, shape_of=np.arange(num))
    return run_on_links(draft.graph(), in_turn).instance_ticks()


def bound_on_links_s(graph: JobGraph, placed: PlacedMessages) -> Fraction:
    """Seconds that an iteration takes at least on these links, in whatever order is sent.

    That of ``period_bound_s``, where a message takes what its busiest link sends, and what the
    busiest link of all sends in an iteration.
    """
    shape = np.append(placed.shape_of, -1)[graph.instance]
    least = np.append(placed.busiest, 0)[shape]
    on_links = (shape >= 0) & graph.is_communication
    bounded = graph.changed(
        work=np.where(on_links, least, graph.work), latency=np.where(on_links, 0, graph.latency)
    )
    busiest = int(placed.link_ticks().max(initial=0)) * placed.network.tick_s
    return max(period_bound_s(bounded), busiest)
