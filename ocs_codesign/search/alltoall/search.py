"""Candidates for all-to-all: digraphs with short and evenly used paths, and their line digraphs.

The search ranks by hops, which bound all-to-all from below and are cheap to count; what is good
enough is solved by ``search.joint``. Line digraphs keep what is good about their base, so those of
the best digraphs of N / d nodes, N / d^2 nodes and so on join those that are found at N itself.
Sources: Zhao et al. (arXiv 2202.03356) for line digraphs, Gross (1974) for voltage digraphs.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.core.compute.kernels import compiled
from ocs_codesign.core.lp import DEFAULT_OPTIONS
from ocs_codesign.core.progress import tell_phase
from ocs_codesign.graphs.families.cayley import Lift
from ocs_codesign.graphs.groups.cyclic import Cyclic
from ocs_codesign.schedules.design import Question
from ocs_codesign.schedules.paths.throughput import throughput
from ocs_codesign.search.alltoall.climbs import Climbed, climbed
from ocs_codesign.search.alltoall.kernels import NEVER, anneal_priced
from ocs_codesign.search.bases import MAX_SEARCHED_DEGREE, MAX_SEARCHED_NODES, cayley_recipe
from ocs_codesign.search.generators import (
    generator_sets,
    joint_generator_sets,
    multiplication_table,
    symmetric_generator_sets,
    words_of,
)
from ocs_codesign.search.small_groups import groups_of_order

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.search.bases import Effort


# General digraphs of few nodes for all-to-all, annealed by what prices of links prove of it.
#
# Up to MAX_NODES nodes a digraph need not be a lift to be found. An estimate in a few rounds of
# prices sees what hops and evenly split shortest paths do not: that longer paths relieve links.


MAX_NODES = 64
_ROUNDS, _HEAT = 24, 1.0
_SHORTER = (1, 4, 16, 1, 4, 16)
"""Each annealing is so many times shorter: the least estimate is not always the least time."""
_VISITS = 2**5
"""Looks of a root at a pair of nodes for a unit of work."""
_MAX_MOVES, _LEAST_MOVES = 40_000, 100


def priced_recipes(question: Question, effort: Effort) -> list[Lift]:
    """The digraphs that annealings from several seeds find, the least exact time first.

    >>> from ocs_codesign.schedules.design import Question
    >>> from ocs_codesign.search.bases import Effort
    >>> best = priced_recipes(Question(7, 2), Effort(work=2**20))[0]
    >>> throughput(best.topology()).time
    Fraction(11, 7)
    """
    nodes = question.num_nodes
    if nodes > MAX_NODES or (question.bidirectional and nodes * question.degree % 2):
        return []
    moves = min(_MAX_MOVES, effort.work * _VISITS // nodes**3)
    if moves < _LEAST_MOVES:
        return []
    found: dict[Lift, Fraction] = {}
    for attempt, shorter in enumerate(_SHORTER):
        recipe = priced(question, moves // shorter, effort.seed + attempt)
        if recipe is not None and recipe not in found:
            found[recipe] = throughput(recipe.topology(), DEFAULT_OPTIONS).time
    return sorted(found, key=found.__getitem__)


def priced(question: Question, moves: int, seed: int) -> Lift | None:
    """The best that annealing from a random digraph finds, None if none is strongly connected."""
    nodes, degree = question.num_nodes, question.degree
    slots = nodes * degree
    rng = np.random.default_rng((seed, nodes, degree, question.bidirectional))
    mate = np.full(slots, -1, dtype=np.int64)
    to = rng.permutation(np.arange(slots, dtype=np.int64) // degree)
    if question.bidirectional:
        pairs = rng.permutation(slots).reshape(-1, 2)
        mate[pairs] = pairs[:, ::-1]
        to = mate // degree
    best = to.copy()
    with words_of(rng, 3 * moves, 2 * moves) as drawn:
        sizes = (degree, _ROUNDS, _HEAT, moves, 0.0)
        score = compiled(anneal_priced)(to, mate, *sizes, *drawn, best)
    if score >= NEVER:
        return None
    rows = np.sort(best.reshape(nodes, degree), axis=1).tolist()
    return Lift(Cyclic(1), tuple(map(tuple, rows)))


_LEAST_VISITS, _MOST_VISITS = 24, 192
_KEPT = 4
_MAX_COLUMNS = 2**19
_MORE_SETS = 8
_LESS = 4


def alltoall_recipes(question: Question, effort: Effort) -> list[Recipe]:
    """Recipes of a size that all-to-all may take little time on, nothing where search is too much.

    The best general digraph and the best that climbs find come first, then Cayley digraphs.
    ``effort.work`` bounds the generator sets tried in each group and the climbs at every size.
    """
    nodes, degree = question.num_nodes, question.degree
    is_searched = 2 <= degree <= MAX_SEARCHED_DEGREE and degree < nodes <= MAX_SEARCHED_NODES
    if not (is_searched and effort.work):
        return []
    best = shortest_digraphs(question, effort)
    climbs = (one.digraph.recipe() for one in best)
    priced = priced_recipes(question, effort)
    return list(dict.fromkeys([*priced[:1], *climbs, *priced[1:], *_cayley(question, effort)]))


def shortest_digraphs(question: Question, effort: Effort) -> list[Climbed]:
    """The best digraphs of the climbs, and line digraphs of those of smaller sizes, best first.

    >>> from ocs_codesign.search.bases import Effort
    >>> best = shortest_digraphs(Question(16, 4), Effort(work=2**16))[0]
    >>> best.spread.diameter, best.spread.hops
    (2, 26.0)
    """
    if not effort.work:
        return []
    less = replace(effort, work=effort.work // _LESS)
    both = (_led_to(question, one) for one in (effort, less) if one.work)
    return _best([one for found in both for one in found])


def _led_to(question: Question, effort: Effort) -> list[Climbed]:
    """The best that climbs of one effort find at a size and at those that line digraphs lead from.

    Short climbs find what long ones miss, so those of a part of an effort belong to the whole.
    """
    kept: list[Climbed] = []
    visits = effort.work * _search_visits(question.num_nodes)
    for size in _sizes(question):
        tell_phase(f"climbs at {size.num_nodes} nodes")
        lines = [Climbed(line, line.spread(), True) for line in (c.digraph.line() for c in kept)]
        lines.sort(key=lambda one: one.rank)
        max_rows = _max_rows(question, size)
        kept = _best(climbed(size, effort, visits, max_rows, lines))
    return kept


def _search_visits(num_nodes: int) -> int:
    """Visits of links for a unit of work: fewer at small sizes, which have fewer digraphs."""
    return min(_MOST_VISITS, max(_LEAST_VISITS, num_nodes**2 // 20))


def _best(found: list[Climbed]) -> list[Climbed]:
    """The best that began as line digraphs and the best of the others.

    Those of a kind whose paths are spread alike are taken for the same digraph.
    """
    first: dict[tuple[object, ...], Climbed] = {}
    for one in sorted(found, key=lambda one: one.rank):
        spread = round(one.spread.even_hops, 9), round(one.spread.most_hops, 9)
        first.setdefault((one.kind, one.by_line, spread), one)
    lines = [one for one in first.values() if one.by_line][:_KEPT]
    others = [one for one in first.values() if not one.by_line][:_KEPT]
    return sorted(lines + others, key=lambda one: one.rank)


def _sizes(question: Question) -> list[Question]:
    """The sizes that line digraphs lead to this one from, the smallest first, and this one."""
    sizes = [question]
    while not question.bidirectional:
        nodes, rest = divmod(sizes[0].num_nodes, question.degree)
        if rest or nodes <= question.degree:
            break
        sizes.insert(0, Question(nodes, question.degree))
    return sizes


def _max_rows(question: Question, size: Question) -> int:
    """Rows at a size such that a line digraph of the whole size has a program of useful size."""
    links = question.num_nodes * question.degree
    return max(1, _MAX_COLUMNS // links * size.num_nodes // question.num_nodes)


def _cayley(question: Question, effort: Effort) -> Iterator[Recipe]:
    """Cayley digraphs undominated, in their group, in hops, steps and allgather."""
    nodes, degree = question.num_nodes, question.degree
    most = effort.num_sets(nodes, degree) * _MORE_SETS
    sets = generator_sets(nodes, degree, most, effort.seed)
    for group in islice(groups_of_order(nodes), effort.groups_to_search(nodes)):
        table = multiplication_table(group)
        if question.bidirectional:
            sets = symmetric_generator_sets(table, degree, most, effort.seed)
        for numbers in joint_generator_sets(table, sets).tolist():
            yield cayley_recipe(group, numbers)
