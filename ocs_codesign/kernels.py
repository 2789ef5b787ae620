"""Loops that are compiled where there is much to do, and run as written where there is little."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

LITTLE_WORK = 30_000
"""Rounds of a loop that take less time as written than loading its compiled form does."""


def for_work(loop: Callable[..., Any], rounds: int) -> Callable[..., Any]:
    """The loop, compiled if it runs so many rounds that it pays.

    ``loop`` is a plain function of a module that numba can compile, and calls no other loop.

    >>> def total(values):
    ...     result = 0
    ...     for value in values:
    ...         result += value
    ...     return result
    >>> for_work(total, 3)([1, 2, 3])
    6
    """
    return loop if rounds <= LITTLE_WORK else _compiled(loop)


@cache
def _compiled(loop: Callable[..., Any]) -> Callable[..., Any]:
    from numba import njit

    compiled: Callable[..., Any] = njit(cache=True)(loop)
    return compiled
