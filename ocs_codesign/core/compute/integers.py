"""Whole numbers."""

from __future__ import annotations

from functools import lru_cache


@lru_cache
def divisors(number: int, most: int | None = None) -> tuple[int, ...]:
    """Divisors in ascending order, up to ``most`` if that is given.

    >>> divisors(12), divisors(12, 5)
    ((1, 2, 3, 4, 6, 12), (1, 2, 3, 4))
    """
    last = number if most is None else min(number, most)
    return tuple(each for each in range(1, last + 1) if number % each == 0)
