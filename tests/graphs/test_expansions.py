"""The published formula of each expansion, and that products of optimal factors are optimal."""

from __future__ import annotations

from fractions import Fraction

import networkx as nx
import pytest
from graph_contracts import mapped_schedule_does_what_was_predicted
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import as_lift, base_recipes, built, regular_multigraphs

from ocs_codesign.core.cost import Cost
from ocs_codesign.graphs.expansions.degree import Degree
from ocs_codesign.graphs.expansions.line import Line
from ocs_codesign.graphs.expansions.product import Power
from ocs_codesign.graphs.expansions.reverse import Bidirected
from ocs_codesign.graphs.registry import EXPANSIONS
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.design import build, measure, measure_topology
from ocs_codesign.verification.schedules import verify


@pytest.mark.parametrize("name", sorted({*EXPANSIONS} - {"Excise", "Insert", "Splice", "Swap"}))
@given(data=st.data())
def test_mapped_schedules_of_any_regular_graphs(name, data):
    """Graphs of no family, with self-loops and parallel links where the expansion takes them.

    Edits map no schedules: test_edits.py builds theirs.
    """
    graphs = st.tuples(*[regular_multigraphs(5, 3)] * (2 if name == "Product" else 1))
    parts = [as_lift(graph) for graph in data.draw(graphs)]
    assume(name != "Degree" or not parts[0].has_self_loops)
    sizes = (2,) if name in ("Degree", "Power") else ()
    sizes = (parts[0].topology().diameter() + 1, 50, 1) if name == "Late" else sizes
    mapped_schedule_does_what_was_predicted(EXPANSIONS[name](*parts, *sizes))


@given(base_recipes())
def test_line_formula(base):
    nodes, degree = base.num_nodes, base.degree
    once = base.predict()
    for k in range(1, 5):
        grown = Line(base, k).predict()
        assert grown.steps == once.steps + k
        added = sum(Fraction(1, degree**i * nodes) for i in range(k))
        assert grown.t_b == once.t_b + added
        if degree > 1:
            closed = Fraction(degree, degree - 1) * (1 - Fraction(1, degree**k)) / nodes
            assert added == closed


@given(base_recipes())
def test_degree_formula(base):
    if base.has_self_loops:
        with pytest.raises(ValueError, match="without self-loops"):
            Degree(base, 2)
        return
    nodes, once = base.num_nodes, base.predict()
    assert Degree(base, 1).predict() == once
    for n in (2, 3, 5):
        grown = Degree(base, n)
        assert (grown.num_nodes, grown.degree) == (n * nodes, n * base.degree)
        assert grown.predict() == Cost(once.steps + 1, once.t_b + Fraction(n - 1, n * nodes))
        optimal = once.t_b == Fraction(nodes - 1, nodes)
        assert optimal == (grown.predict().t_b == Fraction(n * nodes - 1, n * nodes))


@given(base_recipes())
def test_power_formula(base):
    nodes, once = base.num_nodes, base.predict()
    for n in (1, 2, 3):
        grown = Power(base, n)
        assert (grown.num_nodes, grown.degree) == (nodes**n, n * base.degree)
        factor = Fraction(nodes, nodes - 1) * Fraction(nodes**n - 1, nodes**n)
        assert grown.predict() == Cost(n * once.steps, once.t_b * factor)
        optimal = once.t_b == Fraction(nodes - 1, nodes)
        assert optimal == (grown.predict().t_b == Fraction(nodes**n - 1, nodes**n))


@given(base_recipes())
def test_bidirected_formula(base):
    both = Bidirected(base)
    forth, back = base.predict(), base.predict("reduce-scatter")
    assert (both.num_nodes, both.degree) == (base.num_nodes, 2 * base.degree)
    assert built(both).is_undirected()
    if base.reverse_symmetric:
        assert both.predict() == forth
    else:
        assert max(forth.t_b, back.t_b) <= both.predict().t_b <= forth.t_b + back.t_b
        assert both.predict().steps == max(forth.steps, back.steps)


def test_bidirected_uses_half_of_every_copy():
    schedule = Bidirected(parse("UniRing(1, 5)")).expansion_schedule()
    first = schedule.link < 5
    assert int((schedule.hi - schedule.lo)[first].sum()) == 5 * 4
    assert int((schedule.hi - schedule.lo)[~first].sum()) == 5 * 4


def test_product_is_the_cartesian_product_of_networkx():
    factors = [parse("DirectedCirculant(5, (1, 2))"), parse("GeneralizedKautz(2, 4)")]
    graphs = [nx.MultiDiGraph(), nx.MultiDiGraph()]
    for graph, factor in zip(graphs, factors, strict=True):
        topology = built(factor)
        graph.add_nodes_from(range(topology.num_nodes))
        graph.add_edges_from(zip(topology.tail.tolist(), topology.head.tolist(), strict=True))
    ours = built(parse(f"Product({factors[0]!r}, {factors[1]!r})"))
    links = sorted(zip(ours.tail.tolist(), ours.head.tolist(), strict=True))
    expected = nx.cartesian_product(*graphs).edges()
    assert links == sorted((a * 4 + b, c * 4 + d) for (a, b), (c, d) in expected)


def test_degree_links_all_copies():
    ours = built(parse("Degree(UniRing(1, 3), 2)"))
    links = sorted(zip(ours.tail.tolist(), ours.head.tolist(), strict=True))
    ring = [(v, (v + 1) % 3) for v in range(3)]
    assert links == sorted(
        (2 * u + i, 2 * v + j) for u, v in ring for i in range(2) for j in range(2)
    )


def test_power_of_a_generalized_kautz_graph_keeps_the_mapped_schedule():
    recipe = parse("Power(GeneralizedKautz(2, 8), 2)")
    assert measure_topology(built(recipe)).cost.t_b == 2
    assert recipe.predict().t_b == Fraction(63, 32)
    candidate = measure(recipe)
    assert candidate.cost.t_b == Fraction(63, 32)
    assert candidate.maker == "expansion"
    assert candidate.measured
    assert build(recipe).maker == "expansion"
    assert build(recipe).cost == candidate.cost


OPTIMAL_FACTORS = [
    *(f"Complete({n})" for n in (2, 3, 4, 6)),
    *(f"UniRing(1, {m})" for m in (3, 4, 5, 8)),
    *(f"BiRing(2, {m})" for m in (4, 5, 7)),
    *(f"CompleteBipartite({d})" for d in (3, 4)),
    *(f"DirectedCirculant({n}, ({a}, {b}))" for n, a, b in ((5, 1, 2), (8, 1, 3), (9, 2, 5))),
    "DirectedCirculant(5, (1, 2, 3))",
    "Circulant(7, (2, 3))",
    "Degree(UniRing(1, 4), 2)",
    'Named("petersen")',
    'Named("twisted_3_cube")',
]
"""Bandwidth-optimal and without parallel links."""


def test_bfb_on_products_of_optimal_factors_is_optimal():
    swept = 0
    for i, one in enumerate(OPTIMAL_FACTORS):
        for other in OPTIMAL_FACTORS[i:]:
            recipe = parse(f"Product({one}, {other})")
            candidate = measure_topology(built(recipe))
            nodes = recipe.num_nodes
            assert candidate.cost.t_b == Fraction(nodes - 1, nodes)
            steps = parse(one).predict().steps + parse(other).predict().steps
            assert candidate.cost.steps == steps
            swept += 1
    assert swept == 231


def test_bfb_on_products_of_optimal_factors_need_not_be_optimal_with_parallel_links():
    recipe = parse("Product(DirectedCirculant(8, (1, 3)), UniRing(2, 4))")
    assert all(measure(factor).bw_optimal for factor in recipe.parts)
    assert measure_topology(built(recipe)).cost == Cost(6, Fraction(1))


def test_woven_product_is_optimal_as_predicted():
    recipe = parse("Product(Torus((4, 3)), DirectedCirculant(5, (1, 2)))")
    verdict = verify(recipe.expansion_schedule())
    assert verdict.ok
    assert verdict.cost == recipe.predict() == Cost(5, Fraction(59, 60))
