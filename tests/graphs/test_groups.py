"""Facts of each kind of group, by its definition, and what it refuses."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from graph_contracts import table

from ocs_codesign.graphs.groups import cyclic as permutations
from ocs_codesign.graphs.groups.cyclic import Cyclic, DirectProduct, Permutations
from ocs_codesign.graphs.groups.group import Group
from ocs_codesign.graphs.groups.semidirect import Affine, Dicyclic, Dihedral, Semidirect


@pytest.mark.parametrize(
    ("group", "multiply"),
    [
        (Cyclic(6), lambda g, s: (g + s) % 6),
        (Semidirect(7, 3, 2), lambda g, s: ((g[0] + 2 ** g[1] * s[0]) % 7, (g[1] + s[1]) % 3)),
        (Dihedral(5), lambda g, s: ((g[0] + (-1) ** g[1] * s[0]) % 5, (g[1] + s[1]) % 2)),
        (Permutations((1, 2, 0), (1, 0, 2)), lambda g, s: tuple(s[i] for i in g)),
        (
            Affine(4, ((1, 2), (0, 3)), 2),
            lambda g, s: (
                ((g[0][0] + s[0][0] + 2 * g[1] * s[0][1]) % 4, (g[0][1] + 3 ** g[1] * s[0][1]) % 4),
                (g[1] + s[1]) % 2,
            ),
        ),
        (DirectProduct(Cyclic(3), Cyclic(4)), lambda g, s: ((g[0] + s[0]) % 3, (g[1] + s[1]) % 4)),
    ],
)
def test_multiplies_by_its_definition(group, multiply):
    times = table(group)
    for g, s in product(range(group.order), repeat=2):
        assert group.element(int(times[g, s])) == multiply(group.element(g), group.element(s))


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_dicyclic_relations(n):
    group = Dicyclic(n)
    times = table(group)
    a, x = group.index((1, 0)), group.index((0, 1))
    inverse_a = group.index((-1, 0))
    power = 0
    for _ in range(n):
        power = times[power, a]
    assert times[x, x] == power == group.index((n, 0))
    assert times[power, power] == 0
    assert times[a, x] == times[x, inverse_a]


def test_quaternions_have_one_involution_and_the_square_five():
    orders = []
    for group in (Dicyclic(2), Dihedral(4)):
        diagonal = table(group).diagonal()
        orders.append(int((diagonal == 0).sum()) - 1)
    assert orders == [1, 5]


A4 = Affine(2, ((0, 1), (1, 1)), 3)


def test_matrices_are_reduced():
    group = Affine(3, ((-2, 4), (3, 7)), 3)
    assert group == Affine(3, ((1, 1), (0, 1)), 3)
    assert repr(group) == "Affine(3, ((1, 1), (0, 1)), 3)"
    assert group.label() == "Z3²⋊Z3"
    assert Affine(
        2, tuple(tuple(int(i == j) for j in range(12)) for i in range(12)), 1
    ).label() == ("Z2¹²⋊Z1")


@pytest.mark.parametrize(
    ("matrix", "rule"),
    [
        (((1,),), "one row is Semidirect"),
        ((), "two rows or more"),
        (((1, 0), (0,)), "a square tuple of tuples of integers"),
        (((1, 0, 0), (0, 1, 0)), "a square tuple of tuples of integers"),
        (((1, 0), (0, True)), "a square tuple of tuples of integers"),
        (((1, 0), (0, 1.0)), "a square tuple of tuples of integers"),
        ([[1, 0], [0, 1]], "a square tuple of tuples of integers"),
        (2, "a square tuple of tuples of integers"),
        (((1,) * 25,) * 25, "at most 24"),
        (((1,) * 24,) * 24, "an integer from 1 to 16777216"),
        (((1, 1), (0, 1)), "must be the identity modulo n"),
        (((0, 0), (0, 0)), "must be the identity modulo n"),
    ],
)
def test_bad_matrices(matrix, rule):
    with pytest.raises(ValueError, match=rule):
        Affine(2, matrix, 3)


@pytest.mark.parametrize(
    ("generators", "order"),
    [
        (((1, 0, 2, 3), (1, 2, 3, 0)), 24),
        (((1, 2, 0, 3, 4), (0, 1, 3, 4, 2)), 60),
        (((1, 2, 0), (1, 2, 0)), 3),
        (((0,),), 1),
        (((0, 1, 2),), 1),
        (((*range(1, 255), 0),), 255),
        (((1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0), (0, 1, 6, 9, 5, 3, 10, 2, 8, 4, 7)), 7920),
    ],
    ids=["S4", "A5", "A3", "trivial", "identity", "Z255", "M11"],
)
def test_closure_of_permutations(generators, order):
    group = Permutations(*generators)
    assert group.order == order
    numbers = [group.index(group.element(i)) for i in range(0, order, max(1, order // 50))]
    assert numbers == list(range(0, order, max(1, order // 50)))


def test_permutations_are_numbered_in_lexicographic_order():
    group = Permutations((1, 2, 3, 0), (1, 0, 2, 3))
    elements = [group.element(i) for i in range(24)]
    assert elements == sorted(elements)


def test_closure_that_grows_too_large_is_refused(monkeypatch):
    monkeypatch.setattr(permutations, "_MAX_PERMUTATIONS", 5000)
    assert Permutations((1, 2, 3, 4, 5, 6, 0), (1, 2, 0, 3, 4, 5, 6)).order == 2520
    with pytest.raises(ValueError, match="generate more than 5000 elements"):
        Permutations((1, 2, 3, 4, 5, 6, 7, 0), (1, 0, 2, 3, 4, 5, 6, 7))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Cyclic(0),
        lambda: Cyclic(-3),
        lambda: Cyclic(True),
        lambda: Cyclic(2.0),
        lambda: Cyclic("3"),
        lambda: Cyclic(2**24 + 1),
        lambda: DirectProduct(),
        lambda: DirectProduct(Cyclic(2)),
        lambda: DirectProduct(Cyclic(2), 3),
        lambda: DirectProduct(Cyclic(2**13), Cyclic(2**13)),
        lambda: Semidirect(7, 3, 3),
        lambda: Semidirect(7, 0, 1),
        lambda: Semidirect(7, 3, 2.0),
        lambda: Semidirect(7, 3, True),
        lambda: Semidirect(2**13, 2**13, 1),
        lambda: Affine(1, ((0, 0), (0, 0)), 2),
        lambda: Affine(2.0, ((1, 0), (0, 1)), 2),
        lambda: Affine(2, ((1, 0), (0, 1)), 0),
        lambda: Affine(2, ((1, 0), (0, 1)), True),
        lambda: Affine(2**12, ((1, 0), (0, 1)), 2),
        lambda: Dihedral(0),
        lambda: Dihedral(2**24),
        lambda: Dicyclic(0),
        lambda: Dicyclic(2**23),
        lambda: Permutations(),
        lambda: Permutations(()),
        lambda: Permutations((1, 1)),
        lambda: Permutations((0, 2)),
        lambda: Permutations((1, 0), (1, 2, 0)),
        lambda: Permutations([1, 0]),
        lambda: Permutations((True, False)),
        lambda: Permutations(tuple(range(256))),
    ],
)
def test_bad_groups(make):
    with pytest.raises(ValueError, match=r"."):
        make()


BAD_ELEMENTS: list[tuple[Group, Any]] = [
    (Cyclic(5), True),
    (Cyclic(5), (1,)),
    (Cyclic(5), 1.0),
    (DirectProduct(Cyclic(2), Cyclic(3)), 1),
    (DirectProduct(Cyclic(2), Cyclic(3)), (1,)),
    (DirectProduct(Cyclic(2), Cyclic(3)), (1, 0, 0)),
    (Semidirect(7, 3, 2), 5),
    (Semidirect(7, 3, 2), (1, "0")),
    (A4, 1),
    (A4, (1, 0, 0)),
    (A4, ((1, 0, 0), 0)),
    (A4, ([1, 0], 0)),
    (A4, ((1, 0.0), 0)),
    (A4, ((1, 0), "0")),
    (Dihedral(3), (0, None)),
    (Dicyclic(3), [1, 0]),
    (Permutations((1, 2, 0)), (1, 0, 2)),
    (Permutations((1, 2, 0)), (0, 1)),
    (Permutations((1, 2, 0)), (0, 1, 1)),
    (Permutations((1, 2, 0)), 1),
]


@pytest.mark.parametrize(("group", "element"), BAD_ELEMENTS, ids=repr)
def test_bad_elements(group, element):
    with pytest.raises(ValueError, match="is not an element of"):
        group.index(element)


def test_residues_wrap():
    assert Cyclic(5).index(-1) == 4
    assert Dihedral(5).index((-1, 3)) == Dihedral(5).index((4, 1))
    assert A4.index(((-1, 4), -1)) == A4.index(((1, 0), 2))


def test_groups_are_values():
    assert Cyclic(4) == Cyclic(4) != Cyclic(5)
    assert Dihedral(4) != Dicyclic(4)
    assert Permutations((1, 0)) == Permutations((1, 0))
    assert Affine(2, ((0, 1), (1, 1)), 3) == A4 != Affine(2, ((1, 1), (1, 0)), 3)
    assert len({Semidirect(7, 3, 2), Semidirect(7, 3, 2), Semidirect(7, 3, 4)}) == 2
