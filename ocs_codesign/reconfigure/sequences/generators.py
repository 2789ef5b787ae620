"""Sequences of configurations for all-to-all: circulants and Cayley digraphs of one group in turn.

All configurations share the group's action, so the exact time of a sequence is a tiny program.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.graphs.families.cayley import Cayley
from ocs_codesign.graphs.families.rings import DirectedCirculant
from ocs_codesign.graphs.groups.cyclic import Cyclic

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from ocs_codesign.graphs.groups.group import Group
    from ocs_codesign.graphs.recipe import Recipe

MAX_ENUMERATED = 2**17
"""Largest number of sequences of one group that is listed."""


def cayley_sequence(group: Group, numbers: Iterable[Sequence[int]]) -> tuple[Recipe, ...]:
    """The configurations whose generators are given by their numbers in the group.

    >>> in_turn(cayley_sequence(Cyclic(8), ((1,), (3,))))
    'DiC(8,{1}) → DiC(8,{3})'
    """
    return tuple(_recipe(group, generators) for generators in numbers)


def _recipe(group: Group, numbers: Sequence[int]) -> Recipe:
    generators = tuple(group.element(int(number)) for number in numbers)
    if isinstance(group, Cyclic) and 0 not in generators:
        return DirectedCirculant(group.n, generators)
    return Cayley(group, generators)


def in_turn(recipes: Iterable[Recipe]) -> str:
    """The configurations of a sequence in the field's notation."""
    return " → ".join(recipe.label() for recipe in recipes)


def direct_sequence(num_nodes: int, degree: int) -> tuple[DirectedCirculant, ...]:
    """Circulants that connect every node directly to every other one, d offsets at a time.

    There are ceil((N - 1) / d) of them; the last one repeats its offsets if it has ports to spare.

    >>> in_turn(direct_sequence(8, 2))
    'DiC(8,{1,2}) → DiC(8,{3,4}) → DiC(8,{5,6}) → DiC(8,{7,7})'
    """
    _check_sizes(num_nodes, degree)
    recipes = []
    for first in range(1, num_nodes, degree):
        offsets = range(first, min(first + degree, num_nodes))
        ports = sorted(offsets[i % len(offsets)] for i in range(degree))
        recipes.append(DirectedCirculant(num_nodes, tuple(ports)))
    return tuple(recipes)


def direct_time(num_nodes: int, degree: int) -> Fraction:
    """Time of the direct sequence, in M/B, when every piece goes its one hop.

    A phase takes as long as a piece, the last one less if its offsets have several ports each.

    >>> direct_time(8, 2) * 4, direct_time(64, 4)
    (Fraction(7, 2), Fraction(1, 1))
    """
    _check_sizes(num_nodes, degree)
    full, rest = divmod(num_nodes - 1, degree)
    last = Fraction(1, degree // rest) if rest else Fraction(0)
    return (full + last) * Fraction(degree, num_nodes)


def _check_sizes(num_nodes: int, degree: int) -> None:
    if num_nodes < 2:
        raise ValueError(f"{num_nodes} nodes: an all-to-all is between 2 or more")
    if degree < 1:
        raise ValueError(f"degree {degree}: it must be at least 1")


def all_sequences(group: Group, degree: int, phases: int) -> NDArray[np.int64] | None:
    """All sequences of a group if they are at most MAX_ENUMERATED, else None.

    A sequence is given by the numbers of its generators, shape (sequences, phases, degree). Phases
    of an abelian group may change places, for all orders of hops lead to the same node.

    >>> all_sequences(Cyclic(3), 1, 2).tolist()
    [[[1], [1]], [[1], [2]], [[2], [2]]]
    """
    sets = comb(group.order - 2 + degree, degree)
    if sets > MAX_ENUMERATED:
        return None
    many = comb(sets + phases - 1, phases) if group.is_abelian else sets**phases
    if many > MAX_ENUMERATED:
        return None
    single = list(combinations_with_replacement(range(1, group.order), degree))
    chosen: Iterator[tuple[tuple[int, ...], ...]] = (
        combinations_with_replacement(single, phases)
        if group.is_abelian
        else product(single, repeat=phases)
    )
    return np.array(list(chosen), dtype=np.int64)
