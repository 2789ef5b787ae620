"""The local search for lifts: exact scores, links kept regular, seeds, and what it finds."""

from __future__ import annotations

from fractions import Fraction
from math import lcm

import numpy as np
import pytest

from ocs_codesign.core.compute.kernels import compiled
from ocs_codesign.core.cost import Cost
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.breadth_first.loads import bfb_loads
from ocs_codesign.schedules.design import Question, measure
from ocs_codesign.search import lifts
from ocs_codesign.search.bases import Effort
from ocs_codesign.search.generators import words_of
from ocs_codesign.search.lifts import climbed, gaps, orbit_counts
from ocs_codesign.search.move_kernels import climb, draw, draw_real

SHORT = Effort(work=2**20)


def test_numbers_are_drawn_as_numpy_draws_them():
    """Whole words in between: an upper half waits for its turn, for the generator itself too."""
    rng, same = (np.random.default_rng(5) for _ in range(2))
    sizes = np.random.default_rng(6).integers(1, 50, size=2000).tolist()
    for first in range(0, 2000, 501):
        with words_of(same, 501, 501) as drawn:
            for below in sizes[first : first + 501]:
                assert draw(*drawn, below) == rng.integers(0, below)
                if below % 3 == 0:
                    assert draw_real(*drawn) == rng.random()
        assert same.bit_generator.state["state"] == rng.bit_generator.state["state"]


def shares(degree):
    unit = lcm(*range(1, degree + 1))
    return unit, np.array([0] + [unit // s.bit_count() for s in range(1, 1 << degree)])


def score(state, degree, order, steps, both, moves=0, seed=0):
    rng = np.random.default_rng(seed)
    arrays = (state.tail, state.voltage, state.mate)
    sizes = (degree, order, steps, shares(degree)[1], both, -1, moves)
    with words_of(rng, 3 * moves, moves) as drawn:
        return compiled(climb)(*arrays, *sizes, *drawn)


@pytest.mark.parametrize(
    ("nodes", "degree", "bidirectional"),
    [(7, 2, False), (11, 3, False), (12, 2, False), (18, 4, False), (20, 3, True), (21, 4, True)],
)
@pytest.mark.parametrize("moves", [0, 200])
def test_scores_are_exact_bfb_loads(nodes, degree, bidirectional, moves):
    question = Question(nodes, degree, bidirectional)
    tried = 0
    for state in lifts._starts(question, 64, SHORT):
        for both in (False, True):
            far, largest, _ = score(state, degree, state.order, 64, both, moves, seed=moves)
            topology = state.recipe(degree).topology()
            assert topology.is_regular
            assert topology.degree == degree
            assert topology.is_undirected() or not bidirectional
            if far:
                continue
            tried += 1
            loads = sum(bfb_loads(topology))
            if both:
                loads += sum(bfb_loads(topology.transpose()))
            assert Fraction(int(largest), shares(degree)[0]) == loads
    assert tried


def test_pairs_that_are_too_far_apart_are_counted():
    question = Question(13, 2)
    (state, *_) = lifts._starts(question, 2, SHORT)
    far, _, _ = score(state, 2, 1, 2, both=False)
    distances = state.recipe(2).topology().distances()
    assert far == int(((distances > 2) | (distances < 0)).sum())


def test_the_search_never_makes_a_score_worse():
    for state in lifts._starts(Question(20, 3), 4, SHORT):
        scores = [
            score(state, 3, state.order, 4, True, moves, seed=moves) for moves in (0, 50, 500)
        ]
        assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize(
    "question", [Question(37, 4), Question(62, 3), Question(36, 4, True), Question(45, 3)]
)
def test_what_is_found_keeps_its_promise(question, both):
    found = list(climbed(question, [], Effort(work=2**22), both=both))
    assert found == list(climbed(question, [], Effort(work=2**22), both=both))
    for recipe in found:
        assert question.is_answered_by(recipe)
        assert parse(repr(recipe)) == recipe
        assert measure(recipe).cost.steps <= max(gaps(question, []))


def test_seeds_differ():
    question = Question(37, 4)
    found = [
        tuple(climbed(question, [], Effort(seed=seed, work=2**21), both=True)) for seed in (1, 2)
    ]
    assert found[0] != found[1]


def test_link_swaps_beat_generalized_kautz_at_a_prime():
    costs = [measure(recipe).cost for recipe in climbed(Question(37, 4), [], Effort(), both=False)]
    assert min(cost.t_b for cost in costs if cost.steps == 3) < Fraction(48, 37)


def test_no_gaps_below_a_bandwidth_optimal_design():
    question = Question(64, 4)
    optimal = Cost(4, Fraction(63, 64))
    assert gaps(question, [optimal]) == []
    assert gaps(question, []) == [4, 5, 6]
    assert list(climbed(question, [optimal], Effort(), both=True)) == []


def test_no_work_and_no_room():
    assert list(climbed(Question(37, 4), [], Effort(work=0), both=True)) == []
    assert list(climbed(Question(37, 1), [], Effort(), both=True)) == []
    assert list(climbed(Question(4099, 4), [], Effort(), both=True)) == []
    assert list(climbed(Question(15, 3, bidirectional=True), [], SHORT, both=True)) == []


def test_orbits_divide_the_nodes():
    for nodes in range(2, 300):
        assert all(nodes % orbits == 0 for orbits in orbit_counts(nodes))
    assert orbit_counts(1009) == []
