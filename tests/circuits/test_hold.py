"""Which topology to hold: known answers, every plan tried on hundreds of instances, at any size."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hold_oracle import COSTS, INFINITE, Instance, brute_force, random_instance, table, total_of

from ocs_codesign.circuits.legs import plan as dynamic_program
from ocs_codesign.circuits.legs.plan import LegProblem, plan_legs, plan_with_few, price_plan
from ocs_codesign.verification.plans import check_plan

KNOWN = [(0, 24), (1, 27), (3, 32), (5, 34), (6, 35), (8, 37), (20, 39)]


@pytest.mark.parametrize(("delta", "total"), KNOWN)
def test_known_answers(delta, total):
    for form in (delta, [[0, delta], [delta, 0]]):
        plan = plan_legs(LegProblem(COSTS, form, start=0))
        assert plan.total == total
        assert plan.is_optimal
        assert check_plan(plan) is None


@pytest.mark.parametrize("seed", range(60))
def test_no_plan_with_few_switches_is_better(seed):
    one = random_instance(random.Random(f"{seed} few"))
    steps = len(one.costs)
    every = [total_of(one, held) for held in product(range(len(one.first)), repeat=steps)]
    for most in range(steps + 1):
        few = [found for found in every if found is not None and found[1] <= most]
        if few:
            plan = plan_with_few(one.problem(), most)
            assert (plan.total, plan.num_switches) == min(few)
        else:
            with pytest.raises(ValueError, match=r"infinite|cannot be served"):
                plan_with_few(one.problem(), most)


@pytest.mark.parametrize("most_uncompiled", [0, 2**16], ids=["compiled", "python"])
@pytest.mark.parametrize("scale", [1, Fraction(3, 7), 10**25, 10**40])
@pytest.mark.parametrize("seed", range(0, 160, 4))
def test_no_plan_is_better(seed, scale, most_uncompiled, monkeypatch):
    monkeypatch.setattr(dynamic_program, "MAX_UNCOMPILED", most_uncompiled)
    for drawn in (random.Random(f"{seed + more} {scale}") for more in range(4)):
        one = random_instance(drawn, scale=scale)
        least, problem = brute_force(one), one.problem()
        if least is None:
            with pytest.raises(ValueError, match="no plan serves all"):
                plan_legs(problem)
            continue
        plan = plan_legs(problem)
        assert (plan.total, plan.num_switches) == least
        assert plan.is_optimal
        assert check_plan(plan) is None


@pytest.mark.parametrize("seed", range(150))
def test_of_equals_the_plan_with_the_fewest_switches(seed):
    drawn = random.Random(f"{seed} ties")
    steps, many = 5, 3
    costs = [[drawn.randint(0, 1) for _ in range(many)] for _ in range(steps)]
    delta = [[drawn.randint(0, 1) * (a != b) for b in range(many)] for a in range(many)]
    gaps = [drawn.randint(0, 1) for _ in range(steps)]
    one = Instance(costs, delta, delta[0], gaps, 0, False)
    plan = plan_legs(one.problem())
    assert (plan.total, plan.num_switches) == brute_force(one)


def test_of_equals_what_is_held_is_kept():
    free = plan_legs(LegProblem([(1, 1), (5, 5), (2, 2)], 3, start=1, gaps=[9] * 3))
    assert free.choice.tolist() == [1, 1, 1]
    later = plan_legs(LegProblem([(1, 1), (0, 9)], 2, start=1))
    assert later.choice.tolist() == [1, 0]


def test_runs_add_up():
    plan = plan_legs(LegProblem(COSTS, 1, start=0, gaps=[0, 0, Fraction(1, 2), 0, 3, 0]))
    runs = plan.runs()
    assert [(run.first_step, run.last_step, run.topology) for run in runs] == [
        (1, 2, 0),
        (3, 3, 1),
        (4, 4, 0),
        (5, 6, 1),
    ]
    assert [str(run.switching) for run in runs] == ["0", "1/2", "1", "0"]
    assert [str(run.hidden) for run in runs] == ["0", "1/2", "0", "1"]
    assert [str(run.begin) for run in runs] == ["0", "8", "13", "18"]
    assert sum(run.working for run in runs) == plan.working == 24
    assert (plan.switching, plan.hidden) == (Fraction(3, 2), Fraction(3, 2))
    assert runs[-1].end == plan.total + Fraction(7, 2)


def test_cold_warm_and_held():
    costs = [(4, 9), (9, 4)]
    cold = plan_legs(LegProblem(costs, 2))
    warm = plan_legs(LegProblem(costs, 2, first=0))
    held = plan_legs(LegProblem(costs, 2, start=1))
    assert (cold.total, cold.switching, cold.num_switches) == (12, 4, 1)
    assert (warm.total, warm.num_switches) == (10, 1)
    assert (held.total, held.num_switches) == (12, 2)
    matrix = plan_legs(LegProblem(costs, [[0, 2], [3, 0]], first=[7, 1]))
    assert (matrix.total, matrix.choice.tolist()) == (14, [1, 1])


def test_rows_stand_for_steps():
    rows = [0, 1, 0, 0, 1]
    short = LegProblem([(4, 9), (9, 4)], 3, start=0, gaps=[0, 1], rows=rows)
    plan, same = (
        plan_legs(short),
        plan_legs(LegProblem([[(4, 9), (9, 4)][row] for row in rows], 3, start=0, gaps=rows)),
    )
    assert plan.choice.tolist() == same.choice.tolist()
    assert (plan.total, plan.hidden) == (same.total, same.hidden)


def test_floats_are_their_decimals_at_any_size():
    plan = plan_legs(LegProblem([(0.1, 0.7), (0.7, 0.2)], 0.3, start=0))
    assert plan.total == Fraction(6, 10)
    third = plan_legs(LegProblem([(1 / 3, 1.0)], 0.5, start=0))
    assert third.total == Fraction("0.3333333333333333")
    rng = np.random.default_rng(5)
    costs, delta, gaps = rng.random((600, 40)), rng.random((40, 40)), rng.random(600) / 3
    np.fill_diagonal(delta, 0)
    plan = plan_legs(LegProblem(costs, delta, start=0, gaps=gaps))
    exact = [
        table(np.vectorize(lambda x: Fraction(repr(x)), otypes=[object])(numbers.astype(object)))
        for numbers in (costs, delta, gaps)
    ]
    same = plan_legs(LegProblem(exact[0], exact[1], start=0, gaps=exact[2]))
    assert plan.total == same.total
    assert plan.is_optimal
    assert check_plan(plan) is None


def test_infinite_matrix_entries_forbid_a_switch():
    delta = [[0, INFINITE, 1], [1, 0, 1], [1, 1, 0]]
    plan = plan_legs(LegProblem([(0, 9, 9), (9, 0, 9)], delta, start=0))
    assert plan.total == 9
    with pytest.raises(ValueError, match="step 2 cannot be on topology 1: no switch from topology"):
        price_plan(plan.problem, [0, 1])


@pytest.mark.slow
@pytest.mark.parametrize("uniform", [True, False])
def test_ten_thousand_steps_on_two_hundred_topologies(uniform):
    rng = np.random.default_rng(0)
    costs = rng.integers(1, 1000, (10_000, 200))
    delta = 300 if uniform else np.where(np.eye(200), 0, rng.integers(100, 900, (200, 200)))
    plan = plan_legs(LegProblem(costs, delta, start=0))
    assert plan.is_optimal
    assert check_plan(plan) is None
    assert plan.num_switches > 1000
