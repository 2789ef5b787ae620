"""Plans for demand matrices: known answers, exact optima against oracles, what is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from demand_oracle import KNOWN, by_enumeration, by_integer_program, mixed
from hypothesis import given, settings
from hypothesis import strategies as st

from ocs_codesign.circuits.demand.matrix import DemandMatrix
from ocs_codesign.circuits.demand.planner import LINES, SEARCHED, DemandEffort, plan_demand
from ocs_codesign.verification.plans import check_demand


def recheck(plan):
    """The total, once the plan is checked."""
    assert check_demand(plan) is None
    return plan.total_s


@pytest.mark.parametrize(
    ("delta", "total", "configurations"),
    [(0.1, Fraction(116, 10), 6), (0.5, 14, 6), (1, 17, 6), (2, 22, 4), (5, 34, 4)],
)
def test_known_answers(delta, total, configurations):
    plan = plan_demand(DemandMatrix(KNOWN), delta)
    assert plan.total_s == plan.bound_s == total == recheck(plan)
    assert by_integer_program(KNOWN, delta) == pytest.approx(float(total), abs=1e-9)
    assert plan.num_configurations == configurations
    assert plan.is_optimal
    assert plan.gap == 0


@pytest.mark.parametrize(
    "switches", [1, *(pytest.param(many, marks=pytest.mark.slow) for many in (2, 3))]
)
def test_several_switches(switches):
    plan = plan_demand(DemandMatrix(KNOWN), 1, switches)
    assert plan.is_optimal
    assert plan.total_s == recheck(plan) == Fraction({1: 17, 2: 9, 3: 6}[switches])


def test_bandwidth_and_units_scale_the_times():
    entries = [[Fraction(entry, 3) for entry in row] for row in KNOWN]
    plan = plan_demand(DemandMatrix(entries), Fraction(1, 6), bandwidth_Bps=2)
    assert plan.total_s == Fraction(17, 6)
    assert plan.bandwidth_Bps == 2


small = st.integers(0, 6)
matrices_of_3 = st.lists(st.lists(small, min_size=3, max_size=3), min_size=3, max_size=3)


@settings(max_examples=25)
@given(matrices_of_3, st.sampled_from([0, 1, 3]))
def test_one_switch_against_enumeration(entries, delta):
    plan = plan_demand(DemandMatrix(entries), delta)
    best = by_enumeration(entries, delta) if np.any(entries) else 0.0
    assert plan.is_optimal
    assert float(plan.total_s) == pytest.approx(best, abs=1e-9)
    assert plan.total_s == recheck(plan) if plan.num_configurations else plan.total_s == 0


@pytest.mark.parametrize("seed", range(8))
def test_one_switch_against_integer_programming(seed):
    random = np.random.default_rng(seed)
    entries = random.integers(0, 9, (4, 4)) * (random.random((4, 4)) < (0.6, 1.0)[seed % 2])
    delta = int(random.integers(1, 4))
    plan = plan_demand(DemandMatrix(entries), delta)
    assert plan.is_optimal
    assert float(plan.total_s) == pytest.approx(by_integer_program(entries, delta), abs=1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_switches_against_integer_programming(seed):
    random = np.random.default_rng(100 + seed)
    entries = random.integers(0, 7, (3, 3))
    switches, delta = 2 + seed % 2, int(random.integers(0, 4))
    plan = plan_demand(DemandMatrix(entries), delta, switches)
    best = by_integer_program(entries, delta, switches)
    assert plan.is_optimal
    assert recheck(plan) == plan.total_s
    assert float(plan.total_s) == pytest.approx(best, abs=1e-6)


def test_five_nodes_are_proven():
    plan = plan_demand(DemandMatrix(mixed(5, 12, 1)), 1)
    assert (plan.total_s, plan.is_optimal, plan.proof) == (67, True, SEARCHED)


def test_a_permutation_is_shared_by_all_switches():
    plan = plan_demand(DemandMatrix(np.diag([8] * 5)), 1, 4)
    assert plan.total_s == 3
    assert plan.is_optimal
    assert plan.proof == LINES
    assert plan.dark_share == Fraction(1, 3)
    assert (plan.served_share, plan.idle_share, plan.overserved_share) == (1, 0, 0)


def test_shares_add_up():
    plan = plan_demand(DemandMatrix([[0, 4, 0], [0, 0, 2], [0, 0, 0]]), 1)
    assert plan.total_s == 5
    # Of three circuits for 4 s, one serves 4, one 2 and then nothing for 2, one goes nowhere.
    shares = (plan.served_share, plan.overserved_share, plan.idle_share)
    assert shares == (Fraction(1, 2), Fraction(1, 6), Fraction(1, 3))
    assert plan.dark_share == Fraction(1, 5)
    assert plan.served_s()[0, 1] == 4


@pytest.mark.parametrize("entries", [[[0]], np.zeros((5, 5))])
def test_no_demand_takes_no_time(entries):
    plan = plan_demand(DemandMatrix(entries), 1)
    assert (plan.total_s, plan.bound_s, plan.num_configurations) == (0, 0, 0)
    assert plan.is_optimal
    assert plan.dark_share == plan.idle_share == plan.overserved_share == plan.gap == 0


def test_without_delta_the_busiest_line_is_all():
    random = np.random.default_rng(3)
    demand = DemandMatrix(random.integers(0, 50, (12, 12)))
    for switches in (1, 3):
        plan = plan_demand(demand, 0, switches)
        assert plan.total_s == demand.max_line_bytes / switches
        assert plan.is_optimal


def test_long_decimals_are_served_and_bounded():
    """Seventeen digits do not fit the search's integers: the gap is what rounding leaves."""
    random = np.random.default_rng(0)
    plan = plan_demand(DemandMatrix(random.random((4, 4))), 0.1)
    assert recheck(plan) == plan.total_s >= plan.bound_s
    assert plan.gap < 1e-8


def test_the_same_effort_gives_the_same_plan():
    demand = DemandMatrix(np.random.default_rng(5).integers(1, 30, (10, 10)))
    effort = DemandEffort(seed=4, rounds=500, programs=20)
    one, other = (plan_demand(demand, 3, 2, effort=effort) for _ in range(2))
    assert (one.permutations == other.permutations).all()
    assert one.durations_s == other.durations_s
    assert one.bound_s == other.bound_s


def test_no_time_still_gives_a_plan_and_a_bound():
    demand = DemandMatrix(np.random.default_rng(5).integers(1, 30, (6, 6)))
    plan = plan_demand(demand, 3, effort=DemandEffort(time_limit_s=0))
    assert recheck(plan) == plan.total_s >= plan.bound_s > 0


@pytest.mark.parametrize(
    ("entries", "rule"),
    [
        ([[0, 1], [-2, 0]], r"row 1, column 0 is -2: a demand cannot be negative"),
        ([[0, 1], [2]], r"row 1 has 1 entries, but there are 2 rows"),
        ([[0, 1, 2], [2, 0, 1]], r"row 0 has 3 entries, but there are 2 rows"),
        ([[0, math.nan], [1, 0]], r"row 0, column 1 is nan: it must be finite"),
        ([[0, 1], [math.inf, 0]], r"row 1, column 0 is inf: it must be finite"),
        ([], r"at least one node"),
        ([1, 2], r"list of rows"),
        ([[0, "1"], [1, 0]], r"row 0, column 1: '1' is not a number"),
        ([[True]], r"True is not a number"),
        (np.zeros((513, 513)), r"513 nodes: a demand matrix has at most 512"),
    ],
)
def test_bad_matrices(entries, rule):
    with pytest.raises(ValueError, match=rule):
        DemandMatrix(entries)


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ((-1,), "delta_s is -1: a time cannot be negative"),
        ((math.nan,), "delta_s is nan: it must be finite"),
        ((1, 0), "0 switches: there must be 1 to 1024"),
        ((1, 1, 0), "bandwidth_Bps is 0: it must be positive"),
    ],
)
def test_bad_questions(arguments, rule):
    with pytest.raises(ValueError, match=rule):
        plan_demand(DemandMatrix(KNOWN), *arguments)


@pytest.mark.parametrize("name", ["rounds", "search_nodes", "programs", "time_limit_s", "seed"])
def test_bad_effort(name):
    with pytest.raises(ValueError, match=f"{name} is -1: it must be at least 0"):
        DemandEffort(**{name: -1})


def test_the_checker_names_the_first_witness():
    plan = plan_demand(DemandMatrix([[0, 3], [6, 0]]), 1)
    assert recheck(plan) == 7
    stay, on = np.array([[0, 1]]), np.array([1])
    for changes, rule in (
        ({"permutations": np.array([[1, 1]])}, "configuration 0 is no permutation of 2 nodes"),
        ({"durations_s": (Fraction(-6),)}, "configuration 0 lasts -6 s on switch 0"),
        ({"switch": on}, "configuration 0 lasts 6 s on switch 1"),
        ({"durations_s": (Fraction(5),)}, "from 1 to 0 there are 5 bytes served of 6"),
        ({"permutations": stay}, "from 0 to 1 there are 0 bytes served of 3"),
        ({"switch": np.array([0, 0])}, "do not fit"),
        ({"total_s": Fraction(6)}, "the last switch is done after 7 s, not 6 s"),
    ):
        assert rule in str(check_demand(replace(plan, **changes)))
