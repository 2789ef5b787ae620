"""Step lists: the configurations that the steps of a collective need and the bytes they move.

Columns of a CSV file, named by its first line in any order, and keys of a step in JSON alike:

========================== =====================================================
``configuration``          the configuration that the step needs, by name
``size`` (or ``bytes``)    what a node sends in it, with its unit, as in ``4MB``
                           (a number of bytes)
``count``                  how many such steps come in a row, 1 by default
========================== =====================================================

CSV cells are separated by commas, semicolons or tabs; empty lines and lines that begin with ``#``
are skipped. JSON is a list of steps, or an object with it as ``steps``, which may also say what
circuits the configurations have: ``"configurations": {"ring": [[0, 1], [1, 0]], ...}``, every
circuit from a port to a port. Then it is known how many circuits change from one to another.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.files.naming import shown
from ocs_codesign.files.plain_text import path_text, read_plain_text
from ocs_codesign.formats.csv_text import NUMBER, delimiter_of, is_comment, placed, text_of
from ocs_codesign.formats.file_format import Format, read_file
from ocs_codesign.quantities import exact, parse_size
from ocs_codesign.reconfigure.planes.problem import MAX_CONFIGURATIONS, MAX_MATRIX, MAX_STEPS

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_STEP_BYTES = 16 * 2**20
"""Bytes of the largest file that is read."""
MAX_CIRCUITS = 2**18

_COLUMNS = {"configuration": "configuration", "size": "size", "bytes": "size", "count": "count"}
_COUNT = re.compile(r"[0-9]{1,9}")
_LARGEST = 10**24
_MAX_NAME = 80


@final
@dataclass(frozen=True, slots=True)
class StepList:
    """Steps with configurations as numbers from 0, in the order in which the file names them.

    ``changed_circuits`` is as in ``PlaneProblem``, None if the file does not tell the circuits.
    """

    names: tuple[str, ...]
    configurations: tuple[int, ...]
    step_bytes: tuple[Fraction, ...]
    changed_circuits: tuple[tuple[int, ...], ...] | None = None

    def index(self, name: str) -> int:
        """The number of a configuration; ValueError if there is none of this name."""
        if name not in self.names:
            known = ", ".join(self.names[:8]) + (", ..." if len(self.names) > 8 else "")
            raise ValueError(f"there is no configuration {shown(name)}: there are {known}")
        return self.names.index(name)


class _Gathered:
    """Names and steps as they are read."""

    def __init__(self) -> None:
        self.number: dict[str, int] = {}
        self.configurations: list[int] = []
        self.step_bytes: list[Fraction] = []

    def name(self, name: Any) -> int:
        """The number of a configuration, new if its name was not seen before."""
        if isinstance(name, int) and not isinstance(name, bool):
            name = str(name)
        is_short = isinstance(name, str) and 0 < len(name) <= _MAX_NAME
        if not is_short or not name.isprintable():
            rule = "it must be printable" if is_short else "it is a short text"
            raise ValueError(f"{shown(name)} is not a name of a configuration: {rule}")
        number = self.number.setdefault(name, len(self.number))
        if number >= MAX_CONFIGURATIONS:
            raise ValueError(f"more than {MAX_CONFIGURATIONS} configurations: no more are planned")
        return number

    def step(self, values: dict[str, Any]) -> None:
        """Append the step with these values by name as often as it comes."""
        size = _bytes(values["bytes"]) if "bytes" in values else _size(values["size"])
        if not 0 < size <= _LARGEST:
            raise ValueError(
                f"a step moves {float(size):.6g} bytes: it must be more than 0, to 1e24"
            )
        count = _count(values.get("count", "1"))
        if len(self.configurations) + count > MAX_STEPS:
            raise ValueError(f"more than {MAX_STEPS} steps: no more are planned")
        self.configurations += [self.name(values["configuration"])] * count
        self.step_bytes += [size] * count

    def steps(self, changed: tuple[tuple[int, ...], ...] | None = None) -> StepList:
        """All of it."""
        if not self.configurations:
            raise ValueError("there are no steps: at least one is needed")
        return StepList(
            tuple(self.number), tuple(self.configurations), tuple(self.step_bytes), changed
        )


def read_steps(path: str | Path) -> StepList:
    """The steps in a CSV or JSON file, told apart by the suffix, or by the content under any other.

    Raises OSError if the file cannot be read and ValueError, with the file, the line or the place
    in the JSON, and the rule, for anything else.
    """
    empty = "the file is empty: at least one step is needed"
    return read_file(STEP_FORMATS, Path(path), None, MAX_STEP_BYTES, empty)[0]


def parse_steps(data: bytes, name: str, *, is_json: bool) -> StepList:
    """The steps of a content; errors begin with the name.

    >>> steps = parse_steps(b"configuration,size\\nring,4MB\\nstar,2MB\\n", "s.csv", is_json=False)
    >>> steps.names, steps.configurations, steps.step_bytes[0]
    (('ring', 'star'), (0, 1), Fraction(4000000, 1))
    >>> parse_steps(b"configuration,size\\nring,4\\n", "s.csv", is_json=False)
    Traceback (most recent call last):
    ValueError: s.csv, line 2: size: '4' has no unit: write a size as in 1MiB
    """
    if is_json:
        value = read_plain_text(data, name, is_json=True).value
        with placed(name):
            return _json_steps(value)
    gathered = _csv_steps(text_of(data, name), name)
    with placed(name):
        return gathered.steps()


STEP_FORMATS: dict[str, Format[StepList]] = {
    "csv": Format("a step a line", partial(parse_steps, is_json=False), None, (".csv", ".tsv")),
    "json": Format("steps", partial(parse_steps, is_json=True), None, (".json",), (b"{", b"[")),
}
"""Every format of step lists."""


def _csv_steps(text: str, name: str) -> _Gathered:
    gathered = _Gathered()
    columns: list[str] | None = None
    lines = [line for line in enumerate(text.splitlines(), 1) if not is_comment(line[1])]
    delimiter = delimiter_of(lines[0][1] if lines else "")
    for line, full in lines:
        with placed(f"{name}, line {line}"):
            cells = _cells(full, delimiter)
            if columns is None:
                columns = [cell.lower() for cell in cells]
                _check_keys(columns, "the heading")
            elif len(cells) != len(columns):
                raise ValueError(f"{len(cells)} cells, but the heading has {len(columns)} columns")
            else:
                gathered.step(dict(zip(columns, cells, strict=True)))
    return gathered


def _cells(line: str, delimiter: str) -> list[str]:
    try:
        cells = next(csv.reader([line], delimiter=delimiter, strict=True, skipinitialspace=True))
    except csv.Error as error:
        raise ValueError(f"this is not CSV ({error})") from None
    return [cell.strip() for cell in cells]


def _check_keys(names: Sequence[str], place: str) -> None:
    """ValueError unless they name a configuration, a size in one way, and nothing unknown."""
    for name in names:
        if name not in _COLUMNS:
            raise ValueError(f"{place} names {shown(name)}: known are {', '.join(_COLUMNS)}")
    parts = [_COLUMNS[name] for name in names]
    for part in ("configuration", "size", "count"):
        if parts.count(part) > 1:
            raise ValueError(f"{place} gives the {part} twice")
        if part != "count" and part not in parts:
            raise ValueError(f"{place} gives no {part}: every step has one")


def _size(value: Any) -> Fraction:
    if not isinstance(value, str):
        raise ValueError(f"size is {shown(value)}: write it as a text with a unit, as in 4MB")
    try:
        return exact(parse_size(value))
    except ValueError as error:
        raise ValueError(f"size: {error}") from None


def _bytes(value: Any) -> Fraction:
    if isinstance(value, str) and NUMBER.fullmatch(value):
        return Fraction(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"bytes is {shown(value)}: it must be a number without a unit")
    return exact(value)


def _count(value: Any) -> int:
    if isinstance(value, str) and _COUNT.fullmatch(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"count is {shown(value)}: it must be a whole number from 1")
    return value


def _json_steps(value: Any) -> StepList:
    circuits = None
    place: tuple[str, ...] = ()
    if isinstance(value, dict):
        for key in value:
            if key not in ("steps", "configurations"):
                raise ValueError(f"{shown(key)} is not known: there are steps and configurations")
        circuits, value, place = value.get("configurations"), value.get("steps"), ("steps",)
    if not isinstance(value, list):
        raise ValueError("a step list is a list of steps, or an object with it as steps")
    gathered = _Gathered()
    sets = None if circuits is None else _circuits(gathered, circuits)
    for at, step in enumerate(value):
        where = path_text((*place, at))
        if not isinstance(step, dict):
            raise ValueError(f"{where} is {shown(step)}: a step is an object")
        with placed(where):
            _check_keys(list(step), "the step")
            if sets is not None and str(step["configuration"]) not in gathered.number:
                raise ValueError(f"configuration {shown(step['configuration'])} has no circuits")
            gathered.step(step)
    if sets is None:
        return gathered.steps()
    rows = [*sets, frozenset[tuple[int, int]]()]
    return gathered.steps(tuple(tuple(len(b - a) for b in sets) for a in rows))


def _circuits(gathered: _Gathered, value: Any) -> list[frozenset[tuple[int, int]]]:
    """The circuits of every configuration, which are numbered on the way."""
    if not isinstance(value, dict) or not value:
        raise ValueError(f"configurations is {shown(value)}: it names lists of circuits")
    if len(value) > MAX_MATRIX:
        raise ValueError(f"configurations: circuits of more than {MAX_MATRIX} are not read")
    sets = []
    for name, pairs in value.items():
        gathered.name(name)
        if not isinstance(pairs, list) or not pairs:
            raise ValueError(f"configurations.{name} is {shown(pairs)}: it is a list of circuits")
        circuits = set()
        for at, pair in enumerate(pairs):
            place = path_text(("configurations", name, at))
            circuits.add(_circuit(pair, place))
            if len(circuits) <= at:
                raise ValueError(f"{place}: the circuit {shown(pair)} is there twice")
        sets.append(frozenset(circuits))
        if sum(map(len, sets)) > MAX_CIRCUITS:
            raise ValueError(f"configurations: more than {MAX_CIRCUITS} circuits are not read")
        for side, what in ((0, "begin"), (1, "end")):
            ports = Counter(circuit[side] for circuit in circuits)
            twice = [port for port, number in ports.items() if number > 1]
            if twice:
                raise ValueError(f"configurations.{name}: two circuits {what} at port {min(twice)}")
    return sets


def _circuit(pair: Any, place: str) -> tuple[int, int]:
    good = isinstance(pair, list) and len(pair) == 2
    if not good or any(type(port) is not int or not 0 <= port < 2**31 for port in pair):
        raise ValueError(f"{place} is {shown(pair)}: a circuit is two ports, numbers from 0")
    return pair[0], pair[1]
