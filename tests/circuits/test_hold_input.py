"""What keep-or-switch refuses, with the value and the rule; how numbers become ticks."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hold_oracle import table

from ocs_codesign.circuits.legs.plan import LegProblem, price_plan

COSTS = [(4, 9), (9, 4)]
INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("costs", "delta", "more", "rule"),
    [
        (COSTS, -1, {"start": 0}, r"delta is -1: it cannot be negative"),
        (COSTS, [[0, -2], [1, 0]], {"start": 0}, r"delta\[0\]\[1\] is -2: it cannot be negative"),
        (COSTS, [[0, 1], [1, 3]], {"start": 0}, r"delta\[1\]\[1\] is 3: it must be 0"),
        (COSTS, [[0, 1, 1]] * 3, {"start": 0}, r"shape \(3, 3\).*2 times 2 for 2 topologies"),
        (COSTS, NAN, {"start": 0}, "delta is nan: a number is needed"),
        (COSTS, INF, {"start": 0}, "delta is inf: it must be finite"),
        (COSTS, "soon", {"start": 0}, "delta must be numbers"),
        ([(4, -9)], 1, {"start": 0}, r"costs\[0\]\[1\] is -9: it cannot be negative"),
        ([(4, NAN)], 1, {"start": 0}, r"costs\[0\]\[1\] is nan: a number is needed"),
        ([(4, None)], 1, {"start": 0}, "costs must be numbers: None is none"),
        ([4, 9], 1, {"start": 0}, "costs has 1 dimensions"),
        ([(), ()], 1, {}, "no topology to choose from"),
        (np.zeros((0, 2)), 1, {}, "no steps to plan"),
        ([*COSTS, (INF, INF)], 1, {"start": 0}, "step 3 of 3 cannot be served by any of the 2"),
        (COSTS, 1, {"start": 2}, "start is 2: topologies are numbered 0 to 1"),
        (COSTS, 1, {"start": 0, "first": 3}, "give either start or first"),
        (COSTS, [[0, 1], [1, 0]], {}, "say what the fabric starts with"),
        (COSTS, 1, {"first": [1, 2, 3]}, "first must be one number or 2"),
        (COSTS, 1, {"first": [INF, INF]}, "one of them finite"),
        (COSTS, 1, {"first": -3}, "first is -3: it cannot be negative"),
        (COSTS, 1, {"start": 0, "gaps": [1, INF]}, "gaps must be 2 finite numbers"),
        (COSTS, 1, {"start": 0, "gaps": [1, -2]}, r"gaps\[1\] is -2: it cannot be negative"),
        (COSTS, 1, {"start": 0, "rows": [0, 2]}, "rows names row 2: rows of costs are 0 to 1"),
        (COSTS, 1, {"start": 0, "rows": []}, "no steps to plan"),
        (COSTS, 1, {"start": 0, "rows": [0.5]}, "rows must be a one-dimensional array of integers"),
    ],
)
def test_refused(costs, delta, more, rule):
    with pytest.raises(ValueError, match=rule):
        LegProblem(costs, delta, **more)


def test_too_large(monkeypatch):
    monkeypatch.setattr("ocs_codesign.circuits.legs.plan.MAX_STATES", 9)
    with pytest.raises(ValueError, match="5 steps on 2 topologies: at most 9 states are planned"):
        LegProblem(COSTS, 1, rows=[0] * 5)


@pytest.mark.parametrize(
    ("choice", "rule"),
    [
        ([0], "choice must be 2 integers"),
        ([0.0, 1.0], "choice must be 2 integers"),
        ([0, 2], "step 2 is on topology 2: topologies are 0 to 1"),
        ([0, 1], "step 2 cannot be served by topology 1"),
    ],
)
def test_plans_that_are_none(choice, rule):
    problem = LegProblem([(4, 9), (9, INF)], 1, start=0)
    with pytest.raises(ValueError, match=rule):
        price_plan(problem, choice)


def test_a_step_that_only_the_unreachable_serves_is_named_in_its_place():
    problem = LegProblem([(4, 9), (9, 4)], [[0, INF], [1, 0]], first=[1, INF])
    with pytest.raises(ValueError, match="step 1 cannot be on topology 1: no switch at the start"):
        price_plan(problem, [1, 1])


@pytest.mark.parametrize(
    "values",
    [
        [1, 2, 3],
        [Fraction(1, 3), Fraction(5, 7), Fraction(2)],
        [0.1, 0.25, 1e-9],
        [1e15, 2e-6, 3.0],
        [1 / 3, 0.1, 7.0],
        [2**70, 2**70 + 1, 5],
        [np.int64(3), np.float64(0.5), Decimal("0.1")],
        [1e300, 1.5e-300, 1.0],
        [np.float32(0.5), True, 4],
    ],
)
def test_ticks_are_exact(values):
    ticks = LegProblem(table([values]), 0, start=0).ticks
    for value, whole in zip(values, ticks.costs[0].tolist(), strict=True):
        text = repr(float(value)) if isinstance(value, float | np.floating) else value
        assert ticks.tick * whole == Fraction(text)


def test_ticks_are_the_coarsest():
    problem = LegProblem([(4_000_000, 9_000_000)], 500_000, start=0)
    assert problem.ticks.tick == 500_000
    assert problem.ticks.costs.tolist() == [[8, 18]]


@pytest.mark.parametrize("digits", [3, 15, 17])
def test_arrays_of_floats_are_their_decimals(digits):
    rng = np.random.default_rng(digits)
    for scale in (1e-12, 1.0, 1e9):
        costs = np.array([float(f"{x * scale:.{digits}g}") for x in rng.random(20)]).reshape(4, 5)
        ticks = LegProblem(costs, 0.5, start=0).ticks
        expected = [Fraction(repr(value)) for value in costs.ravel().tolist()]
        assert [ticks.tick * whole for whole in ticks.costs.ravel().tolist()] == expected


def test_arrays_are_copies_that_cannot_be_written_to():
    costs = np.array(COSTS)
    problem = LegProblem(costs, 1, start=0)
    costs[0, 0] = 100
    assert problem.costs[0, 0] == 4
    for array in (problem.costs, problem.rows, problem.first, problem.ticks.costs):
        assert not array.flags.writeable
