"""Files of strangers: no more than a limit is read, and nothing that may be waited for for ever."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from io import BufferedReader
    from pathlib import Path


def read_limited(path: Path, max_bytes: int) -> bytes:
    """The content of a file; OSError if it cannot be read, ValueError if too large or no file."""
    with open_regular(path) as file:
        data = file.read(max_bytes + 1)
    check_size(data, str(path), max_bytes)
    return data


def check_size(data: bytes, name: str, max_bytes: int) -> None:
    """ValueError for a content, called ``name``, of more than so many bytes, some MiB."""
    if len(data) > max_bytes:
        raise ValueError(f"{name}: more than {max_bytes // 2**20} MiB are not read")


def open_regular(path: Path) -> BufferedReader:
    """A file to read; OSError if it cannot be, ValueError for a named pipe, a device or a socket.

    The pipe of a shell (``/dev/stdin``, ``<(...)``) has no name of its own, and somebody writes it.
    """
    kind = path.stat().st_mode
    of_a_shell = stat.S_ISFIFO(kind) and not path.resolve().exists()
    if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind) or of_a_shell):
        raise ValueError(f"{path}: this is no regular file: pipes and devices are not read")
    return path.open("rb")


def open_plain(path: Path) -> BufferedReader:
    """A file to read, opened without following a link or waiting for a pipe; OSError if not."""
    flags = os.O_RDONLY
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"):  # where the system has them
        flags |= getattr(os, name, 0)
    return open(os.open(path, flags), "rb")
