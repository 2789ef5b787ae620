"""Digraphs with slack, in which a node put in or taken out costs no step: starts for any size.

A link that leads by a new node makes every walk over it a link longer. Where all nodes at the
diameter are reached by two walks and more, the others hold the diameter, and late schedules of what
results are nearly as good as those of the digraph. Line digraphs keep it, and add a step each.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.core.bounds import fewest_steps
from ocs_codesign.core.compute.kernels import for_work
from ocs_codesign.graphs.expansions.line import Line
from ocs_codesign.search.bases import cayley_recipe
from ocs_codesign.search.generators import (
    generator_sets,
    multiplication_table,
    score_generator_sets,
)
from ocs_codesign.search.score_kernels import count_singles
from ocs_codesign.search.small_groups import groups_of_order

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.schedules.design import Question
    from ocs_codesign.search.bases import Effort


MAX_DISTANCE = 13
"""Nodes that a digraph with slack has more or less at most: half of what lies between thrice line
digraphs of three links."""
MAX_ORDER = 400
"""Larger groups are not searched: line digraphs of smaller ones are as good."""
_MOST_SINGLES, _NODES_A_SINGLE = 2, 4
_SETS_A_SET, _MAX_LINES, _KEPT = 16, 4, 4


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
    """Line digraphs of Cayley digraphs near a question's size that have slack in so many steps.

    The nearest first, those of no single walk before others, then by their load under BFB.

    >>> from ocs_codesign.search.bases import Effort
    >>> from ocs_codesign.schedules.design import Question
    >>> [recipe.num_nodes for recipe in slack_recipes(Question(86, 3), 5, Effort())][:2]
    [84, 84]
    """
    found: list[tuple[int, int, Recipe]] = []
    degree, scale = question.degree, 1
    for lines in range(min(_MAX_LINES, at_most)):
        first = max(degree + 2, -(-(question.num_nodes - MAX_DISTANCE) // scale))
        last = min(MAX_ORDER, (question.num_nodes + MAX_DISTANCE) // scale)
        for nodes in range(first, last + 1):
            for num_singles, load, recipe in _of_size(nodes, degree, at_most - lines, effort):
                whole = recipe
                for _ in range(lines):
                    whole = Line(whole)
                distance = abs(whole.num_nodes - question.num_nodes)
                found.append((distance + _NODES_A_SINGLE * num_singles, load, whole))
        scale *= degree
    return [recipe for *_, recipe in sorted(found, key=lambda one: one[:2])]


def _of_size(nodes: int, degree: int, steps: int, effort: Effort) -> list[tuple[int, int, Recipe]]:
    """The best Cayley digraphs of a size: single walks, load under BFB, and the recipe."""
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
