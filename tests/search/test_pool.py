"""One pool: frontiers, catalogue, selections and plans know the same designs at the same cost."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.cost import Cost, CostModel, no_worse
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.design import Question, build, measure
from ocs_codesign.search import pool as pooled
from ocs_codesign.search.bases import CLOSED_FORMS, Effort
from ocs_codesign.search.catalogue.entry import Provenance, find
from ocs_codesign.search.catalogue.store import Catalogue
from ocs_codesign.search.frontiers import designs_serving, frontier, joint_frontier
from ocs_codesign.search.pareto import (
    baseline_recipes,
    closed_baselines,
    double_binary_tree,
    fat_tree,
    pipelined_tree,
)
from ocs_codesign.search.pool import best_for_alltoall, pool, searched
from ocs_codesign.search.sweep import answer, as_entry

SIZES = [(nodes, degree) for nodes in range(5, 25) for degree in (2, 3, 4) if degree < nodes]
SMALL = [(9, 2), (25, 3), *random.Random(21).sample(SIZES, 6)]
LARGER = [(60, 4), (200, 4), (64, 4), (100, 4), (256, 4)]
GATHER = (Collective.ALLGATHER,)
BOTH = (Collective.ALLREDUCE, Collective.ALLTOALL)


def beaten(cost, costs):
    return any(no_worse(other.point(), cost.point()) for other in costs)


@pytest.mark.parametrize(("nodes", "degree"), SMALL)
def test_the_joint_frontier_knows_no_better_allgather(nodes, degree):
    gathers = [one.cost for one in frontier(nodes, degree).candidates]
    joint = [one.cost_of("allgather") for one in joint_frontier(nodes, degree).candidates]
    assert all(beaten(cost, gathers) for cost in joint)
    assert all(beaten(cost, joint) for cost in gathers)


@pytest.mark.parametrize(("nodes", "degree"), [*SMALL, *LARGER])
@pytest.mark.parametrize("collective", ["allgather", "allreduce"])
def test_the_catalogue_is_the_frontier(nodes, degree, collective):
    with Catalogue() as store:
        stored = find(store, Question(nodes, degree), collective).entries
    costs = [entry.cost(Collective.parse(collective)) for entry in stored]
    assert [one.cost for one in frontier(nodes, degree, collective).candidates] == costs


@pytest.mark.parametrize(
    ("nodes", "degree", "steps", "t_b"),
    [
        (9, 2, 3, "8/9"),
        (10, 2, 3, "9/10"),
        (25, 3, 3, "24/25"),
        (60, 4, 3, "59/60"),
        (200, 4, 4, "51/50"),
    ],
)
def test_what_the_search_for_alltoall_finds_serves_allgathers(nodes, degree, steps, t_b):
    assert frontier(nodes, degree).dominator(Cost(steps, Fraction(t_b))) is not None


def test_what_is_stored_is_not_searched_again(monkeypatch):
    def refuse(*_):
        raise AssertionError("this was searched for")

    monkeypatch.setattr(pooled, "alltoall_recipes", refuse)
    monkeypatch.setattr(pooled, "lifts", refuse)
    known = {design.recipe for design in pool(Question(24, 3)).designs}
    assert set(baseline_recipes(Question(24, 3))) <= known
    with pytest.raises(AssertionError, match="searched"):
        pool(Question(24, 3), Effort(seed=2))


def test_passes_count_as_a_search_for_allgathers_alone(monkeypatch, tmp_path):
    def refuse(*_):
        raise AssertionError("this was searched for")

    monkeypatch.setattr(pooled, "lifts", refuse)
    question, path = Question(67, 3), tmp_path / "c.sqlite"
    entry = as_entry(measure("GeneralizedKautz(3, 67)", "allreduce"))
    with Catalogue(path, writable=True) as store:
        store.record(question, [entry], Provenance("test", "0", 1, 0.0))
    with pytest.raises(AssertionError, match="searched"):
        pool(question, catalogue=path, passes_for=GATHER)
    with Catalogue(path, writable=True) as store:
        store.add(question, [], work=2**19, time_spent_s=0.0, day="2026-11-23")
    known = pool(question, catalogue=path, passes_for=GATHER)
    assert (known.origin.improved, known.origin.work) == (2**19, 0)
    assert parse(entry.recipe) in {design.recipe for design in known.designs}
    for more in ({}, {"fresh": True}, {"effort": Effort(work=2**25)}):
        with pytest.raises(AssertionError, match="searched"):
            pool(question, catalogue=path, **{"passes_for": GATHER if more else (), **more})


def test_fresh_searches_what_is_stored(monkeypatch):
    searched_now = []

    def note(question, *_):
        searched_now.append(question)
        return []

    monkeypatch.setattr(pooled, "alltoall_recipes", note)
    known = pool(Question(24, 3), passes_for=GATHER)
    assert (known.origin.work, searched_now) == (2**24, [])
    again = pool(Question(24, 3), fresh=True, passes_for=GATHER)
    assert (again.origin, searched_now) == (None, [Question(24, 3)])
    assert {one.recipe for one in again.designs} >= {one.recipe for one in known.designs}


def test_costs_are_those_that_are_measured():
    for design in pool(Question(18, 3)).designs:
        for collective in ("allgather", "reduce-scatter", "allreduce"):
            assert design.measured
            assert design.cost_of(collective) == measure(design.recipe, collective).cost
            assert design.of(collective).cost == design.cost_of(collective)


def test_a_small_effort_looks_at_nothing_stored():
    recipes = {design.recipe for design in pool(Question(60, 4), CLOSED_FORMS).designs}
    assert parse("GeneralizedKautz(4, 60)") in recipes
    assert not any("Lift" in repr(recipe) for recipe in recipes)


def test_more_work_loses_nothing_that_is_known(tmp_path):
    """A question answered with less work is answered again, and only then."""
    question, less = Question(12, 2), Effort(work=2**12)
    first = answer(question, {}, less)
    path = tmp_path / "c.sqlite"
    with Catalogue(path, writable=True) as store:
        assert store.record(question, first.entries, Provenance("test", "0", 1, 0.0, less.work))
        second = answer(question, None, Effort(work=2**16), store.entries(question))
        assert {one.recipe for one in second.entries} >= {one.recipe for one in first.entries}
        assert store.record(question, second.entries, Provenance("test", "0", 1, 0.0, 2**16))
        assert not store.record(question, first.entries, Provenance("test", "0", 1, 0.0, 2**16))
        assert store.entries(question) == second.entries
        store.check()


def test_what_is_kept_for_alltoall_is_not_beaten_in_everything():
    scored, found = searched(Question(14, 2), {}, Effort(work=2**16))
    kept = best_for_alltoall(scored, found)
    assert kept
    assert {design.recipe for design in kept} <= set(found)
    assert all(as_entry(design).measured for design in kept)


@pytest.mark.slow
def test_designs_serving_are_the_joint_frontier_and_more():
    serving = designs_serving(Question(16, 4), BOTH)
    exchange = joint_frontier(16, 4, with_allgather=False)
    least = min(one.cost.t_b for one in serving.candidates)
    assert least == min(one.cost.t_b for one in exchange.candidates)
    reduces = [one.cost_of("allreduce") for one in serving.candidates]
    for one in frontier(16, 4, "allreduce").candidates:
        assert beaten(one.cost, reduces)
    assert all(one.measured for one in serving.baselines)


def test_baselines_of_a_size():
    assert [repr(one) for one in baseline_recipes(Question(64, 4))] == [
        "BiRing(4, 64)",
        "Torus((8, 8))",
    ]
    assert [repr(one) for one in baseline_recipes(Question(13, 3))] == ["UniRing(3, 13)"]
    assert baseline_recipes(Question(13, 3, True)) == ()
    assert [repr(one) for one in baseline_recipes(Question(24, 3))][1] == "Torus((12, 2))"
    for size in ((64, 4), (24, 3)):
        answer = frontier(*size)
        assert [one.recipe for one in answer.baselines] == [*baseline_recipes(answer.question)]


def test_the_tree_has_the_pieces_that_suit_the_message():
    model = CostModel(1e-5, 12.5e9)
    assert double_binary_tree(8, 4, 4).cost == Cost(9, Fraction(9, 2))
    for size in (2**10, 2**20, 2**26):
        times = [double_binary_tree(64, 4, k).cost.time_s(model, size) for k in range(1, 400)]
        assert pipelined_tree(64, 4, model, size).cost.time_s(model, size) == min(times)
    assert pipelined_tree(64, 4, CostModel(0, 1e9), 1) is not None
    assert double_binary_tree(64, 3) is None
    assert [one.label for one in closed_baselines(Question(64, 3), Collective.ALLREDUCE)] == [
        "fat tree (bound)"
    ]


def test_a_fat_tree_moves_every_byte_once():
    assert fat_tree(64, Collective.ALLTOALL).cost == Cost(1, Fraction(63, 64))
    assert fat_tree(64, Collective.ALLREDUCE).cost == Cost(2, Fraction(63, 32))


@pytest.mark.parametrize(
    ("nodes", "degree", "best"),
    [(17, 2, Cost(4, Fraction(16, 17))), (22, 3, Cost(3, Fraction(21, 22)))],
)
def test_stored_schedules_count_whatever_the_catalogue_knows(nodes, degree, best):
    """Late schedules meet both bounds, of a base and of a transpose."""
    designs = pool(Question(nodes, degree)).designs
    winners = [one for one in designs if one.cost_of("allgather") == best]
    assert winners
    assert all(one.measured for one in winners)
    assert len({one.recipe for one in designs}) == len(designs)
    assert build(winners[0].recipe).cost == best
