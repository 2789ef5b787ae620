"""Dominance in any number of criteria, and frontiers of designs by named ones."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocs_codesign.core.bounds import topology_bound
from ocs_codesign.core.collective import GATHERING
from ocs_codesign.core.cost import Cost, no_worse, split_dominated
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.design import Design, Known, Question, build, measure
from ocs_codesign.search import pareto as pareto_module
from ocs_codesign.search.frontiers import frontier
from ocs_codesign.search.pareto import (
    CRITERIA,
    FOREST_T_B,
    WITH_FORESTS,
    Frontier,
    point_of,
    with_forests,
)

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


def test_what_forests_come_near_to_is_the_bound_of_the_graph():
    for text in ("GeneralizedKautz(2, 9)", "GeneralizedKautz(4, 97)", "Torus((3, 3))"):
        for collective in GATHERING:
            design = measure(parse(text), collective)
            least = topology_bound(design.recipe.topology(), collective).t_b
            assert point_of(design, [FOREST_T_B]) == (least,)
            assert least <= design.cost.t_b


@pytest.mark.parametrize("collective", ["allgather", "reduce-scatter", "allreduce"])
def test_forests_as_a_criterion_ask_for_few_cuts(monkeypatch, collective):
    """The front is that of all designs with their bounds, of which few are computed."""
    asked = []
    monkeypatch.setattr(
        pareto_module, "topology_bound", lambda *given: asked.append(1) or topology_bound(*given)
    )
    answer = frontier(64, 4, collective, forests=True)
    assert len(asked) == 1
    assert answer.criteria == WITH_FORESTS
    for design in answer.candidates:
        assert design.forest_t_b == answer.bound.t_b
        assert answer.dominator(design) == design
    for design in answer.dominated:
        assert answer.dominator(design) is not None


def test_the_front_with_forests_is_that_of_all_bounds():
    recipes = ("GeneralizedKautz(4, 97)", "DirectedCirculant(97, (1, 6, 25, 38))")
    recipes += ("Circulant(97, (7, 8))", "BiRing(4, 97)", "DirectedCirculant(97, (1, 2, 3, 4))")
    designs = [measure(parse(text)) for text in recipes]
    front, rest = with_forests(designs)
    every = {
        text: point_of(design, WITH_FORESTS) for text, design in zip(recipes, designs, strict=True)
    }
    best = [
        point
        for point in every.values()
        if not any(no_worse(other, point) and other != point for other in every.values())
    ]
    assert [point_of(design, WITH_FORESTS) for design in front] == sorted(best)
    assert len(front) + len(rest) == len(recipes)


def test_designs_say_what_they_know():
    predicted, built = measure(RECIPE), build(RECIPE)
    assert built.schedule.num_steps == built.cost.steps == predicted.of("allgather").cost.steps
    assert predicted.schedule == built.schedule
    with pytest.raises(ValueError, match=r"the schedule of .* was not built"):
        _ = replace(predicted, known=Known.PREDICTED).schedule
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


def test_a_frontier_is_a_sequence_of_its_candidates():
    answer = frontier(12, 3)
    assert [*answer] == [answer[k] for k in range(len(answer))] == list(answer.candidates)
    assert (answer[-1], answer[-1] in answer) == (answer.candidates[-1], True)
    assert answer == frontier(12, 3) != frontier(12, 2)
    assert hash(answer) == hash(frontier(12, 3))
    assert answer[0].topology == answer[0].recipe.topology()


def test_what_is_drawn_beside_a_frontier_is_in_its_picture():
    axes = frontier(12, 3).plot()
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    axes.plot([right + 3], [high + 1], "x")
    assert axes.get_xlim()[1] > right + 3
    assert axes.get_ylim()[1] > high + 1
    assert (axes.get_xlim()[0] <= left, axes.get_ylim()[0] <= low) == (True, True)
