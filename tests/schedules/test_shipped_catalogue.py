"""The catalogue that is shipped: undamaged, complete for its sizes, exact."""

from __future__ import annotations

import json
import random
from fractions import Fraction

import numpy as np
import pytest
from folders import ROOT

from ocs_codesign.core.bounds import bound
from ocs_codesign.core.collective import Collective
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.design import Question, build, measure
from ocs_codesign.search.catalogue.entry import find
from ocs_codesign.search.catalogue.store import Catalogue
from ocs_codesign.search.pareto import literature
from ocs_codesign.search.pool import slow_to_compare
from ocs_codesign.verification.schedules import verify

LARGEST = 2048
LARGEST_BIDIRECTIONAL = 512


@pytest.fixture(scope="module")
def shipped():
    with Catalogue() as store:
        yield store


def test_nothing_is_damaged(shipped):
    shipped.check()


@pytest.mark.slow
def test_every_size_is_there(shipped):
    asked = set(shipped.questions())
    for nodes in range(2, LARGEST + 1):
        for degree in range(2, min(9, nodes)):
            assert Question(nodes, degree) in asked
            assert nodes > LARGEST_BIDIRECTIONAL or Question(nodes, degree, True) in asked
    empty = [question for question in asked if not shipped.entries(question)]
    assert all(question.bidirectional for question in empty)


@pytest.mark.slow
def test_costs_are_within_the_bounds(shipped):
    for question, entry in shipped.all_entries():
        least = bound(question.num_nodes, question.degree)
        for cost in (entry.allgather, entry.reduce_scatter):
            assert cost.steps >= least.steps
            assert cost.t_b >= least.t_b
        assert entry.bidirectional or not question.bidirectional


@pytest.mark.slow
def test_a_sample_is_rebuilt_with_its_costs(shipped):
    entries = [entry for _, entry in shipped.all_entries()]
    small = [entry for entry in entries if entry.num_nodes <= 512]
    chosen = random.Random(11).sample(small, 50) + random.Random(12).sample(entries, 10)
    for entry in chosen:
        recipe = parse(entry.recipe)
        candidate = measure(recipe)
        assert (candidate.cost_of("allgather"), candidate.cost_of("reduce-scatter")) == (
            entry.allgather,
            entry.reduce_scatter,
        )
        assert (recipe.label(), recipe.bidirectional) == (entry.label, entry.bidirectional)
        if entry.num_nodes <= 64:
            assert build(recipe, "allreduce").cost == entry.cost(Collective.ALLREDUCE)


@pytest.mark.parametrize(
    ("nodes", "steps"),
    [
        *((16, 3), (32, 3), (48, 3), (64, 4), (96, 4), (128, 4), (256, 5)),
        *((512, 5), (1000, 6), (1024, 6), (2048, 7)),
    ],
)
def test_fewest_steps_at_optimal_bandwidth(shipped, nodes, steps):
    """Degree 4; published designs need 6, 8, 10, 20 steps for 64, 128, 256, 1024 nodes."""
    (best,) = [e for e in find(shipped, Question(nodes, 4)).entries if e.is_bw_optimal()]
    assert best.allgather.steps <= steps


def test_what_takes_time_to_measure_is_stored(shipped):
    """A frontier compares with the literature; where that is stored, no loop has to be compiled."""
    questions = [one for one in shipped.questions() if not one.bidirectional and one.degree <= 8]
    powers = [one for one in questions if one.num_nodes & (one.num_nodes - 1) == 0]
    for question in (*random.Random(5).sample(questions, 60), *powers):
        slow = {str(recipe) for recipe in slow_to_compare(question)}
        assert slow <= {one.recipe for one in shipped.entries(question)}
        assert slow or question.degree == 1


@pytest.mark.parametrize("degree", [2, 3, 4, 8])
def test_never_worse_than_published(shipped, degree):
    for nodes in (16, 27, 32, 64, 81, 100, 128, 256, 512, 1000, 1024):
        stored = [e.allgather for e in find(shipped, Question(nodes, degree)).entries]
        for recipe in literature(nodes, degree):
            published = measure(recipe).cost
            assert any(c == published or c.dominates(published) for c in stored)


def known_rows():
    """Points that a search of other code has reached: N, d, whether two-way, steps, t_b."""
    rows = json.loads((ROOT / "tests" / "data" / "late.json").read_text(encoding="utf-8"))
    return [(Question(*size), steps, Fraction(t_b)) for *size, steps, t_b in rows["rows"]]


def test_late_schedules_reach_what_is_known(shipped):
    for question, steps, t_b in known_rows():
        within = [e.allgather.t_b for e in shipped.entries(question) if e.allgather.steps <= steps]
        assert min(within) <= t_b, question


@pytest.mark.slow
def test_late_designs_are_rebuilt_replayed_and_cost_what_is_stored(shipped):
    late = [entry for _, entry in shipped.all_entries() if "Late(" in entry.recipe]
    assert len(late) > 500
    small = [entry for entry in late if entry.num_nodes <= 450]
    for number in np.random.default_rng(35).permutation(len(small))[:12].tolist():
        entry = small[number]
        design = build(parse(entry.recipe))
        assert verify(design.schedule).cost == entry.allgather
