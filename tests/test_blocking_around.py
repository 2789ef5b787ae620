"""Break-even factors searched from the middle, within a limit; where switching ceases to pay."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from blocking_oracle import brute_force, random_instance

from ocs_codesign.reconfigure import SwitchProblem, break_even, paying
from ocs_codesign.reconfigure.hold.paying import ceases_to_pay

COSTS = [(4, 9), (4, 9), (9, 4), (4, 9), (9, 4), (9, 4)]


def lines(found):
    return [(piece.begin, piece.end, piece.base, piece.slope) for piece in found.pieces]


@pytest.mark.parametrize("seed", range(60))
def test_where_it_begins_does_not_matter(seed):
    drawn = random.Random(f"{seed} around")
    one = random_instance(drawn)
    if brute_force(one) is None:
        return
    whole = break_even(one.problem())
    around = Fraction(drawn.randint(0, 20), drawn.randint(1, 5))
    found = break_even(one.problem(), around=around)
    assert found.complete
    assert found.pieces[0].begin == 0
    for left, right in pairwise(found.pieces):
        assert left.end == right.begin
        assert left.total(left.end) == right.total(right.begin)
    for piece in found.pieces:
        assert whole.total(piece.inside) == piece.total(piece.inside)


def test_one_plan_over_several_regimes_is_no_change():
    for around in (0, 1, 2, 6, 40):
        problem = SwitchProblem(COSTS, 1, start=0, gaps=[0, 1, 2, 3, 1, 1])
        assert break_even(problem, around=around).factors == (Fraction(9, 2), 12)
    costs = [[3, 1, 1], [1, 1, 1], [0, 1, 2], [0, 3, 3], [0, 0, 1]]
    for around in (0, 1, Fraction(7, 2), 6):
        problem = SwitchProblem(costs, 1, start=0, gaps=[3, 3, 2, 3, 0])
        assert break_even(problem, around=around).factors == (4,)


def gapped():
    rng = np.random.default_rng(9)
    gaps = rng.integers(1, 400, 60)
    return SwitchProblem(rng.integers(1, 1000, (60, 4)), 1, start=0, gaps=gaps)


@pytest.mark.parametrize("max_solves", [4, 20, 60, 200])
@pytest.mark.parametrize("around", [0, 3, 150, 5000])
def test_a_part_is_a_part_of_the_whole(around, max_solves):
    whole, part = break_even(gapped()), break_even(gapped(), around=around, max_solves=max_solves)
    assert whole.complete
    assert len(whole.pieces) > 60
    assert part.pieces[0].begin <= around
    assert part.pieces[-1].end is None or around <= part.pieces[-1].end
    for left, right in pairwise(part.pieces):
        assert left.end == right.begin
    for piece in part.pieces:
        assert whole.total(piece.inside) == piece.total(piece.inside)


def test_it_reaches_to_both_sides():
    part = break_even(gapped(), around=150, max_solves=60)
    assert 0 < part.pieces[0].begin < 140
    assert part.pieces[-1].end > 160


@pytest.mark.parametrize("around", [Fraction(1, 9), 1, 4, 9])
def test_ceasing_is_bracketed(around):
    problem = SwitchProblem(COSTS, 1, start=0)
    found = ceases_to_pay(problem, Fraction(around))
    assert found.begin < 10 <= found.end <= found.begin * Fraction(101, 100)


def test_ceasing_agrees_with_the_pieces():
    problem = gapped()
    (*_, last) = paying(break_even(problem))
    found = ceases_to_pay(problem, Fraction(1))
    assert found.begin < last.end <= found.end


@pytest.mark.parametrize(
    ("costs", "factor"), [(COSTS, 10), (COSTS, 0), ([(1, float("inf")), (float("inf"), 1)], 1)]
)
def test_nothing_ceases(costs, factor):
    assert ceases_to_pay(SwitchProblem(costs, 1, start=0), Fraction(factor)) is None


def test_a_negative_factor_is_refused():
    with pytest.raises(ValueError, match="around is -1: a factor cannot be negative"):
        break_even(gapped(), around=-1)


def test_progress_is_told():
    told = []
    break_even(gapped(), around=5, on_progress=lambda *at: told.append(at))
    assert [done for done, _ in told] == list(range(told[0][1]))
