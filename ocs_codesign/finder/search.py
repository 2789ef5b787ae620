"""Bottom-up enumeration of recipes: bases and nested expansions, predicted, pruned, measured.

For a question (N, d) all smaller questions that an expansion could start from are answered first.
An answer keeps, for every useful number of steps, a few recipes of equal rank: which of them
expands best shows only above. Predictions rank what is to be measured; measuring is exact BFB.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, final

from ocs_codesign.collective import Collective
from ocs_codesign.design import Candidate, measure, predict
from ocs_codesign.expansions.line import line_bfb_loads
from ocs_codesign.finder.bases import BASE_SOURCES
from ocs_codesign.finder.literature import literature
from ocs_codesign.finder.moves import MOVES, Move
from ocs_codesign.finder.pareto import pareto
from ocs_codesign.finder.question import Question
from ocs_codesign.recipe import Recipe, Transpose

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
    kept: dict[Question, tuple[Candidate, ...]] = field(default_factory=dict)

    def recipes(self, question: Question, *, bw_optimal: bool = False) -> list[Recipe]:
        """Recipes kept for a question, the bandwidth-optimal ones alone if asked, at most a few."""
        kept = self.kept.get(question, ())
        if bw_optimal:
            return [candidate.recipe for candidate in kept if candidate.bw_optimal][:_FACTORS]
        return [candidate.recipe for candidate in kept]


def enumerate_candidates(
    question: Question, collective: Collective, on_progress: Progress | None = None
) -> list[Candidate]:
    """All candidates scored for a question: measured ones, and predicted ones left unmeasured."""
    questions = sorted(_questions(question))
    answers = Answers(collective)
    for done, smaller in enumerate(questions):
        if on_progress is not None:
            on_progress("smaller topologies", done, len(questions))
        if smaller != question:
            scored = _score(_recipes(smaller, answers), smaller, collective, None)
            answers.kept[smaller] = tuple(_keep(scored))
    known = tuple(
        recipe
        for recipe in literature(question.num_nodes, question.degree)
        if question.is_answered_by(recipe)
    )
    recipes = [*_recipes(question, answers), *known]
    return _score(recipes, question, collective, on_progress, known)


def _questions(question: Question) -> set[Question]:
    """The question and all that its expansions start from, transitively."""
    found: set[Question] = set()
    pending = [question]
    while pending:
        question = pending.pop()
        if question not in found:
            found.add(question)
            pending += [part for move in _moves(question) for part in move.parts]
    return found


def _moves(question: Question) -> Iterator[Move]:
    for source in MOVES.values():
        yield from source(question)


def _recipes(question: Question, answers: Answers) -> list[Recipe]:
    """Bases and expansions of kept answers to exactly this question, without repetition."""
    found: dict[Recipe, None] = {}
    for source in BASE_SOURCES.values():
        for recipe in source(question):
            if question.is_answered_by(recipe):
                found[recipe] = None
                if not recipe.reverse_symmetric:
                    found[Transpose(recipe)] = None
    for move in _moves(question):
        parts = (answers.recipes(part, bw_optimal=move.bw_optimal_parts) for part in move.parts)
        for combination in product(*parts):
            made = move.make(*combination)
            if made is not None:
                found[made] = None
    return list(found)


def _score(
    recipes: list[Recipe],
    question: Question,
    collective: Collective,
    on_progress: Progress | None,
    always: tuple[Recipe, ...] = (),
) -> list[Candidate]:
    """All recipes scored: the most promising and ``always`` measured, the rest predicted."""
    nodes = question.num_nodes
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
