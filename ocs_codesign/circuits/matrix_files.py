"""Demand matrices read from CSV, JSON, numpy and Matrix Market files, and plans written as CSV.

An entry is the bytes from the row's node to the column's node: a number in the file's unit (bytes
if it names none) or a size with a unit of its own, as in ``4MiB``. The unit may be a size as well:
of numbers of tokens it is that of a token, as in ``8KiB``.

- CSV: a row a line, cells separated by commas, semicolons, tabs or spaces. Empty lines and lines
  that begin with ``#`` are skipped, but for ``# unit: MiB``. A first line of names gives the nodes
  theirs; the first cell of every row may repeat them.
- JSON: a list of rows, or an object with it as ``matrix``, and perhaps ``unit`` and ``names``.
  Or such an object with ``matrix_of``: the arguments of ``expert_counts`` and its ``kind``; as
  ``groups`` how many such groups there are side by side, drawn one by one, and as ``stride`` how
  many ranks lie between those of one.
- npy: a square array of integers or floats, or npz with one; nothing is unpickled.
- Matrix Market: a coordinate or array matrix of integers or reals.
"""

from __future__ import annotations

import io
import re
import warnings
import zipfile
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.circuits.demand.matrix import MAX_NODES, DemandMatrix
from ocs_codesign.core.files.archives import BROKEN, broken_reason, check_size
from ocs_codesign.core.files.atomic import decoded, errors_at
from ocs_codesign.core.files.plain_text import read_plain_text
from ocs_codesign.core.files.records import Format, delimiter_of, is_comment, read_file, readers
from ocs_codesign.core.quantities import NUMBER, exact, parse_number, parse_size
from ocs_codesign.core.shown import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ocs_codesign.circuits.demand.matrix import DemandPlan


MAX_MATRIX_BYTES = 64 * 2**20

_MOST_BYTES = 10**24
_UNIT_LINE = re.compile(r"#\s*unit\s*[:=]\s*(\S{1,20})\s*", re.IGNORECASE)
_MAX_HEADER_BYTES = 2**12


@final
@dataclass(frozen=True, slots=True)
class _Table:
    """Rows of amounts as they are written, each row with where it is, and what else is said."""

    rows: list[tuple[str, list[Any]]]
    unit: str | None = None
    names: tuple[str, ...] | None = None

    def demand(self, name: str, unit: str | None) -> DemandMatrix:
        """The demand, with the file's unit or the one that was asked for."""
        with errors_at(name):
            scale = _scale(self.unit, unit)
        rows = [_amounts(place, cells, len(self.rows), scale) for place, cells in self.rows]
        with errors_at(name):
            return DemandMatrix(rows, self.names)


def read_demand(path: str | Path, unit: str | None = None) -> DemandMatrix:
    """The demand in a CSV, JSON, numpy or Matrix Market file, told by the suffix or the content.

    ``unit`` is that of numbers without one, such as ``MiB``; it must not contradict the file.
    Raises OSError if the file cannot be read and ValueError, with the file, the line or the place,
    and the rule, for anything else.
    """
    empty = "the file is empty: a demand matrix has at least one row"
    table = read_file(MATRIX_FORMATS, Path(path), None, MAX_MATRIX_BYTES, empty)[0]
    return table.demand(str(path), unit)


def parse_demand(data: bytes, name: str, kind: str, unit: str | None = None) -> DemandMatrix:
    """What ``read_demand`` makes of a content of a kind; errors begin with the name."""
    return readers(MATRIX_FORMATS)[kind](data, name).demand(name, unit)


def plan_csv(plan: DemandPlan, names: Sequence[str] | None = None) -> str:
    """A line a configuration: switch, when it is made, when circuits are up and how long, circuits.

    Circuits that serve no demand are left out. Times are in seconds, to 12 digits.
    """
    nodes = [str(node) for node in range(plan.demand.num_nodes)] if names is None else names
    lines = ["switch,made_from_s,up_from_s,duration_s,circuits"]
    timeline = zip(plan.switch.tolist(), plan.up_from_s(), plan.durations_s, strict=True)
    for at, (switch, up_s, held_s) in enumerate(timeline):
        pairs = " ".join(f"{nodes[i]}>{nodes[j]}" for i, j in plan.used_circuits(at))
        times = ",".join(f"{float(time):.12g}" for time in (up_s - plan.delta_s, up_s, held_s))
        lines.append(f"{switch},{times},{pairs}")
    return "\n".join(lines) + "\n"


def _read_csv(data: bytes, name: str) -> _Table:
    rows: list[tuple[str, list[Any]]] = []
    labels: list[str] = []
    unit: str | None = None
    heading: list[str] | None = None
    heading_place = ""
    for number, line in enumerate(decoded(data, name).splitlines(), 1):
        place = f"{name}, line {number}"
        said = _UNIT_LINE.fullmatch(line.strip())
        if said and not rows:
            unit = said.group(1)
            with errors_at(place):
                _unit_bytes(unit)
        if is_comment(line):
            continue
        cells = _cells(line)
        if heading is None and not rows and (not cells[0] or not any(map(_is_amount, cells))):
            heading, heading_place = cells, place
            continue
        if heading is not None and (not heading[0] or not _is_amount(cells[0])):
            labels.append(cells.pop(0))
        rows.append((place, cells))
        if len(rows) > MAX_NODES:
            raise ValueError(f"{place}: a demand matrix has at most {MAX_NODES} rows")
    if not rows:
        raise ValueError(f"{name}: there are no rows of amounts")
    if heading is None:
        return _Table(rows, unit)
    names = heading[1:] if labels and len(heading) == len(rows) + 1 else heading
    with errors_at(heading_place):
        _check_names(names, len(rows))
    for (place, _), label, node in zip(rows, labels, names, strict=False):
        if label != node:
            raise ValueError(f"{place}: the row of {shown(node)} is named {shown(label)}")
    return _Table(rows, unit, tuple(names))


def _cells(line: str) -> list[str]:
    delimiter = delimiter_of(line)
    apart = line.strip("\r\n ").split(delimiter) if delimiter in line else line.split()
    return [cell.strip() for cell in apart]


def _check_names(names: Sequence[Any], many: int) -> None:
    """ValueError unless there is a name of its own for every node, printable and without spaces."""
    if len(names) != many:
        raise ValueError(f"{len(names)} names for {many} rows")
    for at, name in enumerate(names):
        if not isinstance(name, str) or not name.isprintable() or not name or " " in name:
            raise ValueError(f"{shown(name)} is no name of a node: it is a word")
        if name in names[:at]:
            raise ValueError(f"two nodes are named {shown(name)}")


def _read_json(data: bytes, name: str) -> _Table:
    value = read_plain_text(data, name, is_json=True).value
    with errors_at(name):
        return _json_table(value, name)


def _json_table(value: Any, name: str) -> _Table:
    unit = names = None
    if isinstance(value, dict):
        if "links" in value:  # of a case with its network, the demand alone
            value = {key: value[key] for key in (*_KEYS, "matrix_of") if key in value}
        if "matrix_of" in value and "matrix" not in value:
            value = {**value, "matrix": _drawn(value.pop("matrix_of"))}
        value.pop("matrix_of", None)
        for key in value:
            if key not in _KEYS:
                raise ValueError(f"{shown(key)} is not known: there are {', '.join(_KEYS)}")
        unit, names, value = value.get("unit"), value.get("names"), value.get("matrix")
    if not isinstance(value, list) or not all(isinstance(row, list) for row in value):
        raise ValueError("a demand matrix is a list of rows, each a list of amounts")
    if len(value) > MAX_NODES:
        raise ValueError(f"{len(value)} rows: a demand matrix has at most {MAX_NODES}")
    if unit is not None and not isinstance(unit, str):
        raise ValueError(f"unit is {shown(unit)}: it is a text such as MiB")
    if names is not None and not isinstance(names, list):
        raise ValueError(f"names is {shown(names)}: it is a list of texts")
    if names is not None:
        _check_names(names, len(value))
    rows = [(f"{name}, row {at}", row) for at, row in enumerate(value, 1)]
    return _Table(rows, unit, None if names is None else tuple(names))


_KEYS = ("matrix", "unit", "names")


def _drawn(asked: Any) -> list[list[int]]:
    """Tokens of experts as they are drawn."""
    from ocs_codesign.schedules.exchange.experts import expert_counts, side_by_side

    known = ("experts", "top_k", "ranks", "tokens", "seed", "step", "layer", "once")
    around = ("groups", "stride")
    if not isinstance(asked, dict):
        raise ValueError("matrix_of has a kind, experts, top_k, ranks and tokens")
    given = {key: asked[key] for key in (*known, *around) if key in asked}
    if not all(type(value) in (int, bool) for value in given.values()):
        raise ValueError(f"matrix_of has whole numbers as {', '.join(known[:-1])}")
    missing = [key for key in known[:4] if key not in given]
    if missing:
        raise ValueError(f"matrix_of has no {missing[0]}")
    groups, stride = (given.pop(key, 1) for key in around)
    if groups < 1 or groups * given["ranks"] > MAX_NODES:
        raise ValueError(f"matrix_of has {groups} groups: there are 1 to {MAX_NODES} ranks in all")
    kind, seed = str(asked.get("kind")), given.pop("seed", 1)
    drawn = [expert_counts(kind, **given, seed=seed + group) for group in range(groups)]
    rows: list[list[int]] = side_by_side(drawn, stride).tolist()
    return rows


def _read_npy(data: bytes, name: str) -> _Table:
    with errors_at(name):
        array = _array(data)
    return _Table([(f"{name}, row {at}", row) for at, row in enumerate(array.tolist(), 1)])


def _read_npz(data: bytes, name: str) -> _Table:
    with errors_at(name):
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                members = archive.infolist()
                if len(members) != 1:
                    raise ValueError(f"{len(members)} arrays: a demand is one")
                with archive.open(members[0]) as file:
                    content = file.read(MAX_MATRIX_BYTES + 1)
        except BROKEN as error:
            raise ValueError(f"this is not an npz file ({broken_reason(error)})") from None
        check_size(len(content), "the array", MAX_MATRIX_BYTES)
    return _read_npy(content, name)


def _read_matrix_market(data: bytes, name: str) -> _Table:
    """Rows of a Matrix Market file, whose size is read before it is."""
    from scipy.io import mmread

    lines = (line for line in data.split(b"\n") if not line.startswith(b"%") and line.strip())
    numbers = next(lines, b"").split()
    with errors_at(name):
        if len(numbers) not in (2, 3) or not all(one.isdigit() for one in numbers):
            raise ValueError("this is no Matrix Market file: the size of the matrix is not said")
        rows, columns = int(numbers[0][:9]), int(numbers[1][:9])
        if rows != columns or not 1 <= rows <= MAX_NODES:
            raise ValueError(f"{rows} rows, {columns} columns: a demand is square, of {MAX_NODES}")
        try:
            matrix = mmread(io.BytesIO(data), spmatrix=False)
        except (ValueError, OverflowError, TypeError, IndexError) as error:
            reason = " ".join(str(error).split())[:100]
            raise ValueError(f"this is no Matrix Market file ({reason})") from None
        array = np.asarray(matrix.todense() if hasattr(matrix, "todense") else matrix)
        if array.dtype.kind not in "iuf":
            raise ValueError(f"the matrix holds {shown(str(array.dtype))}, not integers or reals")
    return _Table([(f"{name}, row {at}", row) for at, row in enumerate(array.tolist(), 1)])


def _array(data: bytes) -> np.ndarray[Any, Any]:
    """A square array, whose header is checked before memory is taken."""
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
    except Exception:  # numpy's parser of a hostile header may raise anything
        raise ValueError("this is not an npy file of version 1.0 or 2.0") from None
    if dtype.hasobject or dtype.kind not in "iuf" or dtype.itemsize > 8:
        raise ValueError(f"the array holds {shown(str(dtype))}, not integers or floats")
    if len(shape) != 2 or shape[0] != shape[1] or not 1 <= shape[0] <= MAX_NODES:
        raise ValueError(f"an array of shape {shape} is no square matrix of up to {MAX_NODES}")
    if len(data) - content.tell() != shape[0] * shape[1] * dtype.itemsize:
        raise ValueError("the file does not have as many bytes as its shape says")
    return np.asarray(np.load(io.BytesIO(data), allow_pickle=False))


MATRIX_FORMATS: dict[str, Format[_Table]] = {
    "csv": Format("a row a line", _read_csv, None, (".csv", ".tsv", ".txt")),
    "json": Format("rows, a unit and names", _read_json, None, (".json",), (b"{", b"[")),
    "npy": Format("a square array", _read_npy, None, (".npy",), (b"\x93NUMPY",)),
    "npz": Format("one square array", _read_npz, None, (".npz",), (b"PK",)),
    "mtx": Format("Matrix Market", _read_matrix_market, None, (".mtx",), (b"%%MatrixMarket",)),
}
"""Every format of demand matrices."""


def _scale(said: str | None, asked: str | None) -> Fraction:
    """Bytes of 1 in the unit that the file names or that was asked for."""
    scales = [_unit_bytes(unit) for unit in (said, asked) if unit is not None]
    if len(set(scales)) > 1:
        raise ValueError(f"its unit is {said}, not {asked}")
    return scales[0] if scales else Fraction(1)


def _unit_bytes(unit: str) -> Fraction:
    """Bytes of a unit such as MiB, or of a size such as 8KiB."""
    size = exact(parse_size(unit if _is_amount(unit) else f"1{unit}"))
    if not size:
        raise ValueError(f"the unit is {shown(unit)}: it must be positive")
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
    is_text = isinstance(cell, str)
    if is_text and _is_amount(cell) and not NUMBER.fullmatch(cell):
        return exact(parse_size(cell))
    if (is_text and not _is_amount(cell)) or type(cell) not in (str, int, float):
        raise ValueError(f"{shown(cell)} is no amount: write a number, or a size as in 4MiB")
    amount = parse_number(cell) if isinstance(cell, str) else exact(cell, "it")
    if amount < 0:
        raise ValueError(f"{cell} is negative: a demand cannot be")
    if amount and not Fraction(1, _MOST_BYTES) <= amount * scale <= _MOST_BYTES:
        raise ValueError(f"{shown(str(cell))} is out of all proportion")
    return amount * scale


def _is_amount(cell: str) -> bool:
    """Whether a cell begins as a number does, whatever is wrong with it."""
    return bool(re.match(r"[+-]?\.?[0-9]", cell)) or cell.lower() in ("nan", "inf", "-inf")
