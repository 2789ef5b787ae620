"""Recipes as values: what they declare, predict, build and refuse."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import EXPANSION_TEXTS
from strategies import built, recipes

from ocs_codesign.core.bounds import bound, moore_steps, topology_bound
from ocs_codesign.core.collective import GATHERING
from ocs_codesign.core.cost import Cost
from ocs_codesign.core.topology import Topology
from ocs_codesign.graphs.expansions.degree import Degree
from ocs_codesign.graphs.expansions.line import Line
from ocs_codesign.graphs.expansions.product import Power, Product
from ocs_codesign.graphs.expansions.reverse import Bidirected, Transpose
from ocs_codesign.graphs.families.dense import Complete
from ocs_codesign.graphs.families.named import Named
from ocs_codesign.graphs.families.rings import Circulant, DirectedCirculant, Hypercube, UniRing
from ocs_codesign.graphs.families.shifts import GeneralizedKautz
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.breadth_first.loads import bfb_loads
from ocs_codesign.schedules.design import build, measure, measure_topology, predict

some = settings(max_examples=60)


@given(recipes())
def test_measured_lies_between_the_bounds_and_the_prediction(recipe):
    for collective in GATHERING:
        predicted, candidate = recipe.predict(collective), measure(recipe, collective)
        least = bound(recipe.num_nodes, recipe.degree, collective)
        here = topology_bound(built(recipe), collective)
        assert candidate.measured
        assert predicted.t_b >= candidate.cost.t_b >= here.t_b >= least.t_b
        assert predicted.steps >= candidate.cost.steps >= here.steps >= least.steps
    assert here.steps >= 2 * moore_steps(recipe.num_nodes, recipe.degree)


@given(recipes(max_nodes=120))
@some
def test_designs_are_verified_and_cost_what_was_measured(recipe):
    for collective in GATHERING:
        candidate, design = measure(recipe, collective), build(recipe, collective)
        assert design.cost == candidate.cost
        assert design.loads == candidate.loads
        assert design.maker == candidate.maker
        assert design.schedule.topology == built(recipe)
        assert design.schedule.collective == collective


@given(recipe=recipes(max_nodes=120), seed=st.integers(0, 99))
@some
def test_names_of_nodes_and_the_order_of_links_do_not_matter(recipe, seed):
    topology, random = built(recipe), np.random.default_rng(seed)
    renamed = topology.relabelled(random.permutation(topology.num_nodes))
    order = random.permutation(topology.num_links)
    shuffled = Topology(topology.num_nodes, renamed.tail[order], renamed.head[order])
    assert bfb_loads(renamed) == bfb_loads(shuffled) == bfb_loads(topology)


@pytest.mark.parametrize(
    ("recipe", "label"),
    [
        (Line(Circulant(16, (3, 4)), 3), "L³(C(16,{3,4}))"),
        (Line(Complete(4)), "L(K4)"),
        (Power(Product(UniRing(1, 4), UniRing(1, 8)), 2), "(UniRing(1,4)□UniRing(1,8))□²"),
        (Degree(Line(Complete(3)), 2), "L(K3)*2"),
        (Transpose(GeneralizedKautz(4, 9)), "Π(4,9)ᵀ"),
        (Bidirected(DirectedCirculant(8, (1, 3))), "Bi(DiC(8,{1,3}))"),
        (Named("petersen"), "Petersen"),
        (Hypercube(12), "Q12"),
        (parse("Cayley(Dihedral(8), ((1, 0), (0, 1)))"), "Cay(D8,{(1,0),(0,1)})"),
        (parse("Cayley(DirectProduct(Cyclic(2), Cyclic(3)), ((1, 1),))"), "Cay(Z2×Z3,{(1,1)})"),
        (parse("Cayley(Semidirect(7, 3, 2), ((1, 0),))"), "Cay(Z7⋊Z3,{(1,0)})"),
    ],
)
def test_labels(recipe, label):
    assert recipe.label() == label


def test_recipes_are_values():
    assert Line(Complete(3)) == Line(Complete(3)) != Line(Complete(4))
    assert Circulant(8, (1, 3)) != DirectedCirculant(8, (1, 3))
    assert Power(Complete(3), 2) != Degree(Complete(3), 2)
    assert len({Line(Complete(3), 2), Line(Line(Complete(3))), Complete(3)}) == 2
    with pytest.raises(AttributeError):
        Complete(3).n = 4


@pytest.mark.parametrize("expansion", [Line, Transpose, Bidirected])
@pytest.mark.parametrize("part", [4, "Complete(4)", None, (Complete(4),), Complete])
def test_expansions_expand_recipes(expansion, part):
    with pytest.raises(ValueError, match="is not a recipe"):
        expansion(part)


@pytest.mark.parametrize("n", [0, -1, 2.0, "2", True, None])
def test_bad_numbers(n):
    for expansion in (Degree, Power, Line):
        with pytest.raises(ValueError, match=r"must be an integer"):
            expansion(Complete(3), n)


def test_degree_refuses_self_loops():
    for inner in ("DeBruijn(2, 2)", "Line(DeBruijn(2, 2))", "GeneralizedKautz(2, 8)"):
        with pytest.raises(ValueError, match="without self-loops"):
            Degree(parse(inner), 2)


def test_bases_that_are_not_strongly_connected():
    for text in ("DirectedCirculant(8, (2, 4))", "GeneralizedKautz(1, 5)"):
        recipe = parse(text)
        assert recipe.num_nodes > 1
        for function in (predict, measure, build, type(recipe).expansion_schedule):
            with pytest.raises(ValueError, match="not strongly connected"):
                function(recipe)


def test_too_large_to_build_but_not_to_predict():
    recipe = Line(Power(Complete(5), 12), 3)
    assert recipe.num_nodes == 5**12 * 48**3
    cost = recipe.predict()
    assert cost.steps == 15
    assert cost.t_b == Fraction(5**12 - 1, 5**12) + sum(
        Fraction(1, 5**12 * 48**k) for k in range(3)
    )
    with pytest.raises(ValueError, match="too many links"):
        recipe.topology()


def test_transposes_cancel():
    recipe = Transpose(Transpose(GeneralizedKautz(2, 9)))
    assert recipe.predict() == GeneralizedKautz(2, 9).predict()
    assert built(recipe) == built(GeneralizedKautz(2, 9))


def test_transpose_swaps_the_collectives():
    recipe = GeneralizedKautz(3, 17)
    assert Transpose(recipe).predict() == recipe.predict("reduce-scatter")
    assert Transpose(recipe).predict("reduce-scatter") == recipe.predict()
    assert Transpose(recipe).predict("allreduce") == recipe.predict("allreduce")


@pytest.mark.parametrize("text", EXPANSION_TEXTS)
def test_an_allreduce_is_predicted_as_its_halves(text):
    recipe = parse(text)
    both = recipe.predict("allreduce")
    assert both == recipe.predict("reduce-scatter") + recipe.predict("allgather")
    loads = recipe.predicted_loads("reduce-scatter") + recipe.predicted_loads()
    assert recipe.predicted_loads("allreduce") == loads
    assert measure_topology(built(recipe), "allreduce").loads == (
        bfb_loads(built(recipe).transpose())[::-1] + bfb_loads(built(recipe))
    )


def test_prediction_is_a_cost():
    assert parse("Line(CompleteBipartite(4), 2)").predict() == Cost(4, Fraction(33, 32))
