"""Excise, Insert, Swap and AffineSpliced: what becomes of links, and what is refused."""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from math import gcd

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from slow_bfb import slow_bfb_loads
from strategies import permutation_digraph

from ocs_codesign.graphs.expansions.edits import Excise, Insert, Swap, excised
from ocs_codesign.graphs.families.affine import AffineSpliced
from ocs_codesign.graphs.families.dense import Complete
from ocs_codesign.graphs.families.rings import DirectedCirculant, UniRing
from ocs_codesign.graphs.families.shifts import DeBruijn, GeneralizedKautz
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.design import build, measure


def links(topology):
    return Counter(zip(topology.tail.tolist(), topology.head.tolist(), strict=True))


@pytest.mark.parametrize("permutation", list(permutations(range(2))))
def test_excision_joins_what_a_node_joined(permutation):
    base = DirectedCirculant(7, (1, 3))
    topology = Excise(base, ((0, permutation),)).topology()
    # Into node 0 come 6 -> 0 and 4 -> 0, link ids by tail; out go 0 -> 1 and 0 -> 3.
    expected = links(base.topology())
    for pair in ((4, 0), (6, 0), (0, 1), (0, 3)):
        expected[pair] -= 1
    heads = [1, 3]
    for tail, out in zip((4, 6), permutation, strict=True):
        expected[tail, heads[out]] += 1
    assert links(topology) == Counter(
        {(u - 1, v - 1): count for (u, v), count in expected.items() if count}
    )


def test_insertion_undoes_excision():
    base = GeneralizedKautz(3, 13)
    smaller = Excise(base, ((12, (2, 0, 1)),))
    before, after = links(base.topology()), links(smaller.topology())
    new = after - before
    ids = []
    topology = smaller.topology()
    for (u, v), count in new.items():
        same = np.flatnonzero((topology.tail == u) & (topology.head == v))
        ids += same[:count].tolist()
    assert len(ids) == 3
    again = Insert(smaller, (tuple(ids),)).topology()
    one, other = (
        nx.from_edgelist([*links(graph).elements()], nx.MultiDiGraph)
        for graph in (base.topology(), again)
    )
    assert nx.is_isomorphic(one, other, edge_match=None)


def test_a_node_with_a_loop_is_cut_out_with_it():
    recipe = Excise(DeBruijn(2, 3), ((0, (0,)),))
    assert recipe.num_nodes == 7
    assert recipe.topology().is_regular
    assert (3, 0) in links(recipe.topology())  # 4 -> 0 -> 1, one number down
    with pytest.raises(ValueError, match=r"permutation \(0, 1\) at node 0: it has 1 in-links"):
        Excise(DeBruijn(2, 3), ((0, (0, 1)),)).topology()


def test_cuts_name_nodes_as_the_base_numbers_them():
    base = DirectedCirculant(9, (1, 2))
    both = Excise(base, ((3, (0, 1)), (7, (1, 0))))
    one = Excise(Excise(base, ((3, (0, 1)),)), ((6, (1, 0)),))
    assert both.topology() == one.topology()


@given(st.data())
def test_edits_keep_degrees_and_cost_what_is_predicted(data):
    nodes, degree = data.draw(st.integers(6, 12)), data.draw(st.integers(2, 3))
    base = DirectedCirculant(nodes, tuple(range(1, degree + 1)))
    kind = data.draw(st.sampled_from(["Excise", "Insert", "Swap"]))
    ids = st.integers(0, nodes * degree - 1)
    if kind == "Excise":
        cut = st.tuples(st.integers(0, nodes - 1), st.permutations(range(degree)).map(tuple))
        recipe = Excise(base, (data.draw(cut),))
    elif kind == "Insert":
        row = st.lists(ids, min_size=degree, max_size=degree, unique=True).map(tuple)
        recipe = Insert(base, (data.draw(row),))
    else:
        recipe = Swap(
            base, (data.draw(st.lists(ids, min_size=2, max_size=2, unique=True).map(tuple)),)
        )
    topology = recipe.topology()
    assert topology.is_regular
    assert (topology.num_nodes, topology.degree) == (recipe.num_nodes, recipe.degree)
    assert parse(repr(recipe)) == recipe
    graph = nx.MultiDiGraph([*links(topology).elements()])
    if nx.is_strongly_connected(graph):
        assert recipe.predicted_loads() == slow_bfb_loads(topology)
        assert build(recipe).cost == recipe.predict()


def test_other_links_keep_their_order():
    base = permutation_digraph(30, 3, 4)
    ends = base.tail.astype(np.int64), base.head.astype(np.int64)
    node = int(np.setdiff1d(np.arange(30), ends[0][ends[0] == ends[1]])[0])
    tail, head = excised(*ends, node, (1, 2, 0))
    stays = (ends[0] != node) & (ends[1] != node)
    changed = np.isin(np.flatnonzero(ends[0] != node), np.flatnonzero(stays), invert=True)
    assert changed.sum() == 3
    for mine, before in zip((tail, head), ends, strict=True):
        assert np.array_equal(mine[~changed], before[stays])


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda: Excise(Complete(4), ()), "cuts are"),
        (lambda: Excise(Complete(4), (3,)), "a cut is 3"),
        (lambda: Excise(Complete(4), ((4, (0, 1, 2)),)), "a node that is cut out is 4"),
        (lambda: Excise(Complete(4), ((0, (0, 0, 1)),)), "no permutation"),
        (lambda: Excise(Complete(4), ((0, (0, 1, 2)), (0, (0, 1, 2)))), "must differ"),
        (lambda: Excise(Complete(4), tuple((n, (0, 1, 2)) for n in range(3))), "leave two"),
        (lambda: Insert(Complete(4), ((0, 1),)), "they must be 3 that differ"),
        (lambda: Insert(Complete(4), ((0, 1, 1),)), "they must be 3 that differ"),
        (lambda: Insert(Complete(4), ((0, 1, 12),)), "at most 11"),
        (lambda: Swap(UniRing(1, 4), ((1, 1),)), "two that differ"),
        (lambda: Swap(UniRing(1, 4), ((1, 4),)), "at most 3"),
        (lambda: Swap(UniRing(1, 4), 7), "pairs are 7"),
        (lambda: AffineSpliced(12, 3, (0, 1)), "no factor in common with 12"),
        (lambda: AffineSpliced(12, 5, (0, 0)), "they must differ"),
        (lambda: AffineSpliced(12, 12, (0, 1)), "q is 12"),
        (lambda: AffineSpliced(12, 5, (0, 12)), "an entry of shifts is 12"),
        (lambda: AffineSpliced(12, 5, [0, 1]), "tuple of integers"),
    ],
)
def test_what_is_refused(make, rule):
    with pytest.raises(ValueError, match=rule):
        make()


@given(st.integers(3, 40), st.integers(1, 39), st.integers(0, 3))
def test_affine_digraphs_by_definition(points, q, seed):
    q %= points
    if not q or gcd(q, points) > 1:
        return
    shifts = tuple(np.random.default_rng(seed).permutation(points)[:3].tolist())
    topology = AffineSpliced(points, q, shifts).topology()
    assert topology.is_regular
    expected = Counter((x, (q * x + r) % points) for x in range(points) for r in shifts)
    loops = [pair for pair in expected if pair[0] == pair[1]]
    spliced = links(topology)
    assert spliced - expected == Counter() or loops
    # Links that are no loops stay; every looped node keeps its ports.
    for pair in loops:
        del expected[pair]
    assert not expected - spliced
    extra = spliced - expected
    assert sorted(u for u, _ in extra.elements()) == sorted(u for u, _ in loops)
    assert sorted(v for _, v in extra.elements()) == sorted(v for _, v in loops)
    single = sum((q * x + r - x) % points == 0 for x in range(points) for r in shifts) == 1
    assert topology.has_self_loops() == single


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("AffineSpliced(1021, 880, (0, 551, 591, 604))", (6, "1093/1021")),
        ("AffineSpliced(61, 54, (0, 55, 4, 53))", (4, "65/61")),
        ("AffineSpliced(331, 64, (0, 120, 174, 137))", (5, "358/331")),
    ],
)
def test_published_affine_digraphs(text, cost):
    found = measure(text).cost
    assert (found.steps, str(found.t_b)) == cost
