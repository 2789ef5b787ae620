"""Fused operators: known times, remote-first order, and when fusing cannot pay."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocs_codesign.core.cost import CostModel
from ocs_codesign.jobs.fused import OPERATORS, Accelerator, FusedOperator, fused_nodes, operator_of
from ocs_codesign.jobs.issue import run
from ocs_codesign.jobs.job_draft import JobDraft

KNOWN = [
    ((64, 16, 10, Fraction(1, 2)), 72, 48),
    ((64, 16, 10, 1), 104, 74),
    ((64, 16, 4, 1), 80, 68),
    ((60, 16, 10, 1), 100, 70),
    ((128, 32, 5, Fraction(1, 4)), 52, 37),
    ((8, 8, 10, 1), 18, 18),
]


@pytest.mark.parametrize(("numbers", "unfused", "fused"), KNOWN)
def test_known_times(numbers, unfused, fused):
    operator = FusedOperator(*numbers)
    assert (operator.unfused_s, operator.fused_s()) == (unfused, fused)


def test_remote_ones_go_first():
    operator = FusedOperator(64, 16, 10, 1, num_remote=48)
    given_order = [False] * 16 + [True] * 48
    assert (operator.unfused_s, operator.fused_s(given_order), operator.fused_s()) == (88, 68, 58)
    with pytest.raises(ValueError, match="the order has 64 workgroups, 64 of them remote"):
        operator.fused_s([True] * 64)


operators = st.builds(
    lambda groups, at_a_time, share, *times: FusedOperator(
        *(groups, at_a_time, times[0], times[1], times[2]), num_remote=groups * share // 8
    ),
    *(st.integers(1, 40), st.integers(1, 12), st.integers(0, 8)),
    *(st.fractions(0, 10, max_denominator=4) for _ in range(3)),
)


@given(operators, st.randoms(use_true_random=False))
def test_no_order_is_better_than_remote_first(operator, random):
    order = [place < operator.num_remote for place in range(operator.num_workgroups)]
    random.shuffle(order)
    best = operator.fused_s()
    assert operator.bound_s <= best <= operator.fused_s(order) <= operator.unfused_s
    latency_s = operator.alpha_s if operator.num_remote else 0
    assert 2 * (best - latency_s) >= operator.unfused_s - latency_s
    if operator.num_waves == 1:
        assert best == operator.unfused_s


@given(operators)
def test_all_remote_is_the_closed_form(operator):
    numbers = operator.num_workgroups, operator.num_at_a_time, operator.workgroup_s
    whole = FusedOperator(*numbers, operator.slice_s, operator.alpha_s)
    last = (whole.num_workgroups - 1) % whole.num_at_a_time + 1
    begin = whole.workgroup_s + whole.num_workgroups * whole.slice_s
    end = whole.num_waves * whole.workgroup_s + last * whole.slice_s
    assert whole.fused_s() == max(begin, end) + whole.alpha_s


@given(operators)
def test_as_nodes_of_a_job_it_takes_the_same(operator):
    draft = JobDraft(1, [4], Fraction(1, 12))
    fused_nodes(draft, 0, operator, 4)
    assert run(draft.graph()).total_s == operator.fused_s()


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_pay_where_there_are_several_waves(name):
    processor, model = Accelerator(312e12, 2e12), CostModel(1e-6, 50e9)
    saved = [
        operator_of(name, size, 8, processor, model, slowdown=0.01).saved
        for size in (256, 4096, 16384)
    ]
    assert saved[0] <= 0 < saved[2] < Fraction(1, 2)


def test_what_is_refused():
    processor, model = Accelerator(1e12, 1e12), CostModel(0, 1)
    with pytest.raises(ValueError, match="'gemx' is no fused operator"):
        operator_of("gemx", 1024, 8, processor, model)
    with pytest.raises(ValueError, match="1 ranks and a size of 1024"):
        operator_of("gemm", 1024, 1, processor, model)
    with pytest.raises(ValueError, match="num_remote is 9: it is from 0 to 8"):
        FusedOperator(8, 8, 1, 1, num_remote=9)
    with pytest.raises(ValueError, match="slowdown is -1"):
        FusedOperator(8, 8, 1, 1, slowdown=-1)
    with pytest.raises(ValueError, match="num_workgroups is 0"):
        FusedOperator(0, 8, 1, 1)
    with pytest.raises(ValueError, match="a place for a workgroup"):
        Accelerator(0, 1)
