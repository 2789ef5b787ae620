"""Where the finder's base graphs come from: families of theory, named graphs, and search.

Each source yields recipes of exactly N nodes and degree d; where the question asks for links in
both directions it may still yield others, which the finder drops. The dict BASE_SOURCES is how to
add one.
"""

from __future__ import annotations

from itertools import islice
from math import isqrt
from typing import TYPE_CHECKING

from ocs_codesign.graphs.families.cayley import Cayley
from ocs_codesign.graphs.families.dense import Complete, CompleteBipartite, Hamming
from ocs_codesign.graphs.families.named import Named, named_graphs
from ocs_codesign.graphs.families.rings import BiRing, Circulant, DirectedCirculant, Torus, UniRing
from ocs_codesign.graphs.families.shifts import DeBruijn, GeneralizedKautz, Kautz, ModifiedDeBruijn
from ocs_codesign.graphs.groups.cyclic import Cyclic
from ocs_codesign.graphs.recipe import Recipe
from ocs_codesign.graphs.stored import stored_schedules
from ocs_codesign.graphs.text import parse
from ocs_codesign.question import Question
from ocs_codesign.search.generators import (
    generator_sets,
    multiplication_table,
    score_generator_sets,
    symmetric_generator_sets,
)
from ocs_codesign.search.small_groups import groups_of_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ocs_codesign.graphs.groups.group import Group
    from ocs_codesign.search.effort import Effort

PUBLISHED_MODIFIED_DE_BRUIJN = tuple(
    ModifiedDeBruijn(d, n) for d, n in ((2, 3), (2, 4), (3, 2), (4, 2))
)
"""Those whose cost is published: Zhao et al., arXiv 2202.03356."""

MAX_SEARCHED_NODES = 2048
MAX_SEARCHED_DEGREE = 8
_KEPT_PER_GROUP = 2
_MAX_RING_NODES = 2**14


def dense(question: Question, _effort: Effort) -> Iterator[Recipe]:
    """Complete, complete bipartite and Hamming graphs."""
    num_nodes, degree = question.num_nodes, question.degree
    if degree == num_nodes - 1:
        yield Complete(num_nodes)
    if num_nodes == 2 * degree:
        yield CompleteBipartite(degree)
    for m in range(2, num_nodes.bit_length()):
        q = degree // m + 1
        if q >= 2 and m * (q - 1) == degree and q**m == num_nodes:
            yield Hamming(m, q)


def shifts(question: Question, _effort: Effort) -> Iterator[Recipe]:
    """Generalized Kautz digraphs, and Kautz and de Bruijn digraphs under their own names."""
    num_nodes, degree = question.num_nodes, question.degree
    if degree >= 2:
        yield GeneralizedKautz(degree, num_nodes)
        words, k = degree + 1, 0
        while words < num_nodes:
            words, k = words * degree, k + 1
        if words == num_nodes and k:
            yield Kautz(degree, k)
        words, k = degree, 1
        while words < num_nodes:
            words, k = words * degree, k + 1
        if words == num_nodes and k > 1:
            yield DeBruijn(degree, k)


def rings(question: Question, _effort: Effort) -> Iterator[Recipe]:
    """One-way and two-way rings, tori, circulants that theory knows to be optimal.

    Long rings are left out: of many nodes others are as good in a thousandth of the steps.
    """
    num_nodes, degree = question.num_nodes, question.degree
    if num_nodes <= _MAX_RING_NODES:
        yield UniRing(degree, num_nodes)
        if degree % 2 == 0 and num_nodes > 2:
            yield BiRing(degree, num_nodes)
    if num_nodes == degree + 2:
        yield DirectedCirculant(num_nodes, tuple(range(1, degree + 1)))
    yield from (torus for torus in tori(question) if torus.sides[0] <= _MAX_RING_NODES)
    if degree == 4 and num_nodes >= 7:
        yield optimal_circulant(num_nodes)


def tori(question: Question) -> Iterator[Torus]:
    """Tori of two and more sides that have the degree."""
    for sides in _sides(question.num_nodes, question.num_nodes):
        if len(sides) > 1 and sum(1 if side == 2 else 2 for side in sides) == question.degree:
            yield Torus(sides)


def optimal_circulant(num_nodes: int) -> Recipe:
    """Undirected circulant of degree 4 with the least diameter k: 2k^2 + 2k + 1 >= N; N >= 7.

    >>> optimal_circulant(12)
    Circulant(12, (2, 3))
    """
    k = (isqrt(2 * num_nodes - 1) - 1) // 2
    k += 2 * k * k + 2 * k + 1 < num_nodes
    return Circulant(num_nodes, (k, k + 1))


def named(question: Question, _effort: Effort) -> Iterator[Recipe]:
    """Graphs stored in base_topologies/."""
    num_nodes, degree = question.num_nodes, question.degree
    for entry in named_graphs().values():
        if (entry.nodes, entry.degree) == (num_nodes, degree):
            yield Named(entry.name)


def searched(question: Question, effort: Effort) -> Iterator[Recipe]:
    """The best Cayley digraphs of a seeded search over groups of the order.

    All generator sets where they are few, a sample otherwise; nothing above MAX_SEARCHED_NODES.
    """
    num_nodes, degree = question.num_nodes, question.degree
    if not (2 <= degree <= MAX_SEARCHED_DEGREE and degree < num_nodes <= MAX_SEARCHED_NODES):
        return
    most = effort.num_sets(num_nodes, degree)
    if not most:
        return
    sets = generator_sets(num_nodes, degree, most, effort.seed)
    for group in islice(groups_of_order(num_nodes), effort.groups_to_search(num_nodes)):
        table = multiplication_table(group)
        if question.bidirectional:
            sets = symmetric_generator_sets(table, degree, most, effort.seed)
        scores = score_generator_sets(table, sets)
        for numbers in scores.best(_KEPT_PER_GROUP).tolist():
            yield cayley_recipe(group, numbers)


def cayley_recipe(group: Group, numbers: list[int]) -> Recipe:
    """The recipe of a generator set; a directed circulant for a cyclic group."""
    if isinstance(group, Cyclic):
        return DirectedCirculant(group.n, tuple(numbers))
    return Cayley(group, tuple(group.element(number) for number in numbers))


def stored(question: Question, effort: Effort) -> Iterator[Recipe]:
    """Bases with a stored schedule, made by a solver; without searches, those of published cost."""
    for entry in stored_schedules().values():
        if (entry.nodes, entry.degree) == (question.num_nodes, question.degree):
            recipe = parse(entry.recipe)
            if effort.work or recipe in PUBLISHED_MODIFIED_DE_BRUIJN:
                yield recipe


BASE_SOURCES: dict[str, Callable[[Question, Effort], Iterator[Recipe]]] = {
    "dense": dense,
    "shifts": shifts,
    "rings": rings,
    "named": named,
    "searched": searched,
    "stored": stored,
}
"""Every source of base graphs."""


def _sides(number: int, largest: int) -> Iterator[tuple[int, ...]]:
    """Factorisations into sides of at least 2, descending."""
    if number == 1:
        yield ()
        return
    for side in range(min(number, largest), 1, -1):
        if number % side == 0:
            for rest in _sides(number // side, side):
                yield (side, *rest)
