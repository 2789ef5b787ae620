"""Neighbouring sizes: a good design of a few nodes more or less, nodes taken out or put in."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.bounds import bound
from ocs_codesign.collective import Collective
from ocs_codesign.cost import undominated
from ocs_codesign.graphs.expansions.edits import Excise, Insert
from ocs_codesign.question import Question
from ocs_codesign.schedulers.bfb.loads import bfb_loads
from ocs_codesign.search.catalogue.store import Catalogue

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ocs_codesign.design import Design
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.topology import Topology

MAX_DISTANCE = 8
"""Nodes that a neighbouring size has more or less at most."""
_NODES_AN_EDIT = 16
_MAX_OVER_BOUND = Fraction(21, 20)
_MAX_MORE_STEPS = 2
_MOST_TRIES, _LEAST_TRIES = 256, 8
_WORDS_A_TRY = 2**4
_STARTS = 8

Rated = tuple[int, Fraction]
Edited = Excise | Insert


def neighbours(question: Question, catalogue: str | Path | None = None) -> list[Design]:
    """Stored designs of sizes near a question's, the nearest and best first.

    Undominated in the allgather, within a twentieth of the least t_b and of few more steps than
    any topology needs: what is far from both is no better a start than any.
    """
    found: list[Design] = []
    most = min(MAX_DISTANCE, question.num_nodes // _NODES_AN_EDIT)
    with Catalogue(catalogue) as store:
        for nodes in range(question.num_nodes - most, question.num_nodes + most + 1):
            if nodes == question.num_nodes or nodes <= question.degree + 1:
                continue
            entries = store.entries(Question(nodes, question.degree, question.bidirectional))
            designs = [entry.design() for entry in entries if entry.measured]
            found += undominated(designs, lambda one: one.cost_of(Collective.ALLGATHER))
    return sorted(filter(_is_worth_a_try, found), key=lambda one: _promise(question, one))


def edited_recipes(question: Question, near: list[Design], words: int, seed: int) -> list[Recipe]:
    """For every number of steps the best that single nodes, one after the other, lead to.

    At every node a seeded sample of places and permutations is scored; the least t_b goes on.
    ``words`` bounds the work on reach sets.

    >>> from ocs_codesign.design import measure
    >>> start = measure("DirectedCirculant(8, (1, 3))", "allreduce")
    >>> [recipe] = edited_recipes(Question(7, 2), [start], 2**18, seed=1)
    >>> recipe.predict()
    Cost(steps=3, t_b=Fraction(1, 1))
    """
    best: dict[int, tuple[Fraction, Edited]] = {}
    if question.bidirectional:
        return []
    starts = near[:_STARTS]
    for number, design in enumerate(starts):
        rng = np.random.default_rng((seed, question.num_nodes, question.degree, number))
        chain = abs(design.recipe.num_nodes - question.num_nodes)
        tries = _tries(question, design, words // len(starts) // chain)
        for (steps, total), recipe in _led_to(question, design.recipe, tries, rng):
            if steps not in best or total < best[steps][0]:
                best[steps] = (total, recipe)
    return [recipe for _, recipe in best.values()]


def _led_to(
    question: Question, base: Recipe, tries: int, rng: np.random.Generator
) -> Iterator[tuple[Rated, Edited]]:
    """The best edits of a base for every number of steps, from the best of one node less edited."""
    chosen: tuple[object, ...] = ()
    topology = base.topology()
    while topology.num_nodes != question.num_nodes:
        rated: dict[int, tuple[Fraction, object, Topology]] = {}
        for _ in range(tries):
            row, recipe = _drawn(base, topology, chosen, question.num_nodes, rng)
            try:
                candidate = recipe.topology()
                loads = bfb_loads(candidate)
            except ValueError:  # a node cut off, or a loop that cannot be joined
                continue
            total = sum(loads, Fraction(0))
            if len(loads) not in rated or total < rated[len(loads)][0]:
                rated[len(loads)] = (total, row, candidate)
        if not rated:
            return
        if abs(topology.num_nodes - question.num_nodes) == 1:
            for steps, (total, row, _) in rated.items():
                yield (steps, total), _edit(base, (*chosen, row), question.num_nodes)
            return
        _, row, topology = min(rated.values(), key=lambda one: one[0])
        chosen = (*chosen, row)


def _drawn(
    base: Recipe,
    topology: Topology,
    chosen: tuple[object, ...],
    wanted: int,
    rng: np.random.Generator,
) -> tuple[object, Edited]:
    """A random node more, taken out of the base's nodes or put into the links there are by now."""
    degree = base.degree
    if base.num_nodes < wanted:
        links = rng.choice(topology.num_links, degree, replace=False)
        row: object = tuple(links.tolist())
        return row, _edit(base, (*chosen, row), wanted)
    gone = {cut[0] for cut in chosen}  # type: ignore[index]
    node = int(rng.choice([node for node in range(base.num_nodes) if node not in gone]))
    row = (node, tuple(rng.permutation(degree).tolist()))
    return row, _edit(base, (*chosen, row), wanted)


def _edit(base: Recipe, rows: tuple[object, ...], wanted: int) -> Edited:
    """The base after edits in the direction of a size."""
    return (Insert if base.num_nodes < wanted else Excise)(base, rows)  # type: ignore[arg-type]


def _tries(question: Question, design: Design, words: int) -> int:
    """Edits of a node that may be tried."""
    nodes, width = question.num_nodes, max(3, question.degree)
    steps = design.cost_of(Collective.ALLGATHER).steps
    a_try = (nodes * -(-nodes // 64) << width) * steps + nodes * _WORDS_A_TRY * width
    return max(_LEAST_TRIES, min(_MOST_TRIES, words // a_try))


def _is_worth_a_try(design: Design) -> bool:
    recipe, cost = design.recipe, design.cost_of(Collective.ALLGATHER)
    least = bound(recipe.num_nodes, recipe.degree)
    return cost.t_b <= least.t_b * _MAX_OVER_BOUND and cost.steps <= least.steps + _MAX_MORE_STEPS


def _promise(question: Question, design: Design) -> tuple[object, ...]:
    recipe, cost = design.recipe, design.cost_of(Collective.ALLGATHER)
    least = bound(recipe.num_nodes, recipe.degree)
    distance = abs(recipe.num_nodes - question.num_nodes)
    worse = cost.t_b / least.t_b - 1 + Fraction(cost.steps - least.steps, 50)
    return (worse + Fraction(distance, 400), distance, repr(recipe))
