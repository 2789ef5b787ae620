"""Trace files: the collectives of a job in order, as CSV or JSON.

Columns of a CSV file, named by its first line in any order, and keys of a job in JSON alike:

=============================== ========================================================
``collective``                  allgather, reduce-scatter, allreduce or alltoall
``message`` (or                 M, the size of the whole data, with its unit, as in
``message_bytes``)              ``64MiB`` (a number)
``gap`` (or ``gap_s``)          time before it that needs no circuits, as in ``1.5ms``
                                (a number of seconds); 0 by default
``gap_after`` (``gap_after_s``) the same after it
``count``                       how often it comes in a row, 1 by default
=============================== ========================================================

CSV cells are separated by commas, semicolons or tabs; empty lines and lines that begin with ``#``
are skipped. JSON is a list of jobs, or an object ``{"jobs": [...], "repeat": 100}`` whose jobs are
repeated as a whole.
"""

from __future__ import annotations

import csv
import io
import re
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ocs_codesign.collective import WITHOUT_PARAMETERS, Collective
from ocs_codesign.files.naming import shown
from ocs_codesign.files.plain_text import read_plain_text
from ocs_codesign.formats.csv_text import NUMBER, delimiter_of, is_comment, placed, text_of
from ocs_codesign.formats.file_format import Format, read_file
from ocs_codesign.quantities import exact, parse_size, parse_time
from ocs_codesign.reconfigure.hold.trace import MAX_JOBS, Job, Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

MAX_TRACE_BYTES = 32 * 2**20
LEAST_MESSAGE_BYTES, MAX_MESSAGE_BYTES = Fraction(1, 8), 10**18
LEAST_GAP_S, MAX_GAP_S = Fraction(1, 10**12), 10**9

_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")


def read_trace(path: str | Path) -> Trace:
    """The trace in a CSV or JSON file, told apart by the suffix, or by the content under any other.

    Raises OSError if the file cannot be read and ValueError, with the file, the line or the place
    in the JSON, and the rule, for anything else.
    """
    empty = "the trace is empty: it needs at least one job"
    return read_file(TRACE_FORMATS, Path(path), None, MAX_TRACE_BYTES, empty)[0]


def read_csv_trace(data: bytes, name: str) -> Trace:
    """The trace in a CSV file; errors name the file and the line.

    >>> read_csv_trace(b"collective,message,gap\\nallreduce,1MiB,2ms\\n", "t.csv").num_jobs
    1
    >>> read_csv_trace(b"collective,message\\nallsum,1MiB\\n", "t.csv")
    Traceback (most recent call last):
    ValueError: t.csv, line 2: collective 'allsum' is not known: it is one of allgather, \
reduce-scatter, allreduce, alltoall
    """
    jobs: list[Job] = []
    columns: list[str] | None = None
    known: dict[tuple[str, ...], Job] = {}
    for line, cells in _rows(text_of(data, name), name):
        with placed(f"{name}, line {line}"):
            if columns is None:
                columns = [cell.lower().replace("-", "_").replace(" ", "_") for cell in cells]
                _check_names(columns, "the heading")
                continue
            if cells not in known:
                known[cells] = _csv_job(columns, cells)
            jobs.append(known[cells])
            if len(jobs) > MAX_JOBS:
                raise ValueError(f"more than {MAX_JOBS} jobs: no more are planned")
    with placed(name):
        return Trace(jobs)


def read_json_trace(data: bytes, name: str) -> Trace:
    """The trace in a JSON file; errors name the file and the place, as in ``jobs[3].gap``.

    >>> read_json_trace(b'[{"collective": "alltoall", "message": "8kB", "count": 3}]', "t").num_jobs
    3
    """
    value = read_plain_text(data, name, is_json=True).value
    with placed(name):
        place, jobs, repeat = "", value, 1
        if isinstance(value, dict):
            _check_known(value, ("jobs", "repeat"), "the trace")
            place, jobs = "jobs", value.get("jobs")
            repeat = _count(value.get("repeat", 1), "repeat")
        if not isinstance(jobs, list):
            raise ValueError("a trace is a list of jobs, or an object with such a list as jobs")
        if len(jobs) > MAX_JOBS:
            raise ValueError(f"more than {MAX_JOBS} jobs: no more are planned")
        return Trace([_json_job(job, f"{place}[{at}]") for at, job in enumerate(jobs)], repeat)


TRACE_FORMATS: dict[str, Format[Trace]] = {
    "csv": Format("a job a line", read_csv_trace, None, (".csv", ".tsv")),
    "json": Format("jobs", read_json_trace, None, (".json",), (b"{", b"[")),
}
"""Every format of traces."""


def _rows(text: str, name: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Lines with their cells, empty ones and comments left out."""
    heading = next((line for line in text.splitlines() if not is_comment(line)), "")
    lines = ("\n" if row.lstrip()[:1] == "#" else row for row in io.StringIO(text, newline=""))
    reader = csv.reader(lines, delimiter=delimiter_of(heading), strict=True)
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


def _csv_job(columns: list[str], cells: tuple[str, ...]) -> Job:
    if len(cells) != len(columns):
        raise ValueError(f"{len(cells)} cells, but the heading has {len(columns)} columns")
    for column, cell in zip(columns, cells, strict=True):
        if not cell and FIELDS[column][0] in ("collective", "message_bytes"):
            raise ValueError(f"{column} is empty: every job has one")
    return _job({column: cell for column, cell in zip(columns, cells, strict=True) if cell})


def _json_job(value: Any, place: str) -> Job:
    if not isinstance(value, dict):
        raise ValueError(f"{place} is {shown(value)}: a job is an object")
    _check_names(list(value), place, f"{place}: ")
    return _job(value, f"{place}.")


def _job(values: dict[str, Any], before: str = "") -> Job:
    """The job with these values by name."""
    parts = {}
    for name, value in values.items():
        part, read = FIELDS[name]
        parts[part] = read(value, before + name)
    return Job(parts.pop("collective"), parts.pop("message_bytes"), **parts)


def _check_names(names: list[str], place: str, before: str = "") -> None:
    """ValueError unless every part of a job is named once at most, and the two that it needs."""
    _check_known(names, FIELDS, place)
    given: dict[str, str] = {}
    for name in names:
        part = FIELDS[name][0]
        if part in given:
            raise ValueError(f"{before}both {given[part]} and {name} are given: only one can be")
        given[part] = name
    for part, wanted in (("collective", "collective"), ("message_bytes", "message")):
        if part not in given:
            raise ValueError(f"{before}there is no {wanted}: every job has one")


def _check_known(names: Iterable[str], known: Iterable[str], place: str) -> None:
    for name in names:
        if name not in known:
            raise ValueError(f"{place} names {shown(name)}: known are {', '.join(known)}")


def _collective(value: Any, name: str) -> Collective:
    if not isinstance(value, str):
        raise ValueError(f"{name} is {shown(value)}: it must be a text")
    try:
        return Collective.parse(value)
    except ValueError:
        names = ", ".join(member.name for member in WITHOUT_PARAMETERS)
        raise ValueError(f"{name} {shown(value)} is not known: it is one of {names}") from None


def _bounded(
    value: Any,
    name: str,
    read: Callable[[Any, str], Fraction],
    limits: tuple[Fraction, int],
    rule: str,
) -> Fraction:
    number = read(value, name)
    if number and not limits[0] <= number <= limits[1]:
        raise ValueError(f"{name} is {float(number):.6g}: it must be 0 or {rule}")
    return number


def _quantity(value: Any, name: str, parse: Callable[[str], float], example: str) -> Fraction:
    if not isinstance(value, str):
        raise ValueError(
            f"{name} is {shown(value)}: write it as a text with a unit, as in {example}"
        )
    try:
        return exact(parse(value))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _number(value: Any, name: str) -> Fraction:
    """A number of JSON, or the text of one in a cell."""
    if isinstance(value, str) and NUMBER.fullmatch(value):
        value = Fraction(value)
    if isinstance(value, bool) or not isinstance(value, (int, float, Fraction)):
        raise ValueError(f"{name} is {shown(value)}: it must be a number without a unit")
    if value < 0:
        raise ValueError(f"{name} is {float(value):.6g}: it cannot be negative")
    return exact(value)


def _count(value: Any, name: str) -> int:
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{name} is {shown(value)}: it must be a whole number")
    if not 1 <= value <= MAX_JOBS:
        raise ValueError(f"{name} is {shown(value)}: it must be from 1 to {MAX_JOBS}")
    return value


_MESSAGE = partial(
    _bounded, limits=(LEAST_MESSAGE_BYTES, MAX_MESSAGE_BYTES), rule="from 1 bit to 10^18 bytes"
)
_GAP = partial(_bounded, limits=(LEAST_GAP_S, MAX_GAP_S), rule="from 1 ps to 10^9 seconds")
_SIZE = partial(_quantity, parse=parse_size, example="1MiB")
_TIME = partial(_quantity, parse=parse_time, example="1.5ms")
FIELDS: dict[str, tuple[str, Callable[[Any, str], Any]]] = {
    "collective": ("collective", _collective),
    "message": ("message_bytes", partial(_MESSAGE, read=_SIZE)),
    "message_bytes": ("message_bytes", partial(_MESSAGE, read=_number)),
    "gap": ("gap_before_s", partial(_GAP, read=_TIME)),
    "gap_s": ("gap_before_s", partial(_GAP, read=_number)),
    "gap_after": ("gap_after_s", partial(_GAP, read=_TIME)),
    "gap_after_s": ("gap_after_s", partial(_GAP, read=_number)),
    "count": ("count", _count),
}
"""Every column of a CSV trace and key of a job in JSON: the part that it gives and its reader."""
