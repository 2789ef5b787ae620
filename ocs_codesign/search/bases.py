"""Where the finder's base graphs come from: families of theory, named graphs, and search.

Each source yields recipes of exactly N nodes and degree d; where the question asks for links in
both directions it may still yield others, which the finder drops. The dict BASE_SOURCES is how to
add one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import islice
from math import isqrt
from typing import TYPE_CHECKING, final

from ocs_codesign.core.compute.integers import divisors
from ocs_codesign.graphs.expansions.degree import Degree
from ocs_codesign.graphs.expansions.line import Line
from ocs_codesign.graphs.expansions.product import Power, Product
from ocs_codesign.graphs.expansions.reverse import Bidirected
from ocs_codesign.graphs.families.cayley import Cayley
from ocs_codesign.graphs.families.dense import Complete, CompleteBipartite, Hamming
from ocs_codesign.graphs.families.named import Named, named_graphs
from ocs_codesign.graphs.families.rings import BiRing, Circulant, DirectedCirculant, Torus, UniRing
from ocs_codesign.graphs.families.shifts import DeBruijn, GeneralizedKautz, Kautz, ModifiedDeBruijn
from ocs_codesign.graphs.groups.cyclic import Cyclic
from ocs_codesign.graphs.recipe import Recipe
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.design import Question
from ocs_codesign.schedules.stored import stored_schedules
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


PUBLISHED_MODIFIED_DE_BRUIJN = tuple(
    ModifiedDeBruijn(d, n) for d, n in ((2, 3), (2, 4), (3, 2), (4, 2))
)
"""Those whose cost is published: Zhao et al., arXiv 2202.03356."""
NOT_PUBLISHED = ("brown_7", "delorme", "mckay_miller_siran_4")
"""Named graphs that are no bases of theirs."""

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


def named(question: Question, effort: Effort) -> Iterator[Recipe]:
    """Graphs stored in base_topologies/; without searches, the published bases."""
    num_nodes, degree = question.num_nodes, question.degree
    for entry in named_graphs().values():
        is_known = effort.work or entry.name not in NOT_PUBLISHED
        if is_known and (entry.nodes, entry.degree) == (num_nodes, degree):
            yield Named(entry.name)


def searched_bases(question: Question, effort: Effort) -> Iterator[Recipe]:
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
    "searched": searched_bases,
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


# Effort: how hard the finder searches, and from which seed.


@final
@dataclass(frozen=True, slots=True)
class Effort:
    """Limits of a search; larger ones cost time and can only improve what is found.

    ``seed`` draws all samples; ``work`` bounds the sets of generators tried in each group (as sets
    * N * 2^d) and the local search; ``num_groups`` the groups of an order; ``num_measured`` the
    candidates of a question that are measured when N is small. Zero work leaves the searches out,
    ``num_measured`` 0 all but predictions: what is left is a finder of closed forms.
    """

    seed: int = 1
    work: int = 2**24
    num_groups: int = 12
    num_measured: int = 40

    def __post_init__(self) -> None:
        if min(self.seed, self.work, self.num_groups, self.num_measured) < 0:
            raise ValueError(f"{self}: the seed and the limits must be at least 0")

    def groups_to_search(self, num_nodes: int) -> int:
        """Groups of that order to search; their tables take N^2 time and space."""
        return max(min(4, self.num_groups), self.num_groups * 1024 // max(1024, num_nodes))

    def num_sets(self, num_nodes: int, degree: int) -> int:
        """Generator sets to try in one group of that order."""
        return min(4000, max(64, self.work // (num_nodes << degree))) if self.work else 0

    def climb_visits(self, num_nodes: int) -> int:
        """Node visits to spend on the local search for one size, degree and number of steps."""
        return self.work * max(1, min(8, 2048 // num_nodes))


ALLTOALL_SHARE = 16
"""The search for all-to-all has this part of the work of a whole one."""
CLOSED_FORMS = Effort(work=0, num_measured=0)
"""What the published finder does: bases of theory and named graphs, ranked by formula alone."""


# Moves: how expansions reach a question from smaller ones.
#
# A move names the questions that its parts answer and makes a recipe of one answer of each. The
# dict MOVES is how to add one.


@final
@dataclass(frozen=True, slots=True)
class Move:
    """An expansion that could answer a question.

    ``make`` takes one recipe for each of ``parts`` and returns None where it does not apply. With
    ``bw_optimal_parts`` only bandwidth-optimal answers of the parts are worth a try.
    """

    parts: tuple[Question, ...]
    make: Callable[..., Recipe | None]
    bw_optimal_parts: bool = False


def line(question: Question) -> Iterator[Move]:
    """N / d nodes of the same degree; the result is directed."""
    nodes, degree = question.num_nodes, question.degree
    if not question.bidirectional and degree > 1 and nodes % degree == 0 and nodes > degree:
        yield Move((Question(nodes // degree, degree),), Line)


def degree(question: Question) -> Iterator[Move]:
    """N / n nodes of degree d / n."""
    for copies in divisors(question.degree)[1:]:
        if question.num_nodes % copies == 0 and question.num_nodes > copies:
            part = Question(
                question.num_nodes // copies, question.degree // copies, question.bidirectional
            )
            yield Move((part,), partial(_degree, copies=copies))


def power(question: Question) -> Iterator[Move]:
    """The n-th root of N nodes of degree d / n."""
    for exponent in divisors(question.degree)[1:]:
        root = round(question.num_nodes ** (1 / exponent))
        if root > 1 and root**exponent == question.num_nodes:
            part = Question(root, question.degree // exponent, question.bidirectional)
            yield Move((part,), partial(_power, exponent=exponent))


def product(question: Question) -> Iterator[Move]:
    """Two factors of sizes that multiply to N and degrees that add to d."""
    for first in divisors(question.num_nodes)[1:-1]:
        for ports in range(1, question.degree):
            one = Question(first, ports, question.bidirectional)
            other = Question(
                question.num_nodes // first, question.degree - ports, question.bidirectional
            )
            if one <= other:
                yield Move((one, other), _product, bw_optimal_parts=True)


def bidirected(question: Question) -> Iterator[Move]:
    """The same nodes with half the degree, of one-way links."""
    if question.degree % 2 == 0:
        yield Move((Question(question.num_nodes, question.degree // 2),), _bidirected)


MOVES: dict[str, Callable[[Question], Iterator[Move]]] = {
    "line": line,
    "degree": degree,
    "power": power,
    "product": product,
    "bidirected": bidirected,
}
"""Every way to reach a question from smaller ones."""


def _degree(recipe: Recipe, copies: int) -> Recipe | None:
    return None if recipe.has_self_loops else Degree(recipe, copies)


def _power(recipe: Recipe, exponent: int) -> Recipe:
    return Power(recipe, exponent)


def _product(one: Recipe, other: Recipe) -> Recipe | None:
    # Equal factors are a power; of two factors of one size either order is the same graph.
    if one.shape == other.shape and repr(one) >= repr(other):
        return None
    return Product(one, other)


def _bidirected(recipe: Recipe) -> Recipe | None:
    return None if recipe.bidirectional else Bidirected(recipe)
