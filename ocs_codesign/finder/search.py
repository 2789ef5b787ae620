"""Bottom-up enumeration of recipes: bases and nested expansions, predicted, pruned, measured.

For a question (N, d) all smaller questions that an expansion could start from are answered first.
An answer keeps, for every useful number of steps, a few recipes of equal rank: which of them
expands best shows only above. Predictions rank what is to be measured; measuring is exact BFB.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, final

from ocs_codesign.collective import Collective
from ocs_codesign.design import Candidate, measure, predict
from ocs_codesign.expansions.line import line_bfb_loads
from ocs_codesign.finder.bases import BASE_SOURCES
from ocs_codesign.finder.literature import literature
from ocs_codesign.finder.pareto import pareto
from ocs_codesign.recipe import Bidirected, Degree, Line, Power, Product, Recipe, Transpose

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Question = tuple[int, int]
    Progress = Callable[[str, int, int], None]

_KEPT_PER_STEPS = 3
_FACTORS = 4
_MEASURED = 40
_MEASURED_WORK = 40 * 1024**2
_MAX_RANKED_NODES = 256


@final
@dataclass(frozen=True, slots=True)
class Answers:
    """Kept candidates of every question answered so far, for one collective."""

    collective: Collective
    kept: dict[tuple[int, int], tuple[Candidate, ...]] = field(default_factory=dict)

    def __getitem__(self, question: tuple[int, int]) -> tuple[Candidate, ...]:
        return self.kept.get(question, ())


def enumerate_candidates(
    num_nodes: int, degree: int, collective: Collective, on_progress: Progress | None = None
) -> list[Candidate]:
    """All candidates scored for a question: measured ones, and predicted ones left unmeasured."""
    questions = sorted(_questions(num_nodes, degree))
    answers = Answers(collective)
    for done, question in enumerate(questions):
        if on_progress is not None:
            on_progress("smaller topologies", done, len(questions))
        if question != (num_nodes, degree):
            scored = _score(_recipes(question, answers), question, collective, None)
            answers.kept[question] = tuple(_keep(scored))
    recipes = _recipes((num_nodes, degree), answers)
    known = literature(num_nodes, degree)
    return _score([*recipes, *known], (num_nodes, degree), collective, on_progress, known)


def _questions(num_nodes: int, degree: int) -> set[Question]:
    """The question and all that its expansions start from, transitively."""
    found: set[Question] = set()
    pending = [(num_nodes, degree)]
    while pending:
        question = pending.pop()
        if question not in found:
            found.add(question)
            pending += [part for parts in _parts(question) for part in parts]
    return found


def _parts(question: Question) -> Iterator[tuple[Question, ...]]:
    """Questions behind every expansion that could reach this one."""
    nodes, degree = question
    if degree > 1 and nodes % degree == 0 and nodes > degree:
        yield ((nodes // degree, degree),)
    for copies in _divisors(degree)[1:]:
        if nodes % copies == 0 and nodes > copies:
            yield ((nodes // copies, degree // copies),)
        root = round(nodes ** (1 / copies))
        if root > 1 and root**copies == nodes:
            yield ((root, degree // copies),)
    for first in _divisors(nodes)[1:-1]:
        for ports in range(1, degree):
            if (first, ports) <= (nodes // first, degree - ports):
                yield ((first, ports), (nodes // first, degree - ports))
    if degree % 2 == 0:
        yield ((nodes, degree // 2),)


def _recipes(question: Question, answers: Answers) -> list[Recipe]:
    """Bases and expansions of kept answers with exactly this size, without repetition."""
    nodes, degree = question
    found: dict[Recipe, None] = {}
    for source in BASE_SOURCES.values():
        found.update(dict.fromkeys(source(nodes, degree)))
    for recipe in list(found):
        if not recipe.reverse_symmetric:
            found[Transpose(recipe)] = None
    found.update(dict.fromkeys(_expanded(question, answers)))
    return list(found)


def _expanded(question: Question, answers: Answers) -> Iterator[Recipe]:
    nodes, degree = question
    if degree > 1 and nodes % degree == 0:
        yield from (Line(c.recipe) for c in answers[nodes // degree, degree])
    for copies in _divisors(degree)[1:]:
        if nodes % copies == 0:
            for candidate in answers[nodes // copies, degree // copies]:
                if not candidate.recipe.has_self_loops:
                    yield Degree(candidate.recipe, copies)
        root = round(nodes ** (1 / copies))
        if root**copies == nodes:
            yield from (Power(c.recipe, copies) for c in answers[root, degree // copies])
    for first in _divisors(nodes)[1:-1]:
        for ports in range(1, degree):
            one, other = (first, ports), (nodes // first, degree - ports)
            if one <= other:
                yield from _products(one, other, answers)
    if degree % 2 == 0:
        yield from (Bidirected(c.recipe) for c in answers[nodes, degree // 2])


def _products(one: Question, other: Question, answers: Answers) -> Iterator[Recipe]:
    """Products of bandwidth-optimal factors; equal factors are left to Power."""
    firsts, seconds = (
        [c.recipe for c in answers[question] if c.bw_optimal][:_FACTORS]
        for question in (one, other)
    )
    if one == other:
        yield from (Product(a, b) for a, b in combinations_with_replacement(firsts, 2) if a != b)
    else:
        yield from (Product(a, b) for a in firsts for b in seconds)


def _score(
    recipes: list[Recipe],
    question: Question,
    collective: Collective,
    on_progress: Progress | None,
    always: tuple[Recipe, ...] = (),
) -> list[Candidate]:
    """All recipes scored: the most promising and ``always`` measured, the rest predicted."""
    nodes, _ = question
    budget = max(8, min(_MEASURED, _MEASURED_WORK // nodes**2))
    predicted = {recipe: predict(recipe, collective) for recipe in dict.fromkeys(recipes)}
    ranked = _by_promise(list(predicted.values()))
    chosen = dict.fromkeys([*(c.recipe for c in ranked[:budget]), *always])
    scored = []
    for done, recipe in enumerate(chosen):
        if on_progress is not None:
            on_progress("measuring", done, len(chosen))
        scored.append(measure(recipe, collective))
    return scored + [c for recipe, c in predicted.items() if recipe not in chosen]


def _by_promise(candidates: list[Candidate]) -> list[Candidate]:
    """Candidates in the order to measure: the predicted frontier, then that of the rest, ..."""
    kept: list[Candidate] = []
    while candidates:
        front, candidates = pareto(candidates)
        kept += front
    return kept


def _keep(scored: list[Candidate]) -> list[Candidate]:
    """For every point of the frontier up to _KEPT_PER_STEPS candidates that meet it.

    Of equals those come first whose line expansion is predicted to cost least.
    """
    front, rest = pareto(scored)
    kept: list[Candidate] = []
    for point in front:
        equals = [point, *(c for c in rest if c.cost == point.cost)]
        kept += sorted(equals, key=_line_cost)[:_KEPT_PER_STEPS]
    return kept


def _line_cost(candidate: Candidate) -> Fraction:
    recipe = candidate.recipe
    if recipe.num_nodes > _MAX_RANKED_NODES or recipe.degree > 4:
        return Fraction(0)
    return sum(line_bfb_loads(recipe.topology()), Fraction(0))


def _divisors(number: int) -> list[int]:
    return [k for k in range(1, number + 1) if number % k == 0]
