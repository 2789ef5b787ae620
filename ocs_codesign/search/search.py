"""Bottom-up enumeration of recipes: bases and nested expansions, predicted, pruned, measured.

For a question (N, d) all smaller questions that an expansion could start from are answered first.
An answer keeps, for every useful number of steps, a few recipes of equal rank: which of them
expands best shows only above. Predictions rank what is to be measured; measuring is exact BFB.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, final

from ocs_codesign.collective import Collective
from ocs_codesign.design import can_confirm, is_measurable, measure, predict
from ocs_codesign.graphs.expansions.reverse import Transpose
from ocs_codesign.graphs.recipe import Expanded, Recipe
from ocs_codesign.question import Question
from ocs_codesign.schedulers.bfb.loads import line_bfb_loads
from ocs_codesign.search.bases import BASE_SOURCES
from ocs_codesign.search.lifts import climbed
from ocs_codesign.search.literature import literature
from ocs_codesign.search.moves import MOVES, Move
from ocs_codesign.search.pareto import pareto

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ocs_codesign.design import Design
    from ocs_codesign.search.effort import Effort

    Progress = Callable[[str, int, int], None]

_KEPT_PER_STEPS = 3
_FACTORS = 4
_PRODUCTS = 12
_MAX_RANKED_NODES = 256
_MAX_WORK = 2**34
"""Operations on words that measuring one candidate may take: some half a minute."""


@final
@dataclass(frozen=True, slots=True)
class SmallerAnswer:
    """A recipe that answers a smaller question, as a part of larger ones."""

    recipe: Recipe
    steps: int
    bw_optimal: bool


Answers = dict[Question, tuple[SmallerAnswer, ...]]


def enumerate_candidates(
    question: Question,
    collective: Collective,
    effort: Effort,
    on_progress: Progress | None = None,
) -> list[Design]:
    """All candidates scored for a question: measured ones, and predicted ones left unmeasured.

    Those on the frontier are verified.
    """
    smaller = [one for one in questions_behind([question]) if one != question]
    answers: Answers = {}
    for done, part in enumerate(smaller):
        if on_progress is not None:
            on_progress("smaller topologies", done, len(smaller))
        kept = keep(candidates_from(part, answers, collective, effort), [collective])
        answers[part] = tuple(SmallerAnswer(c.recipe, c.cost.steps, c.bw_optimal) for c in kept)
    known = tuple(
        recipe
        for recipe in literature(question.num_nodes, question.degree)
        if _has_cost(recipe) and question.is_answered_by(recipe)
    )
    scored = candidates_from(question, answers, collective, effort, known, on_progress)
    if effort.num_measured:
        scored, _ = confirmed(scored, lambda candidates: pareto(candidates)[0])
    return scored


def candidates_from(
    question: Question,
    answers: Answers,
    collective: Collective,
    effort: Effort,
    always: tuple[Recipe, ...] = (),
    on_progress: Progress | None = None,
) -> list[Design]:
    """Candidates of a question, given the answers to all that its expansions start from.

    The most promising and ``always`` are measured (but not verified), the rest predicted; a local
    search adds lifts where these leave gaps.
    """
    nodes = question.num_nodes
    budget = min(effort.num_measured, max(8, effort.num_measured * 2**20 // nodes**2))
    recipes = dict.fromkeys([*_recipes(question, answers, effort), *always])
    predicted = {recipe: predict(recipe, collective) for recipe in recipes}
    ranked = _by_promise(list(predicted.values()))[:budget]
    chosen = dict.fromkeys([*(c.recipe for c in ranked), *(always if budget else ())])
    scored = []
    for done, recipe in enumerate(chosen):
        if on_progress is not None:
            on_progress("measuring", done, len(chosen))
        scored.append(measure(recipe, collective, confirm=False, max_work=_MAX_WORK))
    scored += [c for recipe, c in predicted.items() if recipe not in chosen]
    return scored + _lifts(question, scored, collective, effort)


def confirmed(
    scored: list[Design], select: Callable[[list[Design]], list[Design]]
) -> tuple[list[Design], list[Design]]:
    """The candidates after all that ``select`` picks were verified if size allows; the picks.

    A verified schedule may be better than predicted, so the picks are made again until they stay.
    """
    tried: set[Recipe] = set()
    while True:
        picks = select(scored)
        unsure = {c.recipe for c in picks if not c.measured and can_confirm(c.recipe)} - tried
        if not unsure:
            return scored, picks
        tried |= unsure
        scored = [measure(c.recipe, c.collective) if c.recipe in unsure else c for c in scored]


def _lifts(
    question: Question, scored: list[Design], collective: Collective, effort: Effort
) -> list[Design]:
    """Measured lifts, and their transposes, for steps that the frontier has no good design for."""
    front = [c.cost_of(Collective.ALLGATHER) for c in pareto(scored, Collective.ALLGATHER)[0]]
    both = collective == Collective.ALLREDUCE
    found: dict[Recipe, None] = {}
    for recipe in climbed(question, front, effort, both=both):
        found[recipe] = None
        if not recipe.reverse_symmetric:
            found[Transpose(recipe)] = None
    return [measure(recipe, collective, confirm=False) for recipe in found]


def keep(scored: list[Design], collectives: Iterable[Collective]) -> list[Design]:
    """For every point of the collectives' frontiers up to _KEPT_PER_STEPS candidates that meet it.

    Of equals those come first whose line expansion is predicted to cost least.
    """
    kept: dict[Design, None] = {}
    for collective in collectives:
        front, rest = pareto(scored, collective)
        for point in front:
            cost = point.cost_of(collective)
            equals = [point, *(c for c in rest if c.cost_of(collective) == cost)]
            kept.update(dict.fromkeys(sorted(equals, key=_line_cost)[:_KEPT_PER_STEPS]))
    return list(kept)


def questions_behind(questions: Iterable[Question]) -> list[Question]:
    """The questions and all that their expansions start from, each after those behind it."""
    found: set[Question] = set()
    pending = list(questions)
    while pending:
        question = pending.pop()
        if question not in found:
            found.add(question)
            pending += parts_of(question)
    return sorted(found)


def parts_of(question: Question) -> list[Question]:
    """The questions whose answers an expansion to this one could start from."""
    return [part for move in _moves(question) for part in move.parts]


def _moves(question: Question) -> Iterator[Move]:
    for source in MOVES.values():
        yield from source(question)


def _recipes(question: Question, answers: Answers, effort: Effort) -> list[Recipe]:
    """Bases and expansions of kept answers to exactly this question, without repetition."""
    found: dict[Recipe, None] = {}
    for source in BASE_SOURCES.values():
        for recipe in source(question, effort):
            if _has_cost(recipe) and question.is_answered_by(recipe):
                found[recipe] = None
                if not recipe.reverse_symmetric:
                    found[Transpose(recipe)] = None
    made: list[tuple[int, Recipe]] = []
    for move in _moves(question):
        for parts in product(*(_parts(move, part, answers) for part in move.parts)):
            expanded = move.make(*(part.recipe for part in parts))
            if expanded is not None and move.bw_optimal_parts:
                made.append((sum(part.steps for part in parts), expanded))
            elif expanded is not None:
                found[expanded] = None
    # Of results that are all bandwidth-optimal only those of the fewest steps can be undominated.
    for _, recipe in sorted(made, key=lambda one: one[0])[:_PRODUCTS]:
        found[recipe] = None
    return list(found)


def _has_cost(recipe: Recipe) -> bool:
    """Whether it is predicted soon; of an expansion, its base has been."""
    return isinstance(recipe, Expanded) or is_measurable(recipe, _MAX_WORK)


def _parts(move: Move, question: Question, answers: Answers) -> tuple[SmallerAnswer, ...]:
    """Answers of a smaller question that a move should try."""
    parts = answers.get(question, ())
    if move.bw_optimal_parts:
        return tuple(part for part in parts if part.bw_optimal)[:_FACTORS]
    return parts


def _by_promise(candidates: list[Design]) -> list[Design]:
    """Candidates in the order to measure: the predicted frontier, then that of the rest, ..."""
    kept: list[Design] = []
    while candidates:
        front, candidates = pareto(candidates)
        kept += front
    return kept


def _line_cost(candidate: Design) -> Fraction:
    recipe = candidate.recipe
    if recipe.num_nodes > _MAX_RANKED_NODES or recipe.degree > 4:
        return Fraction(0)
    return sum(line_bfb_loads(recipe.topology()), Fraction(0))
