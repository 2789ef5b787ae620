"""What CSV files of all kinds have in common: text, delimiters, numbers, and where an error is."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

NUMBER = re.compile(r"[+-]?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})(?:[eE][+-]?[0-9]{1,2})?")
"""A decimal number in a cell, of a length that is safe to work with exactly."""


@contextmanager
def placed(place: str) -> Iterator[None]:
    """A ValueError in here says at which place.

    >>> with placed("steps.csv, line 2"):
    ...     raise ValueError("there is no size")
    Traceback (most recent call last):
    ValueError: steps.csv, line 2: there is no size
    """
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None


def text_of(data: bytes, name: str) -> str:
    """The text of a content, without a mark of its order of bytes; errors begin with the name."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{name}: this is not UTF-8 text") from None


def is_comment(line: str) -> bool:
    """Whether a line is none of the table: empty, or begins with ``#``."""
    return not line.strip(" \t,;\r\n") or line.lstrip().startswith("#")


def delimiter_of(line: str) -> str:
    """What separates the cells of a line: tabs, or else semicolons, or else commas.

    >>> delimiter_of("a;b, c"), delimiter_of("a")
    (';', ',')
    """
    return next((mark for mark in "\t;" if mark in line), ",")
