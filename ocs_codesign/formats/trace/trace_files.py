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
import json
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ocs_codesign.files.limited import first_mark, read_limited
from ocs_codesign.files.naming import shown
from ocs_codesign.formats.trace.fields import (
    FIELDS,
    Field,
    check_keys,
    check_parts,
    count_of,
    job_of,
)
from ocs_codesign.reconfigure.hold.trace import MAX_JOBS, Job, Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAX_TRACE_BYTES = 32 * 2**20

_MAX_DIGITS = 80


def read_trace(path: str | Path) -> Trace:
    """The trace in a CSV or JSON file, told apart by the suffix, or by the content under any other.

    Raises OSError if the file cannot be read and ValueError, with the file, the line or the place
    in the JSON, and the rule, for anything else.
    """
    path = Path(path)
    data = read_limited(path, MAX_TRACE_BYTES)
    if not data.strip():
        raise ValueError(f"{path}: the trace is empty: it needs at least one job")
    first = first_mark(data)
    kind = {".csv": "csv", ".tsv": "csv", ".json": "json"}.get(
        path.suffix.lower(), "json" if first in (b"{", b"[") else "csv"
    )
    return TRACE_READERS[kind](data, str(path))


def read_csv_trace(data: bytes, name: str) -> Trace:
    """The trace in a CSV file; errors name the file and the line.

    >>> read_csv_trace(b"collective,message,gap\\nallreduce,1MiB,2ms\\n", "t.csv").num_jobs
    1
    >>> read_csv_trace(b"collective,message\\nallsum,1MiB\\n", "t.csv")
    Traceback (most recent call last):
    ValueError: t.csv, line 2: collective 'allsum' is not known: it is one of allgather, \
reduce-scatter, allreduce, alltoall
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{name}: this is not UTF-8 text") from None
    jobs: list[Job] = []
    fields: list[Field] | None = None
    known: dict[tuple[str, ...], Job] = {}
    for line, cells in _rows(text, name):
        try:
            if fields is None:
                fields = _fields(cells)
                continue
            row = tuple(cells)
            if row not in known:
                known[row] = _csv_job(fields, cells)
            jobs.append(known[row])
            _check_number(len(jobs))
        except ValueError as error:
            raise ValueError(f"{name}, line {line}: {error}") from None
    return _trace(jobs, 1, name)


def read_json_trace(data: bytes, name: str) -> Trace:
    """The trace in a JSON file; errors name the file and the place, as in ``jobs[3].gap``.

    >>> read_json_trace(b'[{"collective": "alltoall", "message": "8kB", "count": 3}]', "t").num_jobs
    3
    """
    try:
        value = json.loads(
            data, parse_float=_decimal, parse_constant=_no_constant, object_pairs_hook=_object
        )
        place, jobs, repeat = "jobs", value, 1
        if isinstance(value, dict):
            check_keys(value, ("jobs", "repeat"), "the trace")
            jobs = value.get("jobs")
            repeat = count_of(value.get("repeat", 1), "repeat")
        else:
            place = ""
        if not isinstance(jobs, list):
            raise ValueError("a trace is a list of jobs, or an object with such a list as jobs")
        _check_number(len(jobs))
        return _trace([_json_job(job, f"{place}[{at}]") for at, job in enumerate(jobs)], repeat, "")
    except ValueError as error:
        raise ValueError(f"{name}{_place(error)}") from None
    except RecursionError:
        raise ValueError(f"{name}: the JSON is nested too deeply") from None


TRACE_READERS: dict[str, Callable[[bytes, str], Trace]] = {
    "csv": read_csv_trace,
    "json": read_json_trace,
}
"""Every format of traces: (content, name for errors) to the trace."""


def _rows(text: str, name: str) -> Iterator[tuple[int, list[str]]]:
    """Lines with their cells, empty ones and comments left out."""
    heading = next((line for line in text.splitlines() if _is_content([line.strip()])), "")
    delimiter = next((mark for mark in "\t;" if mark in heading), ",")
    lines = ("\n" if one.lstrip()[:1] == "#" else one for one in io.StringIO(text, newline=""))
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    line = 1
    try:
        for cells in reader:
            stripped = [cell.strip() for cell in cells]
            if _is_content(stripped):
                yield line, stripped
            line = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(f"{name}, line {line}: this is not CSV ({error})") from None


def _is_content(cells: list[str]) -> bool:
    return any(cells) and not cells[0].startswith("#")


def _fields(cells: list[str]) -> list[Field]:
    names = [cell.lower().replace("-", "_").replace(" ", "_") for cell in cells]
    check_keys(names, FIELDS, "the heading")
    fields = [FIELDS[name] for name in names]
    check_parts(fields)
    return fields


def _csv_job(fields: list[Field], cells: list[str]) -> Job:
    if len(cells) != len(fields):
        raise ValueError(f"{len(cells)} cells, but the heading has {len(fields)} columns")
    parts = {}
    for field, cell in zip(fields, cells, strict=True):
        if cell:
            parts[field.part] = field.read(cell, field.name)
        elif field.part in ("collective", "message_bytes"):
            raise ValueError(f"{field.name} is empty: every job has one")
    return job_of(parts)


def _json_job(value: Any, place: str) -> Job:
    if not isinstance(value, dict):
        raise ValueError(f"{place} is {shown(value)}: a job is an object")
    check_keys(value, FIELDS, place)
    fields = [FIELDS[key] for key in value]
    try:
        check_parts(fields)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None
    return job_of({one.part: one.read(value[one.name], f"{place}.{one.name}") for one in fields})


def _trace(jobs: list[Job], repeat: int, name: str) -> Trace:
    try:
        return Trace(jobs, repeat)
    except ValueError as error:
        raise ValueError(f"{name}: {error}" if name else str(error)) from None


def _check_number(number: int) -> None:
    if number > MAX_JOBS:
        raise ValueError(f"more than {MAX_JOBS} jobs: no more are planned")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for at, key in enumerate(keys) if key in keys[:at])
        raise ValueError(f"an object has the key {shown(twice)} twice")
    return value


def _decimal(text: str) -> Decimal:
    if len(text) > _MAX_DIGITS:
        raise ValueError(f"a number of {len(text)} characters: at most {_MAX_DIGITS} are read")
    return Decimal(text)


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is not a number: numbers are finite")


def _place(error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f", line {error.lineno}: this is not JSON ({error.msg.lower()})"
    if isinstance(error, UnicodeDecodeError):
        return ": this is not UTF-8 text"
    return f": {error}"
