"""Opening zips of strangers: what a damaged one raises, and a directory of limited size."""

from __future__ import annotations

import struct
import zipfile
import zlib
from dataclasses import dataclass
from typing import IO, final

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
