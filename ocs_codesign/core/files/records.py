"""Records of files: lines of CSV or objects of JSON, with the same names for the same values.

The first line of CSV names its columns, in any order. Cells are separated by commas, semicolons or
tabs; empty lines and lines that begin with ``#`` are skipped, and an empty cell is a value that is
not given. JSON is a list of records, or an object with it under a key.
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, final

from ocs_codesign.core.files.archives import read_limited
from ocs_codesign.core.files.atomic import decoded, errors_at
from ocs_codesign.core.files.plain_text import read_plain_text
from ocs_codesign.core.quantities import NUMBER, exact, parse_number
from ocs_codesign.core.registry import later
from ocs_codesign.core.shown import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path


# What CSV files of all kinds have in common: delimiters and comments.


def is_comment(line: str) -> bool:
    """Whether a line is none of the table: empty, or begins with ``#``."""
    return not line.strip(" \t,;\r\n") or line.lstrip().startswith("#")


def delimiter_of(line: str) -> str:
    """What separates the cells of a line: tabs, or else semicolons, or else commas.

    >>> delimiter_of("a;b, c"), delimiter_of("a")
    (';', ',')
    """
    return next((mark for mark in "\t;" if mark in line), ",")


Record = TypeVar("Record")
Read: TypeAlias = "Callable[[Any, str], Any]"
"""What makes a value of a cell or of a value in JSON, and what errors call it."""

_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")


@final
@dataclass(frozen=True, slots=True)
class RecordLayout(Generic[Record]):
    """What every record of a ``whole`` has: names of columns and keys, and what they give.

    ``fields`` has the part of the record that a name gives and how it is read; names of one part
    exclude each other. Of ``required`` parts the first name is in errors. ``make`` takes the parts
    by name; no more than ``most`` records are read. ``other`` is a key beside their list in JSON.
    """

    whole: str
    record: str
    fields: Mapping[str, tuple[str, Read]]
    required: tuple[str, ...]
    make: Callable[..., Record]
    most: int
    other: str

    def check_number(self, number: int) -> None:
        """ValueError for so many records if they are too many."""
        if number > self.most:
            raise ValueError(f"more than {self.most} {self.record}s: no more are planned")

    def check_names(self, names: list[str], place: str, before: str = "") -> None:
        """ValueError unless names are known, give a part once at most, and all required ones."""
        _check_known(names, self.fields, place)
        given: dict[str, str] = {}
        for name in names:
            part = self.fields[name][0]
            if part in given:
                both = f"{given[part]} and {name}"
                raise ValueError(f"{before}both {both} are given: only one can be")
            given[part] = name
        for name, (part, _) in self.fields.items():
            if part in self.required and part not in given:
                raise ValueError(f"{before}there is no {name}: every {self.record} has one")

    def record_of(self, values: Mapping[str, Any], before: str = "") -> Record:
        """The record with these values by name; errors put ``before`` in front of a name."""
        parts = {}
        for name, value in values.items():
            part, read = self.fields[name]
            parts[part] = read(value, before + name)
        return self.make(**parts)


def parse_records(
    data: bytes, name: str, layout: RecordLayout[Record], *, is_json: bool
) -> tuple[list[tuple[str, Record]], Any]:
    """The records of a content and where each is, and what is under the other key in JSON.

    Errors begin with the name, then the line or the place in the JSON, as in ``jobs[3]``.
    """
    if not is_json:
        return list(_csv_records(data, name, layout)), None
    value: Any = read_plain_text(data, name, is_json=True).value
    key, other = "", None
    many = f"{layout.record}s"
    with errors_at(name):
        if isinstance(value, dict):
            _check_known(value, (many, layout.other), f"the {layout.whole}")
            key, value, other = many, value.get(many), value.get(layout.other)
        if not isinstance(value, list):
            listed = f"a list of {many}, or an object with such a list as {many}"
            raise ValueError(f"a {layout.whole} is {listed}")
        layout.check_number(len(value))
        places = [f"{key}[{number}]" for number in range(len(value))]
        records = map(partial(_json_record, layout), value, places)
        return list(zip((f"{name}: {place}" for place in places), records, strict=True)), other


def _csv_records(
    data: bytes, name: str, layout: RecordLayout[Record]
) -> Iterator[tuple[str, Record]]:
    columns: list[str] = []
    known: dict[tuple[str, ...], Record] = {}
    for number, (line, cells) in enumerate(_rows(decoded(data, name), name)):
        place = f"{name}, line {line}"
        with errors_at(place):
            if not number:
                columns = [cell.lower().replace("-", "_").replace(" ", "_") for cell in cells]
                layout.check_names(columns, "the heading")
                continue
            layout.check_number(number)
            if cells not in known:
                known[cells] = _csv_record(layout, columns, cells)
        yield place, known[cells]


def _csv_record(layout: RecordLayout[Record], columns: list[str], cells: tuple[str, ...]) -> Record:
    if len(cells) != len(columns):
        raise ValueError(f"{len(cells)} cells, but the heading has {len(columns)} columns")
    values = dict(zip(columns, cells, strict=True))
    for column, cell in values.items():
        if not cell and layout.fields[column][0] in layout.required:
            raise ValueError(f"{column} is empty: every {layout.record} has one")
    return layout.record_of({column: cell for column, cell in values.items() if cell})


def _json_record(layout: RecordLayout[Record], value: Any, place: str) -> Record:
    if not isinstance(value, dict):
        raise ValueError(f"{place} is {shown(value)}: a {layout.record} is an object")
    layout.check_names(list(value), place, f"{place}: ")
    return layout.record_of(value, f"{place}.")


def _check_known(names: Iterable[str], known: Iterable[str], place: str) -> None:
    for name in names:
        if name not in known:
            raise ValueError(f"{place} names {shown(name)}: known are {', '.join(known)}")


def _rows(text: str, name: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Lines with their cells, empty ones and comments left out."""
    heading = next((line for line in text.splitlines() if not is_comment(line)), "")
    lines = ("\n" if row.lstrip()[:1] == "#" else row for row in io.StringIO(text, newline=""))
    reader = csv.reader(lines, delimiter=delimiter_of(heading), strict=True, skipinitialspace=True)
    line = 1
    try:
        for row in reader:
            cells = tuple(cell.strip() for cell in row)
            if _is_content(cells):
                yield line, cells
            line = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(f"{name}, line {line}: this is not CSV ({error})") from None


def _is_content(cells: tuple[str, ...]) -> bool:
    return any(cells) and not cells[0].startswith("#")


def quantity(parse: Callable[[str], float], example: str) -> Read:
    """Reads texts with a unit, such as the example."""

    def read(value: Any, name: str) -> Fraction:
        if not isinstance(value, str):
            raise ValueError(
                f"{name} is {shown(value)}: write it as a text with a unit, as in {example}"
            )
        with errors_at(name):
            return exact(parse(value))

    return read


def number(value: Any, name: str) -> Fraction:
    """A number of JSON, or the text of one in a cell; it cannot be negative."""
    if isinstance(value, str) and NUMBER.fullmatch(value):
        value = parse_number(value)
    if isinstance(value, bool) or not isinstance(value, (int, float, Fraction)):
        raise ValueError(f"{name} is {shown(value)}: it must be a number without a unit")
    if value < 0:
        raise ValueError(f"{name} is {float(value):.6g}: it cannot be negative")
    return exact(value)


def count_to(most: int, *, least: int = 1) -> Read:
    """Reads whole numbers from the least to the largest."""

    def read(value: Any, name: str) -> int:
        if isinstance(value, str) and _WHOLE.fullmatch(value):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"{name} is {shown(value)}: it must be a whole number")
        if not least <= value <= most:
            raise ValueError(f"{name} is {shown(value)}: it must be from {least} to {most}")
        return value

    return read


def within(
    read: Read, least: Fraction | int, most: int, rule: str, *, is_zero_allowed: bool = True
) -> Read:
    """Reads what another reader does, between the limits or perhaps 0, as the rule says."""

    def bounded(value: Any, name: str) -> Fraction:
        number: Fraction = read(value, name)
        if not (least <= number <= most if number else is_zero_allowed):
            raise ValueError(f"{name} is {float(number):.6g}: it must be {rule}")
        return number

    return bounded


# What a format of files is, and how the format of a file is told.


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
    read: Callable[..., Value] | None = None
    write: Callable[[Value, str], str] | None = None
    suffixes: tuple[str, ...] = ()
    marks: tuple[bytes, ...] = ()


def both(room: str, kind: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The functions read_KIND and write_KIND of a module by its full name."""
    return later(f"{room}.read_{kind}"), later(f"{room}.write_{kind}")


def readers(formats: Mapping[str, Format[Value]]) -> dict[str, Callable[..., Value]]:
    """The formats that can be read, by name."""
    return {name: one.read for name, one in formats.items() if one.read is not None}


def writers(formats: Mapping[str, Format[Value]]) -> dict[str, Callable[[Value, str], str]]:
    """The formats that can be written, by name."""
    return {name: one.write for name, one in formats.items() if one.write is not None}


def format_by_suffix(formats: Mapping[str, Format[Any]], path: Path) -> str | None:
    """The format that a file's name tells, None if it tells none."""
    told = (name for name, one in formats.items() if path.suffix.lower() in one.suffixes)
    return next(told, None)


XML = (b"<", b"\xff\xfe", b"\xfe\xff")
EDGE_LISTS = (".edges", ".edgelist", ".csv", ".tsv", ".txt")
"""Marks and suffixes of graphs, whether topologies or networks."""

MAX_PARTS = 2**22
"""Lines, values, lists, objects and tags of a file that is read, all together."""

_FOREIGN = {
    "a Python pickle, which could run anything": rb"\x80[\x02-\x05]",
    "a zip archive, as npz files are": rb"PK\x03\x04",
    "a compressed file": rb"\x1f\x8b|BZh|\xfd7zXZ",
    "HDF5, Parquet or SQLite": rb"\x89HDF|PAR1|SQLite format",
    "a Matrix Market file": rb"%%MatrixMarket",
    "DOT": rb"(?:strict\s+)?(?:di)?graph\b[^{\n]*\{",
    "GML": rb"(?:Creator\b.*\s+)?graph\s*\[",
    "a Pajek file": rb"(?i:\*vertices|\*network)\b",
}


def read_file(
    formats: Mapping[str, Format[Value]],
    path: Path,
    name: str | None,
    max_bytes: int,
    empty: str = "the file is empty",
    **asked: Any,
) -> tuple[Value, str]:
    """The value in a file of the format of that name, or of the one that the file tells; which.

    What is ``asked``, None left out, is given to the reader.
    Raises OSError if the file cannot be read and ValueError, with the file and the place, if it is
    larger than ``max_bytes`` or has more than MAX_PARTS, both counted before anything is made of
    it, if it is not of the format or, in the words of ``empty``, empty.
    """
    able = readers(formats)
    if name is not None and name not in able:
        raise ValueError(f"format is {name!r}: it must be one of {', '.join(able)}")
    data = read_limited(path, max_bytes)
    if not data or data.isspace():
        raise ValueError(f"{path}: {empty}")
    if not data.startswith(tuple(mark for each in able for mark in formats[each].marks)):
        _check_start(data, path, [formats[each].description for each in able])
    if sum(data.count(mark) for mark in b"\n,[{<") > MAX_PARTS:
        raise ValueError(f"{path}: more than {MAX_PARTS:,} lines, values and tags are not read")
    name = name or _told(formats, path, data)
    # What has a zero byte at its start is no text, and no reader of texts goes on behind it.
    if formats[name].marks and b"\0" not in data[:1024] and _has_long_word(data):
        raise ValueError(f"{path}: words of more than {_WORD_BYTES:,} bytes are not read")
    more = {key: value for key, value in asked.items() if value is not None}
    return able[name](data, str(path), **more), name


_WORD_BYTES = 2**16
_BETWEEN_WORDS = b" \n\r\t\"',<>[]{}"


def _has_long_word(data: bytes) -> bool:
    """Whether a block of _WORD_BYTES has nothing that ends a word, as twice as long words have."""
    blocks = (data[at : at + _WORD_BYTES] for at in range(0, len(data), _WORD_BYTES))
    return any(len(each.translate(None, _BETWEEN_WORDS)) == _WORD_BYTES for each in blocks)


def _check_start(data: bytes, path: Path, able: list[str]) -> None:
    """ValueError for what begins as a format that no reader has."""
    for what, pattern in _FOREIGN.items():
        if re.match(pattern, data[:1024].lstrip()):
            raise ValueError(f"{path}: this is {what}: read are {', '.join(dict.fromkeys(able))}")


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
