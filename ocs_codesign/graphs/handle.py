"""Handles: short names of recipes that stay the same."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


DIGITS = 6
_HANDLE = re.compile(r"#?([0-9a-f]{4,64})")


def handle(recipe: str, digits: int = DIGITS) -> str:
    """The handle of a recipe's text: ``#`` and the first digits of its SHA-256.

    >>> handle("Line(CompleteBipartite(4))")
    '#8de2d5'
    """
    return f"#{sha256(recipe.encode()).hexdigest()[:digits]}"


def asked_digits(text: str) -> str | None:
    """The digits of a text that is a handle, of 4 digits or more, with ``#`` or without.

    >>> asked_digits(" #3a46"), asked_digits("3a46cf"), asked_digits("Complete(4)")
    ('3a46', '3a46cf', None)
    """
    found = _HANDLE.fullmatch(text.strip().lower())
    return None if found is None else found[1]


def recipes_of(digits: str, recipes: Iterable[str]) -> list[str]:
    """The recipes whose handle begins so, each once."""
    return [text for text in dict.fromkeys(recipes) if handle(text, len(digits))[1:] == digits]
