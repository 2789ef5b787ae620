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
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, final

from ocs_codesign.circuits.legs.trace import MAX_JOBS, Job, Trace
from ocs_codesign.circuits.planes.problem import MAX_CONFIGURATIONS, MAX_MATRIX, MAX_STEPS
from ocs_codesign.core.collective import WITHOUT_PARAMETERS, Collective
from ocs_codesign.core.files.atomic import errors_at
from ocs_codesign.core.files.plain_text import path_text
from ocs_codesign.core.files.records import (
    Format,
    RecordLayout,
    count_to,
    number,
    parse_records,
    quantity,
    read_file,
    within,
)
from ocs_codesign.core.quantities import parse_size, parse_time
from ocs_codesign.core.shown import shown

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

    def with_held(self, names: Iterable[str]) -> StepList:
        """The same with configurations that planes hold and no step uses, named last.

        Their circuits must be known if those of others are: then nothing is added.
        """
        foreign = () if self.changed_circuits is not None else names
        known = dict.fromkeys((*self.names, *foreign))
        return replace(self, names=tuple(known))

    @property
    def unused(self) -> tuple[str, ...]:
        """Configurations that no step uses."""
        used = set(self.configurations)
        return tuple(name for at, name in enumerate(self.names) if at not in used)

    def index(self, name: str) -> int:
        """The number of a configuration; ValueError if there is none of this name."""
        if name not in self.names:
            known = ", ".join(self.names[:8]) + (", ..." if len(self.names) > 8 else "")
            raise ValueError(f"there is no configuration {shown(name)}: there are {known}")
        return self.names.index(name)


@final
@dataclass(frozen=True, slots=True)
class _Step:
    """Steps in a row."""

    configuration: str
    num_bytes: Fraction
    count: int = 1


def read_steps(path: str | Path) -> StepList:
    """The steps in a CSV or JSON file, told apart by the suffix, or by the content under any other.

    Raises OSError if the file cannot be read and ValueError, with the file, the line or the place
    in the JSON, and the rule, for anything else.
    """
    empty = "the file is empty: at least one step is needed"
    return read_file(STEP_FORMATS, Path(path), None, MAX_STEP_BYTES, empty)[0]


def parse_steps(data: bytes, name: str, *, is_json: bool) -> StepList:
    """The steps of a content; errors begin with the name."""
    records, circuits = parse_records(data, name, LAYOUT, is_json=is_json)
    with errors_at(name):
        sets = None if circuits is None else _circuits(circuits)
    numbers = {each: at for at, each in enumerate(sets or ())}
    steps: list[tuple[int, Fraction]] = []
    for place, step in records:
        with errors_at(place):
            if sets is not None and step.configuration not in sets:
                raise ValueError(f"configuration {shown(step.configuration)} has no circuits")
            configuration = numbers.setdefault(step.configuration, len(numbers))
            if configuration >= MAX_CONFIGURATIONS:
                most = f"more than {MAX_CONFIGURATIONS} configurations"
                raise ValueError(f"{most}: no more are planned")
            LAYOUT.check_number(len(steps) + step.count)
            steps += [(configuration, step.num_bytes)] * step.count
    if not steps:
        raise ValueError(f"{name}: there are no steps: at least one is needed")
    configurations, step_bytes = zip(*steps, strict=True)
    changed = None if sets is None else _changed(sets)
    return StepList(tuple(numbers), configurations, step_bytes, changed)


STEP_FORMATS: dict[str, Format[StepList]] = {
    "csv": Format("a step a line", partial(parse_steps, is_json=False), None, (".csv", ".tsv")),
    "json": Format("steps", partial(parse_steps, is_json=True), None, (".json",), (b"{", b"[")),
}
"""Every format of step lists."""


def _changed(sets: dict[str, frozenset[tuple[int, int]]]) -> tuple[tuple[int, ...], ...]:
    """Circuits of every configuration that each lacks, and that a plane without circuits lacks."""
    held = [*sets.values(), frozenset[tuple[int, int]]()]
    return tuple(tuple(len(after - before) for after in sets.values()) for before in held)


def _name(value: Any, name: str) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    is_short = isinstance(value, str) and 0 < len(value) <= _MAX_NAME
    if not is_short or not value.isprintable():
        rule = "it must be printable" if is_short else "it is a short text"
        raise ValueError(f"{name}: {shown(value)} is not a name of a configuration: {rule}")
    return str(value)


_RULE = "more than 0, to 1e24"
LAYOUT = RecordLayout(
    "step list",
    "step",
    {
        "configuration": ("configuration", _name),
        "size": (
            "num_bytes",
            within(quantity(parse_size, "4MB"), 0, _LARGEST, _RULE, is_zero_allowed=False),
        ),
        "bytes": ("num_bytes", within(number, 0, _LARGEST, _RULE, is_zero_allowed=False)),
        "count": ("count", count_to(MAX_STEPS)),
    },
    ("configuration", "num_bytes"),
    _Step,
    MAX_STEPS,
    other="configurations",
)
"""Every column of a CSV step list and key of a step in JSON."""


def _circuits(value: Any) -> dict[str, frozenset[tuple[int, int]]]:
    """The circuits of every configuration."""
    if not isinstance(value, dict) or not value:
        raise ValueError(f"configurations is {shown(value)}: it names lists of circuits")
    if len(value) > MAX_MATRIX:
        raise ValueError(f"configurations: circuits of more than {MAX_MATRIX} are not read")
    sets = {_name(name, "configurations"): _set_of(pairs, name) for name, pairs in value.items()}
    if sum(map(len, sets.values())) > MAX_CIRCUITS:
        raise ValueError(f"configurations: more than {MAX_CIRCUITS} circuits are not read")
    return sets


def _set_of(pairs: Any, name: str) -> frozenset[tuple[int, int]]:
    if not isinstance(pairs, list) or not pairs:
        raise ValueError(f"configurations.{name} is {shown(pairs)}: it is a list of circuits")
    circuits = set()
    for position, pair in enumerate(pairs):
        place = path_text(("configurations", name, position))
        circuits.add(_circuit(pair, place))
        if len(circuits) <= position:
            raise ValueError(f"{place}: the circuit {shown(pair)} is there twice")
    for side, what in ((0, "begin"), (1, "end")):
        ports = Counter(circuit[side] for circuit in circuits)
        twice = [port for port, times in ports.items() if times > 1]
        if twice:
            raise ValueError(f"configurations.{name}: two circuits {what} at port {min(twice)}")
    return frozenset(circuits)


def _circuit(pair: Any, place: str) -> tuple[int, int]:
    good = isinstance(pair, list) and len(pair) == 2
    if not good or any(type(port) is not int or not 0 <= port < 2**31 for port in pair):
        raise ValueError(f"{place} is {shown(pair)}: a circuit is two ports, numbers from 0")
    return pair[0], pair[1]


# Trace files: the collectives of a job in order, as CSV or JSON.
#
# Columns of a CSV file, named by its first line in any order, and keys of a job in JSON alike:
#
# =============================== ========================================================
# ``collective`` allgather, reduce-scatter, allreduce or alltoall ``message`` (or M, the buffer of
# a rank, with its unit, as in ``message_bytes``) ``64MiB`` (a number) ``gap`` (or ``gap_s``) time
# before it that needs no circuits, as in ``1.5ms`` (a number of seconds); 0 by default
# ``gap_after`` (``gap_after_s``) the same after it ``count`` how often it comes in a row, 1 by
# default =============================== ========================================================
#
# ``records`` says how lines and cells are separated. JSON is a list of jobs, or an object
# ``{"jobs": [...], "repeat": 100}`` whose jobs are repeated as a whole.


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
    jobs, repeat = parse_records(data, name, TRACE_LAYOUT, is_json=is_json)
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
TRACE_LAYOUT = RecordLayout(
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
