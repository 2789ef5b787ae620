"""Demand matrices read from CSV, JSON and npy files, and plans for them written as CSV.

An entry is the bytes from the row's node to the column's node: a number in the file's unit (bytes
if it names none) or a size with a unit of its own, as in ``4MiB``. The unit may be a size as well:
of numbers of tokens it is that of a token, as in ``8KiB``.

- CSV: a row a line, cells separated by commas, semicolons, tabs or spaces. Empty lines and lines
  that begin with ``#`` are skipped, but for ``# unit: MiB``. A first line of names gives the nodes
  theirs; the first cell of every row may repeat them.
- JSON: a list of rows, or an object with it as ``matrix``, and perhaps ``unit`` and ``names``.
- npy: a square array of integers or floats; nothing is unpickled.
"""

from __future__ import annotations

import io
import json
import re
import warnings
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.files.limited import first_mark, read_limited
from ocs_codesign.files.naming import shown
from ocs_codesign.quantities import exact, parse_size
from ocs_codesign.reconfigure.demand.matrix import MAX_NODES, DemandMatrix

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ocs_codesign.reconfigure.demand.plan import DemandPlan

MAX_MATRIX_BYTES = 64 * 2**20

_DIGITS = r"(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})"
_NUMBER = re.compile(rf"[+-]?{_DIGITS}(?:[eE][+-]?[0-9]{{1,2}})?")
_MOST_BYTES = 10**24
_UNIT_LINE = re.compile(r"#\s*unit\s*[:=]\s*(\S{1,20})\s*", re.IGNORECASE)
_MAX_HEADER_BYTES = 2**12
_NO_AMOUNT = " is no amount: write a number, or a size as in 4MiB"


@final
@dataclass(frozen=True, slots=True, eq=False)
class DemandFile:
    """A demand and, if the file has them, the names of its nodes."""

    demand: DemandMatrix
    names: tuple[str, ...] | None


@final
@dataclass(frozen=True, slots=True)
class _Table:
    """Rows of amounts as they are written, each row with where it is, and what else is said."""

    rows: list[tuple[str, list[Any]]]
    unit: str | None = None
    names: tuple[str, ...] | None = None


def read_demand(path: str | Path, unit: str | None = None) -> DemandFile:
    """The demand in a CSV, JSON or npy file, told apart by the suffix or else by the content.

    ``unit`` is that of numbers without one, such as ``MiB``; it must not contradict the file.
    Raises OSError if the file cannot be read and ValueError, with the file, the line or the place,
    and the rule, for anything else.
    """
    path = Path(path)
    data = read_limited(path, MAX_MATRIX_BYTES)
    if not data.strip():
        raise ValueError(f"{path}: the file is empty: a demand matrix has at least one row")
    kind = {".csv": "csv", ".tsv": "csv", ".txt": "csv", ".json": "json", ".npy": "npy"}.get(
        path.suffix.lower(), _sniffed(data)
    )
    return parse_demand(data, str(path), kind, unit)


def parse_demand(data: bytes, name: str, kind: str, unit: str | None = None) -> DemandFile:
    """What ``read_demand`` makes of a content of a kind, csv, json or npy; errors begin with name.

    >>> found = parse_demand(b"# unit: kB\\n0, 3\\n1.5, 0\\n", "d.csv", "csv")
    >>> found.demand.entry_bytes(1, 0), found.demand.total_bytes
    (Fraction(1500, 1), Fraction(4500, 1))
    >>> parse_demand(b"0, 3\\n1, -2\\n", "d.csv", "csv")
    Traceback (most recent call last):
    ValueError: d.csv, line 2, column 2: -2 is negative: a demand cannot be
    """
    try:
        table = _READERS[kind](data)
        scale = _scale(table.unit, unit)
        rows = [_amounts(place, cells, len(table.rows), scale) for place, cells in table.rows]
        return DemandFile(DemandMatrix(rows), table.names)
    except ValueError as error:
        raise ValueError(f"{name}{_place(error)}") from None
    except RecursionError:
        raise ValueError(f"{name}: the JSON is nested too deeply") from None


def plan_csv(plan: DemandPlan, names: Sequence[str] | None = None) -> str:
    """A line a configuration: switch, when it is made, when circuits are up and how long, circuits.

    Circuits that serve no demand are left out. Times are in seconds, to 12 digits.
    """
    nodes = [str(node) for node in range(plan.demand.num_nodes)] if names is None else names
    lines = ["switch,made_from_s,up_from_s,duration_s,circuits"]
    free_s = [Fraction(0)] * plan.num_switches
    rows = zip(plan.switch.tolist(), plan.durations_s, plan.permutations.tolist(), strict=True)
    for switch, duration_s, circuits in rows:
        up_s = free_s[switch] + plan.delta_s
        pairs = " ".join(
            f"{nodes[source]}>{nodes[target]}"
            for source, target in enumerate(circuits)
            if plan.demand.units[source, target]
        )
        times = ",".join(f"{float(time):.12g}" for time in (free_s[switch], up_s, duration_s))
        lines.append(f"{switch},{times},{pairs}")
        free_s[switch] = up_s + duration_s
    return "\n".join(lines) + "\n"


def _sniffed(data: bytes) -> str:
    if data[:6] == b"\x93NUMPY":
        return "npy"
    first = first_mark(data)
    return "json" if first in (b"{", b"[") else "csv"


def _read_csv(data: bytes) -> _Table:
    rows: list[tuple[str, list[Any]]] = []
    unit: str | None = None
    heading: list[str] | None = None
    heading_place = ""
    labels: list[str] = []
    for number, line in enumerate(data.decode("utf-8-sig").splitlines(), 1):
        said = _UNIT_LINE.fullmatch(line.strip())
        if said and not rows:
            unit = said.group(1)
            _unit_bytes(unit, f", line {number}")
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        cells = _cells(line)
        if heading is None and not rows and (not cells[0] or not any(map(_is_amount, cells))):
            heading, heading_place = cells, f", line {number}"
            continue
        if heading is not None and (not heading[0] or not _is_amount(cells[0])):
            labels.append(cells.pop(0))
        rows.append((f", line {number}", cells))
        if len(rows) > MAX_NODES:
            raise ValueError(f", line {number}: a demand matrix has at most {MAX_NODES} rows")
    if not rows:
        raise ValueError(": there are no rows of amounts")
    if heading is None:
        return _Table(rows, unit)
    names = heading[1:] if labels and len(heading) == len(rows) + 1 else heading
    _check_names(names, len(rows), heading_place)
    _check_labels(labels, names, rows)
    return _Table(rows, unit, tuple(names))


def _cells(line: str) -> list[str]:
    delimiter = next((mark for mark in "\t;," if mark in line), None)
    return [cell.strip() for cell in (line.strip("\r\n ") if delimiter else line).split(delimiter)]


def _check_labels(labels: list[str], names: list[str], rows: list[tuple[str, list[Any]]]) -> None:
    """ValueError at the first row that begins with another name than that of its column."""
    for (place, _), label, name in zip(rows, labels, names, strict=False):
        if label != name:
            raise ValueError(f"{place}: the row of {shown(name)} is named {shown(label)}")


def _check_names(names: Sequence[Any], many: int, place: str = "") -> None:
    """ValueError unless there is a name of its own for every node, printable and without spaces."""
    if len(names) != many:
        raise ValueError(f"{place}: {len(names)} names for {many} rows")
    for at, name in enumerate(names):
        if not isinstance(name, str) or not name.isprintable() or not name or " " in name:
            raise ValueError(f"{place}: {shown(name)} is no name of a node: it is a word")
        if name in names[:at]:
            raise ValueError(f"{place}: two nodes are named {shown(name)}")


def _read_json(data: bytes) -> _Table:
    value = json.loads(data, parse_float=_decimal, parse_int=_decimal, parse_constant=str)
    unit = names = None
    if isinstance(value, dict):
        for key in value:
            if key not in ("matrix", "unit", "names"):
                raise ValueError(f": {shown(key)} is not known: there are matrix, unit and names")
        unit, names, value = value.get("unit"), value.get("names"), value.get("matrix")
    if not isinstance(value, list) or not all(isinstance(row, list) for row in value):
        raise ValueError(": a demand matrix is a list of rows, each a list of amounts")
    if len(value) > MAX_NODES:
        raise ValueError(f": {len(value)} rows: a demand matrix has at most {MAX_NODES}")
    if unit is not None and not isinstance(unit, str):
        raise ValueError(f": unit is {shown(unit)}: it is a text such as MiB")
    if names is not None and not isinstance(names, list):
        raise ValueError(f": names is {shown(names)}: it is a list of texts")
    if names is not None:
        _check_names(names, len(value))
    rows = [(f", row {at}", row) for at, row in enumerate(value, 1)]
    return _Table(rows, unit, None if names is None else tuple(names))


def _decimal(text: str) -> Decimal:
    if len(text) > 90:
        raise ValueError(f": a number of {len(text)} characters is not read")
    return Decimal(text)


def _read_npy(data: bytes) -> _Table:
    """The rows of a square array, whose header is checked before memory is taken."""
    content = io.BytesIO(data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            version = np.lib.format.read_magic(content)
            reads = {
                (1, 0): np.lib.format.read_array_header_1_0,
                (2, 0): np.lib.format.read_array_header_2_0,
            }
            shape, _, dtype = reads[version](content, max_header_size=_MAX_HEADER_BYTES)
    except Exception as error:  # numpy's parser of a hostile header may raise anything
        reason = " ".join(str(error).split())[:100] or type(error).__name__
        raise ValueError(f": this is not an npy file ({reason})") from None
    if dtype.hasobject or dtype.kind not in "iuf" or dtype.itemsize > 8:
        raise ValueError(f": the array holds {shown(str(dtype))}, not integers or floats")
    if len(shape) != 2 or shape[0] != shape[1] or not 1 <= shape[0] <= MAX_NODES:
        raise ValueError(f": an array of shape {shape} is no square matrix of up to {MAX_NODES}")
    if len(data) - content.tell() != shape[0] * shape[1] * dtype.itemsize:
        raise ValueError(": the file does not have as many bytes as its shape says")
    array = np.load(io.BytesIO(data), allow_pickle=False)
    return _Table([(f", row {at}", row) for at, row in enumerate(array.tolist(), 1)])


_READERS: dict[str, Callable[[bytes], _Table]] = {
    "csv": _read_csv,
    "json": _read_json,
    "npy": _read_npy,
}


def _scale(said: str | None, asked: str | None) -> Fraction:
    """Bytes of 1 in the unit that the file names or that was asked for."""
    scales = [_unit_bytes(unit) for unit in (said, asked) if unit is not None]
    if len(set(scales)) > 1:
        raise ValueError(f": its unit is {said}, not {asked}")
    return scales[0] if scales else Fraction(1)


def _unit_bytes(unit: str, place: str = "") -> Fraction:
    """Bytes of a unit such as MiB, or of a size such as 8KiB."""
    try:
        size = exact(parse_size(unit if _is_amount(unit) else f"1{unit}"))
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None
    if not size:
        raise ValueError(f"{place}: the unit is {shown(unit)}: it must be positive")
    return size


def _amounts(place: str, cells: list[Any], many: int, scale: Fraction) -> list[Fraction]:
    if len(cells) != many:
        raise ValueError(
            f"{place}: {len(cells)} entries, but there are {many} rows: a demand matrix is square"
        )
    amounts = []
    for at, cell in enumerate(cells, 1):
        try:
            amounts.append(_amount(cell, scale))
        except ValueError as error:
            raise ValueError(f"{place}, column {at}: {error}") from None
    return amounts


def _amount(cell: Any, scale: Fraction) -> Fraction:
    """The bytes of an entry: a number in the file's unit, or a text with a unit of its own."""
    if isinstance(cell, str) and not _NUMBER.fullmatch(cell):
        if not _is_amount(cell):
            raise ValueError(shown(cell) + _NO_AMOUNT)
        return exact(parse_size(cell))
    if isinstance(cell, bool) or not isinstance(cell, (str, int, float, Decimal)):
        raise ValueError(shown(cell) + _NO_AMOUNT)
    if isinstance(cell, Decimal) and not -99 <= cell.adjusted() <= 99:
        raise ValueError(f"{shown(str(cell))} is out of all proportion")
    amount = exact(cell, "it") if isinstance(cell, float) else Fraction(cell)
    if amount < 0:
        raise ValueError(f"{cell} is negative: a demand cannot be")
    if amount and not Fraction(1, _MOST_BYTES) <= amount * scale <= _MOST_BYTES:
        raise ValueError(f"{shown(str(cell))} is out of all proportion")
    return amount * scale


def _is_amount(cell: str) -> bool:
    """Whether a cell begins as a number does, whatever is wrong with it."""
    return bool(re.match(r"[+-]?\.?[0-9]", cell)) or cell.lower() in ("nan", "inf", "-inf")


def _place(error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f", line {error.lineno}: this is not JSON ({error.msg.lower()})"
    if isinstance(error, UnicodeDecodeError):
        return ": this is not UTF-8 text"
    text = str(error)
    return text if text.startswith((":", ",")) else f": {text}"
