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

_LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)


def tell_phase(name: str, done: int = 0, total: int = 0) -> None:
    """Say what is being done now and, where it is known, how much of it is done."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(name, done, total)


def tell(done: int, total: int) -> None:
    """Say how much of the phase is done."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(None, done, total)


def counted(items: Collection[Item], phase: str | None = None) -> Iterator[Item]:
    """The items, telling before each how many are done; what the loop's body tells is not heard.

    >>> with heard_by(lambda phase, done, total: print(done, "of", total)):
    ...     for size in counted([3, 5]):
    ...         tell(size, 9)
    0 of 2
    1 of 2
    """
    listener = _LISTENER.get()
    for done, item in enumerate(items):
        if listener is not None:
            listener(phase, done, len(items))
        token = _LISTENER.set(None)
        try:
            yield item
        finally:
            _LISTENER.reset(token)


@contextmanager
def heard_by(listener: Listener | None) -> Iterator[None]:
    """The listener hears the work inside: a phase (None: the same), done and total."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)
