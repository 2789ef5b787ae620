"""How far the work is, told to whoever listens: one context variable, and no callback in between.

Whatever takes a while says so with ``tell_phase`` and ``tell``; nobody has to pass anything on. A
listener, such as the bar of the command line, is set by ``heard_by``. ``counted`` tells how many
items of a loop are done, and keeps to itself what is told inside.

>>> with heard_by(lambda phase, done, total: print(phase, done, total)):
...     tell_phase("Counting")
...     tell(1, 2)
Counting 0 0
None 1 2
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    Listener = Callable[[str | None, int, int], None]

Item = TypeVar("Item")


class _Hearing:
    """Who listens, and the loop that counts, if one does: what is told inside it is not heard."""

    __slots__ = ("counting", "listener")

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.counting: object = None


_HEARING: ContextVar[_Hearing | None] = ContextVar("hearing", default=None)


def tell_phase(name: str | None, done: int = 0, total: int = 0) -> None:
    """Say what is being done now and, where it is known, how much of it is done."""
    hearing = _HEARING.get()
    if hearing is not None and hearing.counting is None:
        hearing.listener(name, done, total)


def tell(done: int, total: int) -> None:
    """Say how much of the phase is done."""
    tell_phase(None, done, total)


def counted(items: Collection[Item], phase: str | None = None) -> Iterator[Item]:
    """The items, telling before each how many are done; what the loop's body tells is not heard."""
    hearing, mine = _HEARING.get(), object()
    if hearing is None or hearing.counting is not None:
        yield from items
        return
    try:
        for done, item in enumerate(items):
            hearing.listener(phase, done, len(items))
            hearing.counting = mine
            yield item
    finally:
        if hearing.counting is mine:
            hearing.counting = None


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """The listener hears the work inside: a phase (None: the same), done and total."""
    token = _HEARING.set(_Hearing(listener))
    try:
        yield
    finally:
        _HEARING.reset(token)
