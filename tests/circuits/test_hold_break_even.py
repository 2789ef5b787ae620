"""Break-even factors: pieces agree with plans at any factor, are concave, and are all there."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hold_oracle import COSTS, brute_force, random_instance, table

from ocs_codesign.circuits.legs import plan as dynamic_program
from ocs_codesign.circuits.legs.break_even import break_even
from ocs_codesign.circuits.legs.plan import LegProblem, plan_legs, price_plan
from ocs_codesign.circuits.legs.trace import paying
from ocs_codesign.core.progress import heard_by


def test_known_pieces():
    found = break_even(LegProblem(COSTS, 1, start=0))
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


@pytest.mark.parametrize("around", [0, 1, 2, 6, 40])
def test_known_pieces_with_gaps(around):
    problem = LegProblem(COSTS, 1, start=0, gaps=[0, 1, 2, 3, 1, 1])
    found = break_even(problem, around=around)
    bends = [0, 1, 2, 3, Fraction(9, 2), 12, None]
    if around not in {6, 40}:
        assert [(p.begin, p.end) for p in found.pieces] == list(pairwise(bends))
        assert [piece.slope for piece in found.pieces] == [0, 1, 2, 3, 1, 0]
    assert found.factors == (Fraction(9, 2), 12)
    costs = [[3, 1, 1], [1, 1, 1], [0, 1, 2], [0, 3, 3], [0, 0, 1]]
    one_plan = LegProblem(costs, 1, start=0, gaps=[3, 3, 2, 3, 0])
    assert break_even(one_plan, around=around).factors == (4,)


@pytest.mark.parametrize("most_uncompiled", [0, 2**16], ids=["compiled", "python"])
@pytest.mark.parametrize("scale", [1, Fraction(1, 3), 10**30])
@pytest.mark.parametrize("seed", range(40))
def test_agrees_with_every_plan_tried(seed, scale, most_uncompiled, monkeypatch):
    monkeypatch.setattr(dynamic_program, "MAX_UNCOMPILED", most_uncompiled)
    drawn = random.Random(f"{seed} {scale} lines")
    one = random_instance(drawn, scale=scale)
    problem = one.problem()
    if brute_force(one) is None:
        with pytest.raises(ValueError, match="infinite"):
            break_even(problem)
        return
    found = break_even(problem, around=Fraction(drawn.randint(0, 20), drawn.randint(1, 5)))
    assert found.complete
    for left, right in pairwise(found.pieces):
        assert left.begin < left.end == right.begin
        assert left.total(left.end) == right.total(right.begin)
    factors = [Fraction(drawn.randint(0, 60), drawn.randint(1, 9)) for _ in range(4)]
    for factor in [*factors, *found.factors[:2]]:
        assert found.total(factor) == brute_force(one.scaled(factor))[0]


@pytest.mark.parametrize("seed", range(40))
def test_every_piece_is_a_plan_and_they_are_concave_without_gaps(seed):
    one = random_instance(random.Random(f"{seed} concave"), gaps=seed % 2, endless=False)
    pieces = break_even(one.problem()).pieces
    for piece in pieces:
        plan = price_plan(one.scaled(piece.inside).problem(), piece.choice)
        assert plan.total == piece.total(piece.inside)
        assert plan.num_switches == piece.num_switches
    if not seed % 2:
        assert all(left.slope > right.slope for left, right in pairwise(pieces))


def test_products_beyond_64_bits_are_compared_exactly():
    drawn = random.Random(11)
    costs = [[drawn.randint(0, 2**44) for _ in range(6)] for _ in range(60)]
    delta = [[0 if a == b else drawn.randint(2**40, 2**44) for b in range(6)] for a in range(6)]
    found = break_even(LegProblem(costs, delta, start=2))
    assert len(found.pieces) > 40
    for factor in [*found.factors[::5], Fraction(12345678901, 7777777)]:
        scaled = table([[price * factor for price in row] for row in delta])
        assert plan_legs(LegProblem(costs, scaled, start=2)).total == found.total(factor)


def test_many_steps_uniform():
    rng = np.random.default_rng(3)
    costs = rng.integers(1, 1000, (400, 12))
    found = break_even(LegProblem(costs, 1, start=0))
    assert found.complete
    for delta in (0, 1, 7, 50, 333, 5000):
        assert plan_legs(LegProblem(costs, delta, start=0)).total == found.total(delta)


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


def gapped():
    rng = np.random.default_rng(9)
    gaps = rng.integers(1, 400, 60)
    return LegProblem(rng.integers(1, 1000, (60, 4)), 1, start=0, gaps=gaps)


def test_a_part_is_a_part_of_the_whole():
    whole = break_even(gapped())
    assert whole.complete
    assert len(whole.pieces) > 60
    for max_solves in (4, 20, 60, 200):
        for around in (0, 3, 150, 5000):
            told = []
            with heard_by(lambda *at, told=told: told.append(at)):
                part = break_even(gapped(), around=around, max_solves=max_solves)
            assert [done for _, done, _ in told] == sorted({done for _, done, _ in told})
            assert part.pieces[0].begin <= around
            assert part.pieces[-1].end is None or around <= part.pieces[-1].end
            assert all(left.end == right.begin for left, right in pairwise(part.pieces))
            for piece in part.pieces:
                assert whole.total(piece.inside) == piece.total(piece.inside)
    part = break_even(gapped(), around=150, max_solves=60)
    assert 0 < part.pieces[0].begin < 140  # it reaches to both sides
    assert part.pieces[-1].end > 160


def test_refused():
    problem = LegProblem(COSTS, 1, start=0)
    with pytest.raises(ValueError, match="around is -1: a factor cannot be negative"):
        break_even(problem, around=-1)
    with pytest.raises(ValueError, match="max_solves is 1: not even one piece"):
        break_even(problem, max_solves=1)
    with pytest.raises(ValueError, match="factor -1 is not between 0 and None"):
        break_even(problem).piece_at(-1)
    many = 120
    delta = np.arange(many * many).reshape(many, many)
    np.fill_diagonal(delta, 0)
    problem = LegProblem(np.ones((30, many)), delta, start=0, gaps=np.arange(30))
    with pytest.raises(ValueError, match="30 different gaps and 14281 different switching costs"):
        break_even(problem)
