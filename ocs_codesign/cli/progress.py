"""Progress on standard error, shown only on a terminal and only when work takes a while."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

DELAY_S = 1.5
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
    if type(command) is click.Group:
        for inner in command.commands.values():
            add_verbosity(inner)


class Progress:
    """A bar that appears after ``DELAY_S``; ``tell`` updates what it says."""

    def __init__(self, phase: str) -> None:
        self._phase, self._done, self._total = phase, 0, 0
        self._lock = threading.Lock()
        self._over = False
        self._bar: Any = None
        self._task: Any = None
        self._began_s = time.monotonic() if verbosity() == VERBOSE else None
        self._log(phase)

    def tell(self, done: int, total: int) -> None:
        """So much of the phase is done."""
        self.tell_phase(self._phase, done, total)

    def tell_phase(self, phase: str, done: int = 0, total: int = 0) -> None:
        """So much of a named phase is done."""
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

    def close(self) -> None:
        """Take the bar off the terminal; it will not appear any more."""
        with self._lock:
            self._over = True
            if self._bar is not None:
                self._bar.stop()
                self._bar = None

    def _log(self, phase: str) -> None:
        """Say that a phase begins, if that was asked for."""
        if self._began_s is not None:
            click.echo(f"{time.monotonic() - self._began_s:8.2f} s  {phase}", err=True)

    def _state(self) -> dict[str, Any]:
        return {"description": self._phase, "completed": self._done, "total": self._total or None}


@contextmanager
def progress(phase: str) -> Iterator[Progress]:
    """A progress display for the work inside; a bar only where standard error is a terminal."""
    shown = Progress(phase)
    timer = threading.Timer(DELAY_S, shown.show)
    timer.daemon = True
    try:
        if sys.stderr.isatty() and verbosity() == NORMAL:
            timer.start()
        yield shown
    finally:
        timer.cancel()
        shown.close()
