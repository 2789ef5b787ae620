"""The checker: what is tampered with is found, and named."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hold_oracle import COSTS, table

from ocs_codesign.circuits.legs.plan import LegProblem, plan_legs, price_plan
from ocs_codesign.verification.plans import check_plan


@pytest.fixture(params=[1, 10**24], ids=["int64", "big"])
def plan(request):
    """A plan with a matrix, gaps and an infinite cost, in int64 or in Python integers."""
    costs = [(4, 9), (4, 9), (9, 4), (4, float("inf")), (9, 4), (9, 4)]
    scaled = table([[cost * request.param + (cost == 4) for cost in row] for row in costs])
    delta = table([[0, 3 * request.param], [2 * request.param, 0]])
    gaps = table([gap * request.param for gap in [0, 0, 1, 0, 5, 0]])
    plan = plan_legs(LegProblem(scaled, delta, start=0, gaps=gaps))
    assert (plan.problem.ticks.costs.dtype == object) == (request.param > 1)
    return plan


def with_potentials(plan, potentials, bound=None):
    bound = plan.bound if bound is None else bound
    return check_plan(replace(plan, potentials=potentials, bound=bound))


@pytest.mark.parametrize("field", ["working", "switching", "hidden", "num_switches"])
def test_wrong_costs(plan, field):
    found = check_plan(replace(plan, **{field: getattr(plan, field) + 1}))
    assert str(found).startswith(f"{field} is ")


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
    found = check_plan(replace(plan, choice=np.array(choice, dtype=np.int32)))
    assert str(found).startswith(witness)


def test_every_potential_that_is_raised_is_found(plan):
    potentials = plan.potentials
    for step, topology in np.ndindex(potentials.shape):
        raised = potentials.copy()
        raised[step, topology] += 1
        place = f"step {step + 1}: the potential of topology {topology} is too large"
        if potentials[step, topology] == plan.problem.ticks.infinite:
            place = "potentials are not ticks"
        assert str(with_potentials(plan, raised)) == place


def test_lower_potentials_prove_less(plan):
    potentials, bound = plan.potentials, plan.bound
    less = bound - plan.problem.ticks.tick
    assert str(with_potentials(plan, potentials - 1)).startswith("the potentials prove")
    assert str(with_potentials(plan, potentials, less)).startswith("the potentials prove")
    assert with_potentials(plan, potentials - 1, less) is None
    assert not replace(plan, potentials=potentials - 1, bound=less).is_optimal


def test_potentials_of_another_form(plan):
    potentials = plan.potentials
    assert str(with_potentials(plan, potentials[1:])) == "potentials have the shape (5, 2)"
    assert str(with_potentials(plan, potentials.astype(float))) == "potentials are not ticks"


def test_a_claim_below_the_optimum_is_not_provable(plan):
    """No potentials can prove more than the plan of least cost, whatever its potentials."""
    worse = price_plan(plan.problem, [0] * 6)
    claimed = replace(worse, potentials=plan.potentials, bound=worse.total)
    assert claimed.is_optimal
    assert check_plan(claimed) is not None


def test_plans_without_a_bound_claim_nothing():
    plan = price_plan(LegProblem(COSTS, 3, start=0), [0] * 6)
    assert not plan.is_optimal
    assert plan.total == 39
    assert check_plan(plan) is None


def test_many_steps_are_checked_in_batches(monkeypatch):
    monkeypatch.setattr("ocs_codesign.verification.plans._BATCH", 12)
    plan = plan_legs(LegProblem(COSTS * 4, 3, start=0))
    assert check_plan(plan) is None
    raised = plan.potentials.copy()
    raised[14, 1] += 1
    witness = "step 15: the potential of topology 1 is too large"
    assert str(with_potentials(plan, raised)) == witness
