"""Step lists: the configurations that the steps of a collective need and the bytes they move.

Columns of a CSV file, named by its first line in any order, and keys of a step in JSON alike:

========================== =====================================================
``configuration``          the configuration that the step needs, by name
``size`` (or ``bytes``)    what a node sends in it, with its unit, as in ``4MB``
                           (a number of bytes)
``count``                  how many such steps come in a row, 1 by default
========================== =====================================================

``records`` says how lines and cells are separated. JSON is a list of steps, or an object with it as
``steps``, which may also say what circuits the configurations have: ``"configurations": {"ring":
[[0, 1], [1, 0]], ...}``, every circuit from a port to a port. Then it is known how many circuits
change from one to another.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, final

from ocs_codesign.files.naming import shown
from ocs_codesign.files.places import errors_at
from ocs_codesign.files.plain_text import path_text
from ocs_codesign.formats.records import (
    Layout,
    count_to,
    csv_records,
    json_list,
    json_records,
    number,
    quantity,
    read_content,
)
from ocs_codesign.quantities import parse_size
from ocs_codesign.reconfigure.planes.problem import MAX_CONFIGURATIONS, MAX_MATRIX, MAX_STEPS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ocs_codesign.formats.records import Read

MAX_STEP_BYTES = 16 * 2**20
"""Bytes of the largest file that is read."""
MAX_CIRCUITS = 2**18

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


class _Step(NamedTuple):
    """A step as it is read: a configuration, by whatever is given as its name."""

    configuration: Any
    num_bytes: Fraction
    count: int = 1


@final
@dataclass(slots=True)
class _Gathered:
    """Names and steps as they are read."""

    number: dict[str, int] = field(default_factory=dict)
    configurations: list[int] = field(default_factory=list)
    step_bytes: list[Fraction] = field(default_factory=list)

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

    def add(self, steps: Iterable[tuple[str, _Step]], *, is_new: bool) -> None:
        """Append steps as often as they come; whether they may name new configurations."""
        for place, step in steps:
            with errors_at(place):
                if not is_new and str(step.configuration) not in self.number:
                    raise ValueError(f"configuration {shown(step.configuration)} has no circuits")
                if len(self.configurations) + step.count > MAX_STEPS:
                    raise ValueError(f"more than {MAX_STEPS} steps: no more are planned")
                self.configurations += [self.name(step.configuration)] * step.count
                self.step_bytes += [step.num_bytes] * step.count

    def steps(self, sets: list[frozenset[tuple[int, int]]] | None = None) -> StepList:
        """All of it, with the circuits of every configuration if they are known."""
        if not self.configurations:
            raise ValueError("there are no steps: at least one is needed")
        changed = None
        if sets is not None:
            rows = [*sets, frozenset[tuple[int, int]]()]
            changed = tuple(tuple(len(b - a) for b in sets) for a in rows)
        return StepList(
            tuple(self.number), tuple(self.configurations), tuple(self.step_bytes), changed
        )


def read_steps(path: str | Path) -> StepList:
    """The steps in a CSV or JSON file, told apart by the suffix, or by the content under any other.

    Raises OSError if the file cannot be read and ValueError, with the file, the line or the place
    in the JSON, and the rule, for anything else.
    """
    path = Path(path)
    empty = "the file is empty: at least one step is needed"
    data, is_json = read_content(path, MAX_STEP_BYTES, empty)
    return parse_steps(data, str(path), is_json=is_json)


def parse_steps(data: bytes, name: str, *, is_json: bool) -> StepList:
    """The steps of a content; errors begin with the name.

    >>> steps = parse_steps(b"configuration,size\\nring,4MB\\nstar,2MB\\n", "s.csv", is_json=False)
    >>> steps.names, steps.configurations, steps.step_bytes[0]
    (('ring', 'star'), (0, 1), Fraction(4000000, 1))
    >>> parse_steps(b"configuration,size\\nring,4\\n", "s.csv", is_json=False)
    Traceback (most recent call last):
    ValueError: s.csv, line 2: size: '4' has no unit: write a size as in 1MiB
    """
    gathered = _Gathered()
    if not is_json:
        gathered.add(csv_records(data, name, LAYOUT), is_new=True)
        with errors_at(name):
            return gathered.steps()
    key, values, circuits = json_list(data, name, LAYOUT, "configurations")
    with errors_at(name):
        sets = None if circuits is None else _circuits(gathered, circuits)
        gathered.add(json_records(values, key, LAYOUT), is_new=sets is None)
        return gathered.steps(sets)


def _moved(read: Read) -> Read:
    """Reads what a step moves."""

    def moved(value: Any, name: str) -> Fraction:
        size: Fraction = read(value, name)
        if not 0 < size <= _LARGEST:
            raise ValueError(f"{name} is {float(size):.6g}: it must be more than 0, to 1e24")
        return size

    return moved


LAYOUT = Layout(
    "step list",
    "step",
    {
        "configuration": ("configuration", lambda value, _: value),
        "size": ("num_bytes", _moved(quantity(parse_size, "4MB"))),
        "bytes": ("num_bytes", _moved(number)),
        "count": ("count", count_to(MAX_STEPS)),
    },
    ("configuration", "num_bytes"),
    _Step,
    MAX_STEPS,
)
"""Every column of a CSV step list and key of a step in JSON."""


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
        for position, pair in enumerate(pairs):
            place = path_text(("configurations", name, position))
            circuits.add(_circuit(pair, place))
            if len(circuits) <= position:
                raise ValueError(f"{place}: the circuit {shown(pair)} is there twice")
        sets.append(frozenset(circuits))
        if sum(map(len, sets)) > MAX_CIRCUITS:
            raise ValueError(f"configurations: more than {MAX_CIRCUITS} circuits are not read")
        for side, what in ((0, "begin"), (1, "end")):
            ports = Counter(circuit[side] for circuit in circuits)
            twice = [port for port, times in ports.items() if times > 1]
            if twice:
                raise ValueError(f"configurations.{name}: two circuits {what} at port {min(twice)}")
    return sets


def _circuit(pair: Any, place: str) -> tuple[int, int]:
    good = isinstance(pair, list) and len(pair) == 2
    if not good or any(type(port) is not int or not 0 <= port < 2**31 for port in pair):
        raise ValueError(f"{place} is {shown(pair)}: a circuit is two ports, numbers from 0")
    return pair[0], pair[1]
