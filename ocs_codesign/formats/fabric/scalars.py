"""Scalars of fabric files: quantities, names, port models and states, and how each is read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.profiles import PROFILES, profile_named
from ocs_codesign.files.naming import shown
from ocs_codesign.quantities import parse_bandwidth, parse_time

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_TIME_S = 10**6
MAX_BANDWIDTH_BPS = 10**18
MAX_LOSS_DB = 1_000

BUDGETS_DB = {"DR4": 3.0, "FR4": 4.0}
"""What links of these transceiver classes may lose."""

PORT_MODELS = {f"P{number}": model for number, model in enumerate(PortModel, 1)}
"""Short names of the port models."""

ROTATIONS = "rotations"
_PATTERN = re.compile(r"([^{}]*)\{(?::0([1-9])d)?\}([^{}]*)")


def _quantity(
    parse: Callable[[str], float], what: str, example: str, most: float, limit: str
) -> BeforeValidator:
    """A reader of ``what`` as text with its unit, up to ``most``, which ``limit`` says in words."""

    def read(value: Any) -> float:
        if not isinstance(value, str):
            raise ValueError(
                f"is {shown(value)}: write {what} as text with its unit, as in {example}"
            )
        number = parse(value)
        if number > most:
            raise ValueError(f"is {value}: at most {limit} are read")
        return number

    return BeforeValidator(read)


def _budget(value: Any) -> Any:
    if isinstance(value, str):
        if value.upper() not in BUDGETS_DB:
            names = " or ".join(f"{name} ({db:g} dB)" for name, db in BUDGETS_DB.items())
            raise ValueError(f"is {shown(value)}: write a number of dB, or the class {names}")
        return BUDGETS_DB[value.upper()]
    return value


def _port_model(value: Any) -> PortModel:
    known = {**PORT_MODELS, **{model.value: model for model in PortModel}}
    if not isinstance(value, str) or value not in known:
        names = ", ".join(f"{model.value} ({short})" for short, model in PORT_MODELS.items())
        raise ValueError(f"is {shown(value)}: it is one of {names}")
    return known[value]


def pattern_parts(pattern: str) -> tuple[str, int, str]:
    """What is before the number, its width with leading zeros, and what is after it.

    >>> pattern_parts("host{:03d}")
    ('host', 3, '')
    """
    match = _PATTERN.fullmatch(pattern)
    if match is None:
        raise ValueError(
            f"is {shown(pattern)}: it has one {{}} or one such as {{:03d}} for the number"
        )
    return match.group(1), int(match.group(2) or 0), match.group(3)


def _states(value: Any) -> Any:
    if isinstance(value, list):
        for row in value:
            if not isinstance(row, list) or not all(
                type(port) is int and abs(port) < 2**31 for port in row
            ):
                raise ValueError("must be a table of whole numbers, a row a state")
    elif value != ROTATIONS:
        raise ValueError(f"is {shown(value)}: write a table of ports, or {ROTATIONS}")
    return value


def _checked(check: Callable[[str], object]) -> BeforeValidator:
    """Texts that pass a check, which raises ValueError else; what is no text is left as it is."""

    def read(value: Any) -> Any:
        if isinstance(value, str):
            check(value)
        return value

    return BeforeValidator(read)


def _text_schema(example: str, description: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "examples": [example], "description": description})


Time = Annotated[
    float,
    _quantity(parse_time, "a time", "10us", MAX_TIME_S, f"{MAX_TIME_S} s"),
    _text_schema("10us", "A time with its unit."),
]
Bandwidth = Annotated[
    float,
    _quantity(parse_bandwidth, "a bandwidth", "400Gbps", MAX_BANDWIDTH_BPS, "10^18 bytes/s"),
    _text_schema("400Gbps", "A bandwidth with its unit: b or bit are bits, B is bytes."),
]
Loss = Annotated[float, Field(ge=0, le=MAX_LOSS_DB, allow_inf_nan=False)]
Budget = Annotated[
    Loss,
    BeforeValidator(_budget),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0}, {"enum": sorted(BUDGETS_DB)}]}),
]
Model = Annotated[
    PortModel,
    BeforeValidator(_port_model),
    WithJsonSchema({"enum": [*(model.value for model in PortModel), *PORT_MODELS]}),
]
Pattern = Annotated[str, _checked(pattern_parts), Field(max_length=100)]
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
ProfileName = Annotated[str, _checked(profile_named), WithJsonSchema({"enum": sorted(PROFILES)})]
_TABLE = {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}
States = Annotated[
    Any, BeforeValidator(_states), WithJsonSchema({"anyOf": [{"const": ROTATIONS}, _TABLE]})
]
