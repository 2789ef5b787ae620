"""Policies: the online one sees no future and keeps its promise; the others are what they say."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hold_oracle import INFINITE, brute_force, random_instance, table, total_of

from ocs_codesign.circuits.legs import plan as dynamic_program
from ocs_codesign.circuits.legs.plan import LegProblem, plan_legs
from ocs_codesign.circuits.legs.trace import greedy_plan, online_plan, promise, static_plan
from ocs_codesign.verification.plans import check_plan


def cut(one, steps):
    """The instance without all steps after the first few."""
    return replace(one, costs=one.costs[:steps], gaps=one.gaps[:steps])


def slow_work_function(one):
    """The policy by its definition: work is the least cost of all plans that end on a topology."""
    held, choice = one.start, []
    for step in range(len(one.costs)):
        past, totals = cut(one, step + 1), []
        for end in range(len(one.first)):
            last = [cost if at == end else INFINITE for at, cost in enumerate(one.costs[step])]
            least = brute_force(replace(past, costs=[*past.costs[:-1], last]))
            way = 0
            if held is not None and end != held:
                way = one.first[end] if step == 0 else one.delta[held][end]
            possible = least is not None and way != INFINITE
            totals.append(least[0] + max(0, way - one.gaps[step]) if possible else INFINITE)
        if min(totals) == INFINITE:
            return None
        if held is None or totals[held] > min(totals):
            held = totals.index(min(totals))
        choice.append(held)
    return choice


@pytest.mark.parametrize("most_uncompiled", [0, 2**16], ids=["compiled", "python"])
@pytest.mark.parametrize("scale", [1, 10**25])
@pytest.mark.parametrize("seed", range(60))
def test_is_the_work_function_policy(seed, scale, most_uncompiled, monkeypatch):
    monkeypatch.setattr(dynamic_program, "MAX_UNCOMPILED", most_uncompiled)
    one = random_instance(random.Random(f"{seed} {scale} online"), scale=scale)
    plan, expected = online_plan(one.problem()), slow_work_function(one)
    assert (plan is None) == (expected is None)
    if plan is not None:
        assert plan.choice.tolist() == expected
        assert plan.total == total_of(one, expected)[0]
        assert check_plan(plan) is None


@pytest.mark.parametrize("seed", range(40))
def test_sees_no_future(seed):
    drawn = np.random.default_rng(seed)
    costs = drawn.integers(0, 50, (30, 4))
    gaps = drawn.integers(0, 10, 30) * (seed % 2)
    delta = drawn.integers(1, 60, (4, 4)) * (1 - np.eye(4, dtype=int))
    whole = online_plan(LegProblem(costs, delta, start=1, gaps=gaps)).choice
    for steps in (1, 7, 29):
        part = LegProblem(costs[:steps], delta, start=1, gaps=gaps[:steps])
        assert online_plan(part).choice.tolist() == whole[:steps].tolist()
    other = costs.copy()
    other[20:] = drawn.integers(0, 500, (10, 4))
    changed = online_plan(LegProblem(other, delta, start=1, gaps=gaps)).choice
    assert changed[:20].tolist() == whole[:20].tolist()


@pytest.mark.parametrize("kind", ["uniform", "metric"])
@pytest.mark.parametrize("seed", range(80))
def test_keeps_its_promise(seed, kind):
    drawn = random.Random(f"{seed} {kind} promise")
    one = random_instance(drawn, gaps=False, metric=kind)
    if brute_force(one) is None:
        return
    problem = one.problem()
    ratio, allowed = promise(problem)
    assert ratio == 2 * problem.num_topologies - 1
    assert allowed >= 0
    assert online_plan(problem).total <= ratio * brute_force(one)[0] + allowed


@pytest.mark.parametrize(
    ("more", "extra"),
    [
        ({"start": 1}, 2 * (19 - 10)),
        ({"start": 2}, 0),
        ({"first": 0}, 2 * 19),
        ({"first": 3}, 2 * 19 - 4 * 3),
        ({"first": 40}, 0),
    ],
)
def test_what_is_promised_on_a_line(more, extra):
    places = [0, 1, 10]
    delta = [[abs(a - b) for b in places] for a in places]
    assert promise(LegProblem([(5, 5, 5)], delta, **more)) == (5, extra)


def cruel_costs(many, delta, steps):
    """Costs of 1 wherever the policy stands, told by a simulation of it, and 0 elsewhere."""
    work, held, costs = [delta * (at != 0) for at in range(many)], 0, []
    for _ in range(steps):
        costs.append([int(at == held) for at in range(many)])
        least = min(work) + delta
        work = [min(one, least) + cost for one, cost in zip(work, costs[-1], strict=True)]
        totals = [one + delta * (at != held) for at, one in enumerate(work)]
        if totals[held] > min(totals):
            held = totals.index(min(totals))
    return costs


@pytest.mark.parametrize(("many", "least"), [(2, 2.9), (3, 4.8), (4, 6.7)])
def test_no_lower_ratio_could_be_promised(many, least):
    problem = LegProblem(cruel_costs(many, 100, 6000 * many), 100, start=0)
    ratio = online_plan(problem).total / plan_legs(problem).total
    assert least < ratio <= 2 * many - 1
    assert promise(problem)[1] == 0


@pytest.mark.parametrize(
    ("delta", "more"),
    [
        ([[0, 1], [2, 0]], {}),
        ([[0, 9, 1], [9, 0, 1], [1, 1, 0]], {}),
        ([[0, INFINITE], [1, 0]], {}),
        (3, {"gaps": [0, 1]}),
    ],
)
def test_promises_nothing_without_a_metric(delta, more):
    many = 2 if np.ndim(delta) == 0 else len(delta)
    costs = [[1] * many, [2] * many]
    problem = LegProblem(costs, delta if np.ndim(delta) == 0 else table(delta), start=0, **more)
    assert promise(problem) is None


def test_equal_gaps_leave_a_metric():
    problem = LegProblem([(1, 2)] * 3, 5, start=0, gaps=[3, 3, 3])
    assert promise(problem)[0] == 3


@pytest.mark.parametrize("seed", range(60))
def test_static_and_greedy(seed):
    one = random_instance(random.Random(f"{seed} simple"))
    problem = one.problem()
    many = len(one.first)
    held = [total_of(one, [at] * len(one.costs)) for at in range(many)]
    best = min((found[0] for found in held if found is not None), default=None)
    static = static_plan(problem)
    assert (None if static is None else static.total) == best
    greedy = greedy_plan(problem)
    if greedy is None:
        return
    last = one.start
    for row, topology in zip(one.costs, greedy.choice.tolist(), strict=True):
        assert row[topology] == min(row)
        if last is not None and row[last] == min(row):
            assert topology == last
        last = topology


def test_rows_that_no_step_has_do_not_count():
    problem = LegProblem([(3, 5), (9, INFINITE), (2, 1)], 2, start=1, rows=[0, 2, 2])
    assert static_plan(problem).choice.tolist() == [1, 1, 1]
    assert static_plan(problem).total == 7
