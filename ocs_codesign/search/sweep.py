"""Sweeps: many questions answered bottom-up, in parallel, into a catalogue that they resume from.

A task is a question; it starts when all that its expansions start from has been answered, and its
answer depends on nothing else, so the order of work and the number of workers change nothing.
Workers are those of any ``concurrent.futures.Executor``.
"""

from __future__ import annotations

import time
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar, final

from ocs_codesign import __version__
from ocs_codesign.core.progress import tell
from ocs_codesign.search.bases import Effort
from ocs_codesign.search.catalogue.entry import Entry, Provenance, as_entry
from ocs_codesign.search.catalogue.store import Catalogue
from ocs_codesign.search.edited import neighbours
from ocs_codesign.search.pool import (
    Answers,
    best_for_alltoall,
    confirmed,
    parts_of,
    questions_behind,
    searched,
    slow_to_compare,
    smaller_answers,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Executor, Future
    from pathlib import Path

    from ocs_codesign.schedules.design import Question


# Questions that workers answer: tasks on an executor, tried again when a worker dies.


Result = TypeVar("Result")

MAX_TRIES = 3
"""How often a task is tried whose worker dies."""


@final
class QuestionTasks(Generic[Result]):
    """The tasks that run on an executor, one a question; ``told`` is what fails, as in "timed"."""

    def __init__(self, executor: Executor, told: str) -> None:
        self._executor = executor
        self._told = told
        self._running: dict[Future[Result], Question] = {}
        self._failures: dict[Question, int] = {}

    def __len__(self) -> int:
        return len(self._running)

    @property
    def questions(self) -> tuple[Question, ...]:
        """Those that run."""
        return tuple(self._running.values())

    def submit(self, work: Callable[..., Result], question: Question, *others: Any) -> None:
        """Begin ``work(question, *others)``."""
        self._running[self._executor.submit(work, question, *others)] = question

    def finished(self) -> Iterator[tuple[Question, Result | None]]:
        """Wait for some: their results, None for those that are to be submitted again.

        Raises RuntimeError for a question that failed as often as it is tried.
        """
        done, _ = wait(self._running, return_when=FIRST_COMPLETED)
        for future in done:
            question = self._running.pop(future)
            error = future.exception()
            if error is None:
                yield question, future.result()
                continue
            self._failures[question] = self._failures.get(question, 0) + 1
            if self._failures[question] >= MAX_TRIES:
                raise RuntimeError(f"{question} cannot be {self._told}: {error}") from error
            yield question, None


_AHEAD = 3


@final
@dataclass(frozen=True, slots=True)
class Answered:
    """What a worker sends back."""

    question: Question
    entries: tuple[Entry, ...]
    time_spent_s: float


def sweep(
    path: Path,
    questions: Iterable[Question],
    executor: Executor,
    num_workers: int,
    *,
    command: str,
    effort: Effort | None = None,
) -> int:
    """Answer all questions, and those behind them, that the catalogue at ``path`` has not.

    What is stored with less work than the effort's is improved by local searches. Returns the
    number of questions answered now. ``command`` is stored as their provenance;
    Whatever ends the sweep, answers that were stored
    stay. A task whose worker dies is tried again, three times in all.
    """
    effort = effort or Effort()
    with Catalogue(path, writable=True) as catalogue:

        def is_done(question: Question) -> bool:
            origin = catalogue.provenance(question)
            return origin is not None and origin.work >= effort.work

        wanted = questions_behind(questions, catalogue.has)
        todo = [question for question in wanted if not is_done(question)]
        waiting = dict.fromkeys(todo)
        running = QuestionTasks[Answered](executor, "answered")
        while waiting or running:
            behind = {*waiting, *running.questions}
            for question in _ready(waiting, behind, _AHEAD * num_workers - len(running)):
                del waiting[question]
                known = catalogue.entries(question)
                is_stored = catalogue.has(question)
                parts = None if is_stored else stored_parts(catalogue, question)
                running.submit(answer, question, parts, effort, known)
            for question, result in running.finished():
                if result is None:
                    waiting[question] = None
                    continue
                spent = round(result.time_spent_s, 3)
                provenance = Provenance(
                    *(command, __version__, effort.seed, spent, effort.work), day=today()
                )
                catalogue.record(question, result.entries, provenance)
                tell(len(todo) - len(waiting) - len(running), len(todo))
        return len(todo)


def today() -> str:
    """The day, as in 2026-11-23, in UTC: what a store says of when it was searched for."""
    return datetime.now(tz=UTC).date().isoformat()


def answer(
    question: Question,
    parts: dict[Question, tuple[Entry, ...]] | None,
    effort: Effort,
    known: tuple[Entry, ...] = (),
) -> Answered:
    """The answer to one question, for all collectives, from what is known and what is behind it.

    Without ``parts`` nothing is expanded. Designs of neighbouring sizes are those of the shipped
    catalogue, so that the order of a sweep does not matter.
    """
    start = time.process_time()
    answers: Answers | None = None
    if parts is not None:
        answers = {one: smaller_answers(entries) for one, entries in parts.items()}
    before = [entry.design() for entry in known]
    near = neighbours(question) if effort.work >= Effort().work else []
    scored, found = searched(question, answers, effort, before, near=near)
    scored, kept = confirmed(scored)
    # What was kept for all-to-all is not told from the rest: all that was kept stays.
    slow = slow_to_compare(question)
    kept += [*best_for_alltoall(scored, found), *before]
    kept += [design for design in scored if design.measured and design.recipe in slow]
    entries = tuple(as_entry(design) for design in {one.recipe: one for one in kept}.values())
    return Answered(question, entries, time.process_time() - start)


def stored_parts(catalogue: Catalogue, question: Question) -> dict[Question, tuple[Entry, ...]]:
    """What the catalogue knows of the questions behind one."""
    return {part: catalogue.entries(part) for part in dict.fromkeys(parts_of(question))}


def _ready(waiting: Iterable[Question], behind: set[Question], most: int) -> list[Question]:
    """The first questions, up to a number, none of whose parts is still to be answered."""
    ready: list[Question] = []
    for question in waiting:
        if len(ready) >= most:
            break
        if behind.isdisjoint(parts_of(question)):
            ready.append(question)
    return ready
