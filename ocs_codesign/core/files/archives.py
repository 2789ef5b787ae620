"""A directory of a stranger as one file: a zip, unpacked for as long as it is read.

Nothing is written outside the place where it is unpacked: names with ``..`` or of other places,
links and special files are refused, and so is more than a limit, before anything is unpacked.
"""

from __future__ import annotations

import os
import stat
import struct
import zipfile
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING, final

from ocs_codesign.core.shown import shown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedReader


# Opening zips of strangers: what a damaged one raises, and a directory of limited size.


MAX_INFLATION = 1040
"""Bytes that one byte of an entry may become: deflate cannot pack more than 1032 into one."""
MAX_DIRECTORY_BYTES = 2**20

BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    OverflowError,
    IndexError,
    SystemError,
)
"""What the zip reader raises for archives that are damaged, encrypted or exotic."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Guarded:
    """A file of which no single read takes more than a block, so no directory can be larger."""

    file: IO[bytes]
    what: str
    most: int = MAX_DIRECTORY_BYTES

    def read(self, size: int = -1) -> bytes:
        """The next bytes; ValueError for more than a block."""
        if size > self.most:
            raise ValueError(f"the archive's directory is too large for {self.what}")
        return self.file.read(size if size >= 0 else self.most)

    def seek(self, offset: int, whence: int = 0) -> int:
        """The new place; ValueError before the beginning."""
        if whence == 0 and offset < 0:
            raise ValueError("the archive's directory points outside the archive")
        return self.file.seek(offset, whence)

    def tell(self) -> int:
        """The place."""
        return self.file.tell()

    def seekable(self) -> bool:
        """Always."""
        return True


def broken_reason(error: Exception) -> str:
    """What the zip reader says, which may echo the archive, on one line of a readable length."""
    told = " ".join(str(error).split()).strip(" .") or type(error).__name__
    return told if len(told) <= 200 else told[:197] + "..."


# Files of strangers: no more than a limit is read, and nothing that may be waited for for ever.


def read_limited(path: Path, max_bytes: int) -> bytes:
    """The content of a file; OSError if it cannot be read, ValueError if too large or no file."""
    with open_regular(path) as file:
        check_size(os.fstat(file.fileno()).st_size, str(path), max_bytes)
        data = file.read(max_bytes + 1)  # which may have grown, or come out of a pipe
    check_size(len(data), str(path), max_bytes)
    return data


def check_size(num_bytes: int, name: str, max_bytes: int) -> None:
    """ValueError for a content, called ``name``, of more than so many bytes, some MiB."""
    if num_bytes > max_bytes:
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


MAX_ENTRIES = 100_000
MAX_CONTENT_BYTES = 4 * 2**30
_MAX_NAME, _MAX_DEPTH = 1024, 16
_DIRECTORY_BYTES = 32 * 2**20
_BLOCK = 2**20
_SLACK = 2**10


@contextmanager
def as_directory(path: Path, what: str) -> Iterator[Path]:
    """The directory itself, or what ``what`` has in a zip, unpacked; it is gone afterwards.

    Of a zip it is the only folder there is, or all of it. Errors name the zip, not where it was
    unpacked. Raises OSError if it cannot be read and ValueError for anything but a zip of regular
    files with plain names and within the limits.
    """
    if not path.exists() or path.is_dir():
        yield path
        return
    with TemporaryDirectory(prefix="ocs-codesign-") as place:
        folder = _unpacked(path, what, Path(place))
        with _naming(path, folder):
            yield folder


def only_folder(path: Path, what: str) -> str:
    """The name of the only folder in a zip, empty if there are more or none; errors likewise."""
    with _opened(path, what) as archive:
        return _only([parts for _, parts in _checked(archive, path)])


def _unpacked(path: Path, what: str, place: Path) -> Path:
    with _opened(path, what) as archive:
        entries = _checked(archive, path)
        for member, parts in entries:
            target = place.joinpath(*parts)
            if member.is_dir():
                target.mkdir(parents=True, exist_ok=True)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(member) as content, target.open("xb") as file:
                while block := content.read(_BLOCK):
                    file.write(block)
                if file.tell() != member.file_size:
                    raise ValueError(f"{shown(member.filename)} is shorter than it declares")
        return place / _only([parts for _, parts in entries])


@contextmanager
def _opened(path: Path, what: str) -> Iterator[zipfile.ZipFile]:
    with open_regular(path) as file:
        if not file.seekable():
            raise ValueError(f"{path}: this is a pipe: an archive is read from a file")
        try:
            with zipfile.ZipFile(Guarded(file, what, _DIRECTORY_BYTES)) as archive:
                yield archive
        except BROKEN as error:
            reason = broken_reason(error)
            raise ValueError(f"{path}: {what} is a directory or a zip: {reason}") from None
        except (FileExistsError, NotADirectoryError) as error:
            raise ValueError(f"{path}: two entries of it are in one place") from error
        except ValueError as error:
            told = str(error)
            raise ValueError(told if told.startswith(f"{path}") else f"{path}: {told}") from None


def _checked(archive: zipfile.ZipFile, path: Path) -> list[tuple[zipfile.ZipInfo, tuple[str, ...]]]:
    """Every entry and the parts of its name, after all have been looked at."""
    members = archive.infolist()
    if len(members) > MAX_ENTRIES:
        raise ValueError(f"{len(members):,} entries: at most {MAX_ENTRIES:,} are read")
    if sum(member.file_size for member in members) > MAX_CONTENT_BYTES:
        raise ValueError(f"it unpacks to more than the {MAX_CONTENT_BYTES:,} bytes that are read")
    if sum(member.compress_size for member in members) > path.stat().st_size:
        raise ValueError("its entries overlap: together they are larger than the file")
    entries = [(member, _parts(member)) for member in members]
    seen = set()
    for member, parts in entries:
        if parts in seen:
            raise ValueError(f"{shown('/'.join(parts))} is in the archive twice")
        seen.add(parts)
        _check_kind(member)
    return entries


def _parts(member: zipfile.ZipInfo) -> tuple[str, ...]:
    """The folders and the file of an entry's name; ValueError unless they are plain."""
    name = member.orig_filename
    parts = tuple(name.removesuffix("/").split("/"))
    if name.startswith(("/", "\\")) or parts[0][1:2] == ":":
        raise ValueError(f"{shown(name)} is a place outside of the archive: names are relative")
    if ".." in parts:
        raise ValueError(f"{shown(name)} leads out of the archive")
    if len(name) > _MAX_NAME or len(parts) > _MAX_DEPTH:
        raise ValueError(f"{shown(name)} is too long or too deep a name")
    if not name.isprintable() or "\\" in name or not {"", "."}.isdisjoint(parts):
        raise ValueError(f"{shown(name)} is not the name of a file")
    return parts


def _check_kind(member: zipfile.ZipInfo) -> None:
    name, mode = shown(member.filename), member.external_attr >> 16
    if member.flag_bits & 1:
        raise ValueError(f"{name} is encrypted")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{name} is neither stored nor deflated")
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise ValueError(f"{name} is a link or a special file, which is not read")
    if member.file_size > MAX_INFLATION * member.compress_size + _SLACK:
        raise ValueError(f"{name} declares more bytes than it can hold")


def _only(names: list[tuple[str, ...]]) -> str:
    firsts = {parts[0] for parts in names}
    has_file = any(len(parts) == 1 for parts in names) and len(names) == 1
    return firsts.pop() if len(firsts) == 1 and not has_file else ""


@contextmanager
def _naming(path: Path, folder: Path) -> Iterator[None]:
    """Errors inside name the archive."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            error.filename = str(error.filename).replace(str(folder), str(path))
        raise
    except ValueError as error:
        if str(folder) not in str(error):
            raise
        raise ValueError(str(error).replace(str(folder), str(path))) from error
