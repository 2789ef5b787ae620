"""One pool: frontiers, catalogue, selections and plans know the same designs at the same cost."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.cost import Cost, CostModel, no_worse
from ocs_codesign.core.files.kept import CACHE
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.design import Question, build, measure
from ocs_codesign.search import pool as pooled
from ocs_codesign.search.bases import CLOSED_FORMS, Effort
from ocs_codesign.search.catalogue.entry import Provenance, as_entry, find
from ocs_codesign.search.catalogue.own import own_path
from ocs_codesign.search.catalogue.store import Catalogue
from ocs_codesign.search.edited import filled, neighbours
from ocs_codesign.search.frontiers import designs_serving, frontier, joint_frontier
from ocs_codesign.search.pareto import (
    baseline_recipes,
    closed_baselines,
    double_binary_tree,
    fat_tree,
    pareto,
    pipelined_tree,
)
from ocs_codesign.search.pool import Pools, best_for_alltoall, pool, searched
from ocs_codesign.search.sweep import answer

SIZES = [(nodes, degree) for nodes in range(5, 25) for degree in (2, 3, 4) if degree < nodes]
SMALL = [(9, 2), (25, 3), *random.Random(21).sample(SIZES, 6)]
LARGER = [(60, 4), (200, 4), (64, 4), (100, 4), (256, 4)]
BOTH = (Collective.ALLREDUCE, Collective.ALLTOALL)


def beaten(cost, costs):
    return any(no_worse(other.point(), cost.point()) for other in costs)


def refused(*_):
    raise AssertionError("this was searched for")


@pytest.fixture
def no_search(monkeypatch):
    for name in ("searched", "alltoall_recipes"):
        monkeypatch.setattr(pooled, name, refused)


@pytest.fixture
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv(CACHE, str(tmp_path / "cache"))
    return own_path()


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


@pytest.mark.usefixtures("no_search")
def test_what_is_stored_is_not_searched_again():
    known = {design.recipe for design in pool(Question(24, 3)).designs}
    assert set(baseline_recipes(Question(24, 3))) <= known
    with pytest.raises(AssertionError, match="searched"):
        pool(Question(24, 3), Effort(seed=2))


STORED = [(nodes, degree, False) for nodes in range(65, 2049) for degree in range(2, 9)]
STORED += [
    (nodes, degree, True) for nodes, degree, _ in STORED if nodes <= 512 and not nodes * degree % 2
]


@pytest.mark.usefixtures("no_search", "own_cache")
@pytest.mark.parametrize(
    "size", [(64, 4, True), (250, 4, False), *random.Random(31).sample(STORED, 12)]
)
def test_every_stored_size_is_looked_up_and_one_pool_answers(size):
    """Nothing is searched for, ``frontier`` and ``catalogue find`` have the same points, and none
    is worse than what is stored."""
    question = Question(*size)
    with Catalogue() as store:
        rows = [entry.cost(Collective.ALLGATHER) for entry in store.entries(question)]
    for collective in ("allgather", "allreduce"):
        answer = frontier(*size[:2], collective, bidirectional=size[2])
        looked_up = find(Pools(), question, collective).entries
        costs = [one.cost for one in answer.candidates]
        assert costs == [entry.cost(answer.collective) for entry in looked_up]
        assert (answer.origin is None, answer.here) == (False, None)
        if collective == "allgather":
            assert all(beaten(row, costs) for row in rows)


HEADS = ((32, 36, 41, 55), (19, 29, 48, 62), (0, 7, 12, 61), (9, 16, 18, 35))


def found_here(monkeypatch, recipe):
    """Searches find one recipe, at once; the list says how often."""
    calls = []

    def one(question, _answers, _effort, known, _near):
        calls.append(question)
        return [*known, measure(recipe, "allreduce")], []

    monkeypatch.setattr(pooled, "searched", one)
    monkeypatch.setattr(pooled, "alltoall_recipes", lambda *_: calls.append("alltoall") or [])
    return calls


@pytest.mark.parametrize(
    ("question", "recipe"),
    [
        (Question(64, 4, True), "Lift(Cyclic(16), " + repr(HEADS) + ")"),
        (Question(20, 9), "GeneralizedKautz(9, 20)"),
        (Question(2049, 4), "AffineSpliced(2049, 685, (1, 682, 799, 1933))"),
    ],
)
def test_what_is_searched_for_here_is_kept(monkeypatch, own_cache, question, recipe):
    calls = found_here(monkeypatch, recipe)
    first = pool(question, fresh=True)
    monkeypatch.setattr(pooled, "searched", refused)
    again = pool(question)
    assert (calls, again.here.work) == ([question], Effort().work)
    assert again == first
    assert parse(recipe) in {design.recipe for design in again.designs}
    assert parse(recipe) in {parse(entry.recipe) for entry in Pools().entries(question)}
    text = own_cache.read_bytes()
    for damage in (b"nothing", text[:5000], text.replace(b"measured", b"mezsured")):
        own_cache.write_bytes(damage)
        monkeypatch.setattr(pooled, "searched", refused)
        if first.origin is None:
            with pytest.raises(AssertionError, match="searched"):
                pool(question)
        else:
            assert pool(question).here is None
        found_here(monkeypatch, recipe)
        assert pool(question, fresh=True) == pool(question) == first


@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("place", ["", "/proc/nowhere"])
def test_an_answer_that_cannot_be_kept_is_the_same(monkeypatch, place):
    question = Question(20, 9)
    calls = found_here(monkeypatch, "GeneralizedKautz(9, 20)")
    kept = pool(question)
    monkeypatch.setenv(CACHE, place)
    assert pool(question) == pool(question) == kept
    assert calls == [question] * 3


@pytest.mark.usefixtures("own_cache")
def test_only_what_was_not_searched_for_is(monkeypatch, tmp_path):
    question, path = Question(67, 3), tmp_path / "c.sqlite"
    calls = found_here(monkeypatch, "GeneralizedKautz(3, 67)")
    entry = as_entry(measure("GeneralizedKautz(3, 67)", "allreduce"))
    with Catalogue(path, writable=True) as store:
        store.record(question, [entry], Provenance("test", "0", 1, 0.0))
    assert pool(question, catalogue=path).here is None
    assert pool(question, catalogue=path, exchanges=True).here.exchanged == 2**20
    assert calls == ["alltoall"]
    for more in ({"fresh": True}, {"effort": Effort(work=2**25)}, {"effort": Effort(seed=2)}):
        assert pool(question, catalogue=path, **more).here.work >= 2**24
    assert calls == ["alltoall", question, question, question]
    assert pool(Question(75, 3), exchanges=True).here.exchanged == 2**20
    assert pool(Question(75, 3), exchanges=True).here.exchanged == 2**20
    assert calls[4:] == ["alltoall"]


def test_families_of_odd_sizes_are_searched_beyond_the_catalogue():
    question = Question(2063, 4)
    with Catalogue() as store:
        near = neighbours(question, expanded=pooled._expanded_from)
        assert not any(map(store.entries, {Question(one.recipe.num_nodes, 4) for one in near}))
    kautz = measure("GeneralizedKautz(4, 2063)", "allreduce")
    found = filled(question, [kautz], near, Effort(work=2**14), pooled.measured_both_ways)
    best = pareto([kautz, *found], Collective.ALLGATHER)[0]
    assert best[1].cost_of("allgather").t_b < Fraction(11, 10)


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
