"""Fields of trace files: what the columns or keys of a job are, and how their values are read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.collective import WITHOUT_PARAMETERS, Collective
from ocs_codesign.files.naming import shown
from ocs_codesign.quantities import exact, parse_size, parse_time
from ocs_codesign.reconfigure.hold.trace import MAX_JOBS, Job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MAX_MESSAGE_BYTES = 10**18
MAX_GAP_S = 10**9
LEAST_GAP_S = Fraction(1, 10**12)
LEAST_MESSAGE_BYTES = Fraction(1, 8)

_LEAST, _MOST = Decimal("1e-30"), Decimal("1e30")
_NUMBER = re.compile(
    r"[+-]?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})(?:[eE][+-]?[0-9]{1,2})?"
)
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")


@final
@dataclass(frozen=True, slots=True)
class Field:
    """A column or key: which part of a job it gives, and how its text and its value are read."""

    name: str
    part: str
    read: Callable[[Any, str], Any]


def _collective(value: Any, name: str) -> Collective:
    if not isinstance(value, str):
        raise ValueError(f"{name} is {shown(value)}: it must be a text")
    try:
        return Collective.parse(value)
    except ValueError:
        names = ", ".join(member.name for member in WITHOUT_PARAMETERS)
        raise ValueError(f"{name} {shown(value)} is not known: it is one of {names}") from None


def _message(value: Any, name: str) -> Fraction:
    return _between(_with_unit(value, name, parse_size, "1MiB"), name, *_MESSAGES)


def _message_bytes(value: Any, name: str) -> Fraction:
    return _between(_number(value, name), name, *_MESSAGES)


def _gap(value: Any, name: str) -> Fraction:
    return _between(_with_unit(value, name, parse_time, "1.5ms"), name, *_GAPS)


def _gap_s(value: Any, name: str) -> Fraction:
    return _between(_number(value, name), name, *_GAPS)


def count_of(value: Any, name: str) -> int:
    """A number of times, from 1 to MAX_JOBS; ValueError with ``name`` for anything else."""
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        said = str(value) if isinstance(value, Decimal) else shown(value)
        raise ValueError(f"{name} is {said}: it must be a whole number")
    if not 1 <= value <= MAX_JOBS:
        raise ValueError(f"{name} is {shown(value)}: it must be from 1 to {MAX_JOBS}")
    return value


_MESSAGES = LEAST_MESSAGE_BYTES, Fraction(MAX_MESSAGE_BYTES), "1 bit", "10^18 bytes"
_GAPS = LEAST_GAP_S, Fraction(MAX_GAP_S), "1 ps", "10^9 seconds"
FIELDS: dict[str, Field] = {
    field.name: field
    for field in (
        Field("collective", "collective", _collective),
        Field("message", "message_bytes", _message),
        Field("message_bytes", "message_bytes", _message_bytes),
        Field("gap", "gap_before_s", _gap),
        Field("gap_s", "gap_before_s", _gap_s),
        Field("gap_after", "gap_after_s", _gap),
        Field("gap_after_s", "gap_after_s", _gap_s),
        Field("count", "count", count_of),
    )
}
"""Every column of a CSV trace and key of a job in JSON."""


def check_parts(fields: Iterable[Field]) -> None:
    """ValueError unless every part of a job is given once at most, and the two that it needs."""
    names: dict[str, str] = {}
    for field in fields:
        if field.part in names:
            raise ValueError(
                f"both {names[field.part]} and {field.name} are given: only one can be"
            )
        names[field.part] = field.name
    for part, wanted in (("collective", "collective"), ("message_bytes", "message")):
        if part not in names:
            raise ValueError(f"there is no {wanted}: every job has one")


def check_keys(keys: Iterable[str], known: Iterable[str], place: str) -> None:
    """ValueError for a key that is not known."""
    for key in keys:
        if key not in known:
            raise ValueError(f"{place} names {shown(key)}: known are {', '.join(known)}")


def job_of(parts: dict[str, Any]) -> Job:
    """The job with these parts, named as in ``Field.part``."""
    return Job(
        parts["collective"],
        parts["message_bytes"],
        gap_before_s=parts.get("gap_before_s", 0),
        gap_after_s=parts.get("gap_after_s", 0),
        count=parts.get("count", 1),
    )


def _with_unit(value: Any, name: str, parse: Callable[[str], float], example: str) -> Fraction:
    if not isinstance(value, str):
        raise ValueError(
            f"{name} is {shown(value)}: write it as a text with a unit, as in {example}"
        )
    try:
        return exact(parse(value))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _number(value: Any, name: str) -> Fraction:
    """A number of JSON, or the text of one in a cell."""
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = Decimal(value)
    if isinstance(value, int) and not isinstance(value, bool):
        value = Decimal(value)
    if not isinstance(value, Decimal):
        raise ValueError(f"{name} is {shown(value)}: it must be a number without a unit")
    if value and not _LEAST <= value.copy_abs() <= _MOST:
        raise ValueError(f"{name} is {str(value)[:40]}: it is out of all proportion")
    return Fraction(value)


def _between(
    value: Fraction, name: str, least: Fraction, most: Fraction, shortest: str, longest: str
) -> Fraction:
    if value < 0:
        raise ValueError(f"{name} is {float(value):.6g}: it cannot be negative")
    if value and not least <= value <= most:
        raise ValueError(
            f"{name} is {float(value):.6g}: it must be 0 or from {shortest} to {longest}"
        )
    return value
