"""Break-even factors: pieces agree with plans at any factor, are concave, and are all there."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from blocking_oracle import brute_force, random_instance, table

from ocs_codesign.reconfigure import SwitchProblem, break_even, paying, price_plan, switch_plan

COSTS = [(4, 9), (4, 9), (9, 4), (4, 9), (9, 4), (9, 4)]


def test_known_pieces():
    found = break_even(SwitchProblem(COSTS, 1, start=0))
    assert [(p.begin, p.end, p.base, p.slope, p.num_switches) for p in found.pieces] == [
        (0, Fraction(5, 2), 24, 3, 3),
        (Fraction(5, 2), 10, 29, 1, 1),
        (10, None, 39, 0, 0),
    ]
    assert found.complete
    assert found.factors == (Fraction(5, 2), 10)
    assert [found.total(delta) for delta in (0, 1, 3, 5, 6, 8, 20)] == [24, 27, 32, 34, 35, 37, 39]
    (span,) = paying(found)
    assert (span.begin, span.end) == (0, 10)


def test_known_pieces_with_gaps():
    found = break_even(SwitchProblem(COSTS, 1, start=0, gaps=[0, 1, 2, 3, 1, 1]))
    ends = [(piece.begin, piece.end, piece.slope) for piece in found.pieces]
    assert ends == [
        (0, 1, 0),
        (1, 2, 1),
        (2, 3, 2),
        (3, Fraction(9, 2), 3),
        (Fraction(9, 2), 12, 1),
        (12, None, 0),
    ]
    assert found.factors == (Fraction(9, 2), 12)


@pytest.mark.parametrize("scale", [1, Fraction(1, 3), 10**30])
@pytest.mark.parametrize("seed", range(60))
def test_agrees_with_every_plan_tried(seed, scale):
    drawn = random.Random(f"{seed} {scale} lines")
    one = random_instance(drawn, scale=scale)
    problem = one.problem()
    if brute_force(one) is None:
        with pytest.raises(ValueError, match="infinite"):
            break_even(problem)
        return
    found = break_even(problem)
    assert found.complete
    assert found.pieces[0].begin == 0
    assert found.pieces[-1].end is None
    factors = [Fraction(drawn.randint(0, 60), drawn.randint(1, 9)) for _ in range(4)]
    for factor in [*factors, *found.factors[:2]]:
        assert found.total(factor) == brute_force(one.scaled(factor))[0]


@pytest.mark.parametrize("seed", range(40))
def test_pieces_join_and_are_concave_without_gaps(seed):
    one = random_instance(random.Random(f"{seed} concave"), gaps=False, endless=False)
    pieces = break_even(one.problem()).pieces
    for left, right in pairwise(pieces):
        assert left.end == right.begin
        assert left.total(left.end) == right.total(right.begin)
        assert left.slope > right.slope


@pytest.mark.parametrize("seed", range(80))
def test_no_piece_is_empty(seed):
    one = random_instance(random.Random(f"{seed} empty"), endless=False)
    for piece in break_even(one.problem()).pieces:
        assert piece.end is None or piece.begin < piece.end


@pytest.mark.parametrize("seed", range(300))
    drawn = random.Random(seed)
    q, p = drawn.randint(1, 2**45), drawn.randint(1, 2**45)
    times = drawn.randint(1, 2**12)
    base = drawn.choice((1, -1)) * p * times + drawn.randint(-2, 2)
    lean = -q * times * (1 if base > 0 else -1) + drawn.randint(-2, 2)
    value = q * base + p * lean
    assert _sign(base, lean, q, p) == (value > 0) - (value < 0)
    assert _sign(-base, -lean, q, p) == (value < 0) - (value > 0)
    assert _sign(times * p, -times * q, q, p) == 0


@pytest.mark.parametrize("seed", range(40))
def test_every_piece_is_a_plan_of_that_cost(seed):
    one = random_instance(random.Random(f"{seed} plans"), endless=False)
    for piece in break_even(one.problem()).pieces:
        plan = price_plan(one.scaled(piece.inside).problem(), piece.choice)
        assert plan.total == piece.total(piece.inside)
        assert plan.num_switches == piece.num_switches


def test_products_beyond_64_bits_are_compared_exactly():
    drawn = random.Random(11)
    costs = [[drawn.randint(0, 2**44) for _ in range(6)] for _ in range(60)]
    delta = [[0 if a == b else drawn.randint(2**40, 2**44) for b in range(6)] for a in range(6)]
    problem = SwitchProblem(costs, delta, start=2)
    assert problem.ticks.is_compiled
    found = break_even(problem)
    assert len(found.pieces) > 40
    for factor in [*found.factors[::5], Fraction(12345678901, 7777777)]:
        scaled = table([[price * factor for price in row] for row in delta])
        assert switch_plan(SwitchProblem(costs, scaled, start=2)).total == found.total(factor)


def test_many_steps_uniform():
    rng = np.random.default_rng(3)
    costs = rng.integers(1, 1000, (400, 12))
    found = break_even(SwitchProblem(costs, 1, start=0))
    assert found.complete
    for delta in (0, 1, 7, 50, 333, 5000):
        assert switch_plan(SwitchProblem(costs, delta, start=0)).total == found.total(delta)


@pytest.mark.parametrize("seed", range(60))
def test_paying_is_where_one_topology_is_worse(seed):
    drawn = random.Random(f"{seed} pays")
    one = random_instance(drawn)
    if brute_force(one) is None:
        return
    spans = paying(break_even(one.problem()))
    for _ in range(4):
        factor = Fraction(drawn.randint(1, 60), drawn.randint(1, 9)) * Fraction(997, 1000)
        scaled = one.scaled(factor)
        held = []
        for topology in range(len(one.first)):
            costs = [[row[topology]] for row in scaled.costs]
            alone = type(one)(costs, [[0]], [scaled.first[topology]], scaled.gaps, None, True)
            found = brute_force(alone)
            held += [] if found is None else [found[0]]
        inside = any(
            span.begin < factor and (span.end is None or factor < span.end) for span in spans
        )
        assert inside == (not held or brute_force(scaled)[0] < min(held))


def test_stops_where_it_is_told():
    rng = np.random.default_rng(3)
    problem = SwitchProblem(rng.integers(1, 1000, (200, 5)), 1, start=0)
    told = []
    part = break_even(problem, max_solves=30, on_progress=lambda *at: told.append(at))
    whole = break_even(problem)
    assert told == [(0, 1)]
    assert not part.complete
    assert part.pieces[-1].end is not None
    for mine, theirs in zip(part.pieces, whole.pieces, strict=False):
        assert (mine.begin, mine.end, mine.base, mine.slope) == (
            theirs.begin,
            theirs.end,
            theirs.base,
            theirs.slope,
        )
    with pytest.raises(ValueError, match="is not between 0 and"):
        part.total(10**6)
    with pytest.raises(ValueError, match="max_solves is 1"):
        break_even(problem, max_solves=1)


def test_a_negative_factor_is_refused():
    with pytest.raises(ValueError, match="factor -1 is not between 0 and"):
        break_even(SwitchProblem(COSTS, 1, start=0)).piece_at(-1)


def test_too_many_pairs_of_gaps_and_prices_are_refused():
    many = 120
    delta = np.arange(many * many).reshape(many, many)
    np.fill_diagonal(delta, 0)
    problem = SwitchProblem(np.ones((30, many)), delta, start=0, gaps=np.arange(30))
    with pytest.raises(ValueError, match="30 different gaps and 14281 different switching costs"):
        break_even(problem)
