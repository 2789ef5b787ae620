"""Line digraphs: the exact predictor, the bounds around the published formula, the schedule."""

from __future__ import annotations

from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from samples import BASE_TEXTS, texts_of
from strategies import (
    as_lift,
    built,
    multigraphs,
    permutation_digraph,
    recipes,
    regular_multigraphs,
    without_symmetry,
)

from ocs_codesign.core.topology import Topology, in_neighbours
from ocs_codesign.graphs.expansions.line import Line, line_digraph
from ocs_codesign.graphs.families.dense import Complete
from ocs_codesign.graphs.families.rings import DirectedCirculant
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.breadth_first.loads import MAX_SUBSET_WIDTH, bfb_loads, line_bfb_loads
from ocs_codesign.verification.schedules import verify

BASES = [
    topology
    for topology in (built(parse(text)) for text in BASE_TEXTS)
    if topology.num_links * topology.degree <= 4000
    and in_neighbours(topology).node.shape[1] <= MAX_SUBSET_WIDTH
]
BASES += [permutation_digraph(nodes, degree, 4) for nodes in (5, 12, 20) for degree in (2, 3, 4)]


def test_predictor_has_no_mismatch_with_bfb_on_the_built_graph():
    compared = 0
    for base in BASES:
        for one in (base, base.transpose()):
            assert line_bfb_loads(one) == bfb_loads(line_digraph(one))
            compared += 1
    assert compared >= 120


@given(regular_multigraphs(max_nodes=8, max_degree=4))
def test_predictor_on_regular_multigraphs(base):
    assert line_bfb_loads(base) == bfb_loads(line_digraph(base))


@given(recipes(max_nodes=60, max_depth=2))
@settings(max_examples=150)
def test_predictor_on_recipes(recipe):
    base = built(recipe)
    if in_neighbours(base).node.shape[1] <= MAX_SUBSET_WIDTH:
        assert line_bfb_loads(base) == bfb_loads(without_symmetry(line_digraph(base)))


def test_t_b_lies_between_the_lower_bound_and_the_published_formula():
    grown = 0
    for base in BASES:
        loads, longer = bfb_loads(base), line_bfb_loads(base)
        if len(longer) == len(loads):
            continue
        nodes, degree = base.num_nodes, base.degree
        expanded = line_digraph(base)
        before, after = base.t_b(sum(loads)), expanded.t_b(sum(longer))
        least = before + (1 - Fraction(1, degree)) / nodes
        assert len(longer) == len(loads) + 1
        assert least <= after <= before + Fraction(1, nodes)
        if before == Fraction(nodes - 1, nodes):
            links = expanded.num_nodes
            assert (after == Fraction(links - 1, links)) == (after == least)
        grown += 1
    assert grown >= 60


@pytest.mark.parametrize(
    ("topology", "rule"),
    [
        (Topology(3, [0, 1, 2, 0], [1, 2, 0, 2]), "regular graph"),
        (Topology(2, [0, 0, 1, 1], [1, 1, 0, 0], [1, 2, 1, 2]), "equal link speeds"),
        (Complete(12).topology(), "at most 9 in-neighbours"),
        (DirectedCirculant(8, (2, 4)).topology(), "not strongly connected"),
    ],
)
def test_predictor_refuses(topology, rule):
    with pytest.raises(ValueError, match=rule):
        line_bfb_loads(topology)


@given(multigraphs(max_nodes=5, max_extra=6, speeds=False))
def test_line_graph_is_that_of_networkx(base):
    multi = nx.MultiDiGraph()
    ends = zip(base.tail.tolist(), base.head.tolist(), strict=True)
    names = [(tail, head, link) for link, (tail, head) in enumerate(ends)]
    multi.add_edges_from(names)
    expected = {(names.index(e), names.index(f)) for e, f in nx.line_graph(multi).edges()}
    expanded = line_digraph(base)
    links = list(zip(expanded.tail.tolist(), expanded.head.tolist(), strict=True))
    assert set(links) == expected
    assert len(links) == len(expected)


@given(regular_multigraphs())
def test_sizes_and_loops(base):
    expanded = line_digraph(base)
    assert expanded.num_nodes == base.num_links
    assert expanded.degree == base.degree
    assert expanded.is_regular
    assert expanded.has_self_loops() == base.has_self_loops()


def test_line_of_the_complete_graph_is_the_kautz_graph():
    for d, k in [(2, 1), (2, 3), (3, 1)]:
        recipe = Line(parse(f"Complete({d + 1})"), k)
        assert recipe.num_nodes == parse(f"Kautz({d}, {k})").num_nodes
        assert bfb_loads(built(recipe)) == bfb_loads(built(parse(f"Kautz({d}, {k})")))


@pytest.mark.parametrize("text", texts_of({"Line": Line}))
def test_mapped_schedule_is_within_the_formula_at_every_step(text):
    recipe = parse(text)
    made = recipe.gather_schedule().max_loads()
    assert all(load <= said for load, said in zip(made, recipe.predicted_loads(), strict=False))


@given(regular_multigraphs(max_nodes=6, max_degree=3))
def test_mapped_loads_differ_only_where_a_receiver_would_hear_itself(base):
    """Every send of G is made d times on a link, less the one whose root is the receiver."""
    schedule, mapped = as_lift(base).gather_schedule(), Line(as_lift(base)).gather_schedule()
    assert verify(mapped).ok
    formula = [Fraction(1), *(base.degree * load for load in schedule.max_loads())]
    rows = zip(*(column.tolist() for column in schedule.columns()), strict=True)
    exact = [Fraction(1)] + [Fraction(0)] * schedule.num_steps
    per_link: dict[tuple[int, int, int], int] = {}
    into = {v: np.flatnonzero(base.head == v).tolist() for v in range(base.num_nodes)}
    out = {v: np.flatnonzero(base.tail == v).tolist() for v in range(base.num_nodes)}
    for root, lo, hi, link, step in rows:
        for after in out[int(base.head[link])]:
            roots = sum(before != after for before in into[root])
            key = (step, link, after)
            per_link[key] = per_link.get(key, 0) + roots * (hi - lo)
    for (step, _, _), load in per_link.items():
        exact[step] = max(exact[step], Fraction(load, schedule.num_chunks))
    while exact and not exact[-1]:
        exact.pop()
    assert list(mapped.max_loads()) == exact
    assert all(made <= said for made, said in zip(exact, formula, strict=False))
