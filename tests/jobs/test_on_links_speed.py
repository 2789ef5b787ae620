"""Large jobs, by the formula and on links."""

from __future__ import annotations

from fractions import Fraction

import pytest

from ocs_codesign.core.cost import CostModel
from ocs_codesign.core.networks.builders import star
from ocs_codesign.jobs.issue import run
from ocs_codesign.jobs.job_draft import JobDraft
from ocs_codesign.jobs.on_links import LinkPlans, on_clock, placed, run_on_links
from ocs_codesign.jobs.prices import Level, Machine, priced
from ocs_codesign.schedules.simulate.transfers import TimingRules

MIB = 2**20


@pytest.mark.slow
def test_a_hundred_thousand_nodes_of_a_thousand_ranks():
    num_ranks = 1024
    draft = JobDraft(num_ranks)
    last = [list[int]() for _ in range(num_ranks)]
    for layer in range(33):
        last = [
            [draft.compute(rank, 1000 + 37 * (rank * 7 + layer) % 8000, nodes)]
            for rank, nodes in enumerate(last)
        ]
        inner = [range(first, first + 8) for first in range(0, num_ranks, 8)]
        across = [range(first, num_ranks, 8) for first in range(8)]
        for name, groups in (("allreduce", inner), ("allgather", across)):
            for group in groups:
                after = {rank: last[rank] for rank in group}
                nodes = draft.collective(name, group, MIB, after)
                for rank, node in zip(group, nodes, strict=True):
                    last[rank] = [node]
    levels = Level(8, CostModel(1e-6, 4e11)), Level(num_ranks, CostModel(5e-6, 5e10))
    graph = priced(draft.graph(), Machine(levels))
    assert graph.num_nodes > 100_000
    assert run(graph).total_s > 0
    network = star(num_ranks, 50).with_latency(2500)
    ticked = on_clock(graph, network.tick_s)
    on = placed(ticked, network, TimingRules(unit_Bps=Fraction(10**9)), LinkPlans(Machine(levels)))
    assert on.num_transfers > 4 * 10**6
    found = run_on_links(ticked, on).job_run
    assert found.total_s > 0
