"""Files and directories that appear whole or not at all: written beside their place, then moved."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import ExitStack, contextmanager, suppress
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
    moves: dict[Path, Path] = {}
    with ExitStack() as claims:
        for path in contents:
            if not _is_special(path):
                with _naming(path):
                    moves[path] = claims.enter_context(_claimed(path.resolve(), Path.touch))
        for path, content in contents.items():
            with _naming(path), moves.get(path, path).open("wb") as file:
                file.writelines([content] if isinstance(content, bytes) else content)
        for path, temporary in moves.items():
            os.replace(temporary, path.resolve())


@contextmanager
def whole_directory(directory: Path, *, swapped: bool) -> Iterator[Path]:
    """A new directory to fill, which then becomes ``directory``, whole or not at all.

    One that exists is replaced as a whole if it is to be ``swapped``, else it keeps its place and
    the new files replace its own. Raises OSError, and then what was there is still there.
    """
    target = directory.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    recovered(target)
    with ExitStack() as claims:
        with _naming(target):
            part = claims.enter_context(_claimed(target, Path.mkdir))
        yield part
        with held_alone(target):
            _move(part, target, swapped=swapped)


def _move(part: Path, target: Path, *, swapped: bool) -> None:
    """Put a finished directory in its place; an earlier one is put back if that fails."""
    if not target.exists():
        os.rename(part, target)
    elif not swapped:
        for path in sorted(part.iterdir()):
            os.replace(path, target / path.name)
    elif not _exchanged(part, target):
        earlier = _sibling(target, _EARLIER)
        os.rename(target, earlier)
        try:
            os.rename(part, target)
        finally:
            if target.exists():
                shutil.rmtree(earlier, ignore_errors=True)
            else:
                os.rename(earlier, target)


def _exchanged(one: Path, other: Path) -> bool:
    """Whether two directories have changed names in one step, which some systems cannot do."""
    import ctypes

    try:
        renameat2 = ctypes.CDLL(None).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    here, exchange = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux
    return bool(renameat2(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0)


def recovered(path: Path) -> bool:
    """Whether a directory was put back that an interrupted command had taken away to replace it.

    What such commands have left beside it, under whatever name, is removed or put back as well.
    """
    path = path.resolve()
    is_back = False
    for left, place, kind in _left_behind(path.parent):
        with suppress(OSError), _locked(left, or_else=place == path) as is_ours:
            if not is_ours:
                continue
            if kind == _EARLIER and not place.exists():
                os.rename(left, place)
                is_back |= place == path
            else:
                _remove(left)
    return is_back


_HELD: set[tuple[int, int]] = set()
"""What this process holds, by device and number."""


@contextmanager
def held_alone(path: Path) -> Iterator[None]:
    """No other command changes what is at a path meanwhile; ValueError if one does already."""
    if not path.exists() or _number(path.stat()) in _HELD:
        yield
        return
    with _locked(path.resolve()) as is_ours:
        if not is_ours:
            raise ValueError(f"{path}: another command is changing it; try again when it is done")
        yield


def _number(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


@contextmanager
def _locked(path: Path, *, or_else: bool = True) -> Iterator[bool]:
    """Whether what is at a path is locked for this process, until then or the process ends.

    The answer is ``or_else`` on a file system without locks, where nobody can tell.
    """
    place, is_ours = os.open(path, os.O_RDONLY | os.O_NOFOLLOW), False
    try:
        key = _number(os.fstat(place))
        is_ours = key not in _HELD and _flocked(place, or_else)
        # By the time it is locked it may have been replaced.
        is_ours = is_ours and path.exists() and _number(path.stat()) == key
        if is_ours:
            _HELD.add(key)
        yield is_ours
    finally:
        if is_ours:
            _HELD.discard(key)
        os.close(place)


def _flocked(place: int, or_else: bool) -> bool:
    import fcntl

    try:
        fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return or_else
    return True


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """A temporary file to make, which then becomes ``path``, unless a rival's is there by then.

    Raises OSError if no file can be put there.
    """
    check_writable(path)
    with _claimed(path, Path.touch) as temporary:
        yield temporary
        with suppress(FileExistsError):
            os.link(temporary, path)


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


_TEMPORARY, _EARLIER = "ocs-tmp", "ocs-old"  # which nobody else has: they are removed
_SIBLING = re.compile(rf"\.(.+)\.[0-9a-f]{{8}}\.({_TEMPORARY}|{_EARLIER})", re.DOTALL)


def _sibling(path: Path, kind: str) -> Path:
    """A new hidden name next to a path, on the same file system."""
    return path.parent / f".{path.name}.{token_hex(4)}.{kind}"


def _left_behind(directory: Path) -> list[tuple[Path, Path, str]]:
    """What has a name of ``_sibling``, in order, each with its path and kind."""
    with suppress(OSError):
        named = [(name, _SIBLING.fullmatch(name)) for name in sorted(os.listdir(directory))]
        return [(directory / name, directory / of[1], of[2]) for name, of in named if of]
    return []


@contextmanager
def _claimed(path: Path, make: Callable[[Path], None]) -> Iterator[Path]:
    """A file or directory beside a path, made for this process alone and gone afterwards.

    It is locked, so that others can tell what a process that has ended left behind.
    """
    recovered(path)
    with ExitStack() as stack:
        is_ours = False
        while not is_ours:
            # It may be taken for left behind, and removed, before it is locked.
            part = _sibling(path, _TEMPORARY)
            make(part)
            stack.callback(_remove, part)
            with suppress(FileNotFoundError):
                is_ours = stack.enter_context(_locked(part))
        yield part


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


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
    ...     raise ValueError("a row has 3 columns")
    Traceback (most recent call last):
    ValueError: t.csv, line 2: a row has 3 columns
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
