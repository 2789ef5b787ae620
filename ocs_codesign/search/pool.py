"""The pool: every design of a size that is known or that a search of some effort finds.

All that compares designs of a size takes them from here: the frontiers, the catalogue's sweeps,
selections and plans. What the catalogue stores counts from the default effort on, and what it was
searched for with as much work is not searched again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, final

from ocs_codesign.collective import Collective
from ocs_codesign.cost import split_dominated
from ocs_codesign.design import measure, predict
from ocs_codesign.lp import DEFAULT_OPTIONS
from ocs_codesign.search.alltoall.search import alltoall_recipes
from ocs_codesign.search.alltoall.solving import Solving
from ocs_codesign.search.baselines import baseline_recipes
from ocs_codesign.search.bases import stored
from ocs_codesign.search.catalogue.store import Catalogue
from ocs_codesign.search.edited import neighbours
from ocs_codesign.search.effort import ALLTOALL_SHARE, Effort
from ocs_codesign.search.exhaustion.stored import exhausted_recipes
from ocs_codesign.search.filling import filled, open_steps
from ocs_codesign.search.literature import literature
from ocs_codesign.search.search import (
    Answers,
    SmallerAnswer,
    candidates_from,
    confirmed,
    has_cost,
    keep,
    lifts,
    measured_designs,
    questions_behind,
    with_transposes,
    work_of_part,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from fractions import Fraction
    from pathlib import Path

    from ocs_codesign.design import Design
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.question import Question
    from ocs_codesign.search.catalogue.entry import Entry, Provenance

    Progress = Callable[[str, int, int], None]

_KEPT_FOR_ALLTOALL = 4


@final
@dataclass(frozen=True, slots=True)
class Pool:
    """All designs known of a size, and where they are from.

    ``origin`` is that of what the catalogue stores, None if a search was made for this answer;
    ``times`` are the exact all-to-all times, in M/B, that it stores of some of them.
    """

    designs: list[Design]
    origin: Provenance | None = None
    times: Mapping[Recipe, Fraction] = field(default_factory=dict)


def pool(
    question: Question,
    effort: Effort | None = None,
    on_progress: Progress | None = None,
    catalogue: str | Path | None = None,
    *,
    fresh: bool = False,
    passes_for: Collection[Collective] = (),
) -> Pool:
    """All designs of a size, each with what both halves of an allreduce cost on it.

    Those that are stored, by default in the catalogue that is shipped, those of the literature, and
    what the search finds; the best of every collective are verified if size allows. What is stored
    with as much work is not searched for again, unless ``fresh``. The default effort takes a size
    as searched ``passes_for`` some collectives if there were passes for all of these: passes of
    local searches, or nothing is left that they could find, for all that allgathers are made of;
    as much search for better all-to-alls for these.
    """
    effort = effort or Effort()
    answers: Answers | None
    if effort.work < Effort().work:
        parts = _answers(question, effort, None, on_progress)
        return Pool(_verified(searched(question, parts, effort, (), on_progress)[0], effort))
    with Catalogue(catalogue) as store:
        entries = store.entries(question)
        known = [entry.design() for entry in entries]
        times = {
            design.recipe: entry.alltoall
            for design, entry in zip(known, entries, strict=True)
            if entry.alltoall is not None
        }
        origin = store.provenance(question)
        if origin is not None and not fresh:
            is_done = origin.seed == effort.seed and origin.work >= effort.work
            if passes_for and effort == Effort():
                is_done = is_done or _passed(question, origin, known, passes_for)
            if is_done:
                return Pool(_with_compared(question, known, effort), origin, times)
        answers = None if origin else _answers(question, effort, store, on_progress)
    near = neighbours(question, catalogue)
    found = searched(question, answers, effort, known, on_progress, near)[0]
    return Pool(_verified(found, effort), times=times)


def _passed(
    question: Question, origin: Provenance, known: list[Design], collectives: Collection[Collective]
) -> bool:
    """Whether passes have searched a stored size for everything that these collectives need."""
    share = Effort().work // ALLTOALL_SHARE
    if Collective.ALLTOALL in collectives and origin.exchanged < share:
        return False
    gathers = any(one != Collective.ALLTOALL for one in collectives)
    return not gathers or origin.improved > 0 or not open_steps(known, question)


def searched(
    question: Question,
    answers: Answers | None,
    effort: Effort,
    known: Iterable[Design] = (),
    on_progress: Progress | None = None,
    near: Iterable[Design] = (),
) -> tuple[list[Design], list[Recipe]]:
    """What is known and what is found beside it, and which of that the search for all-to-all found.

    Bases and expansions are tried with ``answers`` to all smaller questions; None if they have been
    tried, so that only the local searches are left; ``near`` are designs of neighbouring sizes.
    """
    scored = list(known)
    if answers is not None:
        scored = _joined(scored, candidates_from(question, answers, effort, on_progress))
    scored = _with_compared(question, scored, effort)
    scored = _joined(scored, measured_designs(lifts(question, scored, effort), on_progress))
    more = filled(question, scored, list(near), effort, measured_both_ways, on_progress)
    scored = _joined(scored, more)
    share = replace(effort, work=effort.work // ALLTOALL_SHARE)
    found = alltoall_recipes(question, share, on_progress)
    return _joined(scored, measured_designs(with_transposes(found), on_progress)), found


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


def _answers(
    question: Question, effort: Effort, store: Catalogue | None, on_progress: Progress | None
) -> Answers:
    """Answers to all that expansions to the question start from; what is stored is looked up."""

    def is_stored(one: Question) -> bool:
        return one != question and store is not None and store.has(one)

    behind = [one for one in questions_behind([question], is_stored) if one != question]
    answers: Answers = {}
    for done, part in enumerate(behind):
        if on_progress is not None:
            on_progress("smaller topologies", done, len(behind))
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
