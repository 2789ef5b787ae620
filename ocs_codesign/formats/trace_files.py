"""Trace files: the collectives of a job in order, as CSV or JSON.

Columns of a CSV file, named by its first line in any order, and keys of a job in JSON alike:

=============================== ========================================================
``collective``                  allgather, reduce-scatter, allreduce or alltoall
``message`` (or                 M, the buffer of a rank, with its unit, as in
``message_bytes``)              ``64MiB`` (a number)
``gap`` (or ``gap_s``)          time before it that needs no circuits, as in ``1.5ms``
                                (a number of seconds); 0 by default
``gap_after`` (``gap_after_s``) the same after it
``count``                       how often it comes in a row, 1 by default
=============================== ========================================================

``records`` says how lines and cells are separated. JSON is a list of jobs, or an object
``{"jobs": [...], "repeat": 100}`` whose jobs are repeated as a whole.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from ocs_codesign.collective import WITHOUT_PARAMETERS, Collective
from ocs_codesign.files.naming import shown
from ocs_codesign.files.places import errors_at
from ocs_codesign.formats.file_format import Format, read_file
from ocs_codesign.formats.records import (
    RecordLayout,
    count_to,
    number,
    parse_records,
    quantity,
    within,
)
from ocs_codesign.quantities import parse_size, parse_time
from ocs_codesign.reconfigure.hold.trace import MAX_JOBS, Job, Trace

MAX_TRACE_BYTES = 32 * 2**20
LEAST_MESSAGE_BYTES, MAX_MESSAGE_BYTES = Fraction(1, 8), 10**18
LEAST_GAP_S, MAX_GAP_S = Fraction(1, 10**12), 10**9


def read_trace(path: str | Path) -> Trace:
    """The trace in a CSV or JSON file, told apart by the suffix, or by the content under any other.

    Raises OSError if the file cannot be read and ValueError, with the file, the line or the place
    in the JSON, and the rule, for anything else.
    """
    empty = "the trace is empty: it needs at least one job"
    return read_file(TRACE_FORMATS, Path(path), None, MAX_TRACE_BYTES, empty)[0]


def parse_trace(data: bytes, name: str, *, is_json: bool) -> Trace:
    """The trace of a content; errors begin with the name, then the line or the place in the JSON.

    >>> parse_trace(b"collective,message,gap\\nallreduce,1MiB,2ms\\n", "t", is_json=False).num_jobs
    1
    >>> parse_trace(b"collective,message\\nallsum,1MiB\\n", "t.csv", is_json=False)
    Traceback (most recent call last):
    ValueError: t.csv, line 2: collective 'allsum' is not known: it is one of allgather, \
reduce-scatter, allreduce, alltoall
    """
    jobs, repeat = parse_records(data, name, LAYOUT, is_json=is_json)
    with errors_at(name):
        times = 1 if repeat is None else count_to(MAX_JOBS)(repeat, "repeat")
        return Trace([job for _, job in jobs], times)


TRACE_FORMATS: dict[str, Format[Trace]] = {
    "csv": Format("a job a line", partial(parse_trace, is_json=False), None, (".csv", ".tsv")),
    "json": Format("jobs", partial(parse_trace, is_json=True), None, (".json",), (b"{", b"[")),
}
"""Every format of traces."""


def _collective(value: Any, name: str) -> Collective:
    if not isinstance(value, str):
        raise ValueError(f"{name} is {shown(value)}: it must be a text")
    try:
        return Collective.parse(value)
    except ValueError:
        names = ", ".join(member.name for member in WITHOUT_PARAMETERS)
        raise ValueError(f"{name} {shown(value)} is not known: it is one of {names}") from None


_MESSAGE = (LEAST_MESSAGE_BYTES, MAX_MESSAGE_BYTES, "0 or from 1 bit to 10^18 bytes")
_GAP = (LEAST_GAP_S, MAX_GAP_S, "0 or from 1 ps to 10^9 seconds")
_SIZE, _TIME = quantity(parse_size, "1MiB"), quantity(parse_time, "1.5ms")
LAYOUT = RecordLayout(
    "trace",
    "job",
    {
        "collective": ("collective", _collective),
        "message": ("message_bytes", within(_SIZE, *_MESSAGE)),
        "message_bytes": ("message_bytes", within(number, *_MESSAGE)),
        "gap": ("gap_before_s", within(_TIME, *_GAP)),
        "gap_s": ("gap_before_s", within(number, *_GAP)),
        "gap_after": ("gap_after_s", within(_TIME, *_GAP)),
        "gap_after_s": ("gap_after_s", within(number, *_GAP)),
        "count": ("count", count_to(MAX_JOBS)),
    },
    ("collective", "message_bytes"),
    Job,
    MAX_JOBS,
    other="repeat",
)
"""Every column of a CSV trace and key of a job in JSON: the part that it gives and its reader."""
