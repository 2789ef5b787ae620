"""What CSV files of all kinds have in common: delimiters, numbers and comments."""

from __future__ import annotations

import re

NUMBER = re.compile(r"[+-]?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})(?:[eE][+-]?[0-9]{1,2})?")
"""A decimal number in a cell, of a length that is safe to work with exactly."""


def is_comment(line: str) -> bool:
    """Whether a line is none of the table: empty, or begins with ``#``."""
    return not line.strip(" \t,;\r\n") or line.lstrip().startswith("#")


def delimiter_of(line: str) -> str:
    """What separates the cells of a line: tabs, or else semicolons, or else commas.

    >>> delimiter_of("a;b, c"), delimiter_of("a")
    (';', ',')
    """
    return next((mark for mark in "\t;" if mark in line), ",")
