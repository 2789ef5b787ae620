"""Search for Cayley digraphs: exact scores of many generator sets of one group at once."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb, lcm
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.schedulers.bfb_loads import depth_first_sets

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.groups import Group

_BATCH_ENTRIES = 2**22


@final
@dataclass(frozen=True, slots=True, eq=False)
class GeneratorScores:
    """Scores of generator sets (rows): steps and the sum of the BFB loads.

    ``total_load`` is in units of 1/lcm(1 .. d). A set that does not generate the group has steps 0.
    """

    generators: NDArray[np.int64]
    steps: NDArray[np.int64]
    total_load: NDArray[np.int64]

    def best(self, keep: int) -> NDArray[np.int64]:
        """Generators of the best sets: for each number of steps up to ``keep`` of the least load.

        Only numbers of steps that improve the load on all smaller ones are kept.
        """
        valid = np.flatnonzero(self.steps)
        order = valid[np.lexsort((valid, self.total_load[valid], self.steps[valid]))]
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
    columns = [group.right_multiply(elements, v) for v in range(group.order)]
    return np.stack(columns, axis=1).astype(np.int32)


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


def score_generator_sets(
    table: NDArray[np.int32], generators: NDArray[np.int64]
) -> GeneratorScores:
    """Exact BFB score of the Cayley digraph of every generator set (one receiver, the identity).

    The set of sources within t hops of the in-neighbour s^-1 is that of the identity, multiplied by
    s^-1 from the left; so source v is in it exactly if s * v is within t hops of the identity.

    >>> from ocs_codesign.groups import Cyclic
    >>> scores = score_generator_sets(multiplication_table(Cyclic(8)), np.array([[1, 3], [2, 4]]))
    >>> scores.steps.tolist(), scores.total_load.tolist()
    ([3, 0], [7, 0])
    """
    order, degree = len(table), generators.shape[1]
    batch = max(1, _BATCH_ENTRIES // (order * degree))
    results = [
        _score_batch(table, generators[first : first + batch])
        for first in range(0, len(generators), batch)
    ]
    empty = np.zeros((2, 0), dtype=np.int64)
    steps, loads = np.concatenate([empty, *results], axis=1)
    return GeneratorScores(generators, steps, loads)


def _score_batch(table: NDArray[np.int32], generators: NDArray[np.int64]) -> NDArray[np.int64]:
    sets, degree = generators.shape
    order = len(table)
    unit = lcm(*range(1, degree + 1))
    moved = table[generators]
    reached = np.zeros((sets, order), dtype=bool)
    reached[:, 0] = True
    size = np.ones(sets, dtype=np.int64)
    steps = np.zeros(sets, dtype=np.int64)
    total = np.zeros(sets, dtype=np.int64)
    everything = (1 << degree) - 1
    rows = np.arange(sets)
    while len(rows):
        via = reached[np.arange(len(rows))[:, None, None], moved]
        packed = _packed(via)
        covers = {0: _packed(reached)}
        covered = np.empty((1 << degree, len(rows)), dtype=np.int64)
        for inside, _ in depth_first_sets(degree):
            if inside:
                top = inside.bit_length() - 1
                covers[inside] = covers[inside ^ (1 << top)] | packed[:, top]
            covered[inside] = np.bitwise_count(covers[inside]).sum(axis=1, dtype=np.int64)
        load = np.zeros(len(rows), dtype=np.int64)
        for inside in range(everything):
            weight = (everything ^ inside).bit_count()
            load = np.maximum(load, (covered[everything] - covered[inside]) * (unit // weight))
        grew = covered[everything] > size[rows]
        size[rows] = covered[everything]
        steps[rows[grew]] += 1
        total[rows[grew]] += load[grew]
        more = grew & (covered[everything] < order)
        reached = (via.any(axis=1) | reached)[more]
        rows, moved = rows[more], moved[more]
    generates = size == order
    return np.stack([steps * generates, total * generates])


def _packed(bits: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Rows of booleans as 64-bit words."""
    packed = np.packbits(bits, axis=-1)
    words = -(-packed.shape[-1] // 8)
    padding = [(0, 0)] * (packed.ndim - 1) + [(0, 8 * words - packed.shape[-1])]
    return np.pad(packed, padding).view(np.uint64)
