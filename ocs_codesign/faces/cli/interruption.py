"""What ends a command from outside: a Ctrl-C, and output that nobody reads, as after ``| head``."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


CLOSED = 141
"""What a shell says of a tool that ended because its pipe was closed: 128 and the signal, 13."""


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


class OutputClosed(BaseException):
    """Nobody reads standard output or standard error any more."""


@contextmanager
def noticed() -> Iterator[None]:
    """Raise OutputClosed for a broken pipe that is the output's, before click makes a 1 of it."""
    try:
        yield
    except BrokenPipeError as error:
        if is_closed():
            raise OutputClosed from error
        raise RuntimeError("a pipe to another process broke") from error
    except SystemExit as error:  # rich makes it of a broken pipe
        if isinstance(error.__context__, BrokenPipeError):
            raise OutputClosed from error
        raise


def until_closed(run: Callable[[], int]) -> int:
    """The exit code of ``run``, whose output is then written out; CLOSED if nobody reads it.

    >>> until_closed(lambda: 0)
    0
    """
    try:
        with noticed():
            code = run()
            for stream in (sys.stdout, sys.stderr):
                _written_out(stream)
    except OutputClosed:
        _leave_alone()
        return CLOSED
    return code


def open_streams() -> None:
    """Let what is said to a stream that was closed from the start go nowhere, as to /dev/null."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


def tell(text: str) -> None:
    """Write a sentence to standard error, if there is room for it."""
    try:
        sys.stderr.write(f"{text}\n")
    except BrokenPipeError:
        raise
    except OSError:
        _send_nowhere(sys.stderr)


def _written_out(stream: TextIO) -> None:
    try:
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError:  # a full disk, which was said already where it is the answer's
        _send_nowhere(stream)


def _send_nowhere(stream: TextIO) -> None:
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def is_closed() -> bool:
    """Whether nobody reads standard output or standard error any more, and not another pipe."""
    return any(map(_nobody_reads, (sys.stdout, sys.stderr)))


def _nobody_reads(stream: TextIO) -> bool:
    try:
        from select import POLLERR, poll

        asked = poll()
        asked.register(stream.fileno(), 0)
        return any(events & POLLERR for _, events in asked.poll(0))
    except ImportError:  # this system cannot say: what is written is most often standard output
        return True
    except (OSError, ValueError):  # no file of the system's, as in tests
        return False


def _leave_alone() -> None:
    """What is still to be written at the end of the process goes nowhere, and nothing is said."""
    for stream in (sys.stdout, sys.stderr):
        if _nobody_reads(stream):
            _send_nowhere(stream)
