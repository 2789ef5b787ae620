"""Where in a file something is wrong: errors that begin with the file and the line or place."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def errors_at(place: str) -> Iterator[None]:
    """A ValueError in here says at which place; what is no UTF-8 text is one.

    >>> with errors_at("t.csv, line 2"):
    ...     int("x")
    Traceback (most recent call last):
    ValueError: t.csv, line 2: invalid literal for int() with base 10: 'x'
    """
    try:
        yield
    except UnicodeDecodeError:
        raise ValueError(f"{place}: this is not UTF-8 text") from None
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None


def decoded(data: bytes, name: str) -> str:
    """The text of a content called ``name``, without a byte order mark; ValueError if none."""
    with errors_at(name):
        return data.decode("utf-8-sig")
