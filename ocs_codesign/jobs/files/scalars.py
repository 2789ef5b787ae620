"""Quantities in files of jobs: times, sizes and bandwidths with their unit, read exactly."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from ocs_codesign.core.quantities import exact, parse_bandwidth, parse_size, parse_time
from ocs_codesign.core.shown import shown
from ocs_codesign.jobs.prices import ALGORITHMS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection


MAX_TIME_S, MAX_BYTES, MAX_BPS = 10**6, 10**15, 10**18


def _quantity(
    what: str, example: str, parse: Callable[[str], float], most: int, rule: str
) -> BeforeValidator:
    def read(value: Any) -> Fraction:
        if not isinstance(value, str):
            raise ValueError(
                f"is {shown(value)}: write a {what} as text with its unit, as in {example}"
            )
        number = exact(parse(value))
        if number > most:
            raise ValueError(f"is {value}: it is at most {rule}")
        return number

    return BeforeValidator(read)


def one_of(names: Collection[str]) -> BeforeValidator:
    """Text that is one of these names."""

    def read(value: Any) -> str:
        if not isinstance(value, str) or value not in names:
            raise ValueError(f"is {shown(value)}: it is one of {', '.join(names)}")
        return value

    return BeforeValidator(read)


def _text(example: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "examples": [example]})


_TIME = _quantity("time", "1.5ms", parse_time, MAX_TIME_S, f"{MAX_TIME_S} s")
_SIZE = _quantity("size", "64MiB", parse_size, MAX_BYTES, "10^15 bytes")
_RATE = _quantity("bandwidth", "400Gbps", parse_bandwidth, MAX_BPS, "10^18 bytes/s")
JobTime = Annotated[Any, _TIME, _text("1.5ms")]
JobSize = Annotated[Any, _SIZE, _text("64MiB")]
JobBandwidth = Annotated[Any, _RATE, _text("400Gbps")]
Algorithm = Annotated[Any, one_of(ALGORITHMS), WithJsonSchema({"enum": list(ALGORITHMS)})]
