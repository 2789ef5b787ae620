"""The exact search of demand plans: its order, its bounds while unfinished, its limits."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from demand_oracle import KNOWN, by_integer_program
from hypothesis import given, settings
from hypothesis import strategies as st

from ocs_codesign.reconfigure.demand.matrix import DemandMatrix
from ocs_codesign.reconfigure.demand.search import MAX_LINES, can_search, search
from ocs_codesign.reconfigure.demand.ticks import MAX_TICKS, DemandTicks, demand_ticks

FAR = Fraction(10**6)


def ticks_of(entries, setup=1):
    return DemandTicks(np.array(entries, dtype=np.int64), setup, Fraction(1), True)


def everything(_):
    return True


def served(found, nodes):
    """What every pair gets of a plan, in ticks; rows of -1 are idle."""
    total = np.full((nodes, nodes), Fraction(0), dtype=object)
    for columns, time in zip(found.columns, found.times, strict=True):
        used = columns[columns >= 0]
        assert len(set(used.tolist())) == len(used)
        for row, column in enumerate(columns.tolist()):
            if column >= 0:
                total[row, column] += time
    return total


@pytest.mark.parametrize(
    ("setup", "makespan"), [(0, 11), (1, 17), (2, 22), (3, 26), (5, 34), (50, 214)]
)
def test_from_nothing_to_the_proof(setup, makespan):
    answer = search(ticks_of(KNOWN, setup), 1, FAR, everything)
    assert answer.is_complete
    assert answer.bound == answer.found.makespan == makespan
    assert (served(answer.found, 4) >= np.array(KNOWN)).all()


def test_a_tight_start_is_proven_without_a_plan():
    answer = search(ticks_of(KNOWN), 1, Fraction(17), everything)
    assert (answer.found, answer.bound, answer.is_complete) == (None, 17, True)


def test_fractions_of_a_tick_are_found():
    """Every two of three permutations meet somewhere, so each lasts half of what is wanted."""
    entries = [[1, 1, 0], [0, 1, 1], [1, 0, 1]]
    answer = search(ticks_of(entries, 0), 2, FAR, everything)
    assert answer.found.makespan == 1
    halves = search(ticks_of([[1, 0], [0, 1]], 0), 2, FAR, everything)
    assert halves.found.makespan == Fraction(1, 2)


@settings(max_examples=40)
@given(
    st.integers(1, 5).flatmap(
        lambda columns: st.lists(
            st.lists(st.integers(0, 5), min_size=columns, max_size=columns), min_size=1, max_size=3
        )
    ),
    st.integers(0, 3),
    st.integers(1, 2),
)
def test_lines_in_any_order_and_shape_have_the_same_optimum(rows, setup, switches):
    """Rows and columns that are permuted, transposed or surrounded by zeros."""
    nodes = max(len(rows), len(rows[0]))
    entries = np.zeros((nodes, nodes), dtype=np.int64)
    entries[: len(rows), : len(rows[0])] = rows
    if not entries.any():
        return
    wide = np.zeros((nodes + 2, nodes + 2), dtype=np.int64)
    wide[1:-1, 2:] = entries.T[::-1]
    answers = [
        search(ticks_of(one, setup), switches, FAR, everything)
        for one in (entries, entries.T, entries[::-1, ::-1], wide)
    ]
    assert len({answer.bound for answer in answers}) == 1
    for one, answer in zip((entries, entries.T, entries[::-1, ::-1], wide), answers, strict=True):
        assert answer.is_complete
        assert (served(answer.found, len(one)) >= one).all()


@pytest.mark.parametrize("budget", [0, 50_000, 100_000])
def test_an_unfinished_search_bounds_from_below(budget):
    random = np.random.default_rng(1)
    entries = np.zeros((5, 5), dtype=np.int64)
    for _ in range(12):
        entries[np.arange(5), random.permutation(5)] += random.integers(1, 10)
    answer = search(ticks_of(entries), 1, Fraction(70), lambda nodes: nodes < budget)
    assert not answer.is_complete
    assert answer.bound <= 67  # the optimum, proven elsewhere
    assert answer.bound >= entries.sum(0).max() + 5
    assert answer.num_nodes <= budget + 50_000


def test_more_budget_never_weakens_the_bound():
    entries = np.random.default_rng(8).integers(1, 20, (5, 5))
    bounds = [
        search(ticks_of(entries, 2), 2, FAR, lambda nodes, most=most: nodes < most).bound
        for most in (0, 50_000, 200_000)
    ]
    assert bounds == sorted(bounds)


def test_sparse_demands_of_eight_nodes():
    random = np.random.default_rng(0)
    entries = np.zeros((8, 8), dtype=np.int64)
    for row in range(8):
        entries[row, random.choice(8, 2, replace=False)] = random.integers(1, 20, 2)
    answer = search(ticks_of(entries, 3), 1, FAR, everything)
    assert answer.is_complete
    # A line with two entries is a bound, and here it is met.
    assert answer.bound >= max(entries.sum(0).max(), entries.sum(1).max()) + 6


def test_what_can_be_searched():
    assert can_search(ticks_of(np.ones((MAX_LINES, MAX_LINES))))
    assert not can_search(ticks_of(np.ones((MAX_LINES + 1, MAX_LINES + 1))))
    assert not can_search(ticks_of(np.zeros((3, 3))))
    lone = np.zeros((30, 30))
    lone[3, 4] = 1
    assert can_search(ticks_of(lone))


@pytest.mark.parametrize("share", [0, 3, 100])
def test_the_largest_numbers_do_not_overflow(share):
    """Times of 34 bits are searched like the small ones that they are multiples of."""
    large = (MAX_TICKS - 64) // 11
    delta = share * (large // 100)
    ticks = ticks_of(np.array(KNOWN) * large, delta)
    answer = search(ticks, 1, Fraction(100 * large), everything)
    assert answer.is_complete
    assert (served(answer.found, 4) >= ticks.demand).all()
    scaled = by_integer_program(KNOWN, delta / large)
    assert float(answer.bound / large) == pytest.approx(scaled, abs=1e-6)


def test_ticks_are_exact_or_rounded_to_the_safe_side():
    demand = DemandMatrix([[0, Fraction(1, 3)], [Fraction(2, 7), 0]])
    exact = demand_ticks(demand, Fraction(1), Fraction(1, 2), up=True)
    assert exact.is_exact
    assert exact.demand[0, 1] * exact.tick_s == Fraction(1, 3)
    assert exact.setup * exact.tick_s == Fraction(1, 2)
    for up in (False, True):
        coarse = demand_ticks(demand, Fraction(1), Fraction(1, 2), up=up, most=50)
        assert not coarse.is_exact
        error = coarse.demand[0, 1] * coarse.tick_s - Fraction(1, 3)
        assert (error >= 0) == up
        assert abs(error) < coarse.tick_s
