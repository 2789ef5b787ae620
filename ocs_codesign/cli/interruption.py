"""A Ctrl-C is a Ctrl-C, wherever it comes."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def interruptions() -> Iterator[None]:
    """Raise KeyboardInterrupt where it arrives as the SystemError of a compiled kernel.

    A Ctrl-C during a kernel is noticed while Numba makes Python objects of what the kernel returns,
    and Numba reports everything that goes wrong there as a SystemError with a cause.

    >>> try:
    ...     with interruptions():
    ...         raise SystemError("a result with an exception set") from KeyboardInterrupt()
    ... except KeyboardInterrupt:
    ...     print("interrupted")
    interrupted
    """
    try:
        yield
    except SystemError as error:
        cause = error.__cause__
        while isinstance(cause, SystemError):
            cause = cause.__cause__
        if isinstance(cause, KeyboardInterrupt):
            raise cause from None
        raise
