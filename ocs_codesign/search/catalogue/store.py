"""The catalogue's store: one SQLite file, an answered question a transaction.

Look-ups read only. A question is written whole or not at all, so a sweep that is killed loses the
question it was at; two sweeps may write at once, and the first answer to a question stays. Every
question carries a checksum of its entries, and a store whose pages, schema or entries are damaged
is refused with what is wrong.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, final

from ocs_codesign.cost import Cost
from ocs_codesign.files.atomic import new_file
from ocs_codesign.question import Question
from ocs_codesign.search.catalogue.entry import Entry, Provenance, digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

    from ocs_codesign.graphs.recipe import Recipe

APPLICATION_ID = 0x0C5C0DE
SCHEMA_VERSION = 2
_BUSY_S = 60.0
_SCHEMA = """
CREATE TABLE question (
    num_nodes INTEGER NOT NULL, degree INTEGER NOT NULL, bidirectional INTEGER NOT NULL,
    command TEXT NOT NULL, version TEXT NOT NULL, seed INTEGER NOT NULL,
    time_spent_s REAL NOT NULL, digest TEXT NOT NULL, work INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (num_nodes, degree, bidirectional)
) STRICT, WITHOUT ROWID;
CREATE TABLE entry (
    asked_nodes INTEGER NOT NULL, asked_degree INTEGER NOT NULL,
    asked_bidirectional INTEGER NOT NULL, rank INTEGER NOT NULL,
    recipe TEXT NOT NULL, label TEXT NOT NULL,
    bidirectional INTEGER NOT NULL, reverse_symmetric INTEGER NOT NULL,
    gather_steps INTEGER NOT NULL, gather_t_b_num INTEGER NOT NULL, gather_t_b_den INTEGER NOT NULL,
    scatter_steps INTEGER NOT NULL, scatter_t_b_num INTEGER NOT NULL,
    scatter_t_b_den INTEGER NOT NULL,
    schedule TEXT NOT NULL, measured INTEGER NOT NULL,
    PRIMARY KEY (asked_nodes, asked_degree, asked_bidirectional, rank)
) STRICT, WITHOUT ROWID;
"""
_COLUMNS = (
    "recipe, label, asked_nodes, asked_degree, bidirectional, reverse_symmetric, gather_steps, "
    "gather_t_b_num, gather_t_b_den, scatter_steps, scatter_t_b_num, scatter_t_b_den, schedule, "
    "measured"
)


def shipped_path() -> Path:
    """The catalogue that comes with the package."""
    return Path(__file__).with_name("designs.sqlite")


@final
class Catalogue:
    """An open catalogue; use it in a ``with`` statement.

    Opening reads the header and the schema. Raises FileNotFoundError if there is no such file and
    ValueError, naming the file, if it is not a catalogue, of another version or damaged.
    """

    __slots__ = ("_connection", "_writable", "path")

    def __init__(self, path: str | Path | None = None, *, writable: bool = False) -> None:
        self.path = Path(path) if path is not None else shipped_path()
        if writable and not self.path.exists():
            _create(self.path)
        if not self.path.is_file():
            raise FileNotFoundError(f"there is no catalogue at {self.path}")
        self._writable = writable
        mode = "rw" if writable else "ro"
        uri = f"{self.path.resolve().as_uri()}?mode={mode}"
        self._connection = sqlite3.connect(uri, uri=True, timeout=_BUSY_S, isolation_level=None)
        try:
            self._check_header()
            if writable:
                self._connection.execute("PRAGMA journal_mode = WAL")
                self._connection.execute("PRAGMA synchronous = NORMAL")
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
            "SELECT command, version, seed, time_spent_s, work FROM question "
            "WHERE (num_nodes, degree, bidirectional) = (?, ?, ?)",
            _key(question),
        )
        return Provenance(*rows[0]) if rows else None

    def entries(self, question: Question) -> tuple[Entry, ...]:
        """All entries of a question in the order they were stored; ValueError if damaged."""
        self._query("BEGIN")  # one snapshot, while others may be writing
        try:
            rows = self._query(
                f"SELECT {_COLUMNS} FROM entry WHERE "
                "(asked_nodes, asked_degree, asked_bidirectional) = (?, ?, ?) ORDER BY rank",
                _key(question),
            )
            stored = self._query(
                "SELECT digest FROM question WHERE (num_nodes, degree, bidirectional) = (?, ?, ?)",
                _key(question),
            )
        finally:
            self._connection.rollback()
        found = tuple(self._entry(row) for row in rows)
        if (stored[0][0] if stored else digest(())) != digest(found):
            raise ValueError(f"{self.path} is damaged: the entries of {question} were changed")
        return found

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

        An answer of less work is replaced.
        """
        entries = tuple(entries)
        key = _key(question)
        for entry in entries:
            if (entry.num_nodes, entry.degree) != key[:2]:
                raise ValueError(f"{entry.recipe} does not have the size of {question}")
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            try:
                cursor = connection.execute(
                    "INSERT INTO question VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE "
                    "SET command = excluded.command, version = excluded.version, "
                    "seed = excluded.seed, time_spent_s = excluded.time_spent_s, "
                    "digest = excluded.digest, work = excluded.work WHERE work < excluded.work",
                    (
                        *key,
                        provenance.command,
                        provenance.version,
                        provenance.seed,
                        provenance.time_spent_s,
                        digest(entries),
                        provenance.work,
                    ),
                )
                if cursor.rowcount:
                    connection.execute(
                        "DELETE FROM entry WHERE "
                        "(asked_nodes, asked_degree, asked_bidirectional) = (?, ?, ?)",
                        key,
                    )
                    connection.executemany(
                        f"INSERT INTO entry VALUES ({', '.join('?' * 16)})",
                        [(*key, rank, *_row(entry)) for rank, entry in enumerate(entries)],
                    )
                connection.execute("COMMIT")
            except BaseException:
                connection.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise OSError(f"cannot write to {self.path}: {error}") from None
        return bool(cursor.rowcount)

    def check(self) -> None:
        """Read everything: ValueError if a page, the schema or any checksum is damaged."""
        (answer,), *_ = self._query("PRAGMA integrity_check")
        if answer != "ok":
            raise ValueError(f"{self.path} is damaged: {answer}")
        strays = self._query(
            "SELECT count(*) FROM entry LEFT JOIN question ON (num_nodes, degree, "
            "question.bidirectional) = (asked_nodes, asked_degree, asked_bidirectional) "
            "WHERE num_nodes IS NULL"
        )
        if strays[0][0]:
            raise ValueError(f"{self.path} is damaged: {strays[0][0]} entries without a question")
        for _ in self.all_entries():
            pass

    def _check_header(self) -> None:
        ((identity,),) = self._query("PRAGMA application_id")
        if identity != APPLICATION_ID:
            raise ValueError(f"{self.path} is not a catalogue of topologies")
        ((version,),) = self._query("PRAGMA user_version")
        if version != SCHEMA_VERSION:
            raise ValueError(
                f"{self.path} is a catalogue of version {version}: this package reads version "
                f"{SCHEMA_VERSION}"
            )
        # A stranger's view may never end, and a column without its type hold anything.
        made = {text for (text,) in self._query("SELECT sql FROM sqlite_schema")}
        if made != {text.strip() for text in _SCHEMA.split(";")[:-1]}:
            raise ValueError(
                f"{self.path} is not a catalogue of version {version}: its tables are others"
            )

    def _query(self, text: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(text, values).fetchall()
        except OverflowError:  # nothing is stored of numbers that SQLite cannot hold
            return []
        except sqlite3.DatabaseError as error:
            raise ValueError(f"{self.path} is damaged or not a catalogue: {error}") from None

    def _entry(self, row: tuple[Any, ...]) -> Entry:
        recipe, label, nodes, degree, both, symmetric, *costs, schedule, measured = row
        steps, num, den, scatter_steps, scatter_num, scatter_den = costs
        if not (den > 0 and scatter_den > 0):
            raise ValueError(f"{self.path} is damaged: {recipe} has a t_b without a denominator")
        return Entry(
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
        )


def _create(path: Path) -> None:
    """An empty catalogue under a temporary name, then renamed; a rival's file is left alone."""
    with new_file(path) as temporary:
        with closing(sqlite3.connect(temporary, isolation_level=None)) as connection:
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            connection.executescript(_SCHEMA)
        temporary.chmod(0o644)


def _key(question: Question) -> tuple[int, int, int]:
    return question.num_nodes, question.degree, int(question.bidirectional)


def _row(entry: Entry) -> tuple[Any, ...]:
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
    )
