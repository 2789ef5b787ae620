"""Designs as options: what they cost is what the rest of the package says they cost."""

from __future__ import annotations

import pytest

from ocs_codesign.collective import GATHERING, WITHOUT_PARAMETERS, Collective
from ocs_codesign.design import measure
from ocs_codesign.graphs.text import parse
from ocs_codesign.question import Question
from ocs_codesign.reconfigure.hold.options import catalogue_recipes, recipe_option, recipe_options
from ocs_codesign.schedulers.alltoall.throughput import throughput
from ocs_codesign.search.catalogue.store import Catalogue

TEXTS = ["GeneralizedKautz(3, 12)", "DirectedCirculant(12, (1, 2, 9))", "UniRing(3, 12)"]


@pytest.mark.parametrize("text", [*TEXTS, "Line(Complete(3))"])
def test_costs(text):
    recipe = parse(text)
    option = recipe_option(recipe, WITHOUT_PARAMETERS)
    for collective in GATHERING:
        assert option.cost(collective) == measure(recipe, collective).cost
    found = throughput(recipe.topology())
    cost = option.cost(Collective.ALLTOALL)
    assert (cost.steps, cost.t_b) == (recipe.topology().diameter(), found.time)
    assert option.alltoall_bound == found.bound
    assert option.topology == recipe.topology()
    assert parse(option.name) == recipe


def test_only_what_is_wanted():
    option = recipe_option(parse(TEXTS[0]), [Collective.REDUCE_SCATTER])
    assert option.cost(Collective.ALLTOALL) is None
    assert option.cost(Collective.ALLREDUCE) is not None
    exchange = recipe_option(parse(TEXTS[0]), [Collective.ALLTOALL])
    assert exchange.cost(Collective.ALLREDUCE) is None
    assert exchange.cost(Collective.ALLGATHER) is None


def test_one_fabric_has_one_size():
    with pytest.raises(ValueError, match=r"Complete\(5\) has 5 nodes of degree 4.*one fabric"):
        recipe_options([parse(TEXTS[0]), parse("Complete(5)")], [Collective.ALLGATHER])


def test_designs_of_a_catalogue(monkeypatch):
    with Catalogue() as store:
        question = Question(256, 4)
        stored = [entry.recipe for entry in store.entries(question)]
        gathering, none = catalogue_recipes(store, question, [Collective.ALLGATHER])
        assert [repr(recipe) for recipe in gathering] == stored
        assert none == []
        monkeypatch.setattr("ocs_codesign.reconfigure.hold.options.MAX_COLUMNS", 10_000)
        exchange, left_out = catalogue_recipes(store, question, [Collective.ALLTOALL])
        assert left_out
        assert exchange
        assert {*exchange, *left_out} == set(gathering)
        with pytest.raises(ValueError, match="no design for 5000 nodes of degree 4"):
            catalogue_recipes(store, Question(5000, 4), [Collective.ALLGATHER])
        with pytest.raises(ValueError, match="links in both directions"):
            catalogue_recipes(store, Question(300, 4, True), [Collective.ALLGATHER])
