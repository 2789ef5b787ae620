"""Moves: how expansions reach a question from smaller ones.

A move names the questions that its parts answer and makes a recipe of one answer of each. The dict
MOVES is how to add one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, final

from ocs_codesign.graphs.expansions.degree import Degree
from ocs_codesign.graphs.expansions.line import Line
from ocs_codesign.graphs.expansions.product import Power, Product
from ocs_codesign.graphs.expansions.reverse import Bidirected
from ocs_codesign.graphs.recipe import Recipe
from ocs_codesign.question import Question

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


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


def divisors(number: int) -> list[int]:
    """Divisors in ascending order.

    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    return [k for k in range(1, number + 1) if number % k == 0]


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
