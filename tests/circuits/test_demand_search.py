"""The exact search of demand plans: its order, its bounds while unfinished, its limits."""

from __future__ import annotations

from fractions import Fraction
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest
from demand_oracle import KNOWN, by_integer_program, mixed, ticks_of
from hypothesis import given, settings
from hypothesis import strategies as st

from ocs_codesign.circuits.demand import planner
from ocs_codesign.circuits.demand.matrix import MAX_TICKS, DemandMatrix, demand_ticks
from ocs_codesign.circuits.demand.planner import SEARCHED, DemandEffort, plan_demand
from ocs_codesign.circuits.demand.search import MAX_LINES, search, search_levels

FAR = Fraction(10**6)


def everything(_):
    return True


def serves(plan, ticks):
    """Whether permutations serve every entry."""
    nodes = ticks.num_nodes
    total = np.full((nodes, nodes), Fraction(0), dtype=object)
    for columns, time in zip(plan.permutations, plan.times, strict=True):
        assert sorted(columns.tolist()) == list(range(nodes))
        total[np.arange(nodes), columns] += time
    return bool((total >= ticks.demand).all())


@pytest.mark.parametrize(
    ("setup", "makespan"), [(0, 11), (1, 17), (2, 22), (3, 26), (5, 34), (50, 214)]
)
def test_from_nothing_to_the_proof(setup, makespan):
    ticks = ticks_of(KNOWN, setup)
    answer = search(ticks, 1, FAR, everything)
    assert answer.is_complete
    assert answer.bound == answer.plan.makespan(setup) == makespan
    assert serves(answer.plan, ticks)


def test_a_tight_start_is_proven_without_a_plan():
    answer = search(ticks_of(KNOWN), 1, Fraction(17), everything)
    assert (answer.plan, answer.bound, answer.is_complete) == (None, 17, True)


def test_fractions_of_a_tick_are_found():
    """Every two of three permutations meet somewhere, so each lasts half of what is wanted."""
    entries = [[1, 1, 0], [0, 1, 1], [1, 0, 1]]
    assert search(ticks_of(entries, 0), 2, FAR, everything).plan.makespan(0) == 1
    halves = search(ticks_of([[1, 0], [0, 1]], 0), 2, FAR, everything)
    assert halves.plan.makespan(0) == Fraction(1, 2)


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
    bounds = set()
    for shaped in (entries, entries.T, entries[::-1, ::-1], wide):
        answer = search(ticks_of(shaped, setup), switches, FAR, everything)
        assert answer.is_complete
        assert serves(answer.plan, ticks_of(shaped))
        bounds.add(answer.bound)
    assert len(bounds) == 1


@pytest.mark.parametrize("budget", [0, 50_000, 100_000])
def test_an_unfinished_search_bounds_from_below(budget):
    entries = mixed(5, 12, 1)
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
    assert search_levels(ticks_of(np.ones((MAX_LINES, MAX_LINES)))) == MAX_LINES**2
    assert not search_levels(ticks_of(np.ones((MAX_LINES + 1, MAX_LINES + 1))))
    assert not search_levels(ticks_of(np.zeros((3, 3))))
    lone = np.zeros((30, 30))
    lone[3, 4] = 1
    assert search_levels(ticks_of(lone)) == 1


@pytest.mark.parametrize("share", [0, 3, 100])
def test_the_largest_numbers_do_not_overflow(share):
    """Times of 34 bits are searched like the small ones that they are multiples of."""
    large = (MAX_TICKS - 64) // 11
    delta = share * (large // 100)
    ticks = ticks_of(np.array(KNOWN) * large, delta)
    answer = search(ticks, 1, Fraction(100 * large), everything)
    assert answer.is_complete
    assert serves(answer.plan, ticks)
    scaled = by_integer_program(KNOWN, delta / large)
    assert float(answer.bound / large) == pytest.approx(scaled, abs=1e-6)


def test_ticks_are_exact_or_rounded_up():
    demand = DemandMatrix([[0, Fraction(1, 3)], [Fraction(2, 7), 0]])
    exact = demand_ticks(demand, Fraction(1), Fraction(1, 2))
    assert exact.is_exact
    assert exact.demand[0, 1] * exact.tick_s == Fraction(1, 3)
    assert exact.setup * exact.tick_s == Fraction(1, 2)
    assert exact.error(Fraction(100), 2) == 0
    coarse = demand_ticks(demand, Fraction(1), Fraction(1, 2), most=50)
    assert not coarse.is_exact
    assert 0 <= coarse.demand[0, 1] * coarse.tick_s - Fraction(1, 3) < coarse.tick_s


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 2), st.integers(60, 400))
def test_rounding_adds_no_more_than_it_says(seed, switches, most):
    """The optimum of the rounded demand, less its error, bounds that of the exact one."""
    random = np.random.default_rng(seed)
    demand = DemandMatrix(
        [[Fraction(int(entry), 7) for entry in row] for row in random.integers(0, 40, (3, 3))]
    )
    if not demand.total_bytes:
        return
    fine = demand_ticks(demand, Fraction(1), Fraction(3, 5))
    coarse = demand_ticks(demand, Fraction(1), Fraction(3, 5), most=most)
    best_s, rounded_s = (
        search(ticks, switches, FAR, everything).bound * ticks.tick_s for ticks in (fine, coarse)
    )
    error_s = coarse.error(best_s / coarse.tick_s, switches) * coarse.tick_s
    assert best_s <= rounded_s <= best_s + error_s


class TestStopped:
    """A search or a plan that is stopped is said to be, and is no worse than without."""

    def test_a_search_that_is_stopped(self):
        rng = np.random.default_rng(3)
        demand = DemandMatrix(rng.integers(1, 1000, (5, 5)).tolist())
        plain = plan_demand(demand, 50, effort=DemandEffort(rounds=200, search_nodes=0, programs=0))
        effort = DemandEffort(rounds=200, search_nodes=500, programs=0)
        stopped = plan_demand(demand, 50, effort=effort)
        assert stopped.total_s <= plain.total_s
        assert stopped.bound_s >= plain.bound_s
        assert not stopped.is_optimal
        assert stopped.proof != SEARCHED

    def test_a_limit_is_used_for_more_of_the_same(self, monkeypatch):
        """By a clock that moves a second whenever it is asked."""
        clock = count()
        monkeypatch.setattr(planner, "time", SimpleNamespace(monotonic=clock.__next__))
        rng = np.random.default_rng(4)
        demand = DemandMatrix(rng.integers(1, 1000, (9, 9)).tolist())
        free = plan_demand(demand, 5, effort=DemandEffort(rounds=32, programs=0))
        effort = DemandEffort(rounds=32, programs=0, time_limit_s=500.0)
        assert plan_demand(demand, 5, effort=effort).total_s <= free.total_s
        assert 500 <= next(clock) < 600
