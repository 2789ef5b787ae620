"""Search for affine digraphs with spliced loops: every size has them, primes too.

Balls of an affine digraph have the same size around every node but for sums of shifts that meet
across distances, and those are the fewer, the more automorphisms there are: with shifts that a
group of units permutes, multiplying by a unit of the group is one. So shifts are drawn as such
orbits for every group that fits the degree, zero joining them where one port is left, and freely.
"""

from __future__ import annotations

from math import comb, gcd, lcm
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.bounds import moore_steps
from ocs_codesign.graphs.families.affine import AffineSpliced
from ocs_codesign.kernels import compiled
from ocs_codesign.search.affine_kernels import score_affine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ocs_codesign.question import Question
    from ocs_codesign.search.effort import Effort

MAX_AFFINE_NODES = 4096
_MAX_DEGREE = 8
_MORE_STEPS = 4
_ROWS = 256
_VISITS_A_UNIT = 16


def affine_recipes(question: Question, effort: Effort) -> list[AffineSpliced]:
    """The best found for every number of steps from the Moore bound on; nothing two-way.

    ``effort.work`` bounds the visits of nodes, which are shared among the kinds of shifts.

    >>> from ocs_codesign.question import Question
    >>> from ocs_codesign.search.effort import Effort
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
