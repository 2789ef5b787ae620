"""Bounds of demand plans never exceed an optimum, and where they should be tight they are."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from demand_oracle import KNOWN, mixed, ticks_of
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from ocs_codesign.circuits.demand.search import (
    least_times,
    line_bound,
    makespan_bound,
    potentials,
    price_bound,
    relaxation_bound,
    search,
)

FAR = Fraction(10**6)


def always(_):
    return True


def optimum(ticks, switches=1):
    answer = search(ticks, switches, FAR, always)
    assert answer.is_complete
    return answer.bound


small_ticks = st.builds(
    ticks_of,
    st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), min_size=3, max_size=3).filter(
        np.any
    ),
    st.integers(0, 6),
)


@settings(max_examples=100)
@given(small_ticks, st.integers(1, 3))
def test_lines_bound_every_plan(ticks, switches):
    assert line_bound(ticks, switches) <= optimum(ticks, switches)


@settings(max_examples=60)
@given(small_ticks, st.lists(st.floats(0, 4), min_size=9, max_size=9))
def test_any_prices_bound_every_plan(ticks, prices):
    assert price_bound(ticks, np.array(prices).reshape(3, 3)) <= optimum(ticks)


@settings(max_examples=25)
@given(small_ticks)
def test_the_best_prices_are_between_line_and_plan(ticks):
    """What a line needs alone is proven by prices of its entries."""
    needed = ticks.demand + ticks.setup * (ticks.demand > 0)
    line = int(max(needed.sum(0).max(), needed.sum(1).max()))
    bound = relaxation_bound(ticks, np.empty((0, 3), dtype=np.int64), 0.0, always)
    assert Fraction(99, 100) * line <= bound <= optimum(ticks)


@settings(max_examples=60)
@given(st.integers(1, 12), st.integers(0, 10**6))
def test_potentials_prove_the_heaviest_matching(nodes, seed):
    random = np.random.default_rng(seed)
    weights = random.integers(0, (3, 1000)[seed % 2], (nodes, nodes)).astype(float)
    potential = potentials(weights)
    heaviest = weights[linear_sum_assignment(weights, maximize=True)].sum()
    assert (weights + potential).max(axis=1).sum() - potential.sum() == heaviest


def test_prices_beat_lines_where_entries_do_not_fit_together():
    """A mix of permutations, where the bound of the lines is 71 and the optimum 78."""
    ticks = ticks_of(mixed(6, 12, 1), 2)
    assert line_bound(ticks, 1) == 71
    bound = relaxation_bound(ticks, np.empty((0, 6), dtype=np.int64), 71.0, always)
    assert 73 < bound <= 78


def test_prices_of_the_largest_numbers_are_exact():
    """A demand of 34 bits is worth as many times as much as the small one that it is a multiple of.

    Prices of whole numbers lose nothing when they are scaled to integers.
    """
    prices = np.array([[0.0, 2.0], [1.0, 0.0]])
    small = price_bound(ticks_of([[0, 3], [5, 0]], 2), prices)
    factor = 2**31 - 1
    large = ticks_of(np.array([[0, 3], [5, 0]]) * factor, 2 * factor)
    assert price_bound(large, prices) == small * factor


def test_fewest_configurations_last_as_long_as_the_largest_entries():
    ticks = ticks_of(KNOWN, 5)
    assert least_times(ticks, 4).tolist() == [5, 4, 3, 2]
    assert least_times(ticks, 5).tolist() == [4, 3, 2, 0, 0]
    assert line_bound(ticks, 1) == 14 + 4 * 5
    # More configurations cost more: 11 + 5 * 5.
    assert makespan_bound(least_times(ticks, 5), ticks, 1) == 36


def test_some_switch_has_two_of_three():
    ticks = ticks_of(np.diag([4, 4, 4]) + np.roll(np.diag([3, 3, 3]), 1, 1), 10)
    # Two configurations on one switch take 27, on two 14 each; the bound knows both.
    assert line_bound(ticks, 1) == 27
    assert line_bound(ticks, 2) == 14 == optimum(ticks, 2)
    assert makespan_bound(np.array([5, 4, 3]), ticks, 2) == 20 + 4 + 3


def test_no_demand_has_no_bound():
    assert line_bound(ticks_of(np.zeros((4, 4))), 3) == 0
    assert price_bound(ticks_of([[1]]), np.zeros((1, 1))) == 0


def test_pricing_ends_when_told():
    ticks = ticks_of(np.random.default_rng(0).integers(1, 20, (8, 8)), 3)
    none = np.empty((0, 8), dtype=np.int64)
    asked = []

    def goes_on(done):
        asked.append(done)
        return done < 3

    some = relaxation_bound(ticks, none, 0.0, goes_on)
    assert asked == [0, 1, 2, 3]
    assert 0 < some <= relaxation_bound(ticks, none, 0.0, always)
    # Nothing more can be proven than is known, so one program is enough.
    assert relaxation_bound(ticks, none, 1e6, always) == 0
