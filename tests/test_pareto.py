"""Dominance in any number of criteria, and frontiers of designs by named ones."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocs_codesign.cost import Cost, no_worse, split_dominated
from ocs_codesign.design import Design, Known, build, measure
from ocs_codesign.graphs.text import parse
from ocs_codesign.question import Question
from ocs_codesign.search.pareto import CRITERIA, Frontier, point_of

RECIPE = parse("Circulant(12, (2, 3))")
points = st.integers(1, 4).flatmap(
    lambda size: st.lists(st.tuples(*[st.integers(0, 4)] * size), max_size=20)
)


@given(points)
def test_the_front_is_what_nothing_beats(items):
    front, rest = split_dominated(items, lambda point: point)
    better = {
        item: any(no_worse(other, item) and other != item for other in items) for item in items
    }
    assert front == sorted({item for item in items if not better[item]})
    assert sorted(front + rest) == sorted(items)
    assert rest == sorted(rest)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_every_criterion_is_a_number_of_a_design(criterion):
    (value,) = point_of(measure(RECIPE), [criterion])
    assert value > 0


def test_a_new_criterion_counts(monkeypatch):
    """Links to buy, say: the design with more steps is on the frontier for it."""
    monkeypatch.setitem(CRITERIA, "links", lambda design: design.recipe.degree)
    designs = [measure(RECIPE), measure(parse("BiRing(2, 12)"))]
    criteria = ("steps", "links")
    front, rest = split_dominated(designs, lambda design: point_of(design, criteria))
    answer = Frontier(Question(12, 4), designs[0].collective, tuple(front), tuple(rest), criteria)
    assert [design.recipe for design in answer.candidates] == [RECIPE, designs[1].recipe]
    assert answer.dominator(designs[1]) == designs[1]
    assert answer.static == answer.candidates


def test_designs_say_what_they_know():
    predicted, built = measure(RECIPE), build(RECIPE)
    assert built.schedule.num_steps == built.cost.steps == predicted.of("allgather").cost.steps
    with pytest.raises(ValueError, match=r"the schedule of .* was not built"):
        _ = predicted.schedule
    with pytest.raises(ValueError, match=r"unknown collective"):
        predicted.cost_of("broadcast")
    graph = Design(predicted.collective, Cost(3, Fraction(1)), "bfb", Known.BOUNDED)
    assert not graph.measured
    with pytest.raises(ValueError, match="a graph that no recipe describes"):
        _ = graph.recipe
    with pytest.raises(ValueError, match="0 configurations"):
        Cost(1, Fraction(1), 0)
    assert Cost(1, Fraction(1), 3) + Cost(2, Fraction(1)) == Cost(3, Fraction(2), 3)
    assert repr(Cost(1, Fraction(1), 3)).endswith("num_configurations=3)")
