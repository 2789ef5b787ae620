"""Quantities with units as people write them: times, bandwidths and sizes, read exactly."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction

_NUMBER = re.compile(
    r"([+-]?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})(?:[eE][+-]?[0-9]{1,3})?)\s*(.*)"
)
_MAX_TEXT = 80

NUMBER = re.compile(r"[+-]?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})(?:[eE][+-]?[0-9]{1,2})?")
"""A decimal number of a length that is safe to work with exactly."""

_RATIO = re.compile(r"[+-]?[0-9]{1,100}/0*[1-9][0-9]{0,99}|[0-9]{1,100}")

_SI = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_IEC = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
_PREFIXES = {**_SI, **_IEC}

_TIME_UNITS = {
    "s": Decimal(1),
    "ms": Decimal("1e-3"),
    "us": Decimal("1e-6"),
    "\u00b5s": Decimal("1e-6"),  # the micro sign
    "\u03bcs": Decimal("1e-6"),  # the Greek letter
    "ns": Decimal("1e-9"),
    "ps": Decimal("1e-12"),
}
_SIZE_UNITS = {
    prefix + unit: scale * bits / Decimal(8)
    for unit, bits in (("B", 8), ("b", 1), ("bit", 1))
    for prefix, scale in _PREFIXES.items()
}
_BANDWIDTH_UNITS = {
    unit + per: scale
    for unit, scale in _SIZE_UNITS.items()
    for per in (("/s",) if unit.endswith("bit") else ("/s", "ps"))
}


def parse_time(text: str) -> float:
    """Seconds of a time such as ``10us``, ``1.5 ms`` or ``0s``; ValueError with the rule if none.

    >>> parse_time("10us"), parse_time("1.5 ms")
    (1e-05, 0.0015)
    """
    return _parse(text, "a time", _TIME_UNITS, "10us")


def parse_number(text: str, rule: str = "it must be a number such as 1.05 or 261/256") -> Fraction:
    """A decimal number or a fraction, exactly; ValueError with the rule if the text is neither.

    Digits are counted before anything is converted: ``1e999999999`` has no end as a fraction.

    >>> parse_number("1.05"), parse_number("261/256"), parse_number("1e-9")
    (Fraction(21, 20), Fraction(261, 256), Fraction(1, 1000000000))
    """
    text = text.strip()
    if not (NUMBER.fullmatch(text) or _RATIO.fullmatch(text)):
        raise ValueError(f"{_short(text)}: {rule}")
    return Fraction(text)


def whole(text: str) -> int | None:
    """The whole number that a text of at most 18 digits is, None for any other text.

    >>> whole("12"), whole("-1"), whole("²"), whole("9" * 5000)
    (12, None, None, None)
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def unit_of_bandwidth(text: str) -> Fraction:
    """Bytes a second of a unit of bandwidth, such as ``"Gbps"`` or ``"5 GB/s"``."""
    number = "" if text[0].isdigit() else "1"
    return exact(parse_bandwidth(f"{number}{text}".replace(" ", "")))


def parse_bandwidth(text: str) -> float:
    """Bytes per second of a bandwidth: ``b`` and ``bit`` are bits, ``B`` is bytes.

    >>> parse_bandwidth("100Gbps"), parse_bandwidth("12.5 GB/s"), parse_bandwidth("1Kibit/s")
    (12500000000.0, 12500000000.0, 128.0)
    """
    bandwidth = _parse(text, "a bandwidth", _BANDWIDTH_UNITS, "100Gbps or 12.5GB/s")
    if bandwidth <= 0:
        raise ValueError(f"{text!r}: a bandwidth must be positive")
    return bandwidth


def parse_size(text: str) -> float:
    """Bytes of a size: k, M, G, T are powers of 1000 and Ki, Mi, Gi, Ti of 1024."""
    return _parse(text, "a size", _SIZE_UNITS, "1MiB")


def exact(value: Fraction | float, name: str = "the value") -> Fraction:
    """A number as a fraction: a float is read as the decimal that it prints as.

    Raises ValueError with ``name`` if it is not finite.

    >>> exact(1e-05), exact(0.1) * 3
    (Fraction(1, 100000), Fraction(3, 10))
    """
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{name} is {value}: it must be finite")
        return Fraction(repr(float(value)))
    return Fraction(value)


def exact_time(value: Fraction | float, name: str) -> Fraction:
    """A time as a fraction; ValueError with ``name`` if it is negative or not finite."""
    time = exact(value, name)
    if time < 0:
        raise ValueError(f"{name} is {value}: a time cannot be negative")
    return time


def format_time(seconds: Fraction | float) -> str:
    """A time in the unit that suits it, to four digits.

    >>> format_time(1.4321e-4), format_time(0.0), format_time(75)
    ('143.2 us', '0 s', '75 s')
    """
    seconds = float(seconds)
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)):
        if seconds >= scale * 0.99995 or unit == "ns":
            break
    return "0 s" if seconds == 0 else f"{seconds / scale:.4g} {unit}"


def format_size(num_bytes: Fraction | float) -> str:
    """A number of bytes in the IEC or the SI unit that says it exactly with fewer digits.

    In four digits of the SI unit that suits it if neither does.

    >>> format_size(2**20), format_size(64_000_000), format_size(1_500_000), format_size(12)
    ('1 MiB', '64 MB', '1.5 MB', '12 B')
    """
    num_bytes = float(num_bytes)
    rounded = _scaled(num_bytes, "B")
    for prefix, scale in reversed(_IEC.items()):
        if num_bytes >= scale and num_bytes % scale == 0:
            binary = f"{num_bytes / scale:.0f} {prefix}B"
            is_exact = parse_size(rounded) == num_bytes
            return rounded if is_exact and _digits(rounded) < _digits(binary) else binary
    return rounded


def _digits(text: str) -> int:
    return sum(character.isdigit() for character in text)


def format_bandwidth(bytes_per_second: Fraction | float) -> str:
    """A bandwidth in bits per second, as links are sold.

    >>> format_bandwidth(12.5e9)
    '100 Gbps'
    """
    return _scaled(float(bytes_per_second) * 8, "bps")


def _scaled(value: float, unit: str) -> str:
    prefix, scale = max(
        ((p, s) for p, s in _SI.items() if s == 1 or value >= s), key=lambda entry: entry[1]
    )
    return f"{value / scale:.4g} {prefix}{unit}"


def _parse(text: str, kind: str, units: dict[str, Decimal], example: str) -> float:
    match = _NUMBER.fullmatch(text.strip()) if len(text) <= _MAX_TEXT else None
    if match is None:
        raise ValueError(
            f"{_short(text)} is not {kind}: write a number and a unit, as in {example}"
        )
    number, unit = match.groups()
    if not unit:
        raise ValueError(f"{_short(text)} has no unit: write {kind} as in {example}")
    if unit not in units:
        raise ValueError(_unknown_unit(text, number, unit, kind, units, example))
    value = float(Decimal(number) * units[unit])
    if not 0 <= value < float("inf"):
        raise ValueError(f"{_short(text)} is not {kind}: it must be finite and not negative")
    return value


def _unknown_unit(
    text: str, number: str, unit: str, kind: str, units: dict[str, Decimal], example: str
) -> str:
    if unit[0] == "K" and "k" + unit[1:] in units:
        rest = unit[1:]
        of = "bytes" if rest.startswith("B") else "bits"
        return (
            f"{_short(text)} is ambiguous: write {number}k{rest} (1000 {of} each) "
            f"or {number}Ki{rest} (1024 {of} each)"
        )
    near = sorted(name for name in units if name.casefold() == unit.casefold())
    hint = f"did you mean {' or '.join(near)}?" if near else f"write {kind} as in {example}"
    return f"unknown unit {_short(unit)} in {_short(text)}: {hint}"


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")
