"""Questions that workers answer: tasks on an executor, tried again when a worker dies."""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, wait
from typing import TYPE_CHECKING, Any, Generic, TypeVar, final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Executor, Future

    from ocs_codesign.question import Question

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
