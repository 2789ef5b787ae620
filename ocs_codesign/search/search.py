"""One step of the bottom-up search: bases and expansions of smaller answers, and local searches.

For a question (N, d) all smaller questions that an expansion could start from are answered first.
An answer keeps, for every useful number of steps, a few recipes of equal rank: which of them
expands best shows only above. Predictions rank what is to be measured; measuring is exact BFB.
Every design is scored for both halves of an allreduce, so that one search serves all collectives.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import islice, product
from typing import TYPE_CHECKING, final

from ocs_codesign.collective import GATHERING, Collective
from ocs_codesign.cost import Cost
from ocs_codesign.design import can_confirm, measure, predict
from ocs_codesign.graphs.expansions.reverse import Transpose
from ocs_codesign.graphs.measurable import is_measurable
from ocs_codesign.graphs.recipe import Expanded, Recipe
from ocs_codesign.question import Question
from ocs_codesign.schedulers.bfb.loads import line_bfb_loads
from ocs_codesign.search.bases import BASE_SOURCES
from ocs_codesign.search.lifts import climbed
from ocs_codesign.search.moves import MOVES, Move
from ocs_codesign.search.pareto import pareto

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ocs_codesign.design import Design
    from ocs_codesign.search.effort import Effort

    Progress = Callable[[str, int, int], None]

_SCORED = (Collective.ALLGATHER, Collective.ALLREDUCE)
_KEPT_PER_STEPS = 3
_FACTORS = 4
_PRODUCTS = 12
_MAX_RANKED_NODES = 256
_MAX_WORK = 2**34
"""Operations on words that measuring one candidate may take: some half a minute."""
_PART_WORK, _SIDE_WORK = 2**30, 2**26
"""Those of one for a part, of which a question may have a hundred: of the question's degree, which
leads to it by line digraphs, and of another, which does by products."""


@final
@dataclass(frozen=True, slots=True)
class SmallerAnswer:
    """A recipe that answers a smaller question, as a part of larger ones."""

    recipe: Recipe
    steps: int
    bw_optimal: bool

    @classmethod
    def of(cls, design: Design) -> SmallerAnswer:
        """That of a design, by its allgather."""
        gather = design.of(Collective.ALLGATHER)
        return cls(design.recipe, gather.cost.steps, gather.bw_optimal)


Answers = dict[Question, tuple[SmallerAnswer, ...]]


def candidates_from(
    question: Question,
    answers: Answers,
    effort: Effort,
    on_progress: Progress | None = None,
    max_work: int | None = None,
) -> list[Design]:
    """Bases of a question, and expansions of the answers to all that they start from.

    The most promising are measured (but not verified), the rest predicted.
    """
    recipes = _recipes(question, answers, effort, max_work)
    predicted = {recipe: predict(recipe, Collective.ALLREDUCE) for recipe in recipes}
    budget = min(effort.num_measured, max(8, effort.num_measured * 2**20 // question.num_nodes**2))
    chosen = dict.fromkeys(
        design.recipe
        for collective in _SCORED
        for design in islice(_by_promise(list(predicted.values()), collective), budget)
    )
    measured = measured_designs(chosen, on_progress, max_work)
    return measured + [design for recipe, design in predicted.items() if recipe not in chosen]


def work_of_part(question: Question, part: Question) -> int:
    """Operations on words that measuring one candidate for a part of a question may take."""
    return _PART_WORK if part.degree == question.degree else _SIDE_WORK


def measured_designs(
    recipes: Iterable[Recipe], on_progress: Progress | None = None, max_work: int | None = None
) -> list[Design]:
    """The recipes measured for both halves of an allreduce, but not verified."""
    wanted, most = list(recipes), max_work or _MAX_WORK
    measured = []
    for done, recipe in enumerate(wanted):
        if on_progress is not None:
            on_progress("measuring", done, len(wanted))
        measured.append(measure(recipe, Collective.ALLREDUCE, confirm=False, max_work=most))
    return measured


def confirmed(scored: list[Design]) -> tuple[list[Design], list[Design]]:
    """The candidates after all that are kept were verified if size allows; those that are kept.

    A verified schedule may be better than predicted, so they are chosen again until they stay.
    """
    tried: set[Recipe] = set()
    while True:
        picks = keep(scored)
        unsure = {c.recipe for c in picks if not c.measured and can_confirm(c.recipe)} - tried
        if not unsure:
            return scored, picks
        tried |= unsure
        scored = [measure(c.recipe, c.collective) if c.recipe in unsure else c for c in scored]


def lifts(question: Question, scored: list[Design], effort: Effort) -> list[Recipe]:
    """Lifts, and their transposes, for steps that the frontiers have no good design for.

    Some are searched for by the allgather, some by the allreduce: a digraph that is good at the one
    may be bad at the reduce-scatter, which is an allgather against its links.
    """
    found: list[Recipe] = []
    for collective in _SCORED:
        both = collective == Collective.ALLREDUCE
        costs = (design.cost_of(collective) for design in pareto(scored, collective)[0])
        a_half = (Cost(-(-c.steps // 2), c.t_b / 2) if both else c for c in costs)
        found += climbed(question, a_half, effort, both=both)
    return with_transposes(found)


def with_transposes(recipes: Iterable[Recipe]) -> list[Recipe]:
    """The recipes, each once, and the transposes of those that differ from theirs."""
    found: dict[Recipe, None] = {}
    for recipe in recipes:
        found[recipe] = None
        if not recipe.reverse_symmetric:
            found[Transpose(recipe)] = None
    return list(found)


def keep(scored: list[Design]) -> list[Design]:
    """For every point of the collectives' frontiers up to _KEPT_PER_STEPS candidates that meet it.

    Of equals those come first whose line expansion is predicted to cost least.
    """
    kept: dict[Design, None] = {}
    for collective in GATHERING:
        front, rest = pareto(scored, collective)
        for point in front:
            cost = point.cost_of(collective)
            equals = [point, *(c for c in rest if c.cost_of(collective) == cost)]
            kept.update(dict.fromkeys(sorted(equals, key=_line_cost)[:_KEPT_PER_STEPS]))
    return list(kept)


def questions_behind(
    questions: Iterable[Question], is_answered: Callable[[Question], bool] = lambda _: False
) -> list[Question]:
    """The questions and all that their expansions start from, each after those behind it.

    Nothing is behind a question that is answered already.
    """
    found: set[Question] = set()
    pending = list(questions)
    while pending:
        question = pending.pop()
        if question not in found:
            found.add(question)
            pending += [] if is_answered(question) else parts_of(question)
    return sorted(found)


def parts_of(question: Question) -> list[Question]:
    """The questions whose answers an expansion to this one could start from."""
    return [part for move in _moves(question) for part in move.parts]


def _moves(question: Question) -> Iterator[Move]:
    for source in MOVES.values():
        yield from source(question)


def _recipes(
    question: Question, answers: Answers, effort: Effort, max_work: int | None
) -> list[Recipe]:
    """Bases and expansions of kept answers to exactly this question, without repetition."""
    found: dict[Recipe, None] = {}
    for source in BASE_SOURCES.values():
        known = (recipe for recipe in source(question, effort) if has_cost(recipe, max_work))
        found.update(dict.fromkeys(with_transposes(filter(question.is_answered_by, known))))
    found.update(dict.fromkeys(expanded(question, answers)))
    return list(found)


def expanded(question: Question, answers: Answers) -> list[Recipe]:
    """Expansions of kept answers to exactly this question, without repetition."""
    found: dict[Recipe, None] = {}
    made: list[tuple[int, Recipe]] = []
    for move in _moves(question):
        for parts in product(*(_parts(move, part, answers) for part in move.parts)):
            recipe = move.make(*(part.recipe for part in parts))
            if recipe is not None and move.bw_optimal_parts:
                made.append((sum(part.steps for part in parts), recipe))
            elif recipe is not None:
                found[recipe] = None
    # Of results that are all bandwidth-optimal only those of the fewest steps can be undominated.
    for _, recipe in sorted(made, key=lambda one: one[0])[:_PRODUCTS]:
        found[recipe] = None
    return list(found)


def has_cost(recipe: Recipe, max_work: int | None = None) -> bool:
    """Whether it is predicted soon; of an expansion, its base has been."""
    return isinstance(recipe, Expanded) or is_measurable(recipe, max_work or _MAX_WORK)


def _parts(move: Move, question: Question, answers: Answers) -> tuple[SmallerAnswer, ...]:
    """Answers of a smaller question that a move should try."""
    parts = answers.get(question, ())
    if move.bw_optimal_parts:
        return tuple(part for part in parts if part.bw_optimal)[:_FACTORS]
    return parts


def _by_promise(candidates: list[Design], collective: Collective) -> Iterator[Design]:
    """Candidates in the order to measure: the predicted frontier, then that of the rest, ..."""
    while candidates:
        front, candidates = pareto(candidates, collective)
        yield from front


def _line_cost(candidate: Design) -> Fraction:
    recipe = candidate.recipe
    if recipe.num_nodes > _MAX_RANKED_NODES or recipe.degree > 4:
        return Fraction(0)
    return sum(line_bfb_loads(recipe.topology()), Fraction(0))
