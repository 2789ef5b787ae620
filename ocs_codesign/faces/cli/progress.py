"""Progress on standard error, only when work takes a while.

A bar on a terminal; elsewhere a line now and then, so that no work is silent for long.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.core.progress import heard_by

if TYPE_CHECKING:
    from collections.abc import Iterator


DELAY_S = 1.5
SILENCE_S = 30.0
"""Longest silence where standard error is not a terminal."""
QUIET, NORMAL, VERBOSE = range(3)
_VERBOSITY = "ocs_codesign.verbosity"


def verbosity() -> int:
    """How much the command that runs shall say."""
    context = click.get_current_context(silent=True)
    return NORMAL if context is None else int(context.meta.get(_VERBOSITY, NORMAL))


def _option(names: list[str], level: int, text: str) -> click.Option:
    def told(ctx: click.Context, _: click.Parameter, value: bool) -> None:
        if value:
            ctx.meta[_VERBOSITY] = level

    return click.Option(names, is_flag=True, expose_value=False, callback=told, help=text)


_OPTIONS = (
    _option(["-v", "--verbose"], VERBOSE, "Say on standard error what is being done, with times."),
    _option(["-q", "--quiet"], QUIET, "Say nothing but errors: files and the exit code tell."),
)


def add_verbosity(command: click.Command) -> None:
    """Give a command, and those in its group, the options -v and -q, once."""
    command.params += [option for option in _OPTIONS if option not in command.params]


class Progress:
    """What is being done, and how much of it; ``hear`` updates it."""

    def __init__(self, phase: str) -> None:
        self._phase, self._done, self._total = phase, 0, 0
        self._lock = threading.Lock()
        self._over = False
        self._bar: Any = None
        self._task: Any = None
        self._began_s = time.monotonic()
        self._logs = verbosity() == VERBOSE
        self._log(phase)

    def hear(self, phase: str | None, done: int, total: int) -> None:
        """So much of a named phase, or of the same, is done."""
        phase = phase or self._phase
        if phase != self._phase:
            self._log(phase)
        self._phase, self._done, self._total = phase, done, total
        if self._bar is not None:
            self._bar.update(self._task, **self._state())

    def show(self) -> None:
        """Put the bar on the terminal."""
        from rich.console import Console
        from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        with self._lock:
            if self._over:
                return
            bar = Bar(
                SpinnerColumn("line"),
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=30),
                TimeElapsedColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = bar.add_task(self._phase, total=None)
            bar.update(self._task, **self._state())
            bar.start()
            self._bar = bar

    def say(self) -> None:
        """Say in a line what is being done, and for how long."""
        with self._lock:
            if not self._over:
                much = f", {self._done:,} of {self._total:,}" * bool(self._total)
                elapsed_s = time.monotonic() - self._began_s
                click.echo(f"{self._phase}{much}: {elapsed_s:.0f} s so far", err=True)

    def close(self) -> None:
        """Take the bar off the terminal; nothing appears any more."""
        with self._lock:
            self._over = True
            if self._bar is not None:
                self._bar.stop()
                self._bar = None

    def _log(self, phase: str) -> None:
        """Say that a phase begins, if that was asked for."""
        if self._logs:
            click.echo(f"{time.monotonic() - self._began_s:8.2f} s  {phase}", err=True)

    def _state(self) -> dict[str, Any]:
        return {"description": self._phase, "completed": self._done, "total": self._total or None}


@contextmanager
def progress(phase: str) -> Iterator[None]:
    """A progress display for the work inside: a bar where standard error is a terminal."""
    shown = Progress(phase)
    over = threading.Event()

    def watch() -> None:
        if sys.stderr.isatty():
            if not over.wait(DELAY_S):
                shown.show()
            return
        while not over.wait(SILENCE_S):
            shown.say()

    try:
        if verbosity() != QUIET and not (verbosity() == VERBOSE and sys.stderr.isatty()):
            threading.Thread(target=watch, daemon=True).start()
        with heard_by(shown.hear):
            yield
    finally:
        over.set()
        shown.close()
