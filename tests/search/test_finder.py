"""The finder: published rows, exactness of every candidate, searched bases, odd questions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from ocs_codesign.core.bounds import bound, moore_steps
from ocs_codesign.core.collective import GATHERING
from ocs_codesign.core.cost import Cost, CostModel
from ocs_codesign.core.progress import heard_by
from ocs_codesign.graphs.families.rings import transitive
from ocs_codesign.graphs.groups.cyclic import Cyclic
from ocs_codesign.graphs.groups.semidirect import Dihedral, Semidirect
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.breadth_first.loads import bfb_loads, line_bfb_loads
from ocs_codesign.schedules.design import Question, build, measure
from ocs_codesign.search.bases import BASE_SOURCES, Effort, cayley_recipe
from ocs_codesign.search.bases import searched_bases as searched
from ocs_codesign.search.frontiers import MAX_NODES, frontier
from ocs_codesign.search.generators import (
    generator_sets,
    multiplication_table,
    score_generator_sets,
    symmetric_generator_sets,
)
from ocs_codesign.search.pareto import literature, pareto
from ocs_codesign.search.small_groups import groups_of_order

PUBLISHED_1024_4 = [
    ("GeneralizedKautz(4, 1024)", 5, Fraction(341, 256)),
    ("Line(Line(Line(Circulant(16, (3, 4)))))", 6, Fraction(261, 256)),
    ("Line(Line(Power(DirectedCirculant(8, (1, 3)), 2)))", 8, Fraction(257, 256)),
    ("Power(Product(UniRing(1, 4), UniRing(1, 8)), 2)", 20, Fraction(1023, 1024)),
]


@pytest.fixture(scope="module")
def large():
    return frontier(1024, 4)


@pytest.mark.parametrize(("text", "steps", "t_b"), PUBLISHED_1024_4)
def test_published_rows_are_found_and_met_or_dominated(large, text, steps, t_b):
    scored = {repr(c.recipe): c for c in (*large.candidates, *large.dominated)}
    assert scored[text].cost.steps <= steps
    assert scored[text].cost.t_b <= t_b
    assert scored[text].measured
    assert large.dominator(Cost(steps, t_b)) is not None


def test_the_modified_de_bruijn_row_is_dominated(large):
    # Line(Power(ModifiedDeBruijn(2, 4), 2)): 11 steps, T_B 1, with a solver-made schedule.
    assert large.dominator(Cost(11, Fraction(1))) is not None


def test_better_than_published(large):
    assert [(c.cost.steps, c.cost.t_b) for c in large.candidates] == [
        (5, Fraction(277, 256)),
        (6, Fraction(1023, 1024)),
    ]
    assert large.candidates[0].moore_optimal
    assert large.candidates[1].bw_optimal


def test_the_winners_can_be_built(large):
    for candidate in large.candidates:
        design = build(candidate.recipe, "reduce-scatter")
        assert design.cost == candidate.cost_of("reduce-scatter")
        assert build(candidate.recipe).cost == candidate.cost


@pytest.mark.parametrize("collective", GATHERING)
@pytest.mark.parametrize(
    ("nodes", "degree"),
    [(2, 1), (6, 2), (12, 3), (24, 4), (27, 3), pytest.param(30, 5, marks=pytest.mark.slow)],
)
def test_every_candidate_is_exact_and_undominated(nodes, degree, collective):
    answer = frontier(nodes, degree, collective)
    costs = [candidate.cost for candidate in answer.candidates]
    assert not any(a.dominates(b) for a in costs for b in costs)
    assert len(set(costs)) == len(costs)
    for candidate in answer.candidates:
        assert candidate.measured
        assert (candidate.recipe.num_nodes, candidate.recipe.degree) == (nodes, degree)
        assert build(candidate.recipe, collective).cost == candidate.cost
        assert parse(repr(candidate.recipe)) == candidate.recipe
        assert candidate.cost.steps >= answer.bound.steps
        assert candidate.cost.t_b >= answer.bound.t_b
    for candidate in answer.dominated:
        assert answer.dominator(candidate.cost) is not None


@pytest.mark.parametrize("nodes", range(5, 13))
def test_testbed_sizes_are_optimal(nodes):
    """For N = 5 .. 12, d = 4 one design meets both bounds, as published."""
    (only,) = frontier(nodes, 4).candidates
    assert only.bw_optimal
    assert only.moore_optimal


@pytest.mark.slow
@pytest.mark.parametrize("degree", [1, 2, 3, 4])
def test_never_worse_than_generalized_kautz(degree):
    for nodes in (*range(degree + 1, 34), 48, 51, 59):
        if nodes > 1:
            answer = frontier(nodes, degree)
            for recipe in literature(nodes, degree):
                assert answer.dominator(measure(recipe).cost) is not None


def test_allreduce_adds_both_sides():
    answer = frontier(9, 2, "allreduce")
    for candidate in answer.candidates:
        assert candidate.cost == candidate.cost_of("allgather") + candidate.cost_of(
            "reduce-scatter"
        )


def test_best_changes_with_the_message():
    answer = frontier(12, 3)
    assert len(answer.candidates) > 1
    model = CostModel(1e-5, 1e9)
    assert answer.best(model, 1).cost.steps < answer.best(model, 1e12).cost.steps


def test_the_same_question_has_the_same_answer():
    first, second = frontier(40, 4), frontier(40, 4)
    assert [repr(c.recipe) for c in first.candidates] == [repr(c.recipe) for c in second.candidates]
    assert [repr(c.recipe) for c in first.dominated] == [repr(c.recipe) for c in second.dominated]


def test_progress_counts_up():
    seen = []
    effort = Effort(work=2**16)
    with heard_by(lambda *event: seen.append(event)):
        frontier(16, 2, effort=effort)
    assert {phase for phase, _, _ in seen} >= {"smaller topologies", "measuring"}
    assert all(0 <= done < total for _, done, total in seen if total)


@pytest.mark.parametrize(
    ("nodes", "degree"), [(1, 1), (0, 4), (-3, 2), (8, 0), (8, 8), (8, 100), (MAX_NODES + 1, 4)]
)
def test_impossible_questions(nodes, degree):
    with pytest.raises(ValueError, match=r"nodes|degree"):
        frontier(nodes, degree)


def test_unknown_collective():
    with pytest.raises(ValueError, match="unknown collective"):
        frontier(8, 2, "broadcast")


@pytest.mark.parametrize("group", [Cyclic(16), Dihedral(8), Semidirect(7, 3, 2)])
@pytest.mark.parametrize("degree", [1, 2, 3, 5])
def test_generator_scores_are_exact_bfb(group, degree):
    table = multiplication_table(group)
    sets = generator_sets(group.order, degree, 60, seed=3)
    elements = np.arange(group.order)
    for generators in sets:
        scores = score_generator_sets(table, generators[None])
        topology = transitive([group.right_multiply(elements, int(s)) for s in generators])
        if scores.steps[0] == 0:
            with pytest.raises(ValueError, match="strongly connected"):
                bfb_loads(topology)
            continue
        loads = bfb_loads(topology)
        unit = np.lcm.reduce(np.arange(1, degree + 1))
        assert (len(loads), sum(loads) * int(unit)) == (scores.steps[0], scores.total_load[0])
        assert sum(line_bfb_loads(topology)) * int(unit) == scores.line_load[0]


def test_pruning_keeps_the_frontier_of_generator_sets():
    table = multiplication_table(Cyclic(24))
    sets = generator_sets(24, 3, 3000, seed=0)
    together = score_generator_sets(table, sets)
    alone = [score_generator_sets(table, one[None]) for one in sets]
    costs = {(int(s.steps[0]), int(s.total_load[0])) for s in alone if s.steps[0]}
    best = {c for c in costs if not any(o[0] <= c[0] and o[1] <= c[1] and o != c for o in costs)}
    kept = zip(together.steps.tolist(), together.total_load.tolist(), strict=True)
    assert best <= set(kept)
    assert len(together.best(1)) == len(best)


def test_generator_sets_are_distinct_and_seeded():
    few = generator_sets(8, 3, 1000, seed=0)
    assert len(few) == 35
    sample = generator_sets(200, 4, 500, seed=5)
    assert len(sample) == len(np.unique(sample, axis=0)) == 500
    assert (np.diff(sample, axis=1) > 0).all()
    assert np.array_equal(sample, generator_sets(200, 4, 500, seed=5))
    assert len(generator_sets(4, 4, 10, seed=0)) == 0


def test_groups_of_order_have_that_order():
    for order in range(2, 65):
        groups = list(groups_of_order(order))
        assert all(group.order == order for group in groups)
        assert len(set(map(repr, groups))) == len(groups)


def test_searched_recipes_rebuild_with_their_score():
    for recipe in searched(Question(24, 3), Effort()):
        assert parse(repr(recipe)) == recipe
        assert recipe.shape.num_nodes == 24
        measure(recipe)
    assert repr(cayley_recipe(Cyclic(5), [1, 2])) == "DirectedCirculant(5, (1, 2))"


@pytest.mark.parametrize("source", sorted(BASE_SOURCES))
def test_sources_yield_exactly_the_size(source):
    for nodes in range(2, 33):
        for degree in range(1, min(nodes, 9)):
            for recipe in BASE_SOURCES[source](Question(nodes, degree), Effort()):
                assert (recipe.num_nodes, recipe.degree) == (nodes, degree)


def test_pareto_prefers_measured_on_ties():
    measured = measure(parse("Complete(4)"))
    front, rest = pareto([measured, measured])
    assert front == [measured]
    assert rest == [measured]
    assert measured.bound == bound(4, 3)
    assert moore_steps(4, 3) == 1


def test_published_designs_are_listed(large):
    assert repr(large.published[0].recipe) == "GeneralizedKautz(4, 1024)"
    assert {text for text, _, _ in PUBLISHED_1024_4} <= {repr(c.recipe) for c in large.published}
    assert all(large.dominator(c.cost) is not None for c in large.published)


@pytest.mark.parametrize(("nodes", "degree"), [(8, 3), (12, 4), (15, 4), (16, 5), (7, 2)])
def test_bidirectional_answers_are_undirected(nodes, degree):
    answer = frontier(nodes, degree, bidirectional=True)
    for candidate in (*answer.candidates, *answer.dominated):
        assert candidate.recipe.bidirectional
        assert candidate.recipe.topology().is_undirected()
    directed = frontier(nodes, degree)
    for candidate in answer.candidates:
        assert directed.dominator(candidate.cost) is not None


def test_no_bidirectional_topology_of_odd_size_and_degree():
    with pytest.raises(ValueError, match="odd number of nodes"):
        frontier(9, 3, bidirectional=True)


def test_symmetric_generator_sets_are_closed_under_inverses():
    for group in (Cyclic(12), Dihedral(6), Semidirect(7, 3, 2)):
        table = multiplication_table(group)
        inverse = np.argmin(table, axis=1)
        for degree, most in ((2, 1000), (4, 5)):
            sets = symmetric_generator_sets(table, degree, most, seed=2)
            assert all(set(inverse[row].tolist()) == set(row.tolist()) for row in sets)
            assert len(np.unique(sets, axis=0)) == len(sets) > 0


@pytest.mark.parametrize(
    "text",
    [
        "Line(UniRing(3, 2))",
        "Line(DeBruijn(2, 1))",
        "Line(Complete(4))",
        "Kautz(1, 2)",
        "Kautz(2, 0)",
        "Kautz(2, 1)",
        "DirectedCirculant(7, (1, 6))",
        "DirectedCirculant(7, (1, 2))",
        "Cayley(Dihedral(4), ((0, 1), (1, 1)))",
        "Product(Complete(2), UniRing(1, 3))",
        "Degree(Circulant(5, (1,)), 2)",
        "Bidirected(GeneralizedKautz(2, 7))",
        "Transpose(GeneralizedKautz(2, 7))",
    ],
)
def test_bidirectional_is_known_without_building(text):
    recipe = parse(text)
    assert recipe.bidirectional == recipe.topology().is_undirected()
