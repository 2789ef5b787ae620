"""Reading a bundle without trust: its files, their checksums, tables and findings.

Nothing outside the directory is read: links and special files are refused, sizes are limited, and
files are looked up among those that a walk of the directory found, never by a path that a file has.
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
import re
import stat
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, final

from ocs_codesign.core.files.archives import open_plain, read_limited
from ocs_codesign.core.files.plain_text import read_plain_text
from ocs_codesign.core.shown import shown
from ocs_codesign.fabric.bundle.check.circuits import Port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ocs_codesign.fabric.bundle.check.circuits import Circuit, Plant


Value = TypeVar("Value")

MAX_FILES = 200_000
MAX_DEPTH = 8
MAX_TEXT_BYTES = 256 * 2**20
MAX_FIELD = 2**16

_WHOLE = re.compile(r"0|[1-9][0-9]{0,8}")


@final
@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong: the file, the place in it (None for the whole file) and the rule."""

    file: str
    place: str | None
    rule: str

    def __str__(self) -> str:
        where = self.file if self.place is None else f"{self.file}, {self.place}"
        return f"{where}: {self.rule}"


@final
class Findings:
    """All that was found wrong; the first ``limit`` findings are kept, all are counted."""

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError(f"limit is {limit}: at least one finding is listed")
        self.limit, self.count = limit, 0
        self.listed: list[Finding] = []

    def add(self, file: str, place: int | str | None, rule: str) -> None:
        """One more; a number is the line of a file."""
        self.count += 1
        if len(self.listed) < self.limit:
            text = f"line {place}" if isinstance(place, int) else place
            self.listed.append(Finding(file, text, rule))


@final
@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """A row of a table: the line that it ends in, and its fields by column."""

    findings: Findings
    file: str
    line: int
    fields: Mapping[str, str]

    def __getitem__(self, column: str) -> str:
        return self.fields[column]

    def wrong(self, *rules: str) -> None:
        """Rules that the row breaks, each a finding."""
        for rule in rules:
            self.findings.add(self.file, self.line, rule)

    def whole(self, column: str) -> int | None:
        """The whole number in a field; None, with a finding, if it has none."""
        if _WHOLE.fullmatch(self[column]):
            return int(self[column])
        self.wrong(f"{column} is {shown(self[column])}: it must be a whole number")
        return None

    def differences(self, wanted: Mapping[str, tuple[str, str]]) -> list[str]:
        """A rule for every field that is not the wanted value, with why it is wanted."""
        return [
            f"{column} is {shown(self[column])}: {why}"
            for column, (value, why) in wanted.items()
            if self[column] != value
        ]


@final
class BundleFiles:
    """The regular files of a directory by their relative path, and what is read of them."""

    def __init__(self, root: Path, findings: Findings) -> None:
        self.root, self.findings = root, findings
        self.sizes: dict[str, int] = dict(_walk(root, findings))

    def wrong(self, path: str, rule: str) -> None:
        """A rule that a file as a whole breaks."""
        self.findings.add(path, None, rule)

    def read(self, path: str, most: int = MAX_TEXT_BYTES) -> bytes | None:
        """The content of a file; None, with a finding, if it is missing or cannot be read."""
        if path not in self.sizes:
            self.wrong(path, "the file is missing")
            return None
        data = self._opened(path, lambda file: file.read(most + 1))
        if data is not None and len(data) > most:
            self.wrong(path, f"more than {most:,} bytes are not read")
            return None
        return data

    def digest(self, path: str) -> str | None:
        """The SHA-256 of a file, None with a finding if it cannot be read."""
        return self._opened(path, lambda file: hashlib.file_digest(file, "sha256").hexdigest())

    def json(self, path: str) -> Any:
        """The value of a JSON file; None, with a finding, if it has none."""
        return self.parsed(path, lambda data: read_plain_text(data, path, is_json=True).value)

    def parsed(
        self, path: str, parse: Callable[[bytes], Value], most: int = MAX_TEXT_BYTES
    ) -> Value | None:
        """What a parser makes of a file; None, with a finding, if that is a ValueError."""
        data = self.read(path, most)
        try:
            return None if data is None else parse(data)
        except ValueError as error:
            self.wrong(path, str(error).removeprefix(f"{path}: "))
            return None

    def table(self, path: str, columns: Sequence[str]) -> list[Row]:
        """The rows of a CSV file of these columns; those that are damaged are findings."""
        data = self.read(path)
        return [] if data is None else table_rows(data, path, columns, self.findings)

    def _opened(self, path: str, use: Callable[[io.BufferedReader], Value]) -> Value | None:
        try:
            with open_plain(self.root / path) as file:
                return use(file)
        except OSError as error:
            self.wrong(path, f"it cannot be read ({error.strerror or error})")
            return None

    def compare(
        self,
        path: str,
        rows: Iterable[Row],
        columns: Sequence[str],
        key: Sequence[str],
        expected: Iterable[Sequence[object]],
    ) -> None:
        """A finding for every row whose columns are not those of the expected row of its key.

        Rows must have different keys, and every expected key a row.
        """
        values = [column for column in columns if column not in key]
        wanted = {}
        for cells in expected:
            fields = dict(zip(columns, map(str, cells), strict=True))
            wanted[" ".join(fields[c] for c in key)] = ",".join(fields[c] for c in values)
        seen: set[str] = set()
        for row in rows:
            name = " ".join(row[column] for column in key)
            found = ",".join(row[column] for column in values)
            if name in seen:
                row.wrong(f"{shown(name)} has a second row")
            elif name not in wanted:
                row.wrong(f"{shown(name)} is unexpected: there is no such {key[-1]}")
            elif found != wanted[name]:
                row.wrong(
                    f"{shown(name)} has {','.join(values)} {shown(found)}: "
                    f"it must be {shown(wanted[name])}"
                )
            seen.add(name)
        for name in wanted:
            if name not in seen:
                self.wrong(path, f"the row of {shown(name)} is missing")


def table_rows(data: bytes, path: str, columns: Sequence[str], findings: Findings) -> list[Row]:
    """The rows of CSV data of these columns; damaged rows are findings in the file ``path``."""
    try:
        return list(_rows(data.decode(), path, columns, findings))
    except UnicodeDecodeError:
        findings.add(path, None, "this is not UTF-8 text")
        return []


def _rows(text: str, path: str, columns: Sequence[str], findings: Findings) -> Iterator[Row]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = next(reader, None)
        if header != list(columns):
            findings.add(path, 1, f"the columns must be {','.join(columns)}")
            return
        for fields in reader:
            row = Row(findings, path, reader.line_num, dict(zip(columns, fields, strict=False)))
            if len(fields) != len(columns):
                row.wrong(
                    f"there are {len(fields)} fields: each of the {len(columns)} columns has one"
                )
            elif any(len(field) > MAX_FIELD for field in fields):
                row.wrong(f"a field has more than {MAX_FIELD} characters")
            else:
                yield row
    except csv.Error as error:
        findings.add(path, reader.line_num, f"this is not CSV ({error})")


def _walk(root: Path, findings: Findings) -> Iterator[tuple[str, int]]:
    """Relative paths and sizes of regular files, without following links."""
    stack, count = [""], 0
    while stack:
        folder = stack.pop()
        with os.scandir(root / folder) as entries:
            for entry in sorted(entries, key=lambda one: one.name):
                path = f"{folder}/{entry.name}" if folder else entry.name
                status = entry.stat(follow_symlinks=False)
                count += 1
                if count > MAX_FILES:
                    raise ValueError(f"{root}: more than {MAX_FILES:,} files are not read")
                if stat.S_ISDIR(status.st_mode):
                    if path.count("/") >= MAX_DEPTH:
                        findings.add(path, None, "directories are nested too deeply to be read")
                    else:
                        stack.append(path)
                elif stat.S_ISREG(status.st_mode):
                    yield path, status.st_size
                else:
                    findings.add(path, None, "it is a link or a special file, which is not read")


# Observed neighbours, as link discovery reports them, compared with what the light should make.
#
# The file is CSV with columns local_host,local_port,remote_host,remote_port. A row says that a
# host heard on its port what a remote host sent from its own port, so that a two-way circuit has
# two rows. Ports are ``p0`` for plane 0; on two-sided switches, where a host has two in a plane,
# ``p0-a`` and ``p0-b``.


COLUMNS = ("local_host", "local_port", "remote_host", "remote_port")
MAX_OBSERVED_BYTES = 64 * 2**20


Heard: TypeAlias = "dict[Port, tuple[int, Port]]"
"""The line and the remote port of every port on which something was heard."""


@final
@dataclass(frozen=True, slots=True)
class Difference:
    """A link that is not as it should be: ``missing``, ``unexpected``, ``swapped`` or ``other``.

    ``line`` is None where nothing was heard; ``expected`` is None where nothing should be.
    """

    kind: str
    line: int | None
    local: Port
    expected: Port | None
    observed: Port | None

    @property
    def sentence(self) -> str:
        """The difference in words."""
        here, should, heard = map(_port_text, (self.local, self.expected, self.observed))
        said = "other neighbour" if self.kind == "other" else self.kind
        return f"{said}: {here} hears {heard}, it should hear {should}"


def _port_text(port: Port | None) -> str:
    return "nothing" if port is None else f"{port.device} {port.name}"


@final
@dataclass(frozen=True, slots=True)
class Comparison:
    """A configuration beside what was observed."""

    configuration: str
    num_links: int
    differences: tuple[Difference, ...]


def read_neighbours(path: Path, plant: Plant, findings: Findings) -> Heard:
    """The rows of a file; hosts and ports that do not exist, and ports given twice, are findings.

    Raises OSError if the file cannot be read and ValueError if it is not such a table.
    """
    data = read_limited(path, MAX_OBSERVED_BYTES)
    damage = Findings(1)
    rows = table_rows(data, str(path), COLUMNS, damage)
    if damage.count:
        raise ValueError(str(damage.listed[0]))
    ports = {_port(plant, cable.near) for cable in plant.host_at.values()}
    first: dict[Port, int] = {}
    heard: Heard = {}
    for row in (replace(row, findings=findings) for row in rows):
        local = Port(row["local_host"], row["local_port"])
        remote = Port(row["remote_host"], row["remote_port"])
        unknown = [port for port in (local, remote) if port not in ports]
        for port in unknown:
            row.wrong(f"{shown(port.device)} has no port {shown(port.name)} with a cable")
        if local in first:
            row.wrong(f"{local.device} {local.name} has a row already, line {first[local]}")
        elif not unknown:
            heard[local] = (row.line, remote)
        first.setdefault(local, row.line)
    return heard


def compare_neighbours(
    plant: Plant, configuration: str, circuits: Sequence[Circuit], heard: Heard
) -> Comparison:
    """Every link that was not heard as the light of a configuration should make it."""
    expected = _expected(plant, circuits)
    differences = []
    for local in sorted(expected.keys() | heard.keys(), key=lambda port: (port.device, port.name)):
        wanted = expected.get(local)
        line, found = heard.get(local, (None, None))
        if found == wanted:
            continue
        kind = "missing" if found is None else "unexpected" if wanted is None else "other"
        if kind == "other" and _is_swapped(expected, heard, wanted, found):
            kind = "swapped"
        differences.append(Difference(kind, line, local, wanted, found))
    return Comparison(configuration, len(expected), tuple(differences))


def _is_swapped(
    expected: dict[Port, Port], heard: Heard, wanted: Port | None, found: Port | None
) -> bool:
    """Whether the port that should hear what was heard here hears what should be heard here."""
    swapped = (local for local, remote in expected.items() if remote == found)
    return any(local in heard and heard[local][1] == wanted for local in swapped)


def _expected(plant: Plant, circuits: Sequence[Circuit]) -> dict[Port, Port]:
    expected = {}
    for circuit in circuits:
        first, last = circuit.rows[0], circuit.rows[-1]
        one = _port(plant, plant.host_at[Port(first.switch, first.a_side)].near)
        other = _port(plant, plant.host_at[Port(last.switch, last.b_side)].near)
        expected[other] = one
        if circuit.is_two_way:
            expected[one] = other
    return expected


def _port(plant: Plant, strand: Port) -> Port:
    """The port that a strand is of: transceivers of two strands have one name."""
    name, _, _ = strand.name.partition("-")
    return strand if plant.model == "two-sided" else Port(strand.device, name)
