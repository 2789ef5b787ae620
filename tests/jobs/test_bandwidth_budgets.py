"""Budgets of bandwidth: LIBRA's known optima, whole numbers, and what is refused."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from folders import EXAMPLES
from hypothesis import given
from hypothesis import strategies as st

from ocs_codesign.core.networks.builders import star, torus
from ocs_codesign.jobs.budgets import BudgetProblem, Objective, allocate, sent_bytes
from ocs_codesign.jobs.files.budget_files import load_budget, parse_budget
from ocs_codesign.jobs.whole_budgets import allocate_units, dimensions_of

EXAMPLE = EXAMPLES / "gpt3_budget.yaml"
GB = 10**9
A, G = 1_358_954_496, 452_984_832
SHIPPED = {"total_Bps": 1000 * GB, "fixed": {0: 500 * GB}, "limits": [((2, 3), 200 * GB)]}
ROWS = [
    (SHIPPED, "time", (500, 300, 151.18, 48.82), 3.553430e8),
    ({"total_Bps": 600 * GB}, "time", (400.52, 100.13, 75.10, 24.25), 3.603199e8),
    ({"total_Bps": 1000 * GB}, "time", (667.54, 166.88, 125.16, 40.42), 3.530816e8),
    ({"total_Bps": 600 * GB}, "time-cost", (540.95, 48.81, 7.74, 2.50), 2.461256e5),
    ({"total_Bps": 1000 * GB}, "time-cost", (923.77, 63.02, 9.99, 3.23), 3.787879e5),
]


def gpt3(**limits):
    spending = load_budget(EXAMPLE)
    return BudgetProblem(
        spending.sent, compute_s=spending.compute_s, price=spending.price, **limits
    )


def test_the_example_is_the_closed_form():
    sent = gpt3(total_Bps=1).sent
    parts = (4 * A, A, 0, 0), (0, G, Fraction(3 * G, 4), Fraction(31 * G, 128))
    assert sent == parts


@pytest.mark.parametrize(("limits", "objective", "rates", "expected"), ROWS)
def test_optima_of_libra(limits, objective, rates, expected):
    problem = gpt3(**limits)
    found = allocate(problem, Objective(objective))
    value = found.time_s * 1e9 if objective == "time" else found.value * 1e9 / 1e10
    assert value == pytest.approx(expected, rel=5e-7)
    if limits is SHIPPED:  # B1 is anything from 299.53 on
        assert found.bandwidths_Bps[1] / GB == pytest.approx(300, abs=0.5)
        rates = (500, found.bandwidths_Bps[1] / GB, *rates[2:])
    assert [rate / GB for rate in found.bandwidths_Bps] == pytest.approx(rates, abs=0.005)
    assert sum(found.bandwidths_Bps) <= limits["total_Bps"] * (1 + 1e-12)


shares = st.lists(st.integers(0, 20), min_size=3, max_size=3).filter(any)


@given(st.lists(shares, min_size=1, max_size=3), st.integers(0, 5), st.integers(0, 2**31))
def test_no_other_bandwidths_are_better(sent, compute, seed):
    problem = BudgetProblem(sent, compute_s=compute, price=[1, 2, 7], total_Bps=30)
    rng = np.random.default_rng(seed)
    for objective in Objective:
        best = allocate(problem, objective)
        for _ in range(20):
            rates = rng.dirichlet([1, 1, 1]) * 30
            if (rates > 1e-6).all():
                assert float(problem.value(rates.tolist(), objective)) >= best.value * (1 - 1e-6)


@given(st.lists(shares, min_size=1, max_size=3), st.sampled_from(Objective))
def test_whole_units_are_the_best_of_all(sent, objective):
    problem = BudgetProblem(sent, price=[1, 2, 7], total_Bps=11)
    least = [int(any(row[dim] for row in sent)) for dim in range(3)]
    ways = [
        row
        for row in product(range(12), repeat=3)
        if sum(row) == 11 and all(a >= b for a, b in zip(row, least, strict=True))
    ]
    expected = min(problem.value(row, objective) for row in ways)
    found = allocate_units(problem, 1, objective)
    assert (found.value, found.is_best, sum(found.units)) == (expected, True, 11)
    assert found.bound <= float(expected) * (1 + 1e-6)
    near = allocate_units(problem, 1, objective, most_enumerated=0)
    assert not near.is_best
    assert near.value >= found.value
    assert sum(near.units) == 11


def test_one_collective_alone_gets_in_proportion():
    found = allocate(BudgetProblem([[6, 3, 1]], total_Bps=20))
    assert found.bandwidths_Bps == pytest.approx((12, 6, 2), rel=1e-6)
    assert found.time_s == pytest.approx(0.5)


def test_money_instead_of_bandwidth():
    problem = BudgetProblem([[1, 1]], price=[1, 3], money=8)
    assert allocate(problem).bandwidths_Bps == pytest.approx((2, 2), rel=1e-6)
    whole = allocate_units(problem, 1)
    assert (whole.units, whole.cost) == ((2, 2), 8)


def test_bytes_of_collectives():
    half = sent_bytes("reduce-scatter", 64, (4, 2))
    assert half == sent_bytes("allgather", 64, (4, 2)) == (48, 8)
    assert sent_bytes("allreduce", 64, (4, 2)) == (96, 16)
    assert sent_bytes("alltoall", 64, (4, 2)) == (48, 32)
    assert sent_bytes("allreduce", 64, (1, 2)) == (0, 64)


def test_dimensions_of_networks():
    found = [(each.num_ranks, each.bandwidth) for each in dimensions_of(torus((4, 2), (3, 5)))]
    assert found == [(4, 6), (2, 5)]
    with pytest.raises(ValueError, match="have no dimension"):
        dimensions_of(star(4, 1).changed(with_dimension=False))
    with pytest.raises(ValueError, match="is not alike at all hosts"):
        dimensions_of(torus((4, 2), 1).without(links=[0]))


BAD = {
    "nothing limits": ({}, "nothing limits the bandwidths"),
    "no price": ({"money": 1}, "money limits nothing"),
    "total": ({"total_Bps": 0}, "total_Bps is 0: it must be positive"),
    "prices": ({"total_Bps": 1, "price": [1]}, "a price a dimension"),
    "fixed": ({"total_Bps": 1, "fixed": {2: 1}}, "of dimensions 0 to 1"),
    "limit": ({"total_Bps": 1, "limits": [((0,), 0)]}, "fixed or limited is positive"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_problems(case):
    options, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        BudgetProblem([[1, 2]], **options)


def test_what_cannot_be_divided():
    with pytest.raises(ValueError, match="sends something"):
        BudgetProblem([[0, 0]], total_Bps=1)
    with pytest.raises(ValueError, match="leaves nothing for the other dimensions"):
        allocate(BudgetProblem([[1, 1]], total_Bps=1, fixed={0: 1}))
    with pytest.raises(ValueError, match="no dimension has a price"):
        allocate(BudgetProblem([[1, 1]], total_Bps=1), Objective.TIME_COST)
    with pytest.raises(ValueError, match="fewer units than dimensions"):
        allocate_units(BudgetProblem([[1, 1]], total_Bps=1), 1)
    for limit in ({"total_Bps": 1e25}, {"money": 1e25, "price": [1, 1]}):
        with pytest.raises(ValueError, match="more than 1048576 units to share: take larger"):
            allocate_units(BudgetProblem([[1, 1]], **limit), 1)
    with pytest.raises(ValueError, match="no whole number of units"):
        allocate_units(BudgetProblem([[1, 1]], total_Bps=9, fixed={0: Fraction(3, 2)}), 1)
    with pytest.raises(ValueError, match="unknown collective 'broadcast'"):
        sent_bytes("broadcast", 1, (2,))


GOOD = """\
name: b
dimensions:
- {name: x, ranks: 4, price: 2}
- {name: y, ranks: 8, bandwidth: 5GB/s}
compute: 1ms
collectives:
- {collective: alltoall, message: 64B}
- {collective: allreduce, message: 64B, count: 3, over: [{dimension: y, ranks: 2}]}
limits:
- {dimensions: [x, y], bandwidth: 9GB/s}
"""


def test_budget_files():
    read = parse_budget(GOOD.encode(), "b.yaml")
    assert read.sent == ((48, 56), (0, 192))
    assert (read.price, read.fixed) == ((Fraction(2, GB), 0), {1: 5 * GB})
    assert read.limits == (((0, 1), 9 * GB),)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("ranks: 4", "ranks: 0", "line 3: dimensions[0].ranks is 0: it must be at least 1"),
        ("alltoall", "gossip", "line 7: collectives[0].collective is 'gossip': it is one of"),
        ("price", "prise", "line 3: dimensions[0].prise is no known key: did you mean price?"),
        ("dimension: y", "dimension: z", "collectives[1].over names 'z': the dimensions are x, y"),
        ("ranks: 2}", "ranks: 3}", "collectives[1].over has 3 ranks in y: they divide its 8"),
        ("name: y", "name: x", "two dimensions have the same name"),
        ("64B", "64", "line 7: collectives[0].message is 64: write a size as text with its unit"),
        ("[x, y]", "[x, w]", "limits[0] names 'w'"),
    ],
)
def test_bad_budget_files(old, new, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is compared
        parse_budget(GOOD.replace(old, new, 1).encode(), "b.yaml")
    assert message in str(caught.value)
    assert str(caught.value).startswith("b.yaml")
