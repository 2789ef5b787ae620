"""Sequences of configurations for all-to-all: circulants and Cayley digraphs of one group in turn.

All configurations share the group's action, so the exact time of a sequence is a tiny program. What
is searched are the generators: sequences are ranked by the hops from one node to all others with
the configurations used in order, which bound the time from below, and the best ones are solved.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import comb
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.graphs.families.cayley import Cayley
from ocs_codesign.graphs.families.rings import DirectedCirculant
from ocs_codesign.graphs.groups.cyclic import Cyclic
from ocs_codesign.graphs.groups.group import Group
from ocs_codesign.reconfigure.phases.alltoall import phased_alltoall, sequence_bound, tree_bound

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.reconfigure.phases.alltoall import PhasedAlltoall
    from ocs_codesign.topology import Topology

MAX_ENUMERATED = 2**17
"""Largest number of sequences of one group that is listed."""


@final
@dataclass(frozen=True, slots=True)
class GeneratorSequence:
    """Configurations in turn that are Cayley digraphs of one group, with their generators.

    >>> GeneratorSequence(Cyclic(8), ((1,), (3,))).label()
    'DiC(8,{1}) → DiC(8,{3})'
    """

    group: Group
    generators: tuple[tuple[Any, ...], ...]

    @property
    def num_configurations(self) -> int:
        """C."""
        return len(self.generators)

    def recipes(self) -> tuple[Recipe, ...]:
        """The recipe of every configuration."""
        return tuple(_recipe(self.group, generators) for generators in self.generators)

    def topologies(self) -> tuple[Topology, ...]:
        """The configurations."""
        return tuple(recipe.topology() for recipe in self.recipes())

    def label(self) -> str:
        """The configurations in the field's notation."""
        return " → ".join(recipe.label() for recipe in self.recipes())

    def solved(self) -> PhasedAlltoall:
        """The all-to-all over the configurations in turn."""
        return phased_alltoall(self.topologies())


@final
@dataclass(frozen=True, slots=True, eq=False)
class FoundSequence:
    """The best sequence of a search, its all-to-all and what is known about better ones.

    ``num_ranked`` sequences were ranked by their hops, ``num_solved`` of them solved.
    ``is_exhaustive`` says that no sequence of the groups in ``groups`` is better.
    """

    sequence: GeneratorSequence
    alltoall: PhasedAlltoall
    degree: int
    groups: tuple[Group, ...]
    num_ranked: int
    num_solved: int
    is_exhaustive: bool

    @property
    def bound(self) -> Fraction:
        """What no sequence of as many topologies of the degree can beat, in M/B."""
        network = self.alltoall.network
        return sequence_bound(network.num_nodes, self.degree, network.num_phases)

    @property
    def tree_bound(self) -> Fraction:
        """The weaker bound by a full (C d)-ary tree, in M/B."""
        network = self.alltoall.network
        return tree_bound(network.num_nodes, self.degree, network.num_phases)

    @property
    def gap(self) -> Fraction:
        """How far the time may be above that of the best sequence, relative to the bound."""
        return self.alltoall.time / self.bound - 1


def numbered_sequence(group: Group, numbers: Sequence[Sequence[int]]) -> GeneratorSequence:
    """The sequence of generators that are given by their numbers in the group."""
    return GeneratorSequence(
        group, tuple(tuple(group.element(int(one)) for one in phase) for phase in numbers)
    )


def direct_sequence(num_nodes: int, degree: int) -> GeneratorSequence:
    """Circulants that connect every node directly to every other one, d offsets at a time.

    There are ceil((N - 1) / d) of them; the last one repeats its offsets if it has ports to spare.

    >>> direct_sequence(8, 2).generators
    ((1, 2), (3, 4), (5, 6), (7, 7))
    """
    _check_sizes(num_nodes, degree)
    phases = []
    for first in range(1, num_nodes, degree):
        offsets = range(first, min(first + degree, num_nodes))
        phases.append(tuple(offsets[i % len(offsets)] for i in range(degree)))
    return GeneratorSequence(Cyclic(num_nodes), tuple(tuple(sorted(one)) for one in phases))


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


def _check_sizes(num_nodes: int, degree: int) -> None:
    if num_nodes < 2:
        raise ValueError(f"{num_nodes} nodes: an all-to-all is between 2 or more")
    if degree < 1:
        raise ValueError(f"degree {degree}: it must be at least 1")


def _recipe(group: Group, generators: tuple[Any, ...]) -> Recipe:
    if isinstance(group, Cyclic) and 0 not in generators:
        return DirectedCirculant(group.n, generators)
    return Cayley(group, generators)
