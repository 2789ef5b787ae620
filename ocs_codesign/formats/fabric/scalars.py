"""Scalars of fabric files: quantities, names, port models and states, and how each is read."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.profiles import PROFILES, profile_named
from ocs_codesign.files.naming import shown
from ocs_codesign.quantities import parse_bandwidth, parse_time

MAX_TIME_S = 10**6
MAX_LOSS_DB = 1_000

BUDGETS_DB = {"DR4": 3.0, "FR4": 4.0}
"""What links of these transceiver classes may lose."""

PORT_MODELS = {f"P{number}": model for number, model in enumerate(PortModel, 1)}
"""Short names of the port models."""

ROTATIONS = "rotations"
_PATTERN = re.compile(r"([^{}]*)\{(?::0([1-9])d)?\}([^{}]*)")


def _time(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError(f"is {shown(value)}: write a time as text with its unit, as in 10us")
    seconds = parse_time(value)
    if seconds > MAX_TIME_S:
        raise ValueError(f"is {value}: at most {MAX_TIME_S} s are read")
    return seconds


def _bandwidth(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError(
            f"is {shown(value)}: write a bandwidth as text with its unit, as in 400Gbps"
        )
    bytes_per_s = parse_bandwidth(value)
    if bytes_per_s > 1e18:
        raise ValueError(f"is {value}: at most 10^18 bytes/s are read")
    return bytes_per_s


def _budget(value: Any) -> Any:
    if isinstance(value, str):
        if value.upper() not in BUDGETS_DB:
            names = " or ".join(f"{name} ({db:g} dB)" for name, db in BUDGETS_DB.items())
            raise ValueError(f"is {shown(value)}: write a number of dB, or the class {names}")
        return BUDGETS_DB[value.upper()]
    return value


def _port_model(value: Any) -> Any:
    known = {**PORT_MODELS, **{model.value: model for model in PortModel}}
    if not isinstance(value, str) or value not in known:
        names = ", ".join(f"{model.value} ({short})" for short, model in PORT_MODELS.items())
        raise ValueError(f"is {shown(value)}: it is one of {names}")
    return known[value]


def _profile_name(value: Any) -> Any:
    profile_named(value)
    return value


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


def _pattern(value: Any) -> Any:
    if isinstance(value, str):
        pattern_parts(value)
    return value


def _states(value: Any) -> Any:
    if isinstance(value, str) and value != ROTATIONS:
        raise ValueError(f"is {shown(value)}: write a table of ports, or {ROTATIONS}")
    if isinstance(value, list) and not all(
        isinstance(row, list) and all(type(port) is int and abs(port) < 2**31 for port in row)
        for row in value
    ):
        raise ValueError("must be a table of whole numbers, a row a state")
    if not isinstance(value, (str, list)):
        raise ValueError(f"is {shown(value)}: write a table of ports, or {ROTATIONS}")
    return value


def _text_schema(example: str, description: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "examples": [example], "description": description})


Time = Annotated[float, BeforeValidator(_time), _text_schema("10us", "A time with its unit.")]
Bandwidth = Annotated[
    float,
    BeforeValidator(_bandwidth),
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
Pattern = Annotated[str, BeforeValidator(_pattern), Field(max_length=100)]
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
States = Annotated[
    Any,
    BeforeValidator(_states),
    WithJsonSchema(
        {
            "anyOf": [
                {"const": ROTATIONS},
                {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
            ]
        }
    ),
]
ProfileName = Annotated[
    str, BeforeValidator(_profile_name), WithJsonSchema({"enum": sorted(PROFILES)})
]
