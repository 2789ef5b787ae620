"""Traces as jobs: collectives of all ranks one after the other, with computation between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ocs_codesign.workload.job_draft import JobDraft
from ocs_codesign.workload.job_graph import NANOSECOND

if TYPE_CHECKING:
    from ocs_codesign.reconfigure.hold.trace import Trace
    from ocs_codesign.workload.job_graph import JobGraph

MAX_STEPS = 200_000


def chain_of(trace: Trace, num_ranks: int) -> JobGraph:
    """The job of a trace whose collectives are over so many ranks, one class of them.

    A gap is a computation, in whole picoseconds; M is rounded up to bytes. Raises ValueError for
    more than 200,000 collectives, repetitions counted.

    >>> from ocs_codesign.reconfigure.hold.trace import Job, Trace
    >>> chain = chain_of(Trace([Job("allreduce", 8, gap_before_s=1)], repeat=2), 4)
    >>> chain.num_nodes, chain.size_bytes.tolist()
    (4, [0, 8, 0, 8])
    """
    if trace.num_jobs > MAX_STEPS:
        raise ValueError(f"{trace.num_jobs} collectives: at most {MAX_STEPS} are simulated")
    steps = trace.steps()
    draft = JobDraft(1, [num_ranks], NANOSECOND / 1000)
    last: list[int] = []
    for row in steps.rows.tolist():
        demand = steps.demands[row]
        if demand.gap_s:
            ticks = round(demand.gap_s / draft.tick_s)
            last = [draft.compute(0, ticks, last, label="computation")]
        name = demand.collective.name
        last = draft.collective(
            *(name, (0,), -(-demand.message_bytes // 1), {0: last}),
            num_ranks=num_ranks,
            between=(0, num_ranks - 1),
            label=name,
        )
    return draft.graph()
