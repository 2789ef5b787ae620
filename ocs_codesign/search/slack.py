"""Digraphs with slack, in which a node put in or taken out costs no step: starts for any size.

A link that leads by a new node makes every walk over it a link longer. Where all nodes at the
diameter are reached by two walks and more, the others hold the diameter, and late schedules of what
results are nearly as good as those of the digraph. Line digraphs keep it, and add a step each.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.core.bounds import bound, fewest_steps
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
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.search.bases import Effort

    Base = tuple[int, Fraction, Recipe]


MAX_EDITS = 8
"""Nodes to put in or take out at most, in a digraph with slack and in its line digraphs."""
MAX_ORDER = 400
"""Larger groups are not searched: line digraphs of smaller ones are as good."""
_MOST_SINGLES, _SETS_A_SET, _MAX_LINES, _KEPT = 2, 16, 8, 2
_EDITS_A_LINE, _EDITS_A_SINGLE, _EDITS_A_PLACE, _EDITS_A_T_B = 6, 4, 2, 66
"""What a line, a single walk, a place behind the best and once the bound more of t_b are worth."""
_SIZES_LIFTED, _MAX_LIFTED = 4, 128
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

    Those first of which edits have the best late schedules: of few lines and no single walks, whose
    graph is near the bound under BFB; then those of few edits. Lifts are annealed for the first
    sizes that have no Cayley digraph without single walks.

    >>> from ocs_codesign.search.bases import Effort
    >>> from ocs_codesign.schedules.design import Question
    >>> found = slack_recipes(Question(86, 3), 5, Effort(work=2**14))
    >>> [(type(recipe).__name__, recipe.num_nodes) for recipe in found[:2]]
    [('Cayley', 84), ('Cayley', 84)]
    """
    found: list[tuple[Fraction, Recipe]] = []
    lifts_left = _SIZES_LIFTED
    for edits, nodes, lines in sorted(_sizes(question, at_most)):
        base, steps = Question(nodes, question.degree), at_most - lines
        bases = _cayley(base, steps, effort)
        if not (bases and bases[0][0] == 0) and lifts_left and _may_have_slack(base, steps):
            lifts_left -= 1
            bases += _lifts(base, steps, effort)
        for number, (num_singles, over, recipe) in enumerate(bases):
            whole: Recipe = recipe
            for _ in range(lines):
                whole = Line(whole)
            worse = _EDITS_A_PLACE * number + _EDITS_A_SINGLE * num_singles + _EDITS_A_T_B * over
            found.append((edits + worse, whole))
    return [recipe for _, recipe in sorted(found, key=lambda one: one[0])]


def _sizes(question: Question, at_most: int) -> Iterator[tuple[int, int, int]]:
    """Sizes from which few edits and so many lines lead to a question's, by what these are worth.

    A line is worth as many edits as it has been seen to cost late schedules above the bound.
    """
    for lines in range(min(_MAX_LINES, at_most)):
        near = question.num_nodes // question.degree**lines
        least = max(question.degree + 2, near - MAX_EDITS)
        for nodes in range(least, min(MAX_ORDER, near + MAX_EDITS) + 1):
            edits = _edits(question, nodes, lines)
            if edits <= MAX_EDITS:
                yield edits + _EDITS_A_LINE * lines, nodes, lines


def _edits(question: Question, nodes: int, lines: int) -> int:
    """Nodes to put in or take out on the way from a size by line digraphs to a question's."""
    if not lines:
        return abs(nodes - question.num_nodes)
    less = a_line_less(question, nodes * question.degree**lines)
    return _edits(less, nodes, lines - 1) + abs(less.num_nodes * less.degree - question.num_nodes)


def a_line_less(question: Question, start: int) -> Question:
    """The size whose line digraph comes next to a question's on the side of a start."""
    nodes, degree = question.num_nodes, question.degree
    return Question(-(-nodes // degree) if start > nodes else nodes // degree, degree)


def _may_have_slack(question: Question, steps: int) -> bool:
    """Whether annealing may lead two walks to all of the farthest nodes.

    With as many walks a node, of more nodes more have to be lucky. Of two links 16 nodes have been
    found in four steps, 30 in five, 55 in six, 90 in seven and 130 in eight.
    """
    nodes = question.num_nodes
    walks = reachable(question, steps) / nodes
    return nodes <= _MAX_LIFTED and walks >= _LEAST_WALKS + nodes / _NODES_A_WALK


def _lifts(question: Question, steps: int, effort: Effort) -> list[Base]:
    """Lifts of a size without single walks, as ``_cayley`` has them."""
    visits = min(effort.work * _VISITS_A_UNIT, _MOST_VISITS)
    lifts = short_lifts(question, steps, visits, effort.seed, slack=True)
    return _best((0, _over(lift), lift) for lift in lifts)


def _cayley(question: Question, steps: int, effort: Effort) -> list[Base]:
    """The best Cayley digraphs of a size: single walks, t_b above the bound, and the recipe."""
    nodes, degree = question.num_nodes, question.degree
    if fewest_steps(nodes, degree) > steps:
        return []
    sets = generator_sets(nodes, degree, effort.num_sets(nodes, degree) * _SETS_A_SET, effort.seed)
    found: list[Base] = []
    for group in islice(groups_of_order(nodes), effort.groups_to_search(nodes)):
        table = multiplication_table(group)
        single = singles(table, sets, steps)
        fewest = min(single[single >= 0], default=_MOST_SINGLES + 1)
        if fewest <= _MOST_SINGLES:
            scores = score_generator_sets(table, sets[single == fewest])
            places = np.flatnonzero(scores.steps)
            for place in places[np.argsort(scores.total_load[places], kind="stable")][:_KEPT]:
                recipe = cayley_recipe(group, scores.generators[place].tolist())
                found.append((int(fewest), _over(recipe), recipe))
    return _best(found)


def _best(found: Iterable[Base]) -> list[Base]:
    return sorted(found, key=lambda one: one[:2])[:_KEPT]


def _over(recipe: Recipe) -> Fraction:
    return recipe.predict().t_b / bound(recipe.num_nodes, recipe.degree).t_b - 1
