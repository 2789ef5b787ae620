"""Designs as options: what they cost is what the rest of the package says they cost."""

from __future__ import annotations

import pytest

from ocs_codesign.circuits.legs.options import (
    design_option,
    recipe_option,
    recipe_options,
    serving_options,
)
from ocs_codesign.core.collective import GATHERING, WITHOUT_PARAMETERS, Collective
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.design import Question, measure
from ocs_codesign.schedules.paths.throughput import throughput
from ocs_codesign.search.frontiers import designs_serving

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


def test_a_design_that_is_known_costs_what_it_costs_measured():
    """One time for one design, whoever asks: that of the pool is that of a recipe by name."""
    serving = designs_serving(Question(12, 3), WITHOUT_PARAMETERS)
    options = serving_options(serving, WITHOUT_PARAMETERS)
    assert [one.recipe for one in options][: len(serving.candidates)] == [
        one.recipe for one in serving.candidates
    ]
    assert {one.recipe for one in serving.baselines} <= {one.recipe for one in options}
    for one in options:
        assert one == recipe_option(one.recipe, WITHOUT_PARAMETERS)


def test_only_what_is_known_can_be_asked_of_a_design():
    (best, *_) = designs_serving(Question(12, 3), [Collective.ALLGATHER]).candidates
    assert design_option(best, [Collective.ALLGATHER]).cost(Collective.ALLTOALL) is None
    with pytest.raises(ValueError, match="alltoall is not known"):
        design_option(best, [Collective.ALLTOALL])
    with pytest.raises(ValueError, match="there are no collectives"):
        designs_serving(Question(12, 3), [])
