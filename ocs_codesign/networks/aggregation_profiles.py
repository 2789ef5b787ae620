"""Profiles of aggregation in switches; every number with where it comes from."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ocs_codesign.aggregation import AggregationProfile

if TYPE_CHECKING:
    from collections.abc import Mapping

_WHOLE = ("num_slots", "slot_bytes", "header_bytes", "window", "copies")
_RATIONAL = ("rate_Bps", "latency_s", "conversion_Bps", "expansion")
_MAX_TEXT = 500


def _profile(name: str, arithmetic: str, **sourced: Any) -> AggregationProfile:
    """``sourced`` are numbers, each with where it comes from."""
    values = {field: number for field, (number, _) in sourced.items()}
    sources = tuple((field, text) for field, (_, text) in sourced.items())
    return AggregationProfile(name=name, arithmetic=arithmetic, sources=sources, **values)


AGGREGATION_PROFILES: Mapping[str, AggregationProfile] = {
    name: _profile(name, **fields)
    for name, fields in tomllib.loads(
        Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    ).items()
}
"""Every profile by its name, in the order of ``aggregation_profiles.toml``."""


def aggregation_named(text: str) -> AggregationProfile:
    """The profile that a text names, with other numbers where it says so.

    Raises ValueError for an unknown name or number, with those that there are.

    >>> aggregation_named("switchml").memory_bytes
    1048576
    >>> aggregation_named("switchml(num_slots=128, slot_bytes=128)").window
    128
    >>> aggregation_named("magic")
    Traceback (most recent call last):
    ValueError: no aggregation is named 'magic': known are switchml, sharp
    """
    match = re.fullmatch(r"\s*([\w-]+)\s*(?:\((.*)\))?\s*", text[:_MAX_TEXT], re.DOTALL)
    if match is None or match[1] not in AGGREGATION_PROFILES:
        shown = repr((match[1] if match else text)[:60])
        known = ", ".join(AGGREGATION_PROFILES)
        raise ValueError(f"no aggregation is named {shown}: known are {known}")
    profile = AGGREGATION_PROFILES[match[1]]
    given: dict[str, Any] = {}
    for part in filter(None, map(str.strip, (match[2] or "").split(","))):
        name, _, value = (piece.strip() for piece in part.partition("="))
        if name not in _WHOLE + _RATIONAL or name in given:
            known = ", ".join(_WHOLE + _RATIONAL)
            raise ValueError(f"{part[:60]!r} of {match[1]} is not one of {known}, once, as in a=1")
        given[name] = _number(name, value)
    if not given:
        return profile
    # A window that nobody named is the pool, also another one.
    follows = "num_slots" in given and profile.window == profile.num_slots
    changed = {"window": 0, **given} if follows else given
    sources = tuple(pair for pair in profile.sources if pair[0] not in given)
    sources += tuple((name, "as given") for name in given)
    told = ", ".join(f"{name}={value}" for name, value in given.items())
    return replace(profile, **changed, sources=sources, name=f"{profile.name}({told})")


def _number(name: str, value: str) -> int | Fraction | None:
    if value == "None" and name.endswith("_Bps"):
        return None
    try:
        if len(value) > 40 or re.search(r"[eE][+-]?\d{3,}", value):
            raise ValueError
        return int(value) if name in _WHOLE else Fraction(value)
    except (ValueError, ZeroDivisionError):
        kind = "whole number" if name in _WHOLE else "number, such as 1e-6 or 3/4"
        raise ValueError(f"{name} is {value[:40]!r}: it is a {kind}") from None
