"""Small groups: known ones by their facts, and those of an order that the finder searches."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import numpy as np
import pytest

from ocs_codesign.graphs.groups.cyclic import Cyclic, DirectProduct, Permutations
from ocs_codesign.graphs.groups.group import Group
from ocs_codesign.graphs.groups.semidirect import Affine, Dicyclic, Dihedral, Semidirect
from ocs_codesign.search.generators import multiplication_table
from ocs_codesign.search.small_groups import groups_of_order

A4 = Affine(2, ((0, 1), (1, 1)), 3)
AGL_1_8 = Affine(2, ((0, 0, 1), (1, 0, 1), (0, 1, 0)), 7)
AGL_1_9 = Affine(3, ((0, 1), (1, 1)), 8)
SHIFT = ((0, 1, 0), (0, 0, 1), (1, 0, 0))
HEISENBERG = Affine(3, ((1, 1), (0, 1)), 3)


def element_orders(group: Group) -> dict[int, int]:
    """Number of elements of every order."""
    numbers = np.arange(group.order)
    powers, orders = numbers, np.ones_like(numbers)
    while powers.any():
        orders += powers != 0
        powers = group.right_multiply(powers, numbers) * (powers != 0)
    return dict(
        zip(*(part.tolist() for part in np.unique(orders, return_counts=True)), strict=True)
    )


@pytest.mark.parametrize(
    ("group", "orders", "centre"),
    [
        (A4, {1: 1, 2: 3, 3: 8}, 1),
        (AGL_1_8, {1: 1, 2: 7, 7: 48}, 1),
        (AGL_1_9, {1: 1, 2: 9, 3: 8, 4: 18, 8: 36}, 1),
        (Affine(2, SHIFT, 3), {1: 1, 2: 7, 3: 8, 6: 8}, 2),
        (Affine(3, SHIFT, 3), {1: 1, 3: 44, 9: 36}, 3),
        (HEISENBERG, {1: 1, 3: 26}, 3),
        (Affine(2, ((0, 1), (1, 0)), 2), element_orders(Dihedral(4)), 2),
    ],
    ids=["A4", "AGL(1,8)", "AGL(1,9)", "Z2 wr Z3", "Z3 wr Z3", "Heisenberg", "D4"],
)
def test_affine_groups_are_the_known_ones(group, orders, centre):
    times = multiplication_table(group)
    assert element_orders(group) == orders
    assert int((times == times.T).all(axis=1).sum()) == centre


def test_affine_a4_is_the_alternating_group():
    alternating = Permutations((1, 2, 0, 3), (1, 0, 3, 2))
    assert element_orders(A4) == element_orders(alternating) != element_orders(Dihedral(6))


def test_affine_agrees_with_semidirect_on_the_first_axis():
    group, plane = Semidirect(7, 3, 2), Affine(7, ((2, 0), (0, 4)), 3)
    embedded = np.array(
        [plane.index(((x, 0), i)) for x, i in map(group.element, range(group.order))]
    )
    assert np.array_equal(
        plane.right_multiply(embedded[:, None], embedded), embedded[multiplication_table(group)]
    )


def test_a_large_affine_group_multiplies_by_one_element():
    shift = tuple(tuple(int(j == (i + 1) % 16) for j in range(16)) for i in range(16))
    group = Affine(2, shift, 16)
    numbers = np.arange(group.order)
    moved = group.right_multiply(numbers, group.index(((1,) * 16, 1)))
    assert np.array_equal(np.sort(moved), numbers)
    assert group.element(int(moved[group.index(((1, 0) * 8, 15))])) == ((0, 1) * 8, 0)


def kind(group: Group) -> str:
    """The class; products of cyclic groups count as a class of their own."""
    name = type(group).__name__
    return "Abelian" if isinstance(group, DirectProduct) and group.is_abelian else name


def statistics(group: Group) -> Counter[tuple[int, ...]]:
    """What isomorphic groups share: order, roots and centraliser of the elements, counted."""
    table = multiplication_table(group)
    numbers = np.arange(len(table))
    squares = table.diagonal()
    cubes = table[squares, numbers]
    orders, powers = np.ones_like(numbers), numbers
    while powers.any():
        orders += powers != 0
        powers = table[powers, numbers] * (powers != 0)
    roots = [np.bincount(some, minlength=len(table)) for some in (squares, cubes)]
    centraliser = (table == table.T).sum(axis=1)
    rows = np.stack([orders, *roots, centraliser], axis=1)
    return Counter(map(tuple, rows.tolist()))


@pytest.mark.parametrize("order", range(1, 301))
def test_groups_are_different_and_of_the_order(order):
    groups = list(groups_of_order(order))
    assert groups[0] == Cyclic(order)
    assert all(group.order == order for group in groups)
    assert len(set(map(repr, groups))) == len(groups)
    assert list(map(repr, groups_of_order(order))) == list(map(repr, groups))


@pytest.mark.parametrize("order", [8, 12, 18, 20, 27, 28, 30, 42, 45, 50, 63, 75, 98])
def test_every_group_of_some_orders_is_listed_once(order):
    number_of_groups = {8: 5, 12: 5, 18: 5, 20: 5, 27: 5, 28: 4, 30: 4, 42: 6, 45: 2, 50: 5}
    number_of_groups |= {63: 4, 75: 3, 98: 5}
    groups = list(groups_of_order(order))
    found = {tuple(sorted(statistics(group).items())) for group in groups}
    assert len(found) == len(groups) == number_of_groups[order]


@pytest.mark.parametrize(
    ("order", "number_of_groups"), [(16, 14), (24, 15), (32, 51), (36, 14), (54, 15), (60, 13)]
)
def test_no_group_of_some_orders_is_listed_twice(order, number_of_groups):
    groups = list(groups_of_order(order))
    found = {tuple(sorted(statistics(group).items())) for group in groups}
    assert len(found) == len(groups) <= number_of_groups


@pytest.mark.parametrize(
    ("order", "group"),
    [
        (12, Permutations((1, 2, 0, 3), (1, 0, 3, 2))),
        (24, DirectProduct(Permutations((1, 2, 0, 3), (1, 0, 3, 2)), Cyclic(2))),
        (24, Affine(2, SHIFT, 3)),
        (20, Semidirect(5, 4, 4)),
        (27, HEISENBERG),
        (36, DirectProduct(Dihedral(3), Cyclic(6))),
        (56, AGL_1_8),
        (64, Affine(2, ((1, 1, 0, 0), (0, 1, 1, 0), (0, 0, 1, 1), (0, 0, 0, 1)), 4)),
        (72, AGL_1_9),
        (72, DirectProduct(Dicyclic(2), Cyclic(9))),
        (80, Affine(2, ((0, 0, 0, 1), (1, 0, 0, 1), (0, 1, 0, 1), (0, 0, 1, 1)), 5)),
        (81, Affine(3, SHIFT, 3)),
    ],
)
def test_known_groups_are_among_them(order, group):
    assert any(statistics(one) == statistics(group) for one in groups_of_order(order))


@pytest.mark.parametrize("q", [4, 8, 9, 16, 25, 27, 32])
def test_affine_groups_of_fields(q):
    group = next(
        group
        for group in groups_of_order(q * (q - 1))
        if isinstance(group, Affine) and group.m == q - 1
    )
    table = multiplication_table(group)
    centralisers = (table == table.T).sum(axis=1)
    translations = np.arange(group.order) % group.m == 0
    assert centralisers[0] == q * (q - 1)
    assert (centralisers[translations][1:] == q).all()
    assert (centralisers[~translations] == q - 1).all()


@pytest.mark.parametrize("order", [48, 64, 72, 192, 256, 432, 720, 768, 1000, 1024])
def test_a_dozen_is_diverse(order):
    kinds = Counter(map(kind, islice(groups_of_order(order), 12)))
    assert len(kinds) >= 6
    assert max(kinds.values()) <= 4


def test_a_prime_order_has_one_group():
    assert list(groups_of_order(101)) == [Cyclic(101)]


def test_large_orders_list_few_products():
    groups = list(groups_of_order(2016))
    products = [one for one in groups if kind(one) == "DirectProduct"]
    assert 0 < len(products) <= 16
    assert {product.factors[1].order for product in products} > {2, 3}


ELEMENTS_BY_ORDER = {
    24: [{1: 1, 2: 9, 3: 8, 4: 6}],  # S4
    60: [{1: 1, 2: 15, 3: 20, 5: 24}],  # A5
    120: [{1: 1, 2: 25, 3: 20, 4: 30, 5: 24, 6: 20}],  # S5
    168: [
        {1: 1, 2: 21, 3: 56, 4: 42, 7: 48},  # PSL(2, 7)
        {1: 1, 2: 7, 3: 56, 6: 56, 7: 48},  # AGammaL(1, 8)
    ],
    336: [
        {1: 1, 2: 49, 3: 56, 4: 42, 6: 56, 7: 48, 8: 84},  # PGL(2, 7)
        {1: 1, 2: 1, 3: 56, 4: 42, 6: 56, 7: 48, 8: 84, 14: 48},  # SL(2, 7)
    ],
    360: [{1: 1, 2: 45, 3: 80, 4: 90, 5: 144}],  # A6
    504: [{1: 1, 2: 63, 3: 56, 7: 216, 9: 168}],  # PSL(2, 8)
}


@pytest.mark.parametrize("order", ELEMENTS_BY_ORDER)
def test_simple_groups_and_their_kin_are_listed(order):
    listed = [g for g in groups_of_order(order) if isinstance(g, Permutations)]
    assert [element_orders(group) for group in listed] == ELEMENTS_BY_ORDER[order]


def test_affine_group_of_the_plane_of_nine_points():
    (group,) = [g for g in groups_of_order(432) if isinstance(g, Permutations)]
    images = np.array([group.element(number) for number in range(group.order)])
    fixes = {point: (images[:, point] == point).sum() for point in range(9)}
    assert set(fixes.values()) == {48}  # all points alike, 48 = |GL(2, 3)| fix one
    lines = {frozenset(row) for row in images[:, (0, 3, 6)].tolist()}
    assert len(lines) == 12  # lines go to lines
