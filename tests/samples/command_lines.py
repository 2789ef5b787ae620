"""Command lines as lists of words."""

from __future__ import annotations


def instead(words: list[str], option: str, value: str) -> list[str]:
    """The same words with another value of an option."""
    at = words.index(option) + 1
    return [*words[:at], value, *words[at + 1 :]]
