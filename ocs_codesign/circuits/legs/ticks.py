"""Ticks: exact numbers as whole multiples of one fraction, which compiled loops add exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.quantities import exact

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.circuits.legs.plan import Numbers


_LIMIT = 2**59


@final
@dataclass(frozen=True, slots=True, eq=False)
class Ticks:
    """Costs (R, K), switching costs (K, K) or (1, 1), first ones (K,) and gaps (R,) in ticks.

    Arrays are int64, or Python integers in object arrays where sums over all steps might not fit;
    ``infinite`` stands for infinity, and no sum of finite ones reaches it.
    """

    tick: Fraction
    costs: NDArray[Any]
    delta: NDArray[Any]
    first: NDArray[Any]
    gaps: NDArray[Any]
    infinite: int

    def beyond(self, price: Any, gap: Any) -> Any:
        """What switches of that price cost beyond a gap."""
        return np.where(price >= self.infinite, self.infinite, np.maximum(price - gap, 0))


def read_numbers(values: Numbers, name: str) -> NDArray[Any]:
    """Numbers that are at least 0, as int64 or objects (Fraction or infinity); read-only.

    Raises ValueError with the place for anything else.
    """
    array = np.array(values)
    if array.dtype.kind not in "iufO":
        raise ValueError(f"{name} must be numbers: an array of {array.dtype} was given")
    if array.dtype.kind in "iu" and not (array.size and array.max() >= 2**62):
        array = array.astype(np.int64)
    else:
        fractions = [_fraction(value, name) for value in array.ravel().tolist()]
        array = np.array([*fractions, None], dtype=object)[:-1].reshape(array.shape)
    with np.errstate(invalid="ignore"):  # no number is not at least 0
        wrong = ~(array >= 0).astype(bool)
    if wrong.any():
        at = np.unravel_index(int(np.argmax(wrong)), array.shape)
        place = "".join(f"[{index}]" for index in at)
        rule = "a number is needed" if array[at] != array[at] else "it cannot be negative"
        raise ValueError(f"{name}{place} is {array[at]}: {rule}")
    array.setflags(write=False)
    return array


def _fraction(value: Any, name: str) -> Fraction | float:
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float) and not math.isfinite(value):
        return value
    try:
        return exact(value, name)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be numbers: {value!r} is none") from None


def is_finite(array: NDArray[Any]) -> NDArray[np.bool_]:
    """Which entries are finite."""
    return np.asarray(array != np.inf)


def to_ticks(
    costs: NDArray[Any],
    delta: NDArray[Any],
    first: NDArray[Any],
    gaps: NDArray[Any],
    times: NDArray[np.int64],
) -> Ticks:
    """The numbers in the coarsest ticks; ``times`` (R,) says how many steps have each cost row."""
    given = costs, delta, first, gaps
    scaled = [_scaled(array) for array in given]
    denominator = math.lcm(*(own for _, own in scaled))
    whole = [_times(array, denominator // own) for array, own in scaled]
    common = math.gcd(*(int(np.gcd.reduce(array, axis=None)) for array in whole)) or 1
    whole = [(array if common < _LIMIT else array.astype(object)) // common for array in whole]
    worst = [int(array.max()) for array in whole]
    work = sum(np.multiply(whole[0].max(axis=1), times, dtype=object).tolist())
    upper = work + worst[1] * int(times.sum()) + worst[2]
    dtype = np.int64 if max(upper, worst[3]) < _LIMIT else object
    for at, numbers in enumerate(given):
        whole[at] = whole[at].astype(dtype)
        whole[at][~is_finite(numbers)] = upper + 1
        whole[at].setflags(write=False)
    costs, delta, first, gaps = whole
    return Ticks(Fraction(common, denominator), costs, delta, first, gaps, upper + 1)


def _scaled(array: NDArray[Any]) -> tuple[NDArray[Any], int]:
    """Whole numbers, 0 for infinity, and what they are to be divided by."""
    if array.dtype == np.int64:
        return array, 1
    finite = np.where(is_finite(array), array, 0)
    denominator = math.lcm(*{value.denominator for value in finite.flat})
    whole = [value.numerator * (denominator // value.denominator) for value in finite.flat]
    return np.array(whole, dtype=object).reshape(array.shape), denominator


def _times(whole: NDArray[Any], factor: int) -> NDArray[Any]:
    """Whole numbers times a factor, as Python integers if int64 is too small."""
    if whole.dtype != object and max(int(whole.max()), 1) * factor >= 2**62:
        whole = whole.astype(object)
    return whole * factor
