"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def temporary_sibling(path: Path) -> Path:
    """A new hidden name next to a path, on the same file system."""
    return path.parent / f".{path.name}.{token_hex(4)}.tmp"


def write_files(contents: Mapping[Path, bytes]) -> None:
    """Write all files, each replaced in one move after all of them have been written.

    Symbolic links are followed; devices and pipes are written to directly. Raises OSError, and then
    no file has changed and no temporary is left behind.
    """
    moves = [
        (temporary_sibling(path.resolve()), path.resolve(), content)
        for path, content in contents.items()
        if not _is_special(path)
    ]
    try:
        for temporary, target, content in moves:
            with _naming(target):
                temporary.write_bytes(content)
        for path, content in contents.items():
            if _is_special(path):
                path.write_bytes(content)
        for temporary, target, _ in moves:
            os.replace(temporary, target)
    finally:
        for temporary, _, _ in moves:
            temporary.unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """OSError unless a file can be put at this path; asked before long work, not a guarantee."""
    if path.is_dir():
        raise IsADirectoryError(None, "is a directory, not a file", str(path))
    parent = path.resolve().parent
    if not parent.is_dir():
        raise FileNotFoundError(None, "there is no such directory", str(parent))
    if not os.access(path if _is_special(path) else parent, os.W_OK):
        raise PermissionError(None, "cannot be written to", str(parent))


def _is_special(path: Path) -> bool:
    return path.exists() and not path.is_file()


class _naming:  # noqa: N801 - reads as a statement
    """Errors inside name the file that was asked for, not its temporary."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            error.filename = str(self.target)
