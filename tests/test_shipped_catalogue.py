"""The catalogue that is shipped: undamaged, complete for its sizes, exact."""

from __future__ import annotations

import random

import pytest

from ocs_codesign.bounds import bound
from ocs_codesign.catalogue import Catalogue, find
from ocs_codesign.collective import Collective
from ocs_codesign.design import build, measure
from ocs_codesign.finder.literature import literature
from ocs_codesign.question import Question
from ocs_codesign.recipe import parse

LARGEST = 256


@pytest.fixture(scope="module")
def shipped():
    with Catalogue() as store:
        yield store


def test_nothing_is_damaged(shipped):
    shipped.check()


def test_every_size_is_there(shipped):
    asked = set(shipped.questions())
    for nodes in range(2, LARGEST + 1):
        for degree in range(2, min(9, nodes)):
            assert {Question(nodes, degree), Question(nodes, degree, True)} <= asked
            assert shipped.entries(Question(nodes, degree))


def test_costs_are_within_the_bounds(shipped):
    for question, entry in shipped.all_entries():
        least = bound(question.num_nodes, question.degree)
        for cost in (entry.allgather, entry.reduce_scatter):
            assert cost.steps >= least.steps
            assert cost.t_b >= least.t_b
        assert entry.bidirectional or not question.bidirectional


def test_a_sample_is_rebuilt_with_its_costs(shipped):
    entries = [entry for _, entry in shipped.all_entries()]
    for entry in random.Random(11).sample(entries, 60):
        recipe = parse(entry.recipe)
        candidate = measure(recipe)
        assert (candidate.allgather, candidate.reduce_scatter) == (
            entry.allgather,
            entry.reduce_scatter,
        )
        assert (recipe.label(), recipe.bidirectional) == (entry.label, entry.bidirectional)
        if entry.num_nodes <= 64:
            assert build(recipe, "allreduce").cost == entry.cost(Collective.ALLREDUCE)


@pytest.mark.parametrize(
    ("nodes", "steps"), [(16, 3), (32, 3), (48, 3), (64, 4), (96, 4), (128, 4), (256, 5)]
)
def test_fewest_steps_at_optimal_bandwidth(shipped, nodes, steps):
    """Degree 4; published designs need 6, 8 and 7 steps for 64, 128 and 256 nodes."""
    (best,) = [e for e in find(shipped, Question(nodes, 4)).entries if e.is_bw_optimal()]
    assert best.allgather.steps <= steps


@pytest.mark.parametrize("degree", [2, 3, 4, 8])
def test_never_worse_than_published(shipped, degree):
    for nodes in (16, 27, 32, 64, 81, 100, 128, 256):
        stored = [e.allgather for e in find(shipped, Question(nodes, degree)).entries]
        for recipe in literature(nodes, degree):
            published = measure(recipe).cost
            assert any(c == published or c.dominates(published) for c in stored)
