"""Late schedules on the best graphs of a size: the finder's last stage.

At the same number of steps items that arrive later than their distance mostly load the links more
evenly. So for every number of steps that no design is near the least t_b at, the graphs that BFB
does best on are given to a search for late arrivals: of one item an orbit where the graph has a
symmetry, which takes hundredths of the time and mostly finds no less. For the fewest steps there
can be, where all that is known may be generalized Kautz digraphs with their loops, the digraphs of
Imase and Itoh are among them whose loops are spliced.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import gcd
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.core.bounds import fewest_steps
from ocs_codesign.core.collective import Collective
from ocs_codesign.graphs.expansions.edits import Swap
from ocs_codesign.graphs.expansions.late import MAX_NODES, Late
from ocs_codesign.graphs.expansions.reverse import Transpose
from ocs_codesign.graphs.families.affine import AffineSpliced
from ocs_codesign.graphs.families.shifts import GeneralizedKautz
from ocs_codesign.schedules.breadth_first.loads import MAX_SUBSET_WIDTH
from ocs_codesign.schedules.stepped.arrivals import default_moves, ways_to_search
from ocs_codesign.schedules.stepped.late import WHOLE_ITEMS
from ocs_codesign.search.bases import MAX_SEARCHED_NODES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from fractions import Fraction

    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.schedules.design import Design, Question
    from ocs_codesign.search.bases import Effort

_STARTS, _STARTS_IF_LARGE = 2, 1
_LARGE = 1024
_MOVES_A_UNIT = 8
"""Of a search's work: that of a pass over the catalogue allows a million."""
_ALIKE, _MOVES_IF_ALIKE = 8, 200_000
"""Nodes an orbit from which on one is searched for all, and the moves that mostly suffice then."""
_SHARE_BEYOND, _STEPS_BEYOND = 4, 2


def late_recipes(
    question: Question, scored: list[Design], effort: Effort, steps: list[int]
) -> list[Late]:
    """Late schedules of at most so many steps each, on the graphs with the least t_b in them.

    None of sizes whose items would have to be late in parts, or that the search does not take.

    >>> from ocs_codesign.schedules.design import Question, measure
    >>> from ocs_codesign.search.bases import Effort
    >>> known = [measure("AffineSpliced(61, 3, (0, 22, 24, 2))", "allreduce")]
    >>> late_recipes(Question(61, 4), known, Effort(), [5])
    [Late(AffineSpliced(61, 3, (0, 22, 24, 2)), 5, 1000000, 1)]
    """
    nodes = question.num_nodes
    starts = _STARTS_IF_LARGE if nodes > _LARGE else _STARTS
    if nodes > MAX_SEARCHED_NODES:  # nothing is stored: there is more to search for
        steps = steps[:_STEPS_BEYOND]
    return [
        late
        for at_most in steps
        for late in late_within(question, _graphs(scored, at_most)[:starts], at_most, effort)
    ]


def late_within(
    question: Question, graphs: Sequence[Recipe], at_most: int, effort: Effort
) -> list[Late]:
    """Late schedules of at most so many steps on graphs that have their allgathers in them."""
    nodes, degree = question.num_nodes, question.degree
    if not (WHOLE_ITEMS <= nodes <= MAX_NODES and 2 <= degree <= MAX_SUBSET_WIDTH):
        return []
    moves = min(default_moves(nodes), effort.work * _MOVES_A_UNIT)
    moves //= _SHARE_BEYOND if nodes > MAX_SEARCHED_NODES else 1
    if not moves:
        return []
    return [late for graph in graphs for late in _late(graph, at_most, moves, effort.seed)]


def _late(recipe: Recipe, steps: int, moves: int, seed: int) -> list[Late]:
    """With arrivals as alike as nodes, where the graph declares that many are.

    By all the ways of searching that are worth it, two in as many steps as the diameter.
    """
    topology = recipe.topology()
    symmetry = topology.symmetry
    late, num_rows = Late(recipe, steps, moves, seed), recipe.num_nodes
    if symmetry is not None and _ALIKE * len(symmetry.representatives()) <= num_rows:
        late = replace(late, moves=min(moves, _MOVES_IF_ALIKE), alike=1)
        num_rows = len(symmetry.representatives())
    ways = ways_to_search(num_rows, is_tight=topology.diameter() == steps)
    return [replace(late, all_sets=int(way), first_cut=cut) for way, cut in ways]


def spliced_recipes(question: Question, steps: list[int]) -> list[AffineSpliced]:
    """Digraphs of Imase and Itoh with few loops, where the fewest steps are looked for.

    >>> from ocs_codesign.schedules.design import Question
    >>> spliced_recipes(Question(565, 3), [6])
    [AffineSpliced(565, 3, (0, 1, 2)), AffineSpliced(565, 562, (0, 1, 2))]
    """
    nodes, degree = question.num_nodes, question.degree
    if question.bidirectional or fewest_steps(nodes, degree) not in steps:
        return []
    found: list[AffineSpliced] = []
    for unit in (degree, nodes - degree):
        if gcd(unit, nodes) > 1:
            continue
        turns = gcd(unit - 1, nodes)
        windows = [
            tuple((first + link) % nodes for link in range(degree)) for first in range(degree)
        ]
        # A map has a loop a turn if its shift is a multiple of their number, else none.
        windows.sort(key=lambda window: sum(turns for shift in window if shift % turns == 0))
        found.append(AffineSpliced(nodes, unit, windows[0]))
    return found


def led_on_recipes(question: Question) -> list[Recipe]:
    """The generalized Kautz digraph with its loops led on in a ring, each to the node of the next.

    A node with a loop receives over d - 1 links, so that t_b is at least d / (d - 1) of the bound,
    whatever arrives late; with two links a node that is twice the bound.

    >>> from ocs_codesign.schedules.design import Question
    >>> led_on_recipes(Question(886, 2))[0]
    Swap(GeneralizedKautz(2, 886), ((590, 1181),))
    """
    nodes, degree = question.num_nodes, question.degree
    if question.bidirectional or not WHOLE_ITEMS <= nodes <= MAX_NODES:
        return []
    base = GeneralizedKautz(degree, nodes)
    topology = base.topology()
    loops = np.flatnonzero(topology.tail == topology.head)
    if len(loops) < 2 or len(np.unique(topology.tail[loops])) < len(loops):
        return []
    ring = Swap(base, tuple(pairwise(loops.tolist())))
    return [ring, Transpose(ring)]


def _graphs(scored: list[Design], at_most: int) -> list[Recipe]:
    """Recipes whose graphs have their allgathers in so many steps, the least t_b first."""

    def rank(design: Design) -> tuple[Fraction, int]:
        cost = design.cost_of(Collective.ALLGATHER)
        return cost.t_b, cost.steps

    return within_steps(sorted(scored, key=rank), at_most)


def within_steps(ranked: Iterable[Design], at_most: int) -> list[Recipe]:
    """The graphs of designs whose allgathers take at most so many steps, in their order."""
    within = (
        design.recipe for design in ranked if design.cost_of(Collective.ALLGATHER).steps <= at_most
    )
    return list(dict.fromkeys(r.g if isinstance(r, Late) else r for r in within))
