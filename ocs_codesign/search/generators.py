"""Search for Cayley digraphs: exact scores of many generator sets of one group at once."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb, lcm
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.kernels import for_work
from ocs_codesign.search.generator_kernels import score_sets, sum_hops

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.graphs.groups.group import Group


@final
@dataclass(frozen=True, slots=True, eq=False)
class GeneratorScores:
    """Scores of generator sets (rows): steps and sums of BFB loads, of the line digraph too.

    Loads are in units of 1/lcm(1 .. d). A set that does not generate the group has steps 0, and so
    may one that another set dominates.
    """

    generators: NDArray[np.int64]
    steps: NDArray[np.int64]
    total_load: NDArray[np.int64]
    line_load: NDArray[np.int64]

    def best(self, keep: int) -> NDArray[np.int64]:
        """Generators of the best sets: for each number of steps up to ``keep`` of the least load.

        Only numbers of steps that improve the load on all smaller ones are kept. Of sets of equal
        load those come first whose line digraph has the least.
        """
        valid = np.flatnonzero(self.steps)
        keys = (valid, self.line_load[valid], self.total_load[valid], self.steps[valid])
        order = valid[np.lexsort(keys)]
        chosen: list[int] = []
        least = None
        for steps in np.unique(self.steps[order]):
            here = order[self.steps[order] == steps]
            top = self.total_load[here[0]]
            if least is None or top < least:
                chosen += here[:keep].tolist()
                least = top
        return self.generators[chosen]


def multiplication_table(group: Group) -> NDArray[np.int32]:
    """Number of g * v at row g, column v."""
    elements = np.arange(group.order)
    table = np.empty((group.order, group.order), dtype=np.int32)
    rows = 1 + 2**17 // group.order  # what a processor's cache holds
    for first in range(0, group.order, rows):
        block = elements[first : first + rows, None]
        table[first : first + rows] = group.right_multiply(block, elements)
    return table


def generator_sets(order: int, degree: int, most: int, seed: int) -> NDArray[np.int64]:
    """Sets of ``degree`` non-identity elements: all if at most ``most``, else a seeded sample.

    Element 1, which a generator can often be renamed to, is preferred: when all sets are too many
    but all sets with it are not, these are listed.
    """
    if degree >= order:
        return np.empty((0, degree), dtype=np.int64)
    if comb(order - 1, degree) <= most:
        return np.array(list(combinations(range(1, order), degree)), dtype=np.int64)
    if comb(order - 2, degree - 1) <= most:
        rest = combinations(range(2, order), degree - 1)
        return np.array([(1, *others) for others in rest], dtype=np.int64)
    rng = np.random.default_rng((seed, order, degree))
    draws = np.sort(rng.integers(1, order, size=(2 * most, degree)), axis=1)
    draws = np.unique(draws[(np.diff(draws, axis=1) > 0).all(axis=1)], axis=0)
    return draws[np.sort(rng.permutation(len(draws))[:most])]


def symmetric_generator_sets(
    table: NDArray[np.int32], degree: int, most: int, seed: int
) -> NDArray[np.int64]:
    """Sets of non-identity elements closed under inverses: all if at most ``most``, else a sample.

    An undirected Cayley graph needs such a set: involutions, and pairs of an element and its
    inverse.
    """
    order = len(table)
    elements = np.arange(order)
    inverse = np.argmin(table, axis=1)
    involutions = elements[1:][inverse[1:] == elements[1:]]
    firsts = elements[elements < inverse]
    rng = np.random.default_rng((seed, order, degree))
    found = [np.empty((0, degree), dtype=np.int64)]
    for num_singles in range(degree % 2, min(degree, len(involutions)) + 1, 2):
        num_doubles = (degree - num_singles) // 2
        if num_doubles > len(firsts):
            continue
        if comb(len(involutions), num_singles) * comb(len(firsts), num_doubles) <= most:
            singles, doubles = _all_pairs(
                _combinations(involutions, num_singles), _combinations(firsts, num_doubles)
            )
        else:
            singles = _samples(involutions, num_singles, most, rng)
            doubles = _samples(firsts, num_doubles, most, rng)
        joined = np.concatenate([singles, doubles, inverse[doubles]], axis=1)
        found.append(np.unique(np.sort(joined, axis=1), axis=0))
    return np.concatenate(found)


def _combinations(values: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """All subsets of a size as rows."""
    rows = list(combinations(values.tolist(), size))
    return np.array(rows, dtype=np.int64).reshape(len(rows), size)


def _all_pairs(
    one: NDArray[np.int64], other: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Every row of one beside every row of the other."""
    return np.repeat(one, len(other), axis=0), np.tile(other, (len(one), 1))


def _samples(
    values: NDArray[np.int64], size: int, count: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Random subsets of a size as rows."""
    order = np.argpartition(rng.random((count, len(values))), max(0, size - 1), axis=1)
    return values[order[:, :size]]


def score_generator_sets(
    table: NDArray[np.int32], generators: NDArray[np.int64]
) -> GeneratorScores:
    """Exact BFB score of the Cayley digraph of every generator set (one receiver, the identity).

    Source v reaches the in-neighbour s^-1 as s * v reaches the identity, so one search backwards
    from the identity tells the admissible in-links of every source.

    >>> from ocs_codesign.graphs.groups.cyclic import Cyclic
    >>> scores = score_generator_sets(multiplication_table(Cyclic(8)), np.array([[1, 3], [2, 4]]))
    >>> scores.steps.tolist(), scores.total_load.tolist()
    ([3, 0], [7, 0])
    """
    order, degree = len(table), generators.shape[1]
    inverse = np.argmin(table, axis=1)  # the identity has number 0
    least = np.full(order + 1, np.iinfo(np.int64).max)
    steps = np.zeros(len(generators), dtype=np.int64)
    total = np.zeros(len(generators), dtype=np.int64)
    line_total = np.zeros(len(generators), dtype=np.int64)
    unit = lcm(*range(1, degree + 1))
    score = for_work(score_sets, generators.size * order)
    score(table, inverse, generators, unit, least, steps, total, line_total)
    return GeneratorScores(generators, steps, total, line_total)


def generator_hop_sums(
    table: NDArray[np.int32], generators: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Sum of the distances from a node of the Cayley digraph of every generator set.

    It is N / d times a lower bound on all-to-all. 0 for a set that does not generate the group, and
    for one whose sum is more than an eighth above the least of those before it.

    >>> from ocs_codesign.graphs.groups.cyclic import Cyclic
    >>> sets = np.array([[1, 2], [1, 3], [2, 4], [1, 7]])
    >>> generator_hop_sums(multiplication_table(Cyclic(8)), sets).tolist()
    [16, 14, 0, 0]
    """
    sums = np.zeros(len(generators), dtype=np.int64)
    for_work(sum_hops, generators.size * len(table))(table, generators, sums)
    return sums


def joint_generator_sets(
    table: NDArray[np.int32], generators: NDArray[np.int64], most: int = 512
) -> NDArray[np.int64]:
    """Of the ``most`` sets with the fewest hops those that none beats in hops, steps and BFB load.

    Of sets that are equal in all three the first is kept.
    """
    sums = generator_hop_sums(table, generators)
    order = np.argsort(np.where(sums, sums, np.iinfo(np.int64).max), kind="stable")
    order = order[: min(most, int(np.count_nonzero(sums)))]
    # In the order of their hops: a set that is dominated in the allgather by one before it, which
    # has steps 0 here, is dominated in all three.
    scores = score_generator_sets(table, generators[order])
    keys = (scores.total_load, scores.steps, sums[order])
    kept: list[int] = []
    for place in np.lexsort(keys).tolist():
        beaten = (
            scores.steps[one] <= scores.steps[place]
            and scores.total_load[one] <= scores.total_load[place]
            for one in kept
        )
        if scores.steps[place] and not any(beaten):
            kept.append(place)
    return generators[order[kept]]
