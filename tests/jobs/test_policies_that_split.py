"""Policies that split computation, or groups by level: periods that can be counted by hand."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from ocs_codesign.core.cost import CostModel
from ocs_codesign.jobs.issue import run, steady
from ocs_codesign.jobs.job_draft import JobDraft
from ocs_codesign.jobs.job_graph import COMPUTE, KINDS
from ocs_codesign.jobs.layers import LayerTimes
from ocs_codesign.jobs.policies import best_of, by_levels
from ocs_codesign.jobs.prices import Level, Machine, priced
from ocs_codesign.jobs.rewriting import interleaved, out_of_order

CASES = {
    "A": ([10] * 3, [20] * 3, [40, 20, 30]),
    "C": ([10] * 3, [20] * 3, [10, 10, 90]),
    "D": ([10] * 3, [20] * 3, [90, 10, 10]),
}


@pytest.mark.parametrize(
    ("case", "periods"),
    [
        # Halves of 10. A: with the weights of the first two layers last, 1 before 2, gradients are
        # ready at 20, 60 and 50: sent 20 to 50, 50 to 90 and 90 to 110, so forward ends at 130.
        ("A", {0: 140, 1: 140, 2: 130, 3: 140}),
        ("C", {0: 150, 2: 150, 3: 160}),
        # D: all input gradients by 30, the first weights by 40, sent until 130, then forward.
        ("D", {0: 180, 2: 170, 3: 160}),
    ],
)
def test_weights_behind_inputs(case, periods):
    job = LayerTimes(*CASES[case]).graph()
    for delayed, period in periods.items():
        moved = out_of_order(job, delayed)
        assert moved.work[moved.kind == COMPUTE].sum() == job.work[job.kind == COMPUTE].sum()
        assert steady(moved).period_s == period
    assert best_of("ooo", job).steady.period_s == min(periods.values())


def test_halves_of_odd_ticks_and_ranks_of_their_own_are_delayed_alike():
    job = LayerTimes([1], [3], [2]).graph()
    moved = out_of_order(job, 1)
    assert (moved.tick_s, moved.work.tolist()) == (Fraction(1, 2), [3, 3, 2, 4])
    nothing = JobDraft(1)
    nothing.compute(0, 3)
    alone = out_of_order(nothing.graph(), 1)
    assert alone.work.tolist() == [3]


def matmul(kinds, work=40, compute=40):
    """A gather, a matmul and a reduction of two ranks, those of them that are asked for."""
    draft = JobDraft(2, tick_s=Fraction(1))
    last = {rank: list[int]() for rank in range(2)}
    for kind in kinds:
        if kind == "compute":
            nodes = [draft.compute(rank, compute, last[rank]) for rank in range(2)]
        else:
            nodes = draft.collective(kind, range(2), 8, last, work=work)
        last = {rank: [node] for rank, node in enumerate(nodes)}
    return draft.graph()


@pytest.mark.parametrize(
    ("kinds", "chunks", "total"),
    [
        # The last chunk of a matmul follows the last gathered, and is followed by a last sum.
        (("allgather", "compute"), 1, 80),
        (("allgather", "compute"), 4, 50),
        (("compute", "reduce-scatter"), 4, 50),
        # Gathers take the channel first, 40; then four sums of 10.
        (("allgather", "compute", "reduce-scatter"), 4, 80),
        (("allgather", "compute", "reduce-scatter"), 1, 120),
        (("allreduce", "compute"), 4, 80),
        # Thirds of 13, 13 and 14: gathered at 40, and 14 more.
        (("allgather", "compute"), 3, 54),
    ],
)
def test_matmuls_beside_their_collectives(kinds, chunks, total):
    job = matmul(kinds)
    divided = interleaved(job, chunks)
    assert divided.work.sum() == job.work.sum()
    assert run(divided).total_ticks == total
    with pytest.raises(ValueError, match="num_chunks is 0"):
        interleaved(job, 0)


def test_decomposition_pays_latencies_and_leaves_gradients_whole():
    job = matmul(("allgather", "compute"))
    slow = job.changed(latency=np.where(job.kind == COMPUTE, 0, 30))
    # Two chunks: 50 and 50, the matmul's last half behind; four: 40 each.
    assert run(interleaved(slow, 2)).total_ticks == 120
    assert run(interleaved(slow, 4)).total_ticks == 170
    best = best_of("decompose", slow)
    assert (best.setting, best.steady.period_s) == ("whole", 110)
    whole = job.changed(is_gradient=job.kind != COMPUTE)
    assert interleaved(whole, 4).num_nodes == job.num_nodes


def two_levels(num_ranks=4, block=2):
    inside, across = CostModel(0, 4), CostModel(0, 1)
    return Machine((Level(block, inside), Level(num_ranks, across)))


def test_an_allreduce_level_by_level():
    """M = 8 on blocks of two: half of it inside at 4, half of it across at 1, and inside again."""
    machine = two_levels()
    draft = JobDraft(4)
    last = [draft.compute(rank, 10**9) for rank in range(4)]
    after = {rank: [node] for rank, node in enumerate(last)}
    draft.collective("allreduce", range(4), 8, after, is_gradient=True)
    job = priced(draft.graph(), machine)
    assert run(job).total_s == 1 + 12
    levels = by_levels(job, machine)
    assert run(levels).total_s == 1 + 1 + 4 + 1
    groups = {
        (KINDS[levels.kind[node]], levels.size_bytes[node], levels.first_rank[node],
         levels.last_rank[node])
        for node in np.flatnonzero(levels.is_communication)
    }  # fmt: skip
    assert groups == {
        ("reduce-scatter", 8, 0, 1), ("reduce-scatter", 8, 2, 3),
        ("allreduce", 4, 0, 2), ("allreduce", 4, 1, 3),
        ("allgather", 8, 0, 1), ("allgather", 8, 2, 3),
    }  # fmt: skip
    found = best_of("centauri", job, machine=machine)
    assert (found.steady.period_s, found.setting) == (7, "levels, slices of 4 s")
    assert found.bound_s == 7
    assert best_of("centauri", job).steady.period_s == 13


def test_a_class_is_divided_as_its_ranks():
    machine = two_levels()
    draft = JobDraft(1, [4])
    draft.collective("allreduce", (0,), 8, {}, num_ranks=4, between=(0, 3))
    job = priced(draft.graph(), machine)
    levels = by_levels(job, machine)
    assert levels.num_nodes == 3
    assert run(levels).total_s == 6
    assert levels.group_size[levels.group].tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    ("ranks", "block"),
    [
        ((0, 1), 2),  # it stays inside a block
        ((0, 2), 2),  # a rank in each
        ((0, 1, 2), 2),  # two in one block and one in the other
    ],
)
def test_groups_that_levels_do_not_divide_stay_whole(ranks, block):
    machine = two_levels(4, block)
    draft = JobDraft(4)
    draft.collective("allreduce", ranks, 8, {})
    job = priced(draft.graph(), machine)
    assert by_levels(job, machine) is job
    times = JobDraft(4)
    times.collective("allreduce", range(4), 0, {}, work=5)
    assert by_levels(times.graph(), machine).num_nodes == 4
