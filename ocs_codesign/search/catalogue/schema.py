"""The tables of a catalogue: what this package writes, and what older ones wrote."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ocs_codesign.cost import Cost
from ocs_codesign.files.atomic import new_file
from ocs_codesign.search.catalogue.entry import Entry, certified

if TYPE_CHECKING:
    from pathlib import Path

APPLICATION_ID = 0x0C5C0DE
SCHEMA_VERSION = 4
_QUESTION = """
CREATE TABLE question (
    num_nodes INTEGER NOT NULL, degree INTEGER NOT NULL, bidirectional INTEGER NOT NULL,
    command TEXT NOT NULL, version TEXT NOT NULL, seed INTEGER NOT NULL,
    time_spent_s REAL NOT NULL, digest TEXT NOT NULL, work INTEGER NOT NULL DEFAULT 0,{more}
    PRIMARY KEY (num_nodes, degree, bidirectional)
) STRICT, WITHOUT ROWID;"""
_ENTRY = """
CREATE TABLE entry (
    asked_nodes INTEGER NOT NULL, asked_degree INTEGER NOT NULL,
    asked_bidirectional INTEGER NOT NULL, rank INTEGER NOT NULL,
    recipe TEXT NOT NULL, label TEXT NOT NULL,
    bidirectional INTEGER NOT NULL, reverse_symmetric INTEGER NOT NULL,
    gather_steps INTEGER NOT NULL, gather_t_b_num INTEGER NOT NULL, gather_t_b_den INTEGER NOT NULL,
    scatter_steps INTEGER NOT NULL, scatter_t_b_num INTEGER NOT NULL,
    scatter_t_b_den INTEGER NOT NULL,
    schedule TEXT NOT NULL, measured INTEGER NOT NULL,{more}
    PRIMARY KEY (asked_nodes, asked_degree, asked_bidirectional, rank)
) STRICT, WITHOUT ROWID;"""
_IMPROVED = "\n    improved INTEGER NOT NULL DEFAULT 0, day TEXT NOT NULL DEFAULT '',"
_EXCHANGED = """
    exchanged INTEGER NOT NULL DEFAULT 0, num_timed INTEGER NOT NULL DEFAULT 0,"""
_CERTIFICATE = "\n    certificate_num INTEGER, certificate_den INTEGER,"
_ALLTOALL = "\n    alltoall_num INTEGER, alltoall_den INTEGER,"
SCHEMAS = {
    2: _QUESTION.format(more="") + _ENTRY.format(more=""),
    3: _QUESTION.format(more=_IMPROVED) + _ENTRY.format(more=_CERTIFICATE),
    4: _QUESTION.format(more=_IMPROVED + _EXCHANGED) + _ENTRY.format(more=_CERTIFICATE + _ALLTOALL),
}
"""The tables of every version that can be read."""
_SHARED_COLUMNS = (
    "recipe, label, asked_nodes, asked_degree, bidirectional, reverse_symmetric, gather_steps, "
    "gather_t_b_num, gather_t_b_den, scatter_steps, scatter_t_b_num, scatter_t_b_den, schedule, "
    "measured"
)
ENTRY_COLUMNS = {
    2: _SHARED_COLUMNS,
    3: _SHARED_COLUMNS + ", certificate_num, certificate_den",
    4: _SHARED_COLUMNS + ", certificate_num, certificate_den, alltoall_num, alltoall_den",
}
ORIGIN_COLUMNS = {
    2: "command, version, seed, time_spent_s, work",
    3: "command, version, seed, time_spent_s, work, improved, day",
    4: "command, version, seed, time_spent_s, work, improved, day, exchanged, num_timed",
}
NOT_KEPT = {2: ("certificate", "alltoall"), 3: ("alltoall",), 4: ()}
"""Fields of entries that the checksums of a version do not have."""


def tables(version: int) -> set[str]:
    """The texts that make the tables of a version, as SQLite keeps them."""
    return {text.strip() for text in SCHEMAS[version].split(";")[:-1]}


def create(path: Path) -> None:
    """An empty catalogue under a temporary name, then renamed; a rival's file is left alone."""
    with new_file(path) as temporary:
        with closing(sqlite3.connect(temporary, isolation_level=None)) as connection:
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            connection.executescript(SCHEMAS[SCHEMA_VERSION])
        temporary.chmod(0o644)


def row_of(entry: Entry) -> tuple[Any, ...]:
    """An entry as a row of the newest version, after question and rank."""
    gather, scatter = entry.allgather, entry.reduce_scatter
    return (
        entry.recipe,
        entry.label,
        int(entry.bidirectional),
        int(entry.reverse_symmetric),
        gather.steps,
        gather.t_b.numerator,
        gather.t_b.denominator,
        scatter.steps,
        scatter.t_b.numerator,
        scatter.t_b.denominator,
        entry.schedule,
        int(entry.measured),
        *_pair(entry.certificate),
        *_pair(entry.alltoall),
    )


def _pair(known: Fraction | None) -> tuple[int | None, int | None]:
    return (None, None) if known is None else (known.numerator, known.denominator)


def _fraction(num: int | None, den: int | None) -> Fraction | None:
    """The number of a pair of columns, None where they are empty; ValueError for den = 0."""
    if num is None or den is None:
        return None
    if den <= 0:
        raise ValueError(f"{num}/{den} is no number")
    return Fraction(num, den)


def entry_of(row: tuple[Any, ...], version: int) -> Entry:
    """The entry of a row of ENTRY_COLUMNS; ValueError if a t_b has no denominator.

    Version 2 kept no certificates: they are those that are proven now.
    """
    recipe, label, nodes, degree, both, symmetric, *costs, schedule, measured = row[:14]
    steps, num, den, scatter_steps, scatter_num, scatter_den = costs
    more = (*row[14:], None, None, None, None)
    try:
        certificate, alltoall = _fraction(*more[:2]), _fraction(*more[2:4])
    except ValueError as error:
        raise ValueError(f"{recipe}: {error}") from None
    if not (den > 0 and scatter_den > 0):
        raise ValueError(f"{recipe} has a t_b without a denominator")
    entry = Entry(
        recipe,
        label,
        nodes,
        degree,
        bool(both),
        bool(symmetric),
        Cost(steps, Fraction(num, den)),
        Cost(scatter_steps, Fraction(scatter_num, scatter_den)),
        schedule,
        bool(measured),
        certificate,
        alltoall,
    )
    return certified(entry) if version == 2 else entry
