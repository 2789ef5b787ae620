"""The contract of the FAMILIES dict, and what each family refuses."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from samples import FAMILY_SIZES
from slow_bfb import slow_bfb_loads

from ocs_codesign.families import FAMILIES
from ocs_codesign.families.cayley import abelian
from ocs_codesign.families.shape import Shape, size, sizes
from ocs_codesign.groups import Cyclic, Semidirect
from ocs_codesign.recipe import BASES, parse
from ocs_codesign.schedulers.bfb.loads import bfb_loads
from ocs_codesign.topology import MAX_LINKS, Topology

CASES = [
    pytest.param(name, numbers, id=f"{name}{numbers}")
    for name, samples in FAMILY_SIZES.items()
    for numbers in samples
]
every_sample = pytest.mark.parametrize(("name", "numbers"), CASES)
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


def test_every_family_has_samples_and_a_recipe():
    assert set(FAMILY_SIZES) == set(FAMILIES) == set(BASES)
    assert all(FAMILY_SIZES.values())
    assert all(base.__name__ == name for name, base in BASES.items())


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_the_functions_of_a_family_take_the_same_sizes(name):
    family = FAMILIES[name]
    wanted = list(inspect.signature(family.shape).parameters)
    for function in (family.build, family.loads):
        if function is not None:
            assert list(inspect.signature(function).parameters) == wanted
            assert function.__doc__


@every_sample
def test_shape_matches_the_graph(name, numbers):
    family = FAMILIES[name]
    topology = family.build(*numbers)
    assert family.shape(*numbers) == Shape(topology.num_nodes, topology.degree)
    assert topology.is_regular
    assert topology.link_speed is None
    assert topology.diameter() >= 1
    assert family.build(*numbers) == topology


def small_enough_for_the_slow_twin(name, numbers):
    shape = FAMILIES[name].shape(*numbers)
    return shape.degree <= 8 and shape.num_nodes <= 60


@pytest.mark.parametrize(
    ("name", "numbers"), [case for case in CASES if small_enough_for_the_slow_twin(*case.values)]
)
def test_loads_are_those_of_bfb_by_definition(name, numbers):
    topology = FAMILIES[name].build(*numbers)
    assert bfb_loads(topology) == slow_bfb_loads(topology)


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
    assert FAMILIES[name].shape(*numbers) == shape
    assert BASES[name](*numbers).shape == shape


@every_sample
def test_closed_form_is_exact_both_ways(name, numbers):
    family = FAMILIES[name]
    closed = family.closed_form(*numbers)
    if closed is None:
        assert family.loads is None
        return
    topology = family.build(*numbers)
    assert closed == bfb_loads(topology) == bfb_loads(topology.transpose())


@every_sample
def test_recipe_declares_what_the_graph_has(name, numbers):
    recipe, topology = BASES[name](*numbers), FAMILIES[name].build(*numbers)
    assert recipe.topology() == topology
    assert recipe.has_self_loops == topology.has_self_loops()
    assert recipe.bidirectional == topology.is_undirected()
    assert parse(repr(recipe)) == recipe
    if recipe.reverse_symmetric:
        assert bfb_loads(topology) == bfb_loads(topology.transpose())


@pytest.mark.parametrize("k", [1, 2, 3])
def test_closed_form_of_kautz_graphs_of_degree_1(k):
    family = FAMILIES["Kautz"]
    assert family.closed_form(1, k) == bfb_loads(family.build(1, k))


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("Complete", (1,)),
        ("Complete", (0,)),
        ("Complete", (3.0,)),
        ("Complete", (True,)),
        ("Complete", ("3",)),
        ("CompleteBipartite", (0,)),
        ("Hamming", (0, 2)),
        ("Hamming", (1, 1)),
        ("Hamming", (65, 2)),
        ("Circulant", (1, (1,))),
        ("Circulant", (8, ())),
        ("Circulant", (8, (0,))),
        ("Circulant", (8, (8,))),
        ("Circulant", (8, (-1,))),
        ("Circulant", (8, 3)),
        ("Circulant", (8, [1, 3])),
        ("DirectedCirculant", (8, (9,))),
        ("DirectedCirculant", (8, (1, 2.5))),
        ("DirectedCirculant", (8, "13")),
        ("UniRing", (0, 4)),
        ("UniRing", (1, 1)),
        ("BiRing", (3, 4)),
        ("BiRing", (0, 4)),
        ("BiRing", (2, 1)),
        ("Torus", ((),)),
        ("Torus", ((1, 3),)),
        ("Torus", (3,)),
        ("Hypercube", (0,)),
        ("Hypercube", (65,)),
        ("GeneralizedKautz", (0, 5)),
        ("GeneralizedKautz", (2, 1)),
        ("Kautz", (0, 1)),
        ("Kautz", (2, -1)),
        ("DeBruijn", (1, 2)),
        ("DeBruijn", (2, 0)),
        ("Cayley", (5, (1,))),
        ("Cayley", (Cyclic(5), ())),
        ("Cayley", (Cyclic(5), [1])),
        ("Cayley", (Cyclic(5), 1)),
        ("Cayley", (Cyclic(5), ((1, 0),))),
        ("Lift", (5, ((1,),))),
        ("Lift", (Cyclic(5), ())),
        ("Lift", (Cyclic(5), (1, 2))),
        ("Lift", (Cyclic(5), ((),))),
        ("Lift", (Cyclic(5), ((1, 2), (7,)))),
        ("Lift", (Cyclic(5), ((1, 10), (0, 5)))),
        ("Lift", (Cyclic(5), ((1, -1), (5, 6)))),
        ("Lift", (Cyclic(5), ((1, True), (5, 6)))),
        ("Lift", (Cyclic(5), ((1, 2), (3, 5)))),
    ],
)
def test_bad_sizes(name, numbers):
    family = FAMILIES[name]
    functions = [family.shape, family.build, BASES[name]]
    for function in [*functions, family.loads] if family.loads else functions:
        with pytest.raises(ValueError, match=r"."):
            function(*numbers)


@pytest.mark.parametrize(("name", "numbers"), TOO_LARGE)
def test_too_large_to_build_but_not_to_name(name, numbers):
    recipe = BASES[name](*numbers)
    assert recipe.num_nodes * recipe.degree > MAX_LINKS
    with pytest.raises(ValueError, match="too many links"):
        recipe.topology()
    with pytest.raises(ValueError, match=r"too many links"):
        FAMILIES[name].build(*numbers)


def test_sizes_of_very_many_digits_are_refused_by_the_same_rule():
    for text in ("Power(Power(Hypercube(64), 64), 64)", "Kautz(4, 64)", "Hamming(64, 3)"):
        with pytest.raises(ValueError, match="at most 2\\^64 nodes"):
            parse(text)
    assert parse("Power(Hypercube(2), 32)").predict().steps == 64


def test_more_steps_than_can_be_listed():
    for text in ("UniRing(1, 2147483647)", "BiRing(2, 2147483647)", "Torus((2147483647, 3))"):
        with pytest.raises(ValueError, match="steps: at most 16777216"):
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
    links: dict[int, Any] = {v: grid.head[grid.tail == v].tolist() for v in range(grid.num_nodes)}
    assert links == {0: [1, 3], 1: [2, 4], 2: [0, 5], 3: [4, 0], 4: [5, 1], 5: [3, 2]}


def test_a_lift_over_the_trivial_group_is_its_adjacency_list():
    rows = ((1, 2), (2, 0), (0, 1))
    topology = FAMILIES["Lift"].build(Cyclic(1), rows)
    assert topology.head.reshape(3, 2).tolist() == [list(row) for row in rows]


def test_a_lift_with_one_orbit_is_a_cayley_digraph():
    group = Semidirect(7, 3, 2)
    generators = ((1, 0), (3, 1))
    rows = (tuple(group.index(generator) for generator in generators),)
    assert FAMILIES["Lift"].build(group, rows) == FAMILIES["Cayley"].build(group, generators)


def test_parallel_links_and_loops_are_kept_as_ports():
    ring: Topology = FAMILIES["UniRing"].build(3, 4)
    assert np.unique(ring.tail * 4 + ring.head, return_counts=True)[1].tolist() == [3] * 4
    cayley = FAMILIES["Cayley"].build(Cyclic(5), (1, 1, 0))
    assert cayley.degree == 3
    assert int((cayley.tail == cayley.head).sum()) == 5
