"""Progress on standard error, shown only on a terminal and only when work takes a while."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

DELAY_S = 1.5


class Progress:
    """A bar that appears after ``DELAY_S``; ``tell`` updates what it says."""

    def __init__(self, phase: str) -> None:
        self._phase, self._done, self._total = phase, 0, 0
        self._lock = threading.Lock()
        self._over = False
        self._bar: Any = None
        self._task: Any = None

    def tell(self, done: int, total: int) -> None:
        """So much of the phase is done."""
        self.tell_phase(self._phase, done, total)

    def tell_phase(self, phase: str, done: int = 0, total: int = 0) -> None:
        """So much of a named phase is done."""
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

    def _state(self) -> dict[str, Any]:
        return {"description": self._phase, "completed": self._done, "total": self._total or None}


@contextmanager
def progress(phase: str) -> Iterator[Progress]:
    """A progress display for the work inside; silent when standard error is no terminal."""
    shown = Progress(phase)
    timer = threading.Timer(DELAY_S, shown.show)
    timer.daemon = True
    try:
        if sys.stderr.isatty():
            timer.start()
        yield shown
    finally:
        timer.cancel()
        shown.close()
