"""The checker: what is tampered with is found, and named."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from blocking_oracle import table

from ocs_codesign.reconfigure import (
    Certificate,
    SwitchProblem,
    check_plan,
    price_plan,
    switch_plan,
)

COSTS = [(4, 9), (4, 9), (9, 4), (4, 9), (9, 4), (9, 4)]


def plans():
    """A plan with a matrix, gaps and an infinite cost, in int64 and in Python integers."""
    delta = [[0, 3], [2, 0]]
    small = table([(4, 9), (4, 9), (9, 4), (4, float("inf")), (9, 4), (9, 4)])
    gaps = [0, 0, 1, 0, 5, 0]
    large = table([[cost * 10**24 + (cost == 4) for cost in row] for row in small.tolist()])
    prices = table([[price * 10**24 for price in row] for row in delta])
    waits = table([gap * 10**24 for gap in gaps])
    return [
        switch_plan(SwitchProblem(small, delta, start=0, gaps=gaps)),
        switch_plan(SwitchProblem(large, prices, start=0, gaps=waits)),
    ]


@pytest.fixture(params=[0, 1], ids=["int64", "big"])
def plan(request):
    return plans()[request.param]


def test_both_kinds_of_integers_are_tried():
    small, large = plans()
    assert small.problem.ticks.is_compiled
    assert not large.problem.ticks.is_compiled


def test_the_plan_itself_is_right(plan):
    assert check_plan(plan).ok
    assert plan.is_optimal


@pytest.mark.parametrize("field", ["working", "switching", "hidden", "num_switches"])
def test_wrong_costs(plan, field):
    verdict = check_plan(replace(plan, **{field: getattr(plan, field) + 1}))
    assert not verdict.ok
    assert verdict.witness.startswith(f"{field} is ")


@pytest.mark.parametrize(
    ("choice", "witness"),
    [
        ([0, 0, 1, 1, 1, 1], "step 4: topology 1 cannot serve it"),
        ([0, 0, 2, 0, 1, 1], "step 3: there is no topology 2"),
        ([0, 0, -1, 0, 1, 1], "step 3: there is no topology -1"),
        ([0, 0, 1, 0, 1], "5 topologies are chosen for 6 steps"),
        ([0, 0, 0, 0, 0, 1], "working is"),
    ],
)
def test_another_choice(plan, choice, witness):
    verdict = check_plan(replace(plan, choice=np.array(choice, dtype=np.int32)))
    assert verdict.witness.startswith(witness)


def test_every_potential_that_is_raised_is_found(plan):
    potentials = plan.certificate.potentials
    for step, topology in np.ndindex(potentials.shape):
        raised = potentials.copy()
        raised[step, topology] += 1
        bound = plan.certificate.bound
        verdict = check_plan(replace(plan, certificate=Certificate(raised, bound)))
        if potentials[step, topology] == plan.problem.ticks.infinite:
            assert verdict.witness == "potentials are not ticks"
        else:
            place = f"step {step + 1}: the potential of topology {topology} is too large"
            assert verdict.witness == place


def test_lower_potentials_prove_less(plan):
    first = plan.certificate.potentials - 1
    certificate = Certificate(first, plan.certificate.bound)
    assert check_plan(replace(plan, certificate=certificate)).witness.startswith(
        "the potentials prove"
    )
    lower = Certificate(first, plan.certificate.bound - plan.problem.ticks.tick)
    weaker = replace(plan, certificate=lower)
    modest = Certificate(plan.certificate.potentials, lower.bound)
    assert check_plan(replace(plan, certificate=modest)).witness.startswith("the potentials prove")
    assert check_plan(weaker).ok
    assert not weaker.is_optimal
    assert weaker.gap == plan.problem.ticks.tick / lower.bound


def test_potentials_of_another_form(plan):
    potentials = plan.certificate.potentials
    bound = plan.certificate.bound
    short = replace(plan, certificate=Certificate(potentials[1:], bound))
    assert check_plan(short).witness == "potentials have the shape (5, 2)"
    floats = replace(plan, certificate=Certificate(potentials.astype(float), bound))
    assert check_plan(floats).witness == "potentials are not ticks"


def test_a_claim_below_the_optimum_is_not_provable(plan):
    """No certificate can prove more than the plan of least cost, whatever its potentials."""
    worse = price_plan(plan.problem, [0] * 6)
    claimed = replace(worse, certificate=Certificate(plan.certificate.potentials, worse.total))
    assert claimed.is_optimal
    assert not check_plan(claimed).ok


def test_plans_without_a_certificate_claim_nothing():
    plan = price_plan(SwitchProblem(COSTS, 3, start=0), [0] * 6)
    assert plan.certificate is None
    assert plan.gap is None
    assert not plan.is_optimal
    assert plan.total == Fraction(39)
    assert check_plan(plan).ok


def test_many_steps_are_checked_in_batches(monkeypatch):
    monkeypatch.setattr("ocs_codesign.reconfigure.hold.check._BATCH", 12)
    plan = switch_plan(SwitchProblem(COSTS * 4, 3, start=0))
    assert check_plan(plan).ok
    raised = plan.certificate.potentials.copy()
    raised[14, 1] += 1
    verdict = check_plan(replace(plan, certificate=Certificate(raised, plan.certificate.bound)))
    assert verdict.witness == "step 15: the potential of topology 1 is too large"
