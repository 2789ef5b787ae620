"""Ticks: exact numbers as whole multiples of one fraction, which compiled loops add exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.quantities import exact

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.reconfigure.blocking.problem import Numbers

INFINITE = 2**60
"""What stands for infinity among int64 ticks; three of them can be added."""

_LIMIT = 2**59
_SMALL = 2**21
_DIGITS = 10**15
_MAX_DECIMALS = 22


@final
@dataclass(frozen=True, slots=True, eq=False)
class Ticks:
    """Costs (R, K), switching costs (K, K) or (1, 1), first ones (K,) and gaps (R,) in ticks.

    Arrays are int64, or Python integers in object arrays where sums over all steps might not fit;
    ``infinite`` stands for infinity, and no sum of finite ones reaches it. If ``rounded``, costs
    are rounded down and gaps up, so that what is proven of ticks is a lower bound.
    """

    tick: Fraction
    costs: NDArray[Any]
    delta: NDArray[Any]
    first: NDArray[Any]
    gaps: NDArray[Any]
    infinite: int
    rounded: bool

    @property
    def is_compiled(self) -> bool:
        """Whether all ticks fit in int64, so that compiled loops can add them."""
        return self.costs.dtype != object


def read_numbers(values: Numbers, name: str) -> NDArray[Any]:
    """Numbers that are at least 0, as int64, float64 or objects (Fraction or infinity); read-only.

    Raises ValueError with the place for anything else.
    """
    array = np.array(values)
    if array.dtype.kind in "iu" and not (array.size and array.max() >= 2**62):
        array = array.astype(np.int64)
    elif array.dtype.kind == "f":
        array = array.astype(np.float64)
    elif array.dtype.kind in "uO":
        fractions = [_fraction(value, name) for value in array.ravel().tolist()]
        array = np.array([*fractions, None], dtype=object)[:-1].reshape(array.shape)
    else:
        raise ValueError(f"{name} must be numbers: an array of {array.dtype} was given")
    wrong = ~(array >= 0)
    if wrong.any():
        at = np.unravel_index(int(np.argmax(wrong)), array.shape)
        place = "".join(f"[{index}]" for index in at)
        rule = "a number is needed" if array[at] != array[at] else "it cannot be negative"
        raise ValueError(f"{name}{place} is {array[at]}: {rule}")
    array.setflags(write=False)
    return array


def number_at(array: NDArray[Any], at: int | tuple[int, ...]) -> Fraction:
    """The exact value of a finite entry; floats are the decimals that they print as."""
    value = array[at]
    return exact(value.item() if isinstance(value, np.generic) else value)


def is_finite(array: NDArray[Any]) -> NDArray[np.bool_]:
    """Which entries are finite."""
    if array.dtype == object:
        found = [not isinstance(value, float) for value in array.ravel().tolist()]
        return np.array(found, dtype=bool).reshape(array.shape)
    finite: NDArray[np.bool_] = np.isfinite(array)
    return finite


def to_ticks(
    costs: NDArray[Any],
    delta: NDArray[Any],
    first: NDArray[Any],
    gaps: NDArray[Any],
    times: NDArray[np.int64],
) -> Ticks:
    """The coarsest ticks that are exact; rounded ones in large problems of long decimals.

    ``times`` (R,) says how many steps have each row of the costs.
    """
    small = int(times.sum()) * costs.shape[1] ** 2 <= _SMALL
    scaled = [_exactly(array, small) for array in (costs, delta, first, gaps)]
    known = [one for one in scaled if one is not None]
    if len(known) < len(scaled):
        return _rounded_ticks(costs, delta, first, gaps, times)
    denominator = math.lcm(*(one.denominator for one in known))
    whole = [one.times(denominator // one.denominator) for one in known]
    common = reduce(math.gcd, (_gcd(array) for array in whole), 0) or 1
    whole = [_divided(array, common) for array in whole]
    upper = _upper_sum(whole, times)
    fits = upper < _LIMIT and _largest(whole[3]) < _LIMIT
    infinite = INFINITE if fits else upper + 1
    dtype = np.int64 if fits else object
    work, switch, entry, wait = (
        _filled(array.astype(dtype), one.infinite, infinite)
        for array, one in zip(whole, known, strict=True)
    )
    return Ticks(Fraction(common, denominator), work, switch, entry, wait, infinite, False)


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Scaled:
    """Whole numbers over a denominator, 0 where the value is infinite."""

    whole: NDArray[Any]
    denominator: int
    infinite: NDArray[np.bool_]

    def times(self, factor: int) -> NDArray[Any]:
        """The whole numbers times a factor, in Python integers if int64 is too small."""
        if self.whole.dtype != object and max(_largest(self.whole), 1) * factor < 2**62:
            return self.whole * np.int64(factor)
        return self.whole.astype(object) * factor


def _exactly(array: NDArray[Any], at_any_size: bool) -> _Scaled | None:
    """The numbers over their common denominator; None for long decimals if that is too slow."""
    if array.dtype == np.float64:
        short = _short_decimals(array)
        if short is not None or not at_any_size:
            return short
        array = read_numbers(array.astype(object), "numbers")
    infinite = ~is_finite(array)
    if array.dtype == object:
        finite = [0 if skip else v for v, skip in zip(array.flat, infinite.flat, strict=True)]
        denominator = math.lcm(*{value.denominator for value in finite})
        whole = [value.numerator * (denominator // value.denominator) for value in finite]
        entries = np.array([*whole, None], dtype=object)[:-1]
        return _Scaled(entries.reshape(array.shape), denominator, infinite)
    return _Scaled(array, 1, infinite)


def _short_decimals(array: NDArray[np.float64]) -> _Scaled | None:
    """Floats that print as decimals of at most 15 digits."""
    infinite = ~np.isfinite(array)
    values = np.where(infinite, 0.0, array)
    for decimals in range(_MAX_DECIMALS + 1):
        scaled = np.rint(values * 10.0**decimals)
        if _largest(scaled) >= _DIGITS:
            return None
        if np.array_equal(scaled / 10.0**decimals, values):
            # No other decimal of so few digits is read as the same float.
            return _Scaled(scaled.astype(np.int64), 10**decimals, infinite)
    return None


def _rounded_ticks(
    costs: NDArray[Any],
    delta: NDArray[Any],
    first: NDArray[Any],
    gaps: NDArray[Any],
    times: NDArray[np.int64],
) -> Ticks:
    sizes = [exact(_largest(np.where(is_finite(one), one, 0))) for one in (costs, delta, first)]
    upper = int(times.sum()) * (sizes[0] + sizes[1]) + sizes[2] + exact(_largest(gaps))
    small = 1 - math.floor(1 / upper).bit_length()
    power = 58 - (math.ceil(upper).bit_length() if upper >= 1 else small)
    return Ticks(
        Fraction(2) ** -power,
        _floored(costs, power),
        _floored(delta, power),
        _floored(first, power),
        -_floored(-gaps, power),
        INFINITE,
        True,
    )


def _floored(array: NDArray[Any], power: int) -> NDArray[np.int64]:
    """Ticks of 2^-power not above the values, which are floats to be read as decimals, or exact."""
    infinite = ~is_finite(array)
    values = np.where(infinite, 0, array)
    if array.dtype == np.float64:
        # The decimal that a float prints as is no further from it than the next float.
        below = np.where(values == 0, values, np.nextafter(values, -np.inf))
        whole = np.floor(np.ldexp(below, power)).astype(np.int64)
    else:
        tick = Fraction(2) ** -power
        entries = [math.floor(Fraction(value) / tick) for value in values.ravel().tolist()]
        whole = np.array(entries, dtype=np.int64).reshape(array.shape)
    return _filled(whole, infinite, INFINITE)


def _filled(array: NDArray[Any], infinite: NDArray[np.bool_], value: int) -> NDArray[Any]:
    array = np.array(array)
    array[infinite] = value
    array.setflags(write=False)
    return array


def _upper_sum(whole: list[NDArray[Any]], times: NDArray[np.int64]) -> int:
    """What no sum over all steps exceeds, infinities and gaps left out."""
    costs, delta, first, _ = whole
    worst = costs.max(axis=1).tolist()
    work: int = sum(cost * count for cost, count in zip(worst, times.tolist(), strict=True))
    switches: int = _largest(delta) * int(times.sum()) + _largest(first)
    return work + switches


def _largest(array: NDArray[Any]) -> Any:
    value = array.max() if array.size else 0
    return value.item() if isinstance(value, np.generic) else value


def _divided(array: NDArray[Any], divisor: int) -> NDArray[Any]:
    if array.dtype != object and divisor >= 2**63:
        array = array.astype(object)
    return np.asarray(array // divisor)


def _gcd(array: NDArray[Any]) -> int:
    if array.dtype == object:
        return math.gcd(*array.ravel().tolist())
    return int(np.gcd.reduce(array, axis=None))


def _fraction(value: Any, name: str) -> Fraction | float:
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float) and not math.isfinite(value):
        return value
    try:
        return exact(value, name)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be numbers: {value!r} is none") from None
