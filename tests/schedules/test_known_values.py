"""Values known before this package existed: the package must find exactly these."""

from __future__ import annotations

import csv
from fractions import Fraction

import pytest
from folders import DATA
from strategies import built

from ocs_codesign.core.bounds import bound, moore_steps
from ocs_codesign.core.collective import GATHERING, Collective
from ocs_codesign.core.cost import Cost
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.breadth_first.loads import bfb_loads, num_chunks_for
from ocs_codesign.schedules.design import build, measure, measure_topology

TABLE = DATA / "known_values.csv"

with TABLE.open(newline="") as _file:
    ROWS = list(csv.DictReader(_file))

every_row = pytest.mark.parametrize("row", ROWS, ids=[row["recipe"] for row in ROWS])

FRONTIER_1024 = [
    ("GeneralizedKautz(4, 1024)", 5, Fraction(341, 256)),
    ("Line(Circulant(16, (3, 4)), 3)", 6, Fraction(261, 256)),
    ("Line(Power(DirectedCirculant(8, (1, 3)), 2), 2)", 8, Fraction(1)),
    ("Line(DirectedCirculant(64, (1, 31, 39, 57)), 2)", 7, Fraction(1023, 1024)),
    ("Power(Product(UniRing(1, 4), UniRing(1, 8)), 2)", 20, Fraction(1023, 1024)),
]
"""Recipes of 1024 nodes of degree 4 with their exact BFB cost."""


def test_table_is_complete():
    assert len(ROWS) == 38


@every_row
def test_text_and_shape(row):
    recipe = parse(row["recipe"])
    assert repr(recipe) == row["recipe"]
    assert (recipe.num_nodes, recipe.degree) == (int(row["nodes"]), int(row["degree"]))
    assert (built(recipe).num_nodes, built(recipe).degree) == (recipe.num_nodes, recipe.degree)
    assert built(recipe).is_undirected() == (row["bidirectional"] == "y")
    assert recipe.bidirectional == (row["bidirectional"] == "y")


@every_row
def test_loads_and_cost(row):
    topology = built(parse(row["recipe"]))
    loads = bfb_loads(topology)
    assert loads == tuple(map(Fraction, row["max_load_per_step"].split()))
    assert num_chunks_for(loads) == int(row["num_chunks"])
    assert measure_topology(topology).cost == Cost(int(row["steps"]), Fraction(row["t_b"]))


@every_row
def test_bounds_and_flags(row):
    recipe = parse(row["recipe"])
    assert bound(recipe.num_nodes, recipe.degree).t_b == Fraction(row["t_b_bound"])
    assert moore_steps(recipe.num_nodes, recipe.degree) == int(row["moore_steps"])
    candidate = measure(recipe)
    assert candidate.measured
    assert candidate.cost.t_b <= Fraction(row["t_b"])
    assert candidate.bw_optimal == (row["bw_optimal"] == "y")
    assert candidate.moore_optimal == (row["moore_optimal"] == "y")
    optimal = candidate.cost.t_b == Fraction(recipe.num_nodes - 1, recipe.num_nodes)
    assert optimal == candidate.bw_optimal


@every_row
def test_schedule_has_the_known_chunks_and_loads(row):
    design = build(parse(row["recipe"]), Collective.ALLGATHER, "bfb")
    assert design.schedule.num_chunks == int(row["num_chunks"])
    assert design.loads == tuple(map(Fraction, row["max_load_per_step"].split()))
    assert design.cost == Cost(int(row["steps"]), Fraction(row["t_b"]))


@pytest.mark.parametrize(
    ("text", "gather", "scatter"),
    [
        ("GeneralizedKautz(4, 1000)", Fraction(333, 250), Fraction(341, 250)),
        ("GeneralizedKautz(4, 9)", Fraction(32, 27), Fraction(4, 3)),
        ("GeneralizedKautz(2, 9)", Fraction(14, 9), Fraction(10, 9)),
    ],
)
def test_generalized_kautz_differs_from_its_transpose(text, gather, scatter):
    recipe = parse(text)
    assert not recipe.reverse_symmetric
    assert measure(recipe).cost.t_b == gather
    assert measure(recipe, "reduce-scatter").cost.t_b == scatter
    assert measure(recipe, "allreduce").cost.t_b == gather + scatter
    assert measure_topology(built(recipe), "allreduce").cost.t_b == gather + scatter


@pytest.mark.parametrize(("text", "steps", "t_b"), FRONTIER_1024)
def test_1024_nodes_of_degree_4(text, steps, t_b):
    recipe = parse(text)
    assert (recipe.num_nodes, recipe.degree) == (1024, 4)
    assert measure_topology(built(recipe)).cost == Cost(steps, t_b)


def test_published_prediction_of_the_power_of_the_diamond():
    recipe = parse("Line(Power(DirectedCirculant(8, (1, 3)), 2), 2)")
    assert recipe.predict() == Cost(8, Fraction(257, 256))


@pytest.mark.parametrize(
    "text",
    [
        "Complete(5)",
        'Named("octahedron")',
        "Circulant(7, (2, 3))",
        "CompleteBipartite(4)",
        "Hamming(2, 3)",
        "Circulant(10, (2, 3))",
        "Circulant(11, (2, 3))",
        "Circulant(12, (2, 3))",
    ],
)
def test_sizes_of_the_published_testbed_are_optimal_in_both_ways(text):
    recipe = parse(text)
    assert recipe.degree == 4
    for collective in GATHERING:
        candidate = measure(recipe, collective)
        assert candidate.bw_optimal
        assert candidate.moore_optimal
