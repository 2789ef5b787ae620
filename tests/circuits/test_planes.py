"""Plans of planes: published optima, and every method against enumeration and other oracles."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import pytest
from planes_oracle import (
    KNOWN,
    enumerated_s,
    least_with_overlap,
    least_with_stops,
    listed,
    one_step_memory_s,
    random_problem,
)

from ocs_codesign.circuits.change import Change
from ocs_codesign.circuits.planes.plan import (
    PLANE_METHODS,
    plan_of_usage,
    plan_planes,
    static_plan_of_planes,
)
from ocs_codesign.circuits.planes.problem import PlaneProblem
from ocs_codesign.circuits.planes.stops import by_states, usage_of
from ocs_codesign.core.progress import heard_by

MS = Fraction(1, 1000)
ROUNDING = Fraction(1, 10**6)


@pytest.mark.parametrize("method", PLANE_METHODS)
def test_the_published_optima(method):
    for needed, megabytes, delta_ms, least_ms in KNOWN:
        plan = plan_planes(listed(needed, megabytes, delta_ms), method)
        assert plan.total_s == Fraction(least_ms) * MS
        assert plan.lower_bound_s <= plan.total_s
        assert plan.is_optimal or method == "fast"


def test_what_planes_hold_is_what_counts():
    """A memory of one step overcharges the planes that held on, and undercharges those that left.

    In 1, 2, 2 it lets a plane that was not there at the second step send in the third for nothing.
    """
    ratios = [
        one_step_memory_s(listed(*given)) / float(Fraction(least_ms) * MS)
        for *given, least_ms in KNOWN
        if len(given[0]) < 5
    ]
    assert ratios == pytest.approx([56 / 44, 1, 164 / 146, 52 / 61])


def test_every_method_against_enumeration():
    rng, many = random.Random(300), 200
    kinds, exactly, better = set(), 0, 0
    for _ in range(many):
        problem = random_problem(rng)
        cost, best_s = problem.cost, enumerated_s(problem)
        for method in ("milp", "labels") if cost.barrier else ("milp",):
            found = plan_planes(problem, method)
            assert found.is_optimal, (method, found.status)
            assert best_s <= found.total_s <= best_s * (1 + ROUNDING), problem
            assert found.lower_bound_s <= best_s
        fast = plan_planes(problem, "fast")
        assert fast.lower_bound_s <= best_s <= fast.total_s <= best_s * Fraction(5, 4)
        exactly += fast.total_s == best_s
        kinds.add((cost.overlap, cost.barrier, cost.cold_start, problem.latency_s > 0))
        everywhere = plan_of_usage(problem, [range(problem.num_planes)] * problem.num_steps)
        better += best_s < everywhere.total_s
    assert len(kinds) == 16
    assert exactly >= 0.8 * many
    assert better >= 0.1 * many


def test_enumeration_against_a_linear_program_for_every_usage():
    rng = random.Random(302)
    for _ in range(12):
        problem = random_problem(rng, overlap=True, max_steps=3)
        assert float(enumerated_s(problem)) == pytest.approx(least_with_overlap(problem), rel=1e-9)


def test_stops_of_the_whole_fabric_against_all_that_planes_may_hold():
    rng, tried = random.Random(303), 0
    while tried < 40:
        problem = random_problem(rng, overlap=False, max_steps=3)
        if problem.num_planes < 3 and (problem.cost.barrier or not problem.latency_s):
            tried += 1
            least_s = least_with_stops(problem)
            assert enumerated_s(problem) == least_s
            assert plan_planes(problem).total_s <= least_s * (1 + ROUNDING)


def test_stretches_and_held_states_agree():
    """Two exact dynamic programs for a fabric that stops as long for every change."""
    rng, cost = random.Random(308), Change(3, overlap=False)
    for _ in range(20):
        needed = [rng.randrange(5) for _ in range(12)]
        problem = PlaneProblem(needed, [rng.randint(1, 20) for _ in needed], 3, 1, cost)
        found = plan_planes(problem)
        assert "stretches" in found.status
        assert (
            found.total_s == plan_of_usage(problem, usage_of(problem, by_states(problem))).total_s
        )


def test_machine_code_and_plain_python_do_the_same(monkeypatch):
    problem = PlaneProblem((0, 1, 2, 0, 1), (9, 4, 7, 2, 5), 3, 1, Change(3))
    plans = []
    for interpreted in (10**9, 0):
        kernels = "ocs_codesign.circuits.planes.kernels"
        monkeypatch.setattr(f"{kernels}.budget", [interpreted])
        plans.append(plan_planes(problem, "labels"))
    assert plans[0] == plans[1]


@pytest.mark.parametrize(("kinds", "seed"), [(4, 2), (6, 5)])
def test_sixteen_steps_on_four_planes_are_proven(kinds, seed):
    rng = random.Random(seed)
    needed = [rng.randrange(kinds) for _ in range(16)]
    sizes = [rng.randint(1, 20) for _ in needed]
    found = plan_planes(PlaneProblem(needed, sizes, 4, 1, Change(3)))
    assert found.is_optimal
    assert found.gap < ROUNDING


def test_long_lists_have_a_bound():
    rng = random.Random(304)
    for overlap, barrier in ((True, True), (True, False), (False, True), (False, False)):
        cost = Change(3, overlap=overlap, barrier=barrier)
        needed = [rng.randrange(4) for _ in range(40)]
        problem = PlaneProblem(needed, [rng.randint(1, 20) for _ in needed], 3, 1, cost)
        told = []
        with heard_by(lambda *at, told=told: told.append(at)):
            plan = plan_planes(problem, "fast")
        assert 0 < plan.lower_bound_s <= plan.total_s
        assert plan.gap < Fraction(1, 3)
        assert all(done <= total for _, done, total in told)
        everywhere = plan_of_usage(problem, [range(3)] * len(needed))
        assert plan.total_s <= everywhere.total_s


def test_overlap_never_hurts_and_neither_does_a_barrier_less():
    rng = random.Random(305)
    for _ in range(12):
        problem = random_problem(rng, overlap=True, barrier=True, max_steps=3)
        cost = problem.cost
        totals = []
        for overlap, barrier in ((True, False), (True, True), (False, True)):
            other = replace(cost, overlap=overlap, barrier=barrier)
            totals.append(enumerated_s(problem.with_cost(other)))
        # A stop pays the fixed time once for all planes, which planes on their own pay each.
        assert totals[0] <= totals[1]
        if cost.per_circuit_s == 0 or problem.num_planes == 1:
            assert totals[1] <= totals[2]


def test_a_static_plan_is_the_best_that_never_changes():
    problem = listed((1, 2, 2, 1), (4, 2, 2, 4), "0.2")
    static = static_plan_of_planes(problem)
    assert static.total_s == Fraction(44, 100) * MS
    for usage in (((0,), (1,), (1,), (0,)), ((1,), (0,), (0,), (1,))):
        assert plan_of_usage(problem, usage).total_s == static.total_s
    assert static_plan_of_planes(listed((1, 2, 3, 3, 2, 1), (4, 2, 1, 1, 2, 4), "0.2")) is None
    held = PlaneProblem((0, 1, 0), (6, 4, 6), 3, 1, Change(5), held=(0, 1, 0))
    assert static_plan_of_planes(held).total_s == 3 + 4 + 3
    assert plan_planes(held).total_s == 3 + 4 + 3


def test_warm_planes_begin_at_once():
    cost = Change(5, cold_start=False)
    assert plan_planes(PlaneProblem((0, 0), (6, 4), 2, 1, cost)).total_s == 5
    held = PlaneProblem((0, 0), (6, 4), 2, 1, cost, held=(1, None))
    assert plan_planes(held).total_s == Fraction(15, 2)  # the first is busy for 5 s with its change


def test_a_plan_is_the_same_every_time():
    problem = random_problem(random.Random(9), max_steps=4)
    for method in ("milp", "fast"):
        assert plan_planes(problem, method) == plan_planes(problem, method)
