"""Search for Cayley digraphs: exact scores of many generator sets of one group at once."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations
from math import comb, gcd, lcm
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.bounds import moore_steps
from ocs_codesign.core.compute.kernels import compiled, for_work
from ocs_codesign.graphs.families.affine import AffineSpliced
from ocs_codesign.search.score_kernels import score_affine, score_sets, sum_hops

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ocs_codesign.graphs.groups.group import Group
    from ocs_codesign.schedules.design import Question
    from ocs_codesign.search.bases import Effort


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


# Search for affine digraphs with spliced loops: every size has them, primes too.
#
# Balls of an affine digraph have the same size around every node but for sums of shifts that meet
# across distances, and those are the fewer, the more automorphisms there are: with shifts that a
# group of units permutes, multiplying by a unit of the group is one. So shifts are drawn as such
# orbits for every group that fits the degree, zero joining them where one port is left, and
# freely.


MAX_AFFINE_NODES = 2**14
_MAX_DEGREE = 8
_MORE_STEPS = 4
_ROWS = 256
_VISITS_A_UNIT = 16


def affine_recipes(question: Question, effort: Effort) -> list[AffineSpliced]:
    """The best found for every number of steps from the Moore bound on; nothing two-way.

    ``effort.work`` bounds the visits of nodes, which are shared among the kinds of shifts.

    >>> from ocs_codesign.schedules.design import Question
    >>> from ocs_codesign.search.bases import Effort
    >>> affine_recipes(Question(13, 3), Effort(work=2**12))[0].predict().steps
    3
    """
    nodes, degree = question.num_nodes, question.degree
    if question.bidirectional or not 2 <= degree <= _MAX_DEGREE or not effort.work:
        return []
    if not degree + 1 < nodes <= MAX_AFFINE_NODES:
        return []
    found: dict[AffineSpliced, None] = {}
    groups = list(_groups(nodes, degree))
    visits = effort.work * _VISITS_A_UNIT // len(groups)
    for group in groups:
        rng = np.random.default_rng((effort.seed, nodes, degree, *group))
        found.update(dict.fromkeys(_best_of_group(question, group, rng, visits)))
    return list(found)


def _best_of_group(
    question: Question, group: tuple[int, ...], rng: np.random.Generator, visits: int
) -> Iterator[AffineSpliced]:
    """The best whose shifts the group permutes."""
    nodes, degree = question.num_nodes, question.degree
    unit = lcm(*range(1, degree + 1))
    share = np.array([0] + [unit // links.bit_count() for links in range(1, 1 << degree)])
    least = np.full(moore_steps(nodes, degree) + _MORE_STEPS + 1, 1 << 60, dtype=np.int64)
    turn = _representatives(nodes, group)
    kept: dict[int, tuple[int, tuple[int, ...]]] = {}
    for units, shifts in _rows(nodes, degree, group, rng):
        best = np.full(len(least), -1, dtype=np.int64)
        rows = (nodes, units, shifts, turn, share, visits, least, best)
        visits -= int(compiled(score_affine)(*rows)) + nodes
        for steps in np.flatnonzero(best >= 0).tolist():
            kept[steps] = (int(units[best[steps]]), tuple(shifts[best[steps]].tolist()))
        if visits <= 0:
            break
    for q, row in dict.fromkeys(kept.values()):
        yield AffineSpliced(nodes, q, row)


def _groups(nodes: int, degree: int) -> Iterator[tuple[int, ...]]:
    """Groups of powers of a unit whose order divides d or d - 1, one an order, and the trivial."""
    for order in range(degree, 1, -1):
        if degree % order and (degree - 1) % order:
            continue
        for unit in range(2, nodes):
            powers = [pow(unit, k, nodes) for k in range(order + 1)]
            if powers[order] == 1 and len(set(powers)) == order:
                yield tuple(powers[:order])
                break
    yield (1,)


def _rows(
    nodes: int, degree: int, group: tuple[int, ...], rng: np.random.Generator
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Blocks of units and shifts: all units once for a single orbit, draws for more.

    There are no more draws than there are choices. Multiplying all shifts by a unit changes
    nothing, so the first orbit is the group's.
    """
    units = np.array([q for q in range(2, nodes) if gcd(q, nodes) == 1], dtype=np.int64)
    if not len(units):
        return
    orbits, left = divmod(degree, len(group))
    rows = max(1, min(_ROWS, 2**18 // nodes))
    queue, left_to_draw = rng.permutation(units), len(units) * comb(nodes, orbits)
    fixed = np.zeros((rows, 1), dtype=np.int64)
    while len(queue):
        if orbits > 1 or len(group) == 1:
            queue = rng.choice(units, rows)
        block, queue = queue[:rows], queue[rows:]
        firsts = rng.integers(1, nodes, (rows, orbits, 1))
        firsts[:, 0] = 1
        if len(group) == 1:
            firsts[:, 0] = 0
        shifts = (firsts * np.array(group) % nodes).reshape(rows, -1)
        shifts = np.concatenate([fixed, shifts], axis=1) if left else shifts
        shifts, block = shifts[: len(block)], block[: len(shifts)]
        ordered = np.sort(shifts, axis=1)
        differ = (np.diff(ordered, axis=1) > 0).all(axis=1)
        yield block[differ], shifts[differ]
        left_to_draw -= rows
        if left_to_draw > 0 and (orbits > 1 or len(group) == 1):
            queue = units


def _representatives(nodes: int, group: tuple[int, ...]) -> NDArray[np.int64]:
    """One receiver for those that multiplying by the group leads to."""
    x = np.arange(nodes, dtype=np.int64)
    least = (x[:, None] * np.array(group) % nodes).min(axis=1)
    return np.flatnonzero(least == x)


# Random numbers for compiled loops: words of a generator, which then goes on after those used.


@contextmanager
def words_of(
    rng: np.random.Generator, halves: int, wholes: int
) -> Iterator[tuple[NDArray[np.uint64], NDArray[np.int64]]]:
    """The words and ``drawn`` of ``draw_kernels``, enough for so many integers and reals.

    >>> from ocs_codesign.search.move_kernels import draw, draw_real
    >>> rng, same = (np.random.default_rng(1) for _ in range(2))
    >>> with words_of(rng, 3, 1) as (words, drawn):
    ...     numbers = [draw(words, drawn, 10), draw_real(words, drawn), draw(words, drawn, 10)]
    >>> numbers == [same.integers(10), same.random(), same.integers(10)]
    True
    >>> bool(rng.integers(10) == same.integers(10))
    True
    """
    source: Any = rng.bit_generator
    before = source.state
    # Few numbers are rejected: of N, one in 2^32 / N.
    words = source.random_raw(halves // 2 + wholes + halves // 1000 + 64)
    drawn = np.array([0, before["uinteger"], before["has_uint32"]], dtype=np.int64)
    yield words, drawn
    source.state = before
    source.random_raw(int(drawn[0]), output=False)
    source.state = source.state | {"uinteger": int(drawn[1]), "has_uint32": int(drawn[2])}
