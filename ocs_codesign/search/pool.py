"""The pool: every design of a size that is known or that a search of some effort finds.

All that compares designs of a size takes them from here: the frontiers, the catalogue's sweeps,
selections and plans. What the catalogue stores counts from the default effort on and is not
searched for again unless that is asked for; what is searched for is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import islice, product
from typing import TYPE_CHECKING, final

from ocs_codesign import __version__
from ocs_codesign.core.collective import GATHERING, Collective
from ocs_codesign.core.cost import Cost, split_dominated
from ocs_codesign.core.lp import DEFAULT_OPTIONS
from ocs_codesign.core.progress import counted
from ocs_codesign.graphs.expansions.line import Line
from ocs_codesign.graphs.expansions.product import Power
from ocs_codesign.graphs.expansions.reverse import Transpose
from ocs_codesign.graphs.families.shifts import GeneralizedKautz
from ocs_codesign.graphs.recipe import Expanded, Recipe
from ocs_codesign.schedules.breadth_first.loads import is_measurable, line_bfb_loads
from ocs_codesign.schedules.design import Question, can_confirm, measure, predict
from ocs_codesign.search.alltoall.search import alltoall_recipes
from ocs_codesign.search.alltoall.solving import Solving
from ocs_codesign.search.bases import ALLTOALL_SHARE, BASE_SOURCES, MOVES, Effort, Move, stored
from ocs_codesign.search.catalogue.entry import Provenance, as_entry, with_time
from ocs_codesign.search.catalogue.own import Stored, stored_for
from ocs_codesign.search.catalogue.own import keep as keep_for_later
from ocs_codesign.search.catalogue.store import Catalogue
from ocs_codesign.search.edited import filled, neighbours
from ocs_codesign.search.exhaustion.visits import exhausted_recipes
from ocs_codesign.search.lifts import climbed
from ocs_codesign.search.pareto import baseline_recipes, literature, pareto

# One step of the bottom-up search: bases and expansions of smaller answers, and local searches.
#
# For a question (N, d) all smaller questions that an expansion could start from are answered
# first. An answer keeps, for every useful number of steps, a few recipes of equal rank: which of
# them expands best shows only above. Predictions rank what is to be measured; measuring is exact
# BFB. Every design is scored for both halves of an allreduce, so that one search serves all
# collectives.


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from fractions import Fraction
    from pathlib import Path

    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.schedules.design import Design, Question
    from ocs_codesign.search.bases import Effort
    from ocs_codesign.search.catalogue.entry import Entry


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
_EXPANSIONS, _LARGE = (Line, Power), 64
"""Of the literature what takes compiled loops to measure, from so many nodes on."""


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
    question: Question, answers: Answers, effort: Effort, max_work: int | None = None
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
    measured = measured_designs(chosen, max_work)
    return measured + [design for recipe, design in predicted.items() if recipe not in chosen]


def work_of_part(question: Question, part: Question) -> int:
    """Operations on words that measuring one candidate for a part of a question may take."""
    return _PART_WORK if part.degree == question.degree else _SIDE_WORK


def measured_designs(recipes: Iterable[Recipe], max_work: int | None = None) -> list[Design]:
    """The recipes measured for both halves of an allreduce, but not verified."""
    wanted, most = list(recipes), max_work or _MAX_WORK
    return [
        measure(recipe, Collective.ALLREDUCE, confirm=False, max_work=most)
        for recipe in counted(wanted, "measuring")
    ]


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


_KEPT_FOR_ALLTOALL = 4
SEARCHED_HERE = "ocs-codesign frontier"
"""What found the designs that are kept of searches here."""


@final
@dataclass(frozen=True, slots=True)
class Pool:
    """All designs known of a size, and where they are from.

    ``origin`` is that of what the catalogue stores, ``here`` that of searches on this machine, now
    or before, each None if there was none; ``times`` are the exact all-to-all times, in M/B, that
    are stored of some.
    """

    designs: list[Design]
    origin: Provenance | None = None
    here: Provenance | None = None
    times: Mapping[Recipe, Fraction] = field(default_factory=dict)


def pool(
    question: Question,
    effort: Effort | None = None,
    catalogue: str | Path | None = None,
    *,
    fresh: bool = False,
    exchanges: bool = False,
) -> Pool:
    """All designs of a size, each with what both halves of an allreduce cost on it.

    Those that are stored, by default in the catalogue that is shipped and of searches here; those
    of the literature, and what the search finds; the best of every collective are verified if size
    allows. What is stored is not searched for again, unless ``fresh`` or with another effort than
    the default and than it was; where the pool is for ``exchanges``, better all-to-alls are
    searched for where that was not done. What the default effort finds is kept for later.
    """
    effort = effort or Effort()
    if effort.work < Effort().work:
        parts = _answers(question, effort, None)
        return Pool(_verified(searched(question, parts, effort, ())[0], effort))
    held = stored_for(question, catalogue)
    gathers, exchanges = _left_to_search(held, effort, exchanges)
    here = Provenance(SEARCHED_HERE, __version__, effort.seed, 0.0, effort.work)
    if gathers or fresh:
        with Catalogue(catalogue) as store:
            answers = None if held.origin or held.here else _answers(question, effort, store)
        near = neighbours(question, catalogue, _expanded_from)
        found = searched(question, answers, effort, held.designs, near)[0]
    elif exchanges:
        share = replace(effort, work=effort.work // ALLTOALL_SHARE)
        found = _joined(held.designs, measured_both_ways(alltoall_recipes(question, share)))
        here = replace(here, work=0, exchanged=share.work)
    else:
        return _pool_of(question, held, effort)
    known = {entry.recipe for entry in held.entries}
    entries = map(as_entry, _verified(found, effort))
    new = tuple(entry for entry in entries if entry.recipe not in known)
    held = Stored((*held.entries, *new), held.origin, here)
    if catalogue is None and effort == Effort():
        keep_for_later(question, held.entries, here)
        kept = stored_for(question)
        held = kept if {*held.entries} <= {*kept.entries} else held
    return _pool_of(question, held, effort)


def _expanded_from(question: Question, store: Catalogue) -> list[Design]:
    """Undominated expansions of what is stored of smaller sizes, predicted."""
    answers = {part: smaller_answers(store.entries(part)) for part in parts_of(question)}
    made = [predict(recipe, Collective.ALLREDUCE) for recipe in expanded(question, answers)]
    return pareto(made, Collective.ALLGATHER)[0]


def _left_to_search(stored: Stored, effort: Effort, exchanges: bool) -> tuple[bool, bool]:
    """Whether allgathers, and all-to-alls where they count, were not searched for enough."""
    origins = [origin for origin in (stored.origin, stored.here) if origin is not None]
    done = [origin for origin in origins if origin.seed == effort.seed]
    if any(origin.work >= effort.work for origin in done):
        return False, False
    share = effort.work // ALLTOALL_SHARE
    exchanged = any(one.exchanged + one.work // ALLTOALL_SHARE >= share for one in origins)
    return effort != Effort() or not origins, exchanges and not exchanged


def _pool_of(question: Question, stored: Stored, effort: Effort) -> Pool:
    designs = _with_compared(question, stored.designs, effort)
    return Pool(designs, stored.origin, stored.here, stored.times)


@final
class Pools:
    """The pools of all sizes as a catalogue that can be looked up; nothing is searched for."""

    def entries(self, question: Question) -> tuple[Entry, ...]:
        """All that the pool of a question has, none where nothing is stored."""
        stored = stored_for(question)
        if not stored.entries:
            return ()
        known = _pool_of(question, stored, Effort())
        return tuple(with_time(as_entry(one), known.times.get(one.recipe)) for one in known.designs)


def searched(
    question: Question,
    answers: Answers | None,
    effort: Effort,
    known: Iterable[Design] = (),
    near: Iterable[Design] = (),
) -> tuple[list[Design], list[Recipe]]:
    """What is known and what is found beside it, and which of that the search for all-to-all found.

    Bases and expansions are tried with ``answers`` to all smaller questions; None if they have been
    tried, so that only the local searches are left; ``near`` are designs of neighbouring sizes.
    """
    scored = list(known)
    if answers is not None:
        scored = _joined(scored, candidates_from(question, answers, effort))
    scored = _with_compared(question, scored, effort)
    scored = _joined(scored, measured_designs(lifts(question, scored, effort)))
    more = filled(question, scored, list(near), effort, measured_both_ways)
    scored = _joined(scored, more)
    share = replace(effort, work=effort.work // ALLTOALL_SHARE)
    found = alltoall_recipes(question, share)
    return _joined(scored, measured_designs(with_transposes(found))), found


def measured_both_ways(recipes: Iterable[Recipe]) -> list[Design]:
    """The recipes and their transposes, measured for both halves of an allreduce."""
    return measured_designs(with_transposes(recipes))


def best_for_alltoall(scored: Iterable[Design], found: list[Recipe]) -> list[Design]:
    """The designs of the search for all-to-all worth keeping: the first, and the undominated.

    Undominated in what an allgather costs and in the hops of an all-to-all.
    """
    solving = Solving(DEFAULT_OPTIONS)
    by_recipe = {design.recipe: design for design in scored}
    designs = [by_recipe[recipe] for recipe in found]
    front, _ = split_dominated(
        designs,
        lambda design: (
            *design.cost_of(Collective.ALLGATHER).point(),
            solving.hop_bound(design.recipe),
        ),
    )
    return list(dict.fromkeys([*designs[:_KEPT_FOR_ALLTOALL], *front]))


def smaller_answers(entries: Iterable[Entry]) -> tuple[SmallerAnswer, ...]:
    """What is stored of a question, as parts of larger ones."""
    return tuple(SmallerAnswer.of(entry.design()) for entry in entries)


def _answers(question: Question, effort: Effort, store: Catalogue | None) -> Answers:
    """Answers to all that expansions to the question start from; what is stored is looked up."""

    def is_stored(one: Question) -> bool:
        return one != question and store is not None and store.has(one)

    behind = [one for one in questions_behind([question], is_stored) if one != question]
    answers: Answers = {}
    for part in counted(behind, "smaller topologies"):
        if store is not None and is_stored(part):
            answers[part] = smaller_answers(store.entries(part))
            continue
        work = work_of_part(question, part)
        scored = candidates_from(part, answers, effort, max_work=work)
        scored = _joined(scored, measured_designs(lifts(part, scored, effort)))
        answers[part] = tuple(map(SmallerAnswer.of, keep(scored)))
    return answers


def _with_compared(question: Question, scored: list[Design], effort: Effort) -> list[Design]:
    """The designs, those of the literature, the baselines and what is proven to be the best.

    Bases with stored schedules are measured anew: a catalogue may be older than the schedules.
    """
    known = [*literature(question.num_nodes, question.degree), *baseline_recipes(question)]
    known += exhausted_recipes(question) if effort.work >= Effort().work else []
    if effort.num_measured:
        renewed = with_transposes(stored(question, effort))
        renewed = [recipe for recipe in renewed if question.is_answered_by(recipe)]
        scored = [design for design in scored if design.recipe not in renewed]
        scored += [measure(recipe, Collective.ALLREDUCE) for recipe in renewed]
    recipes = dict.fromkeys(filter(question.is_answered_by, filter(has_cost, known)))
    if not effort.num_measured:
        return _joined(scored, [predict(recipe, Collective.ALLREDUCE) for recipe in recipes])
    measured = {design.recipe for design in scored if design.measured}
    return _joined(scored, measured_designs(one for one in recipes if one not in measured))


def slow_to_compare(question: Question) -> list[Recipe]:
    """Those of the literature that take long to measure: stored, no frontier has to do it again.

    They are the generalized Kautz digraphs, which mostly have no symmetry, and large expansions.

    >>> slow_to_compare(Question(256, 4))[:2]
    [GeneralizedKautz(4, 256), Line(Circulant(64, (6, 7)))]
    """
    nodes, degree = question.num_nodes, question.degree
    kinds = (GeneralizedKautz, *(_EXPANSIONS if nodes >= _LARGE else ()))
    return [recipe for recipe in literature(nodes, degree) if isinstance(recipe, kinds)]


def _joined(designs: Iterable[Design], more: Iterable[Design]) -> list[Design]:
    """Both, one a recipe: the first measured one, or the first."""
    joined: dict[Recipe, Design] = {}
    for design in (*designs, *more):
        held = joined.setdefault(design.recipe, design)
        if design.measured and not held.measured:
            joined[design.recipe] = design
    return list(joined.values())


def _verified(scored: list[Design], effort: Effort) -> list[Design]:
    return confirmed(scored)[0] if effort.num_measured else scored
