"""Going on where answers are worst: passes of local searches over the questions of a catalogue.

A pass takes the questions by the gap between what is stored and what counting allows, the largest
first, and spends the same effort on each. Another pass draws other samples, so that passes add up;
how much work a question has had is stored with it. What is better is measured and added, and
nothing is taken away. Starts are taken from neighbouring sizes as the store has them when a
question's turn comes: what one size finds is carried over to the next.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

from ocs_codesign.core.collective import GATHERING, Collective
from ocs_codesign.core.lp import DEFAULT_OPTIONS
from ocs_codesign.core.progress import tell
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.design import can_confirm, measure, predict
from ocs_codesign.search.alltoall.search import alltoall_recipes
from ocs_codesign.search.alltoall.solving import Solving
from ocs_codesign.search.bases import ALLTOALL_SHARE, Effort
from ocs_codesign.search.catalogue.entry import as_entry
from ocs_codesign.search.catalogue.store import Catalogue
from ocs_codesign.search.edited import filled, neighbours, open_steps
from ocs_codesign.search.frontiers import WITH_ALLGATHER, rank_jointly
from ocs_codesign.search.gaps import gaps_of, is_above
from ocs_codesign.search.pareto import pareto
from ocs_codesign.search.pool import (
    expanded,
    lifts,
    measured_both_ways,
    measured_designs,
    parts_of,
    smaller_answers,
)
from ocs_codesign.search.sweep import Answered, QuestionTasks, today

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from concurrent.futures import Executor
    from fractions import Fraction
    from pathlib import Path

    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.schedules.design import Design, Question
    from ocs_codesign.search.catalogue.entry import Entry, Provenance
    from ocs_codesign.search.gaps import GapLine


PASS_WORK = 2**17
"""Work of one pass for a question: 10 to 20 seconds at a thousand nodes."""
_MAX_STARTS = 60
_MAX_START_TEXT = 1000
"""Longest text of a recipe of a neighbouring size that is edited: edits of edits grow."""
_MAX_EXPANDED = 12


@final
@dataclass(frozen=True, slots=True)
class Improved:
    """What came of going on: questions searched, those that are better now, and designs added."""

    num_searched: int
    num_better: int
    num_added: int


def improve(
    path: Path,
    questions: Iterable[Question],
    executor: Executor,
    num_workers: int,
    *,
    effort: Effort | None = None,
    seconds: float | None = None,
    above: Collection[GapLine] = (),
) -> Improved:
    """Search on for stored questions that have a gap to the bound, the largest gap first.

    With lines that gaps should not be ``above``, only for those that are, when a pass begins.
    One pass, in which those that passes before have not come to are first; with ``seconds`` as
    many passes as begin within that time. Whatever ends it, what was added stays. With one worker
    the same passes over the same catalogue add the same designs. A task whose worker dies is tried
    again, three times in all.
    """
    effort = effort or Effort(work=PASS_WORK)
    ends_at = None if seconds is None else time.monotonic() + seconds
    better: set[Question] = set()
    searched: set[Question] = set()
    added = 0
    wanted = set(questions)
    with Catalogue(path, writable=True) as catalogue:
        waiting = _by_gap(catalogue, wanted, above)
        total = len(waiting)
        running = QuestionTasks[Answered](executor, "improved")
        while waiting or running:
            is_over = ends_at is not None and time.monotonic() >= ends_at
            if is_over:
                waiting.clear()
            while waiting and len(running) < num_workers:
                running.submit(go_on, *_task(catalogue, waiting.pop(0), effort))
            for question, result in running.finished():
                if result is None:
                    waiting.append(question)
                    continue
                number = catalogue.add(
                    question,
                    result.entries,
                    work=effort.work,
                    time_spent_s=result.time_spent_s,
                    day=today(),
                )
                searched.add(question)
                better |= {question} if number else set()
                added += number
                tell(total - len(waiting) - len(running), total)
            if not waiting and not running and ends_at is not None and not is_over:
                waiting = _by_gap(catalogue, wanted, above)
                total += len(waiting)
    return Improved(len(searched), len(better), added)


def go_on(
    question: Question,
    known: tuple[Entry, ...],
    parts: dict[Question, tuple[Entry, ...]],
    near: tuple[Entry, ...],
    effort: Effort,
) -> Answered:
    """What a pass finds for a question that no stored design of it dominates, exactly measured.

    ``parts`` are answers to smaller questions whose expansions are tried, ``near`` designs of
    neighbouring sizes.
    """
    start = time.process_time()
    stored = [entry.design() for entry in known]
    answers = {one: smaller_answers(entries) for one, entries in parts.items()}
    found = _promising(stored, expanded(question, answers))
    scored = [*stored, *found]
    if open_steps(scored, question):
        found += measured_both_ways(lifts(question, scored, effort))
    starts = [entry.design() for entry in near]
    found += filled(question, [*stored, *found], starts, effort, measured_both_ways)
    entries = tuple(as_entry(design) for design in _better(stored, found))
    return Answered(question, entries, time.process_time() - start)


def _task(
    catalogue: Catalogue, question: Question, effort: Effort
) -> tuple[
    Question, tuple[Entry, ...], dict[Question, tuple[Entry, ...]], tuple[Entry, ...], Effort
]:
    """All that a worker needs; parts that no pass has come to were expanded by the sweep."""
    origin = catalogue.provenance(question)
    improved = 0 if origin is None else origin.improved
    parts = {}
    for part in dict.fromkeys(parts_of(question)):
        behind = catalogue.provenance(part)
        if behind is not None and behind.improved:
            parts[part] = catalogue.entries(part)
    near = tuple(
        as_entry(design)
        for design in neighbours(question, catalogue.path)
        if len(repr(design.recipe)) <= _MAX_START_TEXT
    )
    effort = replace(effort, seed=effort.seed + improved)
    return question, catalogue.entries(question), parts, near[:_MAX_STARTS], effort


def _by_gap(
    catalogue: Catalogue, wanted: set[Question], above: Collection[GapLine]
) -> list[Question]:
    """Questions that something is left to find for: least improved first, then by gap.

    Those that only the fewest steps are open of come last.
    """
    ranked = []
    for gap in gaps_of(catalogue, wanted):
        origin = catalogue.provenance(gap.question)
        if above and not is_above(gap, above):
            continue
        if origin is not None and any(over != 0 for over in gap.excess):
            ranked.append((origin.improved, -gap.size, gap.question))
    return [question for *_, question in sorted(ranked)]


def _promising(stored: list[Design], recipes: list[Recipe]) -> list[Design]:
    """Those measured that are predicted to be on a frontier of any collective."""
    known = {design.recipe for design in stored}
    predicted = [predict(recipe, Collective.ALLREDUCE) for recipe in recipes if recipe not in known]
    promising: dict[Recipe, None] = {}
    for collective in GATHERING:
        front, _ = pareto([*stored, *predicted], collective)
        promising.update(dict.fromkeys(one.recipe for one in front if one.recipe not in known))
    return measured_designs(list(promising)[:_MAX_EXPANDED])


def _better(stored: list[Design], found: list[Design]) -> list[Design]:
    """Found designs that are undominated in the cost of some collective, all of them measured."""
    measured = []
    for design in found:
        if design.measured:
            measured.append(design)
        elif can_confirm(design.recipe):
            measured.append(measure(design.recipe, design.collective))
    better: dict[Recipe, Design] = {}
    for collective in GATHERING:
        front, _ = pareto([*stored, *measured], collective)
        better.update({design.recipe: design for design in front})
    known = {design.recipe for design in stored}
    return [design for recipe, design in better.items() if recipe not in known]


# All-to-all times of what a catalogue stores, and better designs where they were not searched
# for.
#
# A pass takes the questions by size. Of every stored design whose program is small it works out
# the exact time of an all-to-all, and keeps it; then it searches for designs that serve
# all-to-all better, and adds those that nothing stored beats. What a pass has come to is not done
# again.


ALLTOALL_PASS_WORK = Effort().work // ALLTOALL_SHARE
"""Work of a search of effort 1 for a question, that of the default search: 0.2 to 10 seconds."""


@final
@dataclass(frozen=True, slots=True)
class Exchanged:
    """What a worker sends back: times by recipe, None where that takes long, and new designs.

    ``work`` is that of its search.
    """

    times: dict[str, Fraction | None]
    entries: tuple[Entry, ...]
    time_spent_s: float
    work: int


@final
@dataclass(frozen=True, slots=True)
class AlltoallPass:
    """What came of a pass: questions it came to, times it found, designs too large, and added."""

    num_questions: int
    num_timed: int
    num_untimed: int
    num_added: int


def time_alltoall(
    path: Path,
    questions: Iterable[Question],
    executor: Executor,
    num_workers: int,
    *,
    effort: Effort | None = None,
    seconds: float | None = None,
) -> AlltoallPass:
    """Work out and store all-to-all times of stored questions, the smallest first.

    A question that was not searched for all-to-all with as much work is searched as well; with no
    work nothing is. None is begun after ``seconds``. Whatever ends it, what was stored stays, and
    another pass does the rest. A task whose worker dies is tried again, three times in all.
    """
    effort = effort or Effort(work=ALLTOALL_PASS_WORK)
    ends_at = None if seconds is None else time.monotonic() + seconds
    timed = untimed = added = done = 0
    with Catalogue(path, writable=True) as catalogue:
        waiting = [one for one in sorted(set(questions)) if _is_open(catalogue, one, effort)]
        total = len(waiting)
        running = QuestionTasks[Exchanged](executor, "timed")
        while waiting or running:
            if ends_at is not None and time.monotonic() >= ends_at:
                waiting.clear()
            while waiting and len(running) < num_workers:
                running.submit(exchange, *_alltoall_task(catalogue, waiting.pop(0), effort))
            for question, found in running.finished():
                if found is None:
                    waiting.append(question)
                    continue
                added += catalogue.add(
                    question,
                    found.entries,
                    exchanged=found.work,
                    times=found.times,
                    time_spent_s=found.time_spent_s,
                    day=today() if found.work else "",  # of the last search
                )
                untimed += sum(value is None for value in found.times.values())
                timed += sum(value is not None for value in found.times.values())
                done += 1
                tell(done, total)
    return AlltoallPass(done, timed, untimed, added)


def exchange(question: Question, known: tuple[Entry, ...], effort: Effort) -> Exchanged:
    """The times of stored designs, and what a search finds that none of these beats, with times."""
    start = time.process_time()
    recipes = [parse(entry.recipe) for entry in known]
    stored = {
        recipe: entry.alltoall
        for recipe, entry in zip(recipes, known, strict=True)
        if entry.alltoall is not None
    }
    solving = Solving(DEFAULT_OPTIONS, stored)
    times = {recipe: solving.exact_time(recipe) for recipe in recipes}
    better = _better_alltoall(question, known, times, effort)
    times |= {design.recipe: design.cost.t_b for design in better}
    return Exchanged(
        {repr(recipe): value for recipe, value in times.items()},
        tuple(as_entry(design) for design in better),
        time.process_time() - start,
        effort.work,
    )


def _better_alltoall(
    question: Question,
    known: tuple[Entry, ...],
    times: Mapping[Recipe, Fraction | None],
    effort: Effort,
) -> list[Design]:
    """New designs, exactly solved, that no stored one beats in both allgather and all-to-all."""
    solving = Solving(DEFAULT_OPTIONS)
    new = [
        design
        for design in measured_both_ways(alltoall_recipes(question, effort))
        if design.recipe not in times and solving.is_small(design.recipe)
    ]
    if not new:
        return []
    exact = {recipe: value for recipe, value in times.items() if value is not None}
    stored = [design for entry in known if (design := entry.design()).recipe in exact]
    front = rank_jointly(question, [*stored, *new], WITH_ALLGATHER, times=exact).candidates
    return [one for one in front if one.recipe not in exact and one.least_t_b == one.cost.t_b]


def _alltoall_task(
    catalogue: Catalogue, question: Question, effort: Effort
) -> tuple[Question, tuple[Entry, ...], Effort]:
    """All that a worker needs; a search after others draws other samples."""
    origin = catalogue.provenance(question)
    searched = _searched(origin)
    work = 0 if searched >= effort.work else effort.work
    seed = effort.seed + (0 if origin is None else origin.exchanged)
    return question, catalogue.entries(question), replace(effort, work=work, seed=seed)


def _is_open(catalogue: Catalogue, question: Question, effort: Effort) -> bool:
    """Whether a stored question has designs that no pass came to, or had too little search."""
    origin = catalogue.provenance(question)
    return origin is not None and (
        _searched(origin) < effort.work or origin.num_timed < catalogue.num_entries(question)
    )


def _searched(origin: Provenance | None) -> int:
    """Work of all searches for all-to-all, those within sweeps too."""
    return 0 if origin is None else origin.exchanged + origin.work // ALLTOALL_SHARE
