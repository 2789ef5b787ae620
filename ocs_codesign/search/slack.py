"""Digraphs with slack, in which a node put in or taken out costs no step: starts for any size.

A link that leads by a new node makes every walk over it a link longer. Where all nodes at the
diameter are reached by two walks and more, the others hold the diameter, and late schedules of what
results are nearly as good as those of the digraph. Line digraphs keep it, and add a step each.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import islice
from math import lcm
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.core.bounds import fewest_steps
from ocs_codesign.core.compute.kernels import for_work
from ocs_codesign.graphs.expansions.line import Line
from ocs_codesign.schedules.design import Question
from ocs_codesign.search.bases import cayley_recipe
from ocs_codesign.search.generators import (
    generator_sets,
    multiplication_table,
    score_generator_sets,
)
from ocs_codesign.search.lifts import reachable, short_lifts
from ocs_codesign.search.score_kernels import count_singles
from ocs_codesign.search.small_groups import groups_of_order

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.search.bases import Effort


MAX_DISTANCE = 16
"""Nodes that a digraph with slack has more or less at most: what lies between line digraphs of two
links that were taken four times, and half of that of three taken thrice."""
MAX_ORDER = 400
"""Larger groups are not searched: line digraphs of smaller ones are as good."""
_MOST_SINGLES, _NODES_A_SINGLE = 2, 4
_SETS_A_SET, _MAX_LINES, _KEPT = 16, 8, 4
_SIZES_LIFTED, _MAX_LIFTED = 3, 128
_VISITS_A_UNIT, _MOST_VISITS = 2**10, 2**27
_LEAST_WALKS, _NODES_A_WALK = 1.7, 90


def singles(
    table: NDArray[np.int32], generators: NDArray[np.int64], steps: int
) -> NDArray[np.int64]:
    """Nodes of the Cayley digraph of every generator set that ``steps`` links lead to, no fewer and
    by a single walk; -1 if some node takes more.

    >>> from ocs_codesign.graphs.groups.cyclic import Cyclic
    >>> sets = np.array([[1, 3], [1, 2], [2, 4]])
    >>> singles(multiplication_table(Cyclic(8)), sets, 3).tolist()
    [0, -1, -1]
    """
    found = np.full(len(generators), -1, dtype=np.int64)
    for_work(count_singles, generators.size * len(table))(table, generators, steps, found)
    return found


def slack_recipes(question: Question, at_most: int, effort: Effort) -> list[Recipe]:
    """Line digraphs of Cayley digraphs and lifts near a question's size that have slack in time.

    The nearest first, those of no single walk before others, then by their load under BFB. Lifts
    are annealed for the nearest sizes that have no Cayley digraph without single walks.

    >>> from ocs_codesign.search.bases import Effort
    >>> from ocs_codesign.schedules.design import Question
    >>> found = slack_recipes(Question(86, 3), 5, Effort(work=2**14))
    >>> [(type(recipe).__name__, recipe.num_nodes) for recipe in found][:2]
    [('Lift', 85), ('Line', 84)]
    """
    found: list[tuple[int, int, Recipe]] = []
    lifts_left = _SIZES_LIFTED
    for distance, nodes, lines in sorted(_sizes(question, at_most)):
        base, steps = Question(nodes, question.degree), at_most - lines
        bases = _cayley(base, steps, effort)
        if not (bases and bases[0][0] == 0) and lifts_left and _may_have_slack(base, steps):
            lifts_left -= 1
            bases += _lifts(base, steps, effort)
        for num_singles, load, recipe in bases:
            whole: Recipe = recipe
            for _ in range(lines):
                whole = Line(whole)
            found.append((distance + _NODES_A_SINGLE * num_singles, load, whole))
    return [recipe for *_, recipe in sorted(found, key=lambda one: one[:2])]


def _sizes(question: Question, at_most: int) -> Iterator[tuple[int, int, int]]:
    """Sizes whose line digraphs, of so many lines, are so far from a question's."""
    degree = question.degree
    for lines in range(min(_MAX_LINES, at_most)):
        scale = degree**lines
        first = max(degree + 2, -(-(question.num_nodes - MAX_DISTANCE) // scale))
        last = min(MAX_ORDER, (question.num_nodes + MAX_DISTANCE) // scale)
        for nodes in range(first, last + 1):
            yield abs(nodes * scale - question.num_nodes), nodes, lines


def _may_have_slack(question: Question, steps: int) -> bool:
    """Whether annealing may lead two walks to all of the farthest nodes.

    With as many walks a node, of more nodes more have to be lucky. Of two links 16 nodes have been
    found in four steps, 30 in five, 55 in six, 90 in seven and 130 in eight.
    """
    nodes = question.num_nodes
    walks = reachable(question, steps) / nodes
    return nodes <= _MAX_LIFTED and walks >= _LEAST_WALKS + nodes / _NODES_A_WALK


def _lifts(question: Question, steps: int, effort: Effort) -> list[tuple[int, int, Recipe]]:
    """Lifts of a size without single walks, as ``_cayley`` has them."""
    degree, unit = question.degree, lcm(*range(1, question.degree + 1))
    visits = min(effort.work * _VISITS_A_UNIT, _MOST_VISITS)
    # The total load is t_b times N / d.
    shards = Fraction(unit * question.num_nodes, degree)
    found: list[tuple[int, int, Recipe]] = [
        (0, int(lift.predict().t_b * shards), lift)
        for lift in short_lifts(question, steps, visits, effort.seed, slack=True)
    ]
    return sorted(found, key=lambda one: one[:2])[:_KEPT]


def _cayley(question: Question, steps: int, effort: Effort) -> list[tuple[int, int, Recipe]]:
    """The best Cayley digraphs of a size: single walks, load under BFB, and the recipe."""
    nodes, degree = question.num_nodes, question.degree
    if fewest_steps(nodes, degree) > steps:
        return []
    sets = generator_sets(nodes, degree, effort.num_sets(nodes, degree) * _SETS_A_SET, effort.seed)
    found: list[tuple[int, int, Recipe]] = []
    for group in islice(groups_of_order(nodes), effort.groups_to_search(nodes)):
        table = multiplication_table(group)
        single = singles(table, sets, steps)
        fewest = min(single[single >= 0], default=_MOST_SINGLES + 1)
        if fewest <= _MOST_SINGLES:
            scores = score_generator_sets(table, sets[single == fewest])
            places = np.flatnonzero(scores.steps)
            for place in places[np.argsort(scores.total_load[places], kind="stable")][:_KEPT]:
                recipe = cayley_recipe(group, scores.generators[place].tolist())
                found.append((int(fewest), int(scores.total_load[place]), recipe))
    return sorted(found, key=lambda one: one[:2])[:_KEPT]
