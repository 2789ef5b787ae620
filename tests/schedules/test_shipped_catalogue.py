"""The catalogue that is shipped: undamaged, complete for its sizes, exact."""

from __future__ import annotations

import random

import pytest

from ocs_codesign.core.bounds import bound
from ocs_codesign.core.collective import Collective
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.design import Question, build, measure
from ocs_codesign.search.catalogue.entry import find
from ocs_codesign.search.catalogue.store import Catalogue
from ocs_codesign.search.pareto import literature

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


@pytest.mark.parametrize("degree", [2, 3, 4, 8])
def test_never_worse_than_published(shipped, degree):
    for nodes in (16, 27, 32, 64, 81, 100, 128, 256, 512, 1000, 1024):
        stored = [e.allgather for e in find(shipped, Question(nodes, degree)).entries]
        for recipe in literature(nodes, degree):
            published = measure(recipe).cost
            assert any(c == published or c.dominates(published) for c in stored)
