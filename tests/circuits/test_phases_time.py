"""Times with dead times, break-even dead times and messages: exact, and the published example."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocs_codesign.circuits.change import OpenRange, merged
from ocs_codesign.circuits.phases import break_even_delta_s, paying_messages
from ocs_codesign.core.cost import Cost, CostModel
from ocs_codesign.graphs.families.shifts import GeneralizedKautz

costs = st.builds(
    Cost, st.integers(0, 30), st.fractions(min_value=0, max_value=9, max_denominator=40)
)
FREE = CostModel(0.0, 4 * 12.5e9)


def switched(steps, t_b, number):
    return Cost(steps, Fraction(t_b), number)


@pytest.mark.parametrize(
    ("mebibytes", "microseconds"), [(1, "2.36"), (16, "37.7"), (64, "151"), (256, "604")]
)
def test_break_even_of_64_nodes_by_hop_counts(mebibytes, microseconds):
    """16 direct configurations, 15 changes, against the hops of the farthest node of a generalized
    Kautz digraph; four ports of 100 Gb/s."""
    hops = int(GeneralizedKautz(4, 64).topology().distances().sum(axis=1).max())
    static = switched(3, Fraction(hops, 64), 1)
    direct = switched(16, Fraction(63, 64), 16)
    found = break_even_delta_s([static], direct, FREE, mebibytes * 2**20)
    assert float(found) * 1e6 == pytest.approx(float(microseconds), rel=2e-3)
    faster = CostModel(0.0, 4 * 50e9)
    assert break_even_delta_s([static], direct, faster, mebibytes * 2**20) == found / 4


def test_time_adds_up():
    one = switched(4, "3/2", 3)
    model = CostModel(1e-6, 1e9)
    assert one.time_s(model, 2_000_000, 1e-3) == Fraction(4, 10**6) + Fraction(3, 1000) + Fraction(
        2, 1000
    )
    cold = one.time_s(model, 2_000_000, 1e-3, cold_start=True)
    assert cold - one.time_s(model, 2_000_000, 1e-3) == Fraction(1, 1000)
    assert switched(4, "3/2", 1).time_s(model, 0, 1) == Fraction(4, 10**6)


@given(costs, costs, st.integers(2, 9), st.integers(1, 10**9))
def test_at_the_break_even_both_take_as_long(static, other, number, message):
    model = CostModel(3e-6, 1e9)
    mine, theirs = replace(other, num_configurations=number), static
    delta = break_even_delta_s([theirs], mine, model, message)
    if delta >= 0:
        assert mine.time_s(model, message, delta) == theirs.time_s(model, message, delta)


@given(st.lists(costs, min_size=1, max_size=3), costs, st.integers(2, 5), st.integers(0, 50))
def test_messages_that_pay_are_those_with_less_time(static, other, number, micros):
    model, delta = CostModel(2e-6, 1e9), Fraction(micros, 10**6)
    fixed, mine = static, replace(other, num_configurations=number)
    found = paying_messages(fixed, mine, model, delta)
    for message in (1, 100, 5_000, 20_000, 100_000, 10**7, 10**12):
        least = min(one.time_s(model, message, delta) for one in fixed)
        pays = mine.time_s(model, message, delta) < least
        inside = found is not None and (
            found.begin < message and (found.end is None or message < found.end)
        )
        assert pays == inside
    if found is not None and found.begin:
        edge = min(one.time_s(model, found.begin, delta) for one in fixed)
        assert mine.time_s(model, found.begin, delta) == edge


@given(st.lists(st.tuples(st.integers(0, 20), st.one_of(st.none(), st.integers(1, 9))), max_size=5))
def test_merged_ranges_hold_the_same_sizes(spans):
    ranges = [
        OpenRange(Fraction(a), None if more is None else Fraction(a + more)) for a, more in spans
    ]
    found = merged(ranges)
    for eighths in range(1, 280, 2):
        size = Fraction(eighths, 8)

        def holds(one, size=size):
            return one.begin < size and (one.end is None or size < one.end)

        assert any(map(holds, ranges)) == any(map(holds, found))
    for left, right in pairwise(found):
        assert left.end is not None
        assert left.end < right.begin


def test_refusals():
    one, other = switched(1, 1, 1), switched(1, 1, 2)
    with pytest.raises(ValueError, match="0 configurations: at least 1"):
        switched(1, 1, 0)
    with pytest.raises(ValueError, match="delta_s is -1: a time cannot be negative"):
        one.time_s(FREE, 1, -1)
    with pytest.raises(ValueError, match="delta_s is -1: a time cannot be negative"):
        paying_messages([one], other, FREE, -1)
    with pytest.raises(ValueError, match="message_bytes is nan: it must be finite"):
        break_even_delta_s([one], other, FREE, float("nan"))
    with pytest.raises(ValueError, match="1 configurations against 1"):
        break_even_delta_s([one], one, FREE, 1)
    with pytest.raises(ValueError, match="nothing to compare with"):
        break_even_delta_s([], other, FREE, 1)
