"""Policies of communication: known periods, exact, and what no policy can do."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocs_codesign.jobs.issue import (
    Discipline,
    RanksStuckError,
    needed_at,
    period_bound_s,
    run,
    steady,
)
from ocs_codesign.jobs.job_draft import JobDraft
from ocs_codesign.jobs.layers import LayerTimes
from ocs_codesign.jobs.policies import POLICIES, best_of, compare_policies
from ocs_codesign.jobs.rewriting import (
    ALLREDUCE,
    buckets_of_work,
    cheapest_buckets,
    cut,
    decoupled,
    gradients,
    merged,
)

CASES = {
    "A": ([10] * 3, [20] * 3, [40, 20, 30]),
    "B": ([10] * 4, [20] * 4, [25] * 4),
    "C": ([10] * 3, [20] * 3, [10, 10, 90]),
    "D": ([10] * 3, [20] * 3, [90, 10, 10]),
}
KNOWN = {
    "A": ("180", "140", "140", "140", "130", "140", "135"),
    "B": ("220", "160", "160", "160", "145", "154", "305/2"),
    "C": ("200", "160", "150", "150", "140", "162", "140"),
    "D": ("200", "180", "180", "180", "180", "198", "180"),
}


@pytest.mark.parametrize("case", CASES)
def test_known_periods(case):
    serial, fifo, lifo, priority, sliced, with_overhead, dear = map(Fraction, KNOWN[case])
    found = {
        one.name: one.steady.period_s
        for one in compare_policies(LayerTimes(*CASES[case]).graph(), None, 5)
    }
    assert found["serial"] == serial
    assert found["fifo"] == fifo
    assert found["lifo"] == lifo
    assert found["priority"] == found["tictac"] == priority
    assert found["p3"] == sliced
    assert found["dear"] == dear
    overhead = LayerTimes(*CASES[case], latency_s=1).graph()
    assert best_of("p3", overhead, Fraction(5)).steady.period_s == with_overhead
    assert found["bytescheduler"] == found["p3"]
    assert found["pace"] <= found["p3"]


def test_a_window_hides_the_overhead_of_slices():
    """Case D: 18 slices of 5 + 1 for the first layer; in flight together they cost one more."""
    job = LayerTimes(*CASES["D"], latency_s=1).graph()
    found = best_of("bytescheduler", job, Fraction(5))
    assert (found.steady.period_s, found.setting) == (181, "slices of 5 s, 2 in flight")


def test_merging_saves_latencies():
    """Ten tensors of 1 with a latency of 10 each: one after the other 110 after the first."""
    job = LayerTimes([1] * 10, [1] * 10, [1] * 10, 10).graph()
    found = {one.name: one.steady.period_s for one in compare_policies(job)}
    assert found["fifo"] == 1 + 110 + 10
    assert found["ddp"] == 10 + 20 + 10
    assert found["pace"] <= found["ddp"]
    assert cheapest_buckets(job).tolist().count(0) >= 9


times = st.integers(0, 12)


@st.composite
def layers(draw):
    num = draw(st.integers(1, 5))
    columns = [draw(st.lists(times, min_size=num, max_size=num)) for _ in range(3)]
    columns[0][0] += 1
    scale = draw(st.sampled_from([Fraction(1), Fraction(1, 3), Fraction(5, 7)]))
    return LayerTimes(
        *([scale * time for time in column] for column in columns), draw(times) * scale
    )


@given(layers(), st.sampled_from(sorted(POLICIES)))
def test_no_policy_beats_the_bound_and_none_that_sends_whole_is_worse_than_serial(model, name):
    job = model.graph()
    found = best_of(name, job)
    period = found.steady.period_s
    assert found.steady.is_steady
    assert period >= found.bound_s
    if name not in ("ooo", "decompose"):
        assert found.bound_s == period_bound_s(job) >= model.bound_s
    # One stream each, work-conserving: at any time one of both is busy, so all of it is enough.
    serial = best_of("serial", job).steady.period_s
    total = sum(model.forward_s + model.backward_s + model.allreduce_s)
    assert serial == total + model.num_layers * model.latency_s
    if name in ("fifo", "lifo", "priority", "tictac", "pace", "ddp", "dear", "p3", "bytescheduler"):
        assert period <= serial


@given(layers())
def test_rewriting_keeps_the_work(model):
    job = model.graph()
    whole = int(job.work[gradients(job)].sum())
    seconds = whole * job.tick_s
    for slices in (1, 2, 5):
        sliced = cut(job, slices)
        assert sliced.work[gradients(sliced)].sum() == whole
        assert sliced.work[gradients(sliced)].max() <= slices
    halves = decoupled(job)
    assert halves.work[gradients(halves)].sum() * halves.tick_s == seconds
    assert not (halves.kind == ALLREDUCE).any()
    assert run(halves).total_s >= 0
    for bucket in (buckets_of_work(job, 9), cheapest_buckets(job)):
        fused = merged(job, bucket)
        assert fused.work[gradients(fused)].sum() == whole
        assert len(np.unique(fused.instance[gradients(fused)])) <= model.num_layers


def test_ranks_of_their_own_do_as_their_class():
    """Case C on three ranks that are written out: the same periods under every policy."""
    forward, backward, allreduce = CASES["C"]
    draft = JobDraft(3, tick_s=Fraction(1))
    owners = range(3)
    down = [[draft.compute(one, 20, priority=-layer) for layer in range(3)] for one in owners]
    up = [[draft.compute(one, 10, priority=10 + layer) for layer in range(3)] for one in owners]
    for one in owners:
        draft.in_turn(down[one] + up[one])
        draft.carry(up[one][-1], down[one][0])
    for layer in range(3):
        after = {one: [down[one][2 - layer]] for one in owners}
        ends = draft.collective(
            *("allreduce", owners, 9, after), work=allreduce[layer], priority=100 + layer,
            is_gradient=True,
        )  # fmt: skip
        for one in owners:
            draft.wait(up[one][layer], ends[one])
    job = draft.graph()
    alone = LayerTimes(forward, backward, allreduce).graph()
    assert period_bound_s(job) == period_bound_s(alone) == 140
    for name in POLICIES:
        both = [best_of(name, each, Fraction(5)).steady.period_s for each in (job, alone)]
        assert both[0] == both[1], name


def test_all_to_all_goes_first_where_the_policy_says_so():
    draft = JobDraft(1, [4], Fraction(1))
    begin = draft.compute(0, 1)
    (sums,) = draft.collective(
        "allreduce", (0,), 8, {0: [begin]}, num_ranks=4, work=10, priority=1, is_gradient=True
    )
    more = draft.compute(0, 1, [begin])
    (swap,) = draft.collective("alltoall", (0,), 8, {0: [more]}, num_ranks=4, work=10, priority=2)
    last = draft.compute(0, 10, [swap])
    draft.wait(draft.compute(0, 0, [last]), sums)
    job = draft.graph()
    assert best_of("fifo", job).steady.period_s == 31
    assert best_of("lina", job, Fraction(1)).steady.period_s == 22


def test_what_policies_refuse():
    job = LayerTimes([1], [1], [1]).graph()
    with pytest.raises(ValueError, match="'fastest' is no policy: they are serial, fifo"):
        compare_policies(job, ("fastest",))
    with pytest.raises(ValueError, match="slice_s is 0"):
        compare_policies(job, None, 0)
    with pytest.raises(ValueError, match="slices of 0 ticks"):
        cut(job, 0)
    with pytest.raises(ValueError, match="at least one message is in flight"):
        Discipline(window=0)
    with pytest.raises(ValueError, match="one backward and one of the allreduce"):
        LayerTimes([1], [1], [1, 2])
    with pytest.raises(ValueError, match="all layers take 0 s"):
        LayerTimes([0], [0], [0])
    with pytest.raises(ValueError, match="backward_s is -1: a time cannot be negative"):
        LayerTimes([1], [-1], [0])


def test_exposed_time_of_a_period():
    found = steady(LayerTimes(*CASES["A"]).graph())
    assert (found.is_steady, found.exposed_s) == (True, 50)


def test_messages_between_stages_are_needed_by_who_receives_them():
    """A gradient that the next iteration needs waits for the message that a stage waits for now."""
    draft = JobDraft(2, tick_s=Fraction(1))
    begin = draft.compute(0, 1)
    (sums,) = draft.collective(
        "allreduce", (0,), 8, {0: [begin]}, num_ranks=2, work=10, priority=1, is_gradient=True
    )
    sent, received = draft.send(0, 1, 8, [begin], work=10, priority=5)
    draft.carry(draft.compute(1, 10, [received]), begin)
    draft.carry(sums, begin)
    job = draft.graph()
    needed = needed_at(job)
    assert needed[sent] == needed[received] < needed[sums]
    assert best_of("tictac", job).steady.job_run.start[sent] == 1


def test_policies_under_which_ranks_wait_for_ever_are_left_out():
    """Two sums become ready in another order at each rank: the last first is another one."""
    draft = JobDraft(2, tick_s=Fraction(1))
    begin = [draft.compute(rank, 1) for rank in (0, 1)]
    later = [draft.compute(rank, 1, [begin[rank]]) for rank in (0, 1)]
    draft.collective("allreduce", (0, 1), 8, {0: begin[:1], 1: later[1:]}, work=5)
    draft.collective("allgather", (0, 1), 8, {0: later[:1], 1: begin[1:]}, work=5)
    job = draft.graph()
    with pytest.raises(RanksStuckError, match="wait for each other for ever"):
        compare_policies(job, ("fifo",))
    found = {one.name: one.steady.period_s for one in compare_policies(job)}
    assert "fifo" not in found
    assert found["pace"] == 12


def test_a_job_that_sends_nothing_takes_the_same_under_every_policy():
    draft = JobDraft(1, tick_s=Fraction(1))
    draft.carry(draft.compute(0, 3), 0)
    found = compare_policies(draft.graph())
    assert [one.name for one in found] == list(POLICIES)
    assert {one.steady.period_s for one in found} == {3}
