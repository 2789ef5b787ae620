"""The catalogue's store: one SQLite file, an answered question a transaction.

Look-ups read only. A question is written whole or not at all, so a sweep that is killed loses the
question it was at; two sweeps may write at once. What is stored stays: an answer of more work, or
what a search finds later, is added to it. Every question carries a checksum of its entries, and a
store whose pages, schema or entries are damaged is refused with what is wrong. Stores of the
version before are read as they are, and brought to this one when they are first written to.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from fractions import Fraction
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, final

from ocs_codesign.core.cost import Cost
from ocs_codesign.core.files.atomic import new_file, recovered
from ocs_codesign.schedules.design import Question
from ocs_codesign.search.catalogue.entry import (
    Entry,
    Provenance,
    certified,
    digest,
    of_the_size,
    with_time,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from types import TracebackType

    from ocs_codesign.graphs.recipe import Recipe


# The tables of a catalogue: what this package writes, and what older ones wrote.


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
            connection.execute("PRAGMA journal_mode = OFF")  # no second file that a kill leaves
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


_BUSY_S = 60.0


def shipped_path() -> Path:
    """The catalogue that comes with the package."""
    return Path(__file__).with_name("designs.sqlite")


@final
class Catalogue:
    """An open catalogue; use it in a ``with`` statement.

    Opening reads the header and the schema. Raises FileNotFoundError if there is no such file and
    ValueError, naming the file, if it is not a catalogue, of another version or damaged.
    """

    __slots__ = ("_connection", "_version", "_writable", "path")

    def __init__(self, path: str | Path | None = None, *, writable: bool = False) -> None:
        self.path = Path(path) if path is not None else shipped_path()
        if writable:
            (recovered if self.path.exists() else create)(self.path)
        if not self.path.is_file():
            raise FileNotFoundError(f"there is no catalogue at {self.path}")
        self._writable = writable
        uri = f"{self.path.resolve().as_uri()}?mode={'rw' if writable else 'ro'}"
        try:
            self._connection = sqlite3.connect(  # threads that share it take turns
                uri, uri=True, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error as error:
            raise ValueError(f"{self.path} cannot be read as a catalogue: {error}") from None
        try:
            self._version = self._checked_version()
            if writable:
                self._connection.execute("PRAGMA journal_mode = WAL")
                self._connection.execute("PRAGMA synchronous = NORMAL")
                self._migrate()
        except BaseException:
            self._connection.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; the last writer leaves one plain file that can be read anywhere."""
        if self._writable:
            with suppress(sqlite3.OperationalError):  # another sweep still has it open
                self._connection.execute("PRAGMA journal_mode = DELETE")
        self._connection.close()

    def questions(self) -> list[Question]:
        """All questions that have been answered, in order."""
        rows = self._query("SELECT num_nodes, degree, bidirectional FROM question ORDER BY 1, 2, 3")
        return [Question(nodes, degree, bool(both)) for nodes, degree, both in rows]

    def has(self, question: Question) -> bool:
        """Whether a question has been answered."""
        return self.provenance(question) is not None

    def provenance(self, question: Question) -> Provenance | None:
        """How a question was answered, None if it was not."""
        rows = self._query(
            f"SELECT {ORIGIN_COLUMNS[self._version]} FROM question "
            "WHERE (num_nodes, degree, bidirectional) = (?, ?, ?)",
            _key(question),
        )
        return Provenance(*rows[0]) if rows else None

    def entries(self, question: Question) -> tuple[Entry, ...]:
        """All entries of a question in the order they were stored; ValueError if damaged."""
        self._query("BEGIN")  # one snapshot, while others may be writing
        try:
            return self._entries(question)
        finally:
            with suppress(sqlite3.Error):  # what is damaged was said
                self._connection.rollback()

    def num_entries(self, question: Question) -> int:
        """Number of entries of a question; they are not checked."""
        rows = self._query(
            "SELECT count(*) FROM entry WHERE "
            "(asked_nodes, asked_degree, asked_bidirectional) = (?, ?, ?)",
            _key(question),
        )
        return int(rows[0][0]) if rows else 0

    def recipes(self) -> list[str]:
        """All recipes, each once; unlike entries they are not checked."""
        return [text for (text,) in self._query("SELECT DISTINCT recipe FROM entry ORDER BY 1")]

    def of_recipe(self, recipe: Recipe) -> list[tuple[Question, Entry]]:
        """Entries of exactly this recipe, with the questions they answer."""
        text = repr(recipe)
        questions = [Question(recipe.num_nodes, recipe.degree, both) for both in (False, True)]
        return [(q, entry) for q in questions for entry in self.entries(q) if entry.recipe == text]

    def all_entries(self) -> Iterator[tuple[Question, Entry]]:
        """Every entry with the question it answers, in order, its checksum verified."""
        for question in self.questions():
            for entry in self.entries(question):
                yield question, entry

    def record(self, question: Question, entries: Iterable[Entry], provenance: Provenance) -> bool:
        """Store a question's answer in one transaction; False if one of as much work is stored.

        What an answer of less work has beside it stays, after it.
        """
        entries = of_the_size(question, entries)
        with self._transaction():
            before = self.provenance(question)
            if before is not None and before.work >= provenance.work:
                return False
            known = {entry.recipe: entry for entry in self._entries(question)}
            entries = tuple(with_time(one, known.pop(one.recipe, one).alltoall) for one in entries)
            entries += tuple(known.values())
            if before is not None:
                improved, exchanged = before.improved, before.exchanged
                provenance = replace(provenance, improved=improved, exchanged=exchanged)
            self._answer(question, entries, provenance)
        return True

    def add(
        self,
        question: Question,
        entries: Iterable[Entry],
        *,
        time_spent_s: float,
        day: str = "",
        work: int = 0,
        exchanged: int = 0,
        times: Mapping[str, Fraction | None] | None = None,
    ) -> int:
        """Add what a pass found to a stored answer; the number of designs that are new.

        ``work`` is that of local searches, ``exchanged`` that of a search for all-to-all; ``times``
        are all-to-all times by recipe, of all that the pass has come to, None where that takes too
        long. Work and time are added to those before; without a ``day`` that stays. ValueError if
        the question is not stored.
        """
        entries = of_the_size(question, entries)
        with self._transaction():
            origin = self.provenance(question)
            if origin is None:
                raise ValueError(f"{question} is not stored: there is nothing to improve")
            before = self._entries(question)
            known = {entry.recipe for entry in before}
            new = tuple({one.recipe: one for one in entries if one.recipe not in known}.values())
            whole, num_timed = (*before, *new), origin.num_timed
            if times is not None:
                whole = tuple(with_time(one, times.get(one.recipe)) for one in whole)
                num_timed = sum(1 for _ in takewhile(lambda one: one.recipe in times, whole))
            origin = replace(
                origin,
                improved=origin.improved + work,
                exchanged=origin.exchanged + exchanged,
                num_timed=num_timed,
                time_spent_s=round(origin.time_spent_s + time_spent_s, 3),
                day=day or origin.day,
            )
            self._answer(question, whole, origin)
        return len(new)

    def check(self) -> None:
        """Read everything: ValueError if a page, the schema or any checksum is damaged."""
        (answer,), *_ = self._query("PRAGMA integrity_check")
        if answer != "ok":
            told = str(answer).splitlines()[-1]
            raise ValueError(f"{self.path} is damaged: {told}")
        strays = self._query(
            "SELECT count(*) FROM entry LEFT JOIN question ON (num_nodes, degree, "
            "question.bidirectional) = (asked_nodes, asked_degree, asked_bidirectional) "
            "WHERE num_nodes IS NULL"
        )
        if strays[0][0]:
            raise ValueError(f"{self.path} is damaged: {strays[0][0]} entries without a question")
        for _ in self.all_entries():
            pass

    def _entries(self, question: Question) -> tuple[Entry, ...]:
        """The same as ``entries``, in a transaction that is open."""
        rows = self._query(
            f"SELECT {ENTRY_COLUMNS[self._version]} FROM entry WHERE "
            "(asked_nodes, asked_degree, asked_bidirectional) = (?, ?, ?) ORDER BY rank",
            _key(question),
        )
        stored = self._query(
            "SELECT digest FROM question WHERE (num_nodes, degree, bidirectional) = (?, ?, ?)",
            _key(question),
        )
        found = tuple(self._entry(row) for row in rows)
        known = digest(found, without=NOT_KEPT[self._version])
        if (stored[0][0] if stored else digest(())) != known:
            raise ValueError(f"{self.path} is damaged: the entries of {question} were changed")
        return found

    def _answer(self, question: Question, entries: tuple[Entry, ...], origin: Provenance) -> None:
        """A question with its entries, instead of what is there."""
        self._connection.execute(
            f"INSERT OR REPLACE INTO question VALUES ({', '.join('?' * 13)})",
            (
                *(*_key(question), origin.command, origin.version, origin.seed),
                *(origin.time_spent_s, digest(entries), origin.work, origin.improved),
                *(origin.day, origin.exchanged, origin.num_timed),
            ),
        )
        self._write(question, entries)

    def _write(self, question: Question, entries: tuple[Entry, ...], first: int = 0) -> None:
        """Entries of a question from a rank on, instead of all that are there."""
        key = _key(question)
        self._connection.execute(
            "DELETE FROM entry WHERE "
            "(asked_nodes, asked_degree, asked_bidirectional) = (?, ?, ?) AND rank >= ?",
            (*key, first),
        )
        self._connection.executemany(
            f"INSERT INTO entry VALUES ({', '.join('?' * 20)})",
            [(*key, rank, *row_of(entry)) for rank, entry in enumerate(entries, first)],
        )

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing, with no other writer between; OSError if it cannot be written."""
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                connection.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise OSError(f"cannot write to {self.path}: {error}") from None

    def _migrate(self) -> None:
        """Bring an older store to this version: everything is read, checked and written anew."""
        if self._version == SCHEMA_VERSION:
            return
        with self._transaction() as connection:
            self._version = self._checked_version()  # another writer may have been faster
            if self._version == SCHEMA_VERSION:
                return
            answers = [
                (question, self._entries(question), origin)
                for question in self.questions()
                if (origin := self.provenance(question)) is not None
            ]
            connection.execute("DROP TABLE entry")
            connection.execute("DROP TABLE question")
            for text in SCHEMAS[SCHEMA_VERSION].split(";")[:-1]:
                connection.execute(text)
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            self._version = SCHEMA_VERSION
            for question, entries, origin in answers:
                self._answer(question, entries, origin)

    def _checked_version(self) -> int:
        ((identity,),) = self._query("PRAGMA application_id")
        if identity != APPLICATION_ID:
            raise ValueError(f"{self.path} is not a catalogue of topologies")
        ((version,),) = self._query("PRAGMA user_version")
        if version not in SCHEMAS:
            raise ValueError(
                f"{self.path} is a catalogue of version {version}: this package reads versions "
                f"{min(SCHEMAS)} to {SCHEMA_VERSION}"
            )
        # A stranger's view may never end, and a column without its type hold anything.
        made = {text for (text,) in self._query("SELECT sql FROM sqlite_schema")}
        if made != tables(version):
            raise ValueError(
                f"{self.path} is not a catalogue of version {version}: its tables are others"
            )
        return int(version)

    def _query(self, text: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(text, values).fetchall()
        except OverflowError:  # nothing is stored of numbers that SQLite cannot hold
            return []
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            told = " ".join(str(error).split())
            raise ValueError(f"{self.path} is damaged or not a catalogue: {told}") from None

    def _entry(self, row: tuple[Any, ...]) -> Entry:
        try:
            return entry_of(row, self._version)
        except ValueError as error:
            raise ValueError(f"{self.path} is damaged: {error}") from None


def _key(question: Question) -> tuple[int, int, int]:
    return question.num_nodes, question.degree, int(question.bidirectional)
