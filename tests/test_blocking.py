"""Keep or switch: known answers, every plan tried on hundreds of instances, exact at any size."""

from __future__ import annotations

import random
import time
from fractions import Fraction

import numpy as np
import pytest
from blocking_oracle import INFINITE, Instance, brute_force, random_instance, table

from ocs_codesign.reconfigure import SwitchProblem, check_plan, price_plan, switch_plan

COSTS = [(4, 9), (4, 9), (9, 4), (4, 9), (9, 4), (9, 4)]
KNOWN = [(0, 24), (1, 27), (3, 32), (5, 34), (6, 35), (8, 37), (20, 39)]


@pytest.mark.parametrize(("delta", "total"), KNOWN)
def test_known_answers(delta, total):
    for form in (delta, [[0, delta], [delta, 0]]):
        plan = switch_plan(SwitchProblem(COSTS, form, start=0))
        assert plan.total == total
        assert plan.is_optimal
        assert plan.gap == 0
        assert check_plan(plan).ok


@pytest.mark.parametrize("scale", [1, Fraction(3, 7), 10**25])
@pytest.mark.parametrize("seed", range(160))
def test_no_plan_is_better(seed, scale):
    drawn = random.Random(f"{seed} {scale}")
    one = random_instance(drawn, scale=scale)
    least = brute_force(one)
    problem = one.problem()
    if least is None:
        with pytest.raises(ValueError, match="no plan serves all"):
            switch_plan(problem)
        return
    plan = switch_plan(problem)
    assert (plan.total, plan.num_switches) == least
    assert plan.is_optimal
    assert check_plan(plan).ok


def test_the_instances_are_of_all_kinds():
    drawn = [random_instance(random.Random(f"{seed} 1")) for seed in range(160)]
    assert sum(one.uniform for one in drawn) > 30
    assert sum(one.start is None for one in drawn) > 30
    assert sum(any(INFINITE in row for row in one.costs) for one in drawn) > 50
    assert sum(any(INFINITE in row for row in one.delta) for one in drawn) > 10
    assert sum(any(one.gaps) for one in drawn) > 50
    large = [random_instance(random.Random(f"{seed} {10**25}"), scale=10**25) for seed in range(40)]
    assert any(not one.problem().ticks.is_compiled for one in large)


def test_of_equals_the_plan_with_the_fewest_switches():
    plan = switch_plan(SwitchProblem([(1, 1), (1, 2), (2, 1), (1, 1)], 0, start=1, gaps=[0] * 4))
    assert plan.total == 4
    assert plan.num_switches == 2
    free = switch_plan(SwitchProblem([(1, 1), (5, 5), (2, 2)], 3, start=1, gaps=[9] * 3))
    assert free.choice.tolist() == [1, 1, 1]


@pytest.mark.parametrize("seed", range(150))
def test_ties_are_broken_by_switches_in_every_step(seed):
    drawn = random.Random(f"{seed} ties")
    steps, many = 5, 3
    costs = [[drawn.randint(0, 1) for _ in range(many)] for _ in range(steps)]
    delta = [[drawn.randint(0, 1) * (a != b) for b in range(many)] for a in range(many)]
    gaps = [drawn.randint(0, 1) for _ in range(steps)]
    one = Instance(costs, delta, delta[0], gaps, 0, False)
    plan = switch_plan(one.problem())
    assert (plan.total, plan.num_switches) == brute_force(one)


def test_ties_over_several_steps():
    costs = [[0, 0, 0, 0], [1, 1, 0, 2], [0, 0, 1, 1], [1, 1, 0, 0], [1, 2, 2, 0]]
    delta = [[0, 1, 0, 1], [0, 0, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0]]
    one = Instance(costs, delta, delta[0], [0] * 5, 0, False)
    plan = switch_plan(one.problem())
    assert (plan.total, plan.num_switches) == brute_force(one)


def test_runs_add_up():
    plan = switch_plan(SwitchProblem(COSTS, 1, start=0, gaps=[0, 0, Fraction(1, 2), 0, 3, 0]))
    assert [(run.first_step, run.last_step, run.topology) for run in plan.runs()] == [
        (1, 2, 0),
        (3, 3, 1),
        (4, 4, 0),
        (5, 6, 1),
    ]
    assert [str(run.switching) for run in plan.runs()] == ["0", "1/2", "1", "0"]
    assert [str(run.hidden) for run in plan.runs()] == ["0", "1/2", "0", "1"]
    assert sum(run.working for run in plan.runs()) == plan.working == 24
    assert (plan.switching, plan.hidden) == (Fraction(3, 2), Fraction(3, 2))


def test_cold_warm_and_held():
    costs = [(4, 9), (9, 4)]
    cold = switch_plan(SwitchProblem(costs, 2))
    warm = switch_plan(SwitchProblem(costs, 2, first=0))
    held = switch_plan(SwitchProblem(costs, 2, start=1))
    assert (cold.total, cold.switching, cold.num_switches) == (12, 4, 1)
    assert (warm.total, warm.num_switches) == (10, 1)
    assert (held.total, held.num_switches) == (12, 2)
    matrix = switch_plan(SwitchProblem(costs, [[0, 2], [3, 0]], first=[7, 1]))
    assert (matrix.total, matrix.choice.tolist()) == (14, [1, 1])


def test_rows_stand_for_steps():
    rows = [0, 1, 0, 0, 1]
    short = SwitchProblem([(4, 9), (9, 4)], 3, start=0, gaps=[0, 1], rows=rows)
    costs = [[(4, 9), (9, 4)][row] for row in rows]
    long = SwitchProblem(costs, 3, start=0, gaps=[rows[i] for i in range(5)])
    plan, same = switch_plan(short), switch_plan(long)
    assert plan.choice.tolist() == same.choice.tolist()
    assert (plan.total, plan.hidden) == (same.total, same.hidden)


def test_floats_are_their_decimals():
    plan = switch_plan(SwitchProblem([(0.1, 0.7), (0.7, 0.2)], 0.3, start=0))
    assert plan.total == Fraction(6, 10)
    assert plan.is_optimal
    third = switch_plan(SwitchProblem([(1 / 3, 1.0)], 0.5, start=0))
    assert third.total == Fraction("0.3333333333333333")
    assert third.is_optimal


def test_large_problems_of_long_decimals_say_how_far_they_may_be_off():
    rng = np.random.default_rng(5)
    costs, delta = rng.random((3000, 40)), rng.random((40, 40))
    np.fill_diagonal(delta, 0)
    gaps = rng.random(3000) / 3
    problem = SwitchProblem(costs, delta, start=0, gaps=gaps)
    assert problem.ticks.rounded
    plan = switch_plan(problem)
    assert 0 < plan.gap < Fraction(1, 10**9)
    assert check_plan(plan).ok
    exact = SwitchProblem(
        table([[Fraction(repr(x)) for x in row] for row in costs[:400].tolist()]),
        table([[Fraction(repr(x)) for x in row] for row in delta.tolist()]),
        start=0,
        gaps=table([Fraction(repr(x)) for x in gaps[:400].tolist()]),
    )
    best = switch_plan(exact)
    assert best.is_optimal
    short = price_plan(exact, plan.choice[:400])
    assert short.total >= best.total


def test_infinite_matrix_entries_forbid_a_switch():
    delta = [[0, INFINITE, 1], [1, 0, 1], [1, 1, 0]]
    plan = switch_plan(SwitchProblem([(0, 9, 9), (9, 0, 9)], delta, start=0))
    assert plan.total == 9
    with pytest.raises(ValueError, match="step 2 cannot be on topology 1: no switch from topology"):
        price_plan(plan.problem, [0, 1])


@pytest.mark.parametrize("uniform", [True, False])
def test_ten_thousand_steps_on_two_hundred_topologies(uniform):
    rng = np.random.default_rng(0)
    costs = rng.integers(1, 1000, (10_000, 200))
    delta = 300 if uniform else np.where(np.eye(200), 0, rng.integers(100, 900, (200, 200)))
    small = delta if uniform else delta[:2, :2]
    switch_plan(SwitchProblem(costs[:2, :2], small, start=0))  # compiled once
    began = time.process_time()
    plan = switch_plan(SwitchProblem(costs, delta, start=0))
    assert time.process_time() - began < 10
    assert plan.is_optimal
    assert check_plan(plan).ok
    assert plan.num_switches > 1000
