"""Loops that are compiled where there is much to do, and run as written where there is little.

A loop is a plain function that numba can compile; it may call others by their names.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


LITTLE_WORK = 300_000
"""Rounds of a loop that take less time as written than making its compiled form does."""

_rounds_asked: Counter[Callable[..., Any]] = Counter()


def for_work(loop: Callable[..., Any], rounds: int) -> Callable[..., Any]:
    """The loop, compiled once a process has asked for so many rounds of it that it pays."""
    _rounds_asked[loop] += rounds
    return loop if _rounds_asked[loop] <= LITTLE_WORK else compiled(loop)


@cache
def compiled(loop: Any) -> Callable[..., Any]:
    """The loop as machine code, and with it those that it calls by name, each once."""
    from numba import njit

    names = loop.__globals__
    helpers = {
        name: compiled(helper)
        for name in loop.__code__.co_names
        if isinstance(helper := names.get(name), FunctionType)
    }
    alike = FunctionType(loop.__code__, names | helpers, loop.__name__)
    alike.__module__, alike.__qualname__ = loop.__module__, loop.__qualname__
    machine_code: Callable[..., Any] = njit(cache=True, nogil=True)(alike)
    return machine_code
