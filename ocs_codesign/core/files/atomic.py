"""Files and directories that appear whole or not at all: written beside their place, then moved."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping


def write_files(contents: Mapping[Path, bytes | Iterable[bytes]]) -> None:
    """Write all files, each replaced in one move after all of them have been written.

    A content may come block by block. Symbolic links are followed; devices and pipes are written to
    directly. Raises OSError, and then no file has changed and no temporary is left behind.
    """
    moves = {path: _sibling(path.resolve()) for path in contents if not _is_special(path)}
    try:
        for path, temporary in moves.items():
            _write(temporary, contents[path], path)
        for path, content in contents.items():
            if path not in moves:
                _write(path, content, path)
        for path, temporary in moves.items():
            os.replace(temporary, path.resolve())
    finally:
        for temporary in moves.values():
            temporary.unlink(missing_ok=True)


@contextmanager
def whole_directory(directory: Path, *, swapped: bool) -> Iterator[Path]:
    """A new directory to fill, which then becomes ``directory``, whole or not at all.

    One that exists is replaced as a whole if it is to be ``swapped``, else it keeps its place and
    the new files replace its own. Raises OSError, and then what was there is still there.
    """
    target = directory.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    part = _sibling(target)
    try:
        with _naming(target):
            part.mkdir()
        yield part
        _move(part, target, swapped=swapped)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _move(part: Path, target: Path, *, swapped: bool) -> None:
    """Put a finished directory in its place; an earlier one is put back if that fails."""
    if not target.exists():
        os.rename(part, target)
    elif not swapped:
        for path in sorted(part.iterdir()):
            os.replace(path, target / path.name)
    else:
        earlier = _sibling(target)
        os.rename(target, earlier)
        try:
            os.rename(part, target)
        finally:
            if target.exists():
                shutil.rmtree(earlier, ignore_errors=True)
            else:
                os.rename(earlier, target)


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """A temporary file to make, which then becomes ``path``, unless a rival's is there by then.

    Raises OSError if no file can be put there.
    """
    check_writable(path)
    temporary = _sibling(path)
    try:
        yield temporary
        with suppress(FileExistsError):
            os.link(temporary, path)
    finally:
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


def check_replaceable(
    directory: Path, foreign: Callable[[Path], Collection[str]], rule: str, *, swapped: bool = False
) -> None:
    """ValueError or OSError unless a directory can be made there, or replaced.

    ``foreign`` finds the files in an earlier one that must stay; ``rule`` says where to write. One
    that is ``swapped`` as a whole must not be, or hold, the working directory.
    """
    near = next(parent for parent in directory.parents if parent.exists())
    if directory.exists():
        if not directory.is_dir():
            raise NotADirectoryError(None, "is a file, not a directory", str(directory))
        others = sorted(foreign(directory))
        if others:
            raise ValueError(f"{directory} holds other files ({others[0]!r}): {rule}")
        if swapped and directory in (here := Path.cwd().resolve(), *here.parents):
            raise ValueError(
                f"{directory} is or holds the working directory and would be replaced as a whole: "
                "write to another one"
            )
    if not os.access(near, os.W_OK):
        raise PermissionError(None, "cannot be written to", str(near))


def _write(place: Path, content: bytes | Iterable[bytes], asked: Path) -> None:
    """Write a file at ``place``; errors name the one that was ``asked`` for."""
    with _naming(asked), place.open("wb") as file:
        file.writelines([content] if isinstance(content, bytes) else content)


def _sibling(path: Path) -> Path:
    """A new hidden name next to a path, on the same file system."""
    return path.parent / f".{path.name}.{token_hex(4)}.tmp"


def _is_special(path: Path) -> bool:
    return path.exists() and not path.is_file()


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Errors inside name the file that was asked for, not its temporary."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


# Where in a file something is wrong: errors that begin with the file and the line or place.


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
