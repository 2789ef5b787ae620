"""What each family refuses, and how its nodes and links are numbered."""

from __future__ import annotations

import numpy as np
import pytest

from ocs_codesign.graphs.families.cayley import Cayley, Lift
from ocs_codesign.graphs.families.rings import UniRing, abelian
from ocs_codesign.graphs.families.shifts import Kautz
from ocs_codesign.graphs.groups.cyclic import Cyclic
from ocs_codesign.graphs.groups.semidirect import Semidirect
from ocs_codesign.graphs.recipe import MAX_BUILT_LINKS, Shape, size, sizes
from ocs_codesign.graphs.registry import FAMILIES
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.breadth_first.loads import bfb_loads

BAD_SIZES = {
    "Complete": [(1,), (0,), (3.0,), (True,), ("3",)],
    "CompleteBipartite": [(0,)],
    "Hamming": [(0, 2), (1, 1), (65, 2)],
    "Circulant": [(1, (1,)), (8, ()), (8, (0,)), (8, (8,)), (8, (-1,)), (8, 3), (8, [1, 3])],
    "DirectedCirculant": [(8, (9,)), (8, (1, 2.5)), (8, "13")],
    "UniRing": [(0, 4), (1, 1)],
    "BiRing": [(3, 4), (0, 4), (2, 1)],
    "Torus": [((),), ((1, 3),), (3,)],
    "Hypercube": [(0,), (65,)],
    "GeneralizedKautz": [(0, 5), (2, 1)],
    "Kautz": [(0, 1), (2, -1)],
    "DeBruijn": [(1, 2), (2, 0)],
    "Cayley": [
        (5, (1,)),
        (Cyclic(5), ()),
        (Cyclic(5), [1]),
        (Cyclic(5), 1),
        (Cyclic(5), ((1, 0),)),
    ],
    "Lift": [
        (5, ((1,),)),
        (Cyclic(5), ()),
        (Cyclic(5), (1, 2)),
        (Cyclic(5), ((),)),
        (Cyclic(5), ((1, 2), (7,))),
        (Cyclic(5), ((1, 10), (0, 5))),
        (Cyclic(5), ((1, -1), (5, 6))),
        (Cyclic(5), ((1, True), (5, 6))),
        (Cyclic(5), ((1, 2), (3, 5))),
    ],
}
TOO_LARGE = [
    ("Complete", (20_000,)),
    ("CompleteBipartite", (10_000,)),
    ("Hamming", (64, 2)),
    ("UniRing", (1, 2**30)),
    ("BiRing", (2, 2**30)),
    ("Torus", ((10_000, 10_000),)),
    ("Hypercube", (64,)),
    ("GeneralizedKautz", (4, 2**30)),
    ("Kautz", (4, 20)),
    ("DeBruijn", (4, 30)),
    ("DirectedCirculant", (2**31 - 1, (1,))),
]


@pytest.mark.parametrize(
    ("name", "numbers", "shape"),
    [
        ("Complete", (7,), Shape(7, 6)),
        ("CompleteBipartite", (5,), Shape(10, 5)),
        ("Hamming", (2, 6), Shape(36, 10)),
        ("Circulant", (6, (3, 1)), Shape(6, 3)),
        ("Circulant", (7, (2, 5)), Shape(7, 4)),
        ("Circulant", (2, (1,)), Shape(2, 1)),
        ("DirectedCirculant", (5, (1, 1, 2)), Shape(5, 3)),
        ("UniRing", (3, 4), Shape(4, 3)),
        ("BiRing", (4, 5), Shape(5, 4)),
        ("BiRing", (4, 2), Shape(2, 4)),
        ("Torus", ((3, 2, 4),), Shape(24, 5)),
        ("Hypercube", (4,), Shape(16, 4)),
        ("GeneralizedKautz", (3, 40), Shape(40, 3)),
        ("Kautz", (3, 2), Shape(36, 3)),
        ("DeBruijn", (3, 2), Shape(9, 3)),
        ("Named", ("petersen",), Shape(10, 3)),
        ("Cayley", (Cyclic(9), (1, 2, 2)), Shape(9, 3)),
        ("Lift", (Cyclic(9), ((1, 9, 2), (0, 10, 11))), Shape(18, 3)),
    ],
)
def test_nodes_and_degree(name, numbers, shape):
    assert FAMILIES[name](*numbers).shape == shape


@pytest.mark.parametrize("k", [1, 2, 3])
def test_closed_form_of_kautz_graphs_of_degree_1(k):
    assert Kautz(1, k).loads() == bfb_loads(Kautz(1, k).topology())


@pytest.mark.parametrize(
    ("name", "numbers"), [(name, each) for name, rows in BAD_SIZES.items() for each in rows]
)
def test_bad_sizes(name, numbers):
    with pytest.raises(ValueError, match=r"."):
        FAMILIES[name](*numbers)


@pytest.mark.parametrize(("name", "numbers"), TOO_LARGE)
def test_too_large_to_build_but_not_to_name(name, numbers):
    recipe = FAMILIES[name](*numbers)
    assert recipe.num_nodes * recipe.degree > MAX_BUILT_LINKS
    with pytest.raises(ValueError, match="too many links"):
        recipe.topology()


def test_sizes_of_very_many_digits_are_refused_by_the_same_rule():
    for text in ("Power(Power(Hypercube(64), 64), 64)", "Kautz(4, 64)", "Hamming(64, 3)"):
        with pytest.raises(ValueError, match="at most 2\\^64 nodes"):
            parse(text)
    assert parse("Power(Hypercube(2), 32)").predict().steps == 64


def test_more_steps_than_can_be_listed():
    for text in ("UniRing(1, 2147483647)", "BiRing(2, 2147483647)", "Torus((2147483647, 3))"):
        with pytest.raises(ValueError, match="steps: at most 65536"):
            parse(text).predict()


def test_size_names_value_and_rule():
    with pytest.raises(ValueError, match="n is 1: it must be an integer of at least 2"):
        size(1, "n", 2)
    with pytest.raises(ValueError, match="at least 1 and at most 5"):
        size(7, "k", 1, 5)
    with pytest.raises(ValueError, match="non-empty tuple"):
        sizes((), "sides", 2)
    assert sizes((2, 3), "sides", 2) == (2, 3)


def test_abelian_counts_with_the_last_coordinate_fastest():
    grid = abelian([2, 3], [(0, 1), (1, 0)])
    heads = [grid.head[grid.tail == v].tolist() for v in range(grid.num_nodes)]
    assert heads == [[1, 3], [2, 4], [0, 5], [4, 0], [5, 1], [3, 2]]


def test_a_lift_over_the_trivial_group_is_its_adjacency_list():
    rows = ((1, 2), (2, 0), (0, 1))
    topology = Lift(Cyclic(1), rows).topology()
    assert topology.head.reshape(3, 2).tolist() == [list(row) for row in rows]


def test_a_lift_with_one_orbit_is_a_cayley_digraph():
    group = Semidirect(7, 3, 2)
    generators = ((1, 0), (3, 1))
    rows = (tuple(group.index(generator) for generator in generators),)
    assert Lift(group, rows).topology() == Cayley(group, generators).topology()


def test_parallel_links_and_loops_are_kept_as_ports():
    ring = UniRing(3, 4).topology()
    assert np.unique(ring.tail * 4 + ring.head, return_counts=True)[1].tolist() == [3] * 4
    cayley = Cayley(Cyclic(5), (1, 1, 0)).topology()
    assert cayley.degree == 3
    assert int((cayley.tail == cayley.head).sum()) == 5
