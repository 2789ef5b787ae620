"""What a format of files is, and how the format of a file is told."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar, final

from ocs_codesign.files.limited import read_limited

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

Value = TypeVar("Value")


@final
@dataclass(frozen=True, slots=True)
class Format(Generic[Value]):
    """A way to hold values of a kind, such as topologies, in files: read, written or both.

    ``read`` takes a content and what errors call it, ``write`` a value and a title; the same value
    and title give the same text. What cannot be read or written is a ValueError. A name that ends
    with one of ``suffixes`` tells that a file is of this format, else one of ``marks`` at the start
    of its text does. One list of formats by name is what commands, their help and tests go by.
    """

    description: str
    read: Callable[[bytes, str], Value] | None = None
    write: Callable[[Value, str], str] | None = None
    suffixes: tuple[str, ...] = ()
    marks: tuple[bytes, ...] = ()


def later(name: str) -> Callable[..., Any]:
    """A function by its full name, imported when it is called: what is listed costs no import."""
    module, _, function = name.rpartition(".")

    def call(*arguments: Any) -> Any:
        return getattr(import_module(module), function)(*arguments)

    return call


def both(room: str, kind: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The functions read_KIND and write_KIND of a module by its full name."""
    return later(f"{room}.read_{kind}"), later(f"{room}.write_{kind}")


def readers(formats: Mapping[str, Format[Value]]) -> dict[str, Callable[[bytes, str], Value]]:
    """The formats that can be read, by name."""
    return {name: one.read for name, one in formats.items() if one.read is not None}


def writers(formats: Mapping[str, Format[Value]]) -> dict[str, Callable[[Value, str], str]]:
    """The formats that can be written, by name."""
    return {name: one.write for name, one in formats.items() if one.write is not None}


def format_by_suffix(formats: Mapping[str, Format[Any]], path: Path) -> str | None:
    """The format that a file's name tells, None if it tells none."""
    told = (name for name, one in formats.items() if path.suffix.lower() in one.suffixes)
    return next(told, None)


def read_file(
    formats: Mapping[str, Format[Value]],
    path: Path,
    name: str | None,
    max_bytes: int,
    empty: str = "the file is empty",
) -> tuple[Value, str]:
    """The value in a file of the format of that name, or of the one that the file tells; which.

    Raises OSError if the file cannot be read and ValueError, with the file and the place, if it is
    larger than ``max_bytes``, not of the format or, in the words of ``empty``, empty.
    """
    able = readers(formats)
    if name is not None and name not in able:
        raise ValueError(f"format is {name!r}: it must be one of {', '.join(able)}")
    data = read_limited(path, max_bytes)
    if not data.strip():
        raise ValueError(f"{path}: {empty}")
    name = name or _told(formats, path, data)
    return able[name](data, str(path)), name


def _told(formats: Mapping[str, Format[Any]], path: Path, data: bytes) -> str:
    """The format that the suffix tells, or else the first mark, or else the one without marks."""
    start = data[:1024].removeprefix(b"\xef\xbb\xbf").lstrip()
    able = {name: formats[name] for name in readers(formats)}
    ways = (
        filter(None, [format_by_suffix(able, path)]),
        (name for name, one in able.items() if start.startswith(one.marks)),
        (name for name, one in able.items() if not one.marks),
    )
    return next(name for way in ways for name in way)
