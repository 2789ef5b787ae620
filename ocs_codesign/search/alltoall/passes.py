"""All-to-all times of what a catalogue stores, and better designs where they were not searched for.

A pass takes the questions by size. Of every stored design whose program is small it works out the
exact time of an all-to-all, and keeps it; then it searches for designs that serve all-to-all
better, and adds those that nothing stored beats. What a pass has come to is not done again.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

from ocs_codesign.graphs.text import parse
from ocs_codesign.lp import DEFAULT_OPTIONS
from ocs_codesign.search.alltoall.search import alltoall_recipes
from ocs_codesign.search.alltoall.solving import Solving
from ocs_codesign.search.catalogue.store import Catalogue
from ocs_codesign.search.effort import ALLTOALL_SHARE, Effort
from ocs_codesign.search.joint import WITH_ALLGATHER, rank_jointly
from ocs_codesign.search.pool import measured_both_ways
from ocs_codesign.search.sweep import as_entry, today
from ocs_codesign.search.tasks import QuestionTasks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from concurrent.futures import Executor
    from fractions import Fraction
    from pathlib import Path

    from ocs_codesign.design import Design
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.question import Question
    from ocs_codesign.search.catalogue.entry import Entry, Provenance

PASS_WORK = Effort().work // ALLTOALL_SHARE
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
    on_progress: Callable[[int, int], None] | None = None,
) -> AlltoallPass:
    """Work out and store all-to-all times of stored questions, the smallest first.

    A question that was not searched for all-to-all with as much work is searched as well; with no
    work nothing is. None is begun after ``seconds``. Whatever ends it, what was stored stays, and
    another pass does the rest. A task whose worker dies is tried again, three times in all.
    """
    effort = effort or Effort(work=PASS_WORK)
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
                running.submit(exchange, *_task(catalogue, waiting.pop(0), effort))
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
                if on_progress is not None:
                    on_progress(done, total)
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
    better = _better(question, known, times, effort)
    times |= {design.recipe: design.cost.t_b for design in better}
    return Exchanged(
        {repr(recipe): value for recipe, value in times.items()},
        tuple(as_entry(design) for design in better),
        time.process_time() - start,
        effort.work,
    )


def _better(
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


def _task(
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
